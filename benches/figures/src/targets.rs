//! The targets that this crate has set itself, checked against the file of figures.
//!
//! A figure such as `cpu_ns:netty` is the median of the ratios of single rounds: this crate's figure over the other's, taken in turn.

use std::fmt::Write as _;

use crate::sheet::{Sheet, number};

/// The contestant that the targets are about.
pub const REFERENCE: &str = "hashed";

/// A figure of the reference must be at most `must`, and is meant to be at most `aim`.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub row: &'static str,
    pub metric: &'static str,
    pub must: f64,
    pub aim: Option<f64>,
    /// The row whose same figure this one is divided by.
    pub over: Option<&'static str>,
}

const fn target(row: &'static str, metric: &'static str, must: f64) -> Target {
    Target {
        row,
        metric,
        must,
        aim: None,
        over: None,
    }
}

impl Target {
    const fn aim(self, aim: f64) -> Self {
        Self {
            aim: Some(aim),
            ..self
        }
    }

    const fn over(self, row: &'static str) -> Self {
        Self {
            over: Some(row),
            ..self
        }
    }

    /// What was measured, if it was.
    pub fn measured(&self, sheet: &Sheet) -> Option<f64> {
        let own = sheet.median(self.row, REFERENCE, self.metric)?;
        match self.over {
            None => Some(own),
            Some(row) => Some(own / sheet.median(row, REFERENCE, self.metric)?),
        }
    }

    /// The figure in words.
    pub fn what(&self) -> String {
        let mut what = match self.metric.split_once(':') {
            Some((metric, other)) => format!("{metric} over {other}'s"),
            None => self.metric.to_owned(),
        };
        if let Some(row) = self.over {
            let _ = write!(what, " over {row}'s");
        }
        what
    }

    pub fn holds(&self, measured: f64) -> bool {
        measured <= self.must
    }
}

/// All targets, in the order of the rows.
pub const ALL: &[Target] = &[
    target("churn-1k-1p", "wall_ns:netty", 0.55).aim(0.4),
    target("churn-1k-1p", "cpu_ns:netty", 0.45).aim(0.35),
    target("churn-1k-2p", "wall_ns:netty", 0.25).aim(0.15),
    target("churn-1k-2p", "cpu_ns:netty", 0.25).aim(0.15),
    target("churn-100k-1p", "wall_ns:netty", 0.55).aim(0.4),
    target("churn-100k-1p", "cpu_ns:netty", 0.45).aim(0.35),
    target("churn-100k-2p", "wall_ns:netty", 0.25).aim(0.15),
    target("churn-100k-2p", "cpu_ns:netty", 0.25).aim(0.15),
    target("fire-1ms", "worker_cpu_ns:netty", 0.6).aim(0.45),
    target("fire-10ms", "worker_cpu_ns:netty", 0.65).aim(0.45),
    target("mixed", "cpu_ns:netty", 0.5),
    target("mixed", "cpu_ns:tokio", 0.5),
    target("mixed", "p99_us", 1_300.0),
    target("mixed", "early", 0.0),
    target("server", "cpu_ns:tokio", 0.5),
    target("server", "cpu_ns:delayqueue", 0.5),
    target("random-1M-1p", "cpu_ratio", 2.0),
    target("random-1M-2p", "cpu_ratio", 2.0),
    target("fill-1M", "wall_ns", 50.0).aim(35.0),
    target("lateness-1ms", "p50_us", 700.0),
    target("lateness-1ms", "p99_us", 2_000.0),
    target("lateness-1ms", "early", 0.0),
    target("lateness-10ms", "early", 0.0),
    target("at-once-1ms", "early", 0.0),
    target("fine-100us", "p50_us", 130.0).aim(90.0),
    target("fine-100us", "p99_us", 300.0),
    target("fine-100us", "early", 0.0),
    target("fine-100us", "idle_wakeups_per_s", 0.0),
    target("hold-1ms", "worker_cpu_percent", 0.2),
    target("idle", "wakeups_per_s", 0.0),
    target("memory-pending", "bytes_per_timeout", 96.0).aim(88.0),
    target("memory-mixed-1M", "left_mb", 1.0),
    target("memory-mixed-1M", "rss_left_mb", 1.0),
    target("memory-held", "bytes_per_schedule", 17.0),
    target("memory-held", "left_mb", 1.0),
    target("tails-1k-1p", "new_timeout/p99.9_ns", 400.0).aim(100.0),
    target("tails-1k-1p", "cancel/p99.9_ns", 400.0).aim(100.0),
    target("tails-1k-1p", "reset/p99.9_ns", 400.0).aim(100.0),
    target("tails-1k-2p", "new_timeout/p99.9_ns", 400.0).aim(100.0),
    target("tails-1k-2p", "cancel/p99.9_ns", 400.0).aim(100.0),
    target("tails-1k-2p", "reset/p99.9_ns", 400.0).aim(100.0),
    target("tails-100k-1p", "new_timeout/p99.9_ns", 400.0).aim(100.0),
    target("tails-100k-1p", "cancel/p99.9_ns", 400.0).aim(100.0),
    target("tails-100k-1p", "reset/p99.9_ns", 400.0).aim(100.0),
    target("tails-100k-2p", "new_timeout/p99.9_ns", 400.0).aim(100.0),
    target("tails-100k-2p", "cancel/p99.9_ns", 400.0).aim(100.0),
    target("tails-100k-2p", "reset/p99.9_ns", 400.0).aim(100.0),
    target("tails-1M-1p", "new_timeout/p99.9_ns", 400.0).aim(100.0),
    target("tails-1M-1p", "cancel/p99.9_ns", 400.0).aim(100.0),
    target("tails-1M-1p", "reset/p99.9_ns", 400.0).aim(100.0),
    target("tails-1M-2p", "new_timeout/p99.9_ns", 400.0).aim(100.0),
    target("tails-1M-2p", "cancel/p99.9_ns", 400.0).aim(100.0),
    target("tails-1M-2p", "reset/p99.9_ns", 400.0).aim(100.0),
    target("oversubscribed-4", "scheduling/p99_ratio", 3.0).aim(1.5),
    target("oversubscribed-8", "scheduling/p99_ratio", 3.0).aim(1.5),
    target("oversubscribed-16", "scheduling/p99_ratio", 3.0).aim(1.5),
    target("producers-64", "cpu_ratio", 1.3),
    target("at", "reset_at_ns", 10.0),
    target("delay-queue-1", "cpu_ns:delayqueue", 0.5),
    target("delay-queue-4", "cpu_ns:delayqueue", 0.5),
    target("growth-1M-1p", "cpu_ns", 1.5).over("growth-1k-1p"),
    target("growth-10M-1p", "cpu_ns", 1.5).over("growth-1k-1p"),
];

