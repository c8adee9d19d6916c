//! One suite for every store: what the engine relies on. The first test runs every row of the table of states.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::memory::MemoryStore;
#[cfg(feature = "postgres")]
use super::postgres::PostgresStore;
use super::redb::RedbStore;
use super::*;
use crate::job::JobState;
use crate::job::state::{After, State, after};
use crate::recur::Turn;

/// A store that can be opened again after its process has died.
trait Subject {
    fn store(&mut self) -> &mut dyn Store;
    /// As a new process finds it.
    fn restart(&mut self);
    /// A checksum of its own for every job?
    fn flip(&mut self, _: Id) -> bool {
        false
    }
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
        let path = self.folder.join("store.redb");
        self.store = Some(RedbStore::open(&path, &handled(), false).unwrap());
    }

    fn flip(&mut self, id: Id) -> bool {
        self.store.as_mut().unwrap().flip_body(id);
        true
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
    table: super::postgres::tests::Table,
}

#[cfg(feature = "postgres")]
impl Postgres {
    /// `None` if there is no server.
    fn new() -> Option<Postgres> {
        let mut subject = Postgres {
            store: None,
            table: super::postgres::tests::Table::new()?,
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
        self.store = Some(self.table.open(&handled()));
        self.table.lapse();
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

on_every_store! {
    every_row_of_the_table_of_states,
    a_new_store_is_empty,
    claims_come_in_the_order_of_due_times_over_all_kinds,
    a_claim_stops_at_its_time_and_its_limit,
    a_claim_stops_at_its_bytes,
    a_claim_stops_at_the_room_of_its_kind,
    a_kind_without_a_handler_is_never_claimed,
    a_key_names_one_waiting_job,
    a_claim_lets_go_of_its_key,
    a_moved_job_is_at_its_new_time_alone,
    a_replaced_job_is_new_but_for_its_id,
    a_cancelled_job_is_gone,
    only_the_token_finishes_a_claim,
    tokens_and_ids_grow_over_restarts,
    every_return_takes_its_key_if_it_is_free,
    every_return_goes_on_without_a_key_that_is_taken,
    dead_jobs_hold_no_key_and_can_be_revived_or_discarded,
    suspects_are_claimed_one_at_a_time_beside_others,
    a_suspect_that_dies_again_and_again_is_dead_in_the_end,
    a_suspect_keeps_its_key_and_can_be_moved_and_cancelled,
    the_reason_of_a_retry_is_kept,
    lists_are_pages_by_id_or_by_due_time,
    operations_of_one_transaction_see_each_other,
    several_jobs_are_stored_in_one_call,
    next_is_that_of_handled_kinds_with_room,
    reading_writes_nothing,
    extreme_times_and_payloads_are_kept,
    kinds_with_jobs_are_named,
    a_pause_is_stored,
    a_recurring_job_makes_one_run_for_each_of_its_times,
    a_recurring_job_holds_its_key_and_its_runs_never_do,
    a_recurring_job_with_the_same_rule_keeps_its_time,
    recurring_jobs_are_found_by_kind_with_room,
}

fn new(kind: &str, key: Option<&str>, due: Millis) -> New {
    New {
        kind: kind.to_owned(),
        key: key.map(str::to_owned),
        payload: format!("{kind} {due}").into_bytes(),
        due,
        replace: false,
        rule: None,
    }
}

fn schedule(kind: &str, key: Option<&str>, due: Millis) -> Call {
    Call::Schedule(vec![new(kind, key, due)])
}

fn replace(kind: &str, key: &str, due: Millis) -> Call {
    Call::Schedule(vec![New {
        replace: true,
        ..new(kind, Some(key), due)
    }])
}

fn recurring(kind: &str, key: &str, due: Millis, replace: bool) -> Call {
    Call::Schedule(vec![New {
        replace,
        rule: Some("every 10 ms".to_owned()),
        ..new(kind, Some(key), due)
    }])
}

/// That of a recurring job of the first kind.
fn slot(due: Millis) -> Slot {
    Slot {
        id: 0,
        kind: HANDLED[0].into(),
        due,
        rule: "every 10 ms".to_owned(),
    }
}

fn slots(subject: &mut dyn Subject, until: Millis, room: &[usize]) -> Vec<Slot> {
    subject.store().slots(until, 10, room).unwrap()
}

fn advance(slot: &Slot, next: Option<Millis>, run: bool) -> Call {
    let (slot, turn) = (slot.clone(), Turn { next, run });
    Call::Advance { slot, turn }
}

fn move_to(key: &str, due: Millis) -> Call {
    let key = key.to_owned();
    Call::Move { key, due }
}

fn cancel(key: &str) -> Call {
    let key = key.to_owned();
    Call::Cancel { key }
}

fn revive(id: Id, due: Millis) -> Call {
    Call::Revive { ids: vec![id], due }
}

fn discard(id: Id) -> Call {
    Call::Discard { ids: vec![id] }
}

const TIME: Millis = 77;

/// Nothing is claimed.
fn rest() -> ClaimRequest {
    ClaimRequest {
        now: TIME,
        room: vec![usize::MAX; 2],
        ..ClaimRequest::default()
    }
}

fn up_to(until: Millis, limit: usize) -> ClaimRequest {
    ClaimRequest {
        until,
        limit,
        bytes: usize::MAX,
        ..rest()
    }
}

fn commit(
    subject: &mut dyn Subject,
    calls: &[Call],
    ends: &[End],
    claim: &ClaimRequest,
) -> Committed {
    let deadline = Instant::now() + Duration::from_secs(10);
    subject
        .store()
        .commit(calls, ends, claim, deadline)
        .unwrap()
}

fn one(subject: &mut dyn Subject, call: Call) -> Reply {
    commit(subject, &[call], &[], &rest()).replies.remove(0)
}

/// How many jobs a call has found.
fn count(subject: &mut dyn Subject, call: Call) -> u64 {
    match one(subject, call) {
        Reply::Count(count) => count,
        other => panic!("{other:?}"),
    }
}

fn scheduled(subject: &mut dyn Subject, call: Call) -> Scheduled {
    match one(subject, call) {
        Reply::Scheduled(scheduled) => scheduled[0],
        other => panic!("{other:?}"),
    }
}

fn add(subject: &mut dyn Subject, kind: &str, key: Option<&str>, due: Millis) -> Id {
    match scheduled(subject, schedule(kind, key, due)) {
        Scheduled::New(id) => id,
        other => panic!("{other:?}"),
    }
}

fn claim(subject: &mut dyn Subject, until: Millis, limit: usize) -> (Vec<Claim>, Option<Millis>) {
    let committed = commit(subject, &[], &[], &up_to(until, limit));
    (committed.claims, committed.next.waiting)
}

fn claim_one(subject: &mut dyn Subject, until: Millis) -> Claim {
    let (mut claims, _) = claim(subject, until, 1);
    claims.pop().expect("something is due")
}

fn claim_suspect(subject: &mut dyn Subject, until: Millis) -> Option<Claim> {
    let request = ClaimRequest {
        suspect: Some(until),
        ..rest()
    };
    commit(subject, &[], &[], &request).claims.pop()
}

fn finish(subject: &mut dyn Subject, claim: &Claim, verdict: Verdict) -> bool {
    commit(subject, &[], &[claim.end(verdict)], &rest()).ended[0]
}

fn fail(error: &str) -> Verdict {
    let error = error.to_owned();
    Verdict::Dead { error }
}

fn retry(due: Millis) -> Verdict {
    Verdict::Retry { due, error: None }
}

fn pending(subject: &mut dyn Subject) -> u64 {
    let reader = subject.store().reader();
    assert_eq!(
        reader.pending().unwrap(),
        reader.pending_estimate().unwrap()
    );
    reader.pending().unwrap()
}

fn jobs(subject: &mut dyn Subject, filter: &JobFilter) -> Vec<Row> {
    subject.store().reader().jobs(filter).unwrap()
}

fn dead(subject: &mut dyn Subject) -> Vec<Row> {
    jobs(subject, &JobFilter::new().dead())
}

fn row(subject: &mut dyn Subject, id: Id) -> Option<Row> {
    let rows = jobs(subject, &JobFilter::new().after(id - 1).limit(1));
    rows.into_iter().find(|row| row.id == id)
}

/// The process dies, and another one takes up its claims.
fn recover(subject: &mut dyn Subject) -> Recovered {
    subject.restart();
    let judge = |_: &str, _, attempts| (attempts < 3).then(|| 1000 * Millis::from(attempts));
    subject.store().recover(&judge, TIME).unwrap()
}

/// Brings a job into a state, and its claim if it has one. Attempts: none, or one that was counted.
fn bring(subject: &mut dyn Subject, to: State, tried: bool) -> (Id, Option<Claim>) {
    if to == State::Recurring {
        let made = scheduled(subject, recurring("mail", "key", 10, false));
        return (made.id(), None);
    }
    let id = add(subject, "mail", Some("key"), 10);
    if tried {
        let claim = claim_one(subject, 10);
        assert!(finish(subject, &claim, retry(10)));
    }
    match to {
        State::Waiting | State::Recurring => (id, None),
        State::Claimed => (id, Some(claim_one(subject, 10))),
        State::Suspect | State::Charged => {
            claim_one(subject, 10);
            assert_eq!(recover(subject).found, 1);
            let claim = (to == State::Charged).then(|| claim_suspect(subject, 10).unwrap());
            (id, claim)
        }
        State::Dead => {
            let claim = claim_one(subject, 10);
            assert!(finish(subject, &claim, fail("no")));
            (id, None)
        }
    }
}

/// Has an event happen. False if the store has no way to ask for it in this state.
fn happen(subject: &mut dyn Subject, id: Id, claim: Option<&Claim>, event: Event) -> bool {
    let end = |subject: &mut dyn Subject, verdict| {
        let stale = Claim {
            id,
            token: 1 << 40,
            kind: "mail".into(),
            key: None,
            payload: vec![],
            due: 0,
            attempt: 1,
            charged: false,
        };
        finish(subject, claim.unwrap_or(&stale), verdict)
    };
    match event {
        Event::Replace { due, recurs } => {
            let new = New {
                replace: true,
                rule: recurs.then(|| "every 500 ms".to_owned()),
                ..new("mail", Some("key"), due)
            };
            let made = scheduled(subject, Call::Schedule(vec![new]));
            matches!(made, Scheduled::Replaced(_))
        }
        Event::Move { due } => count(subject, move_to("key", due)) > 0,
        Event::Cancel => count(subject, cancel("key")) > 0,
        Event::Advance { next } => {
            let slot = Slot { id, ..slot(10) };
            let turn = Turn { next, run: false };
            count(subject, Call::Advance { slot, turn }) > 0
        }
        Event::Claim => {
            let request = ClaimRequest {
                suspect: Some(10),
                ..up_to(10, 1)
            };
            !commit(subject, &[], &[], &request).claims.is_empty()
        }
        Event::Done => end(subject, Verdict::Done),
        Event::Fail => end(subject, fail("no")),
        Event::Retry { due } => end(subject, retry(due)),
        Event::Snooze { due } => end(subject, Verdict::Snooze { due }),
        Event::GiveBack => end(subject, Verdict::GiveBack),
        Event::OwnerLost { again } => {
            subject.restart();
            let judge = |_: &str, _, _| again;
            subject.store().recover(&judge, TIME).unwrap().found > 0
        }
        Event::Revive { due } => count(subject, revive(id, due)) > 0,
        Event::Discard => count(subject, discard(id)) > 0,
        Event::Damaged => {
            subject.flip(id);
            let request = ClaimRequest {
                suspect: Some(10),
                ..up_to(10, 1)
            };
            let turn = Turn {
                next: Some(20),
                run: true,
            };
            let slot = Slot { id, ..slot(10) };
            let advance = Call::Advance { slot, turn };
            !commit(subject, &[advance], &[], &request).died.is_empty()
        }
    }
}

fn every_row_of_the_table_of_states(subject: &mut dyn Subject) {
    let states = [
        State::Waiting,
        State::Suspect,
        State::Recurring,
        State::Claimed,
        State::Charged,
        State::Dead,
    ];
    let events = [
        Event::Replace {
            due: 500,
            recurs: false,
        },
        Event::Replace {
            due: 500,
            recurs: true,
        },
        Event::Advance { next: Some(500) },
        Event::Advance { next: None },
        Event::Move { due: 500 },
        Event::Cancel,
        Event::Claim,
        Event::Done,
        Event::Fail,
        Event::Retry { due: 500 },
        Event::Snooze { due: 500 },
        Event::GiveBack,
        Event::OwnerLost { again: Some(500) },
        Event::OwnerLost { again: None },
        Event::Revive { due: 500 },
        Event::Discard,
        Event::Damaged,
    ];
    let mut rows = 0;
    for (from, event, tried) in states.into_iter().flat_map(|state| {
        events
            .into_iter()
            .flat_map(move |event| [(state, event, false), (state, event, true)])
    }) {
        if event == Event::Damaged && (!from.waits() || !subject.flip(0)) {
            continue;
        }
        let (id, claim) = bring(subject, from, tried);
        let before = row(subject, id).expect("it was just brought there");
        let context = format!("{before:?}, {event:?}");
        assert_eq!(before.standing.state, from, "{context}");
        let expected = after(before.standing, event);
        let happened = happen(subject, id, claim.as_ref(), event);
        let found = row(subject, id);
        // A replacement where there is nothing to replace is a job of its own.
        if expected.is_some() || !matches!(event, Event::Replace { .. }) {
            assert_eq!(happened, expected.is_some(), "{context}");
        }
        match expected {
            Some(After::Is(standing)) => {
                assert_eq!(found.unwrap().standing, standing, "{context}");
            }
            Some(After::Gone) => assert_eq!(found, None, "{context}"),
            None => assert_eq!(found.as_ref(), Some(&before), "{context}"),
        }
        rows += usize::from(expected.is_some());
        clear(subject);
    }
    assert!(rows >= 46, "{rows}");
}

/// Removes everything.
fn clear(subject: &mut dyn Subject) {
    recover(subject);
    for _ in 0..3 {
        let request = ClaimRequest {
            suspect: Some(Millis::MAX),
            ..up_to(Millis::MAX, 10)
        };
        let claims = commit(subject, &[], &[], &request).claims;
        let ends: Vec<End> = claims
            .iter()
            .map(|claim| claim.end(Verdict::Done))
            .collect();
        commit(subject, &[], &ends, &rest());
    }
    count(subject, cancel("key"));
    for row in dead(subject) {
        count(subject, discard(row.id));
    }
    assert_eq!(jobs(subject, &JobFilter::new()), []);
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
    let more = (HANDLED.len()..MAX_KINDS - 1).map(|number| new(&number.to_string(), None, 1));
    one(subject, Call::Schedule(more.collect()));
    // One more fits, two do not, and then nothing is stored.
    let before = pending(subject);
    let two = vec![
        new("mail", None, 1),
        new("one", None, 1),
        new("two", None, 1),
    ];
    assert_eq!(one(subject, Call::Schedule(two)), Reply::TooManyKinds);
    assert_eq!(pending(subject), before);
    add(subject, "last", None, 1);
    for _ in 0..2 {
        let before = pending(subject);
        let refused = one(subject, schedule("one more", None, 1));
        assert_eq!(refused, Reply::TooManyKinds);
        // The job that it should replace is as it was.
        let refused = one(subject, replace("one more", "call", 2));
        assert_eq!(refused, Reply::TooManyKinds);
        assert_eq!(pending(subject), before);
        // What waits under the key is what counts, if it is kept.
        let kept = scheduled(subject, schedule("one more", Some("call"), 2));
        assert!(matches!(kept, Scheduled::Kept(_)));
        add(subject, "mail", None, 3);
        add(subject, "99", None, 3);
        subject.restart();
    }
    assert_eq!(claim_one(subject, 1).payload, b"mail 1");
}

fn a_new_store_is_empty(subject: &mut dyn Subject) {
    assert_eq!(pending(subject), 0);
    assert_eq!(claim(subject, Millis::MAX, 10), (vec![], None));
    assert_eq!(claim_suspect(subject, Millis::MAX), None);
    assert_eq!(jobs(subject, &JobFilter::new()), []);
    assert_eq!(recover(subject), Recovered::default());
    let polled = subject.store().poll(&|_, _, _| None, &[1, 1]).unwrap();
    assert_eq!(polled.next, Earliest::default());
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
        .map(|claim| (claim.due, &*claim.kind))
        .collect();
    let expected = [
        (10, "call"),
        (10, "mail"),
        (20, "mail"),
        (30, "mail"),
        (40, "call"),
    ];
    assert_eq!(seen, expected);
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
        let payload = vec![0; 1000];
        let large = New {
            payload,
            ..new("mail", None, due)
        };
        one(subject, Call::Schedule(vec![large]));
    }
    let request = ClaimRequest {
        bytes: 1500,
        ..up_to(9, 9)
    };
    let committed = commit(subject, &[], &[], &request);
    assert_eq!(committed.claims.len(), 2);
    assert_eq!(committed.next.waiting, Some(3));
}

fn a_claim_stops_at_the_room_of_its_kind(subject: &mut dyn Subject) {
    for due in 1..=6 {
        add(subject, HANDLED[due % 2], None, due as Millis);
    }
    let request = ClaimRequest {
        room: vec![2, 0],
        ..up_to(100, 10)
    };
    let committed = commit(subject, &[], &[], &request);
    let seen: Vec<_> = committed.claims.iter().map(|claim| claim.due).collect();
    assert_eq!(seen, [2, 4]);
    // "mail" has no room any more, "call" had none.
    assert_eq!(committed.next, Earliest::default());
    let (claims, next) = claim(subject, 1, 10);
    assert_eq!((claims[0].due, next), (1, Some(3)));
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
    let id = add(subject, "mail", Some("a"), 10);
    let kept = scheduled(subject, schedule("call", Some("a"), 5));
    assert_eq!(kept, Scheduled::Kept(id));
    add(subject, "mail", Some("b"), 20);
    subject.restart();
    let claimed = claim_one(subject, 100);
    assert_eq!((claimed.key.as_deref(), claimed.due), (Some("a"), 10));
    assert_eq!(pending(subject), 2);
}

fn a_claim_lets_go_of_its_key(subject: &mut dyn Subject) {
    add(subject, "mail", Some("a"), 10);
    let first = claim_one(subject, 10);
    assert_eq!(count(subject, cancel("a")), 0);
    assert_eq!(count(subject, move_to("a", 99)), 0);
    add(subject, "mail", Some("a"), 11);
    assert!(finish(subject, &first, Verdict::Done));
    assert_eq!(count(subject, cancel("a")), 1);
    assert_eq!(pending(subject), 0);
}

fn a_moved_job_is_at_its_new_time_alone(subject: &mut dyn Subject) {
    add(subject, "mail", Some("a"), 10);
    assert_eq!(count(subject, move_to("a", 50)), 1);
    subject.restart();
    assert_eq!(claim(subject, 49, 10), (vec![], Some(50)));
    let claimed = claim_one(subject, 50);
    assert_eq!((claimed.due, &*claimed.payload), (50, &b"mail 10"[..]));
    assert!(finish(subject, &claimed, Verdict::Done));
    add(subject, "mail", Some("a"), 70);
    assert_eq!(count(subject, move_to("a", 60)), 1);
    assert_eq!(claim_one(subject, 60).due, 60);
}

fn a_replaced_job_is_new_but_for_its_id(subject: &mut dyn Subject) {
    let id = add(subject, "mail", Some("a"), 10);
    let claimed = claim_one(subject, 10);
    assert!(finish(subject, &claimed, retry(20)));
    let replaced = scheduled(subject, replace("call", "a", 30));
    assert_eq!(replaced, Scheduled::Replaced(id));
    assert_eq!(pending(subject), 1);
    assert_eq!(claim(subject, 29, 10).0, []);
    let claimed = claim_one(subject, 30);
    assert_eq!(
        (&*claimed.kind, &*claimed.payload),
        ("call", &b"call 30"[..])
    );
    assert_eq!((claimed.attempt, claimed.key.as_deref()), (1, Some("a")));
}

fn a_cancelled_job_is_gone(subject: &mut dyn Subject) {
    add(subject, "mail", Some("a"), 10);
    assert_eq!(count(subject, cancel("a")), 1);
    assert_eq!(count(subject, cancel("a")), 0);
    subject.restart();
    assert_eq!(claim(subject, 100, 10), (vec![], None));
    assert_eq!(pending(subject), 0);
}

fn only_the_token_finishes_a_claim(subject: &mut dyn Subject) {
    add(subject, "mail", None, 10);
    let first = claim_one(subject, 10);
    assert!(finish(subject, &first, Verdict::GiveBack));
    let second = claim_one(subject, 10);
    for verdict in [Verdict::Done, retry(5), fail("no"), Verdict::GiveBack] {
        assert!(!finish(subject, &first, verdict));
    }
    assert_eq!(pending(subject), 1);
    assert!(finish(subject, &second, Verdict::Done));
    assert!(!finish(subject, &second, Verdict::Done));
    assert_eq!(pending(subject), 0);
}

fn tokens_and_ids_grow_over_restarts(subject: &mut dyn Subject) {
    let mut last = (0, 0);
    for round in 0..4 {
        let id = add(subject, "mail", None, round);
        let claimed = claim_one(subject, 100);
        assert_eq!(claimed.id, id);
        assert!(
            id > last.0 && claimed.token > last.1,
            "{claimed:?} {last:?}"
        );
        last = (claimed.id, claimed.token);
        assert!(finish(subject, &claimed, Verdict::Done));
        subject.restart();
    }
}

fn every_return_takes_its_key_if_it_is_free(subject: &mut dyn Subject) {
    let id = add(subject, "mail", Some("a"), 10);
    for verdict in [retry(20), Verdict::Snooze { due: 30 }, Verdict::GiveBack] {
        let claimed = claim_one(subject, 100);
        assert_eq!(claimed.key.as_deref(), Some("a"));
        assert!(finish(subject, &claimed, verdict));
        subject.restart();
        let kept = scheduled(subject, schedule("mail", Some("a"), 1));
        assert_eq!(kept, Scheduled::Kept(id));
    }
    let claimed = claim_one(subject, 30);
    assert_eq!((claimed.attempt, claimed.due), (2, 30));
}

fn every_return_goes_on_without_a_key_that_is_taken(subject: &mut dyn Subject) {
    for verdict in [retry(20), Verdict::Snooze { due: 20 }, Verdict::GiveBack] {
        add(subject, "mail", Some("a"), 10);
        let first = claim_one(subject, 10);
        add(subject, "call", Some("a"), 50);
        assert!(finish(subject, &first, verdict));
        let again = claim_one(subject, 20);
        assert_eq!((again.id, again.key.as_deref()), (first.id, None));
        assert_eq!(again.payload, b"mail 10");
        assert!(finish(subject, &again, Verdict::Done));
        // The other one still has it.
        assert_eq!(count(subject, cancel("a")), 1);
        assert_eq!(pending(subject), 0);
    }
}

fn dead_jobs_hold_no_key_and_can_be_revived_or_discarded(subject: &mut dyn Subject) {
    for key in ["a", "b"] {
        add(subject, "mail", Some(key), 10);
        let claimed = claim_one(subject, 10);
        let end = claimed.end(fail(&format!("no {key}")));
        let committed = commit(subject, &[], &[end], &rest());
        assert_eq!(committed.died, [claimed.id]);
    }
    subject.restart();
    assert_eq!(pending(subject), 0);
    let found = dead(subject);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].key.as_deref(), Some("a"));
    assert_eq!(found[0].error.as_deref(), Some("no a"));
    assert_eq!((&*found[0].kind, found[0].standing.attempts), ("mail", 1));
    assert_eq!(found[0].payload, b"mail 10");
    assert!(found[0].died.is_some());
    assert_eq!(count(subject, cancel("a")), 0);
    // Another one takes the key, so it goes on without.
    add(subject, "call", Some("a"), 99);
    assert_eq!(count(subject, revive(found[0].id, 30)), 1);
    assert_eq!(count(subject, revive(found[0].id, 30)), 0);
    assert_eq!(count(subject, discard(found[0].id)), 0);
    assert_eq!(count(subject, discard(found[1].id)), 1);
    assert_eq!(count(subject, discard(found[1].id)), 0);
    assert_eq!(count(subject, revive(999, 30)), 0);
    assert_eq!(dead(subject), []);
    let claimed = claim_one(subject, 30);
    assert_eq!((claimed.attempt, claimed.due, claimed.key), (1, 30, None));
    assert_eq!(pending(subject), 2);
}

