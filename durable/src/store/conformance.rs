//! One suite for every store: what the engine relies on.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::memory::MemoryStore;
#[cfg(feature = "postgres")]
use super::postgres::PostgresStore;
use super::redb::RedbStore;
use super::*;

/// A store that can be opened again after its process has died.
trait Subject {
    fn store(&mut self) -> &mut dyn Store;
    /// As a new process finds it.
    fn restart(&mut self);
}

const HANDLED: [&str; 2] = ["mail", "call"];

fn handled() -> Vec<String> {
    HANDLED.map(str::to_owned).to_vec()
}

struct Memory(MemoryStore);

impl Subject for Memory {
    fn store(&mut self) -> &mut dyn Store {
        &mut self.0
    }

    fn restart(&mut self) {}
}

struct Redb {
    store: Option<RedbStore>,
    folder: PathBuf,
}

impl Redb {
    fn new() -> Redb {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!(
            "durable-conformance-{}-{number}",
            std::process::id()
        ));
        fs::create_dir_all(&folder).unwrap();
        let mut subject = Redb {
            store: None,
            folder,
        };
        subject.restart();
        subject
    }
}

impl Subject for Redb {
    fn store(&mut self) -> &mut dyn Store {
        self.store.as_mut().unwrap()
    }

    fn restart(&mut self) {
        self.store = None;
        self.store = Some(RedbStore::open(&self.folder.join("store.redb"), &handled()).unwrap());
    }
}

