//! Cancelling: who wins, when the task is dropped and where, and what does not cancel.

mod common;

use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use common::{Count, FAR, Guard, Kind, Record, assert_counts_add_up, ms, noting, on_both_timers};
use hashed_wheel::{ManualClock, Timeout};

on_both_timers![
    a_cancelled_timeout_never_runs_and_stays_cancelled,
    the_task_is_dropped_before_cancel_returns_on_the_calling_thread,
    the_second_cancel_is_false,
    exactly_one_of_many_threads_cancels,
    a_fired_timeout_cannot_be_cancelled,
    cancel_works_in_the_queue_in_the_wheel_and_rounds_away,
    a_task_cancels_another_of_its_own_boundary,
    dropping_the_handle_does_not_cancel,
    a_cancelled_timeout_has_nothing_remaining_and_no_task_to_take,
    the_dropped_task_may_call_the_timer,
    a_cancel_beside_a_running_worker_ends_each_task_once,
];

fn a_cancelled_timeout_never_runs_and_stays_cancelled(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let runs = Count::new();
    let held: Vec<_> = (0..20)
        .map(|_| timer.new_timeout(runs.task(), ms(50)).unwrap())
        .collect();
    assert!(held.iter().all(Timeout::cancel));
    for _ in 0..100 {
        for _ in 0..20 {
            timer.new_timeout(|_| {}, ms(5)).unwrap();
        }
        clock.advance(ms(10));
        assert!(held.iter().all(|t| t.is_cancelled() && !t.is_expired()));
    }
    assert_eq!(runs.get(), 0);
    assert_counts_add_up(&timer);
}

fn the_task_is_dropped_before_cancel_returns_on_the_calling_thread(kind: Kind) {
    let timer = kind.real(ms(1));
    for delay in [ms(1), FAR] {
        let (guard, drops) = Guard::new();
        // A task too large to be stored in place is dropped no later.
        let bytes = [0_u8; 500];
        let task = move |_: &Timeout| drop((guard, bytes));
        let timeout = timer.new_timeout(task, delay).unwrap();
        if timeout.cancel() {
            assert_eq!(drops.take(), [thread::current().id()]);
        } else {
            assert_eq!(delay, ms(1), "only the short one can have fired");
        }
    }
}

fn the_second_cancel_is_false(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    let timeout = timer.new_timeout(|_| {}, ms(50)).unwrap();
    assert!(timeout.cancel());
    assert!(!timeout.cancel());
    assert!(!timeout.reset(ms(10)));
    assert!(timeout.is_cancelled());
    assert_eq!(timer.stats().cancelled, 1);
    assert_eq!(timer.pending_timeouts(), 0);
}

