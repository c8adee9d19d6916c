//! A database that is slow, locked, refuses to write, or whose statements are cancelled.

use super::cut::Proxy;
use super::*;
use crate::Outcome;
use std::sync::atomic::AtomicBool;

const HOUR: Duration = Duration::from_secs(3600);

/// The middle one of so many calls.
fn median(mut call: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..21)
        .map(|_| {
            let start = Instant::now();
            call();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[10]
}

#[test]
fn a_schedule_takes_two_round_trips() {
    let Some(table) = Table::new() else {
        return;
    };
    let proxy = Proxy::start(Server::shared().unwrap());
    let timer = table.timer_at(&proxy.url(), DurableTimer::builder());
    timer.job("mail").after(HOUR).unwrap();
    let near = median(|| assert!(timer.job("mail").after(HOUR).is_ok()));
    let trip = Duration::from_millis(40);
    proxy.delay.store(20_000, Ordering::Relaxed);
    let far = median(|| assert!(timer.job("mail").after(HOUR).is_ok()));
    proxy.delay.store(0, Ordering::Relaxed);
    assert!(far >= trip, "{near:?} {far:?}");
    assert!(far <= near + trip * 5 / 2, "{near:?} {far:?}");
    timer.stop().unwrap();
}

#[test]
fn many_callers_behind_a_slow_link_share_their_transactions() {
    let Some(table) = Table::new() else {
        return;
    };
    let proxy = Proxy::start(Server::shared().unwrap());
    let timer = table.timer_at(&proxy.url(), DurableTimer::builder());
    let (callers, each) = (64, 10);
    let all = || {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..callers {
                scope.spawn(|| {
                    for _ in 0..each {
                        timer.job("mail").after(HOUR).unwrap();
                    }
                });
            }
        });
        start.elapsed()
    };
    let near = all();
    let trip = Duration::from_millis(40);
    proxy.delay.store(20_000, Ordering::Relaxed);
    let far = all();
    proxy.delay.store(0, Ordering::Relaxed);
    // Twelve for each round trip of a millisecond are 12 000 a second.
    let most = trip * callers * each / 12;
    assert!(far <= near + most, "{near:?} {far:?} {most:?}");
    timer.stop().unwrap();
}

#[test]
fn a_claim_is_found_by_its_id_whatever_is_known_of_the_table() {
    let Some(table) = Table::new() else {
        return;
    };
    drop(table.open(&[]));
    let names = Names::new(&table.prefix).unwrap();
    let mut admin = table.admin();
    admin.batch_execute(sql::BY_INDEX).unwrap();
    for (query, parameters) in [
        (Query::Done, "'{1}', '{1}'"),
        (Query::Renew, "'{1}', '{1}', 1"),
        (Query::PutBack, "1, 1, NULL, false, NULL"),
        (Query::Die, "1, 1, 'error'"),
        (Query::Interrupt, "1, 1, NULL, 'error', 0"),
    ] {
        let text = sql::text(query, &names);
        let statement = format!("PREPARE one AS {text}");
        admin.batch_execute(&statement).unwrap();
        let explained = admin
            .query(&format!("EXPLAIN EXECUTE one ({parameters})"), &[])
            .unwrap();
        let plan: Vec<String> = explained.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        assert!(plan.contains("jobs_pkey"), "{query:?}: {plan}");
        assert!(!plan.contains("jobs_lease"), "{query:?}: {plan}");
        admin.batch_execute("DEALLOCATE one").unwrap();
    }
}

