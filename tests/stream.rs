//! The interval as a stream.
#![cfg(feature = "stream")]

mod common;

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use common::poll::{Wakes, poll_once};
use common::{FAR, Kind, assert_counts_add_up, ms, on_both_timers};
use futures_core::{FusedStream, Stream};
use hashed_wheel::{Interval, ManualClock, RejectReason};

on_both_timers![
    a_stream_yields_one_item_a_tick,
    a_stream_of_a_stopped_timer_ends_after_its_error,
    a_stream_goes_on_after_a_refusal,
];

type Item = Option<Result<(), RejectReason>>;

fn poll_next(stream: &mut Interval, waker: &Waker) -> Poll<Item> {
    Pin::new(stream).poll_next(&mut Context::from_waker(waker))
}

fn a_stream_yields_one_item_a_tick(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    let mut stream = timer.interval(ms(25));
    let (woken, waker) = Wakes::new();
    let mut items = Vec::new();
    for now in 0..=200 {
        while let Poll::Ready(item) = poll_next(&mut stream, &waker) {
            assert!(matches!(item, Some(Ok(()))), "{item:?}");
            items.push(now);
        }
        clock.advance(ms(1));
    }
    // Ticks at 25, 50, 75 and so on, at boundaries of 10 ms.
    assert_eq!(items, [30, 50, 80, 100, 130, 150, 180, 200]);
    assert_eq!(woken.get(), items.len());
    assert!(!stream.is_terminated());
}

fn a_stream_of_a_stopped_timer_ends_after_its_error(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    let (mut armed, mut fresh) = (timer.interval(ms(10)), timer.interval(ms(10)));
    let (woken, waker) = Wakes::new();
    assert!(poll_next(&mut armed, &waker).is_pending());
    timer.stop().unwrap();
    assert_eq!(woken.get(), 1);
    for stream in [&mut armed, &mut fresh] {
        assert!(!stream.is_terminated());
        let item = poll_next(stream, &waker);
        assert!(
            matches!(item, Poll::Ready(Some(Err(RejectReason::Stopped)))),
            "{item:?}"
        );
        for _ in 0..2 {
            assert!(stream.is_terminated());
            assert!(matches!(poll_next(stream, &waker), Poll::Ready(None)));
        }
        // Who asks for a tick is still told why there is none.
        let tick = poll_once(std::pin::pin!(stream.tick()));
        assert!(matches!(tick, Poll::Ready(Err(RejectReason::Stopped))));
    }
    assert_counts_add_up(&timer);
}

fn a_stream_goes_on_after_a_refusal(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.builder().max_pending(1).clock(&clock).build();
    let blocker = timer.new_timeout(|_| {}, FAR).unwrap();
    let mut stream = timer.interval(ms(10));
    let refused = poll_next(&mut stream, Waker::noop());
    assert!(matches!(
        refused,
        Poll::Ready(Some(Err(RejectReason::TooManyPending { max: 1 })))
    ));
    blocker.cancel();
    assert!(poll_next(&mut stream, Waker::noop()).is_pending());
    clock.advance(ms(30));
    assert!(matches!(
        poll_next(&mut stream, Waker::noop()),
        Poll::Ready(Some(Ok(())))
    ));
}
