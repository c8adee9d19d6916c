//! What cancelled and moved timeouts leave behind is bounded, and a timer gives its memory back.
//!
//! Counted by an allocator: with the manual clock all of it happens on the test's own thread.

#![allow(clippy::cast_possible_wrap)] // no layout is larger than `isize::MAX`

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::mpsc;
use std::time::Duration;

use common::{FAR, Kind, assert_counts_add_up, ms, on_both_timers, recv};
use hashed_wheel::{ManualClock, Timeout};

on_both_timers![
    adding_and_cancelling_in_the_queue_leaves_nothing_to_grow,
    adding_and_cancelling_in_the_wheel_leaves_nothing_to_grow,
    adding_and_cancelling_in_one_bucket_leaves_nothing_to_grow,
    resetting_to_and_fro_leaves_nothing_to_grow,
    coming_back_to_a_deadline_again_and_again_leaves_nothing_to_grow,
    a_burst_that_is_cancelled_is_swept_by_later_work,
    a_dropped_timer_gives_its_memory_back,
];

struct Counting;

thread_local! {
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

fn count(change: isize) {
    // At the end of a thread the counter may be gone, and nobody looks at it any more.
    let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + change));
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How many bytes this thread has allocated and not freed, above a starting point.
struct Growth(isize);

impl Growth {
    fn start() -> Growth {
        Growth(BYTES.get())
    }

    fn kilobytes(&self) -> isize {
        (BYTES.get() - self.0) / 1_024
    }
}

/// So many timeouts that their entries alone, left to lie, would take more than four megabytes.
const MANY: usize = 300_000;
const BOUND_KB: isize = 1_024;

#[track_caller]
fn assert_bounded(growth: &Growth) {
    let kilobytes = growth.kilobytes();
    assert!(
        kilobytes < BOUND_KB,
        "{kilobytes} KB are left of timeouts that are gone"
    );
}

fn adding_and_cancelling_in_the_queue_leaves_nothing_to_grow(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.new_timeout(|_| {}, FAR).unwrap();
    let growth = Growth::start();
    for n in 0..MANY {
        assert!(
            timer
                .new_timeout(|_| {}, ms(n as u64 % 1_000))
                .unwrap()
                .cancel()
        );
        if n % 50_000 == 0 {
            assert_bounded(&growth);
        }
    }
    assert_bounded(&growth);
    clock.advance(ms(2_000));
    assert_bounded(&growth);
    assert_counts_add_up(&timer);
}

fn adding_and_cancelling_in_the_wheel_leaves_nothing_to_grow(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.new_timeout(|_| {}, FAR).unwrap();
    let growth = Growth::start();
    for _ in 0..MANY / 500 {
        let add = |n: u64| timer.new_timeout(|_| {}, FAR + ms(n * 10)).unwrap();
        let batch: Vec<_> = (0..500).map(add).collect();
        clock.advance(ms(10));
        assert!(batch.iter().all(Timeout::cancel));
    }
    clock.advance(ms(10));
    assert_bounded(&growth);
    assert_eq!(timer.pending_timeouts(), 1);
}

fn adding_and_cancelling_in_one_bucket_leaves_nothing_to_grow(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.new_timeout(|_| {}, FAR).unwrap();
    let growth = Growth::start();
    for _ in 0..MANY / 500 {
        // The same deadline for all, so that they meet whichever wheel it is.
        let left = FAR.checked_sub(clock.now()).unwrap();
        let add = |_| timer.new_timeout(|_| {}, left).unwrap();
        let batch: Vec<_> = (0..500).map(add).collect();
        clock.advance(ms(10));
        assert!(batch.iter().all(Timeout::cancel));
    }
    clock.advance(ms(10));
    assert_bounded(&growth);
    assert_eq!(timer.pending_timeouts(), 1);
}

fn resetting_to_and_fro_leaves_nothing_to_grow(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let timeout = timer.new_timeout(|_| {}, FAR).unwrap();
    let growth = Growth::start();
    for n in 0..MANY {
        let hours = Duration::from_secs(3_600) * (1 + u32::from(n % 2 == 0));
        assert!(timeout.reset(hours));
        if n % 100 == 0 {
            clock.advance(ms(10));
        }
    }
    assert_bounded(&growth);
    assert_eq!(timer.stats().scheduled, 1);
}

