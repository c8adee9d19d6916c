#![cfg(all(
    target_os = "linux",
    target_arch = "x86_64",
    not(any(miri, hashed_wheel_loom))
))]

use super::*;
use std::thread;
use std::time::{Duration, Instant};

/// The counter, as this machine has it; `None` if its clock is made of something else.
fn usable() -> Option<Counter> {
    let counter = Counter::new();
    counter.is_usable().then_some(counter)
}

#[test]
fn the_counter_is_used_where_the_system_s_clock_is_made_of_it() {
    let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let is_tsc = std::fs::read_to_string(file).is_ok_and(|source| source.trim() == "tsc");
    let least = (0..1_000).map(|_| {
        let start = monotonic::read();
        read();
        monotonic::read() - start
    });
    // Where reading one of them is no system call.
    if least.min() < Some(100) {
        assert_eq!(usable().is_some(), is_tsc);
        assert_eq!(is_usable(), is_tsc);
    }
}

/// Makes an anchor, however often this thread is interrupted.
fn renewed(anchor: &Anchor, counter: &Counter) {
    let before = anchor.count.get();
    while anchor.count.get() == before {
        anchor.renew(read(), counter);
    }
}

/// Makes anchors until the rate is known.
fn calibrated(counter: &Counter) -> Anchor {
    let anchor = Anchor::new();
    while anchor.span.get() == 0 {
        renewed(&anchor, counter);
    }
    anchor
}

#[test]
fn a_reading_is_close_to_the_system_s_clock() {
    if usable().is_none() {
        return;
    }
    let threads: Vec<_> = (0..3)
        .map(|_| {
            thread::spawn(|| {
                let start = Instant::now();
                let mut counted = 0;
                while start.elapsed() < Duration::from_millis(60) {
                    for _ in 0..100 {
                        let least = monotonic::read();
                        let reading = nanos();
                        let most = monotonic::read();
                        assert!(
                            reading + BEHIND >= least && reading <= most + AHEAD,
                            "{reading} is not between {least} and {most}"
                        );
                        let least = monotonic::read();
                        if let Some(reading) = fenced() {
                            let most = monotonic::read();
                            assert!(
                                reading + BEHIND_FENCED >= least && reading <= most + AHEAD,
                                "{reading} is not between {least} and {most}, behind a fence"
                            );
                        }
                        counted += ANCHOR.with(|anchor| u32::from(anchor.span.get() > 0));
                    }
                }
                counted
            })
        })
        .collect();
    for thread in threads {
        assert!(thread.join().unwrap() > 0, "the counter was not used");
    }
}

#[test]
fn the_rate_is_measured_over_some_milliseconds() {
    let Some(counter) = usable() else { return };
    let anchor = Anchor::new();
    renewed(&anchor, &counter);
    let begun = anchor.nanos.get();
    assert_eq!(anchor.span.get(), 0, "the rate is not known yet");
    let anchor = calibrated(&counter);
    assert!(anchor.nanos.get() - begun >= CALIBRATION);
    assert_eq!(anchor.rate.get(), counter.rate.load(Ordering::Relaxed));
}

#[test]
fn a_wrong_rate_is_found_out_and_measured_again() {
    let Some(counter) = usable() else { return };
    for fault in 1..=FAULTS {
        let anchor = calibrated(&counter);
        let rate = anchor.rate.get();
        let wrong = rate + rate / 20;
        counter.rate.store(wrong, Ordering::Relaxed);
        renewed(&anchor, &counter);
        assert_eq!(anchor.rate.get(), wrong);
        // The next one has to come soon to tell.
        while counter.faults.load(Ordering::Relaxed) < fault {
            while read() - anchor.count.get() < SPAN {}
            counter.rate.store(wrong, Ordering::Relaxed);
            renewed(&anchor, &counter);
        }
        assert_eq!(anchor.span.get(), 0, "nobody counts with it any more");
    }
    // Given up.
    let anchor = Anchor::new();
    let start = Instant::now();
    while start.elapsed() < Duration::from_nanos(2 * CALIBRATION) {
        renewed(&anchor, &counter);
        assert_eq!(anchor.span.get(), 0);
    }
}

