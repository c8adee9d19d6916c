//! Tables of figures on a terminal.

use std::fmt::Write as _;

use crate::sheet::{Figure, Sheet, number};

/// All figures of a row. Those with the same word before a slash, such as `cancel/p99_ns`, stand in a block of their own.
pub fn table(sheet: &Sheet, row: &str) -> String {
    let figures: Vec<&Figure> = sheet.figures().iter().filter(|it| it.row == row).collect();
    let mut text = format!("{row}: median, least..most\n");
    for group in distinct(figures.iter().map(|it| split(&it.metric).0)) {
        let inside: Vec<&Figure> = figures
            .iter()
            .copied()
            .filter(|it| split(&it.metric).0 == group)
            .collect();
        block(&mut text, group, &inside);
    }
    text
}

fn block(text: &mut String, group: &str, figures: &[&Figure]) {
    let metrics = distinct(figures.iter().map(|it| it.metric.as_str()));
    let contestants = distinct(figures.iter().map(|it| it.contestant.as_str()));
    let cell = |contestant: &str, metric: &str| {
        let found = figures
            .iter()
            .find(|it| it.contestant == contestant && it.metric == metric);
        found.map_or_else(
            || "-".to_owned(),
            |it| {
                format!(
                    "{} {}..{}",
                    number(it.median),
                    number(it.min),
                    number(it.max)
                )
            },
        )
    };
    let width = |metric: &str| {
        let cells = contestants.iter().map(|it| cell(it, metric).len());
        cells.max().unwrap_or(0).max(split(metric).1.len()) + 2
    };
    let _ = write!(text, "  {group:14}");
    for metric in &metrics {
        let _ = write!(text, "{:>width$}", split(metric).1, width = width(metric));
    }
    text.push('\n');
    for contestant in &contestants {
        let _ = write!(text, "  {contestant:14}");
        for metric in &metrics {
            let _ = write!(
                text,
                "{:>width$}",
                cell(contestant, metric),
                width = width(metric)
            );
        }
        let failed = figures
            .iter()
            .find(|it| it.contestant == *contestant)
            .map_or(0, |it| it.failed);
        if failed > 0 {
            let _ = write!(text, "  {failed} failed");
        }
        text.push('\n');
    }
}

fn split(metric: &str) -> (&str, &str) {
    metric.split_once('/').unwrap_or(("", metric))
}

fn distinct<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for text in texts {
        if !found.contains(&text) {
            found.push(text);
        }
    }
    found
}
