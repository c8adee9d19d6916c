//! mixed: what a busy server does to its timer. Each producer schedules half a million timeouts a second at 30 s and
//! cancels each after 5 ms on average (exponential), and lets ten thousand a second fire after 1 to 20 ms.
//!
//! Producers work in steps of a millisecond and sleep between them. One that is behind does its steps without sleeping,
//! so every contestant gets the same number of calls. What is reported is the CPU time of the process, harness included,
//! and the lateness of what fired.

use std::sync::Barrier;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use super::lateness::Late;
use crate::case::Case;
use crate::contestant::{Contestant, Producer, Task, Timer};
use crate::measure::{Random, process_cpu, wait_until_quiet};

const FAR: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(1);
/// The mean life of a timeout that is cancelled, in steps, and the longest one.
const MEAN: f64 = 5.0;
const STEPS_AHEAD: usize = 256;
const LIVES: usize = 4096;
/// The store of a timeout that has not fired.
const NOT_YET: i64 = i64::MIN;

/// One that notes how late it is, or one that never fires.
impl Task for Option<Late> {
    fn run(self) {
        if let Some(late) = self {
            late.run();
        }
    }
}

pub(super) fn run<C: Contestant>(case: &Case) -> Vec<(&'static str, f64)> {
    let steps = (case.watch().as_millis() / STEP.as_millis()) as usize;
    let each_step = |a_second: usize| a_second / 1_000 / case.producers;
    let (far, firing) = (each_step(case.ops as usize), each_step(case.flight));
    let all = steps * firing * case.producers;
    let stores: Vec<AtomicI64> = (0..all).map(|_| AtomicI64::new(NOT_YET)).collect();
    let stores: &'static [AtomicI64] = stores.leak();
    let timer = <C::Timer<Option<Late>> as Timer<Option<Late>>>::new(case.tick(), case.slots);
    let lives = lives();
    let (start, cpu) = (Instant::now(), process_cpu());
    let end = Barrier::new(case.producers + 1);
    let wall = std::thread::scope(|scope| {
        for (number, stores) in stores.chunks(steps * firing).enumerate() {
            let (timer, lives, end) = (&timer, &lives, &end);
            scope.spawn(move || {
                let mut load = Load::<C> {
                    producer: timer.producer(),
                    random: Random::new(number as u64 + 1),
                    lives,
                    ahead: (0..STEPS_AHEAD).map(|_| Vec::new()).collect(),
                };
                for (step, stores) in stores.chunks(firing).enumerate() {
                    let begin = start + STEP * step as u32;
                    std::thread::sleep(begin.saturating_duration_since(Instant::now()));
                    load.step(case, step, far, stores);
                }
                end.wait();
                // Handles whose drop would cancel are kept until everything has fired.
                end.wait();
                std::mem::forget(load.ahead);
            });
        }
        end.wait();
        let wall = start.elapsed();
        wait_for(stores);
        end.wait();
        wall
    });
    wait_until_quiet(Duration::from_secs(5));
    let cpu = process_cpu().saturating_sub(cpu);
    let mut late: Vec<i64> = stores
        .iter()
        .map(|late| late.load(Ordering::Relaxed))
        .collect();
    late.sort_unstable();
    let at = |share: f64| late[((late.len() - 1) as f64 * share) as usize] as f64 / 1_000.0;
    let calls = (steps * (far + firing) * case.producers) as f64;
    vec![
        (
            "cpu_percent",
            100.0 * cpu.as_secs_f64() / case.watch().as_secs_f64(),
        ),
        ("cpu_ns", cpu.as_nanos() as f64 / calls),
        ("mops_per_s", calls / wall.as_secs_f64() / 1e6),
        ("p50_us", at(0.5)),
        ("p99_us", at(0.99)),
        ("p99.9_us", at(0.999)),
        ("max_us", at(1.0)),
        ("early", late.partition_point(|&late| late < 0) as f64),
    ]
}

/// What one producer has in flight: the handles by the step in which they are cancelled.
struct Load<'a, C: Contestant + 'a> {
    producer: ProducerOf<'a, C>,
    random: Random,
    lives: &'a [usize],
    ahead: Vec<Vec<HandleOf<'a, C>>>,
}

type ProducerOf<'a, C> =
    <<C as Contestant>::Timer<Option<Late>> as Timer<Option<Late>>>::Producer<'a>;
type HandleOf<'a, C> = <ProducerOf<'a, C> as Producer<Option<Late>>>::Handle;

impl<C: Contestant> Load<'_, C> {
    fn step(&mut self, case: &Case, step: usize, far: usize, stores: &'static [AtomicI64]) {
        let mut over = std::mem::take(&mut self.ahead[step % STEPS_AHEAD]);
        for handle in over.drain(..) {
            self.producer.cancel(handle);
        }
        self.ahead[step % STEPS_AHEAD] = over;
        for _ in 0..far {
            let handle = self.producer.arm(None, FAR);
            let life = self.lives[self.random.below(LIVES as u64) as usize];
            self.ahead[(step + life) % STEPS_AHEAD].push(handle);
        }
        for store in stores {
            let delay = case.delay() + self.random.within(case.spread());
            let deadline = Instant::now() + delay;
            let handle = self
                .producer
                .arm_to_fire(Some(Late { deadline, store }), delay);
            if C::DROP_CANCELS {
                // Kept until long after it has fired.
                self.ahead[(step + STEPS_AHEAD - 1) % STEPS_AHEAD].push(handle);
            }
        }
    }
}

/// Numbers of steps, exponentially distributed: drawn before, so that the logarithm is no part of the load.
fn lives() -> Vec<usize> {
    let life = |place: usize| {
        let share = (place as f64 + 0.5) / LIVES as f64;
        let steps = (-MEAN * share.ln()).round() as usize;
        steps.clamp(1, STEPS_AHEAD - 2)
    };
    (0..LIVES).map(life).collect()
}

/// Waits until everything has fired that should.
fn wait_for(stores: &[AtomicI64]) {
    let start = Instant::now();
    for store in stores {
        while store.load(Ordering::Acquire) == NOT_YET {
            assert!(start.elapsed().as_secs() < 20, "not everything has fired");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
