//! `tails.svg`: how long one call of `new_timeout` takes at each percentile, and the clock alone.

use super::lines::{Curve, Panel, Scale, time};
use super::svg::{Svg, WIDTH};
use super::title;
use crate::sheet::Sheet;
use crate::targets::REFERENCE;

const POINTS: [&str; 6] = ["p50", "p99", "p99.9", "p99.99", "p99.999", "max"];
const SHOWN: [&str; 4] = [REFERENCE, "netty", "tokio", "delayqueue"];
const TOP: f64 = 74.0;
const HEIGHT: f64 = 280.0;

fn curves(sheet: &Sheet, row: &str) -> Vec<Curve> {
    let curve = |name: &str, like: &'static str, whose: &str, call: &str| Curve {
        name: name.to_owned(),
        like,
        values: POINTS
            .iter()
            .map(|point| sheet.median(row, whose, &format!("{call}/{point}_ns")))
            .collect(),
    };
    let mut curves: Vec<Curve> = SHOWN
        .iter()
        .map(|name| curve(title(name), name, name, "new_timeout"))
        .collect();
    curves.push(curve("clock alone", "clock", REFERENCE, "clock"));
    curves.retain(|curve| curve.values.iter().any(Option::is_some));
    curves
}

pub(super) fn draw(sheet: &Sheet) -> Option<String> {
    let panels = [
        ("tails-100k-1p", "One call of new_timeout, one thread"),
        ("tails-100k-2p", "One call of new_timeout, two threads"),
    ];
    let panels = panels.map(|(row, head)| (head, curves(sheet, row)));
    let values = panels.iter().flat_map(|(_, curves)| curves);
    let most = values
        .flat_map(|curve| curve.values.iter().flatten())
        .fold(0.0, |most: f64, value| most.max(*value));
    if panels.iter().any(|(_, curves)| curves.is_empty()) {
        return None;
    }
    let decades = (most.log10().ceil() as i32).clamp(5, 10);
    let width = (WIDTH - 16.0) / 2.0;
    let mut svg = Svg::new(
        TOP + HEIGHT + 36.0,
        "Tails of single calls",
        "Time of one call of new_timeout at p50, p99, p99.9, p99.99, p99.999 and at most, for each timer, and of the clock alone",
    );
    for (place, (head, curves)) in panels.iter().enumerate() {
        let panel = Panel {
            left: 16.0 + width * place as f64,
            top: TOP,
            width,
            height: HEIGHT,
            head,
            unit: "100 000 in flight; each step of the axis is ten times as long",
            places: POINTS.iter().map(|&point| point.to_owned()).collect(),
            scale: Scale::Logarithmic(10.0, 10_f64.powi(decades)),
            marks: (1..=decades)
                .map(|power| (10_f64.powi(power), time(10_f64.powi(power))))
                .collect(),
        };
        panel.draw(&mut svg, curves);
    }
    Some(svg.finish())
}
