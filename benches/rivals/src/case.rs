//! One row of the comparison: a workload with its numbers.
//!
//! A case travels to the child process (Rust, Java or Go) as plain `key=value` arguments.

use std::fmt;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workload {
    Churn,
    Fire,
    Lateness,
    Hold,
    Idle,
    MemoryPending,
    MemoryChurn,
    Tails,
    Oversubscribed,
    Producers,
    AtOnce,
    Boundary,
    Fine,
    At,
    MemoryBurst,
    Growth,
}

impl Workload {
    const ALL: [(Self, &'static str); 16] = [
        (Self::Churn, "churn"),
        (Self::Fire, "fire"),
        (Self::Lateness, "lateness"),
        (Self::Hold, "hold"),
        (Self::Idle, "idle"),
        (Self::MemoryPending, "memory-pending"),
        (Self::MemoryChurn, "memory-churn"),
        (Self::Tails, "tails"),
        (Self::Oversubscribed, "oversubscribed"),
        (Self::Producers, "producers"),
        (Self::AtOnce, "at-once"),
        (Self::Boundary, "boundary"),
        (Self::Fine, "fine"),
        (Self::At, "at"),
        (Self::MemoryBurst, "memory-burst"),
        (Self::Growth, "growth"),
    ];

    pub(crate) fn name(self) -> &'static str {
        let (_, name) = Self::ALL[self as usize];
        name
    }

    fn parse(text: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text)?;
        Some(found.0)
    }

    /// One of the rows that run only when they are asked for.
    pub(crate) fn is_extra(self) -> bool {
        self as usize >= Self::Tails as usize
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) workload: Workload,
    /// Timeouts that are pending: in flight per producer (churn and its relatives), in all elsewhere.
    pub(crate) flight: usize,
    pub(crate) producers: usize,
    /// Schedule-and-cancel pairs, of all producers together.
    pub(crate) ops: u64,
    pub(crate) tick_us: u64,
    pub(crate) slots: usize,
    /// How long a timer is watched.
    pub(crate) watch_ms: u64,
    /// The shortest delay, and how much longer the longest is, where timeouts fire.
    pub(crate) delay_ms: u64,
    pub(crate) spread_ms: u64,
    /// The number of this run: workloads of two halves change their order with it.
    pub(crate) round: u64,
}

impl Case {
    fn new(workload: Workload, flight: usize, tick_us: u64, slots: usize) -> Self {
        Self {
            workload,
            flight,
            producers: 1,
            ops: 0,
            tick_us,
            slots,
            watch_ms: 0,
            delay_ms: 0,
            spread_ms: 0,
            round: 0,
        }
    }

    pub(crate) fn tick(&self) -> Duration {
        Duration::from_micros(self.tick_us)
    }

    pub(crate) fn watch(&self) -> Duration {
        Duration::from_millis(self.watch_ms)
    }

    pub(crate) fn delay(&self) -> Duration {
        Duration::from_millis(self.delay_ms)
    }

    pub(crate) fn spread(&self) -> Duration {
        Duration::from_millis(self.spread_ms)
    }

    /// The arguments from which [`Case::from_args`] makes the same case.
    pub(crate) fn to_args(&self) -> Vec<String> {
        vec![
            self.workload.name().to_owned(),
            format!("flight={}", self.flight),
            format!("producers={}", self.producers),
            format!("ops={}", self.ops),
            format!("tick_us={}", self.tick_us),
            format!("slots={}", self.slots),
            format!("watch_ms={}", self.watch_ms),
            format!("delay_ms={}", self.delay_ms),
            format!("spread_ms={}", self.spread_ms),
            format!("round={}", self.round),
        ]
    }

    pub(crate) fn from_args(args: &[String]) -> Result<Self, String> {
        let (name, numbers) = args.split_first().ok_or("a workload is missing")?;
        let workload = Workload::parse(name).ok_or_else(|| format!("no workload `{name}`"))?;
        let mut case = Self::new(workload, 0, 1_000, 1);
        for text in numbers {
            let bad = || format!("`{text}` is not a number of a case");
            let (key, value) = text.split_once('=').ok_or_else(bad)?;
            let value: u64 = value.parse().map_err(|_| bad())?;
            match key {
                "flight" => case.flight = value as usize,
                "producers" => case.producers = value as usize,
                "ops" => case.ops = value,
                "tick_us" => case.tick_us = value,
                "slots" => case.slots = value as usize,
                "watch_ms" => case.watch_ms = value,
                "delay_ms" => case.delay_ms = value,
                "spread_ms" => case.spread_ms = value,
                "round" => case.round = value,
                _ => return Err(bad()),
            }
        }
        Ok(case)
    }
}

/// The name of a row: `churn-1k-2p`, `fire-1ms`, `idle-0`.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.workload.name();
        match self.workload {
            Workload::Churn | Workload::Growth | Workload::Tails => {
                write!(f, "{name}-{}-{}p", short(self.flight), self.producers)
            }
            Workload::Oversubscribed | Workload::Producers => {
                write!(f, "{name}-{}", self.producers)
            }
            Workload::Fire
            | Workload::Lateness
            | Workload::AtOnce
            | Workload::Boundary
            | Workload::Hold => write!(f, "{name}-{}ms", self.tick_us / 1_000),
            Workload::Fine => write!(f, "{name}-{}us", self.tick_us),
            Workload::At | Workload::MemoryBurst => write!(f, "{name}-{}", short(self.flight)),
            Workload::Idle => write!(f, "{name}-{}", self.flight),
            Workload::MemoryPending | Workload::MemoryChurn => f.write_str(name),
        }
    }
}