/// One line for each target that the sheet can say something about.
pub fn check(sheet: &Sheet) -> String {
    let mut text = String::new();
    for target in ALL {
        let Some(measured) = target.measured(sheet) else {
            continue;
        };
        let verdict = if target.holds(measured) {
            "ok"
        } else {
            "MISSED"
        };
        let _ = write!(
            text,
            "  {verdict:6} {:18} {:34} {:>8}, at most {}",
            target.row,
            target.what(),
            number(measured),
            number(target.must)
        );
        if let Some(aim) = target.aim {
            let reached = if measured <= aim {
                "reached"
            } else {
                "not reached"
            };
            let _ = write!(text, "; aim {}: {reached}", number(aim));
        }
        text.push('\n');
    }
    if !text.is_empty() {
        text.insert_str(0, &format!("Targets of {REFERENCE}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{ALL, check};
    use crate::sheet::{Figure, Sheet};

    fn sheet(figures: &[(&str, &str, f64)]) -> Sheet {
        let mut sheet = Sheet::default();
        let figures = figures
            .iter()
            .filter_map(|(row, metric, value)| Figure::of(row, "hashed", metric, &[*value]));
        sheet.replace(|_| true, figures.collect());
        sheet
    }

    #[test]
    fn a_target_holds_up_to_its_bound_and_is_missed_above_it() {
        let at = sheet(&[("churn-1k-1p", "wall_ns:netty", 0.55)]);
        assert!(check(&at).contains("ok     churn-1k-1p"), "{}", check(&at));
        assert!(check(&at).contains("aim 0.40: not reached"));
        let above = sheet(&[("churn-1k-1p", "wall_ns:netty", 0.56)]);
        assert!(check(&above).contains("MISSED churn-1k-1p"));
        assert_eq!(check(&Sheet::default()), "");
    }

    #[test]
    fn a_target_over_another_row_needs_both() {
        let one = sheet(&[("growth-1M-1p", "cpu_ns", 40.0)]);
        assert_eq!(check(&one), "");
        let both = sheet(&[
            ("growth-1M-1p", "cpu_ns", 40.0),
            ("growth-1k-1p", "cpu_ns", 20.0),
        ]);
        assert!(check(&both).contains("MISSED growth-1M-1p"));
    }

    #[test]
    fn every_target_can_be_told_from_the_others() {
        for (place, one) in ALL.iter().enumerate() {
            assert!(
                !ALL[..place]
                    .iter()
                    .any(|it| (it.row, it.metric) == (one.row, one.metric)),
                "{one:?}"
            );
        }
    }
}
