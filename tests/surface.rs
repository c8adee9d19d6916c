//! The public surface as programs see it: mostly checked by the compiler.

#![allow(clippy::let_underscore_future)] // only its type is looked at

mod common;

use std::error::Error;
use std::fmt::{Debug, Display};
use std::future::{Future, Ready, ready};
use std::rc::Rc;
use std::time::Duration;

use hashed_wheel::{
    ConfigError, HashedWheelTimer, HashedWheelTimerBuilder, HierarchicalWheelTimer,
    HierarchicalWheelTimerBuilder, Interval, Job, ManualClock, Period, RejectReason, Rejected,
    Sleep, StartError, Stats, StopError, Task, Timeout, TimeoutError, TimerHandle, TimerState,
    WithTimeout,
};

/// Compiles only if the type implements all of the traits.
macro_rules! assert_is {
    ($type:ty: $($bound:tt)+) => {
        const _: fn() = || {
            fn check<T: $($bound)+>() {}
            check::<$type>();
        };
    };
}

/// Compiles only if the type does not implement the trait: otherwise the call is ambiguous.
macro_rules! assert_is_not {
    ($type:ty: $bound:path) => {
        const _: fn() = || {
            trait Ambiguous<A> {
                fn check() {}
            }
            struct Marker;
            impl<T: ?Sized> Ambiguous<()> for T {}
            impl<T: ?Sized + $bound> Ambiguous<Marker> for T {}
            let _ = <$type as Ambiguous<_>>::check;
        };
    };
}

