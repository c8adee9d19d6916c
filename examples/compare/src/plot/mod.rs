//! The plots, as SVG: lines over a logarithmic axis, and bars.
//!
//! Whatever is neither a line nor a bar is drawn in black, and turned into `currentColor` afterwards, so
//! that a plot takes the colour of the text around it and can be read on light and dark pages and on
//! paper. Contestants differ by colour and by mark.

mod bars;
mod curves;
mod marks;
mod scale;

pub(crate) use bars::bars;
pub(crate) use curves::{Curve, Curves, curves};

use crate::contestant::Contestant;
use plotters::style::{BLACK, Color, IntoFont, RGBColor, TextStyle};

const WIDTH: u32 = 760;
const HEIGHT: u32 = 400;
/// Where the names stand, right of the lines.
const NAMES: u32 = 110;

const GREY: RGBColor = RGBColor(128, 128, 128);

/// Readable on white and on black.
pub(crate) fn colour(contestant: Contestant) -> RGBColor {
    match contestant {
        Contestant::Hashed => RGBColor(0x2b, 0x7d, 0xd8),
        Contestant::Hierarchical => RGBColor(0xe0, 0x6c, 0x0a),
        Contestant::Kernel => RGBColor(0xd6, 0x38, 0x5e),
        Contestant::Classic => RGBColor(0x80, 0x80, 0x80),
        Contestant::Heap => RGBColor(0x23, 0x98, 0x4a),
        Contestant::Btree => RGBColor(0xb6, 0x4a, 0xc2),
        Contestant::Array => RGBColor(0x9a, 0x84, 0x4a),
    }
}

fn text(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&BLACK)
}

fn coloured_text(contestant: Contestant) -> TextStyle<'static> {
    ("sans-serif", 14)
        .into_font()
        .color(&colour(contestant).to_rgba())
}

/// What the library has drawn, for a page that sets the colour.
fn finish(svg: &str, title: &str) -> String {
    let svg = svg.replace("#000000", "currentColor");
    let open = svg.find('>').map_or(0, |end| end + 1);
    format!(
        "{}<title>{title}</title>{}",
        svg[..open].replace("<svg ", "<svg role=\"img\" "),
        &svg[open..]
    )
}

/// The same plot as a file of its own, which has to set its colour itself.
pub(crate) fn standalone(svg: &str) -> String {
    const STYLE: &str = "<style>svg{color:#1f2328}\
        @media(prefers-color-scheme:dark){svg{color:#e6edf3}}</style>";
    let open = svg.find('>').map_or(0, |end| end + 1);
    format!("{}{STYLE}{}\n", &svg[..open], &svg[open..])
}

/// 1, 2 and 5 times every power of ten from `low` to `high`, or the powers alone if those are many.
fn steps(low: f64, high: f64) -> Vec<f64> {
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let parts: &[f64] = if high / low < 200.0 {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0]
    };
    let all = decades.flat_map(|decade| parts.iter().map(move |part| part * 10_f64.powi(decade)));
    all.filter(|step| (low * 0.999..=high * 1.001).contains(step))
        .collect()
}
