//! Every public call with values at and beyond the ends of their ranges: nothing panics but where the
//! documentation says so, nothing hangs, and what is refused says why.
//!
//! The texts of the errors are in `error_texts`, the time of far deadlines is in `far_deadlines`.

mod common;

use std::future::pending;
use std::pin::{Pin, pin};
use std::thread;
use std::time::Duration;

use common::poll::{Wakes, poll_once, poll_with};
use common::shrink::{self, Case};
use common::{
    Builder, Count, Kind, Rng, Timer, assert_counts_add_up, in_thread, ms, on_both_timers, recv,
};
use hashed_wheel::{
    ConfigError, HashedWheelTimer, HierarchicalWheelTimer, Interval, ManualClock, Period,
    StartError, Timeout, TimeoutError, TimerHandle, TimerState,
};

on_both_timers![
    every_call_takes_every_delay_at_every_time,
    a_clock_at_its_end_stands_still,
    a_zero_interval_ticks_at_every_boundary,
    a_stopped_timer_answers_every_call,
    every_state_has_its_stats,
    names_of_any_kind_are_given_to_the_thread,
    a_name_that_no_system_takes_is_refused_unless_it_is_ignored,
];

const MAX_SLOTS: usize = 1 << 24;

/// At and around all the ends there are.
const DELAYS: [Duration; 11] = [
    Duration::ZERO,
    Duration::from_nanos(1),
    Duration::from_nanos(9_999_999),
    Duration::from_millis(10),
    Duration::from_nanos(10_000_001),
    Duration::from_nanos(u64::MAX >> 1),
    Duration::from_nanos(u64::MAX - 1),
    Duration::from_nanos(u64::MAX),
    Duration::new(18_446_744_073, 709_551_616),
    Duration::from_secs(u64::MAX),
    Duration::MAX,
];

/// Settings of a builder, any of which may be out of its range.
#[derive(Debug, Clone)]
struct Settings {
    kind: Kind,
    tick: Duration,
    slots: usize,
    max_pending: Option<usize>,
    max_transfers: Option<usize>,
    name: Option<String>,
}

impl Settings {
    fn build(&self) -> Result<(ManualClock, Timer), ConfigError> {
        let clock = ManualClock::new();
        let mut builder = self.kind.builder().tick(self.tick).buckets(self.slots);
        if let Some(max) = self.max_pending {
            builder = builder.max_pending(max);
        }
        if let Some(max) = self.max_transfers {
            builder = builder.max_transfers(max);
        }
        if let Some(name) = &self.name {
            builder = builder.thread_name(name);
        }
        Ok((clock.clone(), builder.clock(&clock).try_build()?))
    }

    /// All that is wrong with them.
    fn errors(&self) -> Vec<ConfigError> {
        let Settings { tick, slots, .. } = *self;
        let mut errors = Vec::new();
        if tick.is_zero() {
            errors.push(ConfigError::ZeroTick);
        }
        if self.max_pending == Some(0) {
            errors.push(ConfigError::ZeroMaxPendingTimeouts);
        }
        if self.max_transfers == Some(0) {
            errors.push(ConfigError::ZeroMaxTransfersPerTick);
        }
        if let Some(name) = self.name.clone().filter(|name| name.contains('\0')) {
            errors.push(ConfigError::ThreadName { name });
        }
        let (least, bad_slots) = match self.kind {
            Kind::Hashed => (1, ConfigError::Slots { slots }),
            Kind::Hierarchical => (2, ConfigError::WheelSize { wheel_size: slots }),
        };
        if !(least..=MAX_SLOTS).contains(&slots) {
            errors.push(bad_slots);
            return errors;
        }
        let slots = match self.kind {
            Kind::Hashed => slots.next_power_of_two(),
            Kind::Hierarchical => slots,
        };
        let turn = tick.as_nanos().checked_mul(slots as u128);
        if turn.is_none_or(|turn| u64::try_from(turn).is_err()) {
            errors.push(ConfigError::TickTooLong {
                tick_duration: tick,
                slots,
            });
        }
        errors
    }

