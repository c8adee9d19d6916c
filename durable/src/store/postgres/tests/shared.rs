//! Several stores on one table: leases, tokens, notices, the database's clock.

use super::*;
use crate::Outcome;
use crate::store::{Claim, Reply};
use crate::time::NEVER;

fn mail() -> Vec<String> {
    vec!["mail".to_owned()]
}

fn schedule(key: Option<&str>, due: Millis) -> Call {
    Call::Schedule(vec![New {
        kind: "mail".to_owned(),
        key: key.map(str::to_owned),
        payload: Vec::new(),
        due,
        replace: false,
        rule: None,
    }])
}

fn request(limit: usize, suspect: bool) -> ClaimRequest {
    ClaimRequest {
        now: 0,
        until: 1000,
        limit,
        bytes: usize::MAX,
        suspect: suspect.then_some(1000),
        room: vec![usize::MAX],
    }
}

fn commit(store: &mut PostgresStore, calls: &[Call]) -> Committed {
    let deadline = store.deadline();
    store
        .commit(calls, &[], &request(0, false), deadline)
        .unwrap()
}

fn claiming(store: &mut PostgresStore, limit: usize, suspect: bool) -> Committed {
    let deadline = store.deadline();
    store
        .commit(&[], &[], &request(limit, suspect), deadline)
        .unwrap()
}

fn claim(store: &mut PostgresStore, limit: usize) -> Vec<Claim> {
    claiming(store, limit, false).claims
}

fn finish(store: &mut PostgresStore, claim: &Claim, verdict: Verdict) -> bool {
    let deadline = store.deadline();
    let end = claim.end(verdict);
    store
        .commit(&[], &[end], &request(0, false), deadline)
        .unwrap()
        .ended[0]
}

#[expect(clippy::unnecessary_wraps, reason = "a judge")]
fn retry(_: &str, _: Id, _: u32) -> Option<Millis> {
    Some(5)
}

fn recover(store: &mut PostgresStore) -> usize {
    store.recover(&retry, 0).unwrap().found
}

#[test]
fn two_stores_share_what_is_due_and_tokens_grow() {
    let Some(table) = Table::new() else { return };
    let (mut one, mut other) = (table.open(&mail()), table.open(&mail()));
    let calls: Vec<Call> = (0..10).map(|due| schedule(None, due)).collect();
    commit(&mut one, &calls);
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
    commit(&mut store, &[schedule(None, 1), schedule(None, 2)]);
    table.execute("BEGIN; SELECT 1 FROM {}jobs WHERE due = 1 FOR UPDATE");
    let now = store.clock.now();
    let Committed { claims, next, .. } = claiming(&mut store, 10, false);
    let next = next.waiting;
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
    commit(&mut stopped, &[schedule(Some("a"), 1)]);
    let stale = claim(&mut stopped, 1).remove(0);
    assert_eq!(recover(&mut other), 0, "the lease is valid");
    table.lapse();
    assert_eq!(recover(&mut other), 1);
    for verdict in [
        Verdict::Done,
        Verdict::GiveBack,
        Verdict::Retry {
            due: 9,
            error: None,
        },
        Verdict::Snooze { due: 9 },
        Verdict::Dead {
            error: String::new(),
        },
    ] {
        assert!(
            !finish(&mut stopped, &stale, verdict.clone()),
            "{verdict:?}"
        );
    }
    let claims = claiming(&mut other, 0, true).claims;
    for verdict in [Verdict::Done, Verdict::GiveBack] {
        assert!(!finish(&mut stopped, &stale, verdict));
    }
    assert_eq!((claims[0].attempt, claims[0].charged), (1, true));
    assert!(claims[0].token > stale.token);
    assert!(finish(&mut other, &claims[0], Verdict::Done));
    assert_eq!(table.count("true"), 0);
}

