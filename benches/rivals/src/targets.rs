//! The targets that this crate has set itself, checked against one measurement.
//!
//! | row | must |
//! |---|---|
//! | churn, 1 producer | ≤ 0.9 × Netty's wall, ≤ 0.75 × its CPU; ≤ 0.75 × the best Rust rival in both |
//! | churn, 2 producers | ≤ 0.6 × Netty in both; ≤ 0.5 × the best Rust rival |
//! | fire | CPU per timeout ≤ 0.7 × Netty at 1 ms, ≤ 0.9 × at 10 ms |
//! | lateness | p50 ≤ 0.6 tick + 0.1 ms, p99 ≤ 1 tick + 1 ms, never early |
//! | hold | ≤ 0.2 % of a core |
//! | idle | no wake-up |
//! | memory | ≤ 128 bytes per pending timeout; within 10 % after ten times the churn |
//!
//! The best rival is the best in that row and figure.

use std::fmt::Write as _;

use crate::case::{Case, Workload};
use crate::contestant::{REFERENCE, netty};
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

enum Mark {
    Netty,
    BestPeer,
    /// A number, whoever else is there.
    Fixed,
}

/// `metric` must be at most `factor` times what `mark` says.
struct Target {
    metric: &'static str,
    factor: f64,
    mark: Mark,
}

fn targets(case: &Case) -> Vec<Target> {
    let target = |metric, factor, mark| Target {
        metric,
        factor,
        mark,
    };
    match (case.workload, case.producers) {
        (Workload::Churn, 1) => vec![
            target("wall_ns", 0.9, Mark::Netty),
            target("cpu_ns", 0.75, Mark::Netty),
            target("wall_ns", 0.75, Mark::BestPeer),
            target("cpu_ns", 0.75, Mark::BestPeer),
        ],
        (Workload::Churn, 2) => vec![
            target("wall_ns", 0.6, Mark::Netty),
            target("cpu_ns", 0.6, Mark::Netty),
            target("wall_ns", 0.5, Mark::BestPeer),
            target("cpu_ns", 0.5, Mark::BestPeer),
        ],
        (Workload::Fire, _) => {
            let factor = if case.tick_ms == 1 { 0.7 } else { 0.9 };
            vec![target("worker_cpu_ns", factor, Mark::Netty)]
        }
        (Workload::Lateness, _) => {
            let tick_us = 1_000.0 * case.tick_ms as f64;
            vec![
                target("p50_us", 0.6 * tick_us + 100.0, Mark::Fixed),
                target("p99_us", tick_us + 1_000.0, Mark::Fixed),
                target("early", 0.0, Mark::Fixed),
            ]
        }
        (Workload::Hold, _) => vec![target("worker_cpu_percent", 0.2, Mark::Fixed)],
        (Workload::Idle, _) => vec![target("wakeups_per_s", 0.0, Mark::Fixed)],
        (Workload::MemoryPending, _) => vec![target("bytes_per_timeout", 128.0, Mark::Fixed)],
        (Workload::MemoryChurn, _) => vec![target("growth", 1.1, Mark::Fixed)],
        (Workload::Churn | Workload::Growth, _) => Vec::new(),
    }
}

/// One line for each target that the measurement can say something about.
pub(crate) fn check(tables: &[Table]) -> String {
    let mut text = String::new();
    for table in tables {
        for target in targets(&table.case) {
            if let Some(line) = line(table, &target) {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    if !text.is_empty() {
        text.insert_str(0, &format!("Targets of {REFERENCE}\n"));
    }
    text
}

fn line(table: &Table, target: &Target) -> Option<String> {
    let own = table.median(REFERENCE, target.metric)?;
    let (mark, whose) = match target.mark {
        Mark::Netty => (table.median(netty::NAME, target.metric)?, netty::NAME),
        Mark::BestPeer => best_peer(table, target.metric)?,
        Mark::Fixed => (1.0, ""),
    };
    let limit = mark * target.factor;
    let verdict = if own <= limit { "ok" } else { "MISSED" };
    let against = match target.mark {
        Mark::Fixed => String::new(),
        _ => format!(" = {} × {whose}'s {}", target.factor, number(mark)),
    };
    let row = table.case.to_string();
    let (own, limit) = (number(own), number(limit));
    let metric = target.metric;
    Some(format!(
        "  {verdict:6} {row:14} {metric:18} {own:>8}, at most {limit}{against}"
    ))
}

fn best_peer(table: &Table, metric: &str) -> Option<(f64, &'static str)> {
    let peers = PEERS.iter().filter_map(|peer| {
        let median = table.median(peer, metric)?;
        Some((median, *peer))
    });
    peers.min_by(|a, b| a.0.total_cmp(&b.0))
}
