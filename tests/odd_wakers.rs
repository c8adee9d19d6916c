//! Futures under wakers that keep to the letter of the contract and to nothing else: clones with other data than
//! the original, one table for all, no two that are equal, all of them equal, and such as touch the future
//! while they wake.

mod common;

use std::pin::{Pin, pin};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::time::Instant;

use common::poll::{poll_once, poll_with};
use common::{FAR, Kind, WATCHDOG, assert_counts_add_up, eventually, for_ever, ms, on_both_timers};
use hashed_wheel::{Interval, ManualClock, RejectReason, Sleep};

on_both_timers![
    a_sleep_wakes_the_task_that_polled_last,
    a_sleep_that_is_stopped_wakes_the_task_that_polled_last,
    an_interval_wakes_the_task_that_polled_last,
    a_limited_future_wakes_the_task_that_polled_last,
    a_poll_clones_an_odd_waker_once_at_most,
    a_future_that_is_polled_without_rest_comes_to_its_end,
    wakers_that_are_all_equal_are_not_replaced,
    a_waker_may_poll_its_future,
    a_waker_may_drop_its_future,
    a_waker_may_reset_its_future,
];

/// A task of a hand-made executor.
#[derive(Default)]
struct Task {
    woken: AtomicUsize,
    cloned: AtomicUsize,
    alive: AtomicUsize,
}

impl Task {
    fn new() -> &'static Task {
        for_ever(Task::default())
    }

    fn woken(&self) -> usize {
        self.woken.load(Ordering::SeqCst)
    }

    fn cloned(&self) -> usize {
        self.cloned.load(Ordering::SeqCst)
    }

    /// Clones that are neither dropped nor woken.
    fn alive(&self) -> usize {
        self.alive.load(Ordering::SeqCst)
    }
}

/// How the wakers of an executor are made.
#[derive(Debug, Clone, Copy)]
enum Style {
    /// The waker that a future is polled with points to the executor's stack; its clones are boxed. All have one
    /// table.
    Stack,
    /// As before, but clones have a table of their own.
    StackAndBox,
    /// Every clone is a new box: no two wakers are ever equal.
    NeverEqual,
}

const STYLES: [Style; 3] = [Style::Stack, Style::StackAndBox, Style::NeverEqual];

/// What the data of such a waker points to.
struct Data {
    task: &'static Task,
    /// In a box of its own, which wake and drop free.
    boxed: bool,
    clones: &'static RawWakerVTable,
}

static ONE_TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, let_go);
static OF_CLONES: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, let_go);

fn of<'a>(data: *const ()) -> &'a Data {
    // SAFETY: the data of every waker with these tables is a `Data` that is alive as long as the waker.
    unsafe { &*data.cast::<Data>() }
}

fn clone(data: *const ()) -> RawWaker {
    let Data { task, clones, .. } = *of(data);
    task.cloned.fetch_add(1, Ordering::SeqCst);
    task.alive.fetch_add(1, Ordering::SeqCst);
    let boxed = Box::new(Data {
        task,
        boxed: true,
        clones,
    });
    RawWaker::new(Box::into_raw(boxed).cast_const().cast(), clones)
}

fn wake(data: *const ()) {
    wake_by_ref(data);
    let_go(data);
}

fn wake_by_ref(data: *const ()) {
    of(data).task.woken.fetch_add(1, Ordering::SeqCst);
}

fn let_go(data: *const ()) {
    if of(data).boxed {
        of(data).task.alive.fetch_sub(1, Ordering::SeqCst);
        // SAFETY: from `Box::into_raw` in `clone`, and this waker is the only one with it.
        drop(unsafe { Box::from_raw(data.cast_mut().cast::<Data>()) });
    }
}

/// Calls `f` with a waker of the task. Those of the first two styles are at the same address in every call.
fn as_task<R>(style: Style, task: &'static Task, f: impl FnOnce(&Waker) -> R) -> R {
    let clones = match style {
        Style::Stack | Style::NeverEqual => &ONE_TABLE,
        Style::StackAndBox => &OF_CLONES,
    };
    let data = Data {
        task,
        boxed: false,
        clones,
    };
    // SAFETY: the table's functions keep to the contract, from any thread, and the data outlives the waker.
    let waker = unsafe { Waker::from_raw(RawWaker::new(ptr::from_ref(&data).cast(), &ONE_TABLE)) };
    match style {
        Style::Stack | Style::StackAndBox => f(&waker),
        Style::NeverEqual => f(&waker.clone()),
    }
}