#[test]
fn a_rate_that_no_processor_has_is_measured_again() {
    let Some(counter) = usable() else { return };
    let nanos = monotonic::read();
    for (fault, hertz) in [(1, 50_000_000_u64), (2, 20_000_000_000)] {
        assert_eq!(counter.rate(1, nanos), 0);
        let counts = hertz * (CALIBRATION / 1000) / 1_000_000;
        assert_eq!(counter.rate(1 + counts, nanos + CALIBRATION), 0);
        assert_eq!(counter.rate.load(Ordering::Relaxed), 0);
        assert_eq!(counter.faults.load(Ordering::Relaxed), fault);
    }
    assert_eq!(counter.rate(1, nanos), 0);
    assert_eq!(counter.rate(1 + 3 * CALIBRATION, nanos + CALIBRATION), 0);
    assert_eq!(counter.rate(0, 0), (1 << 32) / 3);
}

#[test]
fn a_thread_s_readings_never_go_back() {
    let Some(counter) = usable() else { return };
    let anchor = calibrated(&counter);
    // Too high, and not found out as long as this thread is not interrupted: each anchor is behind what the last one has told.
    let rate = anchor.rate.get();
    counter.rate.store(rate + rate / 64, Ordering::Relaxed);
    let start = Instant::now();
    let mut last = 0;
    while start.elapsed() < Duration::from_millis(20) {
        let reading = anchor.nanos(&counter);
        assert!(reading >= last, "{reading} after {last}");
        last = reading;
    }
}

#[test]
fn without_a_counter_every_time_is_the_system_s() {
    let counter = Counter::new();
    counter.least.set(0).unwrap();
    let anchor = Anchor::new();
    let least = monotonic::read();
    let reading = anchor.renew(read(), &counter);
    assert!(least <= reading && reading <= monotonic::read());
    assert_eq!(anchor.span.get(), 0);
}

/// Three counts a nanosecond, about.
const RATE: u64 = (1 << 32) / 3;
/// Where the anchors of [`made_up`] begin.
const COUNT: u64 = 1 << 40;
const NANOS: u64 = 1 << 39;

/// A counter that takes a hundred counts to be read, and an anchor that was made just now.
fn made_up() -> (Counter, Anchor) {
    let (counter, anchor) = (Counter::new(), Anchor::new());
    counter.least.set(100).unwrap();
    counter.rate.store(RATE, Ordering::Relaxed);
    assert_eq!(anchor.renew_at(COUNT, NANOS, 100, &counter), NANOS);
    (counter, anchor)
}

fn faults(counter: &Counter) -> u32 {
    counter.faults.load(Ordering::Relaxed)
}

#[test]
fn an_anchor_is_used_for_one_span_and_never_before_it() {
    let (counter, anchor) = made_up();
    assert!(counter.is_usable());
    assert_eq!(anchor.glance(COUNT), Some(NANOS));
    assert_eq!(anchor.glance(COUNT + 3_001), Some(NANOS + 1_000));
    let last = NANOS + (((SPAN - 1) * RATE) >> 32);
    assert_eq!(anchor.glance(COUNT + SPAN - 1), Some(last));
    assert_eq!(anchor.glance(COUNT + SPAN), None);
    assert_eq!(anchor.glance(COUNT - 1), None, "set back");
}

#[test]
fn a_disturbed_reading_is_told_but_makes_no_anchor() {
    let (counter, anchor) = made_up();
    let (count, nanos) = (COUNT + 3 * SPAN, NANOS + SPAN);
    assert_eq!(anchor.renew_at(count, nanos, 401, &counter), nanos);
    assert_eq!(anchor.count.get(), COUNT);
    assert_eq!(anchor.renew_at(count, nanos, 400, &counter), nanos);
    assert_eq!(
        anchor.count.get(),
        count + 150,
        "in the middle of what it took"
    );
    assert_eq!((anchor.nanos.get(), faults(&counter)), (nanos, 0));
}

