//! Delay queues: values in, due values out. [`tokio_util`] restates the cases of tokio-util's queue, but for `peek`,
//! capacity, `compact` and the removal of values that are due.

mod common;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::slice;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use common::poll::{Wakes, block_on, poll_once, poll_with};
use common::shrink::quiet;
use common::{
    Count, FAR, Kind, Timer, assert_counts_add_up, eventually, in_thread, message_of, ms,
    on_both_timers, recv,
};
use hashed_wheel::{DelayKey, DelayQueue, ManualClock, RejectReason, TimerHandle};

on_both_timers![
    values_come_out_at_their_ticks,
    remove_gives_the_value_once,
    reset_moves_a_value,
    a_key_of_another_queue_does_nothing,
    a_dropped_key_leaves_the_value,
    values_of_any_size_are_kept,
    an_executor_never_sees_a_value,
    cancel_all_spares_values,
    values_count_as_timeouts,
    a_refused_value_comes_back,
    a_stopped_timer_leaves_values_in_the_queue,
    a_dropped_timer_leaves_values_in_the_queue,
    a_queue_on_a_stopped_timer_is_closed,
    the_last_clone_drops_all_values,
    the_last_clone_drops_values_of_a_stopped_timer,
    clear_takes_what_waits_and_what_is_due,
    clear_leaves_other_queues_alone,
    a_value_whose_drop_panics_does_not_spare_the_others,
    recv_on_the_timer_thread_panics,
    recv_waits_and_ends_with_the_timer,
    recv_timeout_ends_by_itself,
    each_value_wakes_one_consumer,
    a_dropped_next_passes_its_wake_up_on,
    a_next_that_waits_no_more_is_not_woken,
    next_ends_with_the_timer,
    values_have_the_label_of_their_handle,
    a_driven_timer_delivers_on_its_turn,
    producers_and_consumers_race,
    remove_races_with_delivery,
    the_drop_of_a_queue_races_with_delivery,
    stop_races_with_insert,
];

fn queue<T: Send>(kind: Kind) -> (ManualClock, Timer, DelayQueue<T>) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    let queue = DelayQueue::new(&timer);
    (clock, timer, queue)
}

/// All that is due.
fn due<T: Send>(queue: &DelayQueue<T>) -> Vec<T> {
    std::iter::from_fn(|| queue.try_recv()).collect()
}

fn values_come_out_at_their_ticks(kind: Kind) {
    let (clock, _timer, queue) = queue(kind);
    for n in [50, 10, 30, 11, 20] {
        queue.insert(n, ms(n)).unwrap();
    }
    assert_eq!((queue.len(), queue.try_recv()), (5, None));
    clock.advance(ms(10));
    assert_eq!(due(&queue), [10]);
    clock.advance(ms(20));
    assert_eq!(queue.len(), 4, "due ones count until they are taken");
    assert_eq!(due(&queue), [11, 20, 30]);
    clock.advance(ms(20));
    assert_eq!((due(&queue), queue.len()), (vec![50], 0));
    assert!(queue.is_empty());
}

fn remove_gives_the_value_once(kind: Kind) {
    let (clock, timer, queue) = queue(kind);
    let key = queue.insert(String::from("a"), ms(20)).unwrap();
    let other = queue.insert(String::from("b"), ms(20)).unwrap();
    assert_eq!(queue.remove(&key).as_deref(), Some("a"));
    assert_eq!(queue.remove(&key), None);
    assert!(!queue.reset(&key, ms(50)));
    clock.advance(ms(20));
    assert_eq!(queue.remove(&other), None, "it is due");
    assert!(!queue.reset(&other, ms(50)));
    assert_eq!(due(&queue), ["b"]);
    assert_eq!(queue.remove(&other), None);
    assert_counts_add_up(&timer);
    assert_eq!((timer.stats().cancelled, timer.stats().expired), (1, 1));
}

fn reset_moves_a_value(kind: Kind) {
    let (clock, timer, queue) = queue(kind);
    let key = queue.insert(1, ms(30)).unwrap();
    assert!(queue.reset(&key, ms(60)), "later");
    clock.advance(ms(50));
    assert_eq!(queue.try_recv(), None);
    assert!(queue.reset_at(&key, timer.now() + ms(100)));
    assert!(queue.reset(&key, ms(20)), "earlier");
    clock.advance(ms(20));
    assert_eq!(queue.try_recv(), Some(1));
}

fn a_key_of_another_queue_does_nothing(kind: Kind) {
    let (clock, timer, queue) = queue(kind);
    let others = DelayQueue::<u64>::new(&timer);
    let key = others.insert(7, ms(20)).unwrap();
    assert_eq!(queue.remove(&key), None);
    assert!(!queue.reset(&key, FAR) && !queue.reset_at(&key, timer.now() + FAR));
    // Of another type, with a number that is as large.
    let strings = DelayQueue::<String>::new(&timer);
    assert_eq!(strings.remove(&key), None);
    // Of a queue that is gone, whose slot is used again.
    let gone = DelayQueue::<u64>::new(&timer);
    let old = gone.insert(8, FAR).unwrap();
    drop(gone);
    queue.insert(9, ms(20)).unwrap();
    assert_eq!(queue.remove(&old), None);
    clock.advance(ms(20));
    assert_eq!((due(&queue), due(&others)), (vec![9], vec![7]));
}

fn a_dropped_key_leaves_the_value(kind: Kind) {
    let (clock, timer, queue) = queue(kind);
    drop(queue.insert(1, ms(20)).unwrap());
    assert_eq!(timer.pending_timeouts(), 1);
    clock.advance(ms(20));
    assert_eq!(queue.try_recv(), Some(1));
}

