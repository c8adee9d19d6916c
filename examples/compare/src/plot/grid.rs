//! The map as SVG: a grid of cells, coloured by who costs least. Written by hand, because every cell holds a
//! mark and a number, and both have to be readable on a narrow screen.

use super::{css, finish};
use crate::contestant::Contestant;
use crate::map::{Cell, Map};
use crate::words::{count, factor, significant, turns};
use std::fmt::Write as _;

const WIDTH: f64 = 480.0;
/// Where the numbers pending stand.
const LEFT: f64 = 62.0;
const TOP: f64 = 34.0;
const ROW: f64 = 46.0;
const LINE: f64 = 20.0;
/// How strongly a cell is coloured: clearly the cheapest, or within the noise.
const CLEAR: f64 = 0.62;
const PALE: f64 = 0.2;

/// The map, with its legend.
pub(crate) fn grid(map: &Map) -> String {
    let rows = map.rows.len() as f64;
    let foot = TOP + ROW * rows;
    let legend = legend(map);
    let height = foot + 44.0 + LINE * legend.len() as f64 + 6.0;
    let mut svg = format!(
        "<svg width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         xmlns=\"http://www.w3.org/2000/svg\" font-family=\"system-ui, sans-serif\" \
         font-size=\"13\" fill=\"#000000\">\n"
    );
    text(
        &mut svg,
        [LEFT, 20.0],
        "font-size=\"16\" font-weight=\"600\"",
        map.form.title(),
    );
    text(
        &mut svg,
        [WIDTH, 20.0],
        "text-anchor=\"end\" fill-opacity=\"0.75\"",
        "ns of CPU a timeout",
    );
    let width = (WIDTH - LEFT) / map.columns.len() as f64;
    for (row, (pending, cells)) in map.rows.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        let style = "text-anchor=\"end\"";
        text(
            &mut svg,
            [LEFT - 7.0, y + ROW / 2.0 + 5.0],
            style,
            &count(*pending),
        );
        for (column, cell) in cells.iter().enumerate() {
            draw(&mut svg, cell, [LEFT + width * column as f64, y], width);
        }
    }
    for (column, delay) in map.columns.iter().enumerate() {
        let x = LEFT + width * (column as f64 + 0.5);
        text(
            &mut svg,
            [x, foot + 17.0],
            "text-anchor=\"middle\"",
            &turns(*delay),
        );
    }
    let style = "text-anchor=\"end\" fill-opacity=\"0.75\"";
    text(&mut svg, [LEFT - 7.0, foot + 17.0], style, "pending");
    let middle = f64::midpoint(LEFT, WIDTH);
    let style = "text-anchor=\"middle\" fill-opacity=\"0.75\"";
    let axis = "delay ÷ turn of the wheel (tick × slots)";
    text(&mut svg, [middle, foot + 35.0], style, axis);
    for (number, line) in legend.iter().enumerate() {
        let mut x = LEFT;
        let y = foot + 58.0 + LINE * number as f64;
        for (who, words) in line {
            if let Some(who) = who {
                mark(&mut svg, *who, [x + 5.0, y - 4.5]);
                x += 15.0;
            }
            text(&mut svg, [x, y], "", words);
            // About the width of the letters.
            x += 7.3 * words.chars().count() as f64 + 12.0;
        }
    }
    svg.push_str("</svg>\n");
    finish(&svg, &map.in_words())
}

/// Lines of marks with their words.
fn legend(map: &Map) -> Vec<Vec<(Option<Contestant>, String)>> {
    let names = map.shown().into_iter();
    let mut lines = vec![
        names
            .map(|who| (Some(who), who.name().to_owned()))
            .collect(),
    ];
    if map.has_ties() {
        let words = "faint: others cost as little, within the noise";
        lines.push(vec![(None, words.to_owned())]);
    }
    if map.has_late() {
        lines.push(vec![(Some(Contestant::Kernel), map.late_in_words())]);
    }
    lines
}

fn draw(svg: &mut String, cell: &Cell, [x, y]: [f64; 2], width: f64) {
    let fill = css(cell.best);
    let opacity = if cell.ties.is_empty() { CLEAR } else { PALE };
    let _ = writeln!(
        svg,
        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"4\" fill=\"{fill}\" \
         fill-opacity=\"{opacity}\" stroke=\"{fill}\" stroke-opacity=\"0.9\"/>",
        x + 1.5,
        y + 1.5,
        width - 3.0,
        ROW - 3.0
    );
    let lower = cell.late.is_some();
    let middle = y + if lower { 15.0 } else { ROW / 2.0 };
    let number = significant(cell.cost);
    let line = |words: &str| 13.0 + 8.0 * words.chars().count() as f64;
    let start = x + (width - line(&number)) / 2.0;
    mark(svg, cell.best, [start + 5.0, middle]);
    text(
        svg,
        [start + 14.0, middle + 5.0],
        "font-size=\"14\" font-weight=\"600\"",
        &number,
    );
    if let Some(late) = cell.late {
        let words = factor(late.factor);
        let start = x + (width - line(&words)) / 2.0 + 2.5;
        mark(svg, late.who, [start + 5.0, y + 32.0]);
        text(svg, [start + 13.0, y + 36.0], "font-size=\"12\"", &words);
    }
}

fn text(svg: &mut String, [x, y]: [f64; 2], style: &str, words: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{words}</text>"
    );
}

/// The mark of a contestant, as in the other plots, in its colour with a thin edge.
fn mark(svg: &mut String, contestant: Contestant, [x, y]: [f64; 2]) {
    let points = |all: &[[f64; 2]]| {
        let moved = all
            .iter()
            .map(|[dx, dy]| format!("{:.1},{:.1}", x + dx, y + dy));
        format!(
            "<polygon points=\"{}\"",
            moved.collect::<Vec<_>>().join(" ")
        )
    };
    let shape = match contestant {
        Contestant::Hashed | Contestant::Array => {
            format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\"")
        }
        Contestant::Hierarchical => points(&[[-4.0, -4.0], [4.0, -4.0], [4.0, 4.0], [-4.0, 4.0]]),
        Contestant::Kernel => points(&[[-5.0, -4.0], [5.0, -4.0], [0.0, 5.0]]),
        Contestant::Heap => points(&[[0.0, -5.0], [5.0, 4.0], [-5.0, 4.0]]),
        Contestant::Btree => points(&[[0.0, -5.0], [5.0, 0.0], [0.0, 5.0], [-5.0, 0.0]]),
        Contestant::Classic => points(&[
            [-5.0, -3.0],
            [-3.0, -5.0],
            [0.0, -2.0],
            [3.0, -5.0],
            [5.0, -3.0],
            [2.0, 0.0],
            [5.0, 3.0],
            [3.0, 5.0],
            [0.0, 2.0],
            [-3.0, 5.0],
            [-5.0, 3.0],
            [-2.0, 0.0],
        ]),
    };
    let _ = writeln!(
        svg,
        "{shape} fill=\"{}\" stroke=\"#000000\" stroke-width=\"0.8\"/>",
        css(contestant)
    );
}