#[test]
fn an_anchor_that_is_behind_tells_what_was_told_unless_that_is_of_another_clock() {
    let told = NANOS + ((SPAN * RATE) >> 32);
    for (behind, floor) in [(1, told), (AHEAD - 1, told), (AHEAD, 0), (AHEAD + 1, 0)] {
        let (counter, anchor) = made_up();
        // So long after that the two are not compared.
        let (count, nanos) = (COUNT + STALE, told - behind);
        let expected = nanos.max(floor);
        assert_eq!(
            anchor.renew_at(count, nanos, 100, &counter),
            expected,
            "{behind}"
        );
        assert_eq!(anchor.glance(count), Some(expected), "{behind}");
        let later = (((SPAN - 1) * RATE) >> 32) + nanos;
        assert_eq!(anchor.glance(count + SPAN - 1), Some(later.max(floor)));
    }
}

#[test]
fn a_clock_that_is_read_within_the_span_is_not_ahead() {
    let (counter, anchor) = made_up();
    for counts in [300, 600, 3_000, SPAN, SPAN + 300] {
        let (count, nanos) = (COUNT + counts, NANOS + counts / 3);
        assert_eq!(anchor.renew_at(count, nanos, 100, &counter), nanos);
        assert_eq!(anchor.glance(count), Some(nanos));
    }
}

#[test]
fn anchors_may_disagree_by_a_tenth_of_a_microsecond_and_half_a_percent() {
    let passed = 3_000_000;
    let expected = NANOS + ((passed * RATE) >> 32);
    let allowed = 100 + ((passed * RATE) >> 32) / 200;
    for (nanos, given_up) in [
        (expected + allowed, 0),
        (expected - allowed, 0),
        (expected + allowed + 1, 1),
        (expected - allowed - 1, 1),
    ] {
        let (counter, anchor) = made_up();
        counter.base[1].store(7, Ordering::Relaxed);
        anchor.renew_at(COUNT + passed, nanos, 100, &counter);
        assert_eq!(faults(&counter), given_up);
        let rate = counter.rate.load(Ordering::Relaxed);
        assert_eq!(rate, if given_up == 0 { RATE } else { 0 });
        assert_eq!(anchor.span.get(), if given_up == 0 { SPAN } else { 0 });
        // Another thread that finds out is not another fault.
        counter.compare(RATE, passed, expected, nanos);
        assert_eq!(faults(&counter), given_up);
    }
}

#[test]
fn an_old_anchor_and_one_without_a_rate_tell_nothing_of_the_rate() {
    for (passed, given_up) in [(STALE - 1, 1), (STALE, 0)] {
        let (counter, anchor) = made_up();
        anchor.renew_at(COUNT + passed, NANOS + 1, 100, &counter);
        assert_eq!(faults(&counter), given_up);
    }
    let (counter, anchor) = made_up();
    anchor.span.set(0);
    anchor.renew_at(COUNT + SPAN, NANOS + 1, 100, &counter);
    assert_eq!(faults(&counter), 0);
}

#[test]
fn the_slowest_and_the_fastest_counter_are_used_and_none_beyond() {
    let measured = |counts: u64| {
        let counter = Counter::new();
        let start = 1 << 30;
        assert_eq!(counter.rate(start, NANOS), 0, "measuring begins");
        assert_eq!(counter.rate(start + 1, NANOS + CALIBRATION - 1), 0);
        assert_eq!(counter.rate(start + counts, NANOS + CALIBRATION), 0);
        (counter.rate(0, NANOS), faults(&counter))
    };
    // 10 GHz and 1.67 GHz.
    let fastest = CALIBRATION * 10;
    let slowest = CALIBRATION * 10 / 6;
    assert_eq!(measured(fastest), (FASTEST, 0));
    assert_eq!(measured(fastest + fastest / 1000), (0, 1));
    assert_eq!(measured(slowest + 1).1, 0);
    assert_eq!(measured(slowest - slowest / 1000), (0, 1));
    assert_eq!(measured(0), (0, 1));
}

#[test]
fn a_counter_that_is_not_the_system_s_is_not_used() {
    let counter = Counter::new();
    counter.least.set(0).unwrap();
    assert!(!counter.is_usable());
    assert_eq!(is_usable(), COUNTER.is_usable());
}

#[test]
fn the_margin_is_a_part_of_the_tick_and_at_least_the_bound_of_a_reading() {
    let margins = [1_000_000, 2_000_000, 8_000_000, 100_000_000].map(margin);
    assert_eq!(margins, [BEHIND, BEHIND, 250_000, 1_000_000]);
}
