//! A timer without a thread, driven by the caller's own loop. What `next_due` answers is held against a model in
//! `src/api/driver/tests.rs`; here are the loop, the hook and the end, on the real clock.

mod common;

use common::{
    Count, FAR, Guard, Kind, Record, assert_counts_add_up, eventually, in_thread, logs, ms,
    on_both_timers, recv,
};
use hashed_wheel::{
    ConfigError, HashedWheelTimer, HierarchicalWheelTimer, ManualClock, Period, StopError, Timeout,
    TimerDriver, TimerHandle, TimerState,
};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

on_both_timers![
    tasks_run_on_the_thread_that_turns,
    every_boundary_that_has_passed_is_processed_in_order,
    what_is_due_is_found_behind_a_crowd_that_is_not,
    the_hook_is_called_once_for_what_is_earlier,
    a_hook_may_panic_or_call_the_timer,
    a_hook_may_end_the_timer,
    a_crowd_that_was_cancelled_wakes_nobody,
    stop_ends_a_timer_that_nobody_turns,
    stop_waits_for_the_task_that_runs,
    a_task_cannot_stop_but_may_drop_the_owner,
    a_driver_dropped_while_others_schedule,
    an_executor_is_dropped_on_the_drivers_side,
    threads_that_schedule_wake_a_loop_that_sleeps,
    periodic_tasks_and_futures_are_driven_too,
    it_costs_nothing_while_nobody_turns,
];

fn driven(kind: Kind) -> (common::Timer, TimerDriver) {
    kind.builder().tick(ms(1)).build_driven()
}

/// Turns until the timer has nothing left, and sleeps in between.
fn turn_to_the_end(driver: &mut TimerDriver) -> usize {
    let mut fired = 0;
    while let Some(due) = driver.next_due() {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        fired += driver.turn();
    }
    fired
}

fn tasks_run_on_the_thread_that_turns(kind: Kind) {
    let (timer, mut driver) = driven(kind);
    assert_eq!(timer.state(), TimerState::Started);
    timer.start().unwrap();
    let ran_on = Record::new();
    for delay in [0, 3, 3, 20] {
        let ran_on = ran_on.clone();
        let task = move |_: &_| ran_on.push(thread::current().id());
        timer.new_timeout(task, ms(delay)).unwrap();
    }
    assert_eq!(turn_to_the_end(&mut driver), 4);
    assert_eq!(ran_on.take(), [thread::current().id(); 4]);
    assert_counts_add_up(&timer);
    let before = timer.stats().wakeups;
    assert!(before >= 1);
    driver.turn();
    assert_eq!(timer.stats().wakeups, before + 1, "each turn counts");
}

fn every_boundary_that_has_passed_is_processed_in_order(kind: Kind) {
    let (timer, mut driver) = driven(kind);
    let record = Record::new();
    // One moment for all: between two calls a slow machine may lose more than lies between their delays.
    let begin = timer.now();
    for delay in [9_u64, 2, 40, 5, 17] {
        let record = record.clone();
        let task = move |_: &_| record.push((delay, begin.elapsed()));
        timer.new_timeout_at(task, begin + ms(delay)).unwrap();
    }
    // Until all are due, however slow this thread is.
    thread::sleep(ms(60));
    assert_eq!(driver.turn(), 5, "in one go");
    let ran = record.take();
    let order: Vec<_> = ran.iter().map(|(delay, _)| *delay).collect();
    assert_eq!(order, [2, 5, 9, 17, 40]);
    assert!(ran.iter().all(|(delay, at)| *at >= ms(*delay)), "{ran:?}");
    assert_eq!((driver.turn(), driver.next_due()), (0, None));
}

fn what_is_due_is_found_behind_a_crowd_that_is_not(kind: Kind) {
    let (timer, mut driver) = driven(kind);
    for _ in 0..200_000 {
        timer.new_timeout(|_| {}, FAR).unwrap();
    }
    driver.next_due();
    // By then the crowd is old enough to be moved to the wheel, which takes more than a moment.
    thread::sleep(ms(250));
    let runs = Count::new();
    timer.new_timeout(runs.task(), ms(1)).unwrap();
    thread::sleep(ms(10));
    assert_eq!((driver.turn(), runs.get()), (1, 1));
}