impl Drop for Redb {
    fn drop(&mut self) {
        self.store = None;
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A table of its own on the server of the tests.
#[cfg(feature = "postgres")]
struct Postgres {
    store: Option<PostgresStore>,
    place: super::postgres::tests::Table,
}

#[cfg(feature = "postgres")]
impl Postgres {
    /// `None` if there is no server.
    fn new() -> Option<Postgres> {
        let mut subject = Postgres {
            store: None,
            place: super::postgres::tests::Table::new()?,
        };
        subject.restart();
        Some(subject)
    }
}

#[cfg(feature = "postgres")]
impl Subject for Postgres {
    fn store(&mut self) -> &mut dyn Store {
        self.store.as_mut().unwrap()
    }

    /// A process that died is noticed when its leases have run out.
    fn restart(&mut self) {
        self.store = None;
        self.store = Some(self.place.open(&handled()));
        self.place.lapse();
    }
}

macro_rules! on_every_store {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[test] fn $name() { super::$name(&mut super::Memory(super::MemoryStore::new(&super::handled()))); })*
        }
        mod redb {
            $(#[test] fn $name() { super::$name(&mut super::Redb::new()); })*
        }
        #[cfg(feature = "postgres")]
        mod postgres {
            $(#[test] fn $name() { super::Postgres::new().map(|mut subject| super::$name(&mut subject)); })*
        }
    };
}

/// PostgreSQL keeps names, not numbers, and none of them in memory.
#[test]
fn kinds_are_bounded() {
    bounds_kinds(&mut Memory(MemoryStore::new(&handled())));
    bounds_kinds(&mut Redb::new());
}

fn bounds_kinds(subject: &mut dyn Subject) {
    for kind in HANDLED {
        add(subject, kind, Some(kind), 1);
    }
    let more = (HANDLED.len()..MAX_KINDS).map(|number| schedule(&number.to_string(), None, 1));
    let ops: Vec<Op> = more.collect();
    let committed = subject.store().commit(&ops).unwrap();
    let new = Reply::Scheduled(Scheduled::New);
    assert!(committed.replies.iter().all(|reply| *reply == new));
    for _ in 0..2 {
        let before = pending(subject);
        assert_eq!(
            one(subject, schedule("one more", None, 1)),
            Reply::TooManyKinds
        );
        // The job that it should replace is as it was.
        let mut replacing = schedule("one more", Some("call"), 2);
        if let Op::Schedule { replace, .. } = &mut replacing {
            *replace = true;
        }
        assert_eq!(one(subject, replacing), Reply::TooManyKinds);
        assert_eq!(pending(subject), before);
        // What waits under the key is what counts, if it is kept.
        assert_eq!(
            one(subject, schedule("one more", Some("call"), 2)),
            Reply::Scheduled(Scheduled::Kept)
        );
        assert_eq!(one(subject, schedule("mail", None, 3)), new);
        assert_eq!(one(subject, schedule("99", None, 3)), new);
        subject.restart();
    }
    assert_eq!(claim_one(subject, 1).payload, b"mail 1");
}

on_every_store! {
    a_new_store_is_empty,
    claims_come_in_the_order_of_due_times_over_all_kinds,
    a_claim_stops_at_its_time_and_its_limit,
    a_claim_stops_at_its_bytes,
    a_kind_without_a_handler_is_never_claimed,
    a_key_names_one_waiting_job,
    a_claim_lets_go_of_its_key,
    a_moved_job_is_at_its_new_time_alone,
    a_replaced_job_is_new_but_for_its_place,
    a_cancelled_job_is_gone,
    only_the_token_finishes_a_claim,
    tokens_and_ids_grow_over_restarts,
    a_retry_takes_its_key_if_it_is_free,
    a_retry_goes_on_without_its_key_if_it_is_taken,
    a_claim_that_is_given_back_is_as_before,
    dead_jobs_hold_no_key_and_can_be_revived_or_discarded,
    a_revived_job_does_without_a_key_that_is_taken,
    interrupted_claims_are_taken_up_alone_and_counted,
    an_interrupted_attempt_that_was_counted_is_judged,
    an_interrupted_job_given_back_is_not_counted,
    an_interrupted_job_keeps_its_key_and_can_be_moved_and_cancelled,
    a_list_has_all_that_are_not_dead_by_due_time,
    operations_of_one_transaction_see_each_other,
    earliest_is_that_of_handled_kinds,
    reading_writes_nothing,
    extreme_times_and_payloads_are_kept,
    unhandled_kinds_are_named,
}

fn schedule(kind: &str, key: Option<&str>, due: Millis) -> Op {
    Op::Schedule {
        kind: kind.to_owned(),
        key: key.map(str::to_owned),
        payload: format!("{kind} {due}").into_bytes(),
        due,
        replace: false,
    }
}

fn one(subject: &mut dyn Subject, op: Op) -> Reply {
    subject.store().commit(&[op]).unwrap().replies.remove(0)
}

fn add(subject: &mut dyn Subject, kind: &str, key: Option<&str>, due: Millis) {
    assert_eq!(
        one(subject, schedule(kind, key, due)),
        Reply::Scheduled(Scheduled::New)
    );
}

fn claim(subject: &mut dyn Subject, until: Millis, limit: usize) -> (Vec<Claim>, Option<Millis>) {
    match one(
        subject,
        Op::Claim {
            until,
            limit,
            bytes: usize::MAX,
        },
    ) {
        Reply::Claimed { claims, next } => (claims, next),
        other => panic!("{other:?}"),
    }
}

fn claim_one(subject: &mut dyn Subject, until: Millis) -> Claim {
    let (mut claims, _) = claim(subject, until, 1);
    claims.pop().expect("something is due")
}

fn claim_alone(subject: &mut dyn Subject, until: Millis) -> Option<Claim> {
    match one(subject, Op::ClaimAlone { until }) {
        Reply::Claimed { mut claims, .. } => claims.pop(),
        other => panic!("{other:?}"),
    }
}

fn finish(subject: &mut dyn Subject, claim: &Claim, verdict: Verdict) -> bool {
    one(
        subject,
        Op::Finish {
            id: claim.id,
            token: claim.token,
            verdict,
        },
    ) == Reply::Found(true)
}

fn pending(subject: &mut dyn Subject) -> u64 {
    match one(subject, Op::Pending) {
        Reply::Pending(count) => count,
        other => panic!("{other:?}"),
    }
}

fn dead(subject: &mut dyn Subject) -> Vec<DeadJob> {
    match one(subject, Op::Dead { limit: 10 }) {
        Reply::Dead(dead) => dead,
        other => panic!("{other:?}"),
    }
}

fn recover(subject: &mut dyn Subject) -> usize {
    subject.restart();
    subject
        .store()
        .recover(&|_, attempts| {
            if attempts < 3 {
                Verdict::Retry {
                    due: 1000 * Millis::from(attempts),
                    attempts,
                }
            } else {
                Verdict::Dead {
                    attempts,
                    error: INTERRUPTED.to_owned(),
                }
            }
        })
        .unwrap()
}

fn a_new_store_is_empty(subject: &mut dyn Subject) {
    assert_eq!(pending(subject), 0);
    assert_eq!(claim(subject, Millis::MAX, 10), (vec![], None));
    assert_eq!(claim_alone(subject, Millis::MAX), None);
    assert_eq!(dead(subject), vec![]);
    assert_eq!(recover(subject), 0);
    assert_eq!(subject.store().earliest().unwrap(), Earliest::default());
}

fn claims_come_in_the_order_of_due_times_over_all_kinds(subject: &mut dyn Subject) {
    for (kind, due) in [
        ("mail", 30),
        ("call", 10),
        ("mail", 20),
        ("call", 40),
        ("mail", 10),
    ] {
        add(subject, kind, None, due);
    }
    subject.restart();
    let (claims, next) = claim(subject, 100, 10);
    let seen: Vec<_> = claims
        .iter()
        .map(|claim| (claim.due, HANDLED[claim.handler]))
        .collect();
    assert_eq!(
        seen,
        [
            (10, "call"),
            (10, "mail"),
            (20, "mail"),
            (30, "mail"),
            (40, "call")
        ]
    );
    assert_eq!(claims[0].payload, b"call 10");
    assert_eq!(next, None);
    assert_eq!(pending(subject), 5);
}

fn a_claim_stops_at_its_time_and_its_limit(subject: &mut dyn Subject) {
    for due in 1..=10 {
        add(subject, HANDLED[due % 2], None, due as Millis);
    }
    let (claims, next) = claim(subject, 4, 10);
    assert_eq!((claims.len(), next), (4, Some(5)));
    let (claims, next) = claim(subject, 100, 3);
    assert_eq!((claims.len(), next), (3, Some(8)));
    let (claims, next) = claim(subject, 7, 3);
    assert_eq!((claims.len(), next), (0, Some(8)));
}

fn a_claim_stops_at_its_bytes(subject: &mut dyn Subject) {
    for due in 1..=5 {
        let op = Op::Schedule {
            kind: "mail".to_owned(),
            key: None,
            payload: vec![0; 1000],
            due,
            replace: false,
        };
        one(subject, op);
    }
    let Reply::Claimed { claims, next } = one(
        subject,
        Op::Claim {
            until: 9,
            limit: 9,
            bytes: 1500,
        },
    ) else {
        panic!()
    };
    assert_eq!((claims.len(), next), (2, Some(3)));
}

fn a_kind_without_a_handler_is_never_claimed(subject: &mut dyn Subject) {
    add(subject, "fax", None, 1);
    add(subject, "mail", None, 5);
    let (claims, next) = claim(subject, 100, 10);
    assert_eq!((claims.len(), next), (1, None));
    assert_eq!(pending(subject), 2);
    subject.restart();
    assert_eq!(claim(subject, 100, 10).0.len(), 0);
}

fn a_key_names_one_waiting_job(subject: &mut dyn Subject) {
    add(subject, "mail", Some("a"), 10);
    assert_eq!(
        one(subject, schedule("call", Some("a"), 5)),
        Reply::Scheduled(Scheduled::Kept)
    );
    add(subject, "mail", Some("b"), 20);
    subject.restart();
    let claimed = claim_one(subject, 100);
    assert_eq!((claimed.key.as_deref(), claimed.due), (Some("a"), 10));
    assert_eq!(pending(subject), 2);
}

fn a_claim_lets_go_of_its_key(subject: &mut dyn Subject) {
    add(subject, "mail", Some("a"), 10);
    let first = claim_one(subject, 10);
    assert_eq!(
        one(subject, Op::Cancel { key: "a".into() }),
        Reply::Found(false)
    );
    assert_eq!(
        one(
            subject,
            Op::Move {
                key: "a".into(),
                due: 99
            }
        ),
        Reply::Found(false)
    );
    add(subject, "mail", Some("a"), 11);
    assert!(finish(subject, &first, Verdict::Done));
    assert_eq!(
        one(subject, Op::Cancel { key: "a".into() }),
        Reply::Found(true)
    );
    assert_eq!(pending(subject), 0);
}

fn a_moved_job_is_at_its_new_time_alone(subject: &mut dyn Subject) {
    add(subject, "mail", Some("a"), 10);
    assert_eq!(
        one(
            subject,
            Op::Move {
                key: "a".into(),
                due: 50
            }
        ),
        Reply::Found(true)
    );
    subject.restart();
    assert_eq!(claim(subject, 49, 10), (vec![], Some(50)));
    let claimed = claim_one(subject, 50);
    assert_eq!(
        (claimed.due, claimed.payload.as_slice()),
        (50, b"mail 10".as_slice())
    );
    assert!(finish(subject, &claimed, Verdict::Done));
    add(subject, "mail", Some("a"), 70);
    assert_eq!(
        one(
            subject,
            Op::Move {
                key: "a".into(),
                due: 60
            }
        ),
        Reply::Found(true)
    );
    assert_eq!(claim_one(subject, 60).due, 60);
}

fn a_replaced_job_is_new_but_for_its_place(subject: &mut dyn Subject) {
    add(subject, "mail", Some("a"), 10);
    let claimed = claim_one(subject, 10);
    assert!(finish(
        subject,
        &claimed,
        Verdict::Retry {
            due: 20,
            attempts: 1
        }
    ));
    let replacement = Op::Schedule {
        kind: "call".into(),
        key: Some("a".into()),
        payload: b"new".to_vec(),
        due: 30,
        replace: true,
    };
    assert_eq!(
        one(subject, replacement),
        Reply::Scheduled(Scheduled::Replaced)
    );
    assert_eq!(pending(subject), 1);
    assert_eq!(claim(subject, 29, 10).0, []);
    let claimed = claim_one(subject, 30);
    assert_eq!(
        (HANDLED[claimed.handler], claimed.payload.as_slice()),
        ("call", b"new".as_slice())
    );
    assert_eq!((claimed.attempt, claimed.key.as_deref()), (1, Some("a")));
}

fn a_cancelled_job_is_gone(subject: &mut dyn Subject) {
    add(subject, "mail", Some("a"), 10);
    assert_eq!(
        one(subject, Op::Cancel { key: "a".into() }),
        Reply::Found(true)
    );
    assert_eq!(
        one(subject, Op::Cancel { key: "a".into() }),
        Reply::Found(false)
    );
    subject.restart();
    assert_eq!(claim(subject, 100, 10), (vec![], None));
    assert_eq!(pending(subject), 0);
}

fn only_the_token_finishes_a_claim(subject: &mut dyn Subject) {
    add(subject, "mail", None, 10);
    let first = claim_one(subject, 10);
    assert!(finish(subject, &first, Verdict::GiveBack));
    let second = claim_one(subject, 10);
    assert!(!finish(subject, &first, Verdict::Done));
    assert_eq!(pending(subject), 1);
    assert!(finish(subject, &second, Verdict::Done));
    assert!(!finish(subject, &second, Verdict::Done));
    assert_eq!(pending(subject), 0);
}

fn tokens_and_ids_grow_over_restarts(subject: &mut dyn Subject) {
    let mut last = (0, 0);
    for round in 0..4 {
        add(subject, "mail", None, round);
        let claimed = claim_one(subject, 100);
        assert!(
            claimed.id > last.0 && claimed.token > last.1,
            "{claimed:?} {last:?}"
        );
        last = (claimed.id, claimed.token);
        assert!(finish(subject, &claimed, Verdict::Done));
        subject.restart();
    }
}

fn a_retry_takes_its_key_if_it_is_free(subject: &mut dyn Subject) {
    add(subject, "mail", Some("a"), 10);
    let claimed = claim_one(subject, 10);
    assert!(finish(
        subject,
        &claimed,
        Verdict::Retry {
            due: 20,
            attempts: 1
        }
    ));
    subject.restart();
    assert_eq!(
        one(subject, schedule("mail", Some("a"), 1)),
        Reply::Scheduled(Scheduled::Kept)
    );
    assert_eq!(claim(subject, 19, 1).0, []);
    let claimed = claim_one(subject, 20);
    assert_eq!(
        (claimed.attempt, claimed.key.as_deref(), claimed.due),
        (2, Some("a"), 20)
    );
}

fn a_retry_goes_on_without_its_key_if_it_is_taken(subject: &mut dyn Subject) {
    add(subject, "mail", Some("a"), 10);
    let first = claim_one(subject, 10);
    add(subject, "call", Some("a"), 50);
    assert!(finish(
        subject,
        &first,
        Verdict::Retry {
            due: 20,
            attempts: 1
        }
    ));
    let again = claim_one(subject, 20);
    assert_eq!(
        (again.id, again.key.as_deref(), again.attempt),
        (first.id, None, 2)
    );
    assert_eq!(again.payload, b"mail 10");
    // The other one still has it.
    assert_eq!(
        one(subject, Op::Cancel { key: "a".into() }),
        Reply::Found(true)
    );
    assert_eq!(pending(subject), 1);
}

fn a_claim_that_is_given_back_is_as_before(subject: &mut dyn Subject) {
    add(subject, "mail", Some("a"), 10);
    let first = claim_one(subject, 10);
    assert!(finish(subject, &first, Verdict::GiveBack));
    assert_eq!(
        one(subject, schedule("mail", Some("a"), 1)),
        Reply::Scheduled(Scheduled::Kept)
    );
    let second = claim_one(subject, 10);
    assert_eq!((second.attempt, second.due, second.alone), (1, 10, false));
}

fn dead_jobs_hold_no_key_and_can_be_revived_or_discarded(subject: &mut dyn Subject) {
    for key in ["a", "b"] {
        add(subject, "mail", Some(key), 10);
        let claimed = claim_one(subject, 10);
        let verdict = Verdict::Dead {
            attempts: 7,
            error: format!("no {key}"),
        };
        assert!(finish(subject, &claimed, verdict));
    }
    subject.restart();
    assert_eq!(pending(subject), 0);
    let found = dead(subject);
    assert_eq!(found.len(), 2);
    assert_eq!(
        (found[0].key.as_deref(), found[0].last_error.as_str()),
        (Some("a"), "no a")
    );
    assert_eq!((found[0].kind.as_str(), found[0].attempts), ("mail", 7));
    assert_eq!(found[0].payload, b"mail 10");
    assert_eq!(
        one(subject, Op::Cancel { key: "a".into() }),
        Reply::Found(false)
    );

    assert_eq!(
        one(
            subject,
            Op::Revive {
                id: found[0].id,
                due: 30
            }
        ),
        Reply::Found(true)
    );
    assert_eq!(
        one(
            subject,
            Op::Revive {
                id: found[0].id,
                due: 30
            }
        ),
        Reply::Found(false)
    );
    assert_eq!(
        one(subject, Op::Discard { id: found[0].id }),
        Reply::Found(false)
    );
    assert_eq!(
        one(subject, Op::Discard { id: found[1].id }),
        Reply::Found(true)
    );
    assert_eq!(
        one(subject, Op::Discard { id: found[1].id }),
        Reply::Found(false)
    );
    assert_eq!(
        one(subject, Op::Revive { id: 999, due: 30 }),
        Reply::Found(false)
    );
    assert_eq!(dead(subject), vec![]);
    assert_eq!(
        one(subject, schedule("mail", Some("a"), 1)),
        Reply::Scheduled(Scheduled::Kept)
    );
    let claimed = claim_one(subject, 30);
    assert_eq!((claimed.attempt, claimed.due), (1, 30));
    assert_eq!(pending(subject), 1);
}

fn a_revived_job_does_without_a_key_that_is_taken(subject: &mut dyn Subject) {
    add(subject, "mail", Some("a"), 10);
    let claimed = claim_one(subject, 10);
    assert!(finish(
        subject,
        &claimed,
        Verdict::Dead {
            attempts: 1,
            error: String::new()
        }
    ));
    add(subject, "call", Some("a"), 99);
    assert_eq!(
        one(
            subject,
            Op::Revive {
                id: claimed.id,
                due: 20
            }
        ),
        Reply::Found(true)
    );
    assert_eq!(claim_one(subject, 20).key, None);
    assert_eq!(
        one(subject, Op::Cancel { key: "a".into() }),
        Reply::Found(true)
    );
}

fn interrupted_claims_are_taken_up_alone_and_counted(subject: &mut dyn Subject) {
    add(subject, "mail", None, 10);
    add(subject, "call", None, 12);
    add(subject, "mail", None, 50);
    claim(subject, 20, 10);
    assert_eq!(recover(subject), 2);
    assert_eq!(pending(subject), 3);
    // Not among the others.
    assert_eq!(claim(subject, 20, 10), (vec![], Some(50)));
    assert_eq!(
        subject.store().earliest().unwrap(),
        Earliest {
            waiting: Some(50),
            interrupted: Some(10)
        }
    );
    assert_eq!(claim_alone(subject, 9), None);
    let first = claim_alone(subject, 20).unwrap();
    assert_eq!((first.due, first.attempt, first.alone), (10, 1, true));
    assert!(finish(subject, &first, Verdict::Done));
    let second = claim_alone(subject, 20).unwrap();
    assert_eq!((second.due, second.attempt), (12, 1));
    // Its handler has answered: from now on it is like all others.
    assert!(finish(
        subject,
        &second,
        Verdict::Retry {
            due: 30,
            attempts: 1
        }
    ));
    assert_eq!(claim_alone(subject, 100), None);
    let third = claim_one(subject, 30);
    assert_eq!(
        (third.id, third.attempt, third.alone),
        (second.id, 2, false)
    );
}

fn an_interrupted_attempt_that_was_counted_is_judged(subject: &mut dyn Subject) {
    add(subject, "mail", Some("a"), 10);
    claim(subject, 10, 1);
    for attempt in 1..=3 {
        assert_eq!(recover(subject), 1);
        assert_eq!(dead(subject), vec![]);
        let due = if attempt == 1 {
            10
        } else {
            1000 * (attempt - 1)
        };
        assert_eq!(claim_alone(subject, due - 1), None);
        let claimed = claim_alone(subject, due).unwrap();
        assert_eq!(Millis::from(claimed.attempt), attempt);
    }
    assert_eq!(recover(subject), 1);
    assert_eq!(pending(subject), 0);
    let found = dead(subject);
    assert_eq!(
        (found[0].attempts, found[0].last_error.as_str()),
        (3, INTERRUPTED)
    );
    assert_eq!(found[0].key.as_deref(), Some("a"));
}

fn an_interrupted_job_given_back_is_not_counted(subject: &mut dyn Subject) {
    add(subject, "mail", None, 10);
    claim(subject, 10, 1);
    recover(subject);
    let claimed = claim_alone(subject, 10).unwrap();
    assert!(finish(subject, &claimed, Verdict::GiveBack));
    assert_eq!(claim(subject, 100, 10).0, []);
    let again = claim_alone(subject, 10).unwrap();
    assert_eq!((again.attempt, again.due), (1, 10));
}

fn an_interrupted_job_keeps_its_key_and_can_be_moved_and_cancelled(subject: &mut dyn Subject) {
    add(subject, "mail", Some("a"), 10);
    add(subject, "mail", Some("b"), 10);
    claim(subject, 10, 2);
    recover(subject);
    assert_eq!(
        one(subject, schedule("mail", Some("a"), 1)),
        Reply::Scheduled(Scheduled::Kept)
    );
    assert_eq!(
        one(
            subject,
            Op::Move {
                key: "a".into(),
                due: 70
            }
        ),
        Reply::Found(true)
    );
    assert_eq!(
        one(subject, Op::Cancel { key: "b".into() }),
        Reply::Found(true)
    );
    assert_eq!(claim(subject, 100, 10).0, []);
    assert_eq!(claim_alone(subject, 69), None);
    assert_eq!(claim_alone(subject, 70).unwrap().key.as_deref(), Some("a"));
}

fn operations_of_one_transaction_see_each_other(subject: &mut dyn Subject) {
    let committed = subject
        .store()
        .commit(&[
            schedule("mail", Some("a"), 10),
            schedule("mail", Some("a"), 20),
            Op::Move {
                key: "a".into(),
                due: 5,
            },
            Op::Cancel { key: "a".into() },
            Op::Cancel { key: "a".into() },
            schedule("mail", Some("a"), 7),
            Op::Pending,
            Op::Claim {
                until: 100,
                limit: 10,
                bytes: 1000,
            },
        ])
        .unwrap();
    assert!(committed.written);
    assert_eq!(
        committed.replies[..7],
        [
            Reply::Scheduled(Scheduled::New),
            Reply::Scheduled(Scheduled::Kept),
            Reply::Found(true),
            Reply::Found(true),
            Reply::Found(false),
            Reply::Scheduled(Scheduled::New),
            Reply::Pending(1),
        ]
    );
    let Reply::Claimed { claims, next } = &committed.replies[7] else {
        panic!()
    };
    assert_eq!((claims.len(), claims[0].due, *next), (1, 7, None));
}

fn earliest_is_that_of_handled_kinds(subject: &mut dyn Subject) {
    let committed = subject
        .store()
        .commit(&[
            schedule("fax", None, 1),
            schedule("mail", None, 9),
            schedule("call", None, 8),
        ])
        .unwrap();
    assert_eq!(
        committed.earliest,
        Earliest {
            waiting: Some(8),
            interrupted: None
        }
    );
    assert_eq!(subject.store().earliest().unwrap().waiting, Some(8));
    let committed = subject.store().commit(&[schedule("fax", None, 1)]).unwrap();
    assert_eq!(committed.earliest, Earliest::default());
}

fn list(subject: &mut dyn Subject, limit: usize) -> Vec<PendingJob> {
    match one(subject, Op::List { limit }) {
        Reply::List(jobs) => jobs,
        other => panic!("{other:?}"),
    }
}

fn a_list_has_all_that_are_not_dead_by_due_time(subject: &mut dyn Subject) {
    assert_eq!(list(subject, 10), []);
    add(subject, "mail", Some("dead"), 1);
    let claimed = claim_one(subject, 1);
    let verdict = Verdict::Dead {
        attempts: 1,
        error: "no".into(),
    };
    assert!(finish(subject, &claimed, verdict));
    add(subject, "mail", Some("retried"), 2);
    let claimed = claim_one(subject, 2);
    let verdict = Verdict::Retry {
        due: 60,
        attempts: 3,
    };
    assert!(finish(subject, &claimed, verdict));
    add(subject, "mail", Some("interrupted"), 30);
    claim_one(subject, 30);
    assert_eq!(recover(subject), 1);
    add(subject, "call", None, 5);
    let running = claim_one(subject, 5);
    // Without a handler.
    add(subject, "fax", Some("unhandled"), 20);
    add(subject, "call", Some("far"), Millis::MAX);

    let seen: Vec<_> = list(subject, 10)
        .into_iter()
        .map(|job| {
            let due = crate::time::millis_of(job.due);
            (job.kind, job.key, due, job.attempts, job.claimed)
        })
        .collect();
    let expected = |kind: &str, key: &str, due, attempts, claimed| {
        let key = (!key.is_empty()).then(|| key.to_owned());
        (kind.to_owned(), key, due, attempts, claimed)
    };
    assert_eq!(
        seen,
        [
            expected("call", "", 5, 0, true),
            expected("fax", "unhandled", 20, 0, false),
            expected("mail", "interrupted", 30, 0, false),
            expected("mail", "retried", 60, 3, false),
            expected("call", "far", Millis::MAX, 0, false),
        ]
    );
    let first = list(subject, 2);
    assert_eq!(first.len(), 2);
    assert_eq!(
        (first[0].id, first[0].payload.as_slice()),
        (running.id, b"call 5".as_slice())
    );
    assert_eq!(list(subject, 0), []);
    // In a transaction that writes it sees what came before it.
    let ops = vec![Op::Cancel { key: "far".into() }, Op::List { limit: 10 }];
    let Reply::List(jobs) = subject.store().commit(&ops).unwrap().replies.remove(1) else {
        panic!()
    };
    assert_eq!(jobs.len(), 4);
}

fn reading_writes_nothing(subject: &mut dyn Subject) {
    add(subject, "mail", Some("a"), 10);
    for op in [
        Op::Pending,
        Op::Dead { limit: 5 },
        Op::List { limit: 5 },
        Op::Claim {
            until: 9,
            limit: 10,
            bytes: 10,
        },
        Op::ClaimAlone { until: 100 },
        Op::Cancel { key: "b".into() },
        Op::Move {
            key: "b".into(),
            due: 1,
        },
        schedule("mail", Some("a"), 1),
        Op::Discard { id: 1 },
        Op::Finish {
            id: 1,
            token: 1,
            verdict: Verdict::Done,
        },
    ] {
        assert!(
            !subject
                .store()
                .commit(std::slice::from_ref(&op))
                .unwrap()
                .written,
            "{op:?}"
        );
    }
}

fn extreme_times_and_payloads_are_kept(subject: &mut dyn Subject) {
    for (due, len) in [(Millis::MIN, 0), (-1, 1), (0, 1 << 20), (Millis::MAX, 3)] {
        let op = Op::Schedule {
            kind: "mail".into(),
            key: Some("k".repeat(512) + &due.to_string()),
            payload: vec![42; len],
            due,
            replace: false,
        };
        one(subject, op);
    }
    subject.restart();
    let (claims, _) = claim(subject, Millis::MAX, 10);
    let seen: Vec<_> = claims
        .iter()
        .map(|claim| (claim.due, claim.payload.len()))
        .collect();
    assert_eq!(
        seen,
        [(Millis::MIN, 0), (-1, 1), (0, 1 << 20), (Millis::MAX, 3)]
    );
    assert!(claims[2].payload.iter().all(|&byte| byte == 42));
    assert!(claims[2].key.as_ref().unwrap().len() == 513);
}

fn unhandled_kinds_are_named(subject: &mut dyn Subject) {
    add(subject, "mail", None, 1);
    add(subject, "fax", None, 1);
    add(subject, "fax", None, 2);
    add(subject, "telex", Some("x"), 2);
    one(subject, Op::Cancel { key: "x".into() });
    assert_eq!(subject.store().unhandled().unwrap(), ["fax"]);
}
