//! `nexus-timer`'s `Wheel` behind a mutex, with a thread and a condition variable.
//!
//! The wheel is made for one thread. Best use for many: `parking_lot`'s mutex, held for the one
//! operation only, the deadline made before it is taken; the task lies in the wheel, without a box; the
//! worker sleeps until the wheel's next deadline and is notified only if the new one is earlier; it
//! takes all that is due under one lock, rebalancing as it goes, and runs it after letting go.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_timer::{TimerHandle, Wheel, WheelBuilder};
use parking_lot::{Condvar, Mutex};

use super::{Contestant, Producer, Task, Timer};

pub(crate) struct Nexus;

impl Contestant for Nexus {
    type Timer<T: Task> = Shared<T>;
    const RESETS: bool = true;
}

struct State<T: 'static> {
    wheel: Wheel<T>,
    /// When the worker wakes up by itself; `None` while it is awake.
    wakes: Option<Instant>,
}

struct Inner<T: 'static> {
    state: Mutex<State<T>>,
    earlier: Condvar,
}

pub(crate) struct Shared<T: 'static>(Arc<Inner<T>>);

/// Entries of one chunk of the wheel's slab.
const CHUNK: usize = 4096;

/// When a worker without work looks again.
const FAR: Duration = Duration::from_hours(1);

impl<T: Task> Timer<T> for Shared<T> {
    type Producer<'a> = &'a Self;

    fn new(tick: Duration, _slots: usize) -> Self {
        let wheel = WheelBuilder::new()
            .tick_duration(tick)
            .unbounded(CHUNK)
            .build(Instant::now())
            .expect("valid measures");
        let inner = Arc::new(Inner {
            state: Mutex::new(State { wheel, wakes: None }),
            earlier: Condvar::new(),
        });
        let worker = Arc::clone(&inner);
        std::thread::Builder::new()
            .name("nexus-timer".to_owned())
            .spawn(move || run_due(&worker))
            .expect("a timer thread");
        Self(inner)
    }

    fn producer(&self) -> &Self {
        self
    }
}

fn run_due<T: Task>(inner: &Inner<T>) {
    let mut due = Vec::new();
    loop {
        let mut state = inner.state.lock();
        let now = Instant::now();
        state.wheel.poll_and_rebalance(now, &mut due);
        if due.is_empty() {
            let wakes = state.wheel.next_deadline().unwrap_or(now + FAR);
            state.wakes = Some(wakes);
            inner.earlier.wait_until(&mut state, wakes);
            state.wakes = None;
        } else {
            drop(state);
            due.drain(..).for_each(Task::run);
        }
    }
}

impl<T> State<T> {
    /// Whether the worker must be told of this deadline. It is told once.
    #[inline]
    fn is_news(&mut self, deadline: Instant) -> bool {
        let news = self.wakes.is_some_and(|wakes| deadline < wakes);
        if news {
            self.wakes = None;
        }
        news
    }
}

impl<T: Task> Producer<T> for &Shared<T> {
    /// Dropped without a call it would only leave its slot in use after it has fired.
    type Handle = ManuallyDrop<TimerHandle<T>>;

    #[inline]
    fn arm(&mut self, task: T, delay: Duration) -> Self::Handle {
        let deadline = Instant::now() + delay;
        let mut state = self.0.state.lock();
        let handle = state.wheel.schedule(deadline, task);
        let news = state.is_news(deadline);
        drop(state);
        if news {
            self.0.earlier.notify_one();
        }
        ManuallyDrop::new(handle)
    }

    #[inline]
    fn cancel(&mut self, handle: Self::Handle) {
        let handle = ManuallyDrop::into_inner(handle);
        let removed = self.0.state.lock().wheel.cancel(handle);
        drop(removed);
    }

    #[inline]
    fn reset(&mut self, handle: &mut Self::Handle, delay: Duration) {
        let deadline = Instant::now() + delay;
        // SAFETY: the handle that is taken out is replaced by the one that comes back; a panic in
        // between ends the run.
        let taken = unsafe { ManuallyDrop::take(handle) };
        let mut state = self.0.state.lock();
        *handle = ManuallyDrop::new(state.wheel.reschedule(taken, deadline));
        let news = state.is_news(deadline);
        drop(state);
        if news {
            self.0.earlier.notify_one();
        }
    }
}
