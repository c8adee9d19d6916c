//! The time limit for tower's services. Against tower's own services it is tried in `examples/async`.
#![cfg(feature = "tower")]

mod common;

use std::error::Error;
use std::future::{Future, Pending, Ready, pending, ready};
use std::io;
use std::marker::PhantomPinned;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use common::poll::{Wakes, poll_once, poll_with};
use common::{FAR, Kind, assert_counts_add_up, ms, on_both_timers};
use hashed_wheel::{Deadline, DeadlineLayer, ManualClock, RejectReason, TimeoutError};
use tower_layer::Layer;
use tower_service::Service;

on_both_timers![
    a_request_that_is_not_answered_in_time_ends_with_the_error,
    an_answer_and_an_error_of_the_service_are_passed_on,
    a_service_that_is_not_ready_stays_so,
    a_timer_that_has_stopped_is_an_error_and_no_hang,
    a_future_that_must_not_move_works,
    a_dropped_request_takes_its_timeout_along,
];

/// A service whose answers are what `answer` returns.
#[derive(Debug, Clone)]
struct Answering<F>(F);

impl<Request, F, A, T> Service<Request> for Answering<F>
where
    F: FnMut(Request) -> A,
    A: Future<Output = Result<T, io::Error>>,
{
    type Response = T;
    type Error = io::Error;
    type Future = A;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> A {
        (self.0)(request)
    }
}

type Answer = Result<u32, io::Error>;

fn never(_: u32) -> Pending<Answer> {
    pending()
}

fn even(n: u32) -> Ready<Answer> {
    ready(if n % 2 == 0 {
        Ok(n)
    } else {
        Err(io::Error::other("odd"))
    })
}

fn is_elapsed(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(TimeoutError::Elapsed))
}

fn a_request_that_is_not_answered_in_time_ends_with_the_error(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let layer = DeadlineLayer::new(timer.labelled("requests"), ms(50));
    let mut service = layer.layer(Answering(never));
    let (woken, waker) = Wakes::new();
    let mut first = pin!(service.call(1));
    assert!(poll_with(first.as_mut(), &waker).is_pending());
    clock.advance(ms(30));
    // Each request has its own, from its call on.
    let mut second = pin!(service.clone().call(2));
    assert!(poll_with(second.as_mut(), &waker).is_pending());
    timer.for_each_pending(|pending| assert_eq!(pending.label, Some("requests")));
    clock.advance(ms(20));
    assert_eq!(woken.get(), 1);
    let Poll::Ready(Err(error)) = poll_with(first, &waker) else {
        panic!("its time is over");
    };
    assert!(is_elapsed(&*error));
    assert!(poll_with(second.as_mut(), &waker).is_pending());
    clock.advance(ms(30));
    assert!(matches!(poll_with(second, &waker), Poll::Ready(Err(error)) if is_elapsed(&*error)));
    assert_counts_add_up(&timer);
}

fn an_answer_and_an_error_of_the_service_are_passed_on(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    let mut service = DeadlineLayer::new(timer.handle(), ms(50)).layer(Answering(even));
    assert!(matches!(
        poll_once(pin!(service.call(42))),
        Poll::Ready(Ok(42))
    ));
    let Poll::Ready(Err(error)) = poll_once(pin!(service.call(3))) else {
        panic!("it is odd");
    };
    assert_eq!(
        error.downcast_ref::<io::Error>().unwrap().to_string(),
        "odd"
    );
    assert_eq!(timer.stats().scheduled, 0, "ready at once");
}

fn a_service_that_is_not_ready_stays_so(kind: Kind) {
    struct Busy;
    impl Service<u32> for Busy {
        type Response = u32;
        type Error = io::Error;
        type Future = Ready<Answer>;
        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
            Poll::Ready(Err(io::Error::other("closed")))
        }
        fn call(&mut self, _: u32) -> Ready<Answer> {
            unreachable!("it was never ready")
        }
    }
    let timer = kind.on(&ManualClock::new());
    let mut service: Deadline<Busy> = DeadlineLayer::new(timer.handle(), FAR).layer(Busy);
    let mut context = Context::from_waker(std::task::Waker::noop());
    let Poll::Ready(Err(error)) = service.poll_ready(&mut context) else {
        panic!("it is closed");
    };
    assert_eq!(error.to_string(), "closed");
}

fn a_timer_that_has_stopped_is_an_error_and_no_hang(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    let mut service = DeadlineLayer::new(timer.handle(), FAR).layer(Answering(never));
    let mut waiting = pin!(service.call(1));
    assert!(poll_once(waiting.as_mut()).is_pending());
    drop(timer);
    let mut late = pin!(service.call(2));
    for answer in [poll_once(waiting), poll_once(late.as_mut())] {
        let Poll::Ready(Err(error)) = answer else {
            panic!("the timer is gone");
        };
        let reason = error.downcast_ref();
        assert!(matches!(
            reason,
            Some(TimeoutError::Rejected(RejectReason::Stopped))
        ));
    }
}

fn a_future_that_must_not_move_works(kind: Kind) {
    struct Pinned(PhantomPinned, *const Pinned);
    impl Future for Pinned {
        type Output = Answer;
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Answer> {
            let here: *const Pinned = &raw const *self;
            if self.1.is_null() {
                // SAFETY: nothing is moved.
                unsafe { self.get_unchecked_mut() }.1 = here;
                return Poll::Pending;
            }
            assert_eq!(self.1, here, "it was moved");
            Poll::Ready(Ok(1))
        }
    }
    let timer = kind.on(&ManualClock::new());
    let pinned = |_: u32| Pinned(PhantomPinned, std::ptr::null());
    let mut service = DeadlineLayer::new(timer.handle(), FAR).layer(Answering(pinned));
    let mut answer = pin!(service.call(1));
    assert!(poll_once(answer.as_mut()).is_pending());
    assert!(matches!(poll_once(answer), Poll::Ready(Ok(1))));
}

fn a_dropped_request_takes_its_timeout_along(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    let mut service = DeadlineLayer::new(timer.handle(), FAR).layer(Answering(never));
    let mut answer = Box::pin(service.call(1));
    assert!(poll_once(answer.as_mut()).is_pending());
    assert_eq!(timer.pending_timeouts(), 1);
    drop(answer);
    assert_eq!((timer.pending_timeouts(), timer.stats().cancelled), (0, 1));
}
