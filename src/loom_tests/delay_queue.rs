//! Delay queues: a value against `remove`, delivery, `clear` and `stop`; a consumer against delivery and its own drop.

use super::{TICK, builder, check_figures, explore, timer, unexplored};
use crate::{DelayKey, DelayQueue, ManualClock};
use loom::thread;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Counts how often it was woken. Not a part of the model.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Bell {
    fn rings(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn poll<F: Future + ?Sized>(future: Pin<&mut F>, bell: &Arc<Bell>) -> Poll<F::Output> {
    let waker = Waker::from(Arc::clone(bell));
    future.poll(&mut Context::from_waker(&waker))
}

#[test]
fn a_value_is_removed_or_delivered() {
    explore(["removed", "delivered"], || {
        let clock = ManualClock::new();
        let timer = builder().clock(&clock).build().unwrap();
        let queue = DelayQueue::new(&timer);
        let key = unexplored(|| queue.insert(7, TICK).unwrap());
        let driver = thread::spawn(move || clock.advance(TICK));
        let removed = queue.remove(&key);
        driver.join().unwrap();
        let delivered = queue.try_recv();
        assert_eq!(removed.or(delivered), Some(7));
        assert!(removed.is_none() || delivered.is_none(), "given twice");
        assert_eq!((queue.remove(&key), queue.len()), (None, 0));
        check_figures(&timer.handle());
        if removed.is_some() {
            "removed"
        } else {
            "delivered"
        }
    });
}

/// The queue's own look through all slots, against the timer thread: it pins the slots of others on the way.
#[test]
fn the_drop_of_a_queue_drops_a_value_that_is_being_delivered() {
    explore(["before", "after"], || {
        let clock = ManualClock::new();
        let timer = builder().clock(&clock).build().unwrap();
        let value = Arc::new(());
        let queue = DelayQueue::new(&timer);
        let other = DelayQueue::new(&timer);
        unexplored(|| {
            drop(other.insert(1, TICK).unwrap());
            drop(queue.insert(Arc::clone(&value), TICK).unwrap());
        });
        let driver = thread::spawn(move || clock.advance(TICK));
        drop(queue);
        assert_eq!(Arc::strong_count(&value), 1, "when the drop returns");
        driver.join().unwrap();
        assert_eq!(other.try_recv(), Some(1));
        match check_figures(&timer.handle()).expired {
            1 => "before",
            _ => "after",
        }
    });
}

/// A value that never comes due by itself, taken out by its key or by a look through all slots, while its timer stops.
fn taken_while_the_timer_stops(
    take: impl Fn(&DelayQueue<u32>, &DelayKey) -> Option<u32>,
) -> &'static str {
    let timer = timer();
    let queue = DelayQueue::new(&timer);
    let key = unexplored(|| queue.insert(7, Duration::MAX).unwrap());
    let handle = timer.handle();
    let stop = thread::spawn(move || assert!(timer.stop().unwrap().is_empty()));
    let taken = take(&queue, &key);
    stop.join().unwrap();
    assert_eq!(taken, Some(7), "before or after");
    assert_eq!((queue.remove(&key), queue.len()), (None, 0));
    match check_figures(&handle).unprocessed {
        0 => "before",
        _ => "after",
    }
}

#[test]
fn a_value_is_removed_while_its_timer_stops() {
    explore(["before", "after"], || {
        taken_while_the_timer_stops(DelayQueue::remove)
    });
}

#[test]
fn a_queue_is_cleared_while_its_timer_stops() {
    explore(["before", "after"], || {
        taken_while_the_timer_stops(|queue, _| queue.clear().pop())
    });
}

/// The key is dropped, which frees the slot, while all slots are looked through for another queue.
#[test]
fn a_key_is_dropped_while_another_queue_is_cleared() {
    explore(["removed"], || {
        let timer = timer();
        let [queue, other] = [(); 2].map(|()| DelayQueue::new(&timer));
        let key = unexplored(|| queue.insert(7, Duration::MAX).unwrap());
        let clear = thread::spawn(move || assert!(other.clear().is_empty()));
        let removed = queue.remove(&key);
        drop(key);
        // The slot is used again.
        drop(queue.insert(8, Duration::MAX).unwrap());
        clear.join().unwrap();
        assert_eq!((removed, queue.clear()), (Some(7), vec![8]));
        check_figures(&timer.handle());
        "removed"
    });
}

#[test]
fn a_consumer_that_is_told_to_wait_is_woken() {
    explore(["ready at once", "woken"], || {
        let clock = ManualClock::new();
        let timer = builder().clock(&clock).build().unwrap();
        let queue = DelayQueue::new(&timer);
        unexplored(|| drop(queue.insert(7, TICK).unwrap()));
        let driver = thread::spawn(move || clock.advance(TICK));
        let (bell, mut next) = (Arc::default(), pin!(queue.next()));
        let polled = poll(next.as_mut(), &bell);
        driver.join().unwrap();
        match polled {
            Poll::Ready(value) => {
                assert_eq!(value, Some(7));
                "ready at once"
            }
            Poll::Pending => {
                assert_eq!(bell.rings(), 1);
                assert_eq!(poll(next, &bell), Poll::Ready(Some(7)));
                "woken"
            }
        }
    });
}

#[test]
fn a_consumer_that_is_dropped_passes_its_wake_up_on() {
    explore(["to the second", "passed on"], || {
        let clock = ManualClock::new();
        let timer = builder().clock(&clock).build().unwrap();
        let queue = DelayQueue::new(&timer);
        let bells: [Arc<Bell>; 2] = Default::default();
        let mut first = Box::pin(queue.next());
        let mut second = Box::pin(queue.next());
        unexplored(|| {
            drop(queue.insert(7, TICK).unwrap());
            assert!(poll(first.as_mut(), &bells[0]).is_pending());
            assert!(poll(second.as_mut(), &bells[1]).is_pending());
        });
        let driver = thread::spawn(move || clock.advance(TICK));
        drop(first);
        driver.join().unwrap();
        assert_eq!(bells[1].rings(), 1, "nobody sleeps on");
        assert_eq!(poll(second.as_mut(), &bells[1]), Poll::Ready(Some(7)));
        if bells[0].rings() == 0 {
            "to the second"
        } else {
            "passed on"
        }
    });
}

#[test]
fn a_consumer_of_a_timer_that_stops_ends() {
    explore(["at once", "woken"], || {
        let timer = timer();
        timer.start().unwrap();
        let queue = DelayQueue::<u32>::new(&timer);
        let stop = thread::spawn(move || assert!(timer.stop().unwrap().is_empty()));
        let (bell, mut next) = (Arc::default(), pin!(queue.next()));
        let polled = poll(next.as_mut(), &bell);
        stop.join().unwrap();
        match polled {
            Poll::Ready(value) => {
                assert_eq!(value, None);
                "at once"
            }
            Poll::Pending => {
                assert_eq!(bell.rings(), 1);
                assert_eq!(poll(next, &bell), Poll::Ready(None));
                "woken"
            }
        }
    });
}