fn suspects_are_claimed_one_at_a_time_beside_others(subject: &mut dyn Subject) {
    add(subject, "mail", None, 10);
    add(subject, "call", None, 12);
    add(subject, "mail", None, 50);
    claim(subject, 20, 10);
    let recovered = recover(subject);
    assert_eq!((recovered.found, recovered.died), (2, vec![]));
    assert_eq!(pending(subject), 3);
    // Not among the others.
    assert_eq!(claim(subject, 20, 10), (vec![], Some(50)));
    assert_eq!(claim_suspect(subject, 9), None);
    // One, with what waits.
    let request = ClaimRequest {
        suspect: Some(20),
        ..up_to(50, 10)
    };
    let committed = commit(subject, &[], &[], &request);
    let seen: Vec<_> = committed
        .claims
        .iter()
        .map(|claim| (claim.due, claim.attempt, claim.charged))
        .collect();
    assert_eq!(seen, [(10, 1, true), (50, 1, false)]);
    assert_eq!(
        (committed.next.waiting, committed.next.suspect),
        (None, Some(12))
    );
    assert!(finish(subject, &committed.claims[0], Verdict::Done));
    let second = claim_suspect(subject, 20).unwrap();
    assert_eq!((second.due, second.attempt), (12, 1));
    // Its handler has answered: from now on it is like all others.
    assert!(finish(subject, &second, retry(30)));
    assert_eq!(claim_suspect(subject, 100), None);
    let third = claim_one(subject, 30);
    assert_eq!(
        (third.id, third.attempt, third.charged),
        (second.id, 2, false)
    );
}

