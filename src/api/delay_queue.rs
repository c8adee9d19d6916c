//! A queue of values that come out when they are due.
//!
//! A value lies in a slot of the timer, beside a reference to its queue's [`Core`]. `insert`, `remove` and `reset` are what
//! scheduling, cancelling and resetting a timeout are; the slot's word decides whether `remove` or the timer gets a value.
//! The timer thread moves it to `due`, from which consumers take it.

use super::handle::rejected;
use crate::catch_panic::{catch_panic, keep_panic};
use crate::error::Rejected;
use crate::shared::{Ticket, Timeout, TimerHandle, Waiters, When};
use crate::slots::{Kind, Receive, StoredTask};
use crate::sync::{Ordering, SegQueue, fence, thread};
use std::fmt;
use std::future;
use std::iter;
use std::panic::resume_unwind;
#[cfg(feature = "stream")]
use std::pin::Pin;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// A queue of values that come out when they are due: many producers, many consumers, on threads or under any executor.
///
/// A clone is the same queue. It does not keep the timer running. The timer thread moves a value to the consumers' side
/// when it is due, those of an earlier tick first; each value goes to one consumer, or to the caller that
/// [removes](Self::remove) it before. An [executor](crate::HashedWheelTimerBuilder::executor) is not used for it, and
/// [`cancel_all`](TimerHandle::cancel_all) leaves values alone. A value counts as a pending timeout while it is not due.
///
/// When the timer has stopped, [`recv`](Self::recv) and [`next`](Self::next) return `None`, and [`remove`](Self::remove) and
/// [`clear`](Self::clear) still give back the values that were not due. Dropping the last clone drops all values.
///
/// ```
/// use hashed_wheel::{DelayQueue, HashedWheelTimer, ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
/// let mails = DelayQueue::new(&timer);
/// mails.insert("remind Ann", Duration::from_secs(60))?;
/// let bob = mails.insert("remind Bob", Duration::from_secs(30))?;
/// mails.insert("remind Cid", Duration::from_secs(10))?;
///
/// assert_eq!(mails.remove(&bob), Some("remind Bob")); // he has answered
/// assert_eq!(mails.try_recv(), None);
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(mails.recv(), Some("remind Cid"));
/// assert_eq!(mails.recv(), Some("remind Ann"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DelayQueue<T: Send + 'static> {
    owner: Arc<Owner<T>>,
}

/// Held by all clones of a queue.
struct Owner<T: Send + 'static> {
    core: Arc<Core<T>>,
}

/// Held by the owner and by each value that is not due.
struct Core<T> {
    /// Unique in the process.
    number: u64,
    timer: TimerHandle,
    due: SegQueue<T>,
    waiters: Arc<Waiters>,
}

/// The key of a value in a [`DelayQueue`]: for [`remove`](DelayQueue::remove) and [`reset`](DelayQueue::reset).
///
/// Dropping it leaves the value in the queue.
///
/// ```
/// use hashed_wheel::{DelayKey, DelayQueue, HashedWheelTimer};
/// use std::collections::HashMap;
/// use std::time::Duration;
///
/// let timer = HashedWheelTimer::default();
/// let sessions = DelayQueue::new(&timer);
/// let mut keys: HashMap<u32, DelayKey> = HashMap::new();
/// keys.insert(17, sessions.insert(17, Duration::from_secs(1800))?);
/// assert!(sessions.reset(&keys[&17], Duration::from_secs(1800))); // the user has clicked
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DelayKey {
    timeout: Timeout,
    /// The number of its queue.
    queue: u64,
}

