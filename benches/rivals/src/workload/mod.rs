//! The workloads, each generic over the contestant, each run once in a process of its own.

pub(crate) mod at;
mod churn;
mod fire;
pub(crate) mod held;
mod lateness;
mod memory;
mod mixed;
pub(crate) mod oversubscribed;
mod rest;
mod server;
mod tails;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::case::{Case, Workload};
use crate::contestant::{Contestant, Task};

/// The figures of one run: name and value, in the order of the table.
pub(crate) type Figures = Vec<(String, f64)>;

/// Runs `case` once on `C`. Some rows ask more of a contestant: the child has its own lists of those.
pub(crate) fn run<C: Contestant>(case: &Case) -> Figures {
    let figures = match case.workload {
        Workload::Churn | Workload::Growth | Workload::DelayQueue => churn::run::<C>(case),
        Workload::Random => churn::random::<C>(case),
        Workload::Fill => churn::fill::<C>(case),
        Workload::Producers => churn::producers::<C>(case),
        Workload::Fire => fire::run::<C>(case),
        Workload::Mixed => mixed::run::<C>(case),
        Workload::Server => server::run::<C>(case),
        Workload::Lateness | Workload::AtOnce | Workload::Fine => lateness::run::<C>(case),
        Workload::Hold | Workload::Idle => rest::run::<C>(case),
        Workload::MemoryPending => memory::pending::<C>(case),
        Workload::Tails => return tails::run::<C>(case),
        Workload::At | Workload::MemoryMixed | Workload::MemoryHeld | Workload::Oversubscribed => {
            Vec::new()
        }
    };
    let owned = figures.into_iter();
    owned
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// What begins the one line of a child that counts.
const MARK: &str = "RESULT";

/// The line that a child prints.
pub(crate) fn format_line(figures: &Figures) -> String {
    let mut line = MARK.to_owned();
    for (name, value) in figures {
        let _ = write!(line, " {name}={value}");
    }
    line
}

/// Finds and reads the line that a child has printed.
pub(crate) fn parse_line(output: &str) -> Option<Figures> {
    let line = output.lines().find_map(|line| line.strip_prefix(MARK))?;
    let pairs = line.split_whitespace().map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((name.to_owned(), value.parse().ok()?))
    });
    pairs
        .collect::<Option<Figures>>()
        .filter(|all| !all.is_empty())
}

/// How many tasks have run. All of them run on the timer's one thread, so a plain addition does,
/// as in the Java program.
static RUN: AtomicU64 = AtomicU64::new(0);

fn tasks_run() -> u64 {
    RUN.load(Ordering::Acquire)
}

#[inline]
fn count_run() {
    RUN.store(RUN.load(Ordering::Relaxed) + 1, Ordering::Release);
}

/// A task that counts, and captures one word.
pub(crate) struct Count(&'static AtomicU64);

impl Count {
    fn new() -> Self {
        Self(&RUN)
    }
}

impl Task for Count {
    #[inline]
    fn run(self) {
        self.0
            .store(self.0.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

/// A list with room for `count` values whose memory has been touched already, so that it does not
/// show up in what is measured afterwards.
fn touched<T>(count: usize) -> Vec<T> {
    let mut list = Vec::<T>::with_capacity(count);
    for room in list.spare_capacity_mut() {
        // SAFETY: any bytes may be written to a `MaybeUninit`; nothing reads them as a `T`.
        unsafe { room.as_mut_ptr().write_bytes(1, 1) };
    }
    list
}
