//! The tower layer with a deadline for each request, and the retry with back-off, on a manual clock.

use std::future::{Ready, ready};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use async_examples::deadline::{Backoff, BoxError, DeadlineLayer};
use hashed_wheel::{
    HashedWheelTimer, HierarchicalWheelTimer, ManualClock, TimeoutError, TimerHandle,
};
use tower::retry::Retry;
use tower::{Layer, Service, service_fn};

const TICK: Duration = Duration::from_millis(10);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[derive(Debug, Clone, Copy)]
struct Request {
    deadline: Instant,
}

/// Runs the test on both timers.
fn on_both(test: impl Fn(&ManualClock, &TimerHandle)) {
    let clock = ManualClock::new();
    let hashed = HashedWheelTimer::builder()
        .tick_duration(TICK)
        .clock(&clock);
    let hashed = hashed.build().unwrap();
    hashed.start().unwrap();
    test(&clock, &hashed);
    let clock = ManualClock::new();
    let builder = HierarchicalWheelTimer::builder().tick_duration(TICK);
    let hierarchical = builder.clock(&clock).build().unwrap();
    hierarchical.start().unwrap();
    test(&clock, &hierarchical);
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

type Answer = Pin<Box<dyn Future<Output = Result<&'static str, BoxError>> + Send>>;

#[test]
fn each_request_has_its_own_deadline() {
    on_both(|clock, timer| {
        let layer = DeadlineLayer::new(timer, |request: &Request| request.deadline);
        let never = |_: Request| -> Answer { Box::pin(std::future::pending()) };
        let mut service = layer.layer(service_fn(never));
        let start = timer.now();
        let mut answers = [50, 20].map(|after| {
            Box::pin(service.call(Request {
                deadline: start + ms(after),
            }))
        });
        assert!(
            answers
                .iter_mut()
                .all(|answer| poll(answer.as_mut()).is_pending())
        );
        clock.advance(ms(20));
        assert!(poll(answers[0].as_mut()).is_pending());
        let Poll::Ready(Err(error)) = poll(answers[1].as_mut()) else {
            panic!("its deadline has come");
        };
        assert!(matches!(error.downcast_ref(), Some(TimeoutError::Elapsed)));
        clock.advance(ms(30));
        assert!(poll(answers[0].as_mut()).is_ready());
    });
}

#[test]
fn an_answer_in_time_and_an_error_of_the_service_are_handed_through() {
    on_both(|_, timer| {
        let layer = DeadlineLayer::new(timer, |request: &Request| request.deadline);
        let request = Request {
            deadline: timer.now(),
        };
        let good = |_: Request| -> Ready<Result<u32, BoxError>> { ready(Ok(42)) };
        let answer = poll(pin!(layer.layer(service_fn(good)).call(request)));
        assert!(matches!(answer, Poll::Ready(Ok(42))));
        let bad = |_: Request| -> Ready<Result<u32, BoxError>> { ready(Err("broken".into())) };
        let answer = poll(pin!(layer.layer(service_fn(bad)).call(request)));
        let Poll::Ready(Err(error)) = answer else {
            panic!("it is there at once");
        };
        assert_eq!(error.to_string(), "broken");
        assert_eq!(timer.stats().scheduled, 0, "without a timeout");
    });
}

type AtOnce = Ready<Result<&'static str, BoxError>>;

/// A service that fails so many times, and the times at which it is called, in milliseconds.
fn failing(
    timer: &TimerHandle,
    failures: usize,
) -> (
    impl Service<Request, Response = &'static str, Error = BoxError, Future = AtOnce> + Clone + use<>,
    Arc<Mutex<Vec<u128>>>,
) {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let (noted, timer, start) = (Arc::clone(&calls), timer.clone(), timer.now());
    let service = service_fn(move |_: Request| {
        let mut noted = noted.lock().unwrap();
        noted.push((timer.now() - start).as_millis());
        ready(if noted.len() > failures {
            Ok("at last")
        } else {
            Err(BoxError::from("not yet"))
        })
    });
    (service, calls)
}

#[test]
fn a_retry_backs_off() {
    on_both(|clock, timer| {
        let (service, calls) = failing(timer, 4);
        let backoff = Backoff::new(timer, 10, ms(50), ms(200));
        let mut retry = Retry::new(backoff, service);
        let deadline = timer.now() + ms(60_000);
        let mut answer = pin!(retry.call(Request { deadline }));
        let answer = loop {
            match poll(answer.as_mut()) {
                Poll::Ready(answer) => break answer,
                Poll::Pending => clock.advance(TICK),
            }
        };
        assert_eq!(answer.unwrap(), "at last");
        assert_eq!(*calls.lock().unwrap(), [0, 50, 150, 350, 550]);
    });
}

#[test]
fn a_retry_gives_up_after_its_tries() {
    on_both(|clock, timer| {
        let (service, calls) = failing(timer, usize::MAX);
        let mut retry = Retry::new(Backoff::new(timer, 3, ms(50), ms(200)), service);
        let deadline = timer.now() + ms(60_000);
        let mut answer = pin!(retry.call(Request { deadline }));
        let mut steps = 0;
        while poll(answer.as_mut()).is_pending() {
            clock.advance(TICK);
            steps += 1;
            assert!(steps < 100);
        }
        assert_eq!(*calls.lock().unwrap(), [0, 50, 150]);
    });
}

#[test]
fn one_deadline_holds_for_all_tries() {
    on_both(|clock, timer| {
        let (service, calls) = failing(timer, usize::MAX);
        let service = Retry::new(Backoff::new(timer, 100, ms(50), ms(50)), service);
        let boxed = service_fn(move |request: Request| -> Answer {
            Box::pin(tower::ServiceExt::oneshot(service.clone(), request))
        });
        let layer = DeadlineLayer::new(timer, |request: &Request| request.deadline);
        let deadline = timer.now() + ms(120);
        let mut answer = pin!(layer.layer(boxed).call(Request { deadline }));
        let error = loop {
            match poll(answer.as_mut()) {
                Poll::Ready(answer) => break answer.unwrap_err(),
                Poll::Pending => clock.advance(TICK),
            }
        };
        assert!(matches!(error.downcast_ref(), Some(TimeoutError::Elapsed)));
        assert_eq!(*calls.lock().unwrap(), [0, 50, 100]);
        assert_eq!(clock.now(), ms(120));
        assert_eq!(
            timer.pending_timeouts(),
            1,
            "the pause of the answer that is not dropped yet"
        );
    });
}

#[test]
fn a_stopped_timer_ends_requests_and_pauses() {
    on_both(|_, timer| {
        let (service, calls) = failing(timer, usize::MAX);
        let mut retry = Retry::new(Backoff::new(timer, 5, ms(50), ms(200)), service);
        timer.stop().unwrap();
        let deadline = timer.now() + ms(50);
        assert!(poll(pin!(retry.call(Request { deadline }))).is_ready());
        assert_eq!(calls.lock().unwrap().len(), 5);
        let layer = DeadlineLayer::new(timer, |request: &Request| request.deadline);
        let never = |_: Request| -> Answer { Box::pin(std::future::pending()) };
        let answer = poll(pin!(
            layer.layer(service_fn(never)).call(Request { deadline })
        ));
        let Poll::Ready(Err(error)) = answer else {
            panic!("nothing hangs");
        };
        assert!(matches!(
            error.downcast_ref(),
            Some(TimeoutError::Rejected(_))
        ));
    });
}
