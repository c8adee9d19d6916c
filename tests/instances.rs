//! Too many live timers are reported once in a process. So this is the only test of its process.

mod common;

use common::{Kind, Timer, logs, ms};
use hashed_wheel::ManualClock;
use log::Level;

fn live_timers(n: usize, clock: &ManualClock) -> Vec<Timer> {
    let kinds = [Kind::Hashed, Kind::Hierarchical].into_iter().cycle();
    let timers: Vec<_> = kinds.take(n).map(|kind| kind.on(clock)).collect();
    for timer in &timers {
        timer.start().unwrap();
    }
    timers
}

#[test]
fn more_than_64_live_timers_are_logged_once() {
    logs::keep();
    let clock = ManualClock::new();
    // Timers that come and go do not add up.
    for _ in 0..3 {
        drop(live_timers(40, &clock));
    }
    let mut timers = live_timers(64, &clock);
    assert_eq!(logs::at(Level::Error).len(), 0, "64 are allowed");
    timers.extend(live_timers(1, &clock));
    let errors = logs::at(Level::Error);
    assert_eq!(errors.len(), 1);
    assert!(errors[0].text.contains("64"), "{}", errors[0].text);
    timers.extend(live_timers(10, &clock));
    drop(timers);
    drop(live_timers(70, &clock));
    assert_eq!(logs::at(Level::Error).len(), 1, "once");
    clock.advance(ms(10));
}
