//! What timers of this kind have failed at in the field, and the tests that would have caught it. The
//! tests that are named without a file are below; `the_table_names_tests_that_exist` reads this table.
//!
//! | failure on record | the tests that would have caught it |
//! |---|---|
//! | timers freeze when they have run for exactly 2^30 ms | `nothing_freezes_where_a_counter_of_milliseconds_ends`, `long_lives::short_timeouts_beside_a_far_one_cross_every_edge`, `far_deadlines::a_timer_that_runs_for_centuries_keeps_exact_time` |
//! | 32-bit counters of ticks end after 49 days | the same; `long_lives::a_slow_periodic_task_keeps_its_phase_for_a_century` |
//! | a wake-up is lost when the queue is in several parts, each with a lock of its own | `every_thread_wakes_a_worker_that_sleeps_for_long`, `wakeups::a_new_earlier_timeout_wakes_the_worker`, `loom_tests::a_push_while_the_worker_falls_asleep_is_seen_or_wakes_it`, `loom_tests::two_pushes_to_two_shards_wake_the_worker_and_the_earlier_is_on_time` |
//! | entries of cancelled timeouts are kept until their time comes, for years | `what_was_cancelled_is_not_kept_until_its_year_has_come`, `leftovers::adding_and_cancelling_in_the_wheel_leaves_nothing_to_grow`, `leftovers::resetting_to_and_fro_leaves_nothing_to_grow` |
//! | a cancelled task's memory is kept until the wheel comes round | `cancel::the_task_is_dropped_before_cancel_returns_on_the_calling_thread`, `netty_parity::cancel_releases_the_task` |
//! | pending timeouts are counted down twice | `a_timeout_that_many_end_at_once_is_counted_down_once`, `netty_parity::pending_timeouts_counted_correctly_when_cancelled_within_goal_tick`, `counting::random_schedules_always_add_up`, `models::both_timers_do_what_the_model_says` |
//! | a timeout that is added while the timer stops is lost | `stress::a_new_timeout_racing_with_stop_is_fired_returned_or_rejected`, `loom_tests::a_new_timeout_racing_with_stop_is_returned_or_rejected_never_both` |
//! | an add after the stop leaves the count too high | `stop::a_stopped_timer_accepts_nothing_and_leaks_no_count`, `counting::pending_is_zero_after_stop` |
//! | a callback that panics kills the timer's thread | `panics::the_real_worker_survives_a_panic`, `panics::a_payload_whose_own_drop_panics_is_contained` |
//! | a timer that is dropped runs on for ever | `handles::a_handle_does_not_keep_the_timer_alive`, `handles::a_task_that_holds_a_handle_is_no_cycle` |
//! | when the thread cannot be started, later callers hang | `start::after_a_failure_each_waiting_caller_tries_for_itself` |
//! | a stop from a task waits for itself | `stop::stop_from_a_task_is_refused_and_changes_nothing`, `handles::an_owner_dropped_in_its_own_task_does_not_deadlock` |
//! | a deadline on a boundary waits for a whole tick more | `fire::a_deadline_on_a_boundary_fires_at_that_boundary` |
//! | a timeout fires up to a tick early | `fire::every_delay_fires_at_its_rounded_up_boundary`, `fire::real_timeouts_are_never_early` |
//! | an idle timer wakes at every tick | `wakeups::nothing_pending_means_no_wake_up`, `wakeups::a_million_far_timeouts_mean_no_wake_up` |
//! | timeouts of later turns are walked over at every turn | `far_deadlines::a_far_timeout_costs_nothing_until_it_is_due` |
//! | more adds in a tick than can be filed are delayed out of order, or without end | `transfer_cap::one_more_than_a_hundred_thousand_takes_two_boundaries`, `transfer_cap::one_threads_order_is_kept_when_the_queue_overflows` |
//! | a short timeout after a long idle time travels through all levels | `hierarchical_timer::a_short_timeout_after_a_long_idle_time_does_not_travel` |
//! | a periodic task drifts, or makes up for what it has missed in a burst | `periodic::a_fixed_rate_keeps_its_unrounded_phase`, `periodic::a_held_up_worker_makes_no_burst` |
//! | a reset that races with the firing is early, or is lost | `reset::a_reset_that_returned_true_is_never_early`, `loom_tests::a_reset_that_returned_true_never_fires_at_the_old_tick` |
//! | the longest delay overflows and fires at once | `far_deadlines::the_longest_delay_never_fires`, `netty_parity::overflow` |

mod common;

use std::path::Path;
use std::sync::Barrier;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use common::{Count, FAR, Kind, Record, assert_counts_add_up, ms, noting, on_both_timers, recv};
use hashed_wheel::{ManualClock, Period, Timeout};

on_both_timers![
    nothing_freezes_where_a_counter_of_milliseconds_ends,
    every_thread_wakes_a_worker_that_sleeps_for_long,
    what_was_cancelled_is_not_kept_until_its_year_has_come,
    a_timeout_that_many_end_at_once_is_counted_down_once,
];

