//! Several stores on one table: leases, tokens, notices, the database's clock.

use super::*;
use crate::Outcome;
use crate::store::{Claim, Id};
use crate::time::NEVER;

fn mail() -> Vec<String> {
    vec!["mail".to_owned()]
}

fn schedule(key: Option<&str>, due: Millis) -> Op {
    Op::Schedule {
        kind: "mail".to_owned(),
        key: key.map(str::to_owned),
        payload: Vec::new(),
        due,
        replace: false,
    }
}

fn claim(store: &mut PostgresStore, limit: usize) -> Vec<Claim> {
    let op = Op::Claim {
        until: 1000,
        limit,
        bytes: usize::MAX,
    };
    match store.commit(&[op]).unwrap().replies.remove(0) {
        Reply::Claimed { claims, .. } => claims,
        other => panic!("{other:?}"),
    }
}

fn finish(store: &mut PostgresStore, claim: &Claim, verdict: Verdict) -> bool {
    let op = Op::Finish {
        id: claim.id,
        token: claim.token,
        verdict,
    };
    store.commit(&[op]).unwrap().replies.remove(0) == Reply::Found(true)
}

fn retry(_: Id, attempts: u32) -> Verdict {
    Verdict::Retry { due: 5, attempts }
}

#[test]
fn two_stores_share_what_is_due_and_tokens_grow() {
    let Some(table) = Table::new() else { return };
    let (mut one, mut other) = (table.open(&mail()), table.open(&mail()));
    let ops: Vec<Op> = (0..10).map(|due| schedule(None, due)).collect();
    one.commit(&ops).unwrap();
    let first = claim(&mut one, 4);
    let second = claim(&mut other, 100);
    assert_eq!((first.len(), second.len()), (4, 6));
    let last = first.iter().map(|claim| claim.token).max();
    assert!(second.iter().all(|claim| Some(claim.token) > last));
    assert!(claim(&mut one, 100).is_empty());
}

#[test]
fn a_claim_passes_over_what_another_transaction_has_locked() {
    let Some(table) = Table::new() else {
        return;
    };
    let mut store = table.open(&mail());
    store
        .commit(&[schedule(None, 1), schedule(None, 2)])
        .unwrap();
    table.execute("BEGIN; SELECT 1 FROM {}jobs WHERE due = 1 FOR UPDATE");
    let op = Op::Claim {
        until: 1000,
        limit: 10,
        bytes: usize::MAX,
    };
    let now = store.clock.now();
    let Reply::Claimed { claims, next } = store.commit(&[op]).unwrap().replies.remove(0) else {
        panic!()
    };
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0].due, 2);
    // Looked at again soon, not at once.
    assert!(
        next.is_some_and(|next| next > now && next <= now + 5000),
        "{next:?}"
    );
    table.execute("ROLLBACK");
    assert_eq!(claim(&mut store, 10)[0].due, 1);
}

#[test]
fn a_stale_acknowledgement_is_refused() {
    let Some(table) = Table::new() else {
        return;
    };
    let (mut stopped, mut other) = (table.open(&mail()), table.open(&mail()));
    stopped.commit(&[schedule(Some("a"), 1)]).unwrap();
    let stale = claim(&mut stopped, 1).remove(0);
    assert_eq!(other.recover(&retry).unwrap(), 0, "the lease is valid");
    table.lapse();
    assert_eq!(other.recover(&retry).unwrap(), 1);
    for verdict in [
        Verdict::Done,
        Verdict::GiveBack,
        Verdict::Retry {
            due: 9,
            attempts: 1,
        },
        Verdict::Dead {
            attempts: 1,
            error: String::new(),
        },
    ] {
        assert!(
            !finish(&mut stopped, &stale, verdict.clone()),
            "{verdict:?}"
        );
    }
    let reply = other
        .commit(&[Op::ClaimAlone { until: 10 }])
        .unwrap()
        .replies
        .remove(0);
    let Reply::Claimed { claims, .. } = reply else {
        panic!()
    };
    for verdict in [Verdict::Done, Verdict::GiveBack] {
        assert!(!finish(&mut stopped, &stale, verdict));
    }
    assert_eq!((claims[0].attempt, claims[0].alone), (1, true));
    assert!(claims[0].token > stale.token);
    assert!(finish(&mut other, &claims[0], Verdict::Done));
    assert_eq!(table.count("true"), 0);
}

