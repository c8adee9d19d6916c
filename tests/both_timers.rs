//! The same random schedule on both timers and on a naive model: the same tasks at the same times.

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{Kind, Record, Rng, assert_counts_add_up, ms, noting};
use hashed_wheel::{ManualClock, Timeout, TimerHandle};

/// What can happen to a schedule, in microseconds.
#[derive(Debug, Clone, Copy)]
enum Step {
    Add { delay: u64 },
    Cancel { which: usize },
    Reset { which: usize, delay: u64 },
    Advance { by: u64 },
}

/// Calls come a microsecond after a whole millisecond: never on a boundary, where it depends on
/// the work there whether it is over. Deadlines lie on boundaries as well as beside them.
const OFFSET: u64 = 1;

fn random_delay(random: &mut Rng, longest: u64) -> u64 {
    // Short and long ones, and many of a few favourites, which share boundaries.
    let bound = [10, 100, longest][random.below(3) as usize];
    let favourites = [30, 100, 640];
    let millis = match random.below(4) {
        0 => favourites[random.below(3) as usize],
        _ => random.below(bound),
    };
    (millis * 1_000 + random.below(3)).saturating_sub(OFFSET)
}

fn schedule(random: &mut Rng, steps: usize, longest: u64) -> Vec<Step> {
    let mut added: usize = 0;
    let step = |_| match random.below(12) {
        kind @ 0..3 if added > 0 => {
            let which = random.below(added as u64) as usize;
            if kind == 0 {
                let delay = random_delay(random, longest);
                return Step::Reset { which, delay };
            }
            Step::Cancel { which }
        }
        3..5 => {
            let millis = [1, 9, 73, longest / 3][random.below(4) as usize];
            Step::Advance { by: millis * 1_000 }
        }
        _ => {
            added += 1;
            let delay = random_delay(random, longest);
            Step::Add { delay }
        }
    };
    (0..steps).map(step).collect()
}

/// Due at the first boundary at or after the deadline that is not over: the whole rule, naively.
struct Model {
    tick: u64,
    now: u64,
    due: BTreeMap<usize, u64>,
    /// Which fired, and at how many ms.
    fired: Vec<(usize, u64)>,
    added: usize,
}

impl Model {
    fn run(steps: &[Step], tick: u64) -> Model {
        let (due, fired) = (BTreeMap::new(), Vec::new());
        let mut model = Model {
            tick: tick * 1_000,
            now: OFFSET,
            due,
            fired,
            added: 0,
        };
        for step in steps {
            model.apply(*step);
        }
        model
    }

    fn due_after(&self, delay: u64) -> u64 {
        let not_over = (self.now / self.tick + 1) * self.tick;
        (self.now + delay).next_multiple_of(self.tick).max(not_over)
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Add { delay } => {
                self.due.insert(self.added, self.due_after(delay));
                self.added += 1;
            }
            Step::Cancel { which } => _ = self.due.remove(&which),
            Step::Reset { which, delay } => {
                let due = self.due_after(delay);
                self.due.entry(which).and_modify(|old| *old = due);
            }
            Step::Advance { by } => {
                self.now += by;
                let over = self.due.iter().filter(|(_, due)| **due <= self.now);
                let mut over: Vec<_> = over.map(|(id, due)| (*id, *due / 1_000)).collect();
                over.sort_unstable_by_key(|(id, due)| (*due, *id));
                self.fired.extend(over);
                self.due.retain(|_, due| *due > self.now);
            }
        }
    }
}

/// Runs a schedule on a timer: what fired when, and how many were left.
fn run(kind: Kind, steps: &[Step], tick: u64, slots: usize) -> (Vec<(usize, u64)>, usize) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind
        .builder()
        .tick(ms(tick))
        .buckets(slots)
        .clock(&clock)
        .build();
    timer.start().unwrap();
    clock.advance(Duration::from_micros(OFFSET));
    let mut all: Vec<Timeout> = Vec::new();
    for step in steps {
        match *step {
            Step::Add { delay } => {
                let task = noting(&seen, &clock, all.len());
                all.push(
                    timer
                        .new_timeout(task, Duration::from_micros(delay))
                        .unwrap(),
                );
            }
            Step::Cancel { which } => {
                let over = all[which].is_cancelled() || all[which].is_expired();
                assert_eq!(all[which].cancel(), !over);
            }
            Step::Reset { which, delay } => {
                let over = all[which].is_cancelled() || all[which].is_expired();
                assert_eq!(all[which].reset(Duration::from_micros(delay)), !over);
            }
            Step::Advance { by } => clock.advance(Duration::from_micros(by)),
        }
    }
    assert_counts_add_up(&timer);
    (seen.take(), timer.stop().unwrap().len())
}

