//! Sleep, timeout and interval, polled by hand: no runtime is needed and nothing hangs.

mod common;

use std::future::{Future, IntoFuture, pending, ready};
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};
use std::time::{Duration, Instant};

use common::poll::{Wakes, block_on, poll_once, poll_with};
use common::{Count, FAR, Guard, Kind, assert_counts_add_up, ms, on_both_timers};
use hashed_wheel::{ManualClock, RejectReason, Timeout, TimeoutError, TimerHandle, TimerState};

on_both_timers![
    a_sleep_is_armed_by_its_first_poll_and_counts_from_its_making,
    a_future_whose_deadline_has_passed_is_ready_at_its_first_poll,
    a_passed_deadline_on_a_stopped_timer_is_an_error,
    a_sleep_polled_with_another_waker_in_its_own_boundary_is_not_late,
    a_refused_future_keeps_its_error,
    a_sleep_wakes_the_last_waker_it_was_polled_with,
    a_dropped_sleep_is_cancelled_and_lets_go_of_its_waker,
    a_sleep_of_a_stopped_timer_ends_with_an_error,
    a_sleep_of_a_dropped_timer_ends_with_an_error,
    a_sleep_that_is_refused_ends_with_the_reason,
    a_sleep_for_ever_is_ended_by_stop,
    a_ready_future_costs_no_timer,
    a_future_that_takes_too_long_is_elapsed,
    a_future_that_comes_in_time_is_handed_through,
    a_dropped_timeout_drops_its_future_and_its_timer,
    a_timeout_of_a_stopped_timer_is_rejected,
    anything_that_becomes_a_future_can_have_a_timeout,
    a_waker_may_call_the_timer_and_drop_the_future,
    a_waker_that_panics_does_not_take_the_worker_down,
    real_futures_are_never_early,
    a_waker_that_stop_wakes_finds_nothing_pending,
    futures_tell_what_they_wait_for,
];

fn a_sleep_is_armed_by_its_first_poll_and_counts_from_its_making(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    let mut sleep = pin!(timer.sleep(ms(100)));
    assert_eq!(timer.stats().scheduled, 0);
    clock.advance(ms(45));
    let (woken, waker) = Wakes::new();
    assert!(poll_with(sleep.as_mut(), &waker).is_pending());
    assert_eq!((timer.stats().scheduled, timer.pending_timeouts()), (1, 1));
    clock.advance(ms(54));
    assert!(poll_with(sleep.as_mut(), &waker).is_pending());
    assert_eq!(
        (woken.get(), timer.stats().scheduled),
        (0, 1),
        "one timer for all polls"
    );
    clock.advance(ms(1));
    assert_eq!(woken.get(), 1, "100 ms after the call that made it");
    assert!(matches!(poll_with(sleep, &waker), Poll::Ready(Ok(()))));
    assert_eq!(timer.stats().expired, 1);
    assert_counts_add_up(&timer);
}

fn a_future_whose_deadline_has_passed_is_ready_at_its_first_poll(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.builder().max_pending(1).clock(&clock).build();
    // Not even started.
    let slept = poll_once(pin!(timer.sleep(Duration::ZERO)));
    assert!(matches!(slept, Poll::Ready(Ok(()))));
    let mut sleep = pin!(timer.sleep(ms(10)));
    let mut too_late = pin!(timer.with_timeout(pending::<()>(), ms(10)));
    let mut in_time = pin!(timer.with_timeout(ready(7), ms(10)));
    clock.advance(ms(10));
    assert!(matches!(poll_once(sleep.as_mut()), Poll::Ready(Ok(()))));
    assert!(sleep.is_elapsed());
    assert!(matches!(poll_once(sleep.as_mut()), Poll::Ready(Ok(()))));
    let elapsed = poll_once(too_late.as_mut());
    assert!(matches!(elapsed, Poll::Ready(Err(TimeoutError::Elapsed))));
    assert!(matches!(poll_once(in_time.as_mut()), Poll::Ready(Ok(7))));
    assert_eq!(timer.state(), TimerState::Init);
    assert_eq!((timer.stats().scheduled, timer.stats().rejected), (0, 0));
    // Between two boundaries, and with the limit reached.
    let waits = timer.new_timeout(|_| {}, FAR).unwrap();
    let mut sleep = pin!(timer.sleep(ms(3)));
    let mut longer = pin!(timer.sleep(ms(4)));
    clock.advance(ms(3));
    assert!(matches!(poll_once(sleep.as_mut()), Poll::Ready(Ok(()))));
    assert!(matches!(poll_once(longer.as_mut()), Poll::Ready(Err(_))));
    sleep.reset(Duration::ZERO);
    assert!(matches!(poll_once(sleep.as_mut()), Poll::Ready(Ok(()))));
    assert!(waits.cancel());
    assert_counts_add_up(&timer);
    // On the system's clock: a moment that `now` has told has passed.
    let real = kind.real(ms(1));
    for _ in 0..1000 {
        assert!(poll_once(pin!(real.sleep_until(real.now()))).is_ready());
        assert!(poll_once(pin!(real.sleep(Duration::ZERO))).is_ready());
    }
    assert_eq!(real.state(), TimerState::Init);
}

