//! What a user can get wrong.

use super::*;
use crate::Outcome;
use crate::job::state::State;

fn refusal(builder: DurableTimerBuilder, url: &str) -> String {
    match builder.open_postgres(url) {
        Err(Error::Config(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_connection_string_that_cannot_be_read_is_refused_without_its_password() {
    for url in [
        "postgres://app:hunter2@db:port/shop",
        "postgres://app:hun?ter2=1@db/shop?x=hunter2",
        "postgres://app:x@hunter2@db/shop",
        "host=db password=my hunter2",
        "host=db password=my hunter2=x",
        "host=db password='hunter2",
        "hunter2",
        "mysql://app:hunter2@db/shop",
        "",
        "user=app password=hunter2",
    ] {
        let text = refusal(DurableTimer::builder(), url);
        assert!(
            !text.contains("hunter2") && !text.contains("ter2"),
            "{url}: {text}"
        );
        assert!(text.contains("connection string"), "{url}: {text}");
    }
    let text = refusal(DurableTimer::builder(), "postgres://db:port/shop");
    assert!(text.contains("`port`"), "{text}");
    let text = refusal(DurableTimer::builder(), "host=db colour=red");
    assert!(text.contains("`colour`"), "{text}");
}

#[test]
fn settings_out_of_their_range_are_refused_before_anything_is_connected() {
    for prefix in ["", "Jobs", "1st", "a b", "x;drop", &"p".repeat(41), "ä"] {
        let text = refusal(
            DurableTimer::builder().table_prefix(prefix),
            "host=db.invalid",
        );
        assert!(
            text.contains(&format!("{prefix:?}")) && text.contains("a-z"),
            "{text}"
        );
    }
    for lease in [ms(99), Duration::from_secs(86401), Duration::MAX] {
        let text = refusal(DurableTimer::builder().lease(lease), "host=db.invalid");
        assert!(
            text.contains(&format!("{lease:?}")) && text.contains("100ms to 86400s"),
            "{text}"
        );
    }
}

#[test]
fn a_server_that_cannot_be_reached_is_named_without_the_password() {
    let Err(Error::Store(error)) = DurableTimer::builder()
        .open_postgres("host=/nowhere user=app password=hunter2 dbname=shop")
    else {
        panic!()
    };
    let text = error.to_string();
    for part in ["/nowhere", "database shop", "user app", "cannot connect"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(
        !format!("{text} {error:?}").contains("hunter2"),
        "{error:?}"
    );
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn a_table_of_a_newer_version_or_of_somebody_else_is_refused() {
    let Some(table) = Table::new() else {
        return;
    };
    drop(table.open(&[]));
    let open = |table: &Table| match PostgresStore::open(table.options(), &[]) {
        Err(Error::Store(error)) => error.to_string(),
        other => panic!("{:?}", other.map(|_| ())),
    };
    table.execute("COMMENT ON TABLE {}jobs IS 'hashed-wheel-durable, schema 5'");
    let text = open(&table);
    assert!(
        text.contains("version 5") && text.contains("understands 4"),
        "{text}"
    );
    table.execute("COMMENT ON TABLE {}jobs IS NULL");
    let text = open(&table);
    assert!(text.contains("did not make it"), "{text}");
}

/// Makes a table as an older version did, with jobs in every state.
fn old_table(table: &Table, version: usize) {
    let names = Names::new(&table.prefix).unwrap();
    table.execute(&schema::STEPS[0](&names).replace(&table.prefix, "{}"));
    if version > 1 {
        table.execute(&schema::STEPS[1](&names).replace(&table.prefix, "{}"));
        table.execute("INSERT INTO {}jobs (id, state, kind, due, token, payload) VALUES (nextval('{}numbers'), 4, '', 0, 7, '')");
    }
    table.execute(&format!(
        "COMMENT ON TABLE {{}}jobs IS 'hashed-wheel-durable, schema {version}'"
    ));
    for (state, more) in [
        (0, "NULL, NULL, false, NULL"),
        (1, "NULL, NULL, false, NULL"),
        (2, "99, clock_timestamp(), true, NULL"),
        (3, "NULL, NULL, false, 'no user'"),
    ] {
        table.execute(&format!(
            "INSERT INTO {{}}jobs (id, state, kind, key, due, attempts, payload, token, lease, alone, error)
            VALUES (nextval('{{}}numbers'), {state}, 'mail', 'key {state}', 10, {state}, 'x', {more})"
        ));
    }
}

#[test]
fn a_table_of_an_older_version_is_brought_up_to_date_with_its_jobs() {
    for version in [1, 2] {
        let Some(table) = Table::new() else {
            return;
        };
        old_table(&table, version);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| drop(table.open(&[])));
            }
        });
        let mut store = table.open(&["mail".to_owned()]);
        let rows = store.reader().jobs(&crate::JobFilter::new()).unwrap();
        let seen: Vec<_> = rows
            .iter()
            .map(|row| (row.standing.state, row.standing.attempts))
            .collect();
        assert_eq!(
            seen,
            [
                (State::Waiting, 0),
                (State::Suspect, 1),
                (State::Charged, 2),
                (State::Dead, 3),
            ]
        );
        assert!(rows[3].died.is_some() && rows[3].error.as_deref() == Some("no user"));
        let recovered = store.recover(&|_, _, _| Some(5), 0).unwrap();
        assert_eq!(recovered.found, 1);
        let sql = format!(
            "SELECT obj_description(to_regclass('{}jobs'), 'pg_class')",
            table.prefix
        );
        let row = table.admin().query_one(&sql, &[]).unwrap();
        assert_eq!(row.get::<_, &str>(0), "hashed-wheel-durable, schema 4");
        drop(store);
        let timer = table.timer(DurableTimer::builder());
        assert!(timer.cancel("key 1").unwrap());
        timer.stop().unwrap();
    }
}

#[test]
fn a_process_of_an_older_version_claims_nothing_once_the_table_is_newer() {
    let Some(table) = Table::new() else {
        return;
    };
    let timer = table.timer(DurableTimer::builder().on("mail", |_| Outcome::Done));
    timer.job("mail").key("a").after(ms(300)).unwrap();
    // As a later version would do while this process runs.
    table.execute("UPDATE {}processes SET number = 5 WHERE id = 0");
    let error = timer.cancel("a").unwrap_err().to_string();
    assert!(
        error.contains("version 5") && error.contains("understands 4"),
        "{error}"
    );
    std::thread::sleep(ms(1000));
    assert_eq!(timer.stats().fired, 0);
    assert_eq!(table.count("state = 0"), 1);
    // It was a mistake.
    table.execute("UPDATE {}processes SET number = 4 WHERE id = 0");
    eventually("the job", || timer.stats().fired == 1);
    timer.stop().unwrap();
}

#[test]
fn the_statements_of_the_version_before_fail_on_a_newer_table() {
    let Some(table) = Table::new() else {
        return;
    };
    drop(table.open(&[]));
    // What version 0.1.0 claims with, and how it noted its transactions.
    for old in [
        "UPDATE {}jobs SET state = 2, alone = false WHERE state = 0",
        "INSERT INTO {}jobs (id, state, kind, due, payload) VALUES (1, 4, '', 0, '')",
    ] {
        let sql = old.replace("{}", &table.prefix);
        assert!(table.admin().batch_execute(&sql).is_err(), "{sql}");
    }
}

#[test]
fn the_longest_lease_and_horizon_work() {
    let Some(table) = Table::new() else { return };
    let builder = DurableTimer::builder()
        .on("mail", |_| Outcome::Done)
        .lease(LONGEST_LEASE)
        .horizon(Duration::MAX);
    let timer = table.timer(builder);
    timer.job("mail").after(Duration::ZERO).unwrap();
    eventually("the job", || timer.pending().unwrap() == 0);
    timer.stop().unwrap();
}

#[test]
fn many_processes_make_the_table_at_once() {
    let Some(table) = Table::new() else { return };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| drop(table.open(&[])));
        }
    });
}

#[test]
fn it_opens_inside_an_async_runtime() {
    let Some(table) = Table::new() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let timer = table.timer(DurableTimer::builder().on("mail", |_| Outcome::Done));
        timer.job("mail").after(Duration::ZERO).unwrap();
        eventually("the job", || timer.pending().unwrap() == 0);
        drop(timer);
    });
}

#[test]
fn an_error_text_with_a_nul_is_kept() {
    let Some(table) = Table::new() else { return };
    let timer = table.timer(DurableTimer::builder().on("mail", |_| Outcome::Dead("a\0b".into())));
    timer.job("mail").after(Duration::ZERO).unwrap();
    eventually("its death", || !timer.dead(1).unwrap().is_empty());
    assert_eq!(timer.dead(1).unwrap()[0].last_error, "a\u{fffd}b");
}
