//! Moments instead of delays: the same boundaries, whatever the moment.

mod common;

use std::pin::Pin;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use common::poll::{block_on, poll_once};
use common::{FAR, Kind, Record, assert_counts_add_up, ms, noting, on_both_timers, recv};
use hashed_wheel::{ManualClock, Period, RejectReason, TimeoutError, TimerState};

on_both_timers![
    a_moment_fires_where_the_delay_to_it_does,
    a_moment_is_kept_to_the_nanosecond,
    moments_count_on_the_clock_and_not_from_the_start,
    now_stands_still_with_the_manual_clock,
    a_moment_that_has_passed_counts_as_zero_delay,
    a_moment_before_the_start_fires_at_the_first_boundary,
    a_passed_moment_is_late_from_the_last_boundary_processed,
    a_moment_beyond_the_end_of_time_never_fires,
    a_task_schedules_for_a_moment_that_has_passed,
    reset_at_moves_it_earlier_and_later,
    reset_at_of_what_is_over_or_periodic_is_false,
    a_reset_within_the_tick_changes_the_deadline_alone,
    the_deadline_of_a_periodic_one_is_its_next_run,
    the_deadline_stays_when_it_is_over,
    a_rejected_moment_gives_the_task_back,
    sleep_until_ends_at_its_boundary_and_can_be_moved,
    with_timeout_at_shares_one_deadline,
    interval_at_begins_at_its_moment,
    real_moments_are_never_early,
    a_delay_counts_from_the_call_on_every_thread,
    a_real_moment_that_has_passed_fires,
    racing_resets_within_a_tick_fire_once_and_never_early,
];

fn a_moment_fires_where_the_delay_to_it_does(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    clock.advance(ms(7));
    timer.start().unwrap();
    clock.advance(ms(13));
    for delay in [0, 1, 7, 10, 13, 77, 80, 81, 5_000] {
        let by_moment = noting(&seen, &clock, delay);
        timer
            .new_timeout_at(by_moment, timer.now() + ms(delay))
            .unwrap();
        let by_delay = noting(&seen, &clock, delay);
        timer.new_timeout(by_delay, ms(delay)).unwrap();
    }
    clock.advance(ms(10_000));
    let seen = seen.take();
    assert_eq!(seen.len(), 18);
    for (delay, at) in seen {
        // Boundaries lie at 7 + 10 n; that of 17 has passed at 20.
        let expected = 7 + (13 + delay).div_ceil(10).max(2) * 10;
        assert_eq!(at, expected, "{delay}");
    }
    assert_counts_add_up(&timer);
}

fn a_moment_is_kept_to_the_nanosecond(kind: Kind) {
    for timer in [kind.real(ms(10)), kind.on(&ManualClock::new())] {
        let moment = timer.now() + Duration::new(60, 123_456_789);
        let timeout = timer.new_timeout_at(|_| {}, moment).unwrap();
        assert_eq!(timeout.deadline(), Some(moment));
        let moment = moment + Duration::from_nanos(1);
        assert!(timeout.reset_at(moment));
        assert_eq!(timeout.deadline(), Some(moment));
        assert_eq!(timer.sleep_until(moment).deadline(), Some(moment));
    }
}

fn moments_count_on_the_clock_and_not_from_the_start(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    let moment = timer.now() + ms(100);
    clock.advance(ms(55)); // not started yet
    assert_eq!(timer.state(), TimerState::Init);
    timer
        .new_timeout_at(noting(&seen, &clock, ()), moment)
        .unwrap();
    clock.advance(ms(100));
    assert_eq!(seen.take(), [((), 105)], "five ticks after the start at 55");
}

fn now_stands_still_with_the_manual_clock(kind: Kind) {
    let clock = ManualClock::new();
    let (timer, other) = (kind.on(&clock), kind.on(&clock));
    let before = timer.now();
    assert_eq!([timer.now(), other.now()], [before; 2]);
    assert!(before <= Instant::now(), "the clock was made before now");
    clock.advance(ms(1_234));
    assert_eq!(timer.now() - before, ms(1_234));
    clock.advance(Duration::MAX);
    assert_eq!(timer.now() - before, Duration::from_nanos(u64::MAX));
}