fn values_of_any_size_are_kept(kind: Kind) {
    fn check<T: Send + Clone + PartialEq + std::fmt::Debug + 'static>(kind: Kind, value: &T) {
        let (clock, timer, queue) = queue(kind);
        let removed = queue.insert(value.clone(), ms(10)).unwrap();
        queue.insert(value.clone(), ms(10)).unwrap();
        queue.insert(value.clone(), FAR).unwrap();
        assert_eq!(queue.remove(&removed).as_ref(), Some(value));
        clock.advance(ms(10));
        assert_eq!(due(&queue), slice::from_ref(value));
        timer.stop().unwrap();
        assert_eq!(queue.insert(value.clone(), FAR).unwrap_err().task, *value);
        assert_eq!(queue.clear(), slice::from_ref(value));
    }
    #[derive(Debug, Clone, PartialEq)]
    #[repr(align(64))]
    struct Aligned(u8);
    check(kind, &());
    check(kind, &7_u8);
    check(kind, &[1_u64; 3]);
    check(kind, &[2_u64; 4]);
    check(kind, &[3_u64; 5]);
    check(kind, &[4_u64; 1000]);
    check(kind, &Aligned(5));
    check(kind, &String::from("on the heap"));
    check(kind, &Arc::new(6));
    check(kind, &(u128::MAX, 'x'));
}

fn an_executor_never_sees_a_value(kind: Kind) {
    let clock = ManualClock::new();
    let jobs = Count::new();
    let count = jobs.clone();
    let executor = move |job| {
        count.add();
        drop(job);
    };
    let timer = kind.builder().clock(&clock).executor(executor).build();
    let queue = DelayQueue::new(&timer);
    queue.insert(1, ms(10)).unwrap();
    clock.advance(ms(10));
    assert_eq!((queue.try_recv(), jobs.get()), (Some(1), 0));
}

fn cancel_all_spares_values(kind: Kind) {
    let (clock, timer, queue) = queue(kind);
    queue.insert(1, ms(10)).unwrap();
    timer.new_timeout(|_| {}, ms(10)).unwrap();
    assert_eq!(timer.cancel_all(), 1);
    assert_eq!((queue.len(), timer.pending_timeouts()), (1, 1));
    clock.advance(ms(10));
    assert_eq!(queue.try_recv(), Some(1));
    assert_counts_add_up(&timer);
}

fn values_count_as_timeouts(kind: Kind) {
    let (clock, timer, queue) = queue(kind);
    let key = queue.insert(1, ms(10)).unwrap();
    queue.insert(2, ms(20)).unwrap();
    queue.insert(3, FAR).unwrap();
    let mut shown = 0;
    timer.for_each_pending(|pending| {
        assert!(!pending.periodic);
        shown += 1;
    });
    assert_eq!((shown, timer.pending_timeouts()), (3, 3));
    queue.remove(&key);
    clock.advance(ms(20));
    assert_counts_add_up(&timer);
    assert_eq!(timer.stop().unwrap().len(), 0, "not returned");
    let stats = timer.stats();
    assert_eq!((stats.scheduled, stats.expired), (3, 1));
    assert_eq!((stats.cancelled, stats.unprocessed), (1, 1));
    assert_eq!(queue.clear(), [2, 3]);
    assert_counts_add_up(&timer);
    assert_eq!(timer.stats().cancelled, 1, "what stop has counted stays so");
}

fn a_refused_value_comes_back(kind: Kind) {
    let timer = kind
        .builder()
        .clock(&ManualClock::new())
        .max_pending(1)
        .build();
    let queue = DelayQueue::new(&timer);
    let key = queue.insert("one", FAR).unwrap();
    let refused = queue.insert("two", FAR).unwrap_err();
    assert!(matches!(
        refused.reason,
        RejectReason::TooManyPending { max: 1 }
    ));
    assert_eq!((refused.task, queue.len()), ("two", 1));
    queue.remove(&key);
    let key = queue.insert_at("three", timer.now() + FAR).unwrap();
    timer.stop().unwrap();
    let refused = queue.insert("four", FAR).unwrap_err();
    assert!(matches!(refused.reason, RejectReason::Stopped));
    assert_eq!((refused.task, queue.remove(&key)), ("four", Some("three")));
    assert!(queue.is_empty());
}

/// What holds of a queue with the values 1 (due), 2 (whose key is dropped) and 3 (whose key this is) after its timer's end.
fn check_after_the_end(queue: &DelayQueue<i32>, key: &DelayKey) {
    assert_eq!(queue.len(), 3);
    assert!(!queue.reset(key, ms(10)));
    assert!(!queue.reset_at(key, Instant::now()));
    assert_eq!(queue.recv(), Some(1), "it was due");
    assert_eq!((queue.recv(), queue.recv_timeout(FAR)), (None, None));
    assert_eq!(poll_once(pin!(queue.next())), Poll::Ready(None));
    assert_eq!(queue.remove(key), Some(3));
    assert_eq!(queue.remove(key), None);
    assert_eq!((queue.clear(), queue.len()), (vec![2], 0));
    assert!(queue.clear().is_empty());
}

fn a_stopped_timer_leaves_values_in_the_queue(kind: Kind) {
    let (clock, timer, queue) = queue(kind);
    queue.insert(1, ms(10)).unwrap();
    queue.insert(2, FAR).unwrap();
    let key = queue.insert(3, Duration::MAX).unwrap();
    clock.advance(ms(10));
    assert!(timer.stop().unwrap().is_empty());
    check_after_the_end(&queue, &key);
}

fn a_dropped_timer_leaves_values_in_the_queue(kind: Kind) {
    let (clock, timer, queue) = queue(kind);
    queue.insert(1, ms(10)).unwrap();
    queue.insert(2, FAR).unwrap();
    let key = queue.insert(3, Duration::MAX).unwrap();
    clock.advance(ms(10));
    drop(timer);
    check_after_the_end(&queue, &key);
    drop(queue);
    drop(key);
}

