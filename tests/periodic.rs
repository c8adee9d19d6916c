//! Tasks that run again and again: when, how often, and how they end.

mod common;

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use common::{
    Count, FAR, Guard, Kind, Record, Timer, assert_counts_add_up, logs, ms, now_ms, on_both_timers,
    recv,
};
use hashed_wheel::{Job, ManualClock, Period, RejectReason, Timeout};

on_both_timers![
    a_fixed_rate_keeps_its_unrounded_phase,
    a_fixed_delay_counts_from_the_end_of_a_run,
    a_period_below_a_tick_runs_at_every_tick,
    the_first_run_comes_after_the_initial_delay,
    remaining_is_the_time_to_the_next_run,
    a_run_missed_on_an_executor_is_skipped,
    a_fixed_delay_on_an_executor_counts_from_the_end_of_its_job,
    a_held_up_worker_makes_no_burst,
    a_panic_is_counted_and_the_next_run_comes,
    cancel_between_runs_drops_the_task_at_once,
    cancel_from_inside_a_run_is_true_once_and_drops_at_its_end,
    cancel_from_another_thread_during_a_run_leaves_the_drop_to_the_runner,
    stop_returns_it_with_a_task_that_runs_once,
    stop_during_a_run_on_an_executor_returns_it_without_its_task,
    a_dropped_job_does_not_end_it,
    a_rejected_periodic_task_comes_back,
    a_period_that_never_ends_runs_once,
    a_run_may_use_the_timer_it_runs_on,
    real_runs_are_never_early,
];

/// Starts a periodic task that notes when it runs.
fn noting(
    timer: &Timer,
    clock: &ManualClock,
    first: u64,
    period: Period,
) -> (Timeout, Record<u64>) {
    let seen = Record::new();
    let (note, clock) = (seen.clone(), clock.clone());
    let task = move |_: &Timeout| note.push(now_ms(&clock));
    (timer.new_periodic(task, ms(first), period).unwrap(), seen)
}

fn with_list(kind: Kind) -> (ManualClock, Timer, Record<Job>) {
    let (clock, jobs) = (ManualClock::new(), Record::new());
    let list = jobs.clone();
    let timer = kind
        .builder()
        .clock(&clock)
        .executor(move |job| list.push(job))
        .build();
    (clock, timer, jobs)
}

fn a_fixed_rate_keeps_its_unrounded_phase(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let (_held, seen) = noting(&timer, &clock, 10, Period::FixedRate(ms(25)));
    clock.advance(ms(25_010));
    let expected: Vec<_> = (0..=1_000_u64)
        .map(|n| (10 + 25 * n).div_ceil(10) * 10)
        .collect();
    assert_eq!(seen.take(), expected, "10, 40, 60, 90, 110, …");
}

fn a_fixed_delay_counts_from_the_end_of_a_run(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let (_held, seen) = noting(&timer, &clock, 10, Period::FixedDelay(ms(25)));
    clock.advance(ms(200));
    assert_eq!(seen.take(), [10, 40, 70, 100, 130, 160, 190]);
}

fn a_period_below_a_tick_runs_at_every_tick(kind: Kind) {
    for period in [ms(0), ms(3), ms(10)] {
        for period in [Period::FixedRate(period), Period::FixedDelay(period)] {
            let clock = ManualClock::new();
            let timer = kind.on(&clock);
            let (held, seen) = noting(&timer, &clock, 0, period);
            clock.advance(ms(100));
            let expected: Vec<_> = (1..=10).map(|n| n * 10).collect();
            assert_eq!(seen.take(), expected, "{period:?}");
            assert!(held.cancel());
        }
    }
}

fn the_first_run_comes_after_the_initial_delay(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let (_a, at_once) = noting(&timer, &clock, 0, Period::FixedRate(ms(1_000)));
    let (_b, later) = noting(&timer, &clock, 755, Period::FixedRate(ms(100)));
    clock.advance(ms(900));
    assert_eq!(at_once.take(), [10]);
    assert_eq!(later.take(), [760, 860]);
}

fn remaining_is_the_time_to_the_next_run(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let (rate, _) = noting(&timer, &clock, 40, Period::FixedRate(ms(25)));
    assert_eq!(rate.remaining(), ms(40));
    clock.advance(ms(42));
    assert_eq!(rate.remaining(), ms(23), "the deadline at 65 ms");
    assert!(rate.cancel());
    assert_eq!(rate.remaining(), ms(0));
}

fn a_run_missed_on_an_executor_is_skipped(kind: Kind) {
    let (clock, timer, jobs) = with_list(kind);
    let (held, seen) = noting(&timer, &clock, 10, Period::FixedRate(ms(10)));
    clock.advance(ms(45));
    assert_eq!(jobs.len(), 1, "runs never overlap");
    jobs.take().into_iter().for_each(|job| job());
    assert_eq!((seen.take(), held.remaining()), (vec![45], ms(5)));
    clock.advance(ms(4));
    assert_eq!(jobs.len(), 0, "20, 30 and 40 ms are not made up for");
    clock.advance(ms(1));
    assert_eq!(jobs.len(), 1, "50 ms: the phase is kept");
    jobs.take().into_iter().for_each(|job| job());
    assert_eq!((seen.take(), timer.stats().periodic_runs), (vec![50], 2));
}

