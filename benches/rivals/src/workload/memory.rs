//! memory-pending: what a pending timeout costs.

use std::time::Duration;

use super::count_run;
use crate::case::Case;
use crate::contestant::{Contestant, Producer, Task, Timer};
use crate::measure::{Random, resident, wait_until_quiet};

const HOUR: Duration = Duration::from_hours(1);

/// A task that captures 24 bytes.
struct Capture([u64; 3]);

impl Task for Capture {
    fn run(self) {
        std::hint::black_box(self.0);
        count_run();
    }
}

/// Resident bytes per pending timeout, the task's 24 bytes included. A handle counts where the
/// timeout lives in it, and dies with it; elsewhere it is dropped at once.
pub(super) fn pending<C: Contestant>(case: &Case) -> Vec<(&'static str, f64)> {
    let timer = <C::Timer<Capture> as Timer<Capture>>::new(case.tick(), case.slots);
    let mut producer = timer.producer();
    let mut random = Random::new(1);
    let mut kept = Vec::with_capacity(if C::DROP_CANCELS { case.flight } else { 0 });
    let before = resident();
    for number in 0..case.flight as u64 {
        let task = Capture([number, number, number]);
        let handle = producer.arm(task, HOUR + random.within(HOUR));
        if C::DROP_CANCELS {
            kept.push(handle);
        }
    }
    settle();
    let bytes = resident().saturating_sub(before);
    vec![("bytes_per_timeout", bytes as f64 / case.flight as f64)]
}

fn settle() {
    std::thread::sleep(Duration::from_secs(1));
    wait_until_quiet(Duration::from_secs(20));
}