fn a_queue_on_a_stopped_timer_is_closed(kind: Kind) {
    for starts in [false, true] {
        let timer = kind.on(&ManualClock::new());
        if starts {
            timer.start().unwrap();
        }
        let before = DelayQueue::<u32>::new(&timer);
        timer.stop().unwrap();
        let after = DelayQueue::<u32>::new(&timer);
        for queue in [before, after] {
            assert_eq!((queue.recv(), queue.try_recv()), (None, None));
            assert_eq!(poll_once(pin!(queue.next())), Poll::Ready(None));
            assert_eq!(queue.insert(7, ms(10)).unwrap_err().task, 7);
            assert!(queue.clear().is_empty());
        }
    }
}

/// Counts its drops.
#[derive(Debug)]
struct Counted(Count);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.add();
    }
}

fn the_last_clone_drops_all_values(kind: Kind) {
    let (clock, timer, queue) = queue(kind);
    let drops = Count::new();
    let keys: Vec<_> = (1..=100)
        .map(|n| queue.insert(Counted(drops.clone()), ms(10 * n)).unwrap())
        .collect();
    clock.advance(ms(300));
    let clone = queue.clone();
    drop(queue);
    assert_eq!((drops.get(), clone.len()), (0, 100));
    drop(clone);
    assert_eq!(drops.get(), 100);
    assert_eq!(timer.pending_timeouts(), 0);
    assert_counts_add_up(&timer);
    drop(keys);
    clock.advance(FAR);
    // Slots that were used by values are used again.
    timer.new_timeout(|_| {}, ms(10)).unwrap();
    clock.advance(ms(10));
    assert_counts_add_up(&timer);
}

fn the_last_clone_drops_values_of_a_stopped_timer(kind: Kind) {
    for keeps_keys in [false, true] {
        for drops_timer in [false, true] {
            let (clock, timer, queue) = queue(kind);
            let drops = Count::new();
            let mut keys: Vec<_> = (1..=10)
                .map(|n| queue.insert(Counted(drops.clone()), ms(10 * n)).unwrap())
                .collect();
            if !keeps_keys {
                keys.clear();
            }
            clock.advance(ms(30));
            if drops_timer {
                drop(timer);
            } else {
                timer.stop().unwrap();
            }
            assert_eq!((drops.get(), queue.len()), (0, 10));
            drop(queue);
            assert_eq!(drops.get(), 10);
        }
    }
}

fn clear_takes_what_waits_and_what_is_due(kind: Kind) {
    let (clock, timer, queue) = queue(kind);
    let keys: Vec<_> = (1..=5)
        .map(|n| queue.insert(n, ms(10 * n)).unwrap())
        .collect();
    clock.advance(ms(20));
    let mut all = queue.clear();
    assert_eq!(all[..2], [1, 2], "those that are due first");
    all.sort_unstable();
    assert_eq!(all, [1, 2, 3, 4, 5]);
    assert!(queue.is_empty() && keys.iter().all(|key| queue.remove(key).is_none()));
    assert_counts_add_up(&timer);
    queue.insert(6, ms(10)).unwrap();
    clock.advance(ms(100));
    assert_eq!(due(&queue), [6], "it goes on");
}

fn clear_leaves_other_queues_alone(kind: Kind) {
    let (clock, timer, queue) = queue::<u64>(kind);
    let each = if cfg!(miri) { 8 } else { 100 };
    let others: Vec<_> = (0..10).map(|_| DelayQueue::new(&timer)).collect();
    let mut keys = Vec::new();
    for n in 0..each {
        for other in &others {
            keys.push(other.insert(n, ms(10)).unwrap());
        }
        queue.insert(n, ms(10)).unwrap();
        timer.new_timeout(|_| {}, ms(10)).unwrap();
        if n % 2 == 0 {
            keys.clear();
        }
    }
    // All at once, on threads.
    thread::scope(|scope| {
        let clears: Vec<_> = others[..5]
            .iter()
            .map(|other| scope.spawn(|| other.clear()))
            .collect();
        assert_eq!(queue.clear().len() as u64, each);
        for clear in clears {
            let mut values = clear.join().unwrap();
            values.sort_unstable();
            assert_eq!(values, (0..each).collect::<Vec<_>>());
        }
    });
    clock.advance(ms(10));
    assert!(others[..5].iter().all(DelayQueue::is_empty));
    assert!(
        others[5..]
            .iter()
            .all(|other| due(other).len() as u64 == each)
    );
    assert_eq!(timer.stats().expired, 6 * each);
    assert_counts_add_up(&timer);
}

fn a_value_whose_drop_panics_does_not_spare_the_others(kind: Kind) {
    struct Bomb(Count, bool);
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(self.0.add() != 3 || !self.1, "dropped as the third");
        }
    }
    let (clock, timer, queue) = queue(kind);
    let drops = Count::new();
    for n in 1..=10 {
        queue.insert(Bomb(drops.clone(), true), ms(n * 10)).unwrap();
    }
    clock.advance(ms(50));
    let panic = quiet(|| catch_unwind(AssertUnwindSafe(|| drop(queue))).unwrap_err());
    assert_eq!(message_of(&*panic), "dropped as the third");
    assert_eq!((drops.get(), timer.pending_timeouts()), (10, 0));
    // While the thread is panicking already, that goes on.
    let queue = DelayQueue::new(&timer);
    let drops = Count::new();
    for _ in 0..4 {
        queue.insert(Bomb(drops.clone(), true), FAR).unwrap();
    }
    let panicking = || -> () {
        let _dropped_by_the_panic = queue;
        panic!("the first");
    };
    let panic = quiet(|| catch_unwind(AssertUnwindSafe(panicking)).unwrap_err());
    assert_eq!((&*message_of(&*panic), drops.get()), ("the first", 4));
    // A removed value is the caller's.
    let queue = DelayQueue::new(&timer);
    let key = queue.insert(Bomb(Count::new(), false), FAR).unwrap();
    assert!(queue.remove(&key).is_some());
    timer.new_timeout(|_| {}, ms(10)).unwrap();
    clock.advance(ms(10));
    assert_counts_add_up(&timer);
}

