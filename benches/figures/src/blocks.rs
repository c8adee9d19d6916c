//! The blocks of the pages, by name.

use std::fmt::Write as _;

use crate::compare;
use crate::sheet::{Sheet, number};
use crate::targets::{self, REFERENCE, Target};

pub const NAMES: &[&str] = &["conditions", "headline", "summary", "rivals", "targets"];

/// The block of this name.
pub fn block(name: &str, sheet: &Sheet) -> Option<String> {
    let text = match name {
        "conditions" => conditions(sheet, "rivals"),
        "headline" => side_by_side(sheet, HEADLINE),
        "summary" => side_by_side(sheet, SUMMARY),
        "rivals" => rivals(sheet),
        "targets" => all_targets(sheet),
        "compare" => compare::block(sheet),
        "compare-conditions" => conditions(sheet, "compare"),
        "cache-lines" => CACHE_LINES.to_owned(),
        _ => return None,
    };
    Some(text)
}

/// What the figures belong to.
fn conditions(sheet: &Sheet, program: &str) -> String {
    let head = |name| sheet.head(name).unwrap_or("not measured");
    let mut parts = head(program).splitn(3, "; ");
    let mut next = || parts.next().unwrap_or_default();
    let (date, quiet, command) = (next(), next(), next());
    let mut text = format!(
        "Medians, measured on {date}: {}; {}; `{command}`.",
        head("machine"),
        head("versions")
    );
    if quiet != "quiet" {
        let _ = write!(text, " **The machine was {quiet}: expect noise.**");
    }
    text
}

/// A line of a table: what, and the figures that stand together in a cell.
#[derive(Clone, Copy)]
struct Line {
    what: &'static str,
    row: &'static str,
    metrics: &'static [&'static str],
    /// What the figures are divided by.
    unit: f64,
}

const fn line(what: &'static str, row: &'static str, metrics: &'static [&'static str]) -> Line {
    Line {
        what,
        row,
        metrics,
        unit: 1.0,
    }
}

const fn in_ms(line: Line) -> Line {
    Line {
        unit: 1_000.0,
        ..line
    }
}

const HEADLINE: &[Line] = &[
    line(
        "Schedule and cancel, one thread: CPU ns a pair",
        "churn-100k-1p",
        &["cpu_ns"],
    ),
    line(
        "Schedule and cancel, two threads: CPU ns a pair",
        "churn-100k-2p",
        &["cpu_ns"],
    ),
    line("Fire: CPU ns a timeout", "fire-1ms", &["worker_cpu_ns"]),
    line(
        "A million timeouts a second, mostly cancelled: % of a core",
        "mixed",
        &["cpu_percent"],
    ),
    in_ms(line(
        "Lateness with a tick of 1 ms, p50 / p99: ms",
        "lateness-1ms",
        &["p50_us", "p99_us"],
    )),
    line(
        "A million pending, nothing due: wake-ups a second",
        "hold-1ms",
        &["wakeups_per_s"],
    ),
];