#[test]
fn no_call_waits_longer_than_its_patience_for_a_lock_and_others_go_on() {
    let Some(table) = Table::new() else {
        return;
    };
    let builder = DurableTimer::builder().on("mail", |_| Outcome::Done);
    let timer = table.timer(builder.patience(ms(1500)));
    timer.job("call").key("a").after(HOUR).unwrap();
    // Somebody's open transaction on one key.
    table.execute("BEGIN; UPDATE {}jobs SET due = due WHERE key = 'a'");
    std::thread::scope(|scope| {
        let blocked = scope.spawn(|| {
            let start = Instant::now();
            (timer.cancel("a"), start.elapsed())
        });
        std::thread::sleep(ms(50));
        for _ in 0..20 {
            let start = Instant::now();
            timer.job("mail").after(Duration::ZERO).unwrap();
            assert!(start.elapsed() < ms(900), "{:?}", start.elapsed());
        }
        eventually("the others", || timer.stats().fired == 20);
        let (refused, waited) = blocked.join().unwrap();
        assert!(matches!(refused, Err(Error::Store(_))), "{refused:?}");
        assert!(waited >= ms(900) && waited < ms(3000), "{waited:?}");
    });
    table.execute("ROLLBACK");
    assert!(timer.cancel("a").unwrap());
    // As `CREATE INDEX` locks the table.
    table.execute("BEGIN; LOCK TABLE {}jobs IN SHARE MODE");
    let start = Instant::now();
    assert!(timer.job("mail").after(HOUR).is_err());
    assert!(start.elapsed() < ms(3000), "{:?}", start.elapsed());
    table.execute("ROLLBACK");
    eventually("an answer", || timer.job("mail").after(HOUR).is_ok());
    timer.stop().unwrap();
}

/// Beside a lock on the whole table each of them would wait for it, one after the other.
#[test]
fn a_crowd_beside_a_locked_table_is_answered_and_outcomes_are_kept() {
    let Some(table) = Table::new() else {
        return;
    };
    let (let_go, hold) = std::sync::mpsc::channel::<()>();
    let hold = Mutex::new(hold);
    let builder = DurableTimer::builder().on("mail", move |_| {
        let _ = hold.lock().unwrap().recv();
        Outcome::Done
    });
    let timer = table.timer(builder.patience(ms(1500)));
    for _ in 0..4 {
        timer.job("mail").after(Duration::ZERO).unwrap();
    }
    eventually("four runs", || timer.stats().fired == 4);
    table.execute("BEGIN; LOCK TABLE {}jobs IN SHARE MODE");
    // Four outcomes that cannot be stored.
    drop(let_go);
    let worst = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..200)
            .map(|number| {
                let timer = &timer;
                scope.spawn(move || {
                    let start = Instant::now();
                    let key = format!("{number}");
                    assert!(timer.job("call").key(key).after(HOUR).is_err());
                    start.elapsed()
                })
            })
            .collect();
        let waited = callers.into_iter().map(|caller| caller.join().unwrap());
        waited.max().unwrap()
    });
    assert!(worst < ms(10_000), "{worst:?}");
    table.execute("ROLLBACK");
    eventually("the outcomes", || table.count("kind = 'mail'") == 0);
    assert_eq!(timer.stats().fired, 4);
    timer.stop().unwrap();
}

/// A call that was tried again by itself says nothing about what is to be claimed.
#[test]
fn what_waits_is_still_claimed_after_a_call_that_met_a_lock() {
    let Some(table) = Table::new() else {
        return;
    };
    let timer = table.timer(DurableTimer::builder().on("mail", |_| Outcome::Done));
    timer.job("call").key("a").after(HOUR).unwrap();
    table.execute("BEGIN; UPDATE {}jobs SET due = due WHERE key = 'a'");
    std::thread::scope(|scope| {
        let blocked = scope.spawn(|| timer.cancel("a"));
        std::thread::sleep(ms(100));
        timer.job("mail").after(ms(1500)).unwrap();
        std::thread::sleep(ms(300));
        table.execute("ROLLBACK");
        assert!(blocked.join().unwrap().unwrap());
    });
    let start = Instant::now();
    eventually("the job", || timer.stats().fired == 1);
    assert!(start.elapsed() < Duration::from_secs(15), "{start:?}");
    timer.stop().unwrap();
}

#[test]
fn a_server_that_does_not_answer_is_waited_for_no_longer_than_patience() {
    let Some(table) = Table::new() else {
        return;
    };
    let proxy = Proxy::start(Server::shared().unwrap());
    let builder = DurableTimer::builder().patience(ms(1000));
    let timer = table.timer_at(&proxy.url(), builder);
    timer.job("mail").after(HOUR).unwrap();
    proxy.delay.store(20_000_000, Ordering::Relaxed);
    let start = Instant::now();
    assert!(timer.job("mail").after(HOUR).is_err());
    assert!(start.elapsed() < ms(4000), "{:?}", start.elapsed());
    proxy.delay.store(0, Ordering::Relaxed);
}