fn recv_on_the_timer_thread_panics(kind: Kind) {
    let (clock, timer, queue) = queue::<u32>(kind);
    let (sender, messages) = mpsc::channel();
    let receives = move |queue: &DelayQueue<u32>| {
        let caught = catch_unwind(AssertUnwindSafe(|| queue.recv())).unwrap_err();
        sender.send(message_of(&*caught)).unwrap();
    };
    let in_task = (queue.clone(), receives.clone());
    timer
        .new_timeout(move |_| quiet(|| in_task.1(&in_task.0)), ms(10))
        .unwrap();
    clock.advance(ms(10));
    let text = "DelayQueue::recv was called on the timer thread, and would have to wait for itself; use try_recv there";
    assert_eq!(recv(&messages), text);
    // On the thread of a real timer; a value that is there makes no difference.
    let timer = kind.real(ms(1));
    let queue = DelayQueue::new(&timer);
    queue.insert(1, ms(1)).unwrap();
    let in_task = (queue.clone(), receives.clone());
    timer
        .new_timeout(move |_| quiet(|| in_task.1(&in_task.0)), ms(5))
        .unwrap();
    assert_eq!(recv(&messages), text);
    // Another timer's thread may wait.
    let other = kind.real(ms(1));
    let (sender, elsewhere) = mpsc::channel();
    other
        .new_timeout(move |_| sender.send(queue.recv()).unwrap(), ms(1))
        .unwrap();
    assert_eq!(recv(&elsewhere), Some(1));
    // In the caller's loop.
    let (timer, mut driver) = kind.builder().tick(ms(1)).build_driven();
    let in_task = (DelayQueue::new(&timer), receives);
    timer
        .new_timeout(move |_| quiet(|| in_task.1(&in_task.0)), ms(1))
        .unwrap();
    eventually("it has run", || driver.turn() == 1);
    assert_eq!(recv(&messages), text);
}

fn recv_waits_and_ends_with_the_timer(kind: Kind) {
    let timer = kind.real(ms(1));
    let queue = DelayQueue::new(&timer);
    let begun = Instant::now();
    queue.insert((), ms(20)).unwrap();
    assert_eq!(queue.recv(), Some(()));
    assert!(begun.elapsed() >= ms(20));
    let waiting = in_thread({
        let queue = queue.clone();
        move || queue.recv()
    });
    thread::sleep(ms(5));
    queue.insert((), FAR).unwrap();
    timer.stop().unwrap();
    assert_eq!(recv(&waiting), None);
    assert_eq!(queue.len(), 1);
}

fn recv_timeout_ends_by_itself(kind: Kind) {
    let (clock, _timer, queue) = queue(kind);
    let begun = Instant::now();
    assert_eq!(queue.recv_timeout(ms(5)), None);
    assert!(begun.elapsed() >= ms(5));
    assert_eq!(queue.recv_timeout(Duration::ZERO), None);
    queue.insert(1, ms(10)).unwrap();
    let waiting = in_thread({
        let queue = queue.clone();
        move || queue.recv_timeout(Duration::MAX)
    });
    clock.advance(ms(10));
    assert_eq!(recv(&waiting), Some(1));
}

type Next<'a, T> = Pin<Box<dyn Future<Output = Option<T>> + Send + 'a>>;

fn each_value_wakes_one_consumer(kind: Kind) {
    let (clock, _timer, queue) = queue(kind);
    let mut consumers: Vec<(Next<u64>, _, _)> = (0..4)
        .map(|_| {
            let (woken, waker) = Wakes::new();
            (Box::pin(queue.next()) as _, woken, waker)
        })
        .collect();
    for (next, _, waker) in &mut consumers {
        assert!(poll_with(next.as_mut(), waker).is_pending());
    }
    let woken = |consumers: &[(Next<u64>, Arc<Wakes>, _)]| -> Vec<usize> {
        consumers.iter().map(|(_, woken, _)| woken.get()).collect()
    };
    for n in [10, 20, 20] {
        queue.insert(n, ms(n)).unwrap();
    }
    clock.advance(ms(10));
    assert_eq!(woken(&consumers), [1, 0, 0, 0]);
    clock.advance(ms(10));
    assert_eq!(woken(&consumers), [1, 1, 1, 0]);
    // They take them in whatever order they are polled.
    for (place, value) in [(2, 10), (0, 20), (1, 20)] {
        let (next, _, waker) = &mut consumers[place];
        assert_eq!(poll_with(next.as_mut(), waker), Poll::Ready(Some(value)));
    }
    let (next, woken, waker) = &mut consumers[3];
    assert!(poll_with(next.as_mut(), waker).is_pending());
    queue.insert(30, ms(10)).unwrap();
    // Another takes what it was woken for: it waits again.
    clock.advance(ms(10));
    assert_eq!((woken.get(), queue.try_recv()), (1, Some(30)));
    let (again, other) = Wakes::new();
    assert!(poll_with(next.as_mut(), &other).is_pending());
    queue.insert(40, ms(10)).unwrap();
    clock.advance(ms(10));
    assert_eq!((woken.get(), again.get()), (1, 1), "its last waker");
    assert_eq!(poll_with(next.as_mut(), waker), Poll::Ready(Some(40)));
}