/// One poll as that task, always at the same place of the stack.
#[inline(never)]
fn poll_as<F: Future + ?Sized>(
    style: Style,
    task: &'static Task,
    future: Pin<&mut F>,
) -> Poll<F::Output> {
    as_task(style, task, |waker| poll_with(future, waker))
}

/// Polls as the first task and then as the second, lets it end, and sees who was woken.
fn hand_over<F: Future + ?Sized>(
    style: Style,
    mut future: Pin<&mut F>,
    end: impl FnOnce(),
) -> F::Output {
    let [first, second] = [Task::new(), Task::new()];
    for task in [first, second] {
        assert!(poll_as(style, task, future.as_mut()).is_pending());
    }
    end();
    assert_eq!((first.woken(), second.woken()), (0, 1), "{style:?}");
    assert_eq!((first.alive(), second.alive()), (0, 0), "{style:?}");
    match poll_as(style, second, future) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("{style:?}: woken, and not ready"),
    }
}

fn a_sleep_wakes_the_task_that_polled_last(kind: Kind) {
    for style in STYLES {
        let clock = ManualClock::new();
        let timer = kind.on(&clock);
        let sleep = pin!(timer.sleep(ms(50)));
        hand_over(style, sleep, || clock.advance(ms(50))).unwrap();
        assert_counts_add_up(&timer);
    }
}

fn a_sleep_that_is_stopped_wakes_the_task_that_polled_last(kind: Kind) {
    for style in STYLES {
        let timer = kind.on(&ManualClock::new());
        let sleep = pin!(timer.sleep(ms(50)));
        let slept = hand_over(style, sleep, || drop(timer.stop().unwrap()));
        assert!(matches!(slept, Err(RejectReason::Stopped)));
        assert_counts_add_up(&timer);
    }
}

fn an_interval_wakes_the_task_that_polled_last(kind: Kind) {
    for style in STYLES {
        let clock = ManualClock::new();
        let timer = kind.on(&clock);
        let mut interval: Interval = timer.interval(ms(50));
        for _ in 0..3 {
            let tick = pin!(interval.tick());
            hand_over(style, tick, || clock.advance(ms(50))).unwrap();
        }
        drop(interval);
        assert_counts_add_up(&timer);
    }
}

fn a_limited_future_wakes_the_task_that_polled_last(kind: Kind) {
    for style in STYLES {
        let clock = ManualClock::new();
        let timer = kind.on(&clock);
        let limited = pin!(timer.with_timeout(std::future::pending::<()>(), ms(50)));
        hand_over(style, limited, || clock.advance(ms(50))).unwrap_err();
        assert_counts_add_up(&timer);
    }
}

fn a_poll_clones_an_odd_waker_once_at_most(kind: Kind) {
    for style in STYLES {
        let timer = kind.on(&ManualClock::new());
        let task = Task::new();
        let mut sleep = pin!(timer.sleep(ms(50)));
        for polls in 1..=100 {
            assert!(poll_as(style, task, sleep.as_mut()).is_pending());
            let by_executor = if matches!(style, Style::NeverEqual) {
                polls
            } else {
                0
            };
            assert!(task.cloned() <= polls + by_executor, "{style:?}");
            assert_eq!(task.alive(), 1, "{style:?}");
        }
        assert_eq!(timer.stats().scheduled, 1);
    }
}

fn a_future_that_is_polled_without_rest_comes_to_its_end(kind: Kind) {
    for style in STYLES {
        let timer = kind.real(ms(1));
        let task = Task::new();
        let mut sleep = pin!(timer.sleep(ms(5)));
        let start = Instant::now();
        while poll_as(style, task, sleep.as_mut()).is_pending() {
            assert!(start.elapsed() < WATCHDOG, "{style:?}: never ready");
        }
        assert!(start.elapsed() >= ms(5));
        // The future sees the end of its timeout before the timer's thread has counted it.
        eventually("it is counted", || timer.pending_timeouts() == 0);
        assert_counts_add_up(&timer);
    }
}