fn a_moment_that_has_passed_counts_as_zero_delay(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    timer.start().unwrap();
    clock.advance(ms(1_005));
    for ago in [0, 1, 5, 6, 500, 1_005] {
        let moment = timer.now().checked_sub(ms(ago)).unwrap();
        let timeout = timer
            .new_timeout_at(noting(&seen, &clock, ago), moment)
            .unwrap();
        assert!(timeout.remaining() <= ms(5), "{ago}");
    }
    assert_eq!(seen.len(), 0, "never inline");
    clock.advance(ms(4));
    assert_eq!(seen.len(), 0);
    clock.advance(ms(1));
    let seen = seen.take();
    assert_eq!(seen.len(), 6);
    assert!(seen.iter().all(|(_, at)| *at == 1_010), "{seen:?}");
}

fn a_moment_before_the_start_fires_at_the_first_boundary(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    clock.advance(ms(503));
    let timer = kind.on(&clock);
    let long_ago = timer.now().checked_sub(Duration::from_secs(10)).unwrap();
    let timeout = timer
        .new_timeout_at(noting(&seen, &clock, ()), long_ago)
        .unwrap();
    assert_eq!(timeout.remaining(), Duration::ZERO);
    clock.advance(ms(100));
    assert_eq!(seen.take(), [((), 513)]);
    assert_eq!(timer.stats().max_lateness, ms(10), "from time zero");
}

fn a_passed_moment_is_late_from_the_last_boundary_processed(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    clock.advance(ms(1_005));
    assert_eq!(timer.stats().tick, 100);
    timer
        .new_timeout_at(|_| {}, timer.now().checked_sub(ms(600)).unwrap())
        .unwrap();
    clock.advance(ms(10));
    assert_eq!(timer.stats().max_lateness, ms(10), "1000 to 1010");
    // Also after a reset into the past.
    let timeout = timer.new_timeout(|_| {}, FAR).unwrap();
    assert!(timeout.reset_at(timer.now().checked_sub(ms(600)).unwrap()));
    clock.advance(ms(10));
    assert!(timeout.is_expired());
    assert_eq!(timer.stats().max_lateness, ms(10), "1010 to 1020");
}

fn a_moment_beyond_the_end_of_time_never_fires(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    let end = timer.now() + Duration::from_nanos(u64::MAX);
    let mut never = vec![end, end + ms(1)];
    never.extend(end.checked_add(Duration::from_secs(1 << 40)));
    let timeouts: Vec<_> = never
        .iter()
        .map(|moment| timer.new_timeout_at(|_| {}, *moment).unwrap())
        .collect();
    let moved = timer.new_timeout(|_| {}, ms(50)).unwrap();
    assert!(moved.reset_at(end + ms(1)));
    clock.advance(Duration::MAX);
    for timeout in timeouts.iter().chain([&moved]) {
        assert!(!timeout.is_expired());
        assert_eq!(timeout.deadline(), None);
        assert_eq!(timeout.remaining(), Duration::MAX);
    }
    assert_eq!(timer.stop().unwrap().len(), timeouts.len() + 1);
}

fn a_task_schedules_for_a_moment_that_has_passed(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    timer.start().unwrap();
    let inner = noting(&seen, &clock, "inner");
    let outer = noting(&seen, &clock, "outer");
    let task = move |timeout: &hashed_wheel::Timeout| {
        outer(timeout);
        let timer = timeout.timer();
        let passed = timer.now().checked_sub(ms(30)).unwrap();
        timer.new_timeout_at(inner, passed).unwrap();
    };
    timer.new_timeout(task, ms(50)).unwrap();
    clock.advance(ms(1_000));
    assert_eq!(seen.take(), [("outer", 50), ("inner", 60)]);
}