fn exactly_one_of_many_threads_cancels(kind: Kind) {
    const THREADS: usize = 8;
    let timer = kind.on(&ManualClock::new());
    let drops = Record::new();
    let timeouts: Vec<_> = (0..500)
        .map(|_| {
            let guard = Guard::on(&drops);
            timer.new_timeout(move |_| drop(guard), ms(50)).unwrap()
        })
        .collect();
    let barrier = Barrier::new(THREADS);
    let won: usize = thread::scope(|scope| {
        let cancel_all = || {
            barrier.wait();
            timeouts.iter().filter(|t| t.cancel()).count()
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(cancel_all)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert_eq!(won, timeouts.len());
    assert_eq!(drops.len(), timeouts.len());
    assert_eq!(timer.stats().cancelled, 500);
    assert_counts_add_up(&timer);
}

fn a_fired_timeout_cannot_be_cancelled(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let timeout = timer.new_timeout(|_| {}, ms(10)).unwrap();
    clock.advance(ms(10));
    assert!(!timeout.cancel());
    assert!(!timeout.is_cancelled());
    assert!(timeout.is_expired());
    assert_eq!((timer.stats().expired, timer.stats().cancelled), (1, 0));
}

fn cancel_works_in_the_queue_in_the_wheel_and_rounds_away(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    let make = |delay| {
        timer
            .new_timeout(noting(&seen, &clock, delay), ms(delay))
            .unwrap()
    };
    let queued = make(20);
    assert!(queued.cancel());
    let [filed, distant, survivor] = [30, 5_000, 5_001].map(make);
    clock.advance(ms(20));
    assert!(filed.cancel());
    clock.advance(ms(3_000));
    assert!(distant.cancel());
    clock.advance(ms(3_000));
    assert_eq!(seen.take(), [(5_001, 5_010)]);
    assert!(survivor.is_expired());
    assert_counts_add_up(&timer);
}

fn a_task_cancels_another_of_its_own_boundary(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    // Whichever of the two runs first cancels the other.
    let pair: Arc<std::sync::OnceLock<[Timeout; 2]>> = Arc::default();
    let runs = Record::new();
    let [a, b] = [0, 1].map(|me| {
        let (pair, runs) = (Arc::clone(&pair), runs.clone());
        let task = move |_: &Timeout| runs.push((me, pair.get().unwrap()[1 - me].cancel()));
        timer.new_timeout(task, ms(10)).unwrap()
    });
    pair.set([a, b]).unwrap();
    clock.advance(ms(100));
    let runs = runs.take();
    assert_eq!(runs.len(), 1, "one ran, the other was cancelled");
    assert!(runs[0].1);
    assert_eq!((timer.stats().expired, timer.stats().cancelled), (1, 1));
    assert_eq!(timer.pending_timeouts(), 0);
}

fn dropping_the_handle_does_not_cancel(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let runs = Count::new();
    drop(timer.new_timeout(runs.task(), ms(10)).unwrap());
    let second = timer.new_timeout(runs.task(), ms(500)).unwrap();
    clock.advance(ms(100));
    drop(second);
    clock.advance(ms(1_000));
    assert_eq!(runs.get(), 2);
}

fn a_cancelled_timeout_has_nothing_remaining_and_no_task_to_take(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    let timeout = timer.new_timeout(|_| {}, ms(50)).unwrap();
    assert!(
        timeout.take_task().is_none(),
        "a pending one keeps its task"
    );
    assert!(timeout.cancel());
    assert_eq!(timeout.remaining(), ms(0));
    assert!(timeout.take_task().is_none());
    assert!(timer.stop().unwrap().is_empty());
    assert!(timeout.take_task().is_none());
}

fn the_dropped_task_may_call_the_timer(kind: Kind) {
    struct Caller(hashed_wheel::TimerHandle, Count);
    impl Drop for Caller {
        fn drop(&mut self) {
            let successor = self.0.new_timeout(self.1.task(), ms(10)).unwrap();
            let extra = self.0.new_timeout(|_| {}, ms(10)).unwrap();
            assert!(extra.cancel());
            assert_eq!(
                self.0.pending_timeouts(),
                1,
                "the cancelled one is counted out already"
            );
            drop(successor);
        }
    }
    let clock = ManualClock::new();
    let timer = kind.builder().max_pending(2).clock(&clock).build();
    let runs = Count::new();
    let caller = Caller(timer.handle(), runs.clone());
    let timeout = timer.new_timeout(move |_| drop(caller), ms(50)).unwrap();
    assert!(timeout.cancel());
    clock.advance(ms(10));
    assert_eq!(runs.get(), 1);
    assert_counts_add_up(&timer);
}

fn a_cancel_beside_a_running_worker_ends_each_task_once(kind: Kind) {
    let timer = kind.real(ms(1));
    let (runs, drops) = (Count::new(), Record::new());
    let mut cancelled = 0;
    for n in 0..3_000_u64 {
        let (guard, count) = (Guard::on(&drops), runs.clone());
        let task = move |_: &Timeout| {
            let _held = guard;
            count.add();
        };
        let timeout = timer.new_timeout(task, ms(n % 2)).unwrap();
        if n % 3 == 0 {
            thread::yield_now();
        }
        cancelled += usize::from(timeout.cancel());
    }
    let (done, signal) = mpsc::channel();
    timer
        .new_timeout(move |_| done.send(()).unwrap(), ms(5))
        .unwrap();
    common::recv(&signal);
    assert_eq!(runs.get() + cancelled, 3_000);
    assert_eq!(drops.len(), 3_000);
    assert_eq!(timer.stats().cancelled, cancelled as u64);
    assert_counts_add_up(&timer);
}
