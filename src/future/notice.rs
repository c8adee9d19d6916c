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

    /// A waker that does something while it is cloned, and counts clones, wake-ups and drops.
    #[derive(Default)]
    struct Probe {
        on_clone: Mutex<Option<Box<dyn FnOnce() + Send>>>,
        clones: AtomicUsize,
        woken: AtomicUsize,
        dropped: AtomicUsize,
    }

    impl Probe {
        const VTABLE: RawWakerVTable = RawWakerVTable::new(
            |data| {
                let probe = Self::of(data);
                let action = probe.on_clone.lock().take();
                if let Some(action) = action {
                    action();
                }
                probe.clones.fetch_add(1, Ordering::Relaxed);
                RawWaker::new(data, &Self::VTABLE)
            },
            |data| {
                Self::of(data).woken.fetch_add(1, Ordering::Relaxed);
                Self::of(data).dropped.fetch_add(1, Ordering::Relaxed);
            },
            |_| unreachable!("wakers are consumed"),
            |data| {
                Self::of(data).dropped.fetch_add(1, Ordering::Relaxed);
            },
        );

        fn of(data: *const ()) -> &'static Probe {
            // SAFETY: every waker is made by `waker`, from a leaked `Probe`.
            unsafe { &*data.cast::<Probe>() }
        }

        /// Leaked: a waker may be anywhere.
        fn new() -> &'static Probe {
            Box::leak(Box::default())
        }

        fn waker(&'static self) -> Waker {
            let data = std::ptr::from_ref(self).cast();
            // SAFETY: the table keeps to the contract: its functions may be called from any thread,
            // and the data lives for ever.
            unsafe { Waker::from_raw(RawWaker::new(data, &Self::VTABLE)) }
        }

        fn counts(&self) -> [usize; 3] {
            [&self.clones, &self.woken, &self.dropped].map(|count| count.load(Ordering::Relaxed))
        }
    }

    fn fire(sender: Sender) {
        wake(end(&sender.0, End::Fired));
    }

    #[test]
    fn what_fires_while_the_new_waker_is_cloned_is_seen_by_that_poll() {
        let (first, second) = (Probe::new(), Probe::new());
        let (notice, sender) = notice(&first.waker());
        *second.on_clone.lock() = Some(Box::new(move || fire(sender)));
        let waker = second.waker();
        assert_eq!(notice.poll(&waker), Poll::Ready(End::Fired));
        drop(waker);
        // The first was woken, for nothing; the second need not be, and its clone is gone.
        assert_eq!(first.counts(), [1, 1, 2]);
        assert_eq!(second.counts(), [1, 0, 2]);
    }

    #[test]
    fn the_last_waker_is_woken_once_and_all_are_dropped() {
        let probes: Vec<_> = (0..3).map(|_| Probe::new()).collect();
        let (notice, sender) = notice(&probes[0].waker());
        for probe in &probes {
            for _ in 0..2 {
                assert_eq!(notice.poll(&probe.waker()), Poll::Pending);
            }
        }
        fire(sender);
        assert_eq!(notice.poll(Waker::noop()), Poll::Ready(End::Fired));
        let woken: Vec<_> = probes.iter().map(|probe| probe.counts()[1]).collect();
        assert_eq!(woken, [0, 0, 1]);
        for probe in probes {
            let [clones, _, dropped] = probe.counts();
            // Two polls, and for the first one more waker to begin with; and the clones.
            let made = if clones == 1 { dropped - clones } else { 0 };
            assert!((2..=3).contains(&made), "{:?}", probe.counts());
        }
    }

    /// Every order of polls, the end and the close, as far as one can follow another.
    #[test]
    fn in_every_order_the_first_end_wins_and_nobody_waits_for_ever() {
        #[derive(Clone, Copy, PartialEq)]
        enum Step {
            Poll(usize),
            Fire,
            Stop,
            Close,
        }
        let steps = [
            Step::Poll(0),
            Step::Poll(1),
            Step::Fire,
            Step::Stop,
            Step::Close,
        ];
        for order in 0..steps.len().pow(4) {
            let probes = [Probe::new(), Probe::new()];
            let (notice, sender) = notice(&probes[0].waker());
            let (mut sender, mut over, mut last) = (Some(sender), None, 0);
            for place in 0..4 {
                match steps[order / steps.len().pow(place) % steps.len()] {
                    Step::Poll(who) => {
                        let told = notice.poll(&probes[who].waker());
                        assert_eq!(told, over.map_or(Poll::Pending, Poll::Ready));
                        if over.is_none() {
                            last = who;
                        }
                    }
                    step => {
                        match step {
                            Step::Fire => sender.take().map_or((), fire),
                            Step::Stop => drop(sender.take()),
                            _ => notice.close(),
                        }
                        let ended = sender.is_none() || step == Step::Close;
                        if ended && over.is_none() {
                            let by = [(Step::Fire, End::Fired)];
                            let by = by.iter().find(|(end, _)| *end == step);
                            over = Some(by.map_or(End::Stopped, |(_, end)| *end));
                            let woken = probes.map(|probe| probe.counts()[1]);
                            let mut expected = [0, 0];
                            expected[last] = usize::from(step != Step::Close);
                            assert_eq!(woken, expected);
                        }
                    }
                }
            }
        }
    }
}
