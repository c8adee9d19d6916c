//! The whole timer: a future that is polled, dropped or stopped while it fires.

use super::{TICK, builder, check_figures, explore, explore_within, timer, unexplored};
use crate::{HashedWheelTimer, ManualClock, Sleep};
use loom::thread;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Counts how often it was woken. Not a part of the model.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Bell {
    fn rings(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A sleep that was polled once, with the first bell.
struct Sleeper {
    sleep: Pin<Box<Sleep>>,
    bells: [Arc<Bell>; 2],
}

impl Sleeper {
    fn new(timer: &HashedWheelTimer, delay: Duration) -> Sleeper {
        let mut sleeper = Sleeper {
            sleep: Box::pin(timer.sleep(delay)),
            bells: [Arc::default(), Arc::default()],
        };
        assert!(sleeper.poll(0).is_pending());
        sleeper
    }

    /// Polls. Ready with `true` if its time had come, with `false` if the timer has stopped.
    fn poll(&mut self, bell: usize) -> Poll<bool> {
        let waker = Waker::from(Arc::clone(&self.bells[bell]));
        let polled = self.sleep.as_mut().poll(&mut Context::from_waker(&waker));
        polled.map(|result| result.is_ok())
    }

    /// Polls with the second bell while something ends it; that is over when `wait` returns. Who is
    /// told that it is pending must be woken, by the bell that was given last.
    fn poll_while(mut self, wait: impl FnOnce()) -> &'static str {
        let polled = self.poll(1);
        wait();
        match polled {
            Poll::Ready(true) => "ready at once",
            Poll::Ready(false) => "stopped at once",
            Poll::Pending => {
                assert_eq!(self.bells[1].rings(), 1, "woken once");
                match self.poll(1) {
                    Poll::Ready(true) => "woken, and ready",
                    Poll::Ready(false) => "woken, and stopped",
                    Poll::Pending => panic!("woken for nothing"),
                }
            }
        }
    }
}

#[test]
fn a_future_polled_while_it_fires_wakes_its_last_waker() {
    explore(["ready at once", "woken, and ready"], || {
        let clock = ManualClock::new();
        let timer = builder().clock(&clock).build().unwrap();
        let sleeper = unexplored(|| Sleeper::new(&timer, TICK));
        let driver = thread::spawn({
            let clock = clock.clone();
            move || clock.advance(TICK)
        });
        let end = sleeper.poll_while(|| {
            driver.join().unwrap();
            // A waker that was exchanged just before the boundary began may wait for the next.
            clock.advance(TICK);
        });
        assert_eq!(check_figures(&timer.handle()).expired, 1);
        end
    });
}

/// Polls a future with other wakers while its timer stops.
fn stop_beside_polls(timer: HashedWheelTimer) -> &'static str {
    let sleeper = unexplored(|| Sleeper::new(&timer, TICK));
    let handle = timer.handle();
    let stop = thread::spawn(move || assert_eq!(timer.stop().unwrap().len(), 0));
    let end = sleeper.poll_while(|| stop.join().unwrap());
    let stats = check_figures(&handle);
    assert_eq!((stats.expired + stats.unprocessed, stats.pending), (1, 0));
    end
}

#[test]
fn a_future_polled_while_its_timer_stops_wakes_its_last_waker() {
    explore(["stopped at once", "woken, and stopped"], || {
        stop_beside_polls(builder().clock(&ManualClock::new()).build().unwrap())
    });
}

#[test]
fn a_future_polled_while_its_timer_fires_or_stops_wakes_its_last_waker() {
    let ends = [
        "stopped at once",
        "woken, and stopped",
        "ready at once",
        "woken, and ready",
    ];
    // More preemptions take hours: the real timer thread takes part, and sees its time come or not.
    explore_within(1, ends, || stop_beside_polls(timer()));
}

#[test]
fn a_future_dropped_while_it_fires_is_cancelled_or_wakes() {
    explore(["cancelled", "fired"], || {
        let clock = ManualClock::new();
        let timer = builder().clock(&clock).build().unwrap();
        let sleeper = unexplored(|| Sleeper::new(&timer, TICK));
        let driver = thread::spawn(move || clock.advance(TICK));
        let bell = Arc::clone(&sleeper.bells[0]);
        drop(sleeper);
        driver.join().unwrap();
        let stats = check_figures(&timer.handle());
        assert_eq!((bell.rings() as u64, stats.pending), (stats.expired, 0));
        assert_eq!(Arc::strong_count(&bell), 1, "nobody holds a waker any more");
        if stats.expired == 1 {
            "fired"
        } else {
            "cancelled"
        }
    });
}