fn a_suspect_that_dies_again_and_again_is_dead_in_the_end(subject: &mut dyn Subject) {
    let id = add(subject, "mail", Some("a"), 10);
    claim(subject, 10, 1);
    for attempt in 1..=3 {
        assert_eq!(
            recover(subject),
            Recovered {
                found: 1,
                died: vec![]
            }
        );
        assert_eq!(dead(subject), []);
        let due = if attempt == 1 {
            10
        } else {
            1000 * (attempt - 1)
        };
        assert_eq!(claim_suspect(subject, due - 1), None);
        let claimed = claim_suspect(subject, due).unwrap();
        assert_eq!(Millis::from(claimed.attempt), attempt);
    }
    assert_eq!(
        recover(subject),
        Recovered {
            found: 1,
            died: vec![id]
        }
    );
    assert_eq!(pending(subject), 0);
    let found = dead(subject);
    assert_eq!(found[0].standing.attempts, 3);
    assert_eq!(found[0].error.as_deref(), Some(INTERRUPTED));
    assert_eq!(found[0].key.as_deref(), Some("a"));
}

fn a_suspect_keeps_its_key_and_can_be_moved_and_cancelled(subject: &mut dyn Subject) {
    let id = add(subject, "mail", Some("a"), 10);
    add(subject, "mail", Some("b"), 10);
    claim(subject, 10, 2);
    recover(subject);
    let kept = scheduled(subject, schedule("mail", Some("a"), 1));
    assert_eq!(kept, Scheduled::Kept(id));
    assert_eq!(count(subject, move_to("a", 70)), 1);
    assert_eq!(count(subject, cancel("b")), 1);
    assert_eq!(claim(subject, 100, 10).0, []);
    assert_eq!(claim_suspect(subject, 69), None);
    assert_eq!(
        claim_suspect(subject, 70).unwrap().key.as_deref(),
        Some("a")
    );
}

