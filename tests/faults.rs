//! Faults that come from the program around the timer: owners dropped where it is least convenient,
//! wakers that panic, executors that block, and a limit under pressure. Faults of single tasks are in
//! `panics`, of starting in `start`, of the process in `faults_process`.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread;

use common::poll::{Wakes, poll_with};
use common::{
    Count, FAR, Guard, Kind, Rng, Timer, assert_counts_add_up, eventually, for_ever, in_thread, ms,
    on_both_timers, recv,
};
use hashed_wheel::{Job, ManualClock, RejectReason, Timeout, TimerHandle, TimerState};

on_both_timers![
    an_owner_held_by_its_own_cancelled_task_is_dropped_by_the_canceller,
    an_owner_held_by_its_own_task_is_dropped_when_that_has_run,
    an_owner_held_by_its_own_task_comes_back_from_stop,
    an_owner_dropped_while_another_thread_stops_it,
    an_owner_dropped_by_the_task_that_stop_waits_for,
    a_waker_that_panics_at_stop_keeps_no_other_asleep,
    a_waker_whose_drop_panics_in_a_poll_has_been_replaced,
    an_executor_that_blocks_makes_tasks_late_and_loses_none,
    a_limit_holds_while_eight_threads_add_reset_cancel_and_tasks_fire,
];

fn assert_is_over(handle: &TimerHandle) {
    assert_eq!(handle.state(), TimerState::Shutdown);
    eventually("nothing is pending", || handle.pending_timeouts() == 0);
    assert_counts_add_up(handle);
}

fn an_owner_held_by_its_own_cancelled_task_is_dropped_by_the_canceller(kind: Kind) {
    let timer = kind.real(ms(1));
    let handle = timer.handle();
    let (guard, drops) = Guard::new();
    let other = handle.new_timeout(move |_| drop(guard), FAR).unwrap();
    let keeper = handle.new_timeout(move |_| drop(timer), FAR).unwrap();
    assert!(recv(&in_thread(move || keeper.cancel())));
    assert_is_over(&handle);
    assert_eq!(drops.len(), 1, "its drop has ended the timer");
    assert!(other.is_cancelled());
    let stats = handle.stats();
    assert_eq!((stats.cancelled, stats.unprocessed), (1, 1));
}

fn an_owner_held_by_its_own_task_is_dropped_when_that_has_run(kind: Kind) {
    let timer = kind.real(ms(1));
    let handle = timer.handle();
    let (guard, drops) = Guard::new();
    handle.new_timeout(move |_| drop(guard), FAR).unwrap();
    let (ran, signal) = mpsc::channel();
    let task = move |_: &Timeout| {
        let _held = &timer;
        ran.send(()).unwrap();
    };
    handle.new_timeout(task, ms(2)).unwrap();
    recv(&signal);
    eventually("what was left is dropped", || drops.len() == 1);
    assert_is_over(&handle);
    let stats = handle.stats();
    assert_eq!((stats.expired, stats.unprocessed), (1, 1));
}

fn an_owner_held_by_its_own_task_comes_back_from_stop(kind: Kind) {
    for take in [false, true] {
        let timer = kind.real(ms(1));
        let handle = timer.handle();
        handle.new_timeout(move |_| drop(timer), FAR).unwrap();
        let stopper = handle.clone();
        let left = recv(&in_thread(move || stopper.stop().unwrap()));
        assert_eq!(left.len(), 1);
        let dropped = in_thread(move || {
            let task = left[0].take_task().filter(|_| take);
            drop(left);
            drop(task);
        });
        recv(&dropped);
        assert_is_over(&handle);
    }
}

/// A timer with a task that is running until told to go on, and one that will never run.
fn busy(
    kind: Kind,
    inside: impl FnOnce() + Send + 'static,
) -> (Timer, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let timer = kind.real(ms(1));
    let (began, beginning) = mpsc::channel();
    let (go_on, gate) = mpsc::channel::<()>();
    let (ended, end) = mpsc::channel();
    let task = move |_: &Timeout| {
        began.send(()).unwrap();
        let _ = gate.recv_timeout(common::WATCHDOG);
        inside();
        ended.send(()).unwrap();
    };
    timer.new_timeout(task, ms(0)).unwrap();
    timer.new_timeout(|_| {}, FAR).unwrap();
    recv(&beginning);
    (timer, go_on, end)
}

fn an_owner_dropped_while_another_thread_stops_it(kind: Kind) {
    let (timer, go_on, end) = busy(kind, || ());
    let handle = timer.handle();
    let stopping = handle.clone();
    let left = in_thread(move || stopping.stop().unwrap().len());
    eventually("it is being stopped", || {
        handle.state() == TimerState::Shutdown
    });
    let dropped = in_thread(move || drop(timer));
    // Time to return too early; a slow thread proves nothing, and breaks nothing.
    thread::sleep(ms(5));
    assert!(
        dropped.try_recv().is_err(),
        "the drop waits for the running task too"
    );
    drop(go_on);
    recv(&end);
    assert_eq!(recv(&left), 1, "what was left is the stopping thread's");
    recv(&dropped);
    assert_is_over(&handle);
}