    /// What is allowed works.
    fn try_out(&self, clock: &ManualClock, timer: &Timer) -> Result<(), String> {
        let runs = Count::new();
        let tick = self.tick.max(ms(1));
        let timeout = timer.new_timeout(runs.task(), tick);
        let timeout = timeout.map_err(|error| error.to_string())?;
        clock.advance(tick.saturating_sub(Duration::from_nanos(1)));
        let early = runs.get();
        clock.advance(Duration::from_nanos(1));
        let left = timer.stop().map_err(|error| error.to_string())?;
        let outcome = (early, runs.get(), timeout.is_expired(), left.len());
        // A tick of 2^64 ns less one lies where time saturates.
        let never = tick == Duration::from_nanos(u64::MAX);
        let expected = if never {
            (0, 0, false, 1)
        } else {
            (0, 1, true, 0)
        };
        if outcome != expected {
            return Err(format!("{outcome:?} instead of {expected:?}"));
        }
        Ok(())
    }
}

impl Case for Settings {
    fn random(random: &mut Rng) -> Settings {
        let kind = [Kind::Hashed, Kind::Hierarchical][random.below(2) as usize];
        let slots = match random.below(4) {
            0 => [0, 1, 2, 3, 5][random.below(5) as usize],
            1 => [MAX_SLOTS - 1, MAX_SLOTS, MAX_SLOTS + 1][random.below(3) as usize],
            2 => [usize::MAX, usize::MAX / 2 + 1, usize::MAX / 2 + 2][random.below(3) as usize],
            _ => (random.next() >> (38 + random.below(26))) as usize,
        };
        let longest = u64::MAX / slots.clamp(1, MAX_SLOTS) as u64;
        let tick = match random.below(4) {
            0 => DELAYS[random.below(DELAYS.len() as u64) as usize],
            1 => Duration::from_nanos(longest.saturating_add(random.below(3)).saturating_sub(1)),
            2 => Duration::from_nanos(999_999 + random.below(3)),
            _ => Duration::from_nanos(random.next() >> random.below(64)),
        };
        let limits = [None, None, Some(0), Some(1), Some(7), Some(usize::MAX)];
        let names = [
            "",
            "a",
            "\0",
            "nul\0inside",
            "ends with nul\0",
            "öπ☃",
            "two\nlines",
        ];
        Settings {
            kind,
            tick,
            slots,
            max_pending: limits[random.below(6) as usize],
            max_transfers: limits[random.below(6) as usize],
            name: match random.below(3) {
                0 => Some(names[random.below(7) as usize].to_owned()),
                1 => Some("long".repeat(random.below(2_000) as usize)),
                _ => None,
            },
        }
    }

    fn smaller(&self) -> Vec<Settings> {
        let usual = |change: fn(&mut Settings)| {
            let mut settings = self.clone();
            change(&mut settings);
            settings
        };
        let mut smaller = Vec::new();
        if self.name.is_some() {
            smaller.push(usual(|settings| settings.name = None));
        }
        if self.max_pending.is_some() {
            smaller.push(usual(|settings| settings.max_pending = None));
        }
        if self.max_transfers.is_some() {
            smaller.push(usual(|settings| settings.max_transfers = None));
        }
        if self.slots > 8 {
            smaller.push(usual(|settings| settings.slots = 8));
        }
        if self.tick > ms(10) {
            smaller.push(usual(|settings| settings.tick = ms(10)));
        }
        smaller
    }

    fn run(&self) -> Result<(), String> {
        match (self.build(), self.errors()) {
            (Ok((clock, timer)), errors) if errors.is_empty() => self.try_out(&clock, &timer),
            (Ok(_), errors) => Err(format!("taken in spite of {errors:?}")),
            (Err(error), errors) if errors.contains(&error) => Ok(()),
            (Err(error), errors) => Err(format!("{error:?} instead of one of {errors:?}")),
        }
    }
}

#[test]
fn settings_are_taken_or_refused_as_their_ranges_say() {
    shrink::check::<Settings>(&[], 2_000);
}