fn the_reason_of_a_retry_is_kept(subject: &mut dyn Subject) {
    let id = add(subject, "mail", None, 10);
    let claimed = claim_one(subject, 10);
    let error = Some("busy".to_owned());
    assert!(finish(subject, &claimed, Verdict::Retry { due: 20, error }));
    subject.restart();
    assert_eq!(row(subject, id).unwrap().error.as_deref(), Some("busy"));
    // One without a reason leaves the last one.
    let claimed = claim_one(subject, 20);
    assert!(finish(subject, &claimed, retry(30)));
    assert_eq!(row(subject, id).unwrap().error.as_deref(), Some("busy"));
    let claimed = claim_one(subject, 30);
    assert!(finish(subject, &claimed, fail("no")));
    assert_eq!(row(subject, id).unwrap().error.as_deref(), Some("no"));
}

fn lists_are_pages_by_id_or_by_due_time(subject: &mut dyn Subject) {
    assert_eq!(jobs(subject, &JobFilter::new()), []);
    add(subject, "mail", Some("dead"), 1);
    let claimed = claim_one(subject, 1);
    assert!(finish(subject, &claimed, fail("no")));
    add(subject, "mail", Some("suspect"), 30);
    claim_one(subject, 30);
    assert_eq!(recover(subject).found, 1);
    add(subject, "call", Some("running"), 5);
    claim_one(subject, 5);
    // Without a handler.
    add(subject, "fax", Some("unhandled"), 20);
    add(subject, "call", Some("far"), Millis::MAX);
    let mut keys = |filter: JobFilter| -> Vec<String> {
        let rows = jobs(subject, &filter).into_iter();
        rows.map(|row| row.key.unwrap()).collect()
    };
    let all = ["dead", "suspect", "running", "unhandled", "far"];
    assert_eq!(keys(JobFilter::new()), all);
    assert_eq!(keys(JobFilter::new().limit(2)), all[..2]);
    let waiting = || JobFilter::new().state(JobState::Waiting);
    assert_eq!(keys(waiting()), ["suspect", "unhandled", "far"]);
    assert_eq!(keys(waiting().limit(1)), ["suspect"]);
    assert_eq!(keys(JobFilter::new().state(JobState::Running)), ["running"]);
    assert_eq!(keys(JobFilter::new().dead()), ["dead"]);
    assert_eq!(keys(JobFilter::new().kind("call")), ["running", "far"]);
    assert_eq!(keys(JobFilter::new().kind("telex")), [""; 0]);
    for key in all {
        assert_eq!(keys(JobFilter::new().key(key)), [key]);
    }
    let before = crate::time::time_of(20);
    assert_eq!(
        keys(JobFilter::new().due_before(before)),
        ["dead", "running"]
    );
    let died = |end| JobFilter {
        died_before: Some(end),
        ..JobFilter::new()
    };
    assert_eq!(keys(died(TIME)), [""; 0]);
    assert_eq!(keys(died(Millis::MAX)), ["dead"]);
    let by_due = |limit| JobFilter {
        by_due: true,
        ..JobFilter::new().limit(limit)
    };
    assert_eq!(keys(by_due(10)), ["running", "unhandled", "suspect", "far"]);
    assert_eq!(keys(by_due(2)), ["running", "unhandled"]);
    assert_eq!(keys(by_due(0)), [""; 0]);
    let rows = jobs(subject, &JobFilter::new());
    for pair in rows.windows(2) {
        let next = jobs(subject, &JobFilter::new().after(pair[0].id).limit(1));
        assert_eq!(next, [pair[1].clone()]);
    }
}

