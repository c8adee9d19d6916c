//! churn: F timeouts in flight per producer; every op schedules one at 30 s (+0..1 s) and cancels
//! the oldest. Its relatives: `growth`, the same with other numbers; `delay-queue`, the same with values of a queue; `random`, which cancels one at random, in turn with
//! the churn; `producers`, with one producer and with N, in one process, the order changing from run to run; and `fill`,
//! which only schedules, from nothing.
//!
//! The F timeouts are scheduled, and given the time to settle, before the clock starts. The wall
//! clock stops with the last op; the CPU clock when the timer's thread has worked off what the ops
//! have left it to do, so that no contestant hides work in an endless queue. How long that took is
//! the third figure.

use std::collections::VecDeque;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use super::{Count, tasks_run};
use crate::case::Case;
use crate::contestant::{Contestant, Producer, Timer};
use crate::measure::{Random, process_cpu, wait_until_quiet};

const DELAY: Duration = Duration::from_secs(30);
const JITTER: Duration = Duration::from_secs(1);

/// What a churn has cost: nanoseconds per op of wall and CPU time, and the time after the last op.
struct Cost {
    wall: f64,
    cpu: f64,
    backlog: Duration,
}

pub(super) fn run<C: Contestant>(case: &Case) -> Vec<(&'static str, f64)> {
    let cost = churn::<C>(case, Order::OldestFirst);
    vec![
        ("wall_ns", cost.wall),
        ("cpu_ns", cost.cpu),
        ("backlog_ms", cost.backlog.as_millis() as f64),
    ]
}

/// The churn of N producers, and how much more CPU time an op takes than that of one.
pub(super) fn producers<C: Contestant>(case: &Case) -> Vec<(&'static str, f64)> {
    let alone = Case {
        producers: 1,
        ..case.clone()
    };
    let (one, many) = if case.round.is_multiple_of(2) {
        let one = churn::<C>(&alone, Order::OldestFirst);
        (one, churn::<C>(case, Order::OldestFirst))
    } else {
        let many = churn::<C>(case, Order::OldestFirst);
        (churn::<C>(&alone, Order::OldestFirst), many)
    };
    vec![
        ("wall_ns", many.wall),
        ("cpu_ns", many.cpu),
        ("one_cpu_ns", one.cpu),
        ("cpu_ratio", many.cpu / one.cpu),
    ]
}

/// Which of its timeouts a producer cancels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    OldestFirst,
    Random,
}

/// The churn with cancels in random order, and how much more CPU time it takes than that with the oldest first.
pub(super) fn random<C: Contestant>(case: &Case) -> Vec<(&'static str, f64)> {
    let (fifo, random) = if case.round.is_multiple_of(2) {
        let fifo = churn::<C>(case, Order::OldestFirst);
        (fifo, churn::<C>(case, Order::Random))
    } else {
        let random = churn::<C>(case, Order::Random);
        (churn::<C>(case, Order::OldestFirst), random)
    };
    vec![
        ("wall_ns", random.wall),
        ("cpu_ns", random.cpu),
        ("fifo_cpu_ns", fifo.cpu),
        ("cpu_ratio", random.cpu / fifo.cpu),
    ]
}

/// Schedules into a timer that has just been started: each timeout takes memory that the timer does not have yet.
pub(super) fn fill<C: Contestant>(case: &Case) -> Vec<(&'static str, f64)> {
    let timer = <C::Timer<Count> as Timer<Count>>::new(case.tick(), case.slots);
    let mut handles = super::touched(case.flight);
    let mut random = Random::new(1);
    let mut producer = timer.producer();
    let (start, cpu) = (Instant::now(), process_cpu());
    for _ in 0..case.flight {
        handles.push(producer.arm(Count::new(), delay(&mut random)));
    }
    let wall = start.elapsed();
    wait_until_quiet(Duration::from_secs(20));
    let cpu = process_cpu().saturating_sub(cpu);
    std::mem::forget(handles);
    vec![
        ("wall_ns", wall.as_nanos() as f64 / case.flight as f64),
        ("cpu_ns", cpu.as_nanos() as f64 / case.flight as f64),
    ]
}

fn churn<C: Contestant>(case: &Case, order: Order) -> Cost {
    let timer = <C::Timer<Count> as Timer<Count>>::new(case.tick(), case.slots);
    let ops = case.ops / case.producers as u64;
    // Producers and this thread meet when all are ready, at the start, and at the end.
    let meeting = Barrier::new(case.producers + 1);
    let (wall, cpu, backlog) = std::thread::scope(|scope| {
        for number in 0..case.producers {
            let (timer, meeting) = (&timer, &meeting);
            scope.spawn(move || {
                let mut flight = Flight::new(timer.producer(), number as u64, case.flight);
                meeting.wait();
                meeting.wait();
                match order {
                    Order::OldestFirst => flight.churn(ops),
                    Order::Random => flight.churn_at_random(ops),
                }
                meeting.wait();
                // Tearing it down is no part of an op: with 10 M in flight, dropping the handles would be half of the CPU time.
                std::mem::forget(flight);
            });
        }
        meeting.wait();
        settle(case.flight * case.producers);
        let (start, cpu) = (Instant::now(), process_cpu());
        meeting.wait();
        meeting.wait();
        let wall = start.elapsed();
        let backlog = wait_until_quiet(Duration::from_secs(20));
        (wall, process_cpu().saturating_sub(cpu), backlog)
    });
    assert_eq!(tasks_run(), 0, "a timeout of 30 s has fired");
    let ops = (ops * case.producers as u64) as f64;
    Cost {
        wall: wall.as_nanos() as f64 / ops,
        cpu: cpu.as_nanos() as f64 / ops,
        backlog,
    }
}

/// Lets the timer take over what was scheduled: at 100 000 a tick of 10 ms, and then some.
pub(super) fn settle(pending: usize) {
    std::thread::sleep(Duration::from_millis(100 + pending as u64 / 5_000));
    wait_until_quiet(Duration::from_secs(20));
}

/// The timeouts of one producer, oldest first.
pub(super) struct Flight<P: Producer<Count>> {
    pub(super) producer: P,
    pub(super) handles: VecDeque<P::Handle>,
    pub(super) random: Random,
}

/// A random delay that no run lasts as long as.
#[inline]
pub(super) fn delay(random: &mut Random) -> Duration {
    DELAY + random.within(JITTER)
}

impl<P: Producer<Count>> Flight<P> {
    pub(super) fn new(producer: P, number: u64, count: usize) -> Self {
        let mut flight = Self {
            producer,
            handles: VecDeque::with_capacity(count + 1),
            random: Random::new(number + 1),
        };
        for _ in 0..count {
            flight.schedule();
        }
        flight
    }

    #[inline]
    fn schedule(&mut self) {
        let delay = delay(&mut self.random);
        let handle = self.producer.arm(Count::new(), delay);
        self.handles.push_back(handle);
    }

    pub(super) fn churn(&mut self, ops: u64) {
        for _ in 0..ops {
            self.schedule();
            if let Some(oldest) = self.handles.pop_front() {
                self.producer.cancel(oldest);
            }
        }
    }
    fn churn_at_random(&mut self, ops: u64) {
        for _ in 0..ops {
            let place = self.random.below(self.handles.len() as u64) as usize;
            self.schedule();
            if let Some(handle) = self.handles.swap_remove_back(place) {
                self.producer.cancel(handle);
            }
        }
    }
}