/// Not the timer of the test's own thread, so that a hang is a failure.
fn without_hanging(body: impl FnOnce() + Send + 'static) {
    let (done, panicked) = (in_thread(body), "see above");
    done.recv_timeout(common::WATCHDOG).expect(panicked);
}

fn every_call_takes_every_delay_at_every_time(kind: Kind) {
    without_hanging(move || {
        for now in [0, 1, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
            for first in DELAYS {
                for second in DELAYS {
                    call_everything(kind, Duration::from_nanos(now), first, second);
                }
            }
        }
    });
}

/// A future with that delay is ready at its first poll. A saturated deadline never comes.
fn is_over(now: Duration, delay: Duration) -> bool {
    delay.is_zero() && now < Duration::from_nanos(u64::MAX)
}

/// No answer of theirs is too much for anybody, and all is over when the timer stops.
fn call_everything(kind: Kind, now: Duration, first: Duration, second: Duration) {
    let clock = ManualClock::new();
    clock.advance(now);
    let timer = kind.on(&clock);
    let runs = Count::new();
    let once = timer.new_timeout(runs.task(), first).unwrap();
    let moved = timer.new_timeout(runs.task(), first).unwrap();
    assert!(moved.reset(second));
    let ends = now.saturating_add(second).as_nanos() < u128::from(u64::MAX);
    assert_eq!(moved.remaining(), if ends { second } else { Duration::MAX });
    let periodic = [Period::FixedRate(second), Period::FixedDelay(second)].map(|period| {
        let count = runs.clone();
        let task = move |_: &Timeout| _ = count.add();
        timer.new_periodic(task, first, period).unwrap()
    });
    let mut sleep = timer.sleep(first);
    assert_eq!(
        poll_once(Pin::new(&mut sleep)).is_ready(),
        is_over(now, first)
    );
    sleep.reset(second);
    // One that waits is moved, and woken at the next boundary.
    let moved_in_place = !is_over(now, first);
    let ready = poll_once(Pin::new(&mut sleep)).is_ready();
    assert_eq!(ready, is_over(now, second) && !moved_in_place);
    let mut slow = pin!(timer.with_timeout(pending::<()>(), first));
    let slow_is_over = poll_once(slow.as_mut()).is_ready();
    assert_eq!(slow_is_over, is_over(now, first));
    let mut interval = timer.interval(second);
    assert!(poll_once(pin!(interval.tick())).is_pending());
    let printed =
        format!("{once:?} {moved:?} {periodic:?} {sleep:?} {slow:?} {interval:?} {timer:?}");
    assert!(!printed.is_empty());
    assert_eq!(
        interval.period(),
        second.min(Duration::from_nanos(u64::MAX))
    );

    // Periodic tasks would keep a long way busy.
    clock.advance(ms(35));
    assert!(
        periodic
            .iter()
            .all(|periodic| !periodic.reset(first) && periodic.cancel())
    );
    drop(interval);
    clock.advance(first);
    clock.advance(second);
    clock.advance(Duration::MAX);
    assert_eq!(clock.now(), Duration::from_nanos(u64::MAX));
    assert_eq!(timer.stats().panicked, 0);
    assert_counts_add_up(&timer);
    let left = timer.stop().unwrap();
    let fired = [&once, &moved].map(Timeout::is_expired);
    assert_eq!(left.len(), fired.iter().filter(|fired| !**fired).count());
    assert!(poll_once(slow).is_ready() && poll_once(Pin::new(&mut sleep)).is_ready());
    assert_counts_add_up(&timer);
}

fn a_clock_at_its_end_stands_still(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    for by in [Duration::MAX, Duration::ZERO, Duration::MAX, ms(1)] {
        clock.advance(by);
        assert_eq!(clock.now(), Duration::from_nanos(u64::MAX));
    }
    let runs = Count::new();
    // Time has saturated, so every deadline has.
    let late = timer.new_timeout(runs.task(), Duration::ZERO).unwrap();
    assert_eq!(late.remaining(), Duration::MAX);
    clock.advance(Duration::MAX);
    assert_eq!(runs.get(), 0);
    let never_started = kind.on(&clock);
    assert_eq!(never_started.stop().unwrap().len(), 0);
    let left = timer.stop().unwrap();
    assert_eq!(left[0].remaining(), Duration::MAX);
}

