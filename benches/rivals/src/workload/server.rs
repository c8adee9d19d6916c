//! server: a hundred thousand connections, each with an idle timeout of 1 s that its traffic resets ten times a second,
//! on four threads. One in a hundred falls silent, and its timeout fires.
//!
//! Threads work in steps of 10 ms, as in `mixed`. What is reported is the CPU time of the process for each reset.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::case::Case;
use crate::contestant::{Contestant, Producer, Task, Timer};
use crate::measure::{Random, process_cpu};

use super::churn::settle;

const STEP: Duration = Duration::from_millis(10);
/// One connection in so many falls silent.
const SILENT: usize = 100;

static FIRED: AtomicU64 = AtomicU64::new(0);

/// The idle timeout of a connection.
struct Close;

impl Task for Close {
    fn run(self) {
        FIRED.fetch_add(1, Ordering::Relaxed);
    }
}

pub(super) fn run<C: Contestant>(case: &Case) -> Vec<(&'static str, f64)> {
    let timer = <C::Timer<Close> as Timer<Close>>::new(case.tick(), case.slots);
    let each = case.flight / case.producers;
    let steps = (case.watch().as_millis() / STEP.as_millis()) as usize;
    let a_step = case.ops as usize / 100 / case.producers;
    let ready = std::sync::Barrier::new(case.producers + 1);
    let (start, cpu, wall, resets) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..case.producers as u64)
            .map(|number| {
                let (timer, ready) = (&timer, &ready);
                scope.spawn(move || {
                    let mut connections = Connections::<C>::new(timer, case, number, each);
                    ready.wait();
                    ready.wait();
                    let start = Instant::now();
                    let mut resets = 0;
                    for step in 0..steps {
                        let begin = start + STEP * step as u32;
                        std::thread::sleep(begin.saturating_duration_since(Instant::now()));
                        resets += connections.step(case, step, a_step);
                    }
                    // Ended first, torn down when everything is measured.
                    ready.wait();
                    ready.wait();
                    connections.cancel();
                    resets
                })
            })
            .collect();
        ready.wait();
        settle(0);
        let (start, cpu) = (Instant::now(), process_cpu());
        ready.wait();
        ready.wait();
        let (wall, cpu) = (start.elapsed(), process_cpu().saturating_sub(cpu));
        ready.wait();
        let resets: u64 = threads
            .into_iter()
            .map(|thread| thread.join().expect("a thread with connections"))
            .sum();
        (start, cpu, wall, resets)
    });
    let fired = FIRED.load(Ordering::Relaxed);
    let silent = (each.div_ceil(SILENT) * case.producers) as u64;
    assert!(
        fired == silent,
        "{fired} connections were closed, {silent} were silent, after {:?}",
        start.elapsed()
    );
    vec![
        ("cpu_ns", cpu.as_nanos() as f64 / resets as f64),
        (
            "cpu_percent",
            100.0 * cpu.as_secs_f64() / wall.as_secs_f64(),
        ),
        ("mops_per_s", resets as f64 / wall.as_secs_f64() / 1e6),
        ("fired", fired as f64),
    ]
}

/// The connections of one thread.
struct Connections<'a, C: Contestant + 'a> {
    producer: ProducerOf<'a, C>,
    /// Each with the step from which on it is silent.
    open: Vec<(HandleOf<'a, C>, usize)>,
    next: usize,
}

type ProducerOf<'a, C> = <<C as Contestant>::Timer<Close> as Timer<Close>>::Producer<'a>;
type HandleOf<'a, C> = <ProducerOf<'a, C> as Producer<Close>>::Handle;

impl<'a, C: Contestant> Connections<'a, C> {
    fn new(timer: &'a C::Timer<Close>, case: &Case, number: u64, count: usize) -> Self {
        let mut producer = timer.producer();
        let mut random = Random::new(number + 1);
        // So early that its timeout fires before the end.
        let latest = (case.watch_ms.saturating_sub(case.delay_ms + 500) / 10).max(1);
        // Until the threads are ready, everybody waits for longer than the idle timeout.
        let first = case.delay() + Duration::from_secs(2);
        let mut open: Vec<_> = (0..count)
            .map(|place| {
                let silent = place.is_multiple_of(SILENT);
                let from = silent.then(|| 10 + random.below(latest) as usize);
                let handle = producer.arm_to_fire(Close, first);
                (handle, from.unwrap_or(usize::MAX))
            })
            .collect();
        // Traffic comes in another order than the connections were made.
        for place in (1..open.len()).rev() {
            let other = random.below(place as u64 + 1) as usize;
            open.swap(place, other);
        }
        Self {
            producer,
            open,
            next: 0,
        }
    }

    /// Resets the next `count` connections, and returns how many were not silent.
    fn step(&mut self, case: &Case, step: usize, count: usize) -> u64 {
        let mut resets = 0;
        for _ in 0..count {
            let (handle, silent_from) = &mut self.open[self.next];
            if step < *silent_from {
                self.producer.reset(handle, case.delay());
                resets += 1;
            }
            self.next = (self.next + 1) % self.open.len();
        }
        resets
    }

    /// Cancels what has not fired. A silent one has.
    fn cancel(mut self) {
        for (handle, silent_from) in self.open {
            if silent_from == usize::MAX || C::DROP_CANCELS {
                self.producer.cancel(handle);
            }
        }
    }
}
