//! Calls from places that are easily forgotten: destructors, dying threads, tasks that park.

mod common;

use std::cell::RefCell;
use std::mem;
use std::sync::mpsc;
use std::thread;

use common::{
    Count, FAR, Guard, Kind, Record, assert_counts_add_up, in_thread, ms, on_both_timers, recv,
};
use hashed_wheel::{ManualClock, Timeout, TimerHandle, TimerState};

on_both_timers![
    a_thread_local_destructor_may_use_the_timer,
    a_task_in_a_thread_local_destructor_cannot_stop_its_timer_either,
    a_task_that_parks_steals_no_wake_up,
    an_unpark_from_anywhere_wakes_no_task_early,
    a_task_dropped_at_the_end_may_call_the_timer,
    a_forgotten_handle_harms_nobody,
    a_timeout_may_end_on_a_thread_that_never_saw_the_timer,
    a_task_may_drop_its_own_handle,
];

/// Uses a timer when it is dropped.
struct LastWords {
    timer: TimerHandle,
    pending: Timeout,
    runs: Count,
    report: mpsc::Sender<bool>,
}

impl Drop for LastWords {
    fn drop(&mut self) {
        let cancelled = self.pending.cancel();
        let scheduled = self.timer.new_timeout(self.runs.task(), ms(1)).is_ok();
        let _ = self.report.send(cancelled && scheduled);
    }
}

fn a_thread_local_destructor_may_use_the_timer(kind: Kind) {
    thread_local! {
        static WORDS: RefCell<Vec<LastWords>> = const { RefCell::new(Vec::new()) };
    }
    let timer = kind.real(ms(1));
    let runs = Count::new();
    let (report, reports) = mpsc::channel();
    for first_use in [true, false] {
        let (handle, runs, report) = (timer.handle(), runs.clone(), report.clone());
        // The thread's own memory of the timer may be gone before or after these words are said.
        let speak = move || {
            if first_use {
                WORDS.with_borrow(Vec::len);
            }
            let pending = handle.new_timeout(|_| {}, FAR).unwrap();
            WORDS.with_borrow_mut(|words| {
                words.push(LastWords {
                    timer: handle,
                    pending,
                    runs,
                    report,
                });
            });
        };
        thread::spawn(speak).join().unwrap();
        assert!(recv(&reports));
    }
    common::eventually("what they scheduled runs", || runs.get() == 2);
    assert_eq!(timer.stats().cancelled, 2);
    assert_counts_add_up(&timer);
}

/// Advances a clock when it is dropped.
struct LastHour {
    clock: ManualClock,
    report: mpsc::Sender<()>,
}

impl Drop for LastHour {
    fn drop(&mut self) {
        self.clock.advance(FAR);
        let _ = self.report.send(());
    }
}

fn a_task_in_a_thread_local_destructor_cannot_stop_its_timer_either(kind: Kind) {
    thread_local! {
        static HOUR: RefCell<Option<LastHour>> = const { RefCell::new(None) };
    }
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let answers = Record::new();
    let noted = answers.clone();
    let task = move |timeout: &Timeout| noted.push(timeout.timer().stop().is_err());
    timer.new_timeout(task, FAR).unwrap();
    let (report, reports) = mpsc::channel();
    thread::spawn(move || {
        // First of all, so that it goes last: the thread's memory of what it does is gone by then.
        HOUR.set(Some(LastHour {
            clock: clock.clone(),
            report,
        }));
        clock.advance(ms(10));
    });
    recv(&reports);
    assert_eq!(answers.take(), [true]);
    assert_eq!(timer.state(), TimerState::Started);
}

fn a_task_that_parks_steals_no_wake_up(kind: Kind) {
    let timer = kind.real(ms(1));
    for _ in 0..20 {
        let (parks, parked) = mpsc::channel();
        let (done, signal) = mpsc::channel();
        let parking = move |_: &Timeout| {
            parks.send(()).unwrap();
            thread::park_timeout(ms(3));
        };
        timer.new_timeout(parking, ms(0)).unwrap();
        recv(&parked);
        timer.new_timeout(|_| {}, FAR).unwrap();
        timer
            .new_timeout(move |_| done.send(()).unwrap(), ms(5))
            .unwrap();
        recv(&signal);
    }
}