fn reset_at_moves_it_earlier_and_later(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    timer.start().unwrap();
    let start = timer.now();
    let make = |label| {
        let task = noting(&seen, &clock, label);
        timer.new_timeout(task, ms(500)).unwrap()
    };
    let timeouts = ["later", "earlier", "at once"].map(make);
    clock.advance(ms(25));
    assert!(timeouts[0].reset_at(start + ms(705)));
    assert!(timeouts[1].reset_at(start + ms(42)));
    assert!(timeouts[2].reset_at(start));
    clock.advance(ms(1_000));
    let expected = [("at once", 30), ("earlier", 50), ("later", 710)];
    assert_eq!(seen.take(), expected);
    assert_eq!(timer.stats().resets, 3);
}

fn reset_at_of_what_is_over_or_periodic_is_false(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let fired = timer.new_timeout(|_| {}, ms(10)).unwrap();
    let cancelled = timer.new_timeout(|_| {}, ms(50)).unwrap();
    let rate = Period::FixedRate(ms(20));
    let periodic = timer.new_periodic(|_| {}, ms(20), rate).unwrap();
    cancelled.cancel();
    clock.advance(ms(10));
    for timeout in [&fired, &cancelled, &periodic] {
        assert!(!timeout.reset_at(timer.now() + ms(100)));
        assert!(!timeout.reset_at(timer.now()));
    }
    assert_eq!(timer.stats().resets, 0);
}

fn a_reset_within_the_tick_changes_the_deadline_alone(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    timer.start().unwrap();
    let start = timer.now();
    let task = noting(&seen, &clock, ());
    let timeout = timer.new_timeout_at(task, start + ms(45)).unwrap();
    for at in [41, 50, 47, 43] {
        assert!(timeout.reset_at(start + ms(at)));
        assert_eq!(timeout.deadline(), Some(start + ms(at)));
        assert_eq!(timeout.remaining(), ms(at));
    }
    assert_eq!(timer.stats().queued, 1, "no further entry");
    clock.advance(ms(49));
    assert_eq!(seen.len(), 0);
    clock.advance(ms(1));
    assert_eq!(seen.take(), [((), 50)]);
    assert_eq!(timer.stats().max_lateness, ms(7), "43 to 50");
    assert!(!timeout.reset_at(start + ms(43)), "it has fired");
    assert_eq!(timer.stats().resets, 4);
}

fn the_deadline_of_a_periodic_one_is_its_next_run(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    let start = timer.now();
    let rate = Period::FixedRate(ms(25));
    let timeout = timer.new_periodic(|_| {}, ms(15), rate).unwrap();
    assert_eq!(timeout.deadline(), Some(start + ms(15)));
    clock.advance(ms(20));
    assert_eq!(timeout.deadline(), Some(start + ms(40)));
    clock.advance(ms(30));
    assert_eq!(timeout.deadline(), Some(start + ms(65)));
}

fn the_deadline_stays_when_it_is_over(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let at = timer.now() + ms(35);
    let timeouts = [(); 3].map(|()| timer.new_timeout_at(|_| {}, at).unwrap());
    timeouts[0].cancel();
    assert_eq!(timeouts[0].deadline(), Some(at));
    clock.advance(ms(40));
    assert!(timeouts[1].is_expired());
    assert_eq!(timeouts[1].deadline(), Some(at));
    let later = timer.new_timeout_at(|_| {}, at + ms(100)).unwrap();
    timer.stop().unwrap();
    assert_eq!(later.deadline(), Some(at + ms(100)));
    assert_eq!(later.remaining(), ms(95));
}

fn a_rejected_moment_gives_the_task_back(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    timer.stop().unwrap();
    let given = String::from("back");
    let task = move |_: &_| drop(given);
    let rejected = timer.new_timeout_at(task, timer.now()).unwrap_err();
    assert!(matches!(rejected.reason, RejectReason::Stopped));
    drop(rejected.task);
    assert_eq!(timer.stats().rejected, 1);
}