fn the_hook_is_called_once_for_what_is_earlier(kind: Kind) {
    let (timer, mut driver) = driven(kind);
    let calls = Count::new();
    let counted = calls.clone();
    driver.on_wake(move || _ = counted.add());
    timer.new_timeout(|_| {}, FAR).unwrap();
    assert_eq!(calls.get(), 0, "the loop is awake");

    assert!(driver.next_due().is_some());
    let later = timer.new_timeout(|_| {}, 2 * FAR).unwrap();
    timer.new_timeout(|_| {}, Duration::MAX).unwrap();
    assert_eq!(calls.get(), 0, "nothing is earlier");
    assert!(later.reset(FAR / 2));
    assert_eq!(calls.get(), 1, "a reset to an earlier time");
    timer.new_timeout(|_| {}, FAR / 4).unwrap();
    assert_eq!(calls.get(), 1, "once");

    driver.turn();
    timer.new_timeout(|_| {}, FAR / 8).unwrap();
    assert_eq!(calls.get(), 1, "awake again");
    let due = driver.next_due().unwrap();
    assert!(due <= Instant::now() + FAR / 8 + ms(1));
    assert!(later.cancel());
    assert_eq!(calls.get(), 1, "a cancel wakes nobody");
    timer.new_timeout(|_| {}, Duration::ZERO).unwrap();
    assert_eq!(calls.get(), 2);
}

fn a_hook_may_panic_or_call_the_timer(kind: Kind) {
    let (timer, mut driver) = driven(kind);
    driver.on_wake(|| panic!("out of order"));
    assert_eq!(driver.next_due(), None);
    assert!(timer.new_timeout(|_| {}, Duration::ZERO).is_ok());

    let handle = timer.handle();
    let calls = Count::new();
    let counted = calls.clone();
    driver.on_wake(move || {
        counted.add();
        handle.new_timeout(|_| {}, Duration::ZERO).unwrap();
        handle.new_timeout(|_| {}, FAR).unwrap().cancel();
        assert!(handle.stats().scheduled > 0);
    });
    eventually("the first one fires", || driver.turn() == 1);
    assert_eq!(driver.next_due(), None);
    timer.new_timeout(|_| {}, Duration::ZERO).unwrap();
    assert_eq!(calls.get(), 1);
    assert_eq!(turn_to_the_end(&mut driver), 2);
    assert_counts_add_up(&timer);
}

fn a_hook_may_end_the_timer(kind: Kind) {
    // By `stop`: the timeout that called it is returned.
    let (timer, mut driver) = driven(kind);
    let (handle, returned) = (timer.handle(), Record::new());
    let left = returned.clone();
    driver.on_wake(move || left.push(handle.stop().unwrap().len()));
    assert_eq!(driver.next_due(), None);
    let timeout = timer.new_timeout(|_| {}, Duration::ZERO).unwrap();
    assert!(timeout.is_cancelled());
    // The stop itself calls the hook, whose stop finds it stopped.
    assert_eq!(returned.take(), [0, 1]);
    assert_eq!((driver.turn(), driver.next_due()), (0, None));

    // By the drop of the owner.
    let (timer, mut driver) = driven(kind);
    let handle = timer.handle();
    let owner = Mutex::new(Some(timer));
    driver.on_wake(move || {
        // Not under the lock: the drop calls the hook.
        let taken = owner.lock().unwrap().take();
        drop(taken);
    });
    assert_eq!(driver.next_due(), None);
    let timeout = handle.new_timeout(|_| {}, Duration::ZERO).unwrap();
    assert!(timeout.is_cancelled());
    assert_eq!(handle.state(), TimerState::Shutdown);
}

