//! Jobs that are stored, moved and cancelled by SQL, inside somebody's own transaction; pauses for all processes.

use super::*;
use crate::{JobFilter, Outcome};

fn ask<T: for<'a> ::postgres::types::FromSql<'a>>(table: &Table, sql: &str) -> T {
    let sql = sql.replace("{}", &table.prefix);
    table.admin().query_one(&sql, &[]).unwrap().get(0)
}

#[test]
fn a_job_is_stored_with_the_callers_transaction_or_not_at_all() {
    let Some(table) = Table::new() else {
        return;
    };
    let (sender, late) = std::sync::mpsc::channel();
    let timer = table.timer(DurableTimer::builder().on("mail", move |job| {
        let late = std::time::SystemTime::now().duration_since(job.due());
        sender
            .send((job.payload().to_vec(), late.expect("early")))
            .unwrap();
        Outcome::Done
    }));
    timer.job("mail").after(Duration::ZERO).unwrap();
    late.recv().unwrap();
    table.execute("BEGIN; SELECT {}schedule('mail', NULL, now(), 'no', false); ROLLBACK");
    table.execute("BEGIN; SELECT {}schedule('mail', 'a', clock_timestamp() + interval '300 ms', 'yes', false)");
    std::thread::sleep(ms(100));
    assert_eq!(timer.pending().unwrap(), 0, "it is not committed");
    table.execute("COMMIT");
    assert_eq!(timer.pending().unwrap(), 1);
    let (payload, _) = late.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(payload, b"yes");
    eventually("its end", || timer.pending().unwrap() == 0);
    // Due since long, when it is committed.
    table.execute(
        "BEGIN; SELECT {}schedule('mail', 'a', now() - interval '1 hour', 'now', false); COMMIT",
    );
    let (payload, _) = late.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(payload, b"now");
    timer.stop().unwrap();
}

#[test]
fn the_functions_follow_the_rules_of_the_calls() {
    let Some(table) = Table::new() else {
        return;
    };
    let timer = table.timer(DurableTimer::builder());
    let hour = Duration::from_secs(3600);
    let id: i64 = ask(
        &table,
        "SELECT {}schedule('mail', 'a', now() + interval '1 hour', 'one', false)",
    );
    assert_eq!(
        timer.job("mail").key("a").after(hour).unwrap(),
        crate::Scheduled::Kept(id as u64)
    );
    let kept: i64 = ask(&table, "SELECT {}schedule('mail', 'a', now(), 'two')");
    let replaced: i64 = ask(
        &table,
        "SELECT {}schedule('call', 'a', now() + interval '2 hours', NULL, true)",
    );
    assert_eq!((kept, replaced), (id, id));
    let job = &timer.jobs(JobFilter::new()).unwrap()[0];
    assert_eq!((job.kind.as_str(), job.payload.len()), ("call", 0));
    assert!(ask::<bool>(
        &table,
        "SELECT {}reschedule('a', timestamptz '2100-01-01 00:00:00.0005+00')"
    ));
    let job = &timer.jobs(JobFilter::new()).unwrap()[0];
    assert_eq!(
        crate::time::millis_of(job.due),
        4_102_444_800_001,
        "rounded up"
    );
    assert!(!ask::<bool>(&table, "SELECT {}reschedule('b', now())"));
    assert!(ask::<bool>(&table, "SELECT {}cancel('a')"));
    assert!(!ask::<bool>(&table, "SELECT {}cancel('a')"));
    assert!(!timer.cancel("a").unwrap());
    ask::<i64>(
        &table,
        "SELECT {}schedule('mail', NULL, 'infinity', '', false)",
    );
    assert_eq!(
        crate::time::NEVER,
        ask::<i64>(&table, "SELECT due FROM {}jobs")
    );
    for (call, part) in [
        ("'', 'a', now(), 'x'", "a kind of 0 bytes"),
        ("NULL, 'a', now(), 'x'", "a kind of 0 bytes"),
        ("'mail', '', now(), 'x'", "a key of 0 bytes"),
        ("'mail', repeat('k', 513), now(), 'x'", "a key of 513 bytes"),
        ("'mail', 'a', NULL, 'x'", "due time"),
        (
            "'mail', 'a', now(), repeat('x', 1048577)::bytea",
            "1048577 bytes",
        ),
    ] {
        let sql = format!("SELECT {}schedule({call}, false)", table.prefix);
        let error = table.admin().query_one(&sql, &[]).unwrap_err();
        let text = error.as_db_error().unwrap().message().to_owned();
        assert!(text.contains(part), "{text}");
    }
    timer.stop().unwrap();
}

#[test]
fn a_pause_is_for_all_processes() {
    let Some(table) = Table::new() else {
        return;
    };
    let timers =
        [(), ()].map(|()| table.timer(DurableTimer::builder().on("mail", |_| Outcome::Done)));
    assert!(timers[0].pause("mail").unwrap());
    assert!(!timers[1].pause("mail").unwrap());
    timers[0].job("mail").after(Duration::ZERO).unwrap();
    timers[1].job("mail").after(Duration::ZERO).unwrap();
    std::thread::sleep(ms(500));
    assert_eq!(table.count("state = 0"), 2);
    let third = table.timer(DurableTimer::builder().on("mail", |_| Outcome::Done));
    std::thread::sleep(ms(200));
    assert_eq!(table.count("state = 0"), 2);
    assert!(timers[1].resume("mail").unwrap());
    eventually("both", || table.count("true") == 0);
    third.stop().unwrap();
    for timer in timers {
        timer.stop().unwrap();
    }
}