fn sleep_until_ends_at_its_boundary_and_can_be_moved(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    let start = timer.now();
    let mut sleep = timer.sleep_until(start + ms(33));
    assert!(!sleep.is_elapsed());
    assert!(poll_once(Pin::new(&mut sleep)).is_pending());
    clock.advance(ms(39));
    assert!(!sleep.is_elapsed());
    clock.advance(ms(1));
    assert!(sleep.is_elapsed(), "before it is polled");
    assert!(poll_once(Pin::new(&mut sleep)).is_ready());
    assert!(sleep.is_elapsed());
    // One that is over, then one that waits, then into the past.
    sleep.reset_at(start + ms(100));
    assert!(!sleep.is_elapsed());
    assert_eq!(sleep.deadline(), Some(start + ms(100)));
    assert!(poll_once(Pin::new(&mut sleep)).is_pending());
    sleep.reset_at(start + ms(62));
    clock.advance(ms(30));
    assert!(sleep.is_elapsed(), "70");
    sleep.reset(ms(500));
    assert!(poll_once(Pin::new(&mut sleep)).is_pending());
    sleep.reset_at(start);
    clock.advance(ms(10));
    assert!(sleep.is_elapsed(), "80");
    let mut never = timer.sleep_until(start + Duration::from_nanos(u64::MAX));
    assert_eq!(never.deadline(), None);
    assert!(poll_once(Pin::new(&mut never)).is_pending());
    timer.stop().unwrap();
    assert!(!never.is_elapsed());
    assert!(poll_once(Pin::new(&mut never)).is_ready());
    assert!(!never.is_elapsed(), "ended with an error");
}

fn with_timeout_at_shares_one_deadline(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    let deadline = timer.now() + ms(50);
    let never = std::future::pending::<()>;
    let mut first = Box::pin(timer.with_timeout_at(never(), deadline));
    assert!(poll_once(first.as_mut()).is_pending());
    clock.advance(ms(45));
    let mut second = Box::pin(timer.with_timeout_at(never(), deadline));
    assert!(poll_once(second.as_mut()).is_pending());
    clock.advance(ms(5));
    for future in [first, second] {
        let ended = block_on(future);
        assert!(matches!(ended, Err(TimeoutError::Elapsed)));
    }
    let ready = timer.with_timeout_at(std::future::ready(7), deadline);
    assert_eq!(block_on(ready).unwrap(), 7, "whatever its deadline");
    assert_eq!(timer.stats().scheduled, 2, "and without a timer");
}

fn interval_at_begins_at_its_moment(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    clock.advance(ms(100));
    let poll = |interval: &mut hashed_wheel::Interval| {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        interval.poll_tick(&mut context).is_ready()
    };
    // In the future, now, and in the past: the phase is that of the first.
    for (first, ticks) in [
        (135, [140, 190, 240]),
        (100, [100, 150, 200]),
        (75, [100, 130, 180]),
        (95, [100, 150, 200]),
    ] {
        let first = (timer.now() + ms(first)).checked_sub(ms(100)).unwrap();
        let mut interval = timer.interval_at(first, ms(50));
        let mut seen = Vec::new();
        let local = ManualClock::new();
        let now = || 100 + u64::try_from(local.now().as_millis()).unwrap();
        while seen.len() < 3 {
            if poll(&mut interval) {
                seen.push(now());
            }
            assert!(now() < 1_000);
            clock.advance(ms(10));
            local.advance(ms(10));
        }
        assert_eq!(seen, ticks);
        // To a whole hundred again.
        let rest = 100 - common::now_ms(&clock) % 100;
        clock.advance(ms(rest));
    }
}