fn a_crowd_that_was_cancelled_wakes_nobody(kind: Kind) {
    let (timer, mut driver) = kind.builder().tick(ms(1000)).build_driven();
    for _ in 0..1000 {
        timer.new_timeout(|_| {}, ms(1)).unwrap();
    }
    assert!(driver.next_due().is_some());
    assert_eq!(timer.cancel_all(), 1000);
    assert_eq!(driver.next_due(), None);
}

fn stop_ends_a_timer_that_nobody_turns(kind: Kind) {
    for by_drop in [false, true] {
        let (timer, mut driver) = driven(kind);
        let handle = timer.handle();
        let calls = Count::new();
        let counted = calls.clone();
        driver.on_wake(move || _ = counted.add());
        let (guard, drops) = Guard::new();
        let task = move |_: &_| drop(guard);
        let timeout = timer.new_timeout(task, FAR).unwrap();
        assert!(driver.next_due().is_some());
        if by_drop {
            recv(&in_thread(move || drop(timer)));
            assert_eq!(drops.len(), 1);
        } else {
            let left = recv(&in_thread(move || timer.stop().map(|left| (left, timer))));
            let (left, _timer) = left.unwrap();
            assert_eq!((left.len(), drops.len()), (1, 0));
            assert_eq!(handle.stop().unwrap().len(), 0, "the second one");
        }
        assert!(timeout.is_cancelled());
        assert_eq!(calls.get(), 1, "the loop is told");
        assert_eq!((driver.turn(), driver.next_due()), (0, None));
        assert!(handle.new_timeout(|_| {}, FAR).is_err());
        assert_counts_add_up(&handle);
        assert_eq!(handle.pending_timeouts(), 0);
    }
}

fn stop_waits_for_the_task_that_runs(kind: Kind) {
    let (timer, mut driver) = driven(kind);
    let (begun, begins) = mpsc::channel();
    let (go_on, going) = mpsc::channel::<()>();
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    let task = move |_: &_| {
        begun.send(()).unwrap();
        recv(&going);
        ended.store(true, Ordering::SeqCst);
    };
    timer.new_timeout(task, Duration::ZERO).unwrap();
    timer.new_timeout(|_| {}, FAR).unwrap();
    let turned = in_thread(move || {
        eventually("it fires", || driver.turn() == 1);
        driver
    });
    recv(&begins);
    let handle = timer.handle();
    let stopped = in_thread(move || handle.stop().unwrap().len());
    eventually("the stop is asked for", || {
        timer.state() == TimerState::Shutdown
    });
    assert!(stopped.try_recv().is_err(), "the task runs");
    go_on.send(()).unwrap();
    assert_eq!(recv(&stopped), 1);
    assert!(over.load(Ordering::SeqCst));
    let mut driver = recv(&turned);
    assert_eq!((driver.turn(), driver.next_due()), (0, None));
    assert_counts_add_up(&timer);
}

fn a_task_cannot_stop_but_may_drop_the_owner(kind: Kind) {
    let (timer, mut driver) = driven(kind);
    let handle = timer.handle();
    let answers = Record::new();
    let answered = answers.clone();
    let task = move |timeout: &hashed_wheel::Timeout| {
        answered.push(timeout.timer().stop().map(|left| left.len()));
        drop(timer);
    };
    let (guard, drops) = Guard::new();
    handle.new_timeout(task, Duration::ZERO).unwrap();
    handle.new_timeout(move |_| drop(guard), FAR).unwrap();
    eventually("it fires", || driver.turn() == 1);
    assert_eq!(answers.take(), [Err(StopError::FromTimerThread)]);
    assert_eq!(handle.state(), TimerState::Shutdown);
    assert_eq!(drops.len(), 1, "what was pending is dropped");
    assert_eq!((driver.turn(), driver.next_due()), (0, None));
}

