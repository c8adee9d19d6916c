use super::*;

#[test]
fn only_a_plan_that_is_too_late_asks_for_a_wake_up() {
    let plan = |tick: u64, room: u64| tick << TICK_SHIFT | EPOCH | room | PLAN;
    assert!(!is_too_late(EPOCH, Tick(1), true));
    assert!(!is_too_late(9 << TICK_SHIFT | EPOCH, Tick(1), true));
    assert!(!is_too_late(9 << TICK_SHIFT | EPOCH | WOKEN, Tick(1), true));
    assert!(is_too_late(plan(5, 0), Tick(4), false));
    assert!(!is_too_late(plan(5, ROOM), Tick(5), false));
    assert!(!is_too_late(plan(5, 0), Tick(9), true));
    assert!(is_too_late(plan(5, ROOM), Tick(9), true));
    assert!(is_too_late(plan(Tick::NEVER.0, 0), Tick(1 << 44), false));
    assert!(!is_too_late(plan(Tick::NEVER.0, 0), Tick::NEVER, false));
}

#[test]
fn a_sleeper_is_told_when_it_was_woken_and_by_what() {
    let sleep = Parker::new();
    sleep.register_worker();
    let now = || Some(Duration::ZERO);
    assert_eq!(sleep.sleep(Tick(9), true, now, || true), WakeReason::Awake);
    assert_eq!(sleep.sleep(Tick(9), true, now, || false), WakeReason::Awake);
    let soon = || Some(Duration::from_millis(1));
    assert_eq!(
        sleep.sleep(Tick(9), true, soon, || false),
        WakeReason::Planned
    );
    // A push between the announcement and the parking: the token makes it return at once.
    let push = || sleep.wake_if_late(Tick(8), false, || Tick(7));
    let woken = sleep.sleep(
        Tick(9),
        true,
        || None,
        || {
            push();
            false
        },
    );
    assert_eq!(woken, WakeReason::Push(Tick(7)));
}

#[test]
fn the_word_holds_what_is_put_into_it() {
    let parker = Parker::new();
    // The epoch goes round more than once, and no plan is the same as the one before.
    let mut last = 0;
    for round in 0..200_000 {
        let room = round % 2 == 0;
        let word = parker.announce(Tick::NEVER, room);
        assert_eq!(word >> TICK_SHIFT, Tick::NEVER.0);
        assert_eq!((word & PLAN, word & ROOM != 0), (PLAN, room));
        assert_ne!(word as u32 | ROOM as u32, last as u32 | ROOM as u32);
        last = word;
        assert_eq!(parker.withdraw(), None);
    }
}

/// What somebody who is interrupted after the exchange leaves behind: the next one wakes the worker in its place.
#[test]
fn a_push_that_finds_a_wake_up_begun_completes_it() {
    let parker = Parker::new();
    parker.register_worker();
    let plan = parker.announce(Tick(9), false);
    let woken = parker.claim(plan, Tick(7), |_| true).unwrap();
    assert_eq!(woken & WOKEN, WOKEN);
    // It is due after the plan: all the same, as the plan is not known any more.
    parker.wake_if_late(Tick(20), false, || Tick(8));
    assert_eq!(parker.word.load(Ordering::SeqCst), woken & !WOKEN);
    // Now nobody has to do anything.
    parker.wake_if_late(Tick(8), true, || panic!("the clock is not asked"));
    assert_eq!(parker.withdraw(), Some(Tick(7)));
}

/// Who has woken the worker, and comes back late, leaves the next plan alone.
#[test]
fn a_late_exchange_does_not_meet_the_next_plan() {
    let parker = Parker::new();
    let plan = parker.announce(Tick(9), false);
    let late = parker.claim(plan, Tick(7), |_| true).unwrap();
    assert_eq!(parker.withdraw(), Some(Tick(7)));
    let plan = parker.announce(Tick(9), false);
    let woken = parker.claim(plan, Tick(7), |_| true).unwrap();
    assert_ne!(late, woken);
}