fn a_dropped_next_passes_its_wake_up_on(kind: Kind) {
    let (clock, _timer, queue) = queue(kind);
    let (woken, waker) = Wakes::new();
    let mut first: Next<_> = Box::pin(queue.next());
    let mut second: Next<_> = Box::pin(queue.next());
    assert!(poll_once(first.as_mut()).is_pending());
    assert!(poll_with(second.as_mut(), &waker).is_pending());
    queue.insert(1, ms(10)).unwrap();
    clock.advance(ms(10));
    assert_eq!(woken.get(), 0);
    drop(first);
    assert_eq!(woken.get(), 1, "in its place");
    assert_eq!(poll_with(second.as_mut(), &waker), Poll::Ready(Some(1)));
    drop(second);
    // One that was dropped with nobody behind it loses nothing.
    let mut alone: Next<_> = Box::pin(queue.next());
    assert!(poll_once(alone.as_mut()).is_pending());
    queue.insert(2, ms(10)).unwrap();
    clock.advance(ms(10));
    drop(alone);
    assert_eq!(queue.try_recv(), Some(2));
    // A thread in `recv` is behind one.
    let mut first: Next<_> = Box::pin(queue.next());
    assert!(poll_once(first.as_mut()).is_pending());
    let waiting = in_thread({
        let queue = queue.clone();
        move || queue.recv()
    });
    thread::sleep(ms(5));
    queue.insert(3, ms(10)).unwrap();
    clock.advance(ms(10));
    drop(first);
    assert_eq!(recv(&waiting), Some(3));
}

fn a_next_that_waits_no_more_is_not_woken(kind: Kind) {
    let (clock, _timer, queue) = queue(kind);
    let (woken, waker) = Wakes::new();
    // Dropped, never polled, or ready by a poll that nobody asked for.
    drop(queue.next());
    let mut dropped: Next<_> = Box::pin(queue.next());
    assert!(poll_with(dropped.as_mut(), &waker).is_pending());
    drop(dropped);
    assert_eq!(Arc::strong_count(&woken), 2, "the waker is gone");
    let mut stays: Next<_> = Box::pin(queue.next());
    assert!(poll_with(stays.as_mut(), &waker).is_pending());
    let mut polled: Next<_> = Box::pin(queue.next());
    assert!(poll_with(polled.as_mut(), &waker).is_pending());
    queue.insert(1, ms(10)).unwrap();
    clock.advance(ms(10));
    assert_eq!(woken.get(), 1);
    assert_eq!(poll_with(polled.as_mut(), &waker), Poll::Ready(Some(1)));
    drop(polled);
    assert!(poll_with(stays.as_mut(), &waker).is_pending());
    queue.insert(2, ms(10)).unwrap();
    clock.advance(ms(10));
    assert_eq!(woken.get(), 2);
    assert_eq!(poll_with(stays.as_mut(), &waker), Poll::Ready(Some(2)));
}

fn next_ends_with_the_timer(kind: Kind) {
    let (clock, timer, queue) = queue(kind);
    let (woken, waker) = Wakes::new();
    let mut nexts: Vec<Next<_>> = (0..3).map(|_| Box::pin(queue.next()) as _).collect();
    for next in &mut nexts {
        assert!(poll_with(next.as_mut(), &waker).is_pending());
    }
    queue.insert(1, ms(10)).unwrap();
    clock.advance(ms(10));
    assert_eq!(woken.get(), 1);
    drop(timer);
    assert_eq!(woken.get(), 3);
    let ends: Vec<_> = nexts
        .iter_mut()
        .map(|next| poll_once(next.as_mut()))
        .collect();
    assert_eq!(
        ends,
        [Poll::Ready(Some(1)), Poll::Ready(None), Poll::Ready(None)]
    );
    let _ = nexts.pop();
}

fn values_have_the_label_of_their_handle(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    let queue = DelayQueue::new(&timer.labelled("mails"));
    queue.insert(1, FAR).unwrap();
    timer.for_each_pending(|pending| assert_eq!(pending.label, Some("mails")));
    let text = format!("{queue:?}");
    assert!(
        text.starts_with("DelayQueue { len: 1, timer: TimerHandle"),
        "{text}"
    );
}

fn a_driven_timer_delivers_on_its_turn(kind: Kind) {
    let (timer, mut driver) = kind.builder().tick(ms(1)).build_driven();
    let queue = DelayQueue::new(&timer);
    queue.insert(1, ms(2)).unwrap();
    let due = driver.next_due().expect("a value is pending");
    assert!(due >= timer.now() || queue.try_recv().is_none());
    eventually("it is delivered", || driver.turn() == 1);
    assert_eq!(queue.try_recv(), Some(1));
    assert_eq!(driver.next_due(), None);
    drop(driver);
    assert_eq!(queue.recv(), None);
}

fn producers_and_consumers_race(kind: Kind) {
    const PRODUCERS: u64 = 4;
    let values = if cfg!(miri) { 20 } else { 5_000 };
    let timer = kind.real(ms(1));
    let queue = DelayQueue::new(&timer);
    let mut consumers: Vec<_> = (0..2)
        .map(|_| {
            let queue = queue.clone();
            in_thread(move || std::iter::from_fn(|| queue.recv()).collect::<Vec<u64>>())
        })
        .collect();
    consumers.push(in_thread({
        let queue = queue.clone();
        move || {
            block_on(async {
                let mut values = Vec::new();
                loop {
                    // Dropped in the middle, again and again.
                    let mut given_up = Box::pin(queue.next());
                    if let Poll::Ready(Some(value)) = poll_once(given_up.as_mut()) {
                        values.push(value);
                    }
                    drop(given_up);
                    match queue.next().await {
                        Some(value) => values.push(value),
                        None => return values,
                    }
                }
            })
        }
    }));
    let removed: Vec<u64> = thread::scope(|scope| {
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|p| {
                let queue = queue.clone();
                scope.spawn(move || {
                    let mut removed = Vec::new();
                    for n in 0..values {
                        let key = queue.insert(p * values + n, ms(n % 4)).unwrap();
                        match n % 5 {
                            0 => removed.extend(queue.remove(&key)),
                            1 => drop(queue.reset(&key, ms(1))),
                            _ => {}
                        }
                    }
                    removed
                })
            })
            .collect();
        producers
            .into_iter()
            .flat_map(|p| p.join().unwrap())
            .collect()
    });
    eventually("all are taken", || queue.is_empty());
    timer.stop().unwrap();
    let mut seen: Vec<u64> = consumers.iter().flat_map(recv).chain(removed).collect();
    seen.sort_unstable();
    assert_eq!(
        seen,
        (0..PRODUCERS * values).collect::<Vec<_>>(),
        "each once"
    );
    assert_counts_add_up(&timer);
}