#[test]
fn a_lease_is_renewed_and_a_lost_one_is_noticed() {
    let Some(table) = Table::new() else {
        return;
    };
    let place = Place {
        lease: ms(600),
        ..table.place()
    };
    let mut store = PostgresStore::open(place, &mail()).unwrap();
    store
        .commit(&[schedule(None, 1), schedule(None, 2)])
        .unwrap();
    let claims = claim(&mut store, 2);
    let mut other = table.open(&mail());
    for _ in 0..20 {
        std::thread::sleep(ms(100));
        store.upkeep(&retry);
        assert_eq!(other.recover(&retry).unwrap(), 0, "it is renewed");
    }
    assert!(store.leases.holds(claims[0].token) && store.leases.holds(claims[1].token));
    // Taken by another process.
    table.lapse();
    assert_eq!(other.recover(&retry).unwrap(), 2);
    store.next_renewal = Some(Instant::now());
    store.upkeep(&retry);
    assert!(!store.leases.holds(claims[0].token));
    assert!(store.leases.is_empty());
}

#[test]
fn a_lease_that_is_not_renewed_ends_here_before_it_ends_there() {
    let Some(table) = Table::new() else {
        return;
    };
    let place = Place {
        lease: ms(300),
        ..table.place()
    };
    let mut store = PostgresStore::open(place, &mail()).unwrap();
    store.commit(&[schedule(None, 1)]).unwrap();
    let claims = claim(&mut store, 1);
    while table.count("state = 2 AND lease <= clock_timestamp()") == 0 {
        std::thread::sleep(ms(1));
    }
    assert!(!store.leases.holds(claims[0].token));
}

#[test]
fn upkeep_takes_up_what_has_lapsed() {
    let Some(table) = Table::new() else {
        return;
    };
    let (mut dead, mut alive) = (table.open(&mail()), table.open(&mail()));
    dead.commit(&[schedule(None, 1), schedule(None, 2)])
        .unwrap();
    claim(&mut dead, 2);
    table.lapse();
    alive.next_look = Instant::now();
    let upkeep = alive.upkeep(&retry);
    assert_eq!(upkeep.earliest.interrupted, Some(1));
    assert_eq!(table.count("state = 1 AND attempts = 0"), 2);
}

#[test]
fn two_claims_of_the_same_key_that_lapse_share_it_between_them() {
    let Some(table) = Table::new() else {
        return;
    };
    let mut store = table.open(&mail());
    for due in [1, 2] {
        store.commit(&[schedule(Some("a"), due)]).unwrap();
        assert_eq!(claim(&mut store, 1).len(), 1);
    }
    table.lapse();
    assert_eq!(store.recover(&retry).unwrap(), 2);
    assert_eq!(table.count("state = 1 AND key = 'a'"), 1);
    assert_eq!(table.count("state = 1 AND key IS NULL"), 1);
}

#[test]
fn the_same_keys_from_many_sides_make_one_job_each() {
    let Some(table) = Table::new() else {
        return;
    };
    let new = Mutex::new(0);
    std::thread::scope(|scope| {
        for side in 0..6_u64 {
            let (table, new) = (&table, &new);
            scope.spawn(move || {
                let mut store = table.open(&mail());
                for round in 0..20_u64 {
                    // In another order on every side.
                    let ops: Vec<Op> = (0..10)
                        .map(|n| format!("{round}-{}", (n * (2 * side + 1) + side) % 10))
                        .map(|key| schedule(Some(&key), NEVER))
                        .collect();
                    let replies = store.commit(&ops).unwrap().replies;
                    let made = replies
                        .iter()
                        .filter(|reply| **reply == Reply::Scheduled(crate::Scheduled::New))
                        .count();
                    *new.lock().unwrap() += made;
                }
            });
        }
    });
    assert_eq!(*new.lock().unwrap(), 200);
    assert_eq!(table.count("true"), 200);
}

