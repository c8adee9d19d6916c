use super::*;

#[test]
fn only_a_plan_that_is_too_late_asks_for_a_wake_up() {
    let plan = |tick: u64, room: u64| tick << TICK_SHIFT | room | PLAN;
    assert!(!is_too_late(AWAKE, Tick(1), true));
    assert!(!is_too_late(9 << TICK_SHIFT | WOKEN, Tick(1), true));
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