fn operations_of_one_transaction_see_each_other(subject: &mut dyn Subject) {
    let calls = [
        schedule("mail", Some("a"), 10),
        schedule("mail", Some("a"), 20),
        move_to("a", 5),
        cancel("a"),
        cancel("a"),
        schedule("mail", Some("a"), 7),
    ];
    let committed = commit(subject, &calls, &[], &up_to(100, 10));
    assert!(committed.written);
    let ids: Vec<Scheduled> = committed
        .replies
        .iter()
        .filter_map(|reply| match reply {
            Reply::Scheduled(scheduled) => Some(scheduled[0]),
            _ => None,
        })
        .collect();
    assert_eq!(ids[1], Scheduled::Kept(ids[0].id()));
    assert!(matches!(ids[2], Scheduled::New(id) if id > ids[0].id()));
    let counts = [
        &committed.replies[2],
        &committed.replies[3],
        &committed.replies[4],
    ];
    assert_eq!(
        counts,
        [&Reply::Count(1), &Reply::Count(1), &Reply::Count(0)]
    );
    assert_eq!((committed.claims.len(), committed.claims[0].due), (1, 7));
    assert_eq!(committed.next.waiting, None);
    // An end comes before the calls, and these before the claim.
    let end = committed.claims[0].end(retry(50));
    let committed = commit(subject, &[move_to("a", 60)], &[end], &up_to(60, 1));
    assert_eq!(
        (committed.ended[0], &committed.replies[0]),
        (true, &Reply::Count(1))
    );
    assert_eq!(
        (committed.claims[0].due, committed.claims[0].attempt),
        (60, 2)
    );
}

