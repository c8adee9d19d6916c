//! Slots that are used again while the pending queue or the wheel still refers to them: nothing is lost, late, doubled or out
//! of order, whoever uses them, and what is left behind stays small.

mod common;

use common::{
    Count, FAR, Kind, Record, Rng, assert_counts_add_up, eventually, ms, noting, now_ms,
    on_both_timers, recv,
};
use hashed_wheel::{ManualClock, Timeout};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

on_both_timers![
    slots_queued_by_one_thread_for_late_are_used_by_another_for_soon,
    near_and_far_timeouts_take_turns_in_a_slot,
    resets_of_a_shared_timeout_from_many_threads_end_with_the_last,
    what_is_cancelled_in_any_order_leaves_little_and_its_slots_are_good,
    a_burst_while_the_timer_thread_is_held_up_gives_its_memory_back,
    many_threads_that_end_leave_their_timeouts_behind,
    a_timeout_in_a_slot_that_is_looked_at_early_is_not_early,
];

const MANY: usize = if cfg!(miri) { 200 } else { 4_000 };

/// The first thread's numbers wait in its shard. The second one pushes nothing, and its timeouts are found all the same.
fn slots_queued_by_one_thread_for_late_are_used_by_another_for_soon(kind: Kind) {
    let timer = kind.real(ms(1));
    // Something to sleep for, so that the first thread wakes nobody.
    timer.new_timeout(|_| {}, ms(500)).unwrap();
    for _ in 0..5 {
        let handle = timer.handle();
        thread::spawn(move || {
            let far: Vec<_> = (0..MANY)
                .map(|_| handle.new_timeout(|_| {}, Duration::from_secs(30)).unwrap())
                .collect();
            assert!(far.iter().all(Timeout::cancel));
        })
        .join()
        .unwrap();
        let (handle, fired) = (timer.handle(), Count::new());
        let task_count = fired.clone();
        thread::spawn(move || {
            for _ in 0..MANY {
                handle.new_timeout(task_count.task(), ms(20)).unwrap();
            }
        })
        .join()
        .unwrap();
        eventually("all have fired", || fired.get() == MANY);
    }
}

fn near_and_far_timeouts_take_turns_in_a_slot(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    let mut random = Rng(7);
    let mut expected = Vec::new();
    for round in 0..2_000_u64 {
        // The same slot again and again, and now and then the timer thread comes in between.
        for delay in [30_000, 20, 500_000, 40] {
            let timeout = timer.new_timeout(|_| {}, ms(delay)).unwrap();
            if random.below(2) == 0 {
                clock.advance(ms(10));
            }
            assert!(timeout.cancel());
        }
        let delay = 10 * (1 + random.below(4));
        timer
            .new_timeout(noting(&seen, &clock, round), ms(delay))
            .unwrap();
        expected.push((round, now_ms(&clock) + delay));
        clock.advance(ms(delay));
        let stats = timer.stats();
        assert!(stats.queued + stats.filed < 5_000, "{stats:?}");
    }
    assert_eq!(seen.take(), expected);
    assert_counts_add_up(&timer);
}