/// 1000 as 1k, 10000000 as 10M.
fn short(count: usize) -> String {
    match count {
        n if n >= 1_000_000 && n.is_multiple_of(1_000_000) => format!("{}M", n / 1_000_000),
        n if n >= 1_000 && n.is_multiple_of(1_000) => format!("{}k", n / 1_000),
        n => n.to_string(),
    }
}

/// How large the workloads are.
#[derive(Debug)]
pub(crate) struct Sizes {
    pub(crate) quick: bool,
    pub(crate) flights: Vec<usize>,
    pub(crate) producers: Vec<usize>,
    /// How long each half of an oversubscribed run takes.
    pub(crate) seconds: u64,
}

/// All rows, in the order in which they are run and shown.
pub(crate) fn all(sizes: &Sizes) -> Vec<Case> {
    let mut cases = standard(sizes);
    cases.extend(extra(sizes));
    cases
}

fn scale(sizes: &Sizes) -> usize {
    if sizes.quick { 10 } else { 1 }
}

fn churn(workload: Workload, flight: usize, producers: usize, ops: usize) -> Case {
    Case {
        producers,
        ops: ops as u64,
        ..Case::new(workload, flight, 10_000, 4096)
    }
}

fn firing(workload: Workload, flight: usize, tick_us: u64, delay_ms: u64, spread_ms: u64) -> Case {
    Case {
        delay_ms,
        spread_ms,
        ..Case::new(workload, flight, tick_us, 4096)
    }
}

fn standard(sizes: &Sizes) -> Vec<Case> {
    let scale = scale(sizes);
    let watch_ms = if sizes.quick { 1_000 } else { 5_000 };
    let ops = 5_000_000 / scale;
    let mut cases = Vec::new();
    for &flight in &sizes.flights {
        for &producers in &sizes.producers {
            cases.push(churn(Workload::Churn, flight, producers, ops));
        }
    }
    for tick_us in [1_000, 10_000] {
        let count = 1_000_000 / scale;
        cases.push(firing(Workload::Fire, count, tick_us, 3_000, 2_000));
    }
    for tick_us in [1_000, 10_000] {
        let count = 100_000 / scale;
        cases.push(firing(Workload::Lateness, count, tick_us, 1_000, 2_000));
    }
    for tick_us in [1_000, 10_000] {
        cases.push(Case {
            watch_ms,
            ..Case::new(Workload::Hold, 1_000_000 / scale, tick_us, 512)
        });
    }
    for pending in [0, 1] {
        cases.push(Case {
            watch_ms,
            ..Case::new(Workload::Idle, pending, 1_000, 512)
        });
    }
    let pending = 1_000_000 / scale;
    cases.push(Case::new(Workload::MemoryPending, pending, 10_000, 4096));
    cases.push(churn(Workload::MemoryChurn, 100_000, 1, ops));
    cases
}

/// The rows that run with `--all`, or when a filter names them.
fn extra(sizes: &Sizes) -> Vec<Case> {
    let scale = scale(sizes);
    let ops = 5_000_000 / scale;
    let mut cases = Vec::new();
    for flight in [1_000, 100_000, 1_000_000] {
        for producers in [1, 2] {
            let calls = 4_000_000 / scale;
            cases.push(churn(Workload::Tails, flight, producers, calls));
        }
    }
    for producers in [4, 8, 16] {
        cases.push(Case {
            producers,
            watch_ms: 1_000 * sizes.seconds,
            ..Case::new(Workload::Oversubscribed, 10_000, 1_000, 4096)
        });
    }
    for producers in [1, 2, 4, 16, 64] {
        cases.push(churn(Workload::Producers, 1_000, producers, ops));
    }
    let many = 100_000 / scale;
    cases.push(firing(Workload::AtOnce, many, 1_000, 2, 2_000));
    cases.push(firing(Workload::Boundary, many, 1_000, 1_000, 0));
    cases.push(Case {
        watch_ms: 1_000,
        ..firing(Workload::Fine, 20_000 / scale, 100, 200, 4_000)
    });
    for flight in [1_000, 100_000] {
        cases.push(churn(Workload::At, flight, 1, ops));
    }
    // The larger one takes longer to schedule, and must not begin to fire meanwhile.
    for (burst, delay_ms) in [(1_000_000, 4_000), (10_000_000, 12_000)] {
        let case = firing(Workload::MemoryBurst, burst / scale, 10_000, delay_ms, 500);
        cases.push(case);
    }
    for flight in [1_000, 10_000, 100_000, 1_000_000, 10_000_000] {
        cases.push(churn(Workload::Growth, flight, 1, ops));
    }
    for producers in 2..=8 {
        cases.push(churn(Workload::Growth, 1_000, producers, ops));
    }
    cases
}
