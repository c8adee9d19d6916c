//! Three plots of the performance page, drawn from the file of figures: `rivals.svg`, `tails.svg` and `growth.svg`.
//!
//! They are made to stand in a page, as an image or inline: colours follow the reader's light or
//! dark scheme, and a theme of rustdoc where there is one. No blank line is in them, so that Markdown
//! takes them as one block.

mod bars;
mod growth;
mod lines;
mod loads;
mod svg;
mod tails;

use crate::sheet::Sheet;

/// A plot with the name of its file.
#[derive(Debug)]
pub struct Plot {
    pub name: &'static str,
    pub svg: String,
}

/// All plots that the figures suffice for.
pub fn all(sheet: &Sheet) -> Vec<Plot> {
    let plots = [
        ("rivals.svg", bars::draw(sheet)),
        ("tails.svg", tails::draw(sheet)),
        ("growth.svg", growth::draw(sheet)),
    ];
    let drawn = plots
        .into_iter()
        .filter_map(|(name, svg)| Some(Plot { name, svg: svg? }));
    drawn.collect()
}

/// The picture of the comparison.
pub fn comparison(sheet: &Sheet) -> Option<String> {
    loads::draw(sheet)
}

/// How a reader knows a contestant.
fn title(contestant: &str) -> &str {
    match contestant {
        "netty" => "Netty",
        "delayqueue" => "DelayQueue",
        "nexus" => "nexus-timer",
        "pool" => "thread-pool",
        "binaryheap" => "binary heap",
        "array" => "plain array",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::{all, bars, growth, tails};
    use crate::sheet::{Figure, Sheet};

    #[test]
    fn plots_without_their_rows_are_left_out() {
        assert!(all(&Sheet::default()).is_empty());
    }

    fn sheet(rows: &[&str], metrics: &[&str]) -> Sheet {
        let mut figures = Vec::new();
        for row in rows {
            for (contestant, value) in [("hashed", 80.0), ("netty", 2_000.0), ("tokio", 300.0)] {
                for metric in metrics {
                    figures.extend(Figure::of(row, contestant, metric, &[value]));
                }
            }
        }
        let mut sheet = Sheet::default();
        sheet.replace(|_| true, figures);
        sheet
    }

    #[test]
    fn a_plot_is_one_block_of_markdown_with_all_it_shows() {
        let rows = ["churn-100k-1p", "churn-100k-2p", "fire-1ms"];
        let plot = bars::draw(&sheet(&rows, &["cpu_ns", "worker_cpu_ns"])).unwrap();
        assert!(plot.starts_with("<svg") && plot.trim_end().ends_with("</svg>"));
        assert!(!plot.contains("\n\n"));
        assert_eq!(plot.matches(">Netty<").count(), 3);
        assert_eq!(plot.matches(">2000<").count(), 3);
        let rows = ["growth-1k-1p", "growth-10M-1p"];
        let plot = growth::draw(&sheet(&rows, &["cpu_ns"])).unwrap();
        assert_eq!(plot.matches(">tokio<").count(), 1);
        let rows = ["tails-100k-1p", "tails-100k-2p"];
        let plot = tails::draw(&sheet(&rows, &["new_timeout/p50_ns", "clock/p50_ns"])).unwrap();
        assert_eq!(plot.matches(">clock alone<").count(), 2);
    }

    #[test]
    fn bars_begin_at_zero_and_are_as_long_as_their_figures() {
        let rows = ["churn-100k-1p", "churn-100k-2p", "fire-1ms"];
        let plot = bars::draw(&sheet(&rows, &["cpu_ns", "worker_cpu_ns"])).unwrap();
        let bar = |line: &&str| line.contains("class=\"bar");
        let width = |line: &str| -> f64 {
            let (_, rest) = line.split_once("width=\"").unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        let widths: Vec<f64> = plot.lines().filter(bar).take(3).map(width).collect();
        assert!((widths[2] / widths[0] - 25.0).abs() < 1.0, "{widths:?}");
    }
}