fn a_driver_dropped_while_others_schedule(kind: Kind) {
    let (timer, driver) = driven(kind);
    let drops = Record::new();
    let clients: Vec<_> = (0..3)
        .map(|_| {
            let (handle, drops) = (timer.handle(), drops.clone());
            in_thread(move || {
                let mut accepted = 0;
                loop {
                    let guard = Guard::on(&drops);
                    if handle.new_timeout(move |_| drop(guard), FAR).is_err() {
                        return accepted;
                    }
                    accepted += 1;
                }
            })
        })
        .collect();
    eventually("they schedule", || timer.pending_timeouts() > 100);
    drop(driver);
    let accepted: usize = clients.iter().map(recv).sum();
    assert_eq!(timer.state(), TimerState::Shutdown);
    assert_eq!(timer.stop().unwrap().len(), 0);
    let stats = timer.stats();
    assert_eq!(
        (stats.scheduled, stats.unprocessed),
        (accepted as u64, accepted as u64)
    );
    // Each client has one more, which was handed back.
    assert_eq!(drops.len(), accepted + clients.len());
}

fn an_executor_is_dropped_on_the_drivers_side(kind: Kind) {
    for by_call in [true, false] {
        let (guard, drops) = Guard::new();
        let jobs = Count::new();
        let counted = jobs.clone();
        let (timer, mut driver) = kind
            .builder()
            .tick(ms(1))
            .executor(move |job| {
                let _held = &guard;
                counted.add();
                job();
            })
            .build_driven();
        timer.new_timeout(|_| {}, Duration::ZERO).unwrap();
        eventually("it is handed over", || driver.turn() == 1);
        assert_eq!(jobs.get(), 1);
        recv(&in_thread(move || drop(timer)));
        assert_eq!(drops.len(), 0, "not by the thread that stops");
        if by_call {
            assert_eq!(driver.turn(), 0);
        } else {
            drop(driver);
        }
        assert_eq!(drops.take(), [thread::current().id()]);
    }
}

fn threads_that_schedule_wake_a_loop_that_sleeps(kind: Kind) {
    const THREADS: u64 = 3;
    const EACH: u64 = 300;
    let (timer, mut driver) = driven(kind);
    let this = thread::current();
    driver.on_wake(move || this.unpark());
    let early = Count::new();
    let clients: Vec<_> = (0..THREADS)
        .map(|seed| {
            let (handle, early) = (timer.handle(), early.clone());
            thread::spawn(move || {
                let mut random = common::Rng(seed);
                for _ in 0..EACH {
                    let (delay, early) = (ms(random.below(5)), early.clone());
                    let begin = Instant::now();
                    let task = move |_: &_| {
                        if begin.elapsed() < delay {
                            early.add();
                        }
                    };
                    handle.new_timeout(task, delay).unwrap();
                    thread::sleep(Duration::from_micros(random.below(200)));
                }
            })
        })
        .collect();
    let mut fired = 0;
    while fired < THREADS * EACH {
        // Nothing but the hook ends this.
        match driver.next_due() {
            None => thread::park(),
            Some(due) => thread::park_timeout(due.saturating_duration_since(Instant::now())),
        }
        fired += driver.turn() as u64;
    }
    for client in clients {
        client.join().unwrap();
    }
    assert_eq!(early.get(), 0);
    assert_eq!(driver.next_due(), None);
    assert_counts_add_up(&timer);
}

fn periodic_tasks_and_futures_are_driven_too(kind: Kind) {
    let (timer, mut driver) = driven(kind);
    let runs = Count::new();
    let counted = runs.clone();
    let task = move |timeout: &hashed_wheel::Timeout| {
        if counted.add() == 5 {
            assert!(timeout.cancel());
        }
    };
    timer
        .new_periodic(task, ms(1), Period::FixedRate(ms(1)))
        .unwrap();
    let mut sleep = timer.sleep(ms(3));
    assert!(common::poll::poll_once(Pin::new(&mut sleep)).is_pending());
    let mut fired = turn_to_the_end(&mut driver);
    assert_eq!(runs.get(), 5);
    assert!(common::poll::poll_once(Pin::new(&mut sleep)).is_ready());
    fired -= runs.get();
    assert_eq!(fired, 1, "the future counts");
}