/// As in an executor with one task, whose wakers say nothing.
fn wakers_that_are_all_equal_are_not_replaced(kind: Kind) {
    static WOKEN: AtomicUsize = AtomicUsize::new(0);
    static EQUAL: RawWakerVTable = RawWakerVTable::new(
        |_| RawWaker::new(ptr::null(), &EQUAL),
        |_| {
            WOKEN.fetch_add(1, Ordering::SeqCst);
        },
        |_| {
            WOKEN.fetch_add(1, Ordering::SeqCst);
        },
        |_| (),
    );
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let mut sleep = pin!(timer.sleep(ms(50)));
    // SAFETY: the functions keep to the contract; there is no data.
    let waker = || unsafe { Waker::from_raw(RawWaker::new(ptr::null(), &EQUAL)) };
    for _ in 0..10 {
        assert!(poll_with(sleep.as_mut(), &waker()).is_pending());
    }
    assert_eq!(timer.stats().queued, 1, "one entry, made by the first poll");
    let before = WOKEN.load(Ordering::SeqCst);
    clock.advance(ms(50));
    assert!(WOKEN.load(Ordering::SeqCst) > before);
    assert!(poll_with(sleep, &waker()).is_ready());
}

/// Does something with a future when woken.
struct Meddler {
    sleep: Mutex<Option<Pin<Box<Sleep>>>>,
    meddle: fn(&mut Option<Pin<Box<Sleep>>>, &Waker),
    woken: AtomicUsize,
}

impl Wake for Meddler {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self));
        (self.meddle)(&mut self.sleep.lock().unwrap(), &waker);
    }
}

impl Meddler {
    /// One that holds a pending sleep of 50 ms, polled with its own waker.
    fn of(sleep: Sleep, meddle: fn(&mut Option<Pin<Box<Sleep>>>, &Waker)) -> Arc<Meddler> {
        let meddler = Arc::new(Meddler {
            sleep: Mutex::new(Some(Box::pin(sleep))),
            meddle,
            woken: AtomicUsize::new(0),
        });
        assert!(meddler.poll().is_pending());
        meddler
    }

    fn poll(self: &Arc<Self>) -> Poll<Result<(), RejectReason>> {
        let waker = Waker::from(Arc::clone(self));
        let mut sleep = self.sleep.lock().unwrap();
        sleep
            .as_mut()
            .unwrap()
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
    }

    fn woken(&self) -> usize {
        self.woken.load(Ordering::SeqCst)
    }
}

fn a_waker_may_poll_its_future(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let fired = Meddler::of(timer.sleep(ms(50)), |sleep, waker| {
        let told = poll_with(sleep.as_mut().unwrap().as_mut(), waker);
        assert!(matches!(told, Poll::Ready(Ok(()))), "{told:?}");
    });
    clock.advance(ms(50));
    assert_eq!((fired.woken(), timer.stats().panicked), (1, 0));
    let stopped = Meddler::of(timer.sleep(FAR), |sleep, waker| {
        let told = poll_with(sleep.as_mut().unwrap().as_mut(), waker);
        assert!(
            matches!(told, Poll::Ready(Err(RejectReason::Stopped))),
            "{told:?}"
        );
    });
    timer.stop().unwrap();
    assert_eq!((stopped.woken(), timer.stats().panicked), (1, 0));
    assert_counts_add_up(&timer);
}

fn a_waker_may_drop_its_future(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let fired = Meddler::of(timer.sleep(ms(50)), |sleep, _| *sleep = None);
    clock.advance(ms(50));
    let stopped = Meddler::of(timer.sleep(FAR), |sleep, _| *sleep = None);
    timer.stop().unwrap();
    for meddler in [fired, stopped] {
        assert_eq!(meddler.woken(), 1);
        assert_eq!(Arc::strong_count(&meddler), 1, "no waker is left");
        assert!(meddler.sleep.lock().unwrap().is_none());
    }
    assert_eq!((timer.stats().panicked, timer.pending_timeouts()), (0, 0));
    assert_counts_add_up(&timer);
}

fn a_waker_may_reset_its_future(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let meddler = Meddler::of(timer.sleep(ms(50)), |sleep, waker| {
        let mut sleep = sleep.as_mut().unwrap().as_mut();
        sleep.reset(ms(50));
        assert!(poll_with(sleep, waker).is_pending());
    });
    for round in 1..=5 {
        clock.advance(ms(50));
        assert_eq!((meddler.woken(), timer.stats().panicked), (round, 0));
    }
    assert!(meddler.poll().is_pending());
    assert_eq!(timer.pending_timeouts(), 1);
    *meddler.sleep.lock().unwrap() = None;
    assert!(poll_once(pin!(timer.sleep(ms(1)))).is_pending());
    assert_counts_add_up(&timer);
}