fn remove_races_with_delivery(kind: Kind) {
    let rounds = if cfg!(miri) { 20 } else { 2_000 };
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let queue = DelayQueue::new(&timer);
    let keys: Vec<_> = (0..rounds)
        .map(|n| queue.insert(n, ms(10)).unwrap())
        .collect();
    let removed: Vec<u64> = thread::scope(|scope| {
        let remover = scope.spawn(|| {
            keys.iter()
                .rev()
                .filter_map(|key| queue.remove(key))
                .collect()
        });
        clock.advance(ms(10));
        remover.join().unwrap()
    });
    let all: BTreeSet<u64> = removed.iter().copied().chain(due(&queue)).collect();
    assert_eq!(all.len() as u64, rounds);
    let stats = timer.stats();
    assert_eq!((stats.cancelled, stats.pending), (removed.len() as u64, 0));
    assert_counts_add_up(&timer);
}

fn the_drop_of_a_queue_races_with_delivery(kind: Kind) {
    let rounds = if cfg!(miri) { 3 } else { 200 };
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    for _ in 0..rounds {
        let queue = DelayQueue::new(&timer);
        let drops = Count::new();
        for _ in 0..50 {
            queue.insert(Counted(drops.clone()), ms(10)).unwrap();
        }
        thread::scope(|scope| {
            scope.spawn(|| clock.advance(ms(10)));
            drop(queue);
            assert_eq!(drops.get(), 50, "when the drop returns");
        });
    }
    assert_counts_add_up(&timer);
    assert_eq!(timer.pending_timeouts(), 0);
}

fn stop_races_with_insert(kind: Kind) {
    let rounds = if cfg!(miri) { 2 } else { 50 };
    for _ in 0..rounds {
        let timer = kind.real(ms(1));
        timer.start().unwrap();
        let queue = DelayQueue::new(&timer);
        let (inserted, refused) = thread::scope(|scope| {
            let inserter = scope.spawn(|| {
                let (mut inserted, mut refused) = (0, 0);
                while refused == 0 {
                    match queue.insert(inserted, FAR) {
                        Ok(_) => inserted += 1,
                        Err(_) => refused += 1,
                    }
                }
                (inserted, refused)
            });
            thread::yield_now();
            assert!(timer.stop().unwrap().is_empty());
            inserter.join().unwrap()
        });
        assert_eq!((queue.len(), refused), (inserted, 1));
        let mut left = queue.clear();
        left.sort_unstable();
        assert_eq!(left, (0..inserted).collect::<Vec<_>>());
        assert_counts_add_up(&timer);
    }
}

#[test]
fn it_can_be_sent_and_shared_if_its_values_can_be_sent() {
    fn check<T: Send + Sync + std::fmt::Debug>() {}
    fn is_clone<T: Clone>() {}
    fn is_send<T: Send>(_: T) {}
    check::<DelayQueue<Cell<u32>>>();
    check::<DelayKey>();
    is_clone::<DelayQueue<Cell<u32>>>();
    let timer = Kind::Hashed.on(&ManualClock::new());
    is_send(DelayQueue::<Cell<u32>>::new(&timer).next());
}

/// Takes a gigabyte: `cargo test --release --test delay_queue -- --ignored`.
#[test]
#[ignore = "takes a gigabyte and some seconds"]
fn ten_million_values() {
    check_many(10_000_000);
}

#[test]
fn very_many_values() {
    check_many(if cfg!(miri) { 1_000 } else { 300_000 });
}

fn check_many(many: u64) {
    let (clock, timer, queue) = queue(Kind::Hashed);
    let mut keys = Vec::new();
    for n in 0..many {
        let key = queue.insert(n, ms(10 + n % 1000)).unwrap();
        if n % 3 == 0 {
            keys.push(key);
        }
    }
    assert_eq!(queue.len() as u64, many);
    for key in &keys {
        assert!(queue.remove(key).is_some());
    }
    clock.advance(ms(500));
    let half = due(&queue).len();
    assert!(half > 0 && half + keys.len() < many as usize);
    assert_eq!(queue.clear().len() + half + keys.len(), many as usize);
    assert_counts_add_up(&timer);
}

#[cfg(feature = "stream")]
mod stream {
    use super::*;
    use futures_core::Stream;

    fn poll_next<T: Send>(
        stream: &mut hashed_wheel::DelayStream<T>,
        waker: &std::task::Waker,
    ) -> Poll<Option<T>> {
        Pin::new(stream).poll_next(&mut std::task::Context::from_waker(waker))
    }

    #[test]
    fn a_stream_gives_the_values_and_ends_with_the_timer() {
        let (clock, timer, queue) = queue(Kind::Hashed);
        let (woken, waker) = Wakes::new();
        let mut stream = queue.stream();
        queue.insert(1, ms(10)).unwrap();
        drop(queue);
        assert!(poll_next(&mut stream, &waker).is_pending());
        clock.advance(ms(10));
        assert_eq!(woken.get(), 1);
        assert_eq!(poll_next(&mut stream, &waker), Poll::Ready(Some(1)));
        assert!(poll_next(&mut stream, &waker).is_pending());
        timer.stop().unwrap();
        assert_eq!(woken.get(), 2);
        assert_eq!(poll_next(&mut stream, &waker), Poll::Ready(None));
        assert_eq!(poll_next(&mut stream, &waker), Poll::Ready(None));
    }