impl<T: Send + 'static> DelayQueue<T> {
    /// An empty queue on that timer.
    ///
    /// ```
    /// use hashed_wheel::{DelayQueue, global};
    ///
    /// let queue: DelayQueue<String> = DelayQueue::new(global());
    /// assert!(queue.is_empty());
    /// ```
    pub fn new(timer: &TimerHandle) -> Self {
        static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);
        let core = Core {
            // Relaxed: only distinctness matters.
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            timer: timer.clone(),
            due: SegQueue::new(),
            waiters: Arc::default(),
        };
        let waiters = Arc::downgrade(&core.waiters);
        timer.shared().add_queue(waiters);
        let core = Arc::new(core);
        DelayQueue {
            owner: Arc::new(Owner { core }),
        }
    }

    fn core(&self) -> &Arc<Core<T>> {
        &self.owner.core
    }

    /// Inserts a value that is due `delay` from now, at the first tick at or after that time. Takes no lock.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::builder().max_pending_timeouts(1).build()?;
    /// let queue = DelayQueue::new(&timer);
    /// queue.insert("first", Duration::from_secs(5))?;
    /// let rejected = queue.insert("second", Duration::from_secs(5)).unwrap_err();
    /// assert_eq!(rejected.task, "second"); // the value comes back
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Rejected`], with the value in its field `task`, as for [`new_timeout`](TimerHandle::new_timeout).
    ///
    /// # Panics
    /// As for `new_timeout`.
    #[inline]
    pub fn insert(&self, value: T, delay: Duration) -> Result<DelayKey, Rejected<T>> {
        self.insert_when(value, When::after(delay))
    }

    /// Inserts a value that is due at a moment. Reads no clock. A moment that has passed counts as a zero delay.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
    /// let queue = DelayQueue::new(&timer);
    /// queue.insert_at("noon", timer.now() + Duration::from_secs(3600))?;
    /// clock.advance(Duration::from_secs(3600));
    /// assert_eq!(queue.try_recv(), Some("noon"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    ///
    /// # Panics
    /// As for `insert`.
    pub fn insert_at(&self, value: T, deadline: Instant) -> Result<DelayKey, Rejected<T>> {
        let time = self.core().timer.shared().clock().time_of(deadline);
        self.insert_when(value, When::At(time))
    }

    #[inline]
    fn insert_when(&self, value: T, when: When) -> Result<DelayKey, Rejected<T>> {
        let (core, queue) = (self.core(), self.core().number);
        let timeout = core.timer.shared().schedule(
            value,
            Kind::Value,
            core.timer.label(),
            |value| StoredTask::value(value, Arc::clone(core)),
            when,
        );
        timeout
            .map(|timeout| DelayKey { timeout, queue })
            // SAFETY: what was stored, a few lines above, was a `T` for a `Core<T>`.
            .map_err(|refused| rejected(refused, |stored| unsafe { into_value(stored) }))
    }

    /// Takes a value out that is not due yet. `None` if it is due, was removed before, or the key is of another queue.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
    /// let queue = DelayQueue::new(&timer);
    /// let key = queue.insert("retry", Duration::from_secs(5))?;
    /// assert_eq!(queue.remove(&key), Some("retry"));
    /// assert_eq!(queue.remove(&key), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn remove(&self, key: &DelayKey) -> Option<T> {
        let value = self.own(key)?.take_value()?;
        // SAFETY: the key is of this queue, whose number no other has.
        Some(unsafe { into_value(value) })
    }

    /// The timeout of a key, if the key is of this queue.
    fn own<'a>(&self, key: &'a DelayKey) -> Option<&'a Timeout> {
        (key.queue == self.core().number).then_some(&key.timeout)
    }

    /// Moves a value that is not due yet: it is due `delay` from now. Returns `false`, without effect, if it is due, was
    /// removed, or the key is of another queue, and when the timer has stopped.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
    /// let queue = DelayQueue::new(&timer);
    /// let key = queue.insert("session", Duration::from_secs(30))?;
    /// clock.advance(Duration::from_secs(20));
    /// assert!(queue.reset(&key, Duration::from_secs(30)));
    /// clock.advance(Duration::from_secs(20));
    /// assert_eq!(queue.try_recv(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset(&self, key: &DelayKey, delay: Duration) -> bool {
        self.own(key).is_some_and(|timeout| timeout.reset(delay))
    }

    /// [`reset`](Self::reset), to a moment. Reads no clock.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
    /// let queue = DelayQueue::new(&timer);
    /// let key = queue.insert("session", Duration::from_secs(30))?;
    /// assert!(queue.reset_at(&key, timer.now() + Duration::from_secs(60)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset_at(&self, key: &DelayKey, deadline: Instant) -> bool {
        self.own(key)
            .is_some_and(|timeout| timeout.reset_at(deadline))
    }

    /// Waits for a value that is due. `None`: the timer has stopped, and nothing due is left.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::new(Duration::from_millis(1), 512);
    /// let queue = DelayQueue::new(&timer);
    /// let consumer = std::thread::spawn({
    ///     let queue = queue.clone();
    ///     move || {
    ///         let mut values = Vec::new();
    ///         while let Some(value) = queue.recv() {
    ///             values.push(value);
    ///         }
    ///         values
    ///     }
    /// });
    /// queue.insert("first", Duration::from_millis(5))?;
    /// queue.insert("second", Duration::from_millis(10))?;
    /// while !queue.is_empty() {
    ///     std::thread::sleep(Duration::from_millis(1));
    /// }
    /// timer.stop()?;
    /// assert_eq!(consumer.join().unwrap(), ["first", "second"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// On the timer thread, that is in a task, in [`turn`](crate::TimerDriver::turn) or in
    /// [`advance`](crate::ManualClock::advance): it would wait for itself.
    pub fn recv(&self) -> Option<T> {
        assert!(
            !self.core().timer.shared().is_driven_here(),
            "DelayQueue::recv was called on the timer thread, and would have to wait for itself; use try_recv there"
        );
        self.wait_until(None)
    }

    /// Waits for a value that is due, in real time and not for longer than `limit`. `None` also when the timer has stopped,
    /// and nothing due is left.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::new(Duration::from_millis(1), 512);
    /// let queue = DelayQueue::new(&timer);
    /// queue.insert("soon", Duration::from_millis(5))?;
    /// assert_eq!(queue.recv_timeout(Duration::from_secs(60)), Some("soon"));
    /// assert_eq!(queue.recv_timeout(Duration::from_millis(5)), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv_timeout(&self, limit: Duration) -> Option<T> {
        // A limit beyond the end of time is none.
        self.wait_until(Instant::now().checked_add(limit))
    }

    fn wait_until(&self, limit: Option<Instant>) -> Option<T> {
        // Without a waker, if a value is there.
        if let Some(value) = self.try_recv() {
            return Some(value);
        }
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut next = pin!(self.next());
        loop {
            if let Poll::Ready(value) = next.as_mut().poll(&mut Context::from_waker(&waker)) {
                return value;
            }
            match limit.map(|limit| limit.saturating_duration_since(Instant::now())) {
                None => std::thread::park(),
                Some(Duration::ZERO) => return None,
                Some(left) => std::thread::park_timeout(left),
            }
        }
    }

    /// Takes a value that is due. Never waits.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
    /// let queue = DelayQueue::new(&timer);
    /// queue.insert(42, Duration::from_secs(1))?;
    /// assert_eq!(queue.try_recv(), None);
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(queue.try_recv(), Some(42));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_recv(&self) -> Option<T> {
        self.core().due.pop()
    }

    /// A future that waits for a value that is due, under any executor. `None`: the timer has stopped, and nothing due is
    /// left.
    ///
    /// It can be dropped at any time: no value is lost, and another consumer is woken in its place.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::pin::pin;
    /// # use std::task::{Context, Poll, Waker};
    /// # use std::time::Duration;
    /// async fn consume(queue: DelayQueue<u32>) -> u32 {
    ///     let mut sum = 0;
    ///     while let Some(value) = queue.next().await {
    ///         sum += value;
    ///     }
    ///     sum
    /// }
    ///
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
    /// let queue = DelayQueue::new(&timer);
    /// let mut consumer = pin!(consume(queue.clone()));
    /// # let mut context = Context::from_waker(Waker::noop());
    /// # assert!(consumer.as_mut().poll(&mut context).is_pending());
    /// queue.insert(20, Duration::from_secs(1))?;
    /// queue.insert(22, Duration::from_secs(2))?;
    /// clock.advance(Duration::from_secs(2));
    /// timer.stop()?;
    /// # assert_eq!(consumer.poll(&mut context), Poll::Ready(42));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next(&self) -> impl Future<Output = Option<T>> + Send {
        let mut consumer = Consumer(self.clone(), None);
        future::poll_fn(move |cx| consumer.poll(cx))
    }

    /// The values that are due, as a stream on a clone of this queue. With the feature `stream`.
    ///
    /// ```
    /// use futures_core::Stream;
    /// use hashed_wheel::{DelayQueue, global};
    ///
    /// let queue = DelayQueue::<u32>::new(global());
    /// let stream: std::pin::Pin<Box<dyn Stream<Item = u32> + Send>> = Box::pin(queue.stream());
    /// # drop(stream);
    /// ```
    #[cfg(feature = "stream")]
    pub fn stream(&self) -> DelayStream<T> {
        let consumer = Consumer(self.clone(), None);
        DelayStream { consumer }
    }

    /// The number of values, those that are due and not yet taken among them. Exact when no other call is under way.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
    /// let queue = DelayQueue::new(&timer);
    /// queue.insert("one", Duration::from_secs(5))?;
    /// assert_eq!(queue.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn len(&self) -> usize {
        let core = self.core();
        // Each value that is not due holds a reference, and the owner holds one.
        Arc::strong_count(core) - 1 + core.due.len()
    }

    /// Returns `true` if it holds no value.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// let timer = HashedWheelTimer::default();
    /// assert!(DelayQueue::<u32>::new(&timer).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes out all values, first those that are due. Goes through all slots of the timer, if a value waits.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
    /// let queue = DelayQueue::new(&timer);
    /// queue.insert("one", Duration::from_secs(5))?;
    /// timer.stop()?;
    /// assert_eq!(queue.clear(), ["one"]); // it was not due when the timer stopped
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clear(&self) -> Vec<T> {
        self.core().clear()
    }
}