fn resets_of_a_shared_timeout_from_many_threads_end_with_the_last(kind: Kind) {
    const RESETS: u64 = if cfg!(miri) { 20 } else { 2_000 };
    let timer = kind.real(ms(1));
    for round in 0..4 {
        let (fire, fired) = mpsc::channel();
        let shared = timer
            .new_timeout(move |_| fire.send(()).unwrap(), FAR)
            .unwrap();
        let shared = Arc::new(shared);
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let mut random = Rng(thread + 10 * round);
                    for _ in 0..RESETS {
                        let delay = Duration::from_secs(10 + random.below(1_000));
                        assert!(shared.reset(delay));
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(!shared.is_expired());
        assert!(shared.reset(ms(5)));
        recv(&fired);
    }
    assert_eq!(timer.stats().expired, 4);
}

fn what_is_cancelled_in_any_order_leaves_little_and_its_slots_are_good(kind: Kind) {
    type Order = fn(&mut Vec<Timeout>, &mut Rng);
    let (clock, fired) = (ManualClock::new(), Count::new());
    let timer = kind.on(&clock);
    let mut random = Rng(3);
    let orders: [Order; 4] = [
        |_, _| {},
        |all, _| all.reverse(),
        |all, random| {
            for place in (1..all.len()).rev() {
                let other = random.below(place as u64 + 1) as usize;
                all.swap(place, other);
            }
        },
        |all, _| {
            let (even, odd): (Vec<_>, Vec<_>) =
                all.drain(..).enumerate().partition(|(n, _)| n % 2 == 0);
            all.extend(even.into_iter().chain(odd).map(|(_, timeout)| timeout));
        },
    ];
    for (round, order) in orders.iter().cycle().take(12).enumerate() {
        let mut all: Vec<_> = (0..MANY)
            .map(|n| timer.new_timeout(|_| {}, ms(1_000 + 10 * (n as u64 % 100))))
            .map(Result::unwrap)
            .collect();
        if round % 3 != 0 {
            clock.advance(ms(10));
        }
        order(&mut all, &mut random);
        assert!(all.iter().all(Timeout::cancel));
        drop(all);
        for _ in 0..MANY {
            timer.new_timeout(fired.task(), ms(50)).unwrap();
        }
        clock.advance(ms(60));
        assert_eq!(fired.get(), MANY * (round + 1));
        let stats = timer.stats();
        assert!(
            stats.queued + stats.filed <= 2 * MANY as u64 + 4_096,
            "{stats:?}"
        );
    }
    assert_counts_add_up(&timer);
}

fn a_burst_while_the_timer_thread_is_held_up_gives_its_memory_back(kind: Kind) {
    const BURST: usize = if cfg!(miri) { 1_000 } else { 200_000 };
    let timer = kind.real(ms(1));
    let ((begin, is_held), (end, ended)) = (mpsc::channel(), mpsc::channel::<()>());
    timer
        .new_timeout(
            move |_| {
                begin.send(()).unwrap();
                recv(&ended);
            },
            ms(1),
        )
        .unwrap();
    recv(&is_held);
    // Live and cancelled ones mixed, and moved ones among them.
    let mut live = Vec::new();
    for n in 0..BURST {
        let timeout = timer.new_timeout(|_| {}, FAR).unwrap();
        if n % 3 == 0 {
            live.push(timeout);
        } else {
            assert!(timeout.reset(FAR / 2 + ms(1_000 - n as u64 % 1_000)) && timeout.cancel());
        }
    }
    let held = timer.stats();
    let used = (BURST / 3 + 1) as u64;
    // Each slot once in the queue, and each reset once more at most.
    assert!(held.queued <= used + BURST as u64 + 64, "{held:?}");
    assert!(
        held.bytes <= 64 * (used + 5_000) + 17 * 2 * BURST as u64 + 1_000_000,
        "{held:?}"
    );
    end.send(()).unwrap();
    assert!(live.iter().all(Timeout::cancel));
    drop(live);
    if cfg!(all(target_os = "linux", not(miri))) {
        // A wake-up a second, so that the timer thread sees that the burst is over.
        let (timer, task) = (&timer, |_: &Timeout| {});
        eventually("the memory is back", || {
            timer.new_timeout(task, ms(1)).unwrap();
            timer.stats().bytes < 2_000_000
        });
    }
}

fn many_threads_that_end_leave_their_timeouts_behind(kind: Kind) {
    const THREADS: usize = if cfg!(miri) { 20 } else { 10_000 };
    let (timer, fired) = (kind.real(ms(1)), Count::new());
    let mut running = Vec::new();
    for _ in 0..THREADS {
        let (timer, fired) = (timer.handle(), fired.clone());
        running.push(thread::spawn(move || {
            timer.new_timeout(fired.task(), ms(5)).unwrap();
            assert!(timer.new_timeout(|_| {}, FAR).unwrap().cancel());
        }));
        if running.len() == 50 {
            running.drain(..).for_each(|thread| thread.join().unwrap());
        }
    }
    for thread in running {
        thread.join().unwrap();
    }
    eventually("all have fired", || fired.get() == THREADS);
    let stats = timer.stats();
    assert_eq!(
        (stats.expired, stats.cancelled),
        (THREADS as u64, THREADS as u64)
    );
}

/// The wheel looks at the slot for the one that was cancelled.
fn a_timeout_in_a_slot_that_is_looked_at_early_is_not_early(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    for round in 0..100_u64 {
        let first = timer.new_timeout(|_| {}, ms(50)).unwrap();
        clock.advance(ms(10));
        assert!(first.cancel());
        drop(first);
        let begun = now_ms(&clock);
        let second = noting(&seen, &clock, round);
        let second = timer
            .new_timeout(second, ms(100 + 10 * (round % 7)))
            .unwrap();
        clock.advance(ms(100 + 10 * (round % 7) - 1));
        assert_eq!(seen.len(), 0);
        clock.advance(ms(1));
        let at = begun + 100 + 10 * (round % 7);
        assert_eq!(seen.take(), [(round, at)]);
        assert!(second.is_expired());
    }
}

/// Each of two threads has its own order at a boundary, whatever slots they use and whatever they have cancelled.
#[test]
fn each_threads_order_survives_the_use_of_slots_again() {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = Kind::Hashed.on(&clock);
    for round in 0..20 {
        let threads: Vec<_> = (0..2_u64)
            .map(|thread| {
                let (timer, seen, clock) = (timer.handle(), seen.clone(), clock.clone());
                thread::spawn(move || {
                    let mut random = Rng(thread + 2 * round);
                    let mut held = Vec::new();
                    // The second thread's count is far ahead.
                    for _ in 0..thread * 5_000 {
                        assert!(timer.new_timeout(|_| {}, FAR).unwrap().cancel());
                    }
                    for n in 0..500_u64 {
                        let task = noting(&seen, &clock, (thread, n));
                        timer.new_timeout(task, ms(50)).unwrap();
                        held.push(timer.new_timeout(|_| {}, ms(50)).unwrap());
                        if random.below(3) == 0 {
                            let place = random.below(held.len() as u64) as usize;
                            assert!(held.swap_remove(place).cancel());
                        }
                    }
                    for timeout in held {
                        timeout.cancel();
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        clock.advance(ms(50));
        let seen = seen.take();
        for thread in 0..2 {
            let of_thread = seen.iter().filter(|((of, _), _)| *of == thread);
            assert!(of_thread.map(|((_, n), _)| *n).eq(0..500), "{thread}");
        }
    }
}

/// With a cap, slots that wait in front hold what was scheduled last.
#[test]
fn under_a_cap_what_was_scheduled_first_fires_first_whatever_slot_it_has() {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = Kind::Hashed
        .builder()
        .max_transfers(7)
        .clock(&clock)
        .build();
    let first: Vec<_> = (0..50_u64)
        .map(|n| {
            let task = noting(&seen, &clock, n);
            timer.new_timeout(task, ms(0)).unwrap()
        })
        .collect();
    // Every other one is cancelled, and its slot used again.
    for (next, timeout) in (50..).zip(first.into_iter().step_by(2)) {
        assert!(timeout.cancel());
        drop(timeout);
        let task = noting(&seen, &clock, next);
        timer.new_timeout(task, ms(0)).unwrap();
    }
    clock.advance(ms(200));
    let order: Vec<_> = seen.take();
    let numbers = order.iter().map(|(n, _)| *n);
    assert!(numbers.eq((1..50).step_by(2).chain(50..75)), "{order:?}");
    for boundary in 1..=7 {
        let fired = order.iter().filter(|(_, at)| *at == boundary * 10);
        assert_eq!(fired.count(), 7);
    }
}

/// A loop that was told to sleep for ever is woken by a timeout whose slot the wheel would have looked at.
#[test]
fn a_loop_that_nothing_was_pending_for_is_woken_by_the_next_timeout() {
    for kind in [Kind::Hashed, Kind::Hierarchical] {
        let (timer, mut driver) = kind.builder().build_driven();
        let woken = Count::new();
        let hook = woken.clone();
        driver.on_wake(move || {
            hook.add();
        });
        let far: Vec<_> = (0..1_000)
            .map(|_| timer.new_timeout(|_| {}, FAR).unwrap())
            .collect();
        driver.turn();
        assert!(driver.next_due().is_some());
        assert!(far.iter().all(Timeout::cancel));
        drop(far);
        assert_eq!(driver.next_due(), None);
        let before = woken.get();
        timer.new_timeout(|_| {}, FAR * 2).unwrap();
        assert_eq!(woken.get(), before + 1);
        assert!(driver.next_due().is_some());
    }
}

/// It is scheduled for late, then moved to sooner, and moved on by each packet that comes in. A loop that sleeps takes nothing
/// meanwhile.
#[test]
fn a_timeout_that_is_moved_again_and_again_while_the_loop_sleeps_waits_once() {
    for kind in [Kind::Hashed, Kind::Hierarchical] {
        let (timer, mut driver) = kind.builder().tick(ms(1)).build_driven();
        timer.new_timeout(|_| {}, ms(10)).unwrap();
        assert!(driver.next_due().is_some());
        let handshake = timer.new_timeout(|_| {}, Duration::from_secs(200)).unwrap();
        for _ in 0..10_000 {
            assert!(handshake.reset(Duration::from_secs(95)));
        }
        assert!(timer.stats().queued <= 2, "{:?}", timer.stats());
    }
}