#[test]
fn a_lease_is_renewed_and_a_lost_one_is_noticed() {
    let Some(table) = Table::new() else {
        return;
    };
    let options = ConnectOptions {
        lease: ms(600),
        ..table.options()
    };
    let mut store = PostgresStore::open(options, &mail()).unwrap();
    commit(&mut store, &[schedule(None, 1), schedule(None, 2)]);
    let claims = claim(&mut store, 2);
    let held: Vec<(Id, u64)> = claims.iter().map(|claim| (claim.id, claim.token)).collect();
    let tokens: HashSet<u64> = claims.iter().map(|claim| claim.token).collect();
    let mut other = table.open(&mail());
    for _ in 0..15 {
        std::thread::sleep(ms(100));
        assert_eq!(store.renew(&held).unwrap(), tokens);
        assert_eq!(recover(&mut other), 0, "it is renewed");
    }
    // Taken by another process.
    table.lapse();
    assert_eq!(recover(&mut other), 2);
    assert_eq!(store.renew(&held).unwrap(), HashSet::new());
}

#[test]
fn a_handler_learns_that_its_lease_is_lost() {
    let Some(table) = Table::new() else {
        return;
    };
    let (sender, held) = std::sync::mpsc::channel();
    let timer = table.timer(
        DurableTimer::builder()
            .lease(ms(300))
            .on("mail", move |job| {
                sender.send(job.holds_lease()).unwrap();
                while job.holds_lease() {
                    std::thread::sleep(ms(1));
                }
                Outcome::Done
            }),
    );
    timer.job("mail").after(Duration::ZERO).unwrap();
    assert!(held.recv().unwrap());
    // Renewed meanwhile, until another process has it.
    std::thread::sleep(ms(700));
    let mut other = table.open(&mail());
    eventually("the other process", || {
        table.lapse();
        recover(&mut other) == 1
    });
    timer.stop().unwrap();
    assert_eq!(table.count("state = 1"), 1, "its outcome was refused");
}

#[test]
fn a_poll_takes_up_what_has_lapsed() {
    let Some(table) = Table::new() else {
        return;
    };
    let (mut dead, mut alive) = (table.open(&mail()), table.open(&mail()));
    commit(&mut dead, &[schedule(None, 1), schedule(None, 2)]);
    claim(&mut dead, 2);
    table.lapse();
    let polled = alive.poll(&retry, &[1]).unwrap();
    assert_eq!((polled.recovered.found, polled.next.suspect), (2, Some(1)));
    assert_eq!(table.count("state = 1 AND attempts = 0"), 2);
}

#[test]
fn a_poll_takes_up_so_many_at_a_time_and_an_open_takes_up_all() {
    let Some(table) = Table::new() else {
        return;
    };
    let (mut dead, mut alive) = (table.open(&mail()), table.open(&mail()));
    let many = 2 * LAPSED + 3;
    let mut lapse = || {
        let calls: Vec<Call> = (0..many).map(|_| schedule(None, 1)).collect();
        commit(&mut dead, &calls);
        assert_eq!(claim(&mut dead, many).len(), many);
        table.lapse();
    };
    lapse();
    for left in [LAPSED + 3, 3, 0] {
        alive.poll(&retry, &[1]).unwrap();
        assert_eq!(table.count("state = 2"), left as i64);
        // The next look is soon.
        assert!(alive.heard().1.unwrap() <= Instant::now() + AGAIN);
    }
    lapse();
    assert_eq!(recover(&mut alive), many);
}

