//! One row of the comparison: a workload with its numbers, and who takes part.
//!
//! A case travels to the child process (Rust or Java) as plain `key=value` arguments.

use std::fmt;
use std::time::Duration;

use crate::contestant::{NETTY, REFERENCE};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workload {
    Churn,
    Fire,
    Mixed,
    Server,
    Random,
    Fill,
    Lateness,
    AtOnce,
    Fine,
    Hold,
    Idle,
    MemoryPending,
    MemoryMixed,
    MemoryHeld,
    Tails,
    Oversubscribed,
    Producers,
    At,
    DelayQueue,
    Growth,
}

impl Workload {
    const ALL: [(Self, &'static str); 20] = [
        (Self::Churn, "churn"),
        (Self::Fire, "fire"),
        (Self::Mixed, "mixed"),
        (Self::Server, "server"),
        (Self::Random, "random"),
        (Self::Fill, "fill"),
        (Self::Lateness, "lateness"),
        (Self::AtOnce, "at-once"),
        (Self::Fine, "fine"),
        (Self::Hold, "hold"),
        (Self::Idle, "idle"),
        (Self::MemoryPending, "memory-pending"),
        (Self::MemoryMixed, "memory-mixed"),
        (Self::MemoryHeld, "memory-held"),
        (Self::Tails, "tails"),
        (Self::Oversubscribed, "oversubscribed"),
        (Self::Producers, "producers"),
        (Self::At, "at"),
        (Self::DelayQueue, "delay-queue"),
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
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) workload: Workload,
    /// Timeouts that are pending: in flight per producer (churn and its relatives), in all elsewhere.
    pub(crate) flight: usize,
    pub(crate) producers: usize,
    /// Schedule-and-cancel pairs, of all producers together; a second's for all producers in `mixed` and `server`.
    pub(crate) ops: u64,
    pub(crate) tick_us: u64,
    pub(crate) slots: usize,
    /// How long a timer is watched, loaded or held up.
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

    /// The names of those who take part: everybody in the rows that are drawn, elsewhere this crate and whoever is worth
    /// the minutes.
    pub(crate) fn contestants(&self) -> &'static [&'static str] {
        const EVERYBODY: &[&str] = &[
            REFERENCE,
            "hierarchical",
            NETTY,
            "tokio",
            "delayqueue",
            "nexus",
            "pool",
            "binaryheap",
        ];
        const WHEELS: &[&str] = &[REFERENCE, "hierarchical", NETTY];
        const WITH_TOKIO: &[&str] = &[REFERENCE, "hierarchical", NETTY, "tokio"];
        const WITH_DELAY_QUEUE: &[&str] =
            &[REFERENCE, "hierarchical", NETTY, "tokio", "delayqueue"];
        match self.workload {
            Workload::Churn => EVERYBODY,
            Workload::Fire if self.tick_us == 1_000 => EVERYBODY,
            Workload::Lateness if self.tick_us == 1_000 => WITH_DELAY_QUEUE,
            Workload::Fire | Workload::Lateness => WHEELS,
            Workload::Mixed | Workload::Server | Workload::MemoryPending => WITH_DELAY_QUEUE,
            Workload::Fill | Workload::Hold => WITH_TOKIO,
            Workload::Idle => &[REFERENCE, NETTY],
            Workload::Random | Workload::Growth => {
                &[REFERENCE, "hierarchical", NETTY, "tokio", "array"]
            }
            Workload::Tails if self.flight == 100_000 => &[REFERENCE, NETTY, "tokio", "delayqueue"],
            Workload::Oversubscribed if self.producers == 16 => &[REFERENCE, NETTY, "tokio"],
            Workload::DelayQueue => &[REFERENCE, "delayqueue"],
            Workload::AtOnce
            | Workload::Fine
            | Workload::MemoryMixed
            | Workload::MemoryHeld
            | Workload::Tails
            | Workload::Oversubscribed
            | Workload::Producers
            | Workload::At => &[REFERENCE],
        }
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

/// The name of a row: `churn-1k-2p`, `fire-1ms`, `memory-mixed-1M`.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.workload.name();
        match self.workload {
            Workload::Churn | Workload::Growth | Workload::Tails | Workload::Random => {
                write!(f, "{name}-{}-{}p", short(self.flight), self.producers)
            }
            Workload::Oversubscribed | Workload::Producers | Workload::DelayQueue => {
                write!(f, "{name}-{}", self.producers)
            }
            Workload::Fire | Workload::Lateness | Workload::AtOnce | Workload::Hold => {
                write!(f, "{name}-{}ms", self.tick_us / 1_000)
            }
            Workload::Fine => write!(f, "{name}-{}us", self.tick_us),
            Workload::Fill | Workload::MemoryMixed => {
                write!(f, "{name}-{}", short(self.flight))
            }
            Workload::Mixed
            | Workload::Server
            | Workload::Idle
            | Workload::MemoryPending
            | Workload::MemoryHeld
            | Workload::At => f.write_str(name),
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

/// All rows, in the order in which they are run and shown. With `quick`, each does a tenth of the work.
pub(crate) fn all(quick: bool) -> Vec<Case> {
    let scale = if quick { 10 } else { 1 };
    let ops = 5_000_000 / scale;
    let million = 1_000_000 / scale;
    let watch_ms = if quick { 1_000 } else { 3_000 };
    let mut cases = Vec::new();
    for flight in [1_000, 100_000] {
        for producers in [1, 2] {
            cases.push(churn(Workload::Churn, flight, producers, ops));
        }
    }
    for tick_us in [1_000, 10_000] {
        cases.push(firing(Workload::Fire, million, tick_us, 2_000, 2_000));
    }
    cases.push(Case {
        producers: 2,
        ops: 1_000_000,
        watch_ms: 10_000 / scale as u64,
        ..firing(Workload::Mixed, 20_000, 1_000, 1, 19)
    });
    cases.push(Case {
        producers: 4,
        ops: 1_000_000,
        watch_ms: if quick { 2_000 } else { 5_000 },
        ..firing(Workload::Server, 100_000, 1_000, 1_000, 0)
    });
    for producers in [1, 2] {
        cases.push(churn(Workload::Random, million, producers, ops / 2));
    }
    cases.push(churn(Workload::Fill, million, 1, 0));
    for tick_us in [1_000, 10_000] {
        cases.push(firing(
            Workload::Lateness,
            100_000 / scale,
            tick_us,
            1_000,
            2_000,
        ));
    }
    cases.push(firing(Workload::AtOnce, 100_000 / scale, 1_000, 2, 2_000));
    cases.push(Case {
        watch_ms: 1_000,
        ..firing(Workload::Fine, 20_000 / scale, 100, 200, 4_000)
    });
    for (workload, pending) in [(Workload::Hold, million), (Workload::Idle, 1)] {
        cases.push(Case {
            watch_ms,
            ..Case::new(workload, pending, 1_000, 512)
        });
    }
    cases.push(Case::new(Workload::MemoryPending, million, 10_000, 4096));
    cases.push(Case {
        producers: 2,
        watch_ms: 2_000,
        ..firing(Workload::MemoryMixed, million, 10_000, 1_000, 1_500)
    });
    cases.push(Case {
        producers: 2,
        watch_ms: 5_000 / scale as u64,
        ..Case::new(Workload::MemoryHeld, 1_000, 10_000, 4096)
    });
    for flight in [1_000, 100_000, 1_000_000] {
        for producers in [1, 2] {
            cases.push(churn(Workload::Tails, flight, producers, 4_000_000 / scale));
        }
    }
    for producers in [4, 8, 16] {
        cases.push(Case {
            producers,
            watch_ms,
            ..Case::new(Workload::Oversubscribed, 10_000, 1_000, 4096)
        });
    }
    for producers in [16, 64] {
        cases.push(churn(Workload::Producers, 1_000, producers, ops));
    }
    cases.push(churn(Workload::At, 1_000, 1, ops));
    for producers in [1, 4] {
        cases.push(churn(Workload::DelayQueue, 1_000, producers, ops));
    }
    for flight in [1_000, 10_000, 100_000, 1_000_000, 10_000_000] {
        cases.push(churn(Workload::Growth, flight, 1, ops));
    }
    cases
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
