//! One row of the comparison: a workload with its numbers.
//!
//! A case travels to the child process (Rust or Java) as plain `key=value` arguments.

use std::fmt;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workload {
    Churn,
    Growth,
    Fire,
    Lateness,
    Hold,
    Idle,
    MemoryPending,
    MemoryChurn,
}

impl Workload {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Churn, "churn"),
        (Self::Growth, "growth"),
        (Self::Fire, "fire"),
        (Self::Lateness, "lateness"),
        (Self::Hold, "hold"),
        (Self::Idle, "idle"),
        (Self::MemoryPending, "memory-pending"),
        (Self::MemoryChurn, "memory-churn"),
    ];

    pub(crate) fn name(self) -> &'static str {
        let (_, name) = Self::ALL[self as usize];
        name
    }

    fn parse(text: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text)?;
        Some(found.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) workload: Workload,
    /// Timeouts that are pending: in flight per producer (churn), in all elsewhere.
    pub(crate) flight: usize,
    pub(crate) producers: usize,
    /// Schedule-and-cancel pairs, of all producers together.
    pub(crate) ops: u64,
    pub(crate) tick_ms: u64,
    pub(crate) slots: usize,
    /// How long a timer at rest is watched.
    pub(crate) watch_ms: u64,
}

impl Case {
    fn new(workload: Workload, flight: usize, tick_ms: u64, slots: usize) -> Self {
        Self {
            workload,
            flight,
            producers: 1,
            ops: 0,
            tick_ms,
            slots,
            watch_ms: 0,
        }
    }

    pub(crate) fn tick(&self) -> Duration {
        Duration::from_millis(self.tick_ms)
    }

    pub(crate) fn watch(&self) -> Duration {
        Duration::from_millis(self.watch_ms)
    }

    /// The arguments from which [`Case::from_args`] makes the same case.
    pub(crate) fn to_args(&self) -> Vec<String> {
        vec![
            self.workload.name().to_owned(),
            format!("flight={}", self.flight),
            format!("producers={}", self.producers),
            format!("ops={}", self.ops),
            format!("tick_ms={}", self.tick_ms),
            format!("slots={}", self.slots),
            format!("watch_ms={}", self.watch_ms),
        ]
    }

    pub(crate) fn from_args(args: &[String]) -> Result<Self, String> {
        let (name, numbers) = args.split_first().ok_or("a workload is missing")?;
        let workload = Workload::parse(name).ok_or_else(|| format!("no workload `{name}`"))?;
        let mut case = Self::new(workload, 0, 1, 1);
        for text in numbers {
            let bad = || format!("`{text}` is not a number of a case");
            let (key, value) = text.split_once('=').ok_or_else(bad)?;
            let value: u64 = value.parse().map_err(|_| bad())?;
            match key {
                "flight" => case.flight = value as usize,
                "producers" => case.producers = value as usize,
                "ops" => case.ops = value,
                "tick_ms" => case.tick_ms = value,
                "slots" => case.slots = value as usize,
                "watch_ms" => case.watch_ms = value,
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
            Workload::Churn | Workload::Growth => {
                write!(f, "{name}-{}-{}p", short(self.flight), self.producers)
            }
            Workload::Fire | Workload::Lateness | Workload::Hold => {
                write!(f, "{name}-{}ms", self.tick_ms)
            }
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
    pub(crate) growth: bool,
    pub(crate) flights: Vec<usize>,
    pub(crate) producers: Vec<usize>,
}

/// All rows, in the order in which they are run and shown.
pub(crate) fn all(sizes: &Sizes) -> Vec<Case> {
    let scale = if sizes.quick { 10 } else { 1 };
    let watch_ms = if sizes.quick { 1_000 } else { 5_000 };
    let churn = |workload, flight, producers, ops| Case {
        producers,
        ops,
        ..Case::new(workload, flight, 10, 4096)
    };
    let mut cases = Vec::new();
    for &flight in &sizes.flights {
        for &producers in &sizes.producers {
            let ops = 5_000_000 / scale;
            cases.push(churn(Workload::Churn, flight, producers, ops));
        }
    }
    for (workload, flight) in [(Workload::Fire, 1_000_000), (Workload::Lateness, 100_000)] {
        for tick_ms in [1, 10] {
            cases.push(Case::new(workload, flight / scale as usize, tick_ms, 4096));
        }
    }
    for tick_ms in [1, 10] {
        cases.push(Case {
            watch_ms,
            ..Case::new(Workload::Hold, 1_000_000 / scale as usize, tick_ms, 512)
        });
    }
    for pending in [0, 1] {
        cases.push(Case {
            watch_ms,
            ..Case::new(Workload::Idle, pending, 1, 512)
        });
    }
    let pending = 1_000_000 / scale as usize;
    cases.push(Case::new(Workload::MemoryPending, pending, 10, 4096));
    let ops = 5_000_000 / scale;
    cases.push(churn(Workload::MemoryChurn, 100_000, 1, ops));
    if sizes.growth {
        let ops = 5_000_000 / scale;
        for flight in [1_000, 10_000, 100_000, 1_000_000, 10_000_000] {
            cases.push(churn(Workload::Growth, flight, 1, ops));
        }
        for producers in 2..=8 {
            cases.push(churn(Workload::Growth, 1_000, producers, ops));
        }
    }
    cases
}
