//! What is left in memory after the timer thread was held up by one of its tasks. This crate's timers only: the figures
//! are [`Stats::bytes`](hashed_wheel::Stats::bytes), and resident memory after `malloc_trim(0)`.
//!
//! memory-mixed: for 2 s, while two threads schedule a million timeouts and cancel every second one in random order; the
//! others fire. memory-held: for 5 s, beside two threads that schedule and cancel at full speed.
//! Afterwards a timeout fires every 100 ms for 3 s, so that a timer which gives memory back when its thread wakes up has the occasion.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hashed_wheel::{Timeout, TimerHandle};

use super::churn::Flight;
use super::{Figures, touched};
use crate::case::{Case, Workload};
use crate::contestant::own;
use crate::measure::{Random, resident};

pub(crate) fn hashed(case: &Case) -> Figures {
    let timer = own::hashed(case.tick(), case.slots);
    let handle = timer.handle();
    match case.workload {
        Workload::MemoryHeld => held(case, &timer),
        _ => mixed(case, &handle),
    }
}

pub(crate) fn hierarchical(case: &Case) -> Figures {
    let timer = own::hierarchical(case.tick());
    mixed(case, &timer.handle())
}

/// Bytes by the timer's own count, and resident ones.
struct Memory {
    counted: f64,
    resident: f64,
}

impl Memory {
    fn now(timer: &TimerHandle) -> Self {
        // SAFETY: it may be called at any time.
        unsafe { libc::malloc_trim(0) };
        Self {
            counted: timer.stats().bytes as f64,
            resident: resident() as f64,
        }
    }
}

/// Occupies the timer thread from now on, for `time`, and returns when it has begun.
fn hold_up(timer: &TimerHandle, time: Duration) {
    let begun = Arc::new(AtomicBool::new(false));
    let begins = Arc::clone(&begun);
    let hold = move |_: &_| {
        begins.store(true, Ordering::Release);
        std::thread::sleep(time);
    };
    let timeout = timer.new_timeout(hold, Duration::ZERO);
    drop(timeout.expect("a running timer takes a timeout"));
    while !begun.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Lets one timeout fire every 100 ms, for 3 s.
fn rest(timer: &TimerHandle) {
    for _ in 0..30 {
        let timeout = timer.new_timeout(|_| (), Duration::from_millis(50));
        drop(timeout.expect("a running timer takes a timeout"));
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn mixed(case: &Case, timer: &TimerHandle) -> Figures {
    // The measurement's own memory is there before and after.
    let each = case.flight / case.producers;
    let mut lists: Vec<Vec<Timeout>> = (0..case.producers).map(|_| touched(each / 2)).collect();
    rest(timer);
    let before = Memory::now(timer);
    hold_up(timer, case.watch());
    std::thread::scope(|scope| {
        for (number, cancelled) in lists.iter_mut().enumerate() {
            scope.spawn(move || {
                let mut random = Random::new(number as u64 + 1);
                for place in 0..each {
                    let captured = [place; 3];
                    let delay = case.delay() + random.within(case.spread());
                    let task = move |_: &_| {
                        std::hint::black_box(captured);
                    };
                    let timeout = timer.new_timeout(task, delay).expect("a timeout");
                    if place.is_multiple_of(2) {
                        cancelled.push(timeout);
                    }
                }
                while !cancelled.is_empty() {
                    let place = random.below(cancelled.len() as u64) as usize;
                    cancelled.swap_remove(place).cancel();
                }
            });
        }
    });
    let peak = timer.stats().bytes as f64;
    let start = Instant::now();
    while timer.stats().pending > 0 {
        assert!(start.elapsed().as_secs() < 20, "not everything has fired");
        std::thread::sleep(Duration::from_millis(10));
    }
    rest(timer);
    let after = Memory::now(timer);
    drop(lists);
    figures(&before, peak, &after)
}

fn held(case: &Case, timer: &hashed_wheel::HashedWheelTimer) -> Figures {
    let handle = timer.handle();
    rest(&handle);
    let before = Memory::now(&handle);
    hold_up(&handle, case.watch());
    let (stop, schedules) = (AtomicBool::new(false), AtomicU64::new(0));
    let (peak, wall) = std::thread::scope(|scope| {
        for number in 0..case.producers as u64 {
            let (stop, schedules) = (&stop, &schedules);
            scope.spawn(move || {
                let mut flight: Flight<_> = Flight::new(timer, number, case.flight);
                let mut done = case.flight as u64;
                while !stop.load(Ordering::Relaxed) {
                    flight.churn(1_000);
                    done += 1_000;
                }
                schedules.fetch_add(done, Ordering::Relaxed);
                for timeout in flight.handles {
                    timeout.cancel();
                }
            });
        }
        let start = Instant::now();
        let mut peak = 0;
        // Until the timer thread is back.
        while start.elapsed() < case.watch().mul_f64(0.98) {
            std::thread::sleep(Duration::from_millis(20));
            peak = peak.max(handle.stats().bytes);
        }
        stop.store(true, Ordering::Relaxed);
        (peak as f64, start.elapsed())
    });
    rest(&handle);
    let after = Memory::now(&handle);
    let schedules = schedules.into_inner() as f64;
    let mut figures = figures(&before, peak, &after);
    let grown = (peak - before.counted).max(0.0);
    figures.push(("bytes_per_schedule".to_owned(), grown / schedules));
    let rate = schedules / wall.as_secs_f64() / 1e6;
    figures.push(("mops_per_s".to_owned(), rate));
    figures
}

fn figures(before: &Memory, peak: f64, after: &Memory) -> Figures {
    let figures = [
        ("start_mb", before.counted),
        ("peak_mb", peak),
        ("left_mb", after.counted - before.counted),
        ("rss_start_mb", before.resident),
        ("rss_left_mb", after.resident - before.resident),
    ];
    let named = figures.map(|(name, bytes)| (name.to_owned(), bytes / 1e6));
    named.into_iter().collect()
}
