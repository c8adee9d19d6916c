use super::*;

/// A timer that never has anything to do.
struct Idle;

impl Driven for Idle {
    fn is_in_task_here(&self) -> bool {
        false
    }

    fn next_due(&self) -> Option<u64> {
        None
    }

    fn turn(self: Arc<Self>) {}

    fn catch_up(self: Arc<Self>) {}
}

#[test]
fn a_timer_that_is_gone_is_forgotten_when_the_next_one_comes() {
    let clock = ManualClock::new();
    let stays = Arc::new(Idle);
    let weak: Weak<Idle> = Arc::downgrade(&stays);
    clock.register(weak);
    for _ in 0..10 {
        let weak: Weak<Idle> = Arc::downgrade(&Arc::new(Idle));
        clock.register(weak);
    }
    assert_eq!(clock.state.timers.lock().len(), 2, "it, and the last");
    assert_eq!(clock.timers().len(), 1);
}

#[test]
fn clocks_are_told_apart() {
    let (clock, other) = (ManualClock::new(), ManualClock::new());
    assert_eq!(clock.identity(), clock.clone().identity());
    assert_ne!(clock.identity(), other.identity());
    assert_ne!(clock.identity(), 0);
}

#[test]
fn its_debug_text_tells_the_time() {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(90));
    assert_eq!(format!("{clock:?}"), "ManualClock { now: 90s, .. }");
}