#[test]
fn cancelled_statements_store_what_they_acknowledge_and_nothing_else() {
    let Some(table) = Table::new() else {
        return;
    };
    let name = format!("cancelled_{}", table.prefix);
    let url = format!("{} application_name={name}", table.url);
    let timer = table.timer_at(&url, DurableTimer::builder().on("call", |_| Outcome::Done));
    let stop = AtomicBool::new(false);
    let (mut stored, mut errors) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // At any moment, in the middle of a COMMIT too.
            let sql = format!(
                "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE application_name = '{name}'"
            );
            while !stop.load(Ordering::Relaxed) {
                table.admin().query(&sql, &[]).unwrap();
                std::thread::sleep(ms(1));
            }
        });
        let start = Instant::now();
        // On a busy machine longer, until some were hit and some were not.
        let enough = |stored, errors| start.elapsed() > ms(4000) && stored > 0 && errors > 0;
        while !enough(stored, errors) && start.elapsed() < ms(60_000) {
            match timer.job("mail").after(HOUR) {
                Ok(_) => stored += 1,
                Err(Error::Store(error)) => {
                    assert!(!error.to_string().contains("nobody knows"), "{error}");
                    errors += 1;
                }
                Err(other) => panic!("{other}"),
            }
            let _ = timer.job("call").after(Duration::ZERO);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(table.count("kind = 'mail'"), stored, "{errors} errors");
    assert!(errors > 0 && stored > 0, "{errors} errors, {stored} stored");
    eventually("the others", || table.count("kind = 'call'") == 0);
    timer.stop().unwrap();
}

#[test]
fn a_database_that_refuses_to_write_is_left_alone_for_longer_and_longer() {
    let Some(table) = Table::new() else {
        return;
    };
    let timer = table.timer(DurableTimer::builder().on("mail", |_| Outcome::Done));
    timer.job("mail").after(ms(200)).unwrap();
    table.execute(
        "CREATE SEQUENCE {}tries;
        CREATE FUNCTION {}full() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM nextval('{}tries'); RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$;
        CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE OR DELETE ON {}jobs FOR EACH ROW EXECUTE FUNCTION {}full()",
    );
    std::thread::sleep(ms(3000));
    let sql = format!("SELECT last_value FROM {}tries", table.prefix);
    let tries: i64 = table.admin().query_one(&sql, &[]).unwrap().get(0);
    assert!((1..=20).contains(&tries), "{tries}");
    table.execute("DROP TRIGGER full_disk ON {}jobs");
    eventually("the job", || timer.stats().fired == 1);
    timer.stop().unwrap();
}

#[test]
fn counting_has_a_connection_of_its_own() {
    let Some(table) = Table::new() else {
        return;
    };
    let proxy = Proxy::start(Server::shared().unwrap());
    let timer = table.timer_at(&proxy.url(), DurableTimer::builder());
    timer.job("mail").after(HOUR).unwrap();
    timer.pending().unwrap();
    std::thread::scope(|scope| {
        // A reader that waits for a long time: for a lock that nobody else needs.
        table.execute("BEGIN; LOCK TABLE {}jobs IN ROW EXCLUSIVE MODE");
        let counting = scope.spawn(|| {
            let start = Instant::now();
            while start.elapsed() < ms(300) {
                assert!(timer.pending().unwrap() >= 1);
                assert!(timer.pending_estimate().unwrap() >= 1);
            }
        });
        for _ in 0..50 {
            timer.job("mail").after(HOUR).unwrap();
        }
        counting.join().unwrap();
        table.execute("ROLLBACK");
    });
    assert_eq!(timer.pending().unwrap(), 51);
    timer.stop().unwrap();
    assert!(matches!(timer.pending(), Err(Error::Stopped)));
}