fn it_costs_nothing_while_nobody_turns(kind: Kind) {
    let factory_calls = Count::new();
    let counted = factory_calls.clone();
    let (timer, mut driver) = kind
        .builder()
        .thread_name("ignored\0")
        .thread_factory(move |_| {
            counted.add();
            Err(std::io::Error::other("no thread is needed"))
        })
        .build_driven();
    timer.new_timeout(|_| {}, ms(1)).unwrap();
    // Time for a thread, if there were one, to do what it must not.
    thread::sleep(ms(30));
    assert_eq!(timer.stats().wakeups, 0);
    assert_eq!((timer.stats().expired, factory_calls.get()), (0, 0));
    assert_eq!(driver.turn(), 1);
    assert_eq!(timer.stats().wakeups, 1);
}

#[test]
fn a_turn_that_is_ended_tells_how_many_have_run() {
    let (timer, mut driver) = HashedWheelTimer::builder()
        .tick_duration(ms(1000))
        .build_driven()
        .unwrap();
    let handle = timer.handle();
    let owner = Mutex::new(Some(timer));
    let second = Arc::new(Mutex::new(None::<Timeout>));
    let cancelled = Arc::clone(&second);
    // Of one boundary, in this order.
    let at = handle.now();
    let cancel = move |_: &Timeout| {
        let second = cancelled.lock().unwrap();
        assert!(second.as_ref().unwrap().cancel());
    };
    handle.new_timeout_at(cancel, at).unwrap();
    *second.lock().unwrap() = Some(handle.new_timeout_at(|_| {}, at).unwrap());
    let end = move |_: &Timeout| {
        let owner = owner.lock().unwrap().take();
        owner.unwrap().shutdown_background();
    };
    handle.new_timeout_at(end, at).unwrap();
    handle.new_timeout_at(|_| {}, at).unwrap();
    let due = driver.next_due().unwrap();
    thread::sleep(due.saturating_duration_since(Instant::now()));
    assert_eq!(driver.turn(), 2, "the first and the third");
    assert_eq!(handle.stats().unprocessed, 1);
}

#[test]
fn a_manual_clock_is_refused() {
    let clock = ManualClock::new();
    let hashed = HashedWheelTimer::builder().clock(&clock).build_driven();
    assert_eq!(hashed.unwrap_err(), ConfigError::DrivenClock);
    let hierarchical = HierarchicalWheelTimer::builder().clock(&clock);
    let error = hierarchical.build_driven().unwrap_err();
    assert_eq!(error, ConfigError::DrivenClock);
    let text = error.to_string();
    assert!(
        text.contains("clock") && text.contains("build_driven"),
        "{text}"
    );
    let zero = HashedWheelTimer::builder()
        .ticks_per_wheel(0)
        .build_driven();
    assert_eq!(zero.unwrap_err(), ConfigError::Slots { slots: 0 });
}

#[test]
fn a_panic_of_the_hook_is_logged() {
    logs::keep();
    let (timer, mut driver) = HashedWheelTimer::builder().build_driven().unwrap();
    driver.on_wake(|| panic!("the bell is broken"));
    driver.next_due();
    timer.new_timeout(|_| {}, FAR).unwrap();
    assert_eq!(logs::containing("the bell is broken").len(), 1);
}

#[test]
fn a_driver_may_move_to_another_thread_and_tells_its_state() {
    fn is_send<T: Send + std::fmt::Debug>(_: &T) {}
    let (timer, mut driver) = HashedWheelTimer::builder()
        .tick_duration(ms(1))
        .build_driven()
        .unwrap();
    is_send(&driver);
    assert_eq!(
        format!("{driver:?}"),
        "TimerDriver { state: Started, tick: 1ms, .. }"
    );
    let handle: TimerHandle = timer.handle();
    handle.new_timeout(|_| {}, ms(1)).unwrap();
    let fired = in_thread(move || turn_to_the_end(&mut driver));
    assert_eq!(recv(&fired), 1);
}