/// Tasks of one boundary in any order.
fn by_boundary(mut fired: Vec<(usize, u64)>) -> Vec<(usize, u64)> {
    assert!(
        fired.is_sorted_by_key(|(_, at)| *at),
        "a later boundary ran first"
    );
    fired.sort_unstable_by_key(|(id, at)| (*at, *id));
    fired
}

fn compare(seed: u64, steps: usize, longest: u64, tick: u64, slots: usize) {
    let steps = schedule(&mut Rng(seed), steps, longest);
    let model = Model::run(&steps, tick);
    let expected = (by_boundary(model.fired), model.due.len());
    for kind in [Kind::Hashed, Kind::Hierarchical] {
        let (fired, left) = run(kind, &steps, tick, slots);
        let context = format!("{kind:?}, seed {seed}, tick {tick}, {slots} slots");
        assert_eq!((by_boundary(fired), left), expected, "{context}");
    }
}

#[test]
fn the_naive_model_and_both_timers_agree() {
    for seed in 0..60 {
        let tick = [1, 7, 10, 64][seed as usize % 4];
        let slots = [2, 8, 20, 512][seed as usize / 4 % 4];
        compare(seed, 400, 2_000, tick, slots);
    }
}

#[test]
fn they_agree_on_long_delays() {
    for seed in 100..120 {
        let slots = [2, 4, 16, 60][seed as usize % 4];
        compare(seed, 300, 10_000_000, 10, slots);
    }
}

#[test]
fn without_resets_the_hashed_wheel_keeps_the_order_of_calls() {
    for seed in 200..220 {
        let mut steps = schedule(&mut Rng(seed), 500, 1_000);
        steps.retain(|step| !matches!(step, Step::Reset { .. }));
        let model = Model::run(&steps, 10);
        let (fired, left) = run(Kind::Hashed, &steps, 10, 8);
        assert_eq!((fired, left), (model.fired, model.due.len()), "seed {seed}");
    }
}

#[test]
fn tasks_that_schedule_tasks_agree_on_both() {
    type Seen = Record<(u64, u64)>;
    fn plant(timer: &TimerHandle, seen: &Seen, clock: &ManualClock, id: u64, depth: u32) {
        let mut random = Rng(id);
        let delay = ms(random.below(300));
        let (seen, clock) = (seen.clone(), clock.clone());
        let task = move |t: &Timeout| {
            seen.push((id, common::now_ms(&clock)));
            for _ in 0..if depth == 0 { 0 } else { 2 } {
                plant(&t.timer(), &seen, &clock, random.next(), depth - 1);
            }
        };
        timer.new_timeout(task, delay).unwrap();
    }
    let [hashed, hierarchical] = [Kind::Hashed, Kind::Hierarchical].map(|kind| {
        let (clock, seen) = (ManualClock::new(), Record::new());
        let timer = kind.on(&clock);
        for id in 0..20 {
            plant(&timer, &seen, &clock, id, 6);
        }
        clock.advance(ms(10_000));
        assert_eq!(timer.pending_timeouts(), 0);
        let mut seen = seen.take();
        assert!(seen.is_sorted_by_key(|(_, at)| *at));
        seen.sort_unstable();
        seen
    });
    assert_eq!(hashed.len(), 20 * 127);
    assert_eq!(hashed, hierarchical);
}

#[test]
fn calls_on_a_boundary_agree_on_both() {
    let [hashed, hierarchical] = [Kind::Hashed, Kind::Hierarchical].map(|kind| {
        let (clock, seen) = (ManualClock::new(), Record::new());
        let timer = kind.on(&clock);
        let mut random = Rng(7);
        for n in 0..500 {
            let delay = ms(10 * random.below(20) + random.below(2));
            timer.new_timeout(noting(&seen, &clock, n), delay).unwrap();
            clock.advance(ms(10 * random.below(3)));
        }
        clock.advance(ms(1_000));
        let mut seen = seen.take();
        seen.sort_unstable();
        seen
    });
    assert_eq!(hashed.len(), 500);
    assert_eq!(hashed, hierarchical);
}
