//! Every error as people read it, word for word. Each is brought about in the way a program would: a
//! change of a text is a change of this file.

mod common;

use std::error::Error;
use std::fmt::Debug;
use std::future::pending;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use common::poll::poll_once;
use common::shrink::quiet;
use common::{Builder, FAR, Kind, Record, message_of, ms};
use hashed_wheel::{
    HashedWheelTimer, HierarchicalWheelTimer, ManualClock, RejectReason, StartError, StopError,
    Timeout, TimeoutError,
};

#[track_caller]
fn assert_reads<E: Error>(error: &E, display: &str, debug: &str) {
    assert_eq!(error.to_string(), display);
    assert_eq!(format!("{error:?}"), debug);
}

#[track_caller]
fn assert_refused(builder: Builder, display: &str, debug: &str) {
    let error = builder.try_build().expect_err("it is not allowed");
    assert_reads(&error, display, debug);
    assert!(error.source().is_none());
}

#[test]
fn settings_that_are_refused_say_the_value_and_the_range() {
    let [hashed, hierarchical] =
        [Kind::Hashed, Kind::Hierarchical].map(|kind| move || kind.builder());
    for builder in [hashed(), hierarchical()] {
        assert_refused(
            builder.tick(Duration::ZERO),
            "tick_duration is 0 ns; it must be at least 1 ns (below 1 ms it becomes 1 ms)",
            "ZeroTick",
        );
    }
    assert_refused(
        hashed().buckets(0),
        "ticks_per_wheel is 0; it must be between 1 and 16777216",
        "Slots { slots: 0 }",
    );
    assert_refused(
        hierarchical().buckets(1),
        "wheel_size is 1; it must be between 2 and 16777216",
        "WheelSize { wheel_size: 1 }",
    );
    assert_refused(
        hashed().buckets(500).tick(Duration::from_secs(1 << 40)),
        "tick_duration is 1099511627776s with 512 buckets; it must be at most 36028797.018963967s, so that \
         one revolution of the wheel fits in 2^64 ns",
        "TickTooLong { tick_duration: 1099511627776s, slots: 512 }",
    );
    for builder in [hashed(), hierarchical()] {
        assert_refused(
            builder.max_pending(0),
            &format!(
                "max_pending_timeouts is 0; it must be between 1 and {}",
                usize::MAX
            ),
            "ZeroMaxPendingTimeouts",
        );
    }
    for builder in [hashed(), hierarchical()] {
        assert_refused(
            builder.max_transfers(0),
            &format!(
                "max_transfers_per_tick is 0; it must be between 1 and {}",
                usize::MAX
            ),
            "ZeroMaxTransfersPerTick",
        );
    }
    for builder in [hashed(), hierarchical()] {
        assert_refused(
            builder.thread_name("wheel\0"),
            r#"thread_name is "wheel\0"; it may be any text without a NUL character"#,
            r#"ThreadName { name: "wheel\0" }"#,
        );
    }
}

#[test]
fn new_panics_with_the_text_of_the_error() {
    let text = |make: fn()| message_of(&*quiet(|| catch_unwind(make)).unwrap_err());
    assert_eq!(
        text(|| drop(HashedWheelTimer::new(ms(10), (1 << 24) + 1))),
        "ticks_per_wheel is 16777217; it must be between 1 and 16777216"
    );
    assert_eq!(
        text(|| drop(HierarchicalWheelTimer::new(ms(10), 0))),
        "wheel_size is 0; it must be between 2 and 16777216"
    );
}

#[test]
fn a_full_timer_says_its_limit() {
    let builder = Kind::Hashed.builder().max_pending(1);
    let timer = builder.clock(&ManualClock::new()).build();
    let _first = timer.new_timeout(|_| {}, FAR).unwrap();
    let rejected = timer.new_timeout(|_| {}, FAR).unwrap_err();
    let text = "as many timeouts are pending as max_pending_timeouts allows: 1";
    assert_reads(
        &rejected,
        text,
        "Rejected { reason: TooManyPending { max: 1 }, .. }",
    );
    let reason = RejectReason::from(rejected);
    assert_reads(&reason, text, "TooManyPending { max: 1 }");
    assert!(reason.source().is_none());
    let error = slept(poll_once(pin!(timer.with_timeout(pending::<()>(), FAR))));
    assert_reads(
        &error,
        &format!("the timeout could not be kept: {text}"),
        "Rejected(TooManyPending { max: 1 })",
    );
    let cause = error.source().expect("the reason");
    assert_eq!(cause.to_string(), text);
}

fn slept<T: Debug, E>(poll: Poll<Result<T, E>>) -> E {
    match poll {
        Poll::Ready(Err(error)) => error,
        Poll::Ready(Ok(value)) => panic!("{value:?}"),
        Poll::Pending => panic!("pending"),
    }
}

