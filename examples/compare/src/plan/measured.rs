//! The workloads on the system's clock.

use super::{Extent, Plan};
use crate::case::Work;
use crate::group::{Figure, Group, Part};
use crate::load::{CPU_NS, LATE};
use crate::measured::churn::Churn;
use crate::measured::fire::Fire;
use crate::measured::memory::Leftover;
use crate::measured::rest::Rest;
use crate::words::count;
use std::time::Duration;

pub(super) fn add_to(plan: &mut Plan, extent: Extent) {
    churn(plan, extent);
    fire(plan, extent);
    rest(plan, extent);
    memory(plan, extent);
}

fn group(
    plan: &mut Plan,
    name: &'static str,
    title: &'static str,
    figures: &'static [Figure],
    about: String,
) {
    plan.groups.push(Group {
        name,
        title,
        about,
        part: Part::Measured,
        figures,
    });
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn churn(plan: &mut Plan, extent: Extent) {
    const FIGURES: &[Figure] = &[
        Figure {
            name: "wall_ns",
            label: "wall time per op, ns",
        },
        Figure {
            name: CPU_NS,
            label: "CPU time per op, all threads, ns",
        },
    ];
    let ops = extent.pick(300_000, 5_000_000);
    let about = format!(
        "Every op schedules a timeout at 30 s (+0..1 s) and cancels the producer's oldest. {} ops; tick 10 ms, 4096 slots, 20 buckets a level.",
        count(f64::from(ops))
    );
    group(plan, "churn", "Churn", FIGURES, about);
    let quick: &[_] = &[(1_000, 1), (1_000, 2), (100_000, 1)];
    let full: &[_] = &[(1_000, 1), (1_000, 2), (100_000, 1), (100_000, 2)];
    for (row, &(flight, producers)) in extent.pick(quick, full).iter().enumerate() {
        let work = Work::Churn(Churn {
            flight,
            producers,
            ops: ops as usize,
        });
        let plural = if producers == 1 { "" } else { "s" };
        let label = format!(
            "{} in flight, {producers} producer{plural}",
            count(flight as f64)
        );
        plan.add("churn", row as f64, label, extent.pick(3, 5), work);
    }
}

fn fire(plan: &mut Plan, extent: Extent) {
    const FIGURES: &[Figure] = &[
        Figure {
            name: CPU_NS,
            label: "CPU time of the timer's thread per timeout, ns",
        },
        Figure {
            name: "wakeups",
            label: "wake-ups per timeout",
        },
        Figure {
            name: LATE[0],
            label: "lateness in ticks, median",
        },
        Figure {
            name: LATE[1],
            label: "lateness in ticks, at most",
        },
    ];
    let timeouts = extent.pick(100_000, 1_000_000);
    let (from, over) = extent.pick((150, 300), (3_000, 2_000));
    let about = format!(
        "{} timeouts due over {over} ms, from {from} ms on, in random order; 4096 slots, 20 buckets a level.",
        count(timeouts as f64)
    );
    group(plan, "fire", "Fire", FIGURES, about);
    let ticks: &[u64] = extent.pick(&[1], &[1, 10]);
    for &tick in ticks {
        let work = Work::Fire(Fire {
            timeouts,
            tick: ms(tick),
            from: ms(from),
            over: ms(over),
        });
        plan.add(
            "fire",
            tick as f64,
            format!("tick {tick} ms"),
            extent.pick(2, 5),
            work,
        );
    }
}

fn rest(plan: &mut Plan, extent: Extent) {
    const FIGURES: &[Figure] = &[
        Figure {
            name: "cpu_percent",
            label: "CPU time of the timer's thread, % of a core",
        },
        Figure {
            name: "wakeups_per_s",
            label: "wake-ups per second",
        },
    ];
    let many = extent.pick(100_000, 1_000_000);
    let watch_ms = extent.pick(200, 2_000);
    let watch = ms(watch_ms);
    let about = format!(
        "{} timeouts due in 1 to 24 h, watched for {watch_ms} ms; 512 slots, 20 buckets a level.",
        count(many as f64)
    );
    group(plan, "hold", "Hold", FIGURES, about);
    let ticks: &[u64] = extent.pick(&[1], &[1, 10]);
    for &tick in ticks {
        let work = Work::Rest(Rest {
            pending: many,
            tick: ms(tick),
            watch,
        });
        plan.add(
            "hold",
            tick as f64,
            format!("tick {tick} ms"),
            extent.pick(2, 3),
            work,
        );
    }
    let about = format!("No timeout, or one due in hours, watched for {watch_ms} ms; tick 1 ms.");
    group(plan, "idle", "Idle", FIGURES, about);
    let numbers: &[usize] = extent.pick(&[1], &[1, 0]);
    for &pending in numbers {
        let work = Work::Rest(Rest {
            pending,
            tick: ms(1),
            watch,
        });
        plan.add(
            "idle",
            pending as f64,
            format!("{pending} pending"),
            extent.pick(2, 3),
            work,
        );
    }
}

fn memory(plan: &mut Plan, extent: Extent) {
    const HELD: &[Figure] = &[Figure {
        name: "bytes",
        label: "resident bytes per pending timeout, its task's 24 included",
    }];
    const LEFTOVER: &[Figure] = &[
        Figure {
            name: "growth",
            label: "resident memory after ten times the churn ÷ after once",
        },
        Figure {
            name: "megabytes",
            label: "resident memory after it, MB",
        },
    ];
    let pending = extent.pick(200_000, 1_000_000);
    let about =
        "The task captures 24 bytes; tick 10 ms, 4096 slots, 20 buckets a level.".to_owned();
    group(plan, "memory", "Memory", HELD, about);
    let label = format!("{} pending", count(pending as f64));
    let work = Work::Held(pending);
    plan.add("memory", 0.0, label, extent.pick(1, 3), work);
    let (flight, ops) = extent.pick((10_000, 100_000), (100_000, 5_000_000));
    let about = format!(
        "The churn with {} in flight: {} ops, then nine times as many.",
        count(flight as f64),
        count(ops as f64)
    );
    group(plan, "leftover", "Memory after churn", LEFTOVER, about);
    let label = format!("{} ops", count(10.0 * ops as f64));
    let work = Work::Leftover(Leftover { flight, ops });
    plan.add("leftover", 0.0, label, extent.pick(1, 2), work);
}