const SUMMARY: &[Line] = &[
    line(
        "Schedule and cancel, 1 000 in flight, one thread: wall / CPU ns",
        "churn-1k-1p",
        &["wall_ns", "cpu_ns"],
    ),
    line(
        "the same, two threads",
        "churn-1k-2p",
        &["wall_ns", "cpu_ns"],
    ),
    line(
        "the same, 100 000 in flight, one thread",
        "churn-100k-1p",
        &["wall_ns", "cpu_ns"],
    ),
    line(
        "the same, two threads",
        "churn-100k-2p",
        &["wall_ns", "cpu_ns"],
    ),
    line(
        "Cancels in random order, a million in flight, one thread: CPU ns",
        "random-1M-1p",
        &["cpu_ns"],
    ),
    line(
        "Filling an empty timer with a million: wall ns each",
        "fill-1M",
        &["wall_ns"],
    ),
    line(
        "Fire, tick 1 ms: CPU ns of the timer thread",
        "fire-1ms",
        &["worker_cpu_ns"],
    ),
    line("the same, tick 10 ms", "fire-10ms", &["worker_cpu_ns"]),
    line(
        "Mixed load, a million schedules a second: % of a core",
        "mixed",
        &["cpu_percent"],
    ),
    line(
        "Idle timeouts of 100 000 connections: CPU ns a reset",
        "server",
        &["cpu_ns"],
    ),
    in_ms(line(
        "Lateness, tick 1 ms, p50 / p99: ms",
        "lateness-1ms",
        &["p50_us", "p99_us"],
    )),
    line(
        "One call of `new_timeout`, one thread, p50 / p99 / p99.9: ns",
        "tails-100k-1p",
        &[
            "new_timeout/p50_ns",
            "new_timeout/p99_ns",
            "new_timeout/p99.9_ns",
        ],
    ),
    line(
        "the same, two threads",
        "tails-100k-2p",
        &[
            "new_timeout/p50_ns",
            "new_timeout/p99_ns",
            "new_timeout/p99.9_ns",
        ],
    ),
    in_ms(line(
        "A 1 ms task beside 16 busy threads, p99 of its gaps: ms",
        "oversubscribed-16",
        &["scheduling/p99_gap_us"],
    )),
    line(
        "Ten million in flight: CPU ns a pair",
        "growth-10M-1p",
        &["cpu_ns"],
    ),
    line(
        "A million pending, nothing due: % of a core / wake-ups a second",
        "hold-1ms",
        &["worker_cpu_percent", "wakeups_per_s"],
    ),
    line(
        "Bytes for a pending timeout with a task of 24 bytes",
        "memory-pending",
        &["bytes_per_timeout"],
    ),
];

const COLUMNS: [(&str, &str); 4] = [
    (REFERENCE, "hashed"),
    ("hierarchical", "hierarchical"),
    ("netty", "Netty"),
    ("tokio", "tokio"),
];

/// This crate's two timers, the original, and what most people have already.
fn side_by_side(sheet: &Sheet, lines: &[Line]) -> String {
    let cores = sheet
        .head("machine")
        .and_then(|it| it.split(", ").find(|it| it.ends_with("cores")));
    let mut text = format!("|on {}|", cores.unwrap_or("a machine"));
    for (_, title) in COLUMNS {
        let _ = write!(text, "{title}|");
    }
    let _ = writeln!(text, "\n|---|{}", "--:|".repeat(COLUMNS.len()));
    for line in lines {
        let _ = write!(text, "|{}|", line.what);
        for (contestant, _) in COLUMNS {
            let _ = write!(text, "{}|", cell(sheet, line, contestant));
        }
        text.push('\n');
    }
    text
}

fn cell(sheet: &Sheet, line: &Line, contestant: &str) -> String {
    let figures: Option<Vec<String>> = line
        .metrics
        .iter()
        .map(|metric| {
            Some(brief(
                sheet.median(line.row, contestant, metric)? / line.unit,
            ))
        })
        .collect();
    figures.map_or_else(|| "–".to_owned(), |figures| figures.join(" / "))
}

/// Two or three digits: no decimals from ten on.
fn brief(value: f64) -> String {
    if value >= 9.95 {
        format!("{value:.0}")
    } else {
        number(value)
    }
}

