//! Starting: lazily, once, and what happens when the thread does not come.

mod common;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread::{self, JoinHandle};

use common::{Count, FAR, Kind, Timer, in_thread, ms, on_both_timers, recv};
use hashed_wheel::{Job, ManualClock, Period, RejectReason, StartError, Timeout, TimerState};

on_both_timers![
    a_new_timer_has_no_thread_until_the_first_timeout,
    start_is_idempotent,
    many_starters_make_one_thread,
    a_factorys_error_reaches_new_timeout_and_the_next_call_tries_again,
    a_factorys_error_reaches_start_and_the_next_call_tries_again,
    a_job_that_is_dropped_unrun_is_a_spawn_error,
    a_job_that_is_run_on_the_calling_thread_is_a_spawn_error,
    the_call_that_starts_the_timer_counts_from_time_zero,
    a_factory_that_panics_leaves_the_timer_usable,
    a_thread_that_begins_late_is_waited_for,
    while_one_starts_the_state_is_init_and_the_others_wait,
    after_a_failure_each_waiting_caller_tries_for_itself,
    stop_waits_for_a_start_that_succeeds,
    stop_after_a_start_that_fails_goes_to_shutdown,
    the_factory_may_ask_the_timer,
    the_manual_clock_starts_no_thread,
    the_first_deadline_counts_from_the_start,
];

fn spawn(job: Job) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().spawn(job)
}

fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, "no thread today")
}

/// A timer whose factory fails as long as `failures` lasts; with the number of its calls.
fn failing(kind: Kind, failures: usize) -> (Timer, Count) {
    let calls = Count::new();
    let count = calls.clone();
    let factory = move |job| {
        if count.add() > failures {
            spawn(job)
        } else {
            Err(refused())
        }
    };
    (kind.builder().thread_factory(factory).build(), calls)
}

fn fires(timer: &Timer) {
    let (done, signal) = mpsc::channel();
    timer
        .new_timeout(move |_| done.send(()).unwrap(), ms(1))
        .unwrap();
    recv(&signal);
}

fn a_new_timer_has_no_thread_until_the_first_timeout(kind: Kind) {
    let (timer, threads) = failing(kind, 0);
    assert_eq!((timer.state(), threads.get()), (TimerState::Init, 0));
    assert_eq!((timer.pending_timeouts(), timer.stats().scheduled), (0, 0));
    timer.new_timeout(|_| {}, FAR).unwrap();
    assert_eq!((timer.state(), threads.get()), (TimerState::Started, 1));
}

fn start_is_idempotent(kind: Kind) {
    let (timer, threads) = failing(kind, 0);
    (0..3).for_each(|_| timer.start().unwrap());
    assert_eq!((timer.state(), threads.get()), (TimerState::Started, 1));
    fires(&timer);
    assert_eq!(threads.get(), 1);
}

fn many_starters_make_one_thread(kind: Kind) {
    for _ in 0..20 {
        let (timer, threads) = failing(kind, 0);
        let barrier = Barrier::new(6);
        thread::scope(|scope| {
            for n in 0..6 {
                let (timer, barrier) = (&timer, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    if n % 2 == 0 {
                        timer.start().unwrap();
                    } else {
                        timer.new_timeout(|_| {}, FAR).unwrap();
                    }
                    assert_eq!(timer.state(), TimerState::Started);
                });
            }
        });
        assert_eq!((threads.get(), timer.pending_timeouts()), (1, 3));
    }
}

fn a_factorys_error_reaches_new_timeout_and_the_next_call_tries_again(kind: Kind) {
    let (timer, calls) = failing(kind, 2);
    let runs = Count::new();
    let mut task = runs.task();
    for n in 1..=2 {
        let rejected = timer.new_timeout(task, ms(1)).unwrap_err();
        let RejectReason::Spawn(error) = rejected.reason else {
            panic!("{:?}", rejected.reason)
        };
        assert_eq!(
            (error.kind(), error.to_string()),
            (refused().kind(), refused().to_string())
        );
        assert_eq!((timer.state(), calls.get()), (TimerState::Init, n));
        assert_eq!((timer.pending_timeouts(), timer.stats().scheduled), (0, 0));
        assert_eq!(timer.stats().rejected, n as u64);
        task = rejected.task;
    }
    timer.new_timeout(task, ms(1)).unwrap();
    assert_eq!((timer.state(), calls.get()), (TimerState::Started, 3));
    common::eventually("the task that came back twice runs", || runs.get() == 1);
}

