//! What outlives what: handles and timeouts after their timer, and owners dropped in odd places.

mod common;

use std::sync::{Arc, Barrier, Mutex, mpsc};

use common::{
    Count, FAR, Guard, Kind, Record, Timer, assert_counts_add_up, eventually, in_thread, logs, ms,
    on_both_timers, recv,
};
use hashed_wheel::{ManualClock, RejectReason, StartError, Timeout, TimerHandle, TimerState};

on_both_timers![
    a_handle_does_not_keep_the_timer_alive,
    a_handle_of_a_dropped_timer_answers,
    a_task_that_holds_a_handle_is_no_cycle,
    a_task_that_holds_its_own_timeout_is_no_cycle,
    dropping_the_owner_drops_the_tasks_unrun_and_logs_their_number,
    dropping_the_owner_waits_for_the_running_task,
    a_timeout_that_outlives_the_timer_keeps_telling_the_truth,
    an_owner_dropped_in_its_own_task_does_not_deadlock,
    an_owner_dropped_in_its_own_task_on_a_manual_clock_runs_nothing_more,
    a_task_of_one_timer_drops_another,
    two_timers_whose_tasks_drop_each_other_do_not_deadlock,
    an_owner_held_by_a_cancelled_task_is_dropped_by_the_canceller,
    an_owner_that_never_started_is_dropped_quietly,
    handles_are_equal_in_all_they_do,
];

fn assert_is_over(handle: &TimerHandle) {
    assert_eq!(
        (handle.state(), handle.pending_timeouts()),
        (TimerState::Shutdown, 0)
    );
    assert!(handle.stop().unwrap().is_empty());
    assert!(matches!(handle.start(), Err(StartError::Stopped)));
    let rejected = handle.new_timeout(|_| {}, ms(1)).unwrap_err();
    assert!(
        matches!(rejected.reason, RejectReason::Stopped),
        "{rejected}"
    );
}

fn a_handle_does_not_keep_the_timer_alive(kind: Kind) {
    for started in [false, true] {
        let timer = kind.real(ms(1));
        let handle = timer.handle();
        if started {
            timer.start().unwrap();
            assert_eq!(handle.state(), TimerState::Started);
        }
        drop(timer);
        assert_is_over(&handle);
        assert_is_over(&handle.clone().handle());
    }
}

fn a_handle_of_a_dropped_timer_answers(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    for delay in [10, 20, 3_000, 4_000] {
        timer.new_timeout(|_| {}, ms(delay)).unwrap();
    }
    assert!(timer.new_timeout(|_| {}, ms(10)).unwrap().cancel());
    clock.advance(ms(20));
    let handle = timer.handle();
    drop(timer);
    let s = handle.stats();
    assert_eq!((s.scheduled, s.expired, s.cancelled), (5, 2, 1));
    assert_eq!((s.unprocessed, s.pending), (2, 0));
    assert_counts_add_up(&handle);
    assert_is_over(&handle);
    assert!(common::poll::block_on(handle.sleep(ms(1))).is_err());
    assert!(!format!("{handle:?}").is_empty());
}

fn a_task_that_holds_a_handle_is_no_cycle(kind: Kind) {
    let timer = kind.real(ms(1));
    let (guard, drops) = Guard::new();
    let handle = timer.handle();
    let held = (guard, handle);
    timer.new_timeout(move |_| drop(held), FAR).unwrap();
    assert_eq!(drops.len(), 0);
    drop(timer);
    assert_eq!(drops.len(), 1);
}

fn a_task_that_holds_its_own_timeout_is_no_cycle(kind: Kind) {
    let timer = kind.real(ms(1));
    let (guard, drops) = Guard::new();
    let own: Arc<Mutex<Option<Timeout>>> = Arc::default();
    let inside = Arc::clone(&own);
    let timeout = timer
        .new_timeout(move |_| drop((guard, inside)), FAR)
        .unwrap();
    *own.lock().unwrap() = Some(timeout);
    drop(own);
    drop(timer);
    assert_eq!(drops.len(), 1);
}