fn rivals(sheet: &Sheet) -> String {
    const ROWS: [(&str, &[&str]); 5] = [
        ("churn-1k-1p", &["wall_ns", "cpu_ns"]),
        ("churn-1k-2p", &["wall_ns", "cpu_ns"]),
        ("churn-100k-1p", &["wall_ns", "cpu_ns"]),
        ("churn-100k-2p", &["wall_ns", "cpu_ns"]),
        ("fire-1ms", &["worker_cpu_ns"]),
    ];
    let mut text = "| |".to_owned();
    for (row, _) in ROWS {
        let _ = write!(text, "{row}|");
    }
    let _ = writeln!(text, "\n|---|{}", "--:|".repeat(ROWS.len()));
    let mut contestants: Vec<&str> = Vec::new();
    for figure in sheet.figures().iter().filter(|it| it.row == ROWS[0].0) {
        if !contestants.contains(&figure.contestant.as_str()) {
            contestants.push(&figure.contestant);
        }
    }
    // A first round may have begun with anybody.
    contestants.sort_by_key(|it| (*it != REFERENCE, *it != "hierarchical", *it != "netty", *it));
    for contestant in contestants {
        let _ = write!(text, "|{contestant}|");
        for (row, metrics) in ROWS {
            let line = line("", row, metrics);
            let _ = write!(text, "{}|", cell(sheet, &line, contestant));
        }
        text.push('\n');
    }
    text
}

/// Targets with the same bound for the same figure of the same workload stand in one line, with the worst of them.
fn all_targets(sheet: &Sheet) -> String {
    let mut groups: Vec<(String, Vec<&Target>)> = Vec::new();
    for target in targets::ALL {
        let workload = target
            .row
            .split(|it: char| it.is_ascii_digit())
            .next()
            .unwrap_or_default();
        let figure = target.metric.rsplit('/').next().unwrap_or_default();
        let key = format!("{workload} {figure} {} {:?}", target.must, target.over);
        match groups.iter_mut().find(|(it, _)| *it == key) {
            Some((_, inside)) => inside.push(target),
            None => groups.push((key, vec![target])),
        }
    }
    let mut text = "|rows|figure|at most|aim|measured| |\n|---|---|--:|--:|--:|---|\n".to_owned();
    for (_, inside) in groups {
        let first = inside[0];
        let mut rows: Vec<&str> = inside.iter().map(|it| it.row).collect();
        rows.dedup();
        let rows = match rows[..] {
            [first, .., last] if rows.len() > 2 => format!("{first} to {last}"),
            _ => rows.join(", "),
        };
        let what = first.what();
        let what = if inside.len() > 2 {
            what.rsplit('/').next().unwrap_or_default()
        } else {
            &what
        };
        let mut measured: Vec<f64> = inside.iter().filter_map(|it| it.measured(sheet)).collect();
        measured.sort_unstable_by(f64::total_cmp);
        let (values, verdict) = match measured[..] {
            [] => ("–".to_owned(), "not measured"),
            [.., worst] => {
                let least = number(measured[0]);
                let values = if least == number(worst) {
                    least
                } else {
                    format!("{least} to {}", number(worst))
                };
                (
                    values,
                    if first.holds(worst) {
                        "holds"
                    } else {
                        "**missed**"
                    },
                )
            }
        };
        let aim = first.aim.map_or(String::new(), number);
        let _ = writeln!(
            text,
            "|{rows}|{what}|{}|{aim}|{values}|{verdict}|",
            number(first.must)
        );
    }
    text
}

/// Argued from the code, and counted by `tests/cache_lines.rs`.
const CACHE_LINES: &str = "\
|call|also written by another producer|also written by the timer thread|
|---|---|---|
|`new_timeout`|none|the slot; the owner's line of its shard|
|the same, first since the timer thread looked|a word of 64 shards' bits|the same word|
|the same, due before the timer thread wakes|the parker's word|the same word|
|the same, more alive than before, once in 64 calls|a word of the map of free slots|none|
|`reset` to a later time|none|the slot|
|`reset` to an earlier time|as `new_timeout`|as `new_timeout`|
|`cancel`, drop of a handle|none|the slot|
|`new_timeout`, `cancel` with `max_pending_timeouts`|the count of pending timeouts|the same count|

`cargo test --test cache_lines` counts the lines of the second column from a trace of all stores: none for `new_timeout`, `reset` and `cancel`, one with a limit.
";
