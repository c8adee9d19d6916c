//! Stopping: what comes back, who may call it, and what the timer is afterwards.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;

use common::{
    Count, FAR, Guard, Kind, Record, assert_counts_add_up, eventually, in_thread, ms,
    on_both_timers, recv,
};
use hashed_wheel::{ManualClock, RejectReason, StartError, StopError, Timeout, TimerState};

on_both_timers![
    a_timer_that_never_started_goes_straight_to_shutdown,
    what_is_unprocessed_comes_back_cancelled_with_its_task_inside,
    a_taken_task_runs_by_hand,
    an_untaken_task_is_dropped_with_its_timeout,
    what_was_left_remains_as_it_was_when_stopped,
    a_second_stop_returns_nothing,
    each_timeout_comes_back_from_one_of_many_stops,
    every_stop_returns_after_the_timer_has_stopped,
    stop_from_a_task_is_refused_and_changes_nothing,
    a_stopped_timer_accepts_nothing_and_leaks_no_count,
    stop_wakes_a_worker_that_sleeps_for_long,
    stop_waits_for_the_running_task_and_for_the_thread,
    stop_waits_for_a_factory_that_has_not_returned_yet,
    what_is_pending_is_counted_until_the_stop_is_over,
    stop_ends_a_boundary_between_two_tasks,
    entries_never_transferred_come_back_too,
    a_task_of_one_timer_stops_another,
    the_users_own_handle_agrees_with_the_returned_one,
];

fn a_timer_that_never_started_goes_straight_to_shutdown(kind: Kind) {
    let timer = kind
        .builder()
        .thread_factory(|_| panic!("no thread is needed"))
        .build();
    assert_eq!(timer.state(), TimerState::Init);
    assert!(timer.stop().unwrap().is_empty());
    assert_eq!(timer.state(), TimerState::Shutdown);
    assert!(timer.stop().unwrap().is_empty());
    assert!(matches!(timer.start(), Err(StartError::Stopped)));
}

fn what_is_unprocessed_comes_back_cancelled_with_its_task_inside(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let drops = Record::new();
    let delays = [
        ms(5),
        ms(70),
        ms(71),
        ms(800),
        ms(9_000),
        FAR,
        std::time::Duration::MAX,
    ];
    for delay in delays {
        let guard = Guard::on(&drops);
        timer.new_timeout(move |_| drop(guard), delay).unwrap();
    }
    let gone = timer.new_timeout(|_| {}, ms(700)).unwrap();
    assert!(gone.cancel());
    clock.advance(ms(70));
    let left = timer.stop().unwrap();
    assert_eq!(left.len(), 5, "two fired, one was cancelled");
    assert!(left.iter().all(|t| t.is_cancelled() && !t.is_expired()));
    assert_eq!(drops.len(), 2, "the other tasks live on");
    assert_eq!(
        (timer.stats().unprocessed, timer.pending_timeouts()),
        (5, 0)
    );
    assert!(
        left.iter().all(|t| !t.cancel() && !t.reset(ms(1))),
        "they are cancelled already"
    );
    assert!(left.iter().all(|t| t.take_task().is_some()));
    assert_eq!(drops.len(), 7);
    assert_eq!((timer.stats().unprocessed, timer.stats().cancelled), (5, 1));
    assert_counts_add_up(&timer);
}

fn a_taken_task_runs_by_hand(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    let runs = Count::new();
    timer.new_timeout(runs.task(), FAR).unwrap();
    let left = timer.stop().unwrap();
    let task = left[0].take_task().expect("its task is inside");
    assert!(
        left[0].take_task().is_none(),
        "the second time there is none"
    );
    task(&left[0]);
    assert_eq!(runs.get(), 1);
    assert!(left[0].is_cancelled());
    assert_eq!(timer.stats().expired, 0, "the timer has no part in it");
}

fn an_untaken_task_is_dropped_with_its_timeout(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    let drops = Record::new();
    let mut mine = Vec::new();
    for n in 0..4 {
        let guard = Guard::on(&drops);
        let timeout = timer.new_timeout(move |_| drop(guard), FAR).unwrap();
        if n % 2 == 0 {
            mine.push(timeout);
        }
    }
    let left = timer.stop().unwrap();
    assert_eq!(left.len(), 4);
    drop(left);
    assert_eq!(
        drops.len(),
        4,
        "also where the user holds a handle of his own"
    );
    assert!(
        mine.iter()
            .all(|t| t.is_cancelled() && t.take_task().is_none())
    );
}

fn what_was_left_remains_as_it_was_when_stopped(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let mine = timer.new_timeout(|_| {}, ms(100)).unwrap();
    clock.advance(ms(33));
    let left = timer.stop().unwrap();
    clock.advance(ms(500));
    assert_eq!(left[0].remaining(), ms(67));
    assert_eq!(mine.remaining(), ms(67));
}