fn several_jobs_are_stored_in_one_call(subject: &mut dyn Subject) {
    let kept = add(subject, "mail", Some("b"), 1);
    let all = vec![
        new("mail", Some("a"), 10),
        new("call", None, 20),
        new("mail", Some("b"), 30),
        new("mail", Some("a"), 40),
        New {
            replace: true,
            ..new("mail", Some("b"), 50)
        },
        new("call", None, 60),
    ];
    let Reply::Scheduled(scheduled) = one(subject, Call::Schedule(all)) else {
        panic!()
    };
    let first = scheduled[0].id();
    assert_eq!(scheduled.len(), 6);
    assert_eq!(scheduled[2], Scheduled::Kept(kept));
    assert_eq!(scheduled[3], Scheduled::Kept(first));
    assert_eq!(scheduled[4], Scheduled::Replaced(kept));
    let dues: Vec<_> = [0, 1, 4, 5]
        .map(|place: usize| row(subject, scheduled[place].id()).unwrap().standing.due)
        .to_vec();
    assert_eq!(dues, [10, 20, 50, 60]);
    assert_eq!(pending(subject), 4);
}

fn next_is_that_of_handled_kinds_with_room(subject: &mut dyn Subject) {
    let calls = [
        schedule("fax", None, 1),
        schedule("mail", None, 9),
        schedule("call", None, 8),
    ];
    let committed = commit(subject, &calls, &[], &rest());
    let waiting = |due| Earliest {
        waiting: due,
        ..Earliest::default()
    };
    assert_eq!(committed.next, waiting(Some(8)));
    let mut poll = |room: &[usize]| subject.store().poll(&|_, _, _| None, room).unwrap().next;
    assert_eq!(poll(&[1, 1]), waiting(Some(8)));
    assert_eq!(poll(&[1, 0]), waiting(Some(9)));
    assert_eq!(poll(&[0, 0]), waiting(None));
    claim(subject, 9, 2);
    recover(subject);
    let polled = subject.store().poll(&|_, _, _| None, &[1, 1]).unwrap();
    let suspect = Some(8);
    assert_eq!(
        polled.next,
        Earliest {
            suspect,
            ..Earliest::default()
        }
    );
}