/// Each time the wheel looks at the earlier tick, and files the slot again where it was filed before.
fn coming_back_to_a_deadline_again_and_again_leaves_nothing_to_grow(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let end = timer.now() + FAR;
    let add = |_| timer.new_timeout_at(|_| {}, end).unwrap();
    let held: Vec<_> = (0..1_000).map(add).collect();
    clock.advance(ms(10));
    let growth = Growth::start();
    for near in held.chunks(50).cycle().take(MANY / 50) {
        assert!(near.iter().all(|timeout| timeout.reset(ms(20))));
        clock.advance(ms(10));
        assert!(near.iter().all(|timeout| timeout.reset_at(end)));
        clock.advance(ms(10));
    }
    assert_bounded(&growth);
    assert_eq!(timer.pending_timeouts(), 1_000);
    clock.advance(FAR);
    assert_eq!(timer.stats().expired, 1_000);
}

fn a_burst_that_is_cancelled_is_swept_by_later_work(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind
        .builder()
        .max_transfers(usize::MAX)
        .clock(&clock)
        .build();
    timer.start().unwrap();
    // Each burst may leave its rubbish until the next, but they must not add up.
    let mut after_first = None;
    for _ in 0..10 {
        let add = |n: u64| timer.new_timeout(|_| {}, FAR + ms(n)).unwrap();
        let burst: Vec<_> = (0..20_000).map(add).collect();
        clock.advance(ms(10));
        assert!(burst.iter().all(Timeout::cancel));
        drop(burst);
        clock.advance(ms(10));
        assert_bounded(after_first.get_or_insert_with(Growth::start));
    }
}

fn a_dropped_timer_gives_its_memory_back(kind: Kind) {
    let clock = ManualClock::new();
    // The first timer of a thread may leave something that the next ones use again.
    drop(kind.on(&clock));
    let growth = Growth::start();
    for _ in 0..3 {
        let timer = kind.on(&clock);
        let held: Vec<_> = (0..30_000)
            .map(|n| timer.new_timeout(|_| {}, ms(n % 3_000)).unwrap())
            .collect();
        clock.advance(ms(1_000));
        drop(timer);
        assert!(held.iter().all(|t| t.is_expired() || t.is_cancelled()));
    }
    drop(kind.on(&clock));
    let kilobytes = growth.kilobytes();
    assert!(kilobytes < 64, "{kilobytes} KB are left of three timers");
}

/// Each of these outlives some thousands of later calls, so that its entry is moved out of the way of the dead ones, and is
/// cancelled then. The timer's thread does not come to them.
#[test]
fn what_is_cancelled_late_while_the_worker_is_held_up_leaves_nothing_to_grow() {
    const HELD: usize = 1000;
    let pairs = if cfg!(debug_assertions) {
        400_000
    } else {
        10_000_000
    };
    for every in [31, 5] {
        let timer = Kind::Hashed.builder().tick(ms(1)).build();
        let (entered, inside) = mpsc::channel();
        let (release, gate) = mpsc::channel::<()>();
        let blocker = move |_: &Timeout| {
            entered.send(()).unwrap();
            let _ = gate.recv();
        };
        timer.new_timeout(blocker, ms(0)).unwrap();
        recv(&inside);
        let mut held = VecDeque::new();
        let (mut most_queued, mut most_bytes) = (0, 0);
        for n in 0..pairs {
            let timeout = timer.new_timeout(|_| {}, FAR).unwrap();
            if n % every == 0 {
                held.push_back(timeout);
            } else {
                assert!(timeout.cancel());
            }
            if held.len() > HELD {
                assert!(held.pop_front().is_some_and(|oldest| oldest.cancel()));
            }
            if n % 1000 == 0 {
                let stats = timer.stats();
                most_queued = most_queued.max(stats.queued);
                most_bytes = most_bytes.max(stats.bytes);
            }
        }
        println!("1 of {every}: {most_queued} queued, {most_bytes} bytes at most");
        // One shard's limit, as is promised; it is less than half of it.
        assert!(most_queued < 131_072, "{most_queued} are queued");
        assert!(most_bytes < 4_000_000, "{most_bytes} bytes");
        assert_eq!(timer.pending_timeouts(), HELD);
        drop(release);
        assert!(held.iter().all(Timeout::cancel));
        assert_counts_add_up(&timer);
    }
}