fn real_moments_are_never_early(kind: Kind) {
    let timer = kind.real(ms(1));
    let (told, heard) = mpsc::channel();
    for micros in (0..20_000).step_by(333) {
        let moment = Instant::now() + Duration::from_micros(micros);
        let told = told.clone();
        let task = move |timeout: &hashed_wheel::Timeout| {
            let now = Instant::now();
            told.send((moment, now, timeout.deadline())).unwrap();
        };
        timer.new_timeout_at(task, moment).unwrap();
    }
    for _ in (0..20_000).step_by(333) {
        let (moment, fired, deadline) = recv(&heard);
        assert!(fired >= moment);
        assert!(fired >= deadline.unwrap());
    }
    let moment = Instant::now() + ms(5);
    block_on(timer.sleep_until(moment)).unwrap();
    assert!(Instant::now() >= moment);
}

fn a_delay_counts_from_the_call_on_every_thread(kind: Kind) {
    // How far the deadline that is shown may be behind; the tick that it fires at is exact all the same.
    const LAG: Duration = Duration::from_micros(125);
    let timer = kind.real(ms(1));
    timer.start().unwrap();
    // The other thread's clock is read before, and its readings are handed over: what comes after them counts from later.
    let (ask, asked) = mpsc::channel::<Instant>();
    let (answer, answered) = mpsc::channel();
    let handle = timer.handle();
    let scheduling = thread::spawn(move || {
        while let Ok(before) = asked.recv() {
            let timeout = handle.new_timeout(|_| {}, FAR).unwrap();
            let after = Instant::now();
            answer.send((before, after, timeout)).unwrap();
        }
    });
    let start = Instant::now();
    while start.elapsed() < ms(50) {
        ask.send(Instant::now()).unwrap();
        let (before, after, timeout) = recv(&answered);
        let deadline = timeout.deadline().unwrap();
        assert!(deadline + LAG >= before + FAR);
        assert!(deadline <= after + FAR + LAG);
        assert!(timeout.remaining() <= FAR + LAG);
        assert!(timeout.cancel());
    }
    drop(ask);
    scheduling.join().unwrap();
}

fn a_real_moment_that_has_passed_fires(kind: Kind) {
    let timer = kind.real(ms(1));
    timer.start().unwrap();
    // The worker sleeps: nothing is pending.
    thread::sleep(ms(30));
    let (told, heard) = mpsc::channel();
    for ago in [ms(0), ms(1), ms(20), ms(100)] {
        let moment = Instant::now().checked_sub(ago).unwrap();
        let told = told.clone();
        timer
            .new_timeout_at(move |_| told.send(ago).unwrap(), moment)
            .unwrap();
        assert_eq!(recv(&heard), ago);
    }
    // One after it comes in its time.
    let (told, heard) = mpsc::channel();
    let moment = Instant::now() + ms(20);
    timer
        .new_timeout_at(move |_| told.send(Instant::now()).unwrap(), moment)
        .unwrap();
    assert!(recv(&heard) >= moment);
    assert_counts_add_up(&timer);
}

fn racing_resets_within_a_tick_fire_once_and_never_early(kind: Kind) {
    let timer = kind.real(ms(1));
    for _ in 0..200 {
        let (told, heard) = mpsc::channel();
        let moment = Instant::now() + ms(2);
        let task = move |_: &_| told.send(Instant::now()).unwrap();
        let timeout = timer.new_timeout_at(task, moment).unwrap();
        // True until it fires, and false from then on.
        let mut answers = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| while timeout.reset_at(moment) {});
            while !timeout.is_expired() {
                answers.push(timeout.reset_at(moment));
            }
        });
        assert!(recv(&heard) >= moment);
        assert!(heard.recv().is_err(), "it ran once, and its task is gone");
        let first_false = answers.iter().position(|moved| !moved);
        assert!(
            answers[first_false.unwrap_or(answers.len())..]
                .iter()
                .all(|moved| !moved)
        );
        assert!(!timeout.reset_at(moment));
    }
    assert_counts_add_up(&timer);
}