fn a_fixed_delay_on_an_executor_counts_from_the_end_of_its_job(kind: Kind) {
    let (clock, timer, jobs) = with_list(kind);
    let (_held, seen) = noting(&timer, &clock, 10, Period::FixedDelay(ms(20)));
    clock.advance(ms(45));
    jobs.take().into_iter().for_each(|job| job());
    clock.advance(ms(24));
    assert_eq!(jobs.len(), 0, "45 + 20 ms, rounded up, is 70 ms");
    clock.advance(ms(1));
    assert_eq!((jobs.len(), seen.take()), (1, vec![45]));
}

fn a_held_up_worker_makes_no_burst(kind: Kind) {
    const PERIOD: Duration = ms(20);
    let timer = kind.real(ms(1));
    let (entered, runs) = mpsc::channel();
    let (release, gate) = mpsc::channel::<()>();
    let mut gate = Some(gate);
    let task = move |_: &Timeout| {
        let _ = entered.send(Instant::now());
        if let Some(gate) = gate.take() {
            let _ = gate.recv_timeout(common::WATCHDOG);
        }
    };
    let periodic = timer
        .new_periodic(task, PERIOD, Period::FixedRate(PERIOD))
        .unwrap();
    recv(&runs);
    // Six runs are missed while the first goes on.
    thread::sleep(PERIOD * 6);
    let released = Instant::now();
    drop(release);
    let third = [0; 3].map(|_| recv(&runs))[2];
    assert!(
        third >= released + 2 * PERIOD,
        "made up for after {:?}",
        third - released
    );
    assert!(periodic.cancel());
}

fn a_panic_is_counted_and_the_next_run_comes(kind: Kind) {
    logs::keep();
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let runs = Count::new();
    let count = runs.clone();
    let text = format!("on purpose: every second run, {kind:?}");
    let message = text.clone();
    let task = move |_: &Timeout| assert!(count.add() % 2 == 0, "{message}");
    let periodic = timer
        .new_periodic(task, ms(10), Period::FixedRate(ms(10)))
        .unwrap();
    clock.advance(ms(60));
    assert_eq!((runs.get(), timer.stats().panicked), (6, 3));
    assert_eq!((timer.stats().periodic_runs, timer.stats().expired), (6, 0));
    assert_eq!(logs::containing(&text).len(), 3);
    assert!(periodic.cancel());
    assert_counts_add_up(&timer);
}

fn cancel_between_runs_drops_the_task_at_once(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let (guard, drops) = Guard::new();
    let runs = Count::new();
    let count = runs.clone();
    let task = move |_: &Timeout| {
        let _held = &guard;
        count.add();
    };
    let periodic = timer
        .new_periodic(task, ms(10), Period::FixedDelay(ms(10)))
        .unwrap();
    clock.advance(ms(25));
    assert!(periodic.cancel());
    assert_eq!(drops.take(), [thread::current().id()]);
    assert!(!periodic.cancel());
    clock.advance(ms(100));
    assert_eq!(runs.get(), 2);
    assert!(periodic.is_cancelled());
    assert_eq!((timer.stats().cancelled, timer.pending_timeouts()), (1, 0));
}

fn cancel_from_inside_a_run_is_true_once_and_drops_at_its_end(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let (guard, drops) = Guard::new();
    let answers = Record::new();
    let (note, alive) = (answers.clone(), drops.clone());
    let task = move |t: &Timeout| {
        let _held = &guard;
        note.push((t.cancel(), t.cancel(), t.is_cancelled(), alive.len()));
    };
    let periodic = timer
        .new_periodic(task, ms(10), Period::FixedRate(ms(10)))
        .unwrap();
    clock.advance(ms(100));
    assert_eq!(
        answers.take(),
        [(true, false, true, 0)],
        "and no further run"
    );
    assert_eq!(drops.take(), [thread::current().id()]);
    assert!(periodic.is_cancelled() && !periodic.cancel());
    assert_eq!(
        (timer.stats().periodic_runs, timer.stats().cancelled),
        (1, 1)
    );
    assert_counts_add_up(&timer);
}

fn cancel_from_another_thread_during_a_run_leaves_the_drop_to_the_runner(kind: Kind) {
    let timer = kind.real(ms(1));
    let (guard, drops) = Guard::new();
    let (entered, inside) = mpsc::channel();
    let (release, gate) = mpsc::channel::<()>();
    let task = move |_: &Timeout| {
        let _held = &guard;
        entered.send(thread::current().id()).unwrap();
        let _ = gate.recv_timeout(common::WATCHDOG);
    };
    let periodic = timer
        .new_periodic(task, ms(1), Period::FixedRate(ms(1)))
        .unwrap();
    let runner = recv(&inside);
    assert!(periodic.cancel(), "true although it is running");
    assert!(!periodic.cancel());
    assert!(periodic.is_cancelled());
    assert_eq!((drops.len(), timer.pending_timeouts()), (0, 0));
    drop(release);
    common::eventually("the run ends", || drops.len() == 1);
    assert_eq!(drops.take(), [runner]);
    assert!(timer.stop().unwrap().is_empty());
    assert!(inside.try_recv().is_err(), "no further run");
    assert_counts_add_up(&timer);
}

