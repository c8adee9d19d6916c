use super::*;
use std::thread;
use std::time::{Duration, Instant};

/// The counter, as this machine has it; `None` if its clock is made of something else.
fn usable() -> Option<Counter> {
    let counter = Counter::new();
    (counter.least() > 0).then_some(counter)
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
                        let least = source::read();
                        let reading = nanos();
                        let most = source::read();
                        assert!(
                            reading + LAG >= least && reading <= most + LAG,
                            "{reading} is not between {least} and {most}"
                        );
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
    let nanos = source::read();
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
    let least = source::read();
    let reading = anchor.renew(read(), &counter);
    assert!(least <= reading && reading <= source::read());
    assert_eq!(anchor.span.get(), 0);
}