fn reading_writes_nothing(subject: &mut dyn Subject) {
    add(subject, "mail", Some("a"), 10);
    let end = End {
        id: 1,
        token: 1 << 40,
        kind: "mail".into(),
        verdict: Verdict::Done,
    };
    let request = ClaimRequest {
        suspect: Some(100),
        ..up_to(9, 10)
    };
    let calls = [
        cancel("b"),
        move_to("b", 1),
        schedule("mail", Some("a"), 1),
        discard(1),
        revive(1, 1),
    ];
    assert!(!commit(subject, &calls, &[end], &request).written);
}

fn extreme_times_and_payloads_are_kept(subject: &mut dyn Subject) {
    let all = [(Millis::MIN, 0), (-1, 1), (0, 1 << 20), (Millis::MAX, 3)];
    for (due, len) in all {
        let extreme = New {
            kind: "mail".into(),
            key: Some("k".repeat(512) + &due.to_string()),
            payload: vec![42; len],
            due,
            replace: false,
            rule: None,
        };
        one(subject, Call::Schedule(vec![extreme]));
    }
    subject.restart();
    let (claims, _) = claim(subject, Millis::MAX, 10);
    let seen: Vec<_> = claims
        .iter()
        .map(|claim| (claim.due, claim.payload.len()))
        .collect();
    assert_eq!(seen, all);
    assert!(claims[2].payload.iter().all(|&byte| byte == 42));
    assert!(claims[2].key.as_ref().unwrap().len() == 513);
}

fn kinds_with_jobs_are_named(subject: &mut dyn Subject) {
    add(subject, "mail", None, 1);
    add(subject, "fax", None, 1);
    add(subject, "fax", None, 2);
    add(subject, "telex", Some("x"), 2);
    count(subject, cancel("x"));
    let mut kinds = subject.store().reader().kinds().unwrap();
    kinds.sort();
    assert_eq!(kinds, ["fax", "mail"]);
}

fn a_pause_is_stored(subject: &mut dyn Subject) {
    let pause = |kind: &str, paused| Call::Pause {
        kind: kind.to_owned(),
        paused,
    };
    let poll = |subject: &mut dyn Subject| {
        let polled = subject.store().poll(&|_, _, _| None, &[1, 1]).unwrap();
        let mut paused: Vec<String> = polled.paused.into_iter().collect();
        paused.sort();
        paused
    };
    assert_eq!(poll(subject), [""; 0]);
    assert_eq!(count(subject, pause("mail", true)), 1);
    assert_eq!(count(subject, pause("mail", true)), 0);
    assert_eq!(count(subject, pause("fax", true)), 1);
    subject.restart();
    assert_eq!(poll(subject), ["fax", "mail"]);
    assert_eq!(count(subject, pause("fax", false)), 1);
    assert_eq!(count(subject, pause("fax", false)), 0);
    subject.restart();
    assert_eq!(poll(subject), ["mail"]);
}

