//! Which waker a future wakes, and when it lets go of it: in every order, and in races.

mod common;

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::task::{Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread;
use std::time::Duration;

use common::poll::{poll_once, poll_with};
use common::{FAR, Kind, assert_counts_add_up, for_ever, in_thread, ms, on_both_timers, recv};
use hashed_wheel::{ManualClock, RejectReason, Sleep};

on_both_timers![
    what_fires_while_the_new_waker_is_cloned_is_seen_by_that_poll,
    a_stop_while_the_new_waker_is_cloned_is_seen_by_that_poll,
    the_same_waker_is_not_cloned_again,
    in_any_order_the_first_end_counts_and_wakes_the_last_waker,
    another_waker_is_not_another_timeout,
    a_full_limit_does_not_hinder_another_waker,
    a_new_waker_at_the_last_moment_is_woken,
    a_stop_wakes_the_last_waker_or_is_seen,
];

/// A waker that does something while it is cloned, counts its wake-ups and how many of it there are.
#[derive(Default)]
struct Probe {
    on_clone: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    woken: AtomicUsize,
    alive: AtomicUsize,
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(
    |data| {
        let action = Probe::of(data).on_clone.lock().unwrap().take();
        if let Some(action) = action {
            action();
        }
        Probe::of(data).raw()
    },
    |data| {
        Probe::of(data).woken.fetch_add(1, Ordering::SeqCst);
        Probe::of(data).alive.fetch_sub(1, Ordering::SeqCst);
    },
    |_| unreachable!("wakers are consumed"),
    |data| {
        Probe::of(data).alive.fetch_sub(1, Ordering::SeqCst);
    },
);

impl Probe {
    /// For ever: a waker may be anywhere.
    fn new() -> &'static Probe {
        for_ever(Probe::default())
    }

    fn of(data: *const ()) -> &'static Probe {
        // SAFETY: the data of every waker with this table is a `Probe` that lives for ever.
        unsafe { &*data.cast::<Probe>() }
    }

    fn raw(&'static self) -> RawWaker {
        self.alive.fetch_add(1, Ordering::SeqCst);
        RawWaker::new(std::ptr::from_ref(self).cast(), &VTABLE)
    }

    fn waker(&'static self) -> Waker {
        // SAFETY: the functions of the table may be called from any thread, and clone, wake and drop
        // as their contract says; the data lives for ever.
        unsafe { Waker::from_raw(self.raw()) }
    }

    fn when_cloned(&self, action: impl FnOnce() + Send + 'static) {
        *self.on_clone.lock().unwrap() = Some(Box::new(action));
    }

    fn woken(&self) -> usize {
        self.woken.load(Ordering::SeqCst)
    }

    fn alive(&self) -> usize {
        self.alive.load(Ordering::SeqCst)
    }
}

fn what_fires_while_the_new_waker_is_cloned_is_seen_by_that_poll(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let (first, second) = (Probe::new(), Probe::new());
    let mut sleep = pin!(timer.sleep(ms(10)));
    assert!(poll_with(sleep.as_mut(), &first.waker()).is_pending());
    second.when_cloned(move || clock.advance(ms(10)));
    let told = poll_with(sleep, &second.waker());
    assert!(matches!(told, Poll::Ready(Ok(()))), "{told:?}");
    assert_eq!((first.woken(), second.woken()), (1, 0));
    assert_eq!((first.alive(), second.alive()), (0, 0));
    assert_counts_add_up(&timer);
}

fn a_stop_while_the_new_waker_is_cloned_is_seen_by_that_poll(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    let (first, second) = (Probe::new(), Probe::new());
    let mut sleep = pin!(timer.sleep(ms(10)));
    assert!(poll_with(sleep.as_mut(), &first.waker()).is_pending());
    let handle = timer.handle();
    second.when_cloned(move || assert!(handle.stop().unwrap().is_empty()));
    let told = poll_with(sleep, &second.waker());
    assert!(
        matches!(told, Poll::Ready(Err(RejectReason::Stopped))),
        "{told:?}"
    );
    assert_eq!((first.woken(), second.woken()), (1, 0));
    assert_eq!((first.alive(), second.alive()), (0, 0));
    assert_counts_add_up(&timer);
}

fn the_same_waker_is_not_cloned_again(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    let probe = Probe::new();
    let mut sleep = pin!(timer.sleep(ms(10)));
    assert!(poll_with(sleep.as_mut(), &probe.waker()).is_pending());
    probe.when_cloned(|| panic!("cloned"));
    assert!(poll_with(sleep.as_mut(), &probe.waker()).is_pending());
    assert_eq!(probe.alive(), 1);
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Poll(usize),
    Fire,
    Stop,
    Later,
}

const STEPS: [Step; 5] = [
    Step::Poll(0),
    Step::Poll(1),
    Step::Fire,
    Step::Stop,
    Step::Later,
];