    #[test]
    fn a_dropped_stream_passes_its_wake_up_on() {
        let (clock, _timer, queue) = queue(Kind::Hashed);
        let (woken, waker) = Wakes::new();
        let (mut first, mut second) = (queue.stream(), queue.stream());
        assert!(poll_next(&mut first, std::task::Waker::noop()).is_pending());
        assert!(poll_next(&mut second, &waker).is_pending());
        queue.insert(1, ms(10)).unwrap();
        clock.advance(ms(10));
        assert_eq!(woken.get(), 0);
        drop(first);
        assert_eq!(woken.get(), 1);
        assert_eq!(poll_next(&mut second, &waker), Poll::Ready(Some(1)));
    }

    #[test]
    fn a_stream_can_be_sent_and_moved() {
        fn check<T: Send + Unpin + std::fmt::Debug + 'static>() {}
        check::<hashed_wheel::DelayStream<Cell<u32>>>();
    }
}

/// The cases of tokio-util's tests, in its terms: a tick of 1 ms, a consumer that polls and is woken.
mod tokio_util {
    use super::*;

    struct Bench {
        clock: ManualClock,
        timer: Timer,
        start: Instant,
        queue: DelayQueue<&'static str>,
        woken: Arc<Wakes>,
        waker: std::task::Waker,
    }

    impl Bench {
        fn new(kind: Kind) -> Bench {
            let clock = ManualClock::new();
            let timer = kind.builder().tick(ms(1)).clock(&clock).build();
            timer.start().unwrap();
            clock.advance(ms(100));
            let (woken, waker) = Wakes::new();
            let handle: &TimerHandle = &timer;
            Bench {
                start: timer.now(),
                queue: DelayQueue::new(handle),
                clock,
                timer,
                woken,
                waker,
            }
        }

        fn insert(&self, value: &'static str, at: u64) -> DelayKey {
            self.queue.insert_at(value, self.start + ms(at)).unwrap()
        }

        fn reset(&self, key: &DelayKey, at: u64) {
            assert!(self.queue.reset_at(key, self.start + ms(at)));
        }

        fn wait_until(&self, at: u64) {
            self.clock.advance((self.start + ms(at)) - self.timer.now());
        }

