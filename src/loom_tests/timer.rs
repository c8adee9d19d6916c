//! w
use super::explore;
use crate::{HashedWheelTimer, ManualClock};
use loom::thread;
use std::time::Duration;

#[test]
fn whole_stop() {
    explore(["returned", "rejected"], || {
        let clock = ManualClock::new();
        let timer = HashedWheelTimer::builder()
            .ticks_per_wheel(2)
            .clock(&clock)
            .build()
            .unwrap();
        timer.start().unwrap();
        let handle = timer.handle();
        let producer = thread::spawn(move || {
            let made = handle.new_timeout(|_| (), Duration::from_secs(1));
            made.is_ok()
        });
        let left = timer.stop().unwrap();
        let ok = producer.join().unwrap();
        assert_eq!(left.len(), usize::from(ok));
        if ok { "returned" } else { "rejected" }
    });
}

#[test]
fn whole_stop_real() {
    explore(["returned", "rejected"], || {
        let timer = HashedWheelTimer::builder()
            .ticks_per_wheel(2)
            .tick_duration(Duration::from_secs(3600))
            .build()
            .unwrap();
        timer.start().unwrap();
        let handle = timer.handle();
        let producer = thread::spawn(move || {
            let made = handle.new_timeout(|_| (), Duration::from_secs(36000));
            made.is_ok()
        });
        let left = timer.stop().unwrap();
        let ok = producer.join().unwrap();
        assert_eq!(left.len(), usize::from(ok));
        if ok { "returned" } else { "rejected" }
    });
}
