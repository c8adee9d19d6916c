//! churn: a number of timeouts in flight per producer; every op schedules one at 30 s (+0..1 s) and
//! cancels the oldest. Tick 10 ms, 4096 slots.
//!
//! The wall clock stops with the last op, the CPU clock of the process when the timer's thread has worked
//! off what it was given, so that nobody hides work in a queue.

use super::{schedule, tasks_run};
use crate::contestant::{Contestant, Sizes, Timer};
use crate::load::{CPU_NS, Figures};
use crate::os::{process_cpu, wait_until_quiet};
use crate::random::Random;
use hashed_wheel::Timeout;
use std::collections::VecDeque;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Churn {
    /// For each producer.
    pub(crate) flight: usize,
    pub(crate) producers: usize,
    /// Of all producers together.
    pub(crate) ops: usize,
}

pub(crate) const TICK: Duration = Duration::from_millis(10);
pub(crate) const SIZES: Sizes = Sizes::slots(4096);
const DELAY: Duration = Duration::from_secs(30);
const JITTER: Duration = Duration::from_secs(1);

pub(crate) fn run(load: &Churn, contestant: Contestant) -> Figures {
    let timer = Timer::real(contestant, TICK, SIZES);
    let ops = load.ops / load.producers;
    // Producers and this thread meet when all are ready, at the start, and at the end.
    let meeting = Barrier::new(load.producers + 1);
    let (wall, cpu) = thread::scope(|scope| {
        for number in 0..load.producers {
            let (timer, meeting) = (&timer, &meeting);
            scope.spawn(move || {
                let mut flight = Flight::new(timer, number as u64, load.flight);
                meeting.wait();
                meeting.wait();
                flight.churn(ops);
                meeting.wait();
            });
        }
        meeting.wait();
        // At 100 000 a tick, and then some.
        let pending = (load.flight * load.producers) as u64;
        thread::sleep(Duration::from_millis(40 + pending / 5_000));
        wait_until_quiet(Duration::from_secs(20));
        let (start, cpu) = (Instant::now(), process_cpu());
        meeting.wait();
        meeting.wait();
        let wall = start.elapsed();
        wait_until_quiet(Duration::from_secs(20));
        (wall, process_cpu().saturating_sub(cpu))
    });
    assert_eq!(tasks_run(), 0, "a timeout of 30 s has fired");
    let ops = (ops * load.producers) as f64;
    vec![
        ("wall_ns", wall.as_nanos() as f64 / ops),
        (CPU_NS, cpu.as_nanos() as f64 / ops),
    ]
}

/// The timeouts of one producer, oldest first.
pub(super) struct Flight<'a> {
    timer: &'a Timer,
    timeouts: VecDeque<Timeout>,
    random: Random,
}

impl<'a> Flight<'a> {
    pub(super) fn new(timer: &'a Timer, number: u64, count: usize) -> Flight<'a> {
        let mut flight = Flight {
            timer,
            timeouts: VecDeque::with_capacity(count + 1),
            random: Random::new(number),
        };
        for _ in 0..count {
            flight.schedule();
        }
        flight
    }

    #[inline]
    fn schedule(&mut self) {
        let jitter = self.random.below(JITTER.as_nanos() as u64);
        let delay = DELAY + Duration::from_nanos(jitter);
        self.timeouts.push_back(schedule(self.timer, delay));
    }

    pub(super) fn churn(&mut self, ops: usize) {
        for _ in 0..ops {
            self.schedule();
            if let Some(oldest) = self.timeouts.pop_front() {
                oldest.cancel();
            }
        }
    }
}