/// All runs of five steps against a model.
fn in_any_order_the_first_end_counts_and_wakes_the_last_waker(kind: Kind) {
    for run in 0..STEPS.len().pow(5) {
        let steps = (0..5).map(|place| STEPS[run / STEPS.len().pow(place) % STEPS.len()]);
        let steps: Vec<Step> = steps.collect();
        let clock = ManualClock::new();
        let timer = kind.on(&clock);
        let probes = [Probe::new(), Probe::new()];
        let mut sleep = Box::pin(timer.sleep(ms(50)));
        assert!(poll_with(sleep.as_mut(), &probes[0].waker()).is_pending());
        let (mut over, mut last, mut woken) = (None, 0, [0, 0]);
        for &step in &steps {
            let ends = match step {
                Step::Poll(who) => {
                    let told = poll_with(sleep.as_mut(), &probes[who].waker());
                    let told = told.map(|slept| slept.is_ok());
                    assert_eq!(told, over.map_or(Poll::Pending, Poll::Ready), "{steps:?}");
                    last = who;
                    None
                }
                Step::Fire => {
                    clock.advance(ms(100));
                    Some(true)
                }
                Step::Stop => {
                    timer.stop().unwrap();
                    Some(false)
                }
                // In place; only while it waits, or it would begin anew.
                Step::Later if over.is_none() => {
                    sleep.reset(ms(60));
                    None
                }
                Step::Later => None,
            };
            if over.is_none() && ends.is_some() {
                over = ends;
                woken[last] += 1;
            }
            assert_eq!(probes.map(Probe::woken), woken, "{steps:?}");
        }
        drop(sleep);
        assert_eq!(probes.map(Probe::alive), [0, 0], "{steps:?}");
        assert_eq!(probes.map(Probe::woken), woken, "dropped: {steps:?}");
        assert_counts_add_up(&timer);
    }
}

fn another_waker_is_not_another_timeout(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let mut sleep = pin!(timer.sleep(ms(1000)));
    let probes: Vec<_> = (0..10_000).map(|_| Probe::new()).collect();
    for probe in &probes {
        assert!(poll_with(sleep.as_mut(), &probe.waker()).is_pending());
    }
    let stats = timer.stats();
    assert_eq!((stats.scheduled, stats.pending, stats.cancelled), (1, 1, 0));
    clock.advance(ms(990));
    assert_eq!(probes.iter().map(|probe| probe.woken()).sum::<usize>(), 0);
    clock.advance(ms(10));
    assert_eq!(probes.last().unwrap().woken(), 1);
    assert_eq!(probes.iter().map(|probe| probe.woken()).sum::<usize>(), 1);
    assert_eq!(probes.iter().map(|probe| probe.alive()).sum::<usize>(), 0);
    assert!(poll_once(sleep).is_ready());
    let stats = timer.stats();
    assert_eq!((stats.expired, stats.filed, stats.dead), (1, 0, 0));
}

fn a_full_limit_does_not_hinder_another_waker(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.builder().max_pending(1).clock(&clock).build();
    let mut sleep = pin!(timer.sleep(ms(10)));
    for _ in 0..3 {
        let probe = Probe::new();
        assert!(poll_with(sleep.as_mut(), &probe.waker()).is_pending());
        assert!(timer.new_timeout(|_| {}, FAR).is_err());
    }
    clock.advance(ms(10));
    assert!(matches!(poll_once(sleep), Poll::Ready(Ok(()))));
    timer.new_timeout(|_| {}, FAR).unwrap();
}

/// Tells a channel that it was woken.
struct Bell(Mutex<mpsc::Sender<()>>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let _ = self.0.lock().unwrap().send(());
    }
}

/// Polls with a waker of its own; if pending, what says that this very waker was woken.
fn poll_with_a_bell(sleep: Pin<&mut Sleep>) -> Result<Result<(), RejectReason>, Receiver<()>> {
    let (bell, rings) = mpsc::channel();
    let waker = Waker::from(Arc::new(Bell(Mutex::new(bell))));
    match poll_with(sleep, &waker) {
        Poll::Ready(slept) => Ok(slept),
        Poll::Pending => Err(rings),
    }
}

fn a_new_waker_at_the_last_moment_is_woken(kind: Kind) {
    let timer = kind.real(ms(1));
    for round in 0..200 {
        let mut sleep = pin!(timer.sleep(ms(1)));
        assert!(poll_once(sleep.as_mut()).is_pending());
        // About when it fires.
        thread::sleep(Duration::from_micros(500 + 10 * round));
        match poll_with_a_bell(sleep.as_mut()) {
            Ok(slept) => slept.unwrap(),
            Err(rings) => {
                recv(&rings);
                assert!(matches!(poll_once(sleep), Poll::Ready(Ok(()))));
            }
        }
    }
    assert_counts_add_up(&timer);
}

fn a_stop_wakes_the_last_waker_or_is_seen(kind: Kind) {
    for _ in 0..100 {
        let timer = kind.real(ms(1));
        let mut sleep = pin!(timer.sleep(FAR));
        assert!(poll_once(sleep.as_mut()).is_pending());
        let handle = timer.handle();
        let stopped = in_thread(move || handle.stop().unwrap().len());
        let slept = loop {
            match poll_with_a_bell(sleep.as_mut()) {
                Ok(slept) => break slept,
                // It rings when it is stopped, or it is replaced.
                Err(rings) => match rings.recv_timeout(Duration::from_micros(30)) {
                    Ok(()) | Err(mpsc::RecvTimeoutError::Timeout) => {}
                    Err(mpsc::RecvTimeoutError::Disconnected) => {
                        panic!("the waker was dropped, and nobody was woken")
                    }
                },
            }
        };
        assert!(matches!(slept, Err(RejectReason::Stopped)));
        assert_eq!(recv(&stopped), 0, "futures are not returned");
        assert_eq!(timer.stats().unprocessed, 1);
        assert_counts_add_up(&timer);
    }
}