/// # Safety
/// It was made by [`StoredTask::value`] with a `T` and a `Core<T>`.
unsafe fn into_value<T>(stored: StoredTask<Timeout>) -> T {
    // SAFETY: as the caller vouches.
    unsafe { stored.into_value::<T, Core<T>>() }
}

impl<T: Send + 'static> Core<T> {
    fn clear(self: &Arc<Self>) -> Vec<T> {
        let receiver = Arc::as_ptr(self).cast();
        let mut waiting = Vec::new();
        let take = |value| {
            // SAFETY: its receiver is this core.
            waiting.push(unsafe { into_value(value) });
        };
        // Each value that waits holds a reference: see `len`.
        if Arc::strong_count(self) > 1 {
            self.timer.shared().take_values(receiver, take);
        }
        // After those that wait, so that one which falls due meanwhile is not missed.
        let mut values: Vec<T> = self.drain().collect();
        values.append(&mut waiting);
        values
    }

    fn drain(&self) -> impl Iterator<Item = T> {
        iter::from_fn(|| self.due.pop())
    }
}

impl<T: Send + 'static> Receive<T> for Core<T> {
    fn receive(self: Arc<Self>, value: T) {
        self.due.push(value);
        let waker = self.waiters.next_after_push();
        // Before foreign code: the drop of the queue waits for it.
        drop(self);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T: Send + 'static> Drop for Owner<T> {
    fn drop(&mut self) {
        let core = &self.core;
        let mut values = core.clear();
        // The timer thread may be moving a value to `due`. It runs no foreign code before it has released it.
        while Arc::strong_count(core) > 1 {
            thread::yield_now();
        }
        // With the release of that reference.
        fence(Ordering::Acquire);
        values.extend(core.drain());
        let mut panic = None;
        for value in values {
            keep_panic(&mut panic, || drop(value));
        }
        if let Some(payload) = panic {
            if !std::thread::panicking() {
                resume_unwind(payload);
            }
            // A second panic would abort the process: it is logged.
            catch_panic("the drop of a value", || resume_unwind(payload));
        }
    }
}

