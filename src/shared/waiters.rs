//! Consumers that wait for a queue.
//!
//! A consumer registers its waker and then looks at the queue again; a producer pushes and then looks for a consumer. With
//! a sequentially consistent fence between the two steps on both sides, one of them sees the other. Each push wakes one
//! consumer, by taking it out of the list. A consumer that goes away without having taken a value passes its wake-up on.

use super::sorted_map::SortedMap;
use super::{Consumers, Shared};
use crate::sync::{AtomicUsize, Mutex, Ordering, fence};
use std::mem;
use std::task::{Context, Poll, Waker};

/// The consumers of one queue.
#[derive(Default)]
pub(crate) struct Waiters {
    list: Mutex<List>,
    /// The length of the list, written under its lock.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct List {
    /// Nothing more will be pushed.
    is_closed: bool,
    last_ticket: u64,
    wakers: SortedMap<Waker>,
}

/// A consumer's place in the list, once it has waited.
pub(crate) type Ticket = Option<u64>;

impl Waiters {
    /// Takes a value, or registers the consumer. Ready with `None` if the queue is closed and empty.
    pub(crate) fn poll<T>(
        &self,
        ticket: &mut Ticket,
        cx: &mut Context<'_>,
        pop: impl Fn() -> Option<T>,
    ) -> Poll<Option<T>> {
        if let Some(value) = pop() {
            // A wake-up was for this value.
            drop(ticket.take().and_then(|ticket| self.take(Some(ticket))));
            return Poll::Ready(Some(value));
        }
        // Wakers are foreign code, also when they are dropped: outside the lock.
        let waker = cx.waker().clone();
        let mut list = self.list.lock();
        if list.is_closed {
            drop(list);
            return Poll::Ready(pop());
        }
        list.last_ticket += 1;
        let number = *ticket.get_or_insert(list.last_ticket);
        let mut dropped = [list.wakers.insert(number, waker), None];
        self.waiting.store(list.wakers.len(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        // Under the lock: the push of another value does not take this consumer meanwhile.
        let value = pop();
        if value.is_some() {
            *ticket = None;
            dropped[1] = list.wakers.remove(number);
            self.waiting.store(list.wakers.len(), Ordering::Relaxed);
        }
        drop(list);
        value.map_or(Poll::Pending, |value| Poll::Ready(Some(value)))
    }

    /// Takes a consumer out of the list: that of a ticket, or the first.
    #[cold]
    fn take(&self, ticket: Ticket) -> Option<Waker> {
        let mut list = self.list.lock();
        let waker = match ticket {
            Some(number) => list.wakers.remove(number),
            None => list.wakers.pop_first(),
        };
        self.waiting.store(list.wakers.len(), Ordering::Relaxed);
        waker
    }

    /// The consumer to wake after a push.
    #[inline]
    pub(crate) fn next_after_push(&self) -> Option<Waker> {
        fence(Ordering::SeqCst);
        match self.waiting.load(Ordering::Relaxed) {
            0 => None,
            _ => self.take(None),
        }
    }

    /// The consumer to wake in place of one that goes away, if that was woken and the queue holds something.
    pub(crate) fn next_after_drop(
        &self,
        ticket: Ticket,
        is_empty: impl FnOnce() -> bool,
    ) -> Option<Waker> {
        let own = self.take(Some(ticket?));
        match own {
            None if !is_empty() => self.take(None),
            _ => None,
        }
    }
}

impl Consumers for Waiters {
    fn timer_ended(&self, timer: &Shared) {
        let mut list = self.list.lock();
        list.is_closed = true;
        self.waiting.store(0, Ordering::Relaxed);
        let wakers = mem::take(&mut list.wakers);
        drop(list);
        for waker in wakers.into_values() {
            timer.catch_panic("a waker", || waker.wake());
        }
    }
}