#[test]
fn a_notice_tells_the_others_of_what_is_due_soon_and_of_nothing_else() {
    let Some(table) = Table::new() else {
        return;
    };
    let mut store = table.open(&["far".to_owned()]);
    table
        .admin()
        .batch_execute(&format!("LISTEN {}jobs", table.prefix))
        .unwrap();
    let now = store.clock.now();
    let later = |seconds: i64| now + seconds * 1000;
    store.commit(&[schedule(None, later(3600))]).unwrap();
    store
        .commit(&[schedule(None, later(20)), schedule(None, later(10))])
        .unwrap();
    store.commit(&[schedule(Some("a"), later(7200))]).unwrap();
    store
        .commit(&[Op::Move {
            key: "a".into(),
            due: later(5),
        }])
        .unwrap();
    let mut heard = Vec::new();
    let mut admin = table.admin();
    let mut notifications = admin.notifications();
    let mut notices = notifications.timeout_iter(ms(500));
    while let Some(notice) =
        ::postgres::fallible_iterator::FallibleIterator::next(&mut notices).unwrap()
    {
        heard.push(notice.payload().to_owned());
    }
    assert_eq!(
        heard,
        [format!("{} mail", later(10)), format!("{} mail", later(5))]
    );
}

#[test]
fn a_handled_kind_is_announced_only_if_it_is_earlier() {
    let kinds = Kinds {
        names: mail(),
        handlers: HashMap::from([("mail".to_owned(), 0)]),
    };
    let mut announcer = Announcer {
        window: 1000,
        announced: HashMap::new(),
    };
    let waiting = |kind: &str, due| HashMap::from([(kind.to_owned(), due)]);
    let told = announcer.choose(0, &kinds, &waiting("mail", 500), None);
    assert_eq!(told, [("mail".to_owned(), 500)]);
    announcer.announced(&kinds, told);
    assert!(
        announcer
            .choose(100, &kinds, &waiting("mail", 600), None)
            .is_empty()
    );
    assert!(
        !announcer
            .choose(100, &kinds, &waiting("mail", 400), None)
            .is_empty()
    );
    // The one that they know of is past.
    assert!(
        !announcer
            .choose(501, &kinds, &waiting("mail", 600), None)
            .is_empty()
    );
    // Claimed by the transaction that stored it.
    assert!(
        announcer
            .choose(501, &kinds, &waiting("mail", 600), Some(600))
            .is_empty()
    );
    // Not ours: the claim was not of it, and nobody here sees to it.
    assert!(
        !announcer
            .choose(501, &kinds, &waiting("fax", 600), Some(600))
            .is_empty()
    );
    assert!(
        announcer
            .choose(0, &kinds, &waiting("fax", 1001), None)
            .is_empty()
    );
}

#[test]
fn a_job_of_another_process_is_fired_when_it_is_due() {
    let Some(table) = Table::new() else { return };
    let caller = table.timer(DurableTimer::builder());
    let (sender, late) = std::sync::mpsc::channel();
    let worker = table.timer(DurableTimer::builder().on("mail", move |job| {
        let late = std::time::SystemTime::now().duration_since(job.due());
        sender.send(late.expect("early")).unwrap();
        Outcome::Done
    }));
    for _ in 0..3 {
        caller.job("mail").after(ms(300)).unwrap();
        // Heard of, not found by the look that comes every half minute.
        assert!(late.recv().unwrap() < Duration::from_secs(15));
    }
    worker.stop().unwrap();
    caller.stop().unwrap();
}

