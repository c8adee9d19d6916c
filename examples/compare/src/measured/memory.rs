//! memory: what a pending timeout costs, and what a long churn leaves behind.

use super::churn::{self, Flight};
use crate::contestant::{Contestant, Sizes, Timer};
use crate::load::Figures;
use crate::os::{resident, wait_until_quiet};
use crate::random::Random;
use hashed_wheel::Timeout;
use std::thread;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Leftover {
    pub(crate) flight: usize,
    pub(crate) ops: usize,
}

const HOUR: Duration = Duration::from_secs(3600);

/// Resident bytes per pending timeout whose task captures 24 bytes. Tick 10 ms, 4096 slots.
pub(crate) fn held(pending: usize, contestant: Contestant) -> Figures {
    let timer = Timer::real(contestant, churn::TICK, Sizes::slots(4096));
    timer.handle.start().expect("a new timer starts");
    let mut random = Random::new(1);
    let before = resident();
    for number in 0..pending as u64 {
        let captured = [number; 3];
        let delay = HOUR + Duration::from_nanos(random.below(HOUR.as_nanos() as u64));
        let task = move |_: &Timeout| {
            std::hint::black_box(captured);
        };
        let scheduled = timer.handle.new_timeout(task, delay);
        drop(scheduled.expect("a running timer takes a timeout"));
    }
    settle(pending);
    let bytes = resident().saturating_sub(before);
    vec![("bytes", bytes as f64 / pending as f64)]
}

/// Resident memory after a churn, and how much more it is after ten times as much.
pub(crate) fn leftover(load: &Leftover, contestant: Contestant) -> Figures {
    let timer = Timer::real(contestant, churn::TICK, churn::SIZES);
    let mut flight = Flight::new(&timer, 0, load.flight);
    flight.churn(load.ops);
    settle(load.flight);
    let short = resident() as f64;
    flight.churn(9 * load.ops);
    settle(load.flight);
    let long = resident() as f64;
    vec![("growth", long / short), ("megabytes", long / 1e6)]
}

/// Gives the timer the ticks that it needs to take over what was scheduled.
fn settle(pending: usize) {
    thread::sleep(churn::TICK * (5 + pending as u32 / 25_000));
    wait_until_quiet(Duration::from_secs(20));
}
