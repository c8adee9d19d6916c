//! The reference for the cache: the slots of the steady load as a plain array, touched in the order in
//! which a timer has to touch them, and nothing else. What grows here with the number pending grows in
//! any timer that keeps its tasks somewhere.

use super::steady::{Source, Steady, Target};
use super::{CPU_NS, Figures};
use crate::contestant::TICK;
use crate::os;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

/// As large as a slot of the timer.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Slot([u64; 8]);

/// Set in an operation that ends a timeout; the rest is the number of its slot.
const END: u32 = 1 << 31;

/// Writes down which slots are used and freed, in order.
#[derive(Default)]
struct Recorder {
    now: Duration,
    free: Vec<u32>,
    due: BTreeMap<u64, Vec<Tenant>>,
    /// By slot: how many timeouts it has seen come and go. Odd while one is pending.
    lives: Vec<u32>,
    operations: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Tenant {
    slot: u32,
    life: u32,
}

impl Recorder {
    fn end(&mut self, tenant: Tenant) {
        let life = &mut self.lives[tenant.slot as usize];
        if *life == tenant.life {
            *life += 1;
            self.operations.push(tenant.slot | END);
            self.free.push(tenant.slot);
        }
    }
}

impl Target for Recorder {
    type Handle = Tenant;

    fn schedule(&mut self, delay: Duration) -> Tenant {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.lives.push(0);
            self.lives.len() as u32 - 1
        });
        self.operations.push(slot);
        self.lives[slot as usize] += 1;
        let tenant = Tenant {
            slot,
            life: self.lives[slot as usize],
        };
        let boundary = (self.now + delay).as_nanos().div_ceil(TICK.as_nanos());
        self.due.entry(boundary as u64).or_default().push(tenant);
        tenant
    }

    fn cancel(&mut self, tenant: Tenant) {
        self.end(tenant);
    }

    fn advance(&mut self, by: Duration) {
        self.now += by;
        let passed = self.now.as_nanos() / TICK.as_nanos();
        let later = self.due.split_off(&(passed as u64 + 1));
        let due = std::mem::replace(&mut self.due, later);
        for tenant in due.into_values().flatten() {
            self.end(tenant);
        }
    }
}

pub(crate) fn run(load: &Steady) -> Figures {
    let mut source = Source::new(load, Recorder::default());
    source.fill();
    source.flow(load.warm_up());
    let filled = source.target.operations.len();
    source.flow(load.events);
    let Recorder {
        operations, lives, ..
    } = source.target;
    let mut array = vec![Slot([1; 8]); lives.len()];
    let (fill, flow) = operations.split_at(filled);
    touch(&mut array, fill);
    let before = os::thread_cpu();
    let ended = touch(&mut array, flow);
    let cpu = os::thread_cpu().saturating_sub(before);
    vec![(CPU_NS, cpu.as_nanos() as f64 / ended as f64)]
}

/// Returns how many timeouts have ended.
fn touch(array: &mut [Slot], operations: &[u32]) -> u64 {
    let mut ended = 0;
    for &operation in operations {
        let slot = &mut array[(operation & !END) as usize].0;
        slot[0] = black_box(slot[7]);
        slot[7] = u64::from(operation);
        ended += u64::from(operation & END != 0);
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::{Steady, run};
    use crate::contestant::Sizes;

    #[test]
    fn timeouts_come_and_go_as_in_the_load() {
        for cancelled in [0.0, 0.5, 1.0] {
            let figures = run(&Steady {
                pending: 1_000,
                delay: 100.0,
                cancelled,
                events: 10_000,
                sizes: Sizes::DEFAULT,
            });
            assert!(figures[0].1 > 0.0 && figures[0].1.is_finite());
        }
    }
}