#[test]
fn an_idle_timer_asks_twice_a_minute_at_most_however_short_its_lease_is() {
    let Some(table) = Table::new() else {
        return;
    };
    let url = format!("{} application_name=idle_{}", table.url, table.prefix);
    let idle = || DurableTimer::builder().on("mail", |_| Outcome::Done);
    let timers = [idle(), idle().lease(ms(200))].map(|idle| table.timer_at(&url, idle));
    timers[0]
        .job("mail")
        .after(Duration::from_secs(3600))
        .unwrap();
    std::thread::sleep(ms(1500));
    // The time of the last query of their connections: none is later, four seconds on.
    let sql = format!(
        "SELECT count(*), max(query_start)::text FROM pg_stat_activity WHERE application_name = 'idle_{}'",
        table.prefix
    );
    let before = table.admin().query_one(&sql, &[]).unwrap();
    std::thread::sleep(ms(4000));
    let after = table.admin().query_one(&sql, &[]).unwrap();
    assert_eq!(before.get::<_, i64>(0), 4);
    assert_eq!(before.get::<_, String>(1), after.get::<_, String>(1));
    assert!(LOOK >= Duration::from_secs(30));
    for timer in timers {
        timer.stop().unwrap();
    }
}

#[test]
fn who_was_too_late_for_a_claim_looks_again_when_its_lease_may_have_run_out() {
    let Some(table) = Table::new() else {
        return;
    };
    let place = || Place {
        lease: ms(300),
        ..table.place()
    };
    let mut dead = PostgresStore::open(place(), &mail()).unwrap();
    let mut alive = PostgresStore::open(place(), &mail()).unwrap();
    // Nothing is there, so it need not look for long.
    alive.look(&retry).unwrap();
    assert!(alive.next_look > Instant::now() + LOOK / 2);
    dead.commit(&[schedule(None, 1)]).unwrap();
    assert_eq!(claim(&mut dead, 1).len(), 1);
    assert!(claim(&mut alive, 1).is_empty());
    assert!(alive.next_look <= Instant::now() + ms(300));
    eventually("the lease runs out", || {
        alive.upkeep(&retry).earliest.interrupted == Some(1)
    });
}

/// Rows of processes.
fn processes(table: &Table) -> i64 {
    let sql = format!("SELECT count(*) FROM {}jobs WHERE state = 4", table.prefix);
    table.admin().query_one(&sql, &[]).unwrap().get(0)
}

#[test]
fn a_process_has_a_row_while_it_is_open_and_those_of_dead_ones_go_after_a_day() {
    let Some(table) = Table::new() else {
        return;
    };
    let (one, mut other) = (table.open(&mail()), table.open(&mail()));
    assert_eq!(processes(&table), 2);
    drop(one);
    assert_eq!(processes(&table), 1);
    // As if it had written nothing for a day.
    table.execute("UPDATE {}jobs SET attempts = attempts - 86400001 WHERE state = 4");
    drop(table.open(&mail()));
    assert_eq!(processes(&table), 0);
    // It is there after all: it makes another row, and what it stores is stored once.
    other.commit(&[schedule(Some("a"), NEVER)]).unwrap();
    assert_eq!(processes(&table), 1);
    assert_eq!(table.count("key = 'a'"), 1);
    // No job.
    let replies = other.commit(&[Op::Pending]).unwrap().replies;
    assert_eq!(replies, [Reply::Pending(1)]);
    // Noting the number of a transaction touches no index.
    for due in 1..=50 {
        other.commit(&[schedule(None, due)]).unwrap();
    }
    drop(other);
    let sql = format!(
        "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = '{}jobs'",
        table.prefix
    );
    eventually("updates without an index", || {
        let hot: i64 = table.admin().query_one(&sql, &[]).unwrap().get(0);
        hot >= 45
    });
}

#[test]
fn the_clock_is_the_servers_counted_on_from_its_receipt() {
    let clock = ServerClock::new();
    clock.set(1_000_000_000);
    let first = clock.nanos();
    assert!((1_000_000_000_000..2_000_000_000_000).contains(&first));
    std::thread::sleep(ms(20));
    assert!(clock.nanos() - first >= 20_000_000);
    // A step back shows with the next reading.
    clock.set(500_000_000);
    assert!(clock.nanos() < first);
}

#[test]
fn a_step_of_the_servers_clock_shows_at_the_next_query() {
    let Some(table) = Table::new() else { return };
    let mut store = table.open(&mail());
    // As if the server had been an hour behind at the last answer.
    store.clock.set(0);
    assert!(store.clock.now() < 60_000);
    store.commit(&[Op::Pending]).unwrap();
    assert!(store.clock.now() > 1_700_000_000_000);
}