fn stop_returns_it_with_a_task_that_runs_once(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let (held, seen) = noting(&timer, &clock, 10, Period::FixedRate(ms(25)));
    clock.advance(ms(12));
    assert_eq!(seen.take(), [10]);
    let left = timer.stop().unwrap();
    assert_eq!((left.len(), left[0].remaining()), (1, ms(23)));
    assert!(held.is_cancelled() && !held.cancel());
    left[0].take_task().expect("its task is inside")(&left[0]);
    assert_eq!(seen.take(), [12]);
    assert!(left[0].take_task().is_none());
    clock.advance(ms(100));
    assert_eq!((seen.len(), timer.stats().unprocessed), (0, 1));
}

fn stop_during_a_run_on_an_executor_returns_it_without_its_task(kind: Kind) {
    let (clock, timer, jobs) = with_list(kind);
    let (held, seen) = noting(&timer, &clock, 10, Period::FixedRate(ms(10)));
    clock.advance(ms(10));
    let left = timer.stop().unwrap();
    assert_eq!((left.len(), jobs.len()), (1, 1));
    assert!(left[0].take_task().is_none(), "the job has it");
    assert!(left[0].is_cancelled());
    jobs.take().into_iter().for_each(|job| job());
    assert_eq!(seen.len(), 1, "what was handed over may still run");
    assert!(left[0].take_task().is_none());
    assert!(held.is_cancelled());
    assert_eq!(timer.stats().unprocessed, 1);
    assert_counts_add_up(&timer);
}

fn a_dropped_job_does_not_end_it(kind: Kind) {
    let (clock, timer, jobs) = with_list(kind);
    let (_held, seen) = noting(&timer, &clock, 10, Period::FixedRate(ms(10)));
    clock.advance(ms(10));
    drop(jobs.take());
    assert_eq!(
        (timer.stats().dropped_jobs, timer.pending_timeouts()),
        (1, 1)
    );
    clock.advance(ms(10));
    jobs.take().into_iter().for_each(|job| job());
    assert_eq!(seen.take(), [20], "the next run comes");
}

fn a_rejected_periodic_task_comes_back(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    timer.stop().unwrap();
    let (guard, drops) = Guard::new();
    let task = move |_: &Timeout| {
        let _held = &guard;
    };
    let rejected = timer
        .new_periodic(task, ms(10), Period::FixedRate(ms(10)))
        .unwrap_err();
    assert!(
        matches!(rejected.reason, RejectReason::Stopped),
        "{rejected}"
    );
    assert_eq!(drops.len(), 0);
    drop(rejected.task);
    assert_eq!((drops.len(), timer.stats().rejected), (1, 1));
}

fn a_period_that_never_ends_runs_once(kind: Kind) {
    for period in [
        Period::FixedRate(Duration::MAX),
        Period::FixedDelay(Duration::MAX),
    ] {
        let clock = ManualClock::new();
        let timer = kind.on(&clock);
        let (held, seen) = noting(&timer, &clock, 10, period);
        clock.advance(Duration::from_secs(1 << 32));
        assert_eq!((seen.take(), held.remaining()), (vec![10], Duration::MAX));
        assert_eq!(timer.pending_timeouts(), 1);
        assert!(held.cancel());
    }
}

fn a_run_may_use_the_timer_it_runs_on(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let runs = Count::new();
    let count = runs.clone();
    let task = move |t: &Timeout| {
        t.timer().new_timeout(count.task(), ms(5)).unwrap();
        assert!(t.timer().new_timeout(|_| {}, FAR).unwrap().cancel());
        assert!(!t.reset(ms(1)), "a periodic one cannot be reset");
    };
    let periodic = timer
        .new_periodic(task, ms(10), Period::FixedRate(ms(10)))
        .unwrap();
    clock.advance(ms(100));
    assert_eq!((runs.get(), timer.stats().panicked), (9, 0));
    assert!(periodic.cancel());
}

fn real_runs_are_never_early(kind: Kind) {
    let timer = kind.real(ms(1));
    let (done, runs) = mpsc::channel();
    let start = Instant::now();
    let task = move |_: &Timeout| {
        let _ = done.send(start.elapsed());
        thread::sleep(ms(1));
    };
    let period = Period::FixedDelay(ms(3));
    let periodic = timer.new_periodic(task, ms(2), period).unwrap();
    let at: Vec<_> = (0..20).map(|_| recv(&runs)).collect();
    assert!(at[0] >= ms(2));
    assert!(
        at.windows(2).all(|pair| pair[1] >= pair[0] + ms(4)),
        "{at:?}"
    );
    assert!(periodic.cancel());
}