fn a_zero_interval_ticks_at_every_boundary(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let mut interval = timer.interval(Duration::ZERO);
    let (woken, waker) = Wakes::new();
    let tick = |interval: &mut Interval| poll_with(pin!(interval.tick()), &waker).is_ready();
    for boundary in 1..=5 {
        assert!(!tick(&mut interval));
        clock.advance(ms(10));
        assert_eq!(woken.get(), boundary);
        assert!(tick(&mut interval));
    }
    assert_eq!(interval.period(), Duration::ZERO);
}

fn a_stopped_timer_answers_every_call(kind: Kind) {
    without_hanging(move || {
        for started in [false, true] {
            let clock = ManualClock::new();
            let timer = kind.on(&clock);
            if started {
                timer.new_timeout(|_| {}, Duration::MAX).unwrap();
            }
            let mut sleep = timer.sleep(Duration::MAX);
            assert_eq!(timer.stop().unwrap().len(), usize::from(started));
            for _ in 0..3 {
                assert!(timer.stop().unwrap().is_empty());
                assert!(matches!(timer.start(), Err(StartError::Stopped)));
                assert_eq!(timer.state(), TimerState::Shutdown);
                assert!(timer.new_timeout(|_| {}, Duration::MAX).is_err());
                let period = Period::FixedRate(Duration::ZERO);
                let again = |_: &Timeout| {};
                assert!(timer.new_periodic(again, Duration::ZERO, period).is_err());
                clock.advance(Duration::from_secs(1));
            }
            assert!(poll_once(Pin::new(&mut sleep)).is_ready());
            sleep.reset(Duration::ZERO);
            assert!(poll_once(Pin::new(&mut sleep)).is_ready());
            let mut interval = timer.interval(Duration::ZERO);
            assert!(poll_once(pin!(interval.tick())).is_ready());
            let slow = pin!(timer.with_timeout(pending::<()>(), Duration::ZERO));
            let ended = poll_once(slow);
            assert!(matches!(
                ended,
                std::task::Poll::Ready(Err(TimeoutError::Rejected(_)))
            ));
            let stats = timer.stats();
            assert_eq!((stats.rejected, stats.pending), (10, 0), "{stats:?}");
        }
    });
}

fn every_state_has_its_stats(kind: Kind) {
    let look = |timer: &TimerHandle, state: TimerState| {
        assert_eq!(timer.state(), state);
        let stats = timer.stats();
        assert!(stats.levels >= 1 && stats.bytes > 0, "{stats:?}");
        assert_eq!(stats.lateness.count(), stats.expired);
        assert!(stats.lateness.quantile(0.0) <= stats.lateness.quantile(1.0));
        assert!(!format!("{stats:?} {timer:?}").is_empty());
        assert_counts_add_up(timer);
        stats
    };
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let handle = timer.handle();
    assert_eq!(look(&handle, TimerState::Init).scheduled, 0);
    let timeout = timer.new_timeout(|_| {}, Duration::ZERO).unwrap();
    look(&handle, TimerState::Started);
    clock.advance(ms(10));
    assert_eq!(look(&handle, TimerState::Started).expired, 1);
    timer.new_timeout(|_| {}, Duration::MAX).unwrap();
    drop(timer);
    let stats = look(&handle, TimerState::Shutdown);
    assert_eq!((stats.expired, stats.unprocessed, stats.pending), (1, 1, 0));
    drop(handle);
    let of_last_handle = look(&timeout.timer(), TimerState::Shutdown);
    assert_eq!(of_last_handle.scheduled, 2);
}