fn a_recurring_job_makes_one_run_for_each_of_its_times(subject: &mut dyn Subject) {
    let id = scheduled(subject, recurring("mail", "key", 10, false)).id();
    assert_eq!(
        claim(subject, 1000, 10),
        (vec![], None),
        "it is never claimed"
    );
    subject.restart();
    let found = slots(subject, 10, &[1, 1]);
    let expected = Slot { id, ..slot(10) };
    assert_eq!(found, [expected]);
    // The run is claimed by the transaction that makes it.
    let advanced = [advance(&found[0], Some(20), true)];
    let committed = commit(subject, &advanced, &[], &up_to(10, 10));
    assert_eq!(committed.replies, [Reply::Count(1)]);
    assert_eq!(committed.next.recurring, Some(20));
    let run = &committed.claims[0];
    assert_eq!((run.due, &*run.payload), (10, b"mail 10".as_slice()));
    assert_ne!(run.id, id);
    // Whoever is late makes none, whatever it wants.
    for run in [true, false] {
        assert_eq!(count(subject, advance(&found[0], Some(30), run)), 0);
        assert_eq!(count(subject, advance(&found[0], None, run)), 0);
    }
    assert_eq!(pending(subject), 2);
    assert!(finish(subject, run, Verdict::Done));
    // One that is left out.
    let found = slots(subject, 20, &[1, 1]);
    assert_eq!(count(subject, advance(&found[0], Some(90), false)), 1);
    assert_eq!(slots(subject, 89, &[1, 1]), []);
    // The last one.
    let found = slots(subject, 90, &[1, 1]);
    assert_eq!(count(subject, advance(&found[0], None, true)), 1);
    assert_eq!(slots(subject, Millis::MAX, &[1, 1]), []);
    assert_eq!(claim_one(subject, 90).due, 90);
    assert_eq!(pending(subject), 1);
    add(subject, "mail", Some("key"), 5);
}

fn a_recurring_job_holds_its_key_and_its_runs_never_do(subject: &mut dyn Subject) {
    let id = scheduled(subject, recurring("mail", "key", 10, false)).id();
    let kept = Scheduled::Kept(id);
    assert_eq!(
        scheduled(subject, recurring("mail", "key", 50, false)),
        kept
    );
    assert_eq!(scheduled(subject, schedule("mail", Some("key"), 50)), kept);
    let found = slots(subject, 10, &[1, 1]);
    let committed = commit(
        subject,
        &[advance(&found[0], Some(20), true)],
        &[],
        &up_to(10, 1),
    );
    let run = &committed.claims[0];
    assert_eq!(run.key.as_deref(), Some("key"));
    assert!(finish(subject, run, retry(15)));
    // It is shown under the key, and so is what made it.
    let shown = jobs(subject, &JobFilter::new().key("key"));
    let rows: Vec<_> = shown
        .iter()
        .map(|row| (row.id, row.rule.as_deref()))
        .collect();
    assert_eq!(rows, [(id, Some("every 10 ms")), (run.id, None)]);
    // A tried run still knows the key. The recurring job is what moves and ends by it.
    assert_eq!(count(subject, move_to("key", 40)), 1);
    assert_eq!(slots(subject, 39, &[1, 1]), []);
    let run = claim_one(subject, 15);
    assert_eq!((run.key.as_deref(), run.attempt), (Some("key"), 2));
    assert_eq!(count(subject, cancel("key")), 1);
    assert_eq!(count(subject, cancel("key")), 0);
    assert_eq!(slots(subject, Millis::MAX, &[1, 1]), []);
    assert!(finish(subject, &run, retry(16)));
    assert_eq!(count(subject, cancel("key")), 0, "the run does not hold it");
    let other = add(subject, "mail", Some("key"), 90);
    assert_eq!(claim_one(subject, 16).key.as_deref(), Some("key"));
    // Replaced by a job that does not recur, and by one that does.
    let replaced = Scheduled::Replaced(other);
    assert_eq!(
        scheduled(subject, recurring("mail", "key", 50, true)),
        replaced
    );
    assert_eq!(claim(subject, 100, 1).0, []);
    assert_eq!(scheduled(subject, replace("mail", "key", 60)), replaced);
    assert_eq!(slots(subject, Millis::MAX, &[1, 1]), []);
    assert_eq!(claim_one(subject, 60).id, other);
}

fn a_recurring_job_with_the_same_rule_keeps_its_time(subject: &mut dyn Subject) {
    let id = scheduled(subject, recurring("mail", "key", 10, false)).id();
    let replaced = Scheduled::Replaced(id);
    assert_eq!(
        scheduled(subject, recurring("mail", "key", 50, true)),
        replaced
    );
    let found = row(subject, id).unwrap();
    assert_eq!(
        (found.standing.due, &*found.payload),
        (10, b"mail 50".as_slice())
    );
    let other = New {
        replace: true,
        rule: Some("every 20 ms".to_owned()),
        ..new("mail", Some("key"), 60)
    };
    assert_eq!(scheduled(subject, Call::Schedule(vec![other])), replaced);
    let found = row(subject, id).unwrap();
    assert_eq!(
        (found.standing.due, found.rule.as_deref()),
        (60, Some("every 20 ms"))
    );
}

fn recurring_jobs_are_found_by_kind_with_room(subject: &mut dyn Subject) {
    for (kind, key, due) in [("mail", "a", 30), ("call", "b", 20), ("fax", "c", 10)] {
        one(subject, recurring(kind, key, due, false));
    }
    let dues = |slots: Vec<Slot>| slots.iter().map(|slot| slot.due).collect::<Vec<_>>();
    assert_eq!(dues(slots(subject, 100, &[1, 1])), [20, 30]);
    assert_eq!(dues(slots(subject, 29, &[1, 1])), [20]);
    assert_eq!(dues(slots(subject, 100, &[1, 0])), [30]);
    let next = |subject: &mut dyn Subject, room: &[usize]| {
        let polled = subject.store().poll(&|_, _, _| None, room).unwrap();
        polled.next.recurring
    };
    assert_eq!(next(subject, &[1, 1]), Some(20));
    assert_eq!(next(subject, &[1, 0]), Some(30));
    assert_eq!(pending(subject), 3);
    let mut kinds = subject.store().reader().kinds().unwrap();
    kinds.sort();
    assert_eq!(kinds, ["call", "fax", "mail"]);
}
