//! `rivals.svg`: bars of all contestants, the fastest first, in three rows of the comparison.

use super::Medians;
use super::svg::{Svg, WIDTH};
use crate::contestant::{ALL, REFERENCE};

/// A bar longer than this many times the reference's is cut off; its number tells.
const CUT: f64 = 10.0;
const PITCH: f64 = 22.0;
const TOP: f64 = 70.0;
const NAMES: f64 = 92.0;

struct Panel {
    row: &'static str,
    metric: &'static str,
    head: &'static str,
    unit: &'static str,
}

const PANELS: [Panel; 3] = [
    Panel {
        row: "churn-100k-1p",
        metric: "cpu_ns",
        head: "Schedule and cancel, one thread",
        unit: "CPU ns, 100 000 in flight",
    },
    Panel {
        row: "churn-100k-2p",
        metric: "cpu_ns",
        head: "Schedule and cancel, two threads",
        unit: "CPU ns, 100 000 in flight each",
    },
    Panel {
        row: "fire-1ms",
        metric: "worker_cpu_ns",
        head: "Fire",
        unit: "CPU ns a timeout, tick 1 ms",
    },
];

/// Contestants with their figures, the fastest first.
fn figures(medians: &Medians, panel: &Panel) -> Vec<(&'static str, f64)> {
    let figure = |name| Some((name, medians.get(panel.row, name, panel.metric)?));
    let all = ALL.iter().filter(|info| info.name != "array");
    let mut figures: Vec<_> = all.filter_map(|info| figure(info.name)).collect();
    figures.sort_by(|a, b| a.1.total_cmp(&b.1));
    figures
}

pub(super) fn draw(medians: &Medians) -> Option<String> {
    let panels = PANELS.map(|panel| {
        let figures = figures(medians, &panel);
        (panel, figures)
    });
    let longest = panels.iter().map(|(_, figures)| figures.len()).max()?;
    if panels.iter().any(|(_, figures)| figures.is_empty()) {
        return None;
    }
    let height = TOP + PITCH * longest as f64 + 14.0;
    let mut svg = Svg::new(
        height,
        "Timers compared",
        "CPU time of scheduling and cancelling, and of firing, for each timer; shorter is better",
    );
    let width = (WIDTH - 20.0) / PANELS.len() as f64;
    for (place, (panel, figures)) in panels.iter().enumerate() {
        let left = 16.0 + width * place as f64;
        svg.text(left, 28.0, "head", panel.head);
        svg.text(left, 47.0, "soft", panel.unit);
        draw_panel(&mut svg, left, width - 16.0, figures);
    }
    Some(svg.finish())
}

fn draw_panel(svg: &mut Svg, left: f64, width: f64, figures: &[(&str, f64)]) {
    let most = figures.iter().map(|figure| figure.1).fold(0.0, f64::max);
    let reference = figures.iter().find(|(name, _)| *name == REFERENCE);
    let scale = reference.map_or(most, |(_, own)| most.min(CUT * own));
    let room = width - NAMES - 44.0;
    for (place, &(name, value)) in figures.iter().enumerate() {
        let y = TOP + PITCH * place as f64;
        let own = matches!(name, "hashed" | "hierarchical");
        let weight = if own { " own" } else { "" };
        let length = (room * (value / scale).min(1.0)).max(1.0);
        let start = left + NAMES;
        svg.text(start - 6.0, y + 12.0, &format!("end{weight}"), name);
        let class = match name {
            "hashed" | "hierarchical" | "netty" => super::svg::class(name),
            _ => "c-other".to_owned(),
        };
        svg.add(format_args!(
            r#"<rect class="bar {class}" x="{start:.1}" y="{y:.1}" width="{length:.1}" height="15" rx="2"/>"#
        ));
        if value > scale {
            let x = start + length - 14.0;
            svg.line((x + 4.0, y - 2.0), (x - 2.0, y + 17.0), "break");
        }
        let after = start + length + 5.0;
        svg.text(
            after,
            y + 12.0,
            &format!("soft{weight}"),
            &format!("{value:.0}"),
        );
    }
}