fn an_owner_dropped_by_the_task_that_stop_waits_for(kind: Kind) {
    let owner: Arc<Mutex<Option<Timer>>> = Arc::default();
    let inside = Arc::clone(&owner);
    let (timer, go_on, end) = busy(kind, move || {
        let timer = inside.lock().unwrap().take();
        assert!(timer.is_some());
        drop(timer);
    });
    let handle = timer.handle();
    *owner.lock().unwrap() = Some(timer);
    let stopping = handle.clone();
    let left = in_thread(move || stopping.stop().unwrap().len());
    eventually("it is being stopped", || {
        handle.state() == TimerState::Shutdown
    });
    drop(go_on);
    recv(&end);
    assert_eq!(recv(&left), 1);
    assert_is_over(&handle);
    assert_eq!(handle.stats().panicked, 0);
}

struct Panicking;

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        panic!("on purpose: the waker");
    }
}

fn a_waker_that_panics_at_stop_keeps_no_other_asleep(kind: Kind) {
    for dropped in [false, true] {
        let timer = kind.real(ms(1));
        let handle = timer.handle();
        let mut sleeps: Vec<_> = (0..6).map(|_| Box::pin(timer.sleep(FAR))).collect();
        let (count, counting) = Wakes::new();
        let panicking = Waker::from(Arc::new(Panicking));
        for (n, sleep) in sleeps.iter_mut().enumerate() {
            let waker = [&panicking, &counting][n % 2];
            assert!(poll_with(sleep.as_mut(), waker).is_pending());
        }
        let ended = in_thread(move || {
            if !dropped {
                assert_eq!(timer.stop().unwrap().len(), 0);
            }
            drop(timer);
        });
        recv(&ended);
        assert_eq!(count.get(), 3);
        for mut sleep in sleeps {
            let outcome = poll_with(sleep.as_mut(), &counting);
            assert!(matches!(outcome, Poll::Ready(Err(RejectReason::Stopped))));
        }
        assert_is_over(&handle);
        let stats = handle.stats();
        assert_eq!((stats.panicked, stats.unprocessed), (3, 6));
    }
}

/// Wakers by number: each counts how often it was woken; the drop of the first panics once.
mod numbered {
    use super::{AtomicI64, AtomicUsize, Ordering, RawWaker, RawWakerVTable, Waker, for_ever};

    pub(super) struct Numbered {
        pub(super) woken: AtomicUsize,
        /// The drop that is so many from now panics.
        pub(super) fuse: AtomicI64,
    }

    static VTABLE: RawWakerVTable = RawWakerVTable::new(
        |data| RawWaker::new(data, &VTABLE),
        |data| {
            get(data).woken.fetch_add(1, Ordering::SeqCst);
            // By value: it is dropped.
            defuse(data);
        },
        |data| {
            get(data).woken.fetch_add(1, Ordering::SeqCst);
        },
        defuse,
    );

    fn get(data: *const ()) -> &'static Numbered {
        // SAFETY: `waker` is the only one to make these wakers, of a `&'static Numbered`.
        unsafe { &*data.cast() }
    }

    fn defuse(data: *const ()) {
        let left = get(data).fuse.fetch_sub(1, Ordering::SeqCst);
        assert!(left != 1, "on purpose: the drop of a waker");
    }

    pub(super) fn new() -> &'static Numbered {
        for_ever(Numbered {
            woken: AtomicUsize::new(0),
            fuse: AtomicI64::new(0),
        })
    }

    pub(super) fn waker(of: &'static Numbered) -> Waker {
        // SAFETY: the functions of the table do as the contract of `RawWaker` says: the data is shared,
        // lives for ever, and needs neither counting nor freeing.
        unsafe { Waker::from_raw(RawWaker::new(std::ptr::from_ref(of).cast(), &VTABLE)) }
    }
}

fn a_waker_whose_drop_panics_in_a_poll_has_been_replaced(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let (first, second) = (numbered::new(), numbered::new());
    let (first_waker, second_waker) = (numbered::waker(first), numbered::waker(second));
    let mut sleep = pin!(timer.sleep(ms(50)));
    assert!(poll_with(sleep.as_mut(), &first_waker).is_pending());
    // The next drop of the first waker is that of the clone which the second replaces.
    first.fuse.store(1, Ordering::SeqCst);
    let polled = catch_unwind(AssertUnwindSafe(|| {
        poll_with(sleep.as_mut(), &second_waker).is_pending()
    }));
    assert!(polled.is_err(), "the panic is the caller's");
    // The first one again: it is the last now, and must not be taken for the one that is gone.
    assert!(poll_with(sleep.as_mut(), &first_waker).is_pending());
    clock.advance(ms(50));
    let woken = [first, second].map(|waker| waker.woken.load(Ordering::SeqCst));
    assert_eq!(woken, [1, 0], "the last waker is woken");
    assert!(matches!(
        poll_with(sleep, &first_waker),
        Poll::Ready(Ok(()))
    ));
    assert_eq!(timer.stats().panicked, 0);
    assert_counts_add_up(&timer);
}