#[test]
fn a_stopped_timer_says_so() {
    let clock = ManualClock::new();
    let timer = Kind::Hashed.on(&clock);
    let mut waiting = pin!(timer.with_timeout(pending::<()>(), FAR));
    assert!(poll_once(waiting.as_mut()).is_pending());
    timer.stop().unwrap();
    let rejected = timer.new_timeout(|_| {}, FAR).unwrap_err();
    assert_reads(
        &rejected,
        "the timer has stopped",
        "Rejected { reason: Stopped, .. }",
    );
    assert_reads(
        &timer.start().unwrap_err(),
        "the timer has stopped and cannot be started again",
        "Stopped",
    );
    assert_reads(
        &slept(poll_once(waiting)),
        "the timeout could not be kept: the timer has stopped",
        "Rejected(Stopped)",
    );
    assert_reads(
        &slept(poll_once(pin!(timer.sleep(FAR)))),
        "the timer has stopped",
        "Stopped",
    );
}

#[test]
fn a_future_that_is_too_slow_has_elapsed() {
    let clock = ManualClock::new();
    let timer = Kind::Hashed.on(&clock);
    let mut slow = pin!(timer.with_timeout(pending::<()>(), ms(10)));
    assert!(poll_once(slow.as_mut()).is_pending());
    clock.advance(ms(10));
    let error: TimeoutError = slept(poll_once(slow));
    assert_reads(&error, "the deadline has elapsed", "Elapsed");
    assert!(error.source().is_none());
}

#[test]
fn a_thread_that_does_not_start_says_why() {
    let no_more = || io::Error::new(io::ErrorKind::WouldBlock, "no more threads");
    let failing = Kind::Hashed
        .builder()
        .thread_factory(move |_| Err(no_more()))
        .build();
    let text = "the timer thread could not be started: no more threads";
    let debug = r#"Spawn(Custom { kind: WouldBlock, error: "no more threads" })"#;
    let error = failing.start().unwrap_err();
    assert_reads(&error, text, debug);
    assert_eq!(error.source().unwrap().to_string(), "no more threads");
    let rejected = failing.new_timeout(|_| {}, FAR).unwrap_err();
    assert_eq!(rejected.source().unwrap().to_string(), "no more threads");
    assert_reads(&rejected.reason, text, debug);

    let dropping = Kind::Hashed.builder().thread_factory(|job| {
        drop(job);
        std::thread::Builder::new().spawn(|| {})
    });
    assert_reads(
        &dropping.build().start().unwrap_err(),
        "the timer thread could not be started: the thread factory dropped the job without running it",
        r#"Spawn(Custom { kind: Other, error: "the thread factory dropped the job without running it" })"#,
    );
}

#[test]
fn a_factory_that_calls_its_timer_is_told() {
    let (own, told) = (Record::<hashed_wheel::TimerHandle>::new(), Record::new());
    let (inside, note) = (own.clone(), told.clone());
    let timer = Kind::Hashed
        .builder()
        .thread_factory(move |job| {
            for timer in inside.take() {
                note.push(timer.start().unwrap_err().to_string());
            }
            std::thread::Builder::new().spawn(job)
        })
        .build();
    own.push(timer.handle());
    timer.start().unwrap();
    assert_eq!(
        told.take(),
        [
            "the timer thread could not be started: the thread factory called the timer that it was starting"
        ]
    );
}

#[test]
fn what_a_task_must_not_do_says_so() {
    let (clock, told) = (ManualClock::new(), Record::new());
    let timer = Kind::Hashed.on(&clock);
    let (inside, note) = (clock.clone(), told.clone());
    let task = move |timeout: &Timeout| {
        let error: StopError = timeout.timer().stop().unwrap_err();
        note.push((error.to_string(), format!("{error:?}")));
        let advance = AssertUnwindSafe(|| inside.advance(ms(1)));
        let payload = quiet(|| catch_unwind(advance)).unwrap_err();
        note.push((message_of(&*payload), String::new()));
    };
    timer.new_timeout(task, ms(10)).unwrap();
    clock.advance(ms(10));
    let told = told.take();
    assert_eq!(
        told[0],
        (
            "stop() was called on the timer thread, or while that was being started, and would have to \
             wait for itself"
                .to_owned(),
            "FromTimerThread".to_owned()
        )
    );
    assert_eq!(
        told[1].0,
        "ManualClock::advance was called by a task that runs on this clock"
    );
}

#[test]
fn an_error_can_be_handed_on_as_any_error() {
    fn start(timer: &common::Timer) -> Result<(), Box<dyn Error + Send + Sync>> {
        timer.start()?;
        timer.new_timeout(|_| {}, FAR)?;
        Ok(())
    }
    let timer = Kind::Hierarchical.on(&ManualClock::new());
    start(&timer).unwrap();
    timer.stop().unwrap();
    let error = start(&timer).unwrap_err();
    assert!(matches!(
        error.downcast_ref::<StartError>(),
        Some(StartError::Stopped)
    ));
}
