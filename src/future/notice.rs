//! What a future and its timeout share: whether it is over, and whom to wake.

use crate::Timeout;
use crate::sync::Mutex;
use std::mem;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// How a timeout ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It was due.
    Fired,
    /// Its timer stopped.
    Stopped,
}

#[derive(Debug)]
enum State {
    /// The last waker that it was polled with.
    Waiting(Waker),
    Over(End),
}

/// The future's side.
#[derive(Debug)]
pub(crate) struct Notice(Arc<Mutex<State>>);

/// The timeout's side. Dropped without having fired, it says that the timer stopped.
#[derive(Debug)]
pub(crate) struct Sender(Arc<Mutex<State>>);

/// A pair of the two. `waker` is woken when the timeout ends.
pub(crate) fn notice(waker: &Waker) -> (Notice, Sender) {
    let shared = Arc::new(Mutex::new(State::Waiting(waker.clone())));
    (Notice(Arc::clone(&shared)), Sender(shared))
}

impl Notice {
    /// Whether it is over; if not, `waker` is the one to be woken from now on.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<End> {
        // Wakers are foreign code: they are cloned, dropped and woken without the lock.
        let mut new = None;
        loop {
            let mut state = self.0.lock();
            match &mut *state {
                State::Over(end) => return Poll::Ready(*end),
                State::Waiting(old) if old.will_wake(waker) => return Poll::Pending,
                State::Waiting(old) => {
                    if let Some(new) = new.take() {
                        let old = mem::replace(old, new);
                        drop(state);
                        drop(old);
                        return Poll::Pending;
                    }
                }
            }
            drop(state);
            new = Some(waker.clone());
        }
    }

    /// The future does not want to be woken any more.
    pub(crate) fn close(&self) {
        drop(end(&self.0, End::Stopped));
    }
}

impl Sender {
    /// The task of the timeout.
    pub(crate) fn fire(self, _: &Timeout) {
        wake(end(&self.0, End::Fired));
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        wake(end(&self.0, End::Stopped));
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Ends it, the first time; the waker that waited.
fn end(shared: &Mutex<State>, how: End) -> Option<Waker> {
    let mut state = shared.lock();
    match &*state {
        State::Over(_) => None,
        State::Waiting(_) => match mem::replace(&mut *state, State::Over(how)) {
            State::Waiting(waker) => Some(waker),
            State::Over(_) => None,
        },
    }
}

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{RawWaker, RawWakerVTable};

    /// A waker that does something while it is cloned, counts its wake-ups and how many of it there are.
    #[derive(Default)]
    struct Probe {
        on_clone: Mutex<Option<Box<dyn FnOnce() + Send>>>,
        woken: AtomicUsize,
        alive: AtomicUsize,
    }

    static VTABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            let action = Probe::of(data).on_clone.lock().take();
            if let Some(action) = action {
                action();
            }
            Probe::of(data).raw()
        },
        |data| {
            Probe::of(data).woken.fetch_add(1, Ordering::Relaxed);
            Probe::of(data).alive.fetch_sub(1, Ordering::Relaxed);
        },
        |_| unreachable!("wakers are consumed"),
        |data| {
            Probe::of(data).alive.fetch_sub(1, Ordering::Relaxed);
        },
    );

    impl Probe {
        /// Leaked: a waker may be anywhere.
        fn new() -> &'static Probe {
            Box::leak(Box::default())
        }

        fn of(data: *const ()) -> &'static Probe {
            // SAFETY: the data of every waker with this table is a leaked `Probe`.
            unsafe { &*data.cast::<Probe>() }
        }

        fn raw(&'static self) -> RawWaker {
            self.alive.fetch_add(1, Ordering::Relaxed);
            RawWaker::new(std::ptr::from_ref(self).cast(), &VTABLE)
        }

        fn waker(&'static self) -> Waker {
            // SAFETY: the functions of the table may be called from any thread, and clone, wake and
            // drop as their contract says; the data lives for ever.
            unsafe { Waker::from_raw(self.raw()) }
        }

        fn woken(&self) -> usize {
            self.woken.load(Ordering::Relaxed)
        }

        fn alive(&self) -> usize {
            self.alive.load(Ordering::Relaxed)
        }
    }

    fn fire(sender: &Sender) {
        wake(end(&sender.0, End::Fired));
    }

    #[test]
    fn what_fires_while_the_new_waker_is_cloned_is_seen_by_that_poll() {
        let (first, second) = (Probe::new(), Probe::new());
        let (notice, sender) = notice(&first.waker());
        *second.on_clone.lock() = Some(Box::new(move || fire(&sender)));
        assert_eq!(notice.poll(&second.waker()), Poll::Ready(End::Fired));
        assert_eq!((first.woken(), second.woken()), (1, 0));
        assert_eq!((first.alive(), second.alive()), (0, 0));
    }

    #[test]
    fn the_same_waker_is_not_cloned_again() {
        let probe = Probe::new();
        let (notice, _sender) = notice(&probe.waker());
        *probe.on_clone.lock() = Some(Box::new(|| panic!("cloned")));
        assert_eq!(notice.poll(&probe.waker()), Poll::Pending);
        assert_eq!(probe.alive(), 1);
    }

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Poll(usize),
        Fire,
        Stop,
        Close,
    }

    const STEPS: [Step; 5] = [
        Step::Poll(0),
        Step::Poll(1),
        Step::Fire,
        Step::Stop,
        Step::Close,
    ];

    /// All runs of five steps against a model: the first end counts, and wakes the last waker.
    #[test]
    fn in_any_order_the_first_end_counts_and_wakes_the_last_waker() {
        for run in 0..STEPS.len().pow(5) {
            let steps = (0..5).map(|place| STEPS[run / STEPS.len().pow(place) % STEPS.len()]);
            let steps: Vec<Step> = steps.collect();
            let probes = [Probe::new(), Probe::new()];
            let (notice, sender) = notice(&probes[0].waker());
            let mut sender = Some(sender);
            let (mut over, mut last, mut woken) = (None, 0, [0, 0]);
            for &step in &steps {
                // Whether it can be an end, and whether that wakes.
                let end = match step {
                    Step::Poll(who) => {
                        let told = notice.poll(&probes[who].waker());
                        assert_eq!(told, over.map_or(Poll::Pending, Poll::Ready), "{steps:?}");
                        last = who;
                        None
                    }
                    Step::Fire => sender.take().map(|sender| {
                        fire(&sender);
                        (End::Fired, 1)
                    }),
                    Step::Stop => sender.take().map(|_| (End::Stopped, 1)),
                    Step::Close => {
                        notice.close();
                        Some((End::Stopped, 0))
                    }
                };
                if let (None, Some((end, wakes))) = (over, end) {
                    over = Some(end);
                    woken[last] += wakes;
                }
                assert_eq!(probes.map(Probe::woken), woken, "{steps:?}");
            }
            drop((notice, sender));
            assert_eq!(probes.map(Probe::alive), [0, 0], "{steps:?}");
        }
    }
}