fn an_executor_that_blocks_makes_tasks_late_and_loses_none(kind: Kind) {
    let (go_on, gate) = mpsc::channel::<()>();
    let (began, beginning) = mpsc::channel();
    let gate = Mutex::new(Some(gate));
    let executor = move |job: Job| {
        let gate = gate.lock().unwrap().take();
        if let Some(gate) = gate {
            began.send(()).unwrap();
            let _ = gate.recv_timeout(common::WATCHDOG);
        }
        job();
    };
    let timer = kind.builder().tick(ms(1)).executor(executor).build();
    timer.new_timeout(|_| {}, ms(0)).unwrap();
    recv(&beginning);
    let (done, order) = mpsc::channel();
    for n in 0..30_u64 {
        let done = done.clone();
        let task = move |_: &Timeout| done.send(n).unwrap();
        timer.new_timeout(task, ms(2 * n)).unwrap();
    }
    // Until all are due.
    thread::sleep(ms(80));
    assert!(order.try_recv().is_err(), "the executor blocks");
    drop(go_on);
    let order: Vec<_> = (0..30).map(|_| recv(&order)).collect();
    assert!(
        order.is_sorted(),
        "each has a boundary of its own: {order:?}"
    );
    assert_eq!(timer.stats().dropped_jobs, 0);
    assert!(timer.stop().unwrap().is_empty());
    assert_counts_add_up(&timer);
}

fn a_limit_holds_while_eight_threads_add_reset_cancel_and_tasks_fire(kind: Kind) {
    const LIMIT: usize = 20;
    let timer = kind.builder().max_pending(LIMIT).tick(ms(1)).build();
    // Counted after it was accepted, and until it runs or is about to be cancelled.
    let standing = Arc::new(AtomicI64::new(0));
    let (most, most_told) = (AtomicI64::new(0), AtomicUsize::new(0));
    let (accepted, refused, runs) = (AtomicUsize::new(0), AtomicUsize::new(0), Count::new());
    thread::scope(|scope| {
        for number in 0..8 {
            let (timer, standing, runs) = (&timer, &standing, &runs);
            let (accepted, refused) = (&accepted, &refused);
            let (most, most_told) = (&most, &most_told);
            scope.spawn(move || {
                let mut random = Rng(number);
                let mut held = Vec::new();
                for _ in 0..3_000 {
                    let (inside, count) = (Arc::clone(standing), runs.clone());
                    let task = move |_: &Timeout| {
                        inside.fetch_sub(1, Ordering::SeqCst);
                        count.add();
                    };
                    match timer.new_timeout(task, ms(random.below(4))) {
                        Ok(timeout) => {
                            accepted.fetch_add(1, Ordering::SeqCst);
                            let now = standing.fetch_add(1, Ordering::SeqCst) + 1;
                            most.fetch_max(now, Ordering::SeqCst);
                            held.push(timeout);
                        }
                        Err(rejected) => {
                            let full = RejectReason::TooManyPending { max: LIMIT };
                            assert_eq!(rejected.reason.to_string(), full.to_string());
                            refused.fetch_add(1, Ordering::SeqCst);
                            thread::yield_now();
                        }
                    }
                    most_told.fetch_max(timer.pending_timeouts(), Ordering::SeqCst);
                    if let Some(timeout) = held.last() {
                        timeout.reset(ms(random.below(4)));
                    }
                    if let (Some(timeout), 0) = (held.pop(), random.below(2)) {
                        standing.fetch_sub(1, Ordering::SeqCst);
                        if !timeout.cancel() {
                            standing.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                }
            });
        }
    });
    // One may have fired, which makes room, and not have begun to run.
    let limit = i64::try_from(LIMIT).unwrap() + 1;
    assert!(most.into_inner() <= limit, "more than {LIMIT} were pending");
    assert!(most_told.into_inner() <= LIMIT, "more were told to be");
    eventually("all is over", || timer.pending_timeouts() == 0);
    assert!(timer.stop().unwrap().is_empty());
    let stats = timer.stats();
    assert_eq!(stats.scheduled, accepted.into_inner() as u64);
    assert_eq!(stats.rejected, refused.into_inner() as u64);
    assert_eq!(stats.expired, runs.get() as u64);
    assert_eq!(standing.load(Ordering::SeqCst), 0);
    assert!(stats.rejected > 0 && stats.cancelled > 0 && stats.expired > 0);
    assert_counts_add_up(&timer);
}
