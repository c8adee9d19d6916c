//! `rivals.svg`: bars of this crate's timers and six others, the fastest first, in three rows of the comparison.
//!
//! All bars begin at zero, and none is cut off: twice the length is twice the time.

use super::svg::{Svg, WIDTH, class};
use super::title;
use crate::sheet::Sheet;

const PITCH: f64 = 24.0;
const TOP: f64 = 70.0;
const NAMES: f64 = 92.0;
/// Room for the number behind the longest bar.
const NUMBER: f64 = 44.0;

const SHOWN: [&str; 8] = [
    "hashed",
    "hierarchical",
    "netty",
    "tokio",
    "delayqueue",
    "nexus",
    "pool",
    "binaryheap",
];

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
        unit: "CPU ns a pair, 100 000 in flight",
    },
    Panel {
        row: "churn-100k-2p",
        metric: "cpu_ns",
        head: "Schedule and cancel, two threads",
        unit: "CPU ns a pair, 100 000 in flight each",
    },
    Panel {
        row: "fire-1ms",
        metric: "worker_cpu_ns",
        head: "Fire",
        unit: "CPU ns a timeout, tick 1 ms",
    },
];

/// Contestants with their figures, the fastest first.
fn figures(sheet: &Sheet, panel: &Panel) -> Vec<(&'static str, f64)> {
    let figure = |name: &'static str| Some((name, sheet.median(panel.row, name, panel.metric)?));
    let mut figures: Vec<_> = SHOWN.into_iter().filter_map(figure).collect();
    figures.sort_by(|a, b| a.1.total_cmp(&b.1));
    figures
}

pub(super) fn draw(sheet: &Sheet) -> Option<String> {
    let panels = PANELS.map(|panel| {
        let figures = figures(sheet, &panel);
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
    let room = width - NAMES - NUMBER;
    for (place, &(name, value)) in figures.iter().enumerate() {
        let y = TOP + PITCH * place as f64;
        let own = matches!(name, "hashed" | "hierarchical");
        let weight = if own { " own" } else { "" };
        let (start, length) = (left + NAMES, room * value / most);
        svg.text(start - 6.0, y + 12.0, &format!("end{weight}"), title(name));
        svg.add(format_args!(
            r#"<rect class="bar {}" x="{start:.1}" y="{y:.1}" width="{length:.1}" height="16" rx="2"/>"#,
            class(if own || name == "netty" { name } else { "" })
        ));
        let number = format!("{value:.0}");
        let weight = format!("soft{weight}");
        svg.text(start + length + 5.0, y + 12.5, &weight, &number);
    }
}