fn a_passed_deadline_on_a_stopped_timer_is_an_error(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    timer.stop().unwrap();
    for delay in [Duration::ZERO, FAR] {
        let slept = poll_once(pin!(timer.sleep(delay)));
        assert!(matches!(slept, Poll::Ready(Err(RejectReason::Stopped))));
        let limited = poll_once(pin!(timer.with_timeout(pending::<()>(), delay)));
        let stopped = TimeoutError::Rejected(RejectReason::Stopped).to_string();
        assert!(matches!(limited, Poll::Ready(Err(error)) if error.to_string() == stopped));
    }
}

fn a_sleep_polled_with_another_waker_in_its_own_boundary_is_not_late(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let sleep = Arc::new(Mutex::new(timer.sleep(ms(10))));
    let (polled, answer) = (Arc::clone(&sleep), Arc::new(Mutex::new(None)));
    let (woken, waker) = Wakes::new();
    let noted = Arc::clone(&answer);
    // Scheduled before the sleep is armed, so that it runs before it at the same boundary.
    let poll = move |_: &Timeout| {
        let mut sleep = polled.lock().unwrap();
        *noted.lock().unwrap() = Some(poll_with(Pin::new(&mut *sleep), &waker).is_ready());
    };
    timer.new_timeout(poll, ms(10)).unwrap();
    assert!(poll_once(Pin::new(&mut *sleep.lock().unwrap())).is_pending());
    clock.advance(ms(10));
    let ready = answer.lock().unwrap().expect("the task has run");
    assert!(ready || woken.get() == 1, "at 10 ms, not at 20");
    assert!(poll_once(Pin::new(&mut *sleep.lock().unwrap())).is_ready());
    assert!(sleep.lock().unwrap().is_elapsed());
    assert_eq!((timer.pending_timeouts(), timer.stats().expired), (0, 2));
    assert_counts_add_up(&timer);
}

fn a_refused_future_keeps_its_error(kind: Kind) {
    let clock = ManualClock::new();
    let limited = kind.builder().max_pending(1).clock(&clock).build();
    let waits = limited.new_timeout(|_| {}, FAR).unwrap();
    let mut sleep = pin!(limited.sleep(ms(10)));
    let mut timeout = pin!(limited.with_timeout(pending::<()>(), ms(10)));
    let full = |reason: &RejectReason| matches!(reason, RejectReason::TooManyPending { max: 1 });
    for _ in 0..3 {
        assert!(matches!(poll_once(sleep.as_mut()), Poll::Ready(Err(reason)) if full(&reason)));
        let limit = poll_once(timeout.as_mut());
        assert!(matches!(limit, Poll::Ready(Err(TimeoutError::Rejected(reason))) if full(&reason)));
        assert!(!sleep.is_elapsed());
        // Not even when there is room, and its time has come.
        waits.cancel();
        clock.advance(ms(10));
    }
    assert_eq!(limited.stats().rejected, 2);
    sleep.reset(ms(10));
    assert!(poll_once(sleep.as_mut()).is_pending(), "it begins anew");

    for error in [
        io::Error::from_raw_os_error(11),
        io::Error::other("no thread"),
    ] {
        let (kind_of, text) = (error.kind(), error.to_string());
        let error = Mutex::new(Some(error));
        let factory = move |_| Err(error.lock().unwrap().take().expect("asked once"));
        let broken = kind.builder().thread_factory(factory).build();
        let mut sleep = pin!(broken.sleep(FAR));
        for _ in 0..3 {
            let Poll::Ready(Err(RejectReason::Spawn(error))) = poll_once(sleep.as_mut()) else {
                panic!("another answer")
            };
            assert_eq!((error.kind(), error.to_string()), (kind_of, text.clone()));
        }
    }
}