#[test]
fn lateness_takes_every_part() {
    let clock = ManualClock::new();
    let timer = Kind::Hashed.on(&clock);
    timer.new_timeout(|_| {}, ms(3)).unwrap();
    clock.advance(ms(10));
    let lateness = timer.stats().lateness;
    let parts = [
        0.0,
        -1.0,
        0.5,
        1.0,
        2.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    for part in parts {
        let told = lateness.quantile(part);
        assert_eq!(told, ms(7), "of one value, at {part}");
    }
}

fn names_of_any_kind_are_given_to_the_thread(kind: Kind) {
    for name in ["", "a", "öπ☃", "two\nlines", &"long".repeat(1_000)] {
        let timer = kind.builder().tick(ms(1)).thread_name(name).build();
        let (tell, told) = std::sync::mpsc::channel();
        let task = move |_: &Timeout| {
            let own = thread::current().name().map(ToOwned::to_owned);
            tell.send(own).unwrap();
        };
        timer.new_timeout(task, Duration::ZERO).unwrap();
        assert_eq!(recv(&told).as_deref(), Some(name));
    }
}

fn a_name_that_no_system_takes_is_refused_unless_it_is_ignored(kind: Kind) {
    let named = || kind.builder().tick(ms(1)).thread_name("nul\0");
    assert!(matches!(
        named().try_build(),
        Err(ConfigError::ThreadName { .. })
    ));
    let spawn = |job| thread::Builder::new().spawn(job);
    let timer = named().thread_factory(spawn).build();
    let (tell, told) = std::sync::mpsc::channel();
    let task = move |_: &Timeout| tell.send(()).unwrap();
    timer.new_timeout(task, Duration::ZERO).unwrap();
    recv(&told);
}

#[test]
fn builders_print_whatever_they_are_told() {
    let hashed = HashedWheelTimer::builder()
        .tick_duration(Duration::MAX)
        .ticks_per_wheel(usize::MAX)
        .max_pending_timeouts(0)
        .thread_name("\0");
    let hierarchical = HierarchicalWheelTimer::builder().wheel_size(0);
    for text in [format!("{hashed:?}"), format!("{hierarchical:?}")] {
        assert!(text.contains("tick_duration"), "{text}");
    }
    assert!(Builder::Hashed(hashed).try_build().is_err());
    assert!(Builder::Hierarchical(hierarchical).try_build().is_err());
}

#[cfg(feature = "hyper")]
mod hyper {
    use super::{DELAYS, Duration, Kind, ManualClock, assert_counts_add_up, ms, poll_once};
    use hyper::rt::Timer as _;

    #[test]
    fn deadlines_of_any_kind_are_kept() {
        for kind in [Kind::Hashed, Kind::Hierarchical] {
            for now in [0, 1, u64::MAX / 2, u64::MAX] {
                let clock = ManualClock::new();
                clock.advance(Duration::from_nanos(now));
                let timer = kind.on(&clock);
                for delay in DELAYS {
                    // A clock at its end is not beyond a saturated deadline, which never comes.
                    let at_end = clock.now() == Duration::from_nanos(u64::MAX);
                    let mut sleep = hyper::rt::Timer::sleep(&*timer, delay);
                    let is_over = delay.is_zero() && !at_end;
                    assert_eq!(poll_once(sleep.as_mut()).is_ready(), is_over);
                    let ahead = timer.now().checked_add(delay);
                    let behind = timer.now().checked_sub(delay);
                    for deadline in [ahead, behind].into_iter().flatten() {
                        let now = timer.now();
                        let is_over = deadline < now || deadline == now && !at_end;
                        timer.reset(&mut sleep, deadline);
                        // One that waits is moved, and woken at the next boundary.
                        assert!(poll_once(sleep.as_mut()).is_pending() || is_over);
                        let mut until = hyper::rt::Timer::sleep_until(&*timer, deadline);
                        assert_eq!(poll_once(until.as_mut()).is_ready(), is_over);
                    }
                    clock.advance(ms(10));
                }
                clock.advance(Duration::MAX);
                assert_counts_add_up(&timer);
                timer.stop().unwrap();
                let mut late = hyper::rt::Timer::sleep_until(&*timer, timer.now());
                assert!(poll_once(late.as_mut()).is_ready());
            }
        }
    }
}
