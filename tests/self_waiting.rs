//! Ends that would have to wait for themselves: stopping, or dropping the owner, from where the timer is
//! being started, and from jobs of an executor that is joined when it is dropped.

mod common;

use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread, ThreadId};
use std::time::Duration;

use common::{FAR, Guard, Record, WATCHDOG, ms};
use hashed_wheel::{
    HashedWheelTimer, Job, ManualClock, RejectReason, StopError, TimerHandle, TimerState,
};

/// Runs `body` on a thread of its own; if it hangs, the test fails.
fn must_end<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, result) = mpsc::channel();
    thread::spawn(move || done.send(body()));
    result.recv_timeout(WATCHDOG).expect("it hangs")
}

/// An executor with one thread, which is joined when the executor is dropped.
struct Pool {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Pool {
    fn executor() -> impl Fn(Job) + Send + Sync + 'static {
        let (jobs, inbox) = mpsc::channel::<Job>();
        let thread = thread::spawn(move || inbox.into_iter().for_each(|job| job()));
        let pool = Mutex::new(Pool {
            jobs: Some(jobs),
            thread: Some(thread),
        });
        move |job| {
            let pool = pool.lock().unwrap();
            pool.jobs.as_ref().unwrap().send(job).unwrap();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        drop(self.jobs.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// A timer whose tasks run in a [`Pool`], with one task that has begun: it sends what `body` returns.
fn with_job<R: Send + 'static>(
    body: impl FnOnce(TimerHandle) -> R + Send + 'static,
) -> (HashedWheelTimer, mpsc::Receiver<R>) {
    let timer = HashedWheelTimer::builder()
        .tick_duration(ms(1))
        .executor(Pool::executor())
        .build()
        .unwrap();
    let handle = timer.handle();
    let (began, beginning) = mpsc::channel();
    let (done, result) = mpsc::channel();
    let task = move |_: &_| {
        began.send(()).unwrap();
        let _ = done.send(body(handle));
    };
    timer.new_timeout(task, Duration::ZERO).unwrap();
    beginning.recv().unwrap();
    (timer, result)
}

#[test]
fn a_job_that_waits_for_a_future_of_its_timer_is_let_go_by_stop() {
    must_end(|| {
        let (timer, slept) = with_job(|handle| block_on(handle.sleep(FAR)).is_err());
        assert_eq!(timer.stop().unwrap().len(), 0);
        assert!(slept.recv().unwrap(), "it ended with an error");
    });
}

#[test]
fn a_job_may_stop_its_timer_while_another_thread_does() {
    must_end(|| {
        let (timer, stopped) = with_job(|handle| {
            // So that the other thread, as a rule, comes first. Both orders have to end the same way.
            thread::sleep(ms(5));
            handle.stop().map(|left| left.len())
        });
        assert_eq!(timer.stop().unwrap().len(), 0);
        assert_eq!(stopped.recv().unwrap(), Ok(0));
    });
}

#[test]
fn a_job_may_stop_its_timer_although_the_executor_joins_its_thread() {
    must_end(|| {
        let (timer, stopped) = with_job(|handle| handle.stop().map(|left| left.len()));
        assert_eq!(stopped.recv().unwrap(), Ok(0));
        assert_eq!(timer.state(), TimerState::Shutdown);
    });
}

#[test]
fn a_job_may_wait_for_a_thread_that_stops_its_timer() {
    must_end(|| {
        let (timer, stopped) = with_job(|handle| {
            let stopping = thread::spawn(move || handle.stop().map(|left| left.len()));
            stopping.join().unwrap()
        });
        timer.new_timeout(|_| {}, FAR).ok();
        assert!(stopped.recv().unwrap().is_ok());
        drop(timer);
    });
}

/// As [`with_job`], on a manual clock. Also returns where the executor was dropped.
fn with_job_on<R: Send + 'static>(
    clock: &ManualClock,
    body: impl FnOnce(TimerHandle) -> R + Send + 'static,
) -> (HashedWheelTimer, mpsc::Receiver<R>, Record<ThreadId>) {
    let (guard, drops) = Guard::new();
    let pool = Pool::executor();
    let timer = HashedWheelTimer::builder()
        .executor(move |job| {
            let _captured = &guard;
            pool(job);
        })
        .clock(clock)
        .build()
        .unwrap();
    let handle = timer.handle();
    let (done, result) = mpsc::channel();
    // It begins when the clock has been advanced.
    let (go, going) = mpsc::channel();
    let task = move |_: &_| {
        going.recv().unwrap();
        let _ = done.send(body(handle));
    };
    timer.new_timeout(task, Duration::ZERO).unwrap();
    clock.advance(FAR);
    go.send(()).unwrap();
    (timer, result, drops)
}

#[test]
fn on_a_manual_clock_a_job_may_stop_its_timer_and_the_next_advance_drops_the_executor() {
    must_end(|| {
        let clock = ManualClock::new();
        let stop = |handle: TimerHandle| handle.stop().map(|left| left.len());
        let (timer, stopped, drops) = with_job_on(&clock, stop);
        assert_eq!(stopped.recv().unwrap(), Ok(0));
        assert_eq!(timer.state(), TimerState::Shutdown);
        assert_eq!(drops.len(), 0);
        clock.advance(Duration::ZERO);
        assert_eq!(drops.take(), [thread::current().id()]);
    });
}

#[test]
fn on_a_manual_clock_a_job_may_wait_for_a_thread_that_stops_its_timer() {
    must_end(|| {
        let clock = ManualClock::new();
        let (timer, stopped, drops) = with_job_on(&clock, |handle| {
            let stopping = thread::spawn(move || handle.stop().map(|left| left.len()));
            stopping.join().unwrap()
        });
        assert_eq!(stopped.recv().unwrap(), Ok(0));
        let _handle = timer.handle();
        drop(timer);
        assert_eq!(drops.take(), [thread::current().id()]);
    });
}

type Shared<T> = Arc<Mutex<Option<T>>>;

/// A timer whose factory does something with what was put into the shared place, once, and then starts
/// the thread.
fn with_factory<T: Send + 'static>(
    on_start: impl Fn(T) + Send + Sync + 'static,
) -> (HashedWheelTimer, Shared<T>) {
    let shared: Shared<T> = Arc::default();
    let place = Arc::clone(&shared);
    let factory = move |job| {
        let taken = place.lock().unwrap().take();
        taken.into_iter().for_each(&on_start);
        thread::Builder::new().spawn(job)
    };
    let builder = HashedWheelTimer::builder().thread_factory(factory);
    (builder.build().unwrap(), shared)
}

#[test]
fn stop_from_the_thread_factory_is_refused_and_the_timer_starts() {
    must_end(|| {
        let refused = |handle: TimerHandle| {
            assert!(matches!(handle.stop(), Err(StopError::FromTimerThread)));
        };
        let (timer, shared) = with_factory(refused);
        *shared.lock().unwrap() = Some(timer.handle());
        timer.start().unwrap();
        assert_eq!(timer.state(), TimerState::Started);
    });
}

#[test]
fn an_owner_that_its_thread_factory_drops_is_stopped_once_it_has_started() {
    must_end(|| {
        let (timer, shared) = with_factory(|owner: HashedWheelTimer| drop(owner));
        let handle = timer.handle();
        *shared.lock().unwrap() = Some(timer);
        handle.start().unwrap();
        assert_eq!(handle.state(), TimerState::Shutdown);
        assert!(handle.new_timeout(|_| {}, FAR).is_err());
        assert_eq!(handle.stop().unwrap().len(), 0);
    });
}

#[test]
fn an_owner_that_its_thread_factory_drops_before_it_panics_is_stopped() {
    must_end(|| {
        let panics = |owner: HashedWheelTimer| {
            drop(owner);
            panic!("the factory");
        };
        let (timer, shared) = with_factory(panics);
        let handle = timer.handle();
        *shared.lock().unwrap() = Some(timer);
        let starting = handle.clone();
        thread::spawn(move || starting.start()).join().unwrap_err();
        assert_eq!(handle.state(), TimerState::Shutdown);
        let refused = handle.new_timeout(|_| {}, FAR).unwrap_err();
        assert!(matches!(refused.reason, RejectReason::Stopped));
    });
}

/// Stops a timer when dropped.
struct Stops(Shared<TimerHandle>);

impl Drop for Stops {
    fn drop(&mut self) {
        let handle = self.0.lock().unwrap().take();
        assert_eq!(handle.unwrap().stop().unwrap().len(), 0);
    }
}

#[test]
fn a_factory_may_stop_the_timer_when_it_is_dropped_by_stop() {
    must_end(|| {
        let shared: Shared<TimerHandle> = Arc::default();
        let captured = Stops(Arc::clone(&shared));
        let timer = HashedWheelTimer::builder()
            .thread_factory(move |job| {
                let _captured = &captured;
                thread::Builder::new().spawn(job)
            })
            .build()
            .unwrap();
        *shared.lock().unwrap() = Some(timer.handle());
        assert_eq!(timer.stop().unwrap().len(), 0);
    });
}

/// A timer whose factory waits for the thread that it has started, and comes back when the timer has ended.
fn with_waiting_factory() -> HashedWheelTimer {
    let factory = |job: Job| {
        thread::Builder::new().spawn(job)?.join().unwrap();
        thread::Builder::new().spawn(|| ())
    };
    let builder = HashedWheelTimer::builder().tick_duration(ms(1));
    builder.thread_factory(factory).build().unwrap()
}

#[test]
fn a_task_may_drop_the_owner_of_a_timer_whose_factory_waits_for_its_thread() {
    must_end(|| {
        let timer = with_waiting_factory();
        let handle = timer.handle();
        let starter = thread::spawn({
            let handle = handle.clone();
            move || handle.start()
        });
        while handle.state() == TimerState::Init {
            thread::yield_now();
        }
        let (told, heard) = mpsc::channel();
        let inside = handle.clone();
        let task = move |_: &_| {
            drop(timer);
            told.send(inside.new_timeout(|_| {}, FAR).map(drop))
                .unwrap();
        };
        handle.new_timeout(task, Duration::ZERO).unwrap();
        starter.join().unwrap().unwrap();
        assert_eq!(handle.state(), TimerState::Shutdown);
        let refused = heard.recv().unwrap().unwrap_err();
        assert!(matches!(refused.reason, RejectReason::Stopped));
        assert_eq!(handle.stop().unwrap().len(), 0);
    });
}

#[test]
fn stop_from_another_thread_ends_a_timer_whose_factory_waits_for_its_thread() {
    must_end(|| {
        let timer = with_waiting_factory();
        let handle = timer.handle();
        let starter = thread::spawn(move || handle.start());
        while timer.state() == TimerState::Init {
            thread::yield_now();
        }
        timer.new_timeout(|_| {}, FAR).unwrap();
        assert_eq!(timer.stop().unwrap().len(), 1);
        starter.join().unwrap().unwrap();
    });
}