fn a_sleep_wakes_the_last_waker_it_was_polled_with(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let mut sleep = pin!(timer.sleep(ms(50)));
    let [first, second, last] = [0, 1, 2].map(|_| Wakes::new());
    for (_, waker) in [&first, &second, &last] {
        assert!(poll_with(sleep.as_mut(), waker).is_pending());
        clock.advance(ms(10));
    }
    clock.advance(ms(20));
    assert_eq!(
        [first.0, second.0, last.0].map(|woken| woken.get()),
        [0, 0, 1]
    );
    assert!(poll_once(sleep).is_ready());
}

fn a_dropped_sleep_is_cancelled_and_lets_go_of_its_waker(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let (woken, waker) = Wakes::new();
    let mut sleep = Box::pin(timer.sleep(ms(50)));
    assert!(poll_with(sleep.as_mut(), &waker).is_pending());
    drop(waker);
    assert!(Arc::strong_count(&woken) > 1, "it holds the waker");
    drop(sleep);
    assert_eq!((timer.stats().cancelled, timer.pending_timeouts()), (1, 0));
    assert_eq!(Arc::strong_count(&woken), 1);
    clock.advance(ms(100));
    assert_eq!(woken.get(), 0);
    drop(timer.sleep(ms(50)));
    assert_eq!(
        timer.stats().scheduled,
        1,
        "one that was never polled was never armed"
    );
    assert_counts_add_up(&timer);
}

fn a_sleep_of_a_stopped_timer_ends_with_an_error(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let (woken, waker) = Wakes::new();
    let (mut polled, mut fresh) = (pin!(timer.sleep(ms(50))), pin!(timer.sleep(ms(50))));
    assert!(poll_with(polled.as_mut(), &waker).is_pending());
    assert!(timer.stop().unwrap().is_empty(), "futures are not returned");
    assert_eq!((timer.stats().unprocessed, woken.get()), (1, 1));
    for sleep in [polled.as_mut(), fresh.as_mut()] {
        let Poll::Ready(Err(reason)) = poll_once(sleep) else {
            panic!("it hangs")
        };
        assert!(matches!(reason, RejectReason::Stopped), "{reason}");
    }
    assert!(matches!(
        block_on(timer.sleep(ms(0))),
        Err(RejectReason::Stopped)
    ));
    assert_counts_add_up(&timer);
}

fn a_sleep_of_a_dropped_timer_ends_with_an_error(kind: Kind) {
    let timer = kind.real(ms(1));
    let handle = timer.handle();
    let (woken, waker) = Wakes::new();
    let mut sleep = pin!(timer.sleep(FAR));
    assert!(poll_with(sleep.as_mut(), &waker).is_pending());
    drop(timer);
    assert_eq!(woken.get(), 1);
    assert!(matches!(
        poll_once(sleep),
        Poll::Ready(Err(RejectReason::Stopped))
    ));
    assert_eq!(handle.stats().unprocessed, 1);
    assert_counts_add_up(&handle);
}

fn a_sleep_that_is_refused_ends_with_the_reason(kind: Kind) {
    let limited = kind
        .builder()
        .max_pending(1)
        .clock(&ManualClock::new())
        .build();
    limited.new_timeout(|_| {}, FAR).unwrap();
    let result = block_on(limited.sleep(ms(1)));
    assert!(
        matches!(result, Err(RejectReason::TooManyPending { max: 1 })),
        "{result:?}"
    );
    let broken = kind
        .builder()
        .thread_factory(|_| Err(std::io::ErrorKind::Other.into()))
        .build();
    let result = block_on(broken.sleep(FAR));
    assert!(matches!(result, Err(RejectReason::Spawn(_))), "{result:?}");
    let result = block_on(limited.with_timeout(pending::<()>(), ms(1)));
    let Err(TimeoutError::Rejected(reason)) = result else {
        panic!("{result:?}")
    };
    assert!(
        matches!(reason, RejectReason::TooManyPending { max: 1 }),
        "{reason}"
    );
}

fn a_sleep_for_ever_is_ended_by_stop(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let (woken, waker) = Wakes::new();
    let mut sleep = pin!(timer.sleep(Duration::MAX));
    assert!(poll_with(sleep.as_mut(), &waker).is_pending());
    clock.advance(Duration::MAX);
    assert!(poll_with(sleep.as_mut(), &waker).is_pending());
    assert_eq!(woken.get(), 0);
    timer.stop().unwrap();
    assert_eq!(woken.get(), 1);
    assert!(matches!(
        poll_once(sleep),
        Poll::Ready(Err(RejectReason::Stopped))
    ));
}