fn dropping_the_owner_drops_the_tasks_unrun_and_logs_their_number(kind: Kind) {
    logs::keep();
    let timer = kind.real(ms(1));
    let (runs, drops) = (Count::new(), Record::new());
    let number = if kind == Kind::Hashed { 137 } else { 139 };
    for _ in 0..number {
        let (count, guard) = (runs.clone(), Guard::on(&drops));
        let task = move |_: &Timeout| {
            count.add();
            drop(guard);
        };
        timer.new_timeout(task, FAR).unwrap();
    }
    drop(timer);
    assert_eq!(
        (runs.get(), drops.len()),
        (0, number),
        "when the drop returns, they are gone"
    );
    assert_eq!(logs::containing(&number.to_string()).len(), 1);
}

fn dropping_the_owner_waits_for_the_running_task(kind: Kind) {
    let timer = kind.real(ms(1));
    let (entered, inside) = mpsc::channel();
    let (release, gate) = mpsc::channel::<()>();
    let runs = Count::new();
    let count = runs.clone();
    let task = move |_: &Timeout| {
        entered.send(()).unwrap();
        let _ = gate.recv_timeout(common::WATCHDOG);
        count.add();
    };
    timer.new_timeout(task, ms(1)).unwrap();
    recv(&inside);
    let dropped = in_thread(move || {
        drop(timer);
        runs.get()
    });
    assert!(
        dropped.recv_timeout(ms(30)).is_err(),
        "the task is still running"
    );
    drop(release);
    assert_eq!(recv(&dropped), 1);
}

fn a_timeout_that_outlives_the_timer_keeps_telling_the_truth(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let [fired, cancelled, left] =
        [10, 20, 3_000].map(|delay| timer.new_timeout(|_| {}, ms(delay)).unwrap());
    clock.advance(ms(10));
    assert!(cancelled.cancel());
    drop(timer);
    // Other timers come and go and may use the same memory.
    for _ in 0..10 {
        let other = kind.on(&clock);
        for _ in 0..300 {
            other.new_timeout(|_| {}, ms(10)).unwrap();
        }
        clock.advance(ms(10));
        assert!(fired.is_expired() && !fired.is_cancelled());
        assert!(cancelled.is_cancelled() && !cancelled.is_expired());
        assert!(left.is_cancelled() && !left.is_expired());
    }
    for timeout in [&fired, &cancelled, &left] {
        assert!(!timeout.cancel() && !timeout.reset(ms(1)));
        assert!(timeout.take_task().is_none(), "the owner's drop took it");
        assert_is_over(&timeout.timer());
        assert_eq!(timeout.timer().stats().unprocessed, 1);
        assert!(!format!("{timeout:?}").is_empty());
    }
    let timer = left.timer();
    drop((fired, cancelled, left));
    assert_is_over(&timer);
}

/// An owner that a task can take out and drop.
fn shared(timer: Timer) -> (TimerHandle, Arc<Mutex<Option<Timer>>>) {
    (timer.handle(), Arc::new(Mutex::new(Some(timer))))
}

fn drop_it(owner: &Mutex<Option<Timer>>) {
    let timer = owner.lock().unwrap().take();
    drop(timer);
}

fn an_owner_dropped_in_its_own_task_does_not_deadlock(kind: Kind) {
    let (ended, thread_ended) = mpsc::channel();
    let factory = move |job: hashed_wheel::Job| {
        let ended = ended.clone();
        std::thread::Builder::new().spawn(move || {
            job();
            let _ = ended.send(());
        })
    };
    let (handle, owner) = shared(kind.builder().tick(ms(1)).thread_factory(factory).build());
    let (guard, drops) = Guard::new();
    let kept = handle.new_timeout(move |_| drop(guard), FAR).unwrap();
    let inside = Arc::clone(&owner);
    let (done, signal) = mpsc::channel();
    let task = move |t: &Timeout| {
        drop_it(&inside);
        done.send((t.timer().state(), t.is_expired())).unwrap();
    };
    handle.new_timeout(task, ms(5)).unwrap();
    drop(owner);
    assert_eq!(recv(&signal), (TimerState::Shutdown, true));
    recv(&thread_ended);
    eventually("what was left is dropped", || drops.len() == 1);
    assert!(kept.is_cancelled());
    assert_is_over(&handle);
    assert_eq!(handle.stats().unprocessed, 1);
}

