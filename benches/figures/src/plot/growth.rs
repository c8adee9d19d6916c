//! `growth.svg`: CPU time of a pair as the timeouts in flight grow, on an axis that begins at zero.

use super::lines::{Curve, Panel, Scale};
use super::svg::{Svg, WIDTH};
use super::title;
use crate::sheet::Sheet;

const SHOWN: [&str; 5] = ["hashed", "hierarchical", "netty", "tokio", "array"];
const TOP: f64 = 74.0;
const HEIGHT: f64 = 260.0;
/// The name of a place on the axis, and its row.
const PLACES: [(&str, &str); 5] = [
    ("1 k", "growth-1k-1p"),
    ("10 k", "growth-10k-1p"),
    ("100 k", "growth-100k-1p"),
    ("1 M", "growth-1M-1p"),
    ("10 M", "growth-10M-1p"),
];

pub(super) fn draw(sheet: &Sheet) -> Option<String> {
    let curve = |name: &'static str| Curve {
        name: title(name).to_owned(),
        like: name,
        values: PLACES
            .iter()
            .map(|(_, row)| sheet.median(row, name, "cpu_ns"))
            .collect(),
    };
    let mut curves: Vec<Curve> = SHOWN.into_iter().map(curve).collect();
    curves.retain(|curve| curve.values.iter().any(Option::is_some));
    let values = curves
        .iter()
        .flat_map(|curve| curve.values.iter().flatten());
    let most = values.fold(0.0, |most: f64, value| most.max(*value));
    if most == 0.0 {
        return None;
    }
    // Four to eight marks.
    let step = [10.0, 20.0, 50.0, 100.0, 200.0, 500.0]
        .into_iter()
        .find(|step| most / step <= 8.0)
        .unwrap_or(1_000.0);
    let marks = (most / step).ceil() as usize;
    let mut svg = Svg::new(
        TOP + HEIGHT + 36.0,
        "Growth",
        "CPU time of scheduling and cancelling with 1 000 to 10 million timeouts in flight",
    );
    let panel = Panel {
        left: 16.0,
        top: TOP,
        width: WIDTH - 32.0,
        height: HEIGHT,
        head: "More timeouts in flight, one thread",
        unit: "CPU ns of schedule and cancel",
        places: PLACES.iter().map(|(name, _)| (*name).to_owned()).collect(),
        scale: Scale::Linear(step * marks as f64),
        marks: (0..=marks)
            .map(|mark| (step * mark as f64, format!("{:.0} ns", step * mark as f64)))
            .collect(),
    };
    panel.draw(&mut svg, &curves);
    Some(svg.finish())
}
