use super::*;
use crate::{HashedWheelTimer, ManualClock};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Weak;

const FAR: Duration = Duration::from_secs(3600);

fn timer() -> (HashedWheelTimer, Weak<Shared>) {
    let timer = HashedWheelTimer::builder()
        .clock(&ManualClock::new())
        .max_pending_timeouts(100)
        .build()
        .unwrap();
    let memory = Arc::downgrade(timer.handle().shared());
    (timer, memory)
}

#[test]
#[cfg_attr(miri, ignore = "a million words")]
fn a_timeout_for_which_the_queue_has_no_room_leaves_nothing_behind() {
    let (timer, memory) = timer();
    let held = Arc::new(());
    timer.new_timeout(|_| {}, FAR).unwrap();
    timer.handle().shared().queue().use_up();
    // The first chunk is there.
    for _ in 1..31 {
        timer.new_timeout(|_| {}, FAR).unwrap();
    }
    for refused in 1..=3 {
        let task = Arc::clone(&held);
        let call = AssertUnwindSafe(|| timer.new_timeout(move |_| drop(task), FAR).is_ok());
        let panic = catch_unwind(call).expect_err("there is no room");
        let message = panic.downcast_ref::<&str>().expect("it has a message");
        assert!(message.contains("no room for more"), "{message}");
        assert_eq!(Arc::strong_count(&held), 1, "the task is dropped");
        let stats = timer.stats();
        assert_eq!((stats.pending, stats.scheduled), (31, 31));
        assert_eq!(stats.rejected, refused);
    }
    assert_eq!(timer.stop().unwrap().len(), 31);
    drop(timer);
    assert_eq!(memory.strong_count(), 0, "every slot is free");
}

#[test]
fn a_timeout_whose_timer_stops_meanwhile_leaves_nothing_behind() {
    let (timer, memory) = timer();
    timer.new_timeout(|_| {}, FAR).unwrap();
    let shared = memory.upgrade().unwrap();
    let store = |task: fn(&Timeout)| {
        assert_eq!(timer.stop().unwrap().len(), 1);
        StoredTask::once(task)
    };
    let refused = shared.schedule(|_| (), Kind::Once, store, When::After(FAR));
    assert!(matches!(
        refused,
        Err((Refused::Stored(_), RejectReason::Stopped))
    ));
    assert_eq!((timer.stats().pending, timer.stats().rejected), (0, 1));
    drop((refused, shared, timer));
    assert_eq!(memory.strong_count(), 0, "its slot is free");
}