#[test]
fn two_claims_of_the_same_key_that_lapse_share_it_between_them() {
    let Some(table) = Table::new() else {
        return;
    };
    let mut store = table.open(&mail());
    for due in [1, 2] {
        commit(&mut store, &[schedule(Some("a"), due)]);
        assert_eq!(claim(&mut store, 1).len(), 1);
    }
    table.lapse();
    assert_eq!(recover(&mut store), 2);
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
                    let calls: Vec<Call> = (0..10)
                        .map(|n| format!("{round}-{}", (n * (2 * side + 1) + side) % 10))
                        .map(|key| schedule(Some(&key), NEVER))
                        .collect();
                    let replies = commit(&mut store, &calls).replies;
                    let is_new = |reply: &&Reply| {
                        let Reply::Scheduled(scheduled) = reply else {
                            panic!("{reply:?}")
                        };
                        matches!(scheduled[0], crate::Scheduled::New(_))
                    };
                    let made = replies.iter().filter(is_new).count();
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
    commit(&mut store, &[schedule(None, later(3600))]);
    commit(
        &mut store,
        &[schedule(None, later(20)), schedule(None, later(10))],
    );
    commit(&mut store, &[schedule(Some("a"), later(7200))]);
    let (key, due) = ("a".to_owned(), later(5));
    commit(&mut store, &[Call::Move { key, due }]);
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
    let handled: Vec<Arc<str>> = vec!["mail".into()];
    let mut announcer = Announcer {
        window: 1000,
        announced: HashMap::new(),
        untold: HashMap::new(),
    };
    let mut choose = |now, kind: &'static str, due| {
        let told = announcer.choose(now, &handled, HashMap::from([(kind, due)]));
        announcer.announced(&handled, told.clone());
        !told.is_empty()
    };
    assert!(choose(0, "mail", 500));
    assert!(!choose(100, "mail", 600));
    assert!(choose(100, "mail", 400));
    // The one that they know of is past.
    assert!(choose(401, "mail", 600));
    // Not ours: nobody here sees to it.
    assert!(choose(401, "fax", 600) && choose(401, "fax", 600));
    assert!(!choose(0, "fax", 1001));
    // What is overdue is said now and then, and not forgotten.
    assert!(!choose(700, "mail", 600));
    std::thread::sleep(AGAIN);
    assert!(choose(700, "fax", 9999));
    assert!(!choose(700, "fax", 9999));
}

#[test]
fn what_a_claim_is_expected_to_take_is_not_announced() {
    let handled: Vec<Arc<str>> = vec!["mail".into()];
    let calls = [schedule(None, 600), schedule(None, 2000)];
    let due = |claim: &ClaimRequest| waiting(&calls, &[], claim, &handled).get("mail").copied();
    assert_eq!(due(&request(2, false)), Some(2000));
    assert_eq!(due(&request(1, false)), Some(600));
    assert_eq!(due(&request(0, false)), Some(600));
    let full = ClaimRequest {
        room: vec![1],
        ..request(9, false)
    };
    assert_eq!(due(&full), Some(600));
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
    // Each has one that writes, one that listens, and one that reads, which goes when nobody asks.
    assert!((4..=6).contains(&before.get::<_, i64>(0)));
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
    let options = || ConnectOptions {
        lease: ms(300),
        ..table.options()
    };
    let mut dead = PostgresStore::open(options(), &mail()).unwrap();
    let mut alive = PostgresStore::open(options(), &mail()).unwrap();
    // Nothing is there, so it need not look for long.
    alive.poll(&retry, &[1]).unwrap();
    assert!(alive.heard().1.unwrap() > Instant::now() + LOOK / 2);
    commit(&mut dead, &[schedule(None, 1)]);
    assert_eq!(claim(&mut dead, 1).len(), 1);
    assert!(claim(&mut alive, 1).is_empty());
    assert!(alive.heard().1.unwrap() <= Instant::now() + ms(300));
    eventually("the lease runs out", || {
        alive.poll(&retry, &[1]).unwrap().next.suspect == Some(1)
    });
}

/// Rows of processes.
fn processes(table: &Table) -> i64 {
    let sql = format!(
        "SELECT count(*) FROM {}processes WHERE id > 0",
        table.prefix
    );
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
    table.execute("UPDATE {}processes SET seen = seen - interval '25 hours' WHERE id > 0");
    drop(table.open(&mail()));
    assert_eq!(processes(&table), 0);
    // It is there after all: it makes another row, and what it stores is stored once.
    commit(&mut other, &[schedule(Some("a"), NEVER)]);
    assert_eq!(processes(&table), 1);
    assert_eq!(table.count("key = 'a'"), 1);
    // Noting the number of a transaction touches no index.
    for due in 1..=50 {
        commit(&mut other, &[schedule(None, due)]);
    }
    drop(other);
    let sql = format!(
        "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = '{}processes'",
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
    commit(&mut store, &[schedule(None, 1)]);
    assert!(store.clock.now() > 1_700_000_000_000);
}