fn an_unpark_from_anywhere_wakes_no_task_early(kind: Kind) {
    let timer = kind.real(ms(5));
    let (tell, told) = mpsc::channel();
    timer
        .new_timeout(move |_| tell.send(thread::current()).unwrap(), ms(0))
        .unwrap();
    let worker = recv(&told);
    let (done, signal) = mpsc::channel();
    let start = std::time::Instant::now();
    timer
        .new_timeout(move |_| done.send(start.elapsed()).unwrap(), ms(60))
        .unwrap();
    let elapsed = loop {
        worker.unpark();
        if let Ok(elapsed) = signal.recv_timeout(ms(1)) {
            break elapsed;
        }
        assert!(start.elapsed() < common::WATCHDOG);
    };
    assert!(elapsed >= ms(60), "{elapsed:?}");
}

/// Calls the timer when it is dropped, and notes how that went.
struct Caller(TimerHandle, Record<(TimerState, bool)>);

impl Drop for Caller {
    fn drop(&mut self) {
        let accepted = self.0.new_timeout(|_| {}, ms(1)).is_ok();
        assert_eq!(self.0.stop().map_or(0, |left| left.len()), 0);
        self.1.push((self.0.state(), accepted));
    }
}

fn a_task_dropped_at_the_end_may_call_the_timer(kind: Kind) {
    for stopped_first in [false, true] {
        let timer = kind.real(ms(1));
        let seen = Record::new();
        for _ in 0..3 {
            let caller = Caller(timer.handle(), seen.clone());
            timer.new_timeout(move |_| drop(caller), FAR).unwrap();
        }
        let ended = in_thread(move || {
            if stopped_first {
                drop(timer.stop().unwrap());
            }
            drop(timer);
        });
        recv(&ended);
        assert_eq!(seen.take(), [(TimerState::Shutdown, false); 3]);
    }
}

fn a_forgotten_handle_harms_nobody(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let (runs, drops) = (Count::new(), Record::new());
    for delay in [ms(10), ms(20), FAR] {
        let (count, guard) = (runs.clone(), Guard::on(&drops));
        let task = move |_: &Timeout| {
            let _held = &guard;
            count.add();
        };
        mem::forget(timer.new_timeout(task, delay).unwrap());
    }
    clock.advance(ms(10));
    assert_eq!(
        (runs.get(), drops.len(), timer.pending_timeouts()),
        (1, 1, 2)
    );
    clock.advance(ms(10));
    drop(timer);
    assert_eq!((runs.get(), drops.len()), (2, 3));
}

fn a_timeout_may_end_on_a_thread_that_never_saw_the_timer(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    for n in 0..300 {
        let timeout = timer.new_timeout(|_| {}, FAR).unwrap();
        if n % 10 == 0 {
            assert!(thread::spawn(move || timeout.cancel()).join().unwrap());
        } else {
            assert!(timeout.cancel());
        }
    }
    let last = timer.new_timeout(|_| {}, FAR).unwrap();
    drop(timer);
    let ended = thread::spawn(move || {
        let timer = last.timer();
        drop(last);
        timer.stats().cancelled
    });
    assert_eq!(ended.join().unwrap(), 300);
}

fn a_task_may_drop_its_own_handle(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let runs = Count::new();
    for _ in 0..10 {
        let own = std::sync::Arc::new(std::sync::Mutex::new(None));
        let (inside, count) = (std::sync::Arc::clone(&own), runs.clone());
        let task = move |t: &Timeout| {
            let handle: Option<Timeout> = inside.lock().unwrap().take();
            assert!(handle.is_some_and(|handle| handle.is_expired()));
            // The place may be free now, but not before the run is over.
            for _ in 0..100 {
                assert!(t.timer().new_timeout(|_| {}, FAR).unwrap().cancel());
            }
            assert!(t.is_expired() && !t.is_cancelled());
            count.add();
        };
        *own.lock().unwrap() = Some(timer.new_timeout(task, ms(10)).unwrap());
    }
    clock.advance(ms(10));
    assert_eq!((runs.get(), timer.stats().panicked), (10, 0));
    assert_counts_add_up(&timer);
}