fn a_factorys_error_reaches_start_and_the_next_call_tries_again(kind: Kind) {
    let (timer, calls) = failing(kind, 2);
    for n in 1..=2 {
        let error = timer.start().unwrap_err();
        let StartError::Spawn(error) = error else {
            panic!("{error:?}")
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert_eq!((timer.state(), calls.get()), (TimerState::Init, n));
    }
    timer.start().unwrap();
    assert_eq!((timer.state(), calls.get()), (TimerState::Started, 3));
    fires(&timer);
}

fn a_job_that_is_dropped_unrun_is_a_spawn_error(kind: Kind) {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let factory = move |job: Job| match count.fetch_add(1, Ordering::SeqCst) {
        // Dropped before the factory returns, and by the thread afterwards.
        0 => {
            drop(job);
            thread::Builder::new().spawn(|| {})
        }
        1 => thread::Builder::new().spawn(move || {
            // The factory returns first, as a rule; the outcome is the same if not.
            thread::sleep(ms(20));
            drop(job);
        }),
        _ => spawn(job),
    };
    let timer = kind.builder().thread_factory(factory).build();
    let error = timer.start().unwrap_err();
    assert!(matches!(error, StartError::Spawn(_)), "{error:?}");
    assert_eq!(timer.state(), TimerState::Init);
    let rejected = timer.new_timeout(|_| {}, ms(1)).unwrap_err();
    assert!(
        matches!(rejected.reason, RejectReason::Spawn(_)),
        "{rejected:?}"
    );
    assert_eq!(
        (timer.state(), timer.pending_timeouts()),
        (TimerState::Init, 0)
    );
    fires(&timer);
    assert_eq!(calls.load(Ordering::SeqCst), 3);
}

fn a_factory_that_panics_leaves_the_timer_usable(kind: Kind) {
    let calls = Count::new();
    let count = calls.clone();
    let factory = move |job| {
        assert!(count.add() > 1, "the factory panics on purpose");
        spawn(job)
    };
    let timer = kind.builder().thread_factory(factory).build();
    // It may leave `start` or be reported by it; it must not leave the others waiting for ever.
    let first = catch_unwind(AssertUnwindSafe(|| timer.start()));
    assert!(!matches!(first, Ok(Ok(()))), "no thread was started");
    assert_eq!(timer.state(), TimerState::Init);
    let timer = recv(&in_thread(move || {
        timer.start().unwrap();
        timer
    }));
    fires(&timer);
    assert_eq!(calls.get(), 2);
}

fn a_thread_that_begins_late_is_waited_for(kind: Kind) {
    let began = Count::new();
    let count = began.clone();
    let factory = move |job: Job| {
        let count = count.clone();
        thread::Builder::new().spawn(move || {
            // `start` would have time to return without it.
            thread::sleep(ms(30));
            count.add();
            job();
        })
    };
    let timer = kind.builder().thread_factory(factory).build();
    timer.start().unwrap();
    assert_eq!(began.get(), 1, "started means that the worker runs");
    fires(&timer);
}

/// A timer whose factory stands still in its first call until it is told how to end it.
fn stuck(kind: Kind) -> (Timer, mpsc::Receiver<()>, mpsc::Sender<bool>, Count) {
    let (entered, inside) = mpsc::channel();
    let (verdict, wait) = mpsc::channel::<bool>();
    let state = Mutex::new(Some((entered, wait)));
    let calls = Count::new();
    let count = calls.clone();
    let factory = move |job| {
        count.add();
        let first = state.lock().unwrap().take();
        let Some((entered, wait)) = first else {
            return Err(refused());
        };
        entered.send(()).unwrap();
        if wait.recv_timeout(common::WATCHDOG).unwrap_or(false) {
            spawn(job)
        } else {
            Err(refused())
        }
    };
    (
        kind.builder().thread_factory(factory).build(),
        inside,
        verdict,
        calls,
    )
}

fn while_one_starts_the_state_is_init_and_the_others_wait(kind: Kind) {
    let (timer, inside, verdict, calls) = stuck(kind);
    let timer = Arc::new(timer);
    let starter = Arc::clone(&timer);
    let first = in_thread(move || starter.start().is_ok());
    recv(&inside);
    let (a, b) = (Arc::clone(&timer), Arc::clone(&timer));
    let others = [
        in_thread(move || a.start().is_ok()),
        in_thread(move || b.new_timeout(|_| {}, FAR).is_ok()),
    ];
    assert_eq!(timer.state(), TimerState::Init);
    for other in &others {
        assert!(
            other.recv_timeout(ms(30)).is_err(),
            "it must wait for the outcome"
        );
    }
    verdict.send(true).unwrap();
    assert!(recv(&first));
    assert!(others.iter().all(recv));
    assert_eq!((timer.state(), calls.get()), (TimerState::Started, 1));
    assert_eq!(timer.pending_timeouts(), 1);
}

fn after_a_failure_each_waiting_caller_tries_for_itself(kind: Kind) {
    let (timer, inside, verdict, calls) = stuck(kind);
    let timer = Arc::new(timer);
    let starter = Arc::clone(&timer);
    let first = in_thread(move || starter.start().is_ok());
    recv(&inside);
    let others: Vec<_> = (0..4)
        .map(|n| {
            let timer = Arc::clone(&timer);
            in_thread(move || match n % 2 {
                0 => matches!(timer.start(), Err(StartError::Spawn(_))),
                _ => timer
                    .new_timeout(|_| {}, FAR)
                    .is_err_and(|r| matches!(r.reason, RejectReason::Spawn(_))),
            })
        })
        .collect();
    // Most of them wait by then for the first. Whoever comes later tries for itself, with the same outcome.
    thread::sleep(ms(30));
    verdict.send(false).unwrap();
    assert!(!recv(&first));
    assert!(others.iter().all(recv), "each gets an error of its own");
    assert_eq!((timer.state(), calls.get()), (TimerState::Init, 5));
    assert_eq!((timer.pending_timeouts(), timer.stats().rejected), (0, 2));
}

fn stop_waits_for_a_start_that_succeeds(kind: Kind) {
    let (timer, inside, verdict, _) = stuck(kind);
    let timer = Arc::new(timer);
    let (one, two) = (Arc::clone(&timer), Arc::clone(&timer));
    let scheduled = in_thread(move || one.new_timeout(|_| {}, FAR).map_err(|r| r.reason));
    recv(&inside);
    let stopped = in_thread(move || two.stop().unwrap().len());
    assert!(
        stopped.recv_timeout(ms(30)).is_err(),
        "stop must wait for the outcome"
    );
    verdict.send(true).unwrap();
    let left = recv(&stopped);
    match recv(&scheduled) {
        Ok(timeout) => assert!(left == 1 && timeout.is_cancelled()),
        Err(reason) => assert!(
            left == 0 && matches!(reason, RejectReason::Stopped),
            "{reason}"
        ),
    }
    assert_eq!(timer.state(), TimerState::Shutdown);
}

fn stop_after_a_start_that_fails_goes_to_shutdown(kind: Kind) {
    let (timer, inside, verdict, _) = stuck(kind);
    let timer = Arc::new(timer);
    let (one, two) = (Arc::clone(&timer), Arc::clone(&timer));
    let started = in_thread(move || one.start());
    recv(&inside);
    let stopped = in_thread(move || two.stop().unwrap().len());
    assert!(
        stopped.recv_timeout(ms(30)).is_err(),
        "stop must wait for the outcome"
    );
    verdict.send(false).unwrap();
    assert_eq!(recv(&stopped), 0);
    assert!(matches!(recv(&started), Err(StartError::Spawn(_))));
    assert_eq!(timer.state(), TimerState::Shutdown);
    assert!(matches!(timer.start(), Err(StartError::Stopped)));
}

fn the_factory_may_ask_the_timer(kind: Kind) {
    let handle: Arc<Mutex<Option<hashed_wheel::TimerHandle>>> = Arc::default();
    let (asked, answer) = mpsc::channel();
    let inside = Arc::clone(&handle);
    let factory = move |job| {
        let timer = inside.lock().unwrap().take().unwrap();
        asked
            .send((
                timer.state(),
                timer.pending_timeouts(),
                timer.stats().scheduled,
            ))
            .unwrap();
        spawn(job)
    };
    let timer = kind.builder().thread_factory(factory).build();
    *handle.lock().unwrap() = Some(timer.handle());
    let started = in_thread(move || {
        timer.start().unwrap();
        timer.state()
    });
    assert_eq!(
        recv(&answer),
        (TimerState::Init, 0, 0),
        "no lock is held around the factory"
    );
    assert_eq!(recv(&started), TimerState::Started);
}

fn the_manual_clock_starts_no_thread(kind: Kind) {
    let clock = ManualClock::new();
    let builder = kind.builder().clock(&clock);
    let timer = builder
        .thread_factory(|_| panic!("no thread is started"))
        .build();
    assert_eq!(timer.state(), TimerState::Init);
    let runs = Count::new();
    timer.new_timeout(runs.task(), ms(10)).unwrap();
    assert_eq!(timer.state(), TimerState::Started);
    clock.advance(ms(10));
    assert_eq!(runs.get(), 1);
}

fn a_job_that_is_run_on_the_calling_thread_is_a_spawn_error(kind: Kind) {
    // Both kinds of answer: the caller's own thread has run it, and another one is started or not.
    for answers in [true, false] {
        let inline = Arc::new(AtomicUsize::new(1));
        let left = Arc::clone(&inline);
        let factory = move |job: Job| {
            if left.swap(0, Ordering::Relaxed) == 0 {
                return spawn(job);
            }
            job();
            if answers {
                spawn(Box::new(|| ()))
            } else {
                Err(refused())
            }
        };
        let timer = kind.builder().thread_factory(factory).build();
        let runs = Count::new();
        let error = timer.new_timeout(runs.task(), ms(1)).unwrap_err();
        let RejectReason::Spawn(spawn_error) = error.reason else {
            panic!("another reason")
        };
        let expected = if answers {
            "the thread factory ran the job on the thread that called it"
        } else {
            "no thread today"
        };
        assert_eq!(spawn_error.to_string(), expected);
        assert_eq!((timer.state(), runs.get()), (TimerState::Init, 0));
        fires(&timer);
    }
}

fn the_call_that_starts_the_timer_counts_from_time_zero(kind: Kind) {
    const HOUR: u64 = 3_600_000;
    let due_tick = |timer: &Timer| {
        let mut due = Vec::new();
        timer.for_each_pending(|pending| due.push(pending.due_tick));
        due
    };
    let timer = kind.real(ms(HOUR));
    let first = timer.new_timeout(|_| {}, ms(HOUR)).unwrap();
    assert_eq!(due_tick(&timer), [1], "one tick takes one tick");
    assert!(first.remaining() <= ms(HOUR));
    first.cancel();
    timer.new_timeout(|_| {}, ms(HOUR)).unwrap();
    assert_eq!(due_tick(&timer), [2], "a later call counts from itself");
    for delay in [0, 1, HOUR - 1] {
        let timer = kind.real(ms(HOUR));
        timer.new_timeout(|_| {}, ms(delay)).unwrap();
        assert_eq!(due_tick(&timer), [1]);
    }
    let timer = kind.real(ms(HOUR));
    let period = Period::FixedRate(ms(HOUR));
    timer.new_periodic(|_| {}, ms(HOUR), period).unwrap();
    assert_eq!(due_tick(&timer), [1]);
}

fn the_first_deadline_counts_from_the_start(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    clock.advance(ms(12_345));
    let runs = Count::new();
    let first: Timeout = timer.new_timeout(runs.task(), ms(20)).unwrap();
    assert_eq!(first.remaining(), ms(20));
    clock.advance(ms(19));
    assert_eq!(runs.get(), 0);
    clock.advance(ms(1));
    assert_eq!(runs.get(), 1, "what passed before the start is no lateness");
}
