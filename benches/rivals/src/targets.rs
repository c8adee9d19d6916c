//! The targets that this crate has set itself, checked against one measurement.
//!
//! | row | must | aim |
//! |---|---|---|
//! | churn, 1 producer | ≤ 0.75 × Netty's wall, ≤ 0.5 × its CPU; ≤ 0.75 × the best Rust rival in both | 0.55 × Netty's wall |
//! | churn, 2 producers | ≤ 0.35 × Netty in both; ≤ 0.5 × the best Rust rival | 0.25 × Netty |
//! | fire | CPU per timeout ≤ 0.6 × Netty at 1 ms, ≤ 0.7 × at 10 ms | 0.5 × |
//! | lateness | p50 ≤ 0.6 tick + 0.1 ms, p99 ≤ 1 tick + 1 ms, never early | |
//! | lateness and at-once, 1 ms | p99.9 ≤ 1 tick + 1.5 × that of a bare parked thread in the same run | |
//! | hold, idle | ≤ 0.2 % of a core; no wake-up | |
//! | memory | ≤ 96 bytes per pending timeout; within 10 % after ten times the churn; within 10 MB of the start after a burst | 88 bytes |
//! | tails | each call p99.9 ≤ 1 µs, p99.999 ≤ 3 × that of the clock alone on the same threads | p99.9 ≤ 0.5 µs |
//! | oversubscribed | p99 gap ≤ 3 × that beside spinning threads; the queue bounded | |
//! | producers | 64 threads: CPU per op ≤ 1.3 × one's | |
//! | fine, 100 µs | p50 ≤ 130 µs, p99 ≤ 300 µs, never early, no idle wake-up | p50 ≤ 90 µs |
//! | at | `new_timeout_at` ≤ 58 ns, set when `new_timeout` took 75 of which the clock was 23; `reset_at` to the same tick ≤ 10 ns | 50 ns |
//! | growth | CPU ≤ 1.5 × that of 1 k in flight | |
//!
//! What is compared with another figure is compared round by round: the median of the ratios counts.
//! The best rival is the best in that row and figure.

use std::fmt::Write as _;

use crate::case::{Case, Workload};
use crate::contestant::{NETTY, REFERENCE};
use crate::table::{Table, number};

/// The Rust rivals that set the mark.
const PEERS: [&str; 7] = [
    "tokio",
    "delayqueue",
    "hhwt",
    "async-io",
    "pool",
    "btreemap",
    "binaryheap",
];

/// What a figure is compared with.
enum Mark {
    Netty,
    BestPeer,
    /// Another figure of the same runs, after something has been taken off the figure itself.
    Own {
        metric: &'static str,
        after: f64,
    },
    /// The same figure in another row.
    Row(&'static str),
    /// A number, whoever else is there.
    Fixed,
}

/// `metric` must be at most `must` times what `mark` says, and is meant to be at most `aim` times.
struct Target {
    metric: &'static str,
    must: f64,
    aim: Option<f64>,
    mark: Mark,
}

impl Target {
    fn new(metric: &'static str, must: f64, mark: Mark) -> Self {
        Self {
            metric,
            must,
            aim: None,
            mark,
        }
    }

    fn fixed(metric: &'static str, must: f64) -> Self {
        Self::new(metric, must, Mark::Fixed)
    }