impl<T: Send + 'static> Clone for DelayQueue<T> {
    fn clone(&self) -> Self {
        let owner = Arc::clone(&self.owner);
        DelayQueue { owner }
    }
}

impl<T: Send + 'static> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayQueue")
            .field("len", &self.len())
            .field("timer", &self.core().timer)
            .finish()
    }
}

/// Wakes a thread that waits in `recv`.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// One consumer that waits.
#[derive(Debug)]
struct Consumer<T: Send + 'static>(DelayQueue<T>, Ticket);

impl<T: Send + 'static> Consumer<T> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let Consumer(queue, ticket) = self;
        queue.core().waiters.poll(ticket, cx, || queue.try_recv())
    }
}

impl<T: Send + 'static> Drop for Consumer<T> {
    fn drop(&mut self) {
        let Core { waiters, due, .. } = &**self.0.core();
        let next = waiters.next_after_drop(self.1, || due.is_empty());
        next.into_iter().for_each(Waker::wake);
    }
}

/// The values of a [`DelayQueue`] that are due, as a stream: made by [`stream`](DelayQueue::stream). It ends when the timer
/// has stopped and nothing due is left.
///
/// ```
/// use futures_core::Stream;
/// use hashed_wheel::{DelayQueue, DelayStream, HashedWheelTimer, ManualClock};
/// use std::pin::Pin;
/// use std::task::{Context, Poll, Waker};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
/// let queue = DelayQueue::new(&timer);
/// queue.insert("a value", Duration::from_secs(5))?;
///
/// let mut stream: DelayStream<&str> = queue.stream();
/// let mut context = Context::from_waker(Waker::noop());
/// assert!(Pin::new(&mut stream).poll_next(&mut context).is_pending());
/// clock.advance(Duration::from_secs(5));
/// assert_eq!(Pin::new(&mut stream).poll_next(&mut context), Poll::Ready(Some("a value")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "stream")]
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct DelayStream<T: Send + 'static> {
    consumer: Consumer<T>,
}

#[cfg(feature = "stream")]
impl<T: Send + 'static> futures_core::Stream for DelayStream<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.consumer.poll(cx)
    }
}