fn a_ready_future_costs_no_timer(kind: Kind) {
    let timer = kind
        .builder()
        .thread_factory(|_| panic!("no timer is needed"))
        .build();
    let result = block_on(timer.with_timeout(ready(7), ms(1)));
    assert!(matches!(result, Ok(7)), "{result:?}");
    assert_eq!(timer.stats().scheduled, 0);
    timer.stop().unwrap();
    let result = block_on(timer.with_timeout(ready(8), ms(1)));
    assert!(matches!(result, Ok(8)), "{result:?}");
}

fn a_future_that_takes_too_long_is_elapsed(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let (woken, waker) = Wakes::new();
    let mut slow = pin!(timer.with_timeout(pending::<()>(), ms(50)));
    assert!(poll_with(slow.as_mut(), &waker).is_pending());
    clock.advance(ms(49));
    assert!(poll_with(slow.as_mut(), &waker).is_pending());
    clock.advance(ms(1));
    assert_eq!(woken.get(), 1);
    let result = poll_with(slow, &waker);
    assert!(
        matches!(result, Poll::Ready(Err(TimeoutError::Elapsed))),
        "{result:?}"
    );
    assert_counts_add_up(&timer);
}

/// Ready when it is told, and wakes whoever polled it last.
#[derive(Default)]
struct Later(Mutex<(Option<u32>, Option<Waker>)>);

impl Later {
    fn tell(&self, value: u32) {
        let mut inner = self.0.lock().unwrap();
        inner.0 = Some(value);
        inner.1.take().into_iter().for_each(Waker::wake);
    }

