//! `growth.svg`: CPU time of an op as the timeouts in flight grow, and as the producers do.

use super::Medians;
use super::lines::{Curve, Panel, time};
use super::svg::{Svg, WIDTH};
use crate::contestant::REFERENCE;

const SHOWN: [&str; 9] = [
    REFERENCE,
    "hierarchical",
    "netty",
    "netty42",
    "tokio",
    "delayqueue",
    "stpe",
    "go",
    "array",
];
const TOP: f64 = 74.0;
const HEIGHT: f64 = 260.0;

struct Rows {
    head: &'static str,
    unit: &'static str,
    /// The name of a place on the axis, and of its row.
    places: &'static [(&'static str, &'static str)],
}

const PANELS: [Rows; 2] = [
    Rows {
        head: "More timeouts in flight",
        unit: "CPU time of schedule and cancel, one thread",
        places: &[
            ("1 k", "growth-1k-1p"),
            ("10 k", "growth-10k-1p"),
            ("100 k", "growth-100k-1p"),
            ("1 M", "growth-1M-1p"),
            ("10 M", "growth-10M-1p"),
        ],
    },
    Rows {
        head: "More threads",
        unit: "CPU time of schedule and cancel, 1 000 in flight each",
        places: &[
            ("1", "producers-1"),
            ("2", "producers-2"),
            ("4", "producers-4"),
            ("16", "producers-16"),
            ("64", "producers-64"),
        ],
    },
];

fn curves(medians: &Medians, rows: &Rows) -> Vec<Curve> {
    let mut curves: Vec<Curve> = SHOWN
        .iter()
        .map(|name| Curve {
            name: if *name == "array" {
                "plain array"
            } else {
                name
            },
            like: name,
            values: rows
                .places
                .iter()
                .map(|(_, row)| medians.get(row, name, "cpu_ns"))
                .collect(),
        })
        .collect();
    curves.retain(|curve| curve.values.iter().any(Option::is_some));
    curves
}

pub(super) fn draw(medians: &Medians) -> Option<String> {
    let panels = PANELS.map(|rows| {
        let curves = curves(medians, &rows);
        (rows, curves)
    });
    if panels.iter().any(|(_, curves)| curves.is_empty()) {
        return None;
    }
    let all = panels.iter().flat_map(|(_, curves)| curves);
    let values: Vec<f64> = all
        .flat_map(|curve| curve.values.iter().flatten().copied())
        .collect();
    let (low, high) = (
        values.iter().copied().fold(f64::INFINITY, f64::min),
        values.iter().copied().fold(0.0, f64::max),
    );
    let steps: Vec<f64> = [
        10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0,
    ]
    .into_iter()
    .collect();
    let from = steps.iter().rfind(|step| **step <= low).unwrap_or(&10.0);
    let to = steps
        .iter()
        .find(|step| **step >= high)
        .unwrap_or(&10_000.0);
    let width = (WIDTH - 16.0) / 2.0;
    let mut svg = Svg::new(
        TOP + HEIGHT + 36.0,
        "Growth",
        "CPU time of scheduling and cancelling with 1 000 to 10 million timeouts in flight, and with 1 to 64 threads on two processors",
    );
    for (place, (rows, curves)) in panels.iter().enumerate() {
        let panel = Panel {
            left: 16.0 + width * place as f64,
            top: TOP,
            width,
            height: HEIGHT,
            head: rows.head,
            unit: rows.unit,
            places: rows
                .places
                .iter()
                .map(|(name, _)| (*name).to_owned())
                .collect(),
            range: (*from, *to),
            marks: steps
                .iter()
                .filter(|step| (*from..=*to).contains(*step))
                .map(|step| (*step, time(*step)))
                .collect(),
        };
        panel.draw(&mut svg, curves);
    }
    Some(svg.finish())
}
