//! A `Mutex<BTreeMap>` and a condition variable: what is written by hand first.
//!
//! Best use: `parking_lot`'s mutex, held for the one operation on the map only; the clock is read
//! and the key (two plain numbers) made before it is taken; the task lies in the map, without a
//! box; the worker is notified only if the new timeout is the earliest; it takes all that is due
//! under one lock and runs it after letting go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::{Contestant, Nanos, Producer, Task, Timer};

pub(crate) struct Tree;

impl Contestant for Tree {
    type Timer<T: Task> = Shared<T>;
}

/// A deadline, and a number that tells equal deadlines apart.
type Key = (u64, u64);

struct Inner<T> {
    clock: Nanos,
    map: Mutex<BTreeMap<Key, T>>,
    earlier: Condvar,
}

pub(crate) struct Shared<T> {
    inner: Arc<Inner<T>>,
    producers: AtomicU64,
}

impl<T: Task> Timer<T> for Shared<T> {
    type Producer<'a> = Access<'a, T>;

    fn new(_tick: Duration, _slots: usize) -> Self {
        let inner = Arc::new(Inner {
            clock: Nanos::start(),
            map: Mutex::new(BTreeMap::new()),
            earlier: Condvar::new(),
        });
        let worker = Arc::clone(&inner);
        std::thread::Builder::new()
            .name("btree-timer".to_owned())
            .spawn(move || run_due(&worker))
            .expect("a timer thread");
        Self {
            inner,
            producers: AtomicU64::new(0),
        }
    }

    fn producer(&self) -> Access<'_, T> {
        let producer = self.producers.fetch_add(1, Ordering::Relaxed);
        Access {
            inner: &self.inner,
            next: producer << 48,
        }
    }
}

fn run_due<T: Task>(inner: &Inner<T>) {
    let mut due = Vec::new();
    let mut map = inner.map.lock();
    loop {
        take_due(&mut map, inner.clock.now(), &mut due);
        if due.is_empty() {
            let first = map.first_key_value().map(|(key, _)| key.0);
            match first {
                None => inner.earlier.wait(&mut map),
                Some(first) => {
                    let first = inner.clock.instant(first);
                    inner.earlier.wait_until(&mut map, first);
                }
            }
        } else {
            MutexGuard::unlocked(&mut map, || due.drain(..).for_each(Task::run));
        }
    }
}

/// Takes them one by one: `split_off` may count all that is left.
fn take_due<T>(map: &mut BTreeMap<Key, T>, now: u64, due: &mut Vec<T>) {
    while let Some(first) = map.first_entry()
        && first.key().0 <= now
    {
        due.push(first.remove());
    }
}

pub(crate) struct Access<'a, T> {
    inner: &'a Inner<T>,
    next: u64,
}

impl<T: Task> Producer<T> for Access<'_, T> {
    type Handle = Key;

    #[inline]
    fn arm(&mut self, task: T, delay: Duration) -> Key {
        let key = (self.inner.clock.after(delay), self.next);
        self.next += 1;
        let mut map = self.inner.map.lock();
        let earliest = map.first_key_value().is_none_or(|(first, _)| key < *first);
        map.insert(key, task);
        drop(map);
        if earliest {
            self.inner.earlier.notify_one();
        }
        key
    }

    #[inline]
    fn cancel(&mut self, key: Key) {
        let removed = self.inner.map.lock().remove(&key);
        drop(removed);
    }
}