    async fn value(self: Arc<Self>) -> u32 {
        std::future::poll_fn(|cx| {
            let mut inner = self.0.lock().unwrap();
            inner.1 = Some(cx.waker().clone());
            inner.0.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

fn a_future_that_comes_in_time_is_handed_through(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let later = Arc::new(Later::default());
    let (woken, waker) = Wakes::new();
    let mut future = Box::pin(timer.with_timeout(Arc::clone(&later).value(), ms(50)));
    assert!(poll_with(future.as_mut(), &waker).is_pending());
    clock.advance(ms(30));
    later.tell(42);
    assert_eq!(woken.get(), 1);
    assert!(matches!(
        poll_with(future.as_mut(), &waker),
        Poll::Ready(Ok(42))
    ));
    drop(future);
    assert_eq!((timer.stats().cancelled, timer.pending_timeouts()), (1, 0));
    clock.advance(ms(100));
    assert_eq!(woken.get(), 1);
    assert_counts_add_up(&timer);
}

fn a_dropped_timeout_drops_its_future_and_its_timer(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    let (guard, drops) = Guard::new();
    let inner = async move {
        let _held = guard;
        pending::<()>().await;
    };
    let mut future = Box::pin(timer.with_timeout(inner, ms(50)));
    assert!(poll_once(future.as_mut()).is_pending());
    assert_eq!((timer.pending_timeouts(), drops.len()), (1, 0));
    drop(future);
    assert_eq!((timer.pending_timeouts(), drops.len()), (0, 1));
    assert_eq!(timer.stats().cancelled, 1);
}

fn a_timeout_of_a_stopped_timer_is_rejected(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    let (woken, waker) = Wakes::new();
    let mut armed = pin!(timer.with_timeout(pending::<()>(), ms(50)));
    assert!(poll_with(armed.as_mut(), &waker).is_pending());
    assert!(timer.stop().unwrap().is_empty());
    assert_eq!(woken.get(), 1);
    for result in [
        poll_once(armed),
        Poll::Ready(block_on(timer.with_timeout(pending(), ms(1)))),
    ] {
        let stopped = matches!(
            result,
            Poll::Ready(Err(TimeoutError::Rejected(RejectReason::Stopped)))
        );
        assert!(stopped, "{result:?}");
    }
}

fn anything_that_becomes_a_future_can_have_a_timeout(kind: Kind) {
    struct Request(u32);
    impl IntoFuture for Request {
        type Output = u32;
        type IntoFuture = Pin<Box<dyn Future<Output = u32> + Send>>;
        fn into_future(self) -> Self::IntoFuture {
            Box::pin(async move { self.0 })
        }
    }
    let timer = kind.on(&ManualClock::new());
    assert!(matches!(
        block_on(timer.with_timeout(Request(5), ms(1))),
        Ok(5)
    ));
}

/// Does what it is told when it is woken.
struct OnWake(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Wake for OnWake {
    fn wake(self: Arc<Self>) {
        let action = self.0.lock().unwrap().take();
        if let Some(action) = action {
            action();
        }
    }
}

fn on_wake(action: impl FnOnce() + Send + 'static) -> Waker {
    Waker::from(Arc::new(OnWake(Mutex::new(Some(Box::new(action))))))
}

fn a_waker_may_call_the_timer_and_drop_the_future(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let runs = Count::new();
    let sleep = Arc::new(Mutex::new(Some(Box::pin(timer.sleep(ms(10))))));
    let (inside, count, handle): (_, _, TimerHandle) =
        (Arc::clone(&sleep), runs.clone(), timer.handle());
    let waker = on_wake(move || {
        drop(inside.lock().unwrap().take());
        assert!(handle.new_timeout(|_| {}, FAR).unwrap().cancel());
        handle.new_timeout(count.task(), ms(10)).unwrap();
    });
    assert!(poll_with(sleep.lock().unwrap().as_mut().unwrap().as_mut(), &waker).is_pending());
    clock.advance(ms(20));
    assert_eq!((runs.get(), timer.stats().panicked), (1, 0));
    assert!(sleep.lock().unwrap().is_none());
    assert_counts_add_up(&timer);
}

fn a_waker_that_panics_does_not_take_the_worker_down(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let runs = Count::new();
    let mut sleep = pin!(timer.sleep(ms(10)));
    let waker = on_wake(|| panic!("on purpose: the waker"));
    assert!(poll_with(sleep.as_mut(), &waker).is_pending());
    timer.new_timeout(runs.task(), ms(10)).unwrap();
    timer.new_timeout(runs.task(), ms(20)).unwrap();
    clock.advance(ms(20));
    assert_eq!(runs.get(), 2);
    assert!(matches!(poll_once(sleep), Poll::Ready(Ok(()))));
    assert_counts_add_up(&timer);
}

fn real_futures_are_never_early(kind: Kind) {
    let timer = kind.real(ms(1));
    for delay in [ms(0), ms(1), ms(7), ms(20)] {
        let start = Instant::now();
        block_on(timer.sleep(delay)).unwrap();
        assert!(start.elapsed() >= delay);
        let start = Instant::now();
        let result = block_on(timer.with_timeout(pending::<()>(), delay));
        assert!(matches!(result, Err(TimeoutError::Elapsed)) && start.elapsed() >= delay);
    }
    assert_counts_add_up(&timer);
}

fn a_waker_that_stop_wakes_finds_nothing_pending(kind: Kind) {
    struct Look(TimerHandle, Mutex<Vec<usize>>);
    impl Wake for Look {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0.pending_timeouts());
        }
    }
    let timer = kind.on(&ManualClock::new());
    let look = Arc::new(Look(timer.handle(), Mutex::new(Vec::new())));
    let mut sleep = pin!(timer.sleep(FAR));
    let waker = Waker::from(Arc::clone(&look));
    assert!(poll_with(sleep.as_mut(), &waker).is_pending());
    for _ in 0..3 {
        timer.new_timeout(|_| {}, FAR).unwrap();
    }
    assert_eq!(timer.stop().unwrap().len(), 3);
    assert_eq!(*look.1.lock().unwrap(), [0]);
}

fn futures_tell_what_they_wait_for(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    let mut sleep = pin!(timer.sleep(ms(100)));
    let shown =
        |stage: &str, left: &str| format!("Sleep {{ stage: {stage}, remaining: {left}, .. }}");
    assert_eq!(format!("{sleep:?}"), shown("new", "100ms"));
    assert!(poll_once(sleep.as_mut()).is_pending());
    clock.advance(ms(40));
    assert_eq!(format!("{sleep:?}"), shown("waiting", "60ms"));
    clock.advance(ms(60));
    assert!(poll_once(sleep.as_mut()).is_ready());
    assert_eq!(format!("{sleep:?}"), shown("over", "0ns"));

    let next = shown("new", "100ms");
    let interval = timer.interval(ms(100));
    assert_eq!(
        format!("{interval:?}"),
        format!("Interval {{ period: 100ms, missed: Skip, next: {next} }}")
    );
    let limited = timer.with_timeout(pending::<()>(), ms(100));
    assert_eq!(
        format!("{limited:?}"),
        format!("WithTimeout {{ sleep: {next}, .. }}")
    );

    let mut stopped = pin!(timer.sleep(ms(100)));
    timer.stop().unwrap();
    assert!(poll_once(stopped.as_mut()).is_ready());
    assert_eq!(format!("{stopped:?}"), shown("stopped", "100ms"));
}