        /// Waits with a consumer; the value, if one comes before that time.
        fn consume_until(&self, at: u64) -> Option<&'static str> {
            let mut next = pin!(self.queue.next());
            let before = self.woken.get();
            if let Poll::Ready(value) = poll_with(next.as_mut(), &self.waker) {
                return value;
            }
            self.wait_until(at);
            let polled = poll_with(next, &self.waker);
            assert_eq!(polled.is_ready(), self.woken.get() > before, "woken for it");
            match polled {
                Poll::Ready(value) => value,
                Poll::Pending => None,
            }
        }
    }

    on_both_timers![
        immediate_delays,
        a_short_delay,
        many_delays,
        an_insert_in_the_past,
        a_removed_value_wakes_nobody,
        a_reset_value,
        resets_much_later_and_twice,
        resets_of_values_inserted_in_the_past,
        a_reset_to_the_past_wakes_the_consumer,
        a_removal_at_the_threshold_of_the_wheel,
        a_shorter_delay_after_a_longer_one,
        many_resets,
        resets_that_change_the_order,
        inserts_after_polls,
        resets_after_time_has_passed,
        an_emptied_queue,
        a_cleared_queue,
        a_delay_beyond_the_wheel,
    ];

    fn immediate_delays(kind: Kind) {
        let bench = Bench::new(kind);
        for value in ["1", "2", "3"] {
            bench.insert(value, 0);
        }
        bench.wait_until(1);
        let mut values = due(&bench.queue);
        values.sort_unstable();
        assert_eq!(values, ["1", "2", "3"]);
        assert_eq!(bench.consume_until(100), None);
    }

    fn a_short_delay(kind: Kind) {
        let bench = Bench::new(kind);
        bench.insert("foo", 5);
        assert_eq!(bench.consume_until(4), None);
        assert_eq!(bench.consume_until(5), Some("foo"));
        assert_eq!(bench.consume_until(100), None);
    }

    fn many_delays(kind: Kind) {
        let bench = Bench::new(kind);
        let delays = [1000, 2, 234, 262_144 + 9 * 4096, 60, 10];
        for delay in delays {
            bench.insert("one", delay);
        }
        // Miri has seen enough by then.
        for now in 1..=if cfg!(miri) { 70 } else { 1200 } {
            let wanted = delays.contains(&now).then_some("one");
            assert_eq!(bench.consume_until(now), wanted, "at {now}");
        }
        if !cfg!(miri) {
            assert_eq!(bench.consume_until(262_144 + 9 * 4096), Some("one"));
        }
    }

    fn an_insert_in_the_past(kind: Kind) {
        let bench = Bench::new(kind);
        bench.wait_until(10);
        bench.insert("foo", 0);
        assert_eq!(bench.consume_until(11), Some("foo"), "at the next tick");
        bench.insert("later", 200);
        assert_eq!(bench.consume_until(80), None);
        bench.insert("bar", 40);
        assert_eq!(bench.consume_until(81), Some("bar"));
    }

    fn a_removed_value_wakes_nobody(kind: Kind) {
        let bench = Bench::new(kind);
        let key = bench.insert("foo", 5);
        assert_eq!(bench.queue.remove(&key), Some("foo"));
        assert_eq!(bench.consume_until(10), None);
    }

    fn a_reset_value(kind: Kind) {
        let bench = Bench::new(kind);
        let key = bench.insert("foo", 5);
        assert_eq!(bench.consume_until(1), None);
        bench.reset(&key, 10);
        assert_eq!(bench.consume_until(9), None);
        assert_eq!(bench.consume_until(10), Some("foo"));
        assert!(bench.queue.is_empty());
    }

    fn resets_much_later_and_twice(kind: Kind) {
        let bench = Bench::new(kind);
        bench.wait_until(1);
        let key = bench.insert("foo", 200);
        bench.wait_until(4);
        bench.reset(&key, 10);
        assert_eq!(bench.consume_until(24), Some("foo"));
        let key = bench.insert("bar", 200);
        bench.reset(&key, 50);
        bench.wait_until(26);
        bench.reset(&key, 40);
        assert_eq!(bench.consume_until(39), None);
        assert_eq!(bench.consume_until(40), Some("bar"));
    }

    fn resets_of_values_inserted_in_the_past(kind: Kind) {
        let bench = Bench::new(kind);
        let past = bench.start.checked_sub(ms(100)).unwrap();
        let key = bench.queue.insert_at("foo", past).unwrap();
        bench.reset(&key, 100);
        bench.reset(&key, 50);
        assert_eq!(bench.queue.len(), 1);
        assert_eq!(bench.consume_until(49), None);
        assert_eq!(bench.consume_until(50), Some("foo"));
        assert_eq!(bench.queue.len(), 0);
    }

    fn a_reset_to_the_past_wakes_the_consumer(kind: Kind) {
        let bench = Bench::new(kind);
        let key = bench.insert("foo", 10_000);
        assert_eq!(bench.consume_until(1), None);
        let past = bench.start.checked_sub(ms(100)).unwrap();
        assert!(bench.queue.reset_at(&key, past));
        assert_eq!(bench.consume_until(2), Some("foo"), "at the next tick");
        assert_eq!(bench.consume_until(20_000), None);
    }

    fn a_removal_at_the_threshold_of_the_wheel(kind: Kind) {
        let bench = Bench::new(kind);
        let keys = ["foo", "bar"].map(|value| bench.insert(value, 64));
        bench.wait_until(63);
        assert_eq!(bench.queue.remove(&keys[1]), Some("bar"));
        assert_eq!(bench.consume_until(64), Some("foo"));
        assert_eq!(bench.consume_until(200), None);
    }

    fn a_shorter_delay_after_a_longer_one(kind: Kind) {
        let bench = Bench::new(kind);
        bench.insert("foo", 10_000);
        assert_eq!(bench.consume_until(1), None);
        bench.insert("bar", 600);
        assert_eq!(bench.consume_until(600), Some("bar"));
        assert_eq!(bench.consume_until(10_000), Some("foo"));
    }

    fn many_resets(kind: Kind) {
        let bench = Bench::new(kind);
        let (one, two) = (bench.insert("one", 200), bench.insert("two", 250));
        bench.reset(&one, 300);
        bench.reset(&two, 350);
        bench.reset(&one, 400);
        assert_eq!(bench.consume_until(310), None);
        assert_eq!(bench.consume_until(360), Some("two"));
        assert_eq!(bench.consume_until(399), None);
        assert_eq!(bench.consume_until(410), Some("one"));
        assert!(bench.queue.is_empty());
    }

    fn resets_that_change_the_order(kind: Kind) {
        for (first, to, order) in [
            (true, 100, ["one", "two"]),
            (false, 100, ["two", "one"]),
            (true, 300, ["two", "one"]),
        ] {
            let bench = Bench::new(kind);
            let keys = [bench.insert("one", 200), bench.insert("two", 250)];
            bench.reset(&keys[usize::from(!first)], to);
            assert_eq!(bench.consume_until(to.min(250)), Some(order[0]));
            assert_eq!(bench.consume_until(300), Some(order[1]));
        }
    }

    fn inserts_after_polls(kind: Kind) {
        let bench = Bench::new(kind);
        bench.insert("one", 200);
        assert_eq!(bench.consume_until(1), None);
        bench.insert("two", 100);
        assert_eq!(bench.consume_until(99), None);
        assert_eq!(bench.consume_until(100), Some("two"));
        // While values are being taken, others come.
        for value in ["1", "2", "3"] {
            bench.insert(value, 150);
        }
        bench.wait_until(150);
        for _ in 0..3 {
            assert_ne!(bench.queue.try_recv(), None);
            bench.insert("foo", 500);
        }
        assert_eq!(bench.queue.try_recv(), None);
        assert_eq!(bench.queue.len(), 4);
    }

    fn resets_after_time_has_passed(kind: Kind) {
        for first in [100, 200] {
            let bench = Bench::new(kind);
            let key = bench.insert("foo", first);
            assert_eq!(bench.consume_until(80), None);
            bench.reset(&key, 120);
            assert_eq!(bench.consume_until(119), None);
            assert_eq!(bench.consume_until(120), Some("foo"));
        }
    }

    fn an_emptied_queue(kind: Kind) {
        let bench = Bench::new(kind);
        let key = bench.insert("foo", 10_000);
        assert_eq!(bench.consume_until(1), None);
        bench.queue.remove(&key);
        assert!(bench.queue.is_empty());
        // Here an empty queue is not at its end: more may come.
        assert_eq!(bench.consume_until(20_000), None);
        bench.timer.stop().unwrap();
        assert_eq!(bench.queue.recv(), None);
    }

    fn a_cleared_queue(kind: Kind) {
        let bench = Bench::new(kind);
        bench.insert("foo", 1000);
        assert_eq!(bench.consume_until(1), None);
        assert_eq!(bench.queue.clear(), ["foo"]);
        assert_eq!(bench.consume_until(2000), None, "nor at its end");
        bench.insert("bar", 2010);
        assert_eq!(bench.consume_until(2010), Some("bar"));
    }

    fn a_delay_beyond_the_wheel(kind: Kind) {
        let bench = Bench::new(kind);
        let year = 365 * 86_400_000;
        let key = bench.insert("in three years", 3 * year);
        bench.insert("never", 1_000_000 * year);
        assert_eq!(bench.consume_until(3 * year - 1), None);
        bench.reset(&key, 4 * year);
        assert_eq!(bench.consume_until(4 * year), Some("in three years"));
    }
}
