//! `compare.svg`: for each load, the CPU time of the hierarchical wheel over the hashed one's; the median as a dot, all rounds
//! as a line.

use super::svg::{Svg, WIDTH};
use crate::compare::{Less, measured};
use crate::sheet::Sheet;

const TOP: f64 = 84.0;
const PITCH: f64 = 26.0;
const NAMES: f64 = 270.0;
const RIGHT: f64 = 74.0;

pub(super) fn draw(sheet: &Sheet) -> Option<String> {
    let loads = measured(sheet);
    let least = loads.iter().map(|(_, it)| it.min).min_by(f64::total_cmp)?;
    let most = loads.iter().map(|(_, it)| it.max).max_by(f64::total_cmp)?;
    // Whole halvings and doublings around 1, at least one of each.
    let low = least.log2().floor().min(-1.0) as i32;
    let high = most.log2().ceil().max(1.0) as i32;
    let x = |ratio: f64| {
        let share = (ratio.log2() - f64::from(low)) / f64::from(high - low);
        NAMES + share * (WIDTH - NAMES - RIGHT)
    };
    let bottom = TOP + PITCH * loads.len() as f64;
    let mut svg = Svg::new(
        bottom + 34.0,
        "The two wheels compared",
        "CPU time of the hierarchical wheel divided by that of the hashed wheel, for each load",
    );
    svg.text(16.0, 28.0, "head", "CPU time: hierarchical ÷ hashed");
    svg.text(
        16.0,
        47.0,
        "soft",
        "dot: median; line: all rounds; grey: within the noise",
    );
    svg.text(
        x(1.0) - 10.0,
        TOP - 12.0,
        "name end c-hierarchical",
        "← hierarchical costs less",
    );
    svg.text(
        x(1.0) + 10.0,
        TOP - 12.0,
        "name c-hashed",
        "hashed costs less →",
    );
    for power in low..=high {
        let ratio = f64::from(power).exp2();
        svg.line(
            (x(ratio), TOP - 4.0),
            (x(ratio), bottom),
            if power == 0 { "axis strong" } else { "axis" },
        );
        let name = if power < 0 {
            format!("1/{}", (-f64::from(power)).exp2())
        } else {
            ratio.to_string()
        };
        svg.text(x(ratio), bottom + 18.0, "soft middle", &name);
    }
    for (place, (load, it)) in loads.iter().enumerate() {
        let y = TOP + PITCH * (place as f64 + 0.5);
        let class = match Less::of(it) {
            Less::Hashed => "c-hashed",
            Less::Hierarchical => "c-hierarchical",
            Less::Neither => "c-other",
        };
        svg.text(NAMES - 14.0, y + 4.0, "end", load.label);
        svg.line((x(it.min), y), (x(it.max), y), &format!("curve {class}"));
        svg.add(format_args!(
            r#"<circle class="dot {class}" cx="{:.1}" cy="{y:.1}" r="5"/>"#,
            x(it.median)
        ));
        svg.text(
            WIDTH - 16.0,
            y + 4.0,
            "soft end",
            &format!("{:.2}", it.median),
        );
    }
    Some(svg.finish())
}