fn nothing_freezes_where_a_counter_of_milliseconds_ends(kind: Kind) {
    for end in [1_u64 << 30, 1 << 31, 1 << 32] {
        for tick in [1, 8] {
            for idle_until in [end - tick, end, end + tick] {
                let (clock, seen) = (ManualClock::new(), Record::new());
                let timer = kind.builder().tick(ms(tick)).clock(&clock).build();
                // One that is due at the very end, one as long after it, and one that comes again.
                for delay in [end, 2 * end] {
                    let task = noting(&seen, &clock, delay);
                    timer.new_timeout(task, ms(delay)).unwrap();
                }
                let beats = Count::new();
                let count = beats.clone();
                let beat = move |_: &Timeout| _ = count.add();
                let every = Period::FixedRate(ms(1 << 20));
                let heart = timer.new_periodic(beat, ms(1 << 20), every).unwrap();
                // Exactly so long, in one step and to the millisecond.
                clock.advance(ms(idle_until));
                seen.take();
                assert_eq!(beats.get() as u64, idle_until >> 20);
                for step in 1..=20 {
                    let deadline = idle_until + step * tick;
                    let task = noting(&seen, &clock, deadline);
                    timer.new_timeout(task, ms(tick)).unwrap();
                    clock.advance(ms(tick));
                    assert!(seen.take().contains(&(deadline, deadline)));
                }
                clock.advance(ms(2 * end - idle_until));
                assert_eq!(seen.take().last(), Some(&(2 * end, 2 * end)));
                assert!(heart.cancel());
                assert_eq!(timer.pending_timeouts(), 0);
                assert_counts_add_up(&timer);
            }
        }
    }
}

fn every_thread_wakes_a_worker_that_sleeps_for_long(kind: Kind) {
    const THREADS: u64 = 8;
    let timer = kind.real(ms(1));
    // What the worker sleeps for, if nobody wakes it.
    let far = timer.new_timeout(|_| {}, FAR).unwrap();
    let barrier = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (timer, barrier) = (&timer, &barrier);
            scope.spawn(move || {
                let timeout = timer.new_timeout(|_| {}, FAR).unwrap();
                for round in 0..40 {
                    // All at once, and each from its own part of the queue.
                    barrier.wait();
                    let (done, signal) = mpsc::channel();
                    let task = move |_: &Timeout| done.send(()).unwrap();
                    let delay = ms((thread + round) % 3);
                    if round % 2 == 0 {
                        timer.new_timeout(task, delay).unwrap();
                    } else {
                        // A reset has to wake the worker as well.
                        let late = timer.new_timeout(task, FAR).unwrap();
                        assert!(late.reset(delay));
                    }
                    recv(&signal);
                    assert!(!timeout.is_expired());
                }
                assert!(timeout.cancel());
            });
        }
    });
    assert!(!far.is_expired());
    assert_eq!(timer.stop().unwrap().len(), 1);
    assert_eq!(timer.stats().expired, THREADS * 40);
}

fn what_was_cancelled_is_not_kept_until_its_year_has_come(kind: Kind) {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
    const LIVE: u64 = 500;
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let held: Vec<_> = (0..LIVE)
        .map(|_| timer.new_timeout(|_| {}, 100 * YEAR).unwrap())
        .collect();
    let mut most = 0;
    for round in 0..300 {
        // Filed in the wheel before they are cancelled, decades before they are due.
        let add = |n: u32| {
            let delay = (10 + n % 50) * YEAR + ms(u64::from(n * round));
            timer.new_timeout(|_| {}, delay).unwrap()
        };
        let burst: Vec<_> = (0..LIVE as u32).map(add).collect();
        clock.advance(ms(10));
        assert!(burst.iter().all(Timeout::cancel));
        let stats = timer.stats();
        most = most.max(stats.queued + stats.filed);
    }
    // Not the 150 000 that were cancelled, but what lives and a constant.
    assert!(most < 4 * LIVE + 10_000, "{most} entries");
    assert_eq!(timer.pending_timeouts() as u64, LIVE);
    assert!(held.iter().all(|timeout| !timeout.is_expired()));
    assert_counts_add_up(&timer);
}

fn a_timeout_that_many_end_at_once_is_counted_down_once(kind: Kind) {
    const ROUNDS: u64 = 300;
    let timer = kind.builder().tick(ms(1)).max_pending(2).build();
    let far = timer.new_timeout(|_| {}, FAR).unwrap();
    let mut won = 0;
    for round in 0..ROUNDS {
        // The worker fires it while three threads cancel it: one of the four ends it.
        let timeout = timer.new_timeout(|_| {}, ms(round % 2)).unwrap();
        let cancels = thread::scope(|scope| {
            let threads = [0; 3].map(|_| scope.spawn(|| timeout.cancel()));
            threads.map(|thread| u64::from(thread.join().unwrap()))
        });
        let cancelled: u64 = cancels.iter().sum();
        common::eventually("it is over", || {
            timeout.is_expired() || timeout.is_cancelled()
        });
        assert_eq!(timeout.is_cancelled(), cancelled == 1);
        assert!(cancelled <= 1);
        won += cancelled;
        common::eventually("it is counted", || timer.pending_timeouts() == 1);
    }
    let stats = timer.stats();
    assert_eq!((stats.cancelled, stats.expired), (won, ROUNDS - won));
    assert_counts_add_up(&timer);
    assert!(far.cancel());
    assert_eq!(timer.pending_timeouts(), 0, "and never below");
}

#[test]
fn the_table_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let models: String = std::fs::read_dir(root.join("src/loom_tests"))
        .expect("the sources are there")
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    let own = include_str!("field_record.rs");
    let mut named = 0;
    for row in own.lines().filter(|line| line.starts_with("//! | ")) {
        for name in row.split('`').skip(1).step_by(2) {
            let (source, test) = match name.split_once("::") {
                Some(("loom_tests", test)) => (models.clone(), test),
                Some(("models", test)) => (read("tests/models/main.rs"), test),
                Some((file, test)) => (read(&format!("tests/{file}.rs")), test),
                None => (own.to_owned(), name),
            };
            assert!(
                source.contains(&format!("fn {test}(")),
                "there is no {name}"
            );
            named += 1;
        }
    }
    assert!(named > 40, "only {named} names were found in the table");
}