    fn aim(self, aim: f64) -> Self {
        Self {
            aim: Some(aim),
            ..self
        }
    }
}

fn targets(case: &Case) -> Vec<Target> {
    match (case.workload, case.producers) {
        (Workload::Churn, 1) => vec![
            Target::new("wall_ns", 0.75, Mark::Netty).aim(0.55),
            Target::new("cpu_ns", 0.5, Mark::Netty),
            Target::new("wall_ns", 0.75, Mark::BestPeer),
            Target::new("cpu_ns", 0.75, Mark::BestPeer),
        ],
        (Workload::Churn, 2) => vec![
            Target::new("wall_ns", 0.35, Mark::Netty).aim(0.25),
            Target::new("cpu_ns", 0.35, Mark::Netty).aim(0.25),
            Target::new("wall_ns", 0.5, Mark::BestPeer),
            Target::new("cpu_ns", 0.5, Mark::BestPeer),
        ],
        (Workload::Fire, _) => {
            let must = if case.tick_us == 1_000 { 0.6 } else { 0.7 };
            vec![Target::new("worker_cpu_ns", must, Mark::Netty).aim(0.5)]
        }
        (Workload::Lateness, _) => lateness(case),
        (Workload::AtOnce, _) => vec![beside_a_bare_thread(case), Target::fixed("early", 0.0)],
        (Workload::Boundary, _) => vec![Target::fixed("early", 0.0)],
        (Workload::Hold, _) => vec![Target::fixed("worker_cpu_percent", 0.2)],
        (Workload::Idle, _) => vec![Target::fixed("wakeups_per_s", 0.0)],
        (Workload::MemoryPending, _) => vec![Target::fixed("bytes_per_timeout", 96.0).aim(88.0)],
        (Workload::MemoryChurn, _) => vec![Target::fixed("growth", 1.1)],
        // A smaller burst would leave less, whatever is given back; of a larger one the figure is shown.
        (Workload::MemoryBurst, _) if case.flight == 1_000_000 => {
            vec![Target::fixed("left_mb", 10.0)]
        }
        (Workload::Tails, _) => tails(),
        (Workload::Oversubscribed, threads) => vec![
            Target::fixed("scheduling/p99_ratio", 3.0),
            Target::fixed("scheduling/queued_peak", queue_bound(case.flight, threads)),
        ],
        (Workload::Producers, 64) => vec![Target::fixed("cpu_ratio", 1.3)],
        (Workload::Fine, _) => vec![
            Target::fixed("p50_us", 130.0).aim(90.0),
            Target::fixed("p99_us", 300.0),
            Target::fixed("early", 0.0),
            Target::fixed("idle_wakeups_per_s", 0.0),
        ],
        (Workload::At, _) => vec![
            Target::fixed("new_timeout_at_ns", 58.0).aim(50.0),
            Target::fixed("reset_at_ns", 10.0),
        ],
        (Workload::Growth, 1) if case.flight > 1_000 => {
            vec![Target::new("cpu_ns", 1.5, Mark::Row("growth-1k-1p"))]
        }
        (Workload::Churn | Workload::Growth | Workload::Producers | Workload::MemoryBurst, _) => {
            Vec::new()
        }
    }
}

fn own(metric: &'static str) -> Mark {
    Mark::Own { metric, after: 0.0 }
}

fn lateness(case: &Case) -> Vec<Target> {
    let tick_us = case.tick_us as f64;
    let mut targets = vec![
        Target::fixed("p50_us", 0.6 * tick_us + 100.0),
        Target::fixed("p99_us", tick_us + 1_000.0),
        Target::fixed("early", 0.0),
    ];
    if case.tick_us == 1_000 {
        targets.push(beside_a_bare_thread(case));
    }
    targets
}

fn beside_a_bare_thread(case: &Case) -> Target {
    let bare = Mark::Own {
        metric: "bare_p99.9_us",
        after: case.tick_us as f64,
    };
    Target::new("p99.9_us", 1.5, bare)
}

fn tails() -> Vec<Target> {
    let mut targets = Vec::new();
    for metric in ["new_timeout/p99.9_ns", "cancel/p99.9_ns", "reset/p99.9_ns"] {
        targets.push(Target::fixed(metric, 1_000.0).aim(500.0));
    }
    for metric in [
        "new_timeout/p99.999_ns",
        "cancel/p99.999_ns",
        "reset/p99.999_ns",
    ] {
        targets.push(Target::new(metric, 3.0, own("clock/p99.999_ns")));
    }
    targets
}

/// Live entries, as many dead ones, and the constant for each scheduling thread.
fn queue_bound(flight: usize, threads: usize) -> f64 {
    const FOR_EACH_THREAD: usize = 262_144;
    ((2 * flight + FOR_EACH_THREAD) * threads) as f64
}

/// One line for each target that the measurement can say something about.
pub(crate) fn check(tables: &[Table]) -> String {
    let mut text = String::new();
    for table in tables {
        for target in targets(&table.case) {
            if let Some(line) = line(tables, table, &target) {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    if !text.is_empty() {
        text.insert_str(0, &format!("Targets of {REFERENCE}\n"));
    }
    text
}

fn line(tables: &[Table], table: &Table, target: &Target) -> Option<String> {
    let measured = Measured::of(tables, table, target)?;
    let row = table.case.to_string();
    let (verdict, metric) = (measured.verdict(target.must), target.metric);
    let limit = number(measured.of_mark(target.must));
    let own = number(table.median(REFERENCE, metric)?);
    let mut line = format!("  {verdict:6} {row:18} {metric:22} {own:>8}, at most {limit}");
    if let Some(whose) = &measured.whose {
        let (must, ratio) = (number(target.must), number(measured.ratio));
        let plus = match measured.plus {
            0.0 => String::new(),
            plus => format!("{} + ", number(plus)),
        };
        let _ = write!(line, " = {plus}{must} × {whose}, here × {ratio}");
    }
    if let Some(aim) = target.aim {
        let reached = if measured.ratio <= aim {
            "reached"
        } else {
            "not reached"
        };
        let _ = write!(line, "; aim {}: {reached}", number(measured.of_mark(aim)));
    }
    Some(line)
}

/// A figure beside what it is compared with.
struct Measured {
    /// The median of the figure over its mark.
    ratio: f64,
    /// The median of the mark, and what is added to its multiple.
    mark: f64,
    plus: f64,
    whose: Option<String>,
}

impl Measured {
    fn of(tables: &[Table], table: &Table, target: &Target) -> Option<Self> {
        let metric = target.metric;
        let own = (REFERENCE, metric);
        let beside = |other: &str, metric: &str, after: f64, whose: String| {
            let mark = table.median(other, metric)?;
            let ratio = table.paired(own, (other, metric), |own, mark| (own - after) / mark)?;
            Some(Self {
                ratio,
                mark,
                plus: after,
                whose: Some(format!("{whose} {}", number(mark))),
            })
        };
        match target.mark {
            Mark::Netty => beside(NETTY, metric, 0.0, format!("{NETTY}'s")),
            Mark::BestPeer => {
                let peer = best_peer(table, metric)?;
                beside(peer, metric, 0.0, format!("{peer}'s"))
            }
            Mark::Own { metric, after } => {
                beside(REFERENCE, metric, after, format!("its {metric}"))
            }
            Mark::Row(row) => {
                let other = tables.iter().find(|table| table.case.to_string() == row)?;
                let mark = other.median(REFERENCE, metric)?;
                Some(Self {
                    ratio: table.median(REFERENCE, metric)? / mark,
                    mark,
                    plus: 0.0,
                    whose: Some(format!("{row}'s {}", number(mark))),
                })
            }
            Mark::Fixed => Some(Self {
                ratio: table.median(REFERENCE, metric)?,
                mark: 1.0,
                plus: 0.0,
                whose: None,
            }),
        }
    }

    fn verdict(&self, must: f64) -> &'static str {
        if self.ratio <= must { "ok" } else { "MISSED" }
    }

    fn of_mark(&self, factor: f64) -> f64 {
        self.plus + factor * self.mark
    }
}

fn best_peer(table: &Table, metric: &str) -> Option<&'static str> {
    let peers = PEERS.iter().filter_map(|peer| {
        let median = table.median(peer, metric)?;
        Some((median, *peer))
    });
    let best = peers.min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(best.1)
}