fn an_owner_dropped_in_its_own_task_on_a_manual_clock_runs_nothing_more(kind: Kind) {
    let clock = ManualClock::new();
    let (handle, owner) = shared(kind.on(&clock));
    let (guard, drops) = Guard::new();
    let runs = Count::new();
    handle
        .new_timeout(move |_| drop_it(&owner), ms(10))
        .unwrap();
    handle.new_timeout(runs.task(), ms(20)).unwrap();
    handle.new_timeout(move |_| drop(guard), ms(30)).unwrap();
    let advanced = in_thread(move || clock.advance(ms(100)));
    recv(&advanced);
    assert_eq!((runs.get(), drops.len()), (0, 1));
    assert_is_over(&handle);
    assert_counts_add_up(&handle);
}

fn a_task_of_one_timer_drops_another(kind: Kind) {
    let first = kind.real(ms(1));
    let (handle, owner) = shared(kind.real(ms(1)));
    let (guard, drops) = Guard::new();
    handle.new_timeout(move |_| drop(guard), FAR).unwrap();
    let (done, signal) = mpsc::channel();
    let task = move |_: &Timeout| {
        drop_it(&owner);
        done.send(()).unwrap();
    };
    first.new_timeout(task, ms(1)).unwrap();
    recv(&signal);
    assert_eq!(handle.state(), TimerState::Shutdown);
    eventually("what was left is dropped", || drops.len() == 1);
    assert_eq!(first.state(), TimerState::Started);
}

fn two_timers_whose_tasks_drop_each_other_do_not_deadlock(kind: Kind) {
    for _ in 0..10 {
        let (a, a_owner) = shared(kind.real(ms(1)));
        let (b, b_owner) = shared(kind.real(ms(1)));
        let both_inside = Arc::new(Barrier::new(2));
        let (done, signal) = mpsc::channel();
        for (timer, victim) in [(&a, b_owner), (&b, a_owner)] {
            let (both_inside, done) = (Arc::clone(&both_inside), done.clone());
            let task = move |_: &Timeout| {
                both_inside.wait();
                drop_it(&victim);
                done.send(()).unwrap();
            };
            timer.new_timeout(task, ms(1)).unwrap();
        }
        recv(&signal);
        recv(&signal);
        assert_is_over(&a);
        assert_is_over(&b);
    }
}

fn an_owner_held_by_a_cancelled_task_is_dropped_by_the_canceller(kind: Kind) {
    let first = kind.real(ms(1));
    let second = kind.real(ms(1));
    second.start().unwrap();
    let handle = second.handle();
    let timeout = first.new_timeout(move |_| drop(second), FAR).unwrap();
    let cancelled = in_thread(move || timeout.cancel());
    assert!(recv(&cancelled));
    assert_is_over(&handle);
}

fn an_owner_that_never_started_is_dropped_quietly(kind: Kind) {
    logs::keep();
    let before = logs::of_this_thread(None).len();
    drop(kind.real(ms(1)));
    let lines = logs::of_this_thread(None);
    assert_eq!(lines.len(), before, "{lines:?}");
}

fn handles_are_equal_in_all_they_do(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let (first, second) = (timer.handle(), timer.handle().clone());
    let timeout = first.new_timeout(|_| {}, FAR).unwrap();
    assert_eq!(
        (
            second.pending_timeouts(),
            timeout.timer().pending_timeouts()
        ),
        (1, 1)
    );
    assert!(timeout.cancel());
    assert_eq!((timer.pending_timeouts(), second.stats().cancelled), (0, 1));
    second.new_timeout(|_| {}, FAR).unwrap();
    assert_eq!(first.stop().unwrap().len(), 1);
    assert_is_over(&timer);
}