assert_is!(HashedWheelTimer: Send + Sync + Debug + Default + 'static);
assert_is_not!(HashedWheelTimer: Clone);
assert_is!(HierarchicalWheelTimer: Send + Sync + Debug + Default + 'static);
assert_is_not!(HierarchicalWheelTimer: Clone);
assert_is!(TimerHandle: Clone + Send + Sync + Debug + 'static);
assert_is!(Timeout: Send + Sync + Debug + 'static);
assert_is_not!(Timeout: Clone);
assert_is!(ManualClock: Clone + Send + Sync + Debug + Default + 'static);
assert_is!(TimerState: Debug + Clone + Copy + PartialEq + Eq + Send + Sync);
assert_is!(Period: Debug + Clone + Copy + PartialEq + Eq + Send + Sync);
assert_is!(Stats: Clone + Debug + Send + Sync + 'static);
assert_is!(ConfigError: Error + Send + Sync + 'static);
assert_is!(RejectReason: Error + Send + Sync + 'static);
assert_is!(StartError: Error + Send + Sync + 'static);
assert_is!(StopError: Error + Send + Sync + 'static);
assert_is!(TimeoutError: Error + Send + Sync + 'static);
assert_is!(Sleep: Send + 'static);
assert_is!(Sleep: Future<Output = Result<(), RejectReason>>);
assert_is!(Interval: Send + 'static);
assert_is!(WithTimeout<Ready<u8>>: Send + 'static);
assert_is!(WithTimeout<Ready<u8>>: Future<Output = Result<u8, TimeoutError>>);
assert_is!(WithTimeout<Ready<Rc<u8>>>: Future<Output = Result<Rc<u8>, TimeoutError>>);
assert_is_not!(WithTimeout<Ready<Rc<u8>>>: Send);

/// Neither bounds nor `'static`: the error of a refused task is an error for every task.
#[allow(dead_code)] // its compilation is the test
fn a_refused_task_is_an_error_whatever_the_task<F>() {
    fn check<T: Error + Debug + Display>() {}
    check::<Rejected<F>>();
}
assert_is!(Rejected<fn()>: Send + Sync + 'static);
assert_is_not!(Rejected<Rc<u8>>: Send);

/// The same calls on an owner and on a handle, without a trait in sight.
macro_rules! every_call {
    ($timer:expr) => {{
        let timer = $timer;
        let (): () = timer.start().unwrap();
        let state: TimerState = timer.state();
        assert_eq!(state, TimerState::Started);
        let timeout: Timeout = timer.new_timeout(|_| {}, common::FAR).unwrap();
        let period = Period::FixedDelay(common::FAR);
        let periodic: Timeout = timer
            .new_periodic(|_: &Timeout| {}, common::FAR, period)
            .unwrap();
        let handle: TimerHandle = timer.handle();
        let _: Sleep = timer.sleep(common::FAR);
        let _: WithTimeout<Ready<u8>> = timer.with_timeout(ready(1), common::FAR);
        let mut interval: Interval = timer.interval(common::FAR);
        is_send(interval.tick());
        assert_eq!(timer.pending_timeouts(), 2);
        let stats: Stats = timer.stats();
        assert_eq!((stats.scheduled, handle.pending_timeouts()), (2, 2));
        assert!(timeout.cancel() && periodic.cancel());
        let left: Result<Vec<Timeout>, StopError> = timer.stop();
        assert!(left.unwrap().is_empty());
    }};
}

fn is_send<F: Future<Output = Result<(), RejectReason>> + Send>(_: F) {}

#[test]
fn owners_and_handles_have_the_same_calls() {
    every_call!(HashedWheelTimer::default());
    every_call!(HierarchicalWheelTimer::default());
    let owner = HashedWheelTimer::new(Duration::from_millis(100), 512);
    every_call!(owner.handle());
    let owner = HierarchicalWheelTimer::new(Duration::from_millis(1), 20);
    every_call!(owner.handle());
    let owner = HashedWheelTimer::default();
    every_call!(&owner);
}

#[test]
fn the_example_of_the_documentation_works() -> Result<(), Box<dyn Error>> {
    let timer = HashedWheelTimer::new(Duration::from_millis(100), 512);
    let timeout = timer.new_timeout(|_| println!("hello"), Duration::from_secs(3))?;
    timeout.cancel();
    let mut unprocessed = 0;
    for left in timer.stop()? {
        assert!(left.is_cancelled());
        unprocessed += 1;
    }
    assert_eq!(unprocessed, 0, "it was cancelled");
    assert!(timeout.is_cancelled());
    Ok(())
}

#[test]
fn both_builders_take_every_setting_by_value() {
    fn spawn(job: Job) -> std::io::Result<std::thread::JoinHandle<()>> {
        std::thread::Builder::new().spawn(job)
    }
    let clock = ManualClock::new();
    let hashed: HashedWheelTimerBuilder = HashedWheelTimer::builder();
    let hashed: Result<HashedWheelTimer, ConfigError> = hashed
        .tick_duration(Duration::from_millis(10))
        .ticks_per_wheel(64)
        .max_pending_timeouts(10)
        .max_transfers_per_tick(100)
        .thread_name("a name")
        .thread_name(String::from("another"))
        .thread_factory(spawn)
        .executor(|job: Job| job())
        .clock(&clock)
        .build();
    let hierarchical: HierarchicalWheelTimerBuilder = HierarchicalWheelTimer::builder();
    let hierarchical: Result<HierarchicalWheelTimer, ConfigError> = hierarchical
        .tick_duration(Duration::from_millis(10))
        .wheel_size(64)
        .max_pending_timeouts(10)
        .max_transfers_per_tick(100)
        .thread_name("a name")
        .thread_factory(spawn)
        .executor(|job: Job| job())
        .clock(&clock)
        .build();
    assert!(hashed.is_ok() && hierarchical.is_ok());
}

#[test]
fn a_rejection_gives_its_parts_away_and_prints_its_reason() {
    fn with_reason(timer: &TimerHandle) -> Result<Timeout, RejectReason> {
        Ok(timer.new_timeout(|_| {}, Duration::ZERO)?)
    }
    let timer = HashedWheelTimer::default();
    timer.stop().unwrap();
    let text = String::from("captured");
    let rejected = timer
        .new_timeout(move |_| drop(text), Duration::ZERO)
        .unwrap_err();
    let (shown, debug) = (rejected.to_string(), format!("{rejected:?}"));
    let Rejected { task, reason } = rejected;
    assert_eq!(shown, reason.to_string());
    assert!(debug.contains("Stopped"), "{debug}");
    let boxed: Task = Box::new(task);
    drop(boxed);
    assert!(matches!(
        with_reason(&timer.handle()),
        Err(RejectReason::Stopped)
    ));
}

#[test]
fn every_error_says_something_of_its_own() {
    let broken = || std::io::Error::other("no more threads");
    let errors: Vec<Box<dyn Error + Send + Sync>> = vec![
        Box::new(RejectReason::Stopped),
        Box::new(RejectReason::TooManyPending { max: 12_345 }),
        Box::new(RejectReason::Spawn(broken())),
        Box::new(StopError::FromTimerThread),
        Box::new(TimeoutError::Elapsed),
    ];
    let mut texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert!(texts[1].contains("12345"), "{}", texts[1]);
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), errors.len(), "{texts:?}");
    assert!(texts.iter().all(|text| !text.is_empty()));
    // The cause is in the message or behind it.
    let spawns: [&dyn Error; 2] = [&RejectReason::Spawn(broken()), &StartError::Spawn(broken())];
    for error in spawns {
        let cause = error.source().map(ToString::to_string).unwrap_or_default();
        assert!(
            format!("{error} {cause}").contains("no more threads"),
            "{error}"
        );
    }
    assert!(!StartError::Stopped.to_string().is_empty());
    assert!(
        !TimeoutError::Rejected(RejectReason::Stopped)
            .to_string()
            .is_empty()
    );
}

#[test]
fn everything_can_be_printed() {
    let clock = ManualClock::new();
    let hashed = HashedWheelTimer::builder().clock(&clock).build().unwrap();
    let hierarchical = HierarchicalWheelTimer::builder()
        .clock(&clock)
        .build()
        .unwrap();
    let timeout = hashed.new_timeout(|_| {}, Duration::from_secs(1)).unwrap();
    let printed: [&dyn Debug; 6] = [
        &clock,
        &hashed,
        &hierarchical,
        &hashed.handle(),
        &timeout,
        &hashed.stats(),
    ];
    assert!(
        printed
            .iter()
            .all(|item| !format!("{item:?} {item:#?}").trim().is_empty())
    );
    let before = format!("{timeout:?}");
    clock.advance(Duration::from_secs(1));
    assert!(timeout.is_expired());
    assert_ne!(format!("{timeout:?}"), before, "it tells its state");
}

#[test]
fn handles_and_futures_are_small() {
    assert!(size_of::<Timeout>() <= 4 * size_of::<usize>());
    assert!(size_of::<Option<TimerHandle>>() <= 2 * size_of::<usize>());
    assert!(size_of::<Sleep>() <= 128, "{}", size_of::<Sleep>());
    assert!(size_of::<Interval>() <= 256, "{}", size_of::<Interval>());
    assert!(size_of::<WithTimeout<Ready<u8>>>() <= 160);
}