fn a_second_stop_returns_nothing(kind: Kind) {
    let timer = kind.real(ms(1));
    timer.new_timeout(|_| {}, FAR).unwrap();
    assert_eq!(timer.stop().unwrap().len(), 1);
    assert!(timer.stop().unwrap().is_empty());
    assert_eq!(timer.state(), TimerState::Shutdown);
    assert_eq!(timer.stats().unprocessed, 1);
}

fn each_timeout_comes_back_from_one_of_many_stops(kind: Kind) {
    for real in [false, true] {
        let builder = kind.builder();
        let timer = if real {
            builder
        } else {
            builder.clock(&ManualClock::new())
        }
        .build();
        for _ in 0..100 {
            timer.new_timeout(|_| {}, FAR).unwrap();
        }
        let barrier = Barrier::new(4);
        let lengths: Vec<_> = thread::scope(|scope| {
            let stop = || {
                barrier.wait();
                timer.stop().unwrap().len()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(stop)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert_eq!(lengths.iter().sum::<usize>(), 100, "{lengths:?}");
        assert_eq!(
            lengths.iter().filter(|n| **n > 0).count(),
            1,
            "one call gets them all"
        );
    }
}

/// A timer whose worker is inside a task until the returned sender is used or dropped.
fn held_up(kind: Kind, runs: &Count) -> (common::Timer, mpsc::Sender<()>) {
    let timer = kind.real(ms(1));
    let (entered, inside) = mpsc::channel();
    let (release, gate) = mpsc::channel::<()>();
    let count = runs.clone();
    let task = move |_: &Timeout| {
        entered.send(()).unwrap();
        let _ = gate.recv_timeout(common::WATCHDOG);
        count.add();
    };
    timer.new_timeout(task, ms(0)).unwrap();
    recv(&inside);
    (timer, release)
}

fn every_stop_returns_after_the_timer_has_stopped(kind: Kind) {
    let runs = Count::new();
    let (timer, release) = held_up(kind, &runs);
    let stops: Vec<_> = (0..3)
        .map(|_| {
            let (handle, runs) = (timer.handle(), runs.clone());
            in_thread(move || {
                let left = handle.stop().unwrap().len();
                (left, runs.get())
            })
        })
        .collect();
    for stop in &stops {
        let early = stop.recv_timeout(ms(30));
        assert!(
            early.is_err(),
            "returned {early:?} while a task was running"
        );
    }
    drop(release);
    for stop in &stops {
        assert_eq!(
            recv(stop),
            (0, 1),
            "nothing was left, and the task had ended"
        );
    }
}

fn stop_from_a_task_is_refused_and_changes_nothing(kind: Kind) {
    let timer = kind.real(ms(1));
    let far = timer.new_timeout(|_| {}, FAR).unwrap();
    let (done, answer) = mpsc::channel();
    let task = move |t: &Timeout| {
        let timer = t.timer();
        let refused = matches!(timer.stop(), Err(StopError::FromTimerThread));
        done.send((refused, timer.state(), timer.pending_timeouts()))
            .unwrap();
    };
    timer.new_timeout(task, ms(1)).unwrap();
    assert_eq!(recv(&answer), (true, TimerState::Started, 1));
    assert!(!far.is_cancelled());
    let (done, signal) = mpsc::channel();
    timer
        .new_timeout(move |_| done.send(()).unwrap(), ms(1))
        .unwrap();
    recv(&signal);
    assert_eq!(timer.stop().unwrap().len(), 1);
}

fn a_stopped_timer_accepts_nothing_and_leaks_no_count(kind: Kind) {
    let timer = kind.builder().max_pending(1).build();
    timer.start().unwrap();
    timer.stop().unwrap();
    for n in 1..=3 {
        let text = String::from("mine");
        let rejected = timer.new_timeout(move |_| drop(text), ms(1)).unwrap_err();
        assert!(
            matches!(rejected.reason, RejectReason::Stopped),
            "{:?}",
            rejected.reason
        );
        assert_eq!(timer.pending_timeouts(), 0);
        assert_eq!((timer.stats().rejected, timer.stats().scheduled), (n, 0));
    }
    assert!(matches!(timer.start(), Err(StartError::Stopped)));
    assert_eq!(timer.state(), TimerState::Shutdown);
}

fn stop_wakes_a_worker_that_sleeps_for_long(kind: Kind) {
    for pending in [0, 1, 3] {
        let timer = kind.builder().tick(FAR).build();
        timer.start().unwrap();
        for _ in 0..pending {
            timer.new_timeout(|_| {}, FAR).unwrap();
        }
        let stopped = in_thread(move || timer.stop().unwrap().len());
        assert_eq!(recv(&stopped), pending);
    }
}

fn stop_waits_for_a_factory_that_has_not_returned_yet(kind: Kind) {
    let (release, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let factory = move |job: hashed_wheel::Job| {
        let thread = thread::Builder::new().spawn(job);
        let _ = gate.lock().unwrap().recv();
        thread
    };
    let timer = Arc::new(kind.builder().thread_factory(factory).build());
    let on_another = Arc::clone(&timer);
    let started = in_thread(move || on_another.start().is_ok());
    eventually("the thread runs", || timer.state() == TimerState::Started);
    let on_third = Arc::clone(&timer);
    let stopped = in_thread(move || on_third.stop().unwrap().len());
    // It would have time to return without the thread.
    assert!(stopped.recv_timeout(ms(50)).is_err(), "nothing to join yet");
    drop(release);
    assert!(recv(&started));
    assert_eq!(recv(&stopped), 0);
}

fn what_is_pending_is_counted_until_the_stop_is_over(kind: Kind) {
    let timer = Arc::new(kind.real(ms(1)));
    let (release, gate) = mpsc::channel::<()>();
    let (began, beginning) = mpsc::channel();
    let task = move |_: &Timeout| {
        began.send(()).unwrap();
        let _ = gate.recv();
    };
    timer.new_timeout(task, ms(0)).unwrap();
    for _ in 0..3 {
        timer.new_timeout(|_| {}, FAR).unwrap();
    }
    recv(&beginning);
    let stopping = Arc::clone(&timer);
    let stopped = in_thread(move || stopping.stop().unwrap().len());
    eventually("it is being stopped", || {
        timer.state() == TimerState::Shutdown
    });
    assert_eq!(timer.pending_timeouts(), 3);
    assert_counts_add_up(&timer);
    drop(release);
    assert_eq!(recv(&stopped), 3);
    assert_eq!(timer.pending_timeouts(), 0);
}

fn stop_waits_for_the_running_task_and_for_the_thread(kind: Kind) {
    let ended = Arc::new(AtomicBool::new(false));
    let mark = Arc::clone(&ended);
    let factory = move |job: hashed_wheel::Job| {
        let mark = Arc::clone(&mark);
        thread::Builder::new().spawn(move || {
            job();
            // `stop` would have time to return without it.
            thread::sleep(ms(20));
            mark.store(true, Ordering::SeqCst);
        })
    };
    let timer = kind.builder().thread_factory(factory).build();
    timer.start().unwrap();
    timer.stop().unwrap();
    assert!(
        ended.load(Ordering::SeqCst),
        "the thread that the factory made is joined"
    );
}

fn stop_ends_a_boundary_between_two_tasks(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let (entered, inside) = mpsc::channel();
    let (release, gate) = mpsc::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let runs = Count::new();
    // Two alike: whichever comes first is held up inside.
    for _ in 0..2 {
        let (entered, gate, count) = (entered.clone(), Arc::clone(&gate), runs.clone());
        let task = move |_: &Timeout| {
            count.add();
            entered.send(()).unwrap();
            let _ = gate.lock().unwrap().recv_timeout(common::WATCHDOG);
        };
        timer.new_timeout(task, ms(10)).unwrap();
    }
    let advanced = in_thread(move || clock.advance(ms(1_000)));
    recv(&inside);
    let handle = timer.handle();
    let stopped = in_thread(move || handle.stop().unwrap().len());
    common::eventually("stop was called", || timer.state() == TimerState::Shutdown);
    drop(release);
    assert_eq!(
        recv(&stopped),
        1,
        "the second of the boundary was not run any more"
    );
    recv(&advanced);
    assert_eq!(runs.get(), 1);
    assert_counts_add_up(&timer);
}

fn entries_never_transferred_come_back_too(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.builder().max_transfers(10).clock(&clock).build();
    for _ in 0..5_000 {
        timer.new_timeout(|_| {}, ms(20)).unwrap();
    }
    clock.advance(ms(10));
    assert_eq!(timer.stats().transferred, 10);
    assert_eq!(timer.stop().unwrap().len(), 5_000);
    assert_eq!(timer.pending_timeouts(), 0);
}

fn a_task_of_one_timer_stops_another(kind: Kind) {
    let (first, second) = (kind.real(ms(1)), kind.real(ms(1)));
    second.new_timeout(|_| {}, FAR).unwrap();
    let handle = second.handle();
    let (done, left) = mpsc::channel();
    let task = move |_: &Timeout| done.send(handle.stop().map(|left| left.len())).unwrap();
    first.new_timeout(task, ms(1)).unwrap();
    assert!(
        matches!(recv(&left), Ok(1)),
        "it is not the second timer's thread"
    );
    assert_eq!(second.state(), TimerState::Shutdown);
    assert_eq!(first.state(), TimerState::Started);
}

fn the_users_own_handle_agrees_with_the_returned_one(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    let runs = Count::new();
    let mine = timer.new_timeout(runs.task(), FAR).unwrap();
    let left = timer.stop().unwrap();
    assert!(mine.is_cancelled());
    assert!(!mine.cancel());
    assert!(left[0].take_task().is_some());
    assert!(mine.take_task().is_none(), "there is one task");
    drop(left);
    assert!(mine.is_cancelled());
    assert_eq!(mine.timer().state(), TimerState::Shutdown);
}
