//! Bars side by side: a group of them for each row, one for each contestant.

use super::scale::Scale;
use super::{GREY, WIDTH, colour, coloured_text, finish, text};
use crate::sheet::{Sheet, Value};
use crate::words::significant;
use plotters::prelude::*;

const HEIGHT: u32 = 300;
/// Where the names stand, above the bars.
const LEGEND: u32 = 28;

type Failure = Box<dyn std::error::Error>;

/// A table as bars, as SVG. The vertical axis begins at zero.
pub(crate) fn bars(sheet: &Sheet, y_label: &str) -> Result<String, Failure> {
    let mut svg = String::new();
    draw(sheet, y_label, &mut svg)?;
    Ok(finish(&svg, &sheet.caption))
}

fn draw(sheet: &Sheet, y_label: &str, svg: &mut String) -> Result<(), Failure> {
    let cells = sheet.rows.iter().flat_map(|(_, row)| row).flatten();
    let most = cells
        .map(|cell| cell.y.most)
        .max_by(f64::total_cmp)
        .ok_or("no bars")?;
    let rows = sheet.rows.len() as f64;
    let root = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
    let (legend, area) = root.split_vertically(LEGEND);
    for (place, &contestant) in sheet.columns.iter().enumerate() {
        let x = 72 + 112 * place as i32;
        let mark = Rectangle::new([(x, 10), (x + 12, 22)], colour(contestant).filled());
        legend.draw(&mark)?;
        let name = Text::new(contestant.label(), (x + 18, 9), coloured_text(contestant));
        legend.draw(&name)?;
    }
    let middles: Vec<f64> = (0..sheet.rows.len()).map(|row| row as f64).collect();
    let mut chart = ChartBuilder::on(&area)
        .margin(8)
        .x_label_area_size(28)
        .y_label_area_size(64)
        .build_cartesian_2d(
            Scale {
                low: -0.5,
                high: rows - 0.5,
                marks: middles,
            },
            0.0..(most * 1.05).max(1e-9),
        )?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GREY.mix(0.3))
        .axis_style(GREY)
        .y_labels(6)
        .y_desc(y_label)
        .axis_desc_style(text(14))
        .label_style(text(13))
        .x_label_formatter(&|x| {
            let row = sheet.rows.get(x.round() as usize);
            row.map_or(String::new(), |(label, _)| label.clone())
        })
        .y_label_formatter(&|y| significant(*y))
        .draw()?;
    let width = 0.8 / sheet.columns.len() as f64;
    for (row, (_, cells)) in sheet.rows.iter().enumerate() {
        for (column, cell) in cells.iter().enumerate() {
            let Some(Value { y, .. }) = cell else {
                continue;
            };
            let style = colour(sheet.columns[column]);
            let left = row as f64 - 0.4 + width * column as f64;
            let corners = [(left + 0.1 * width, 0.0), (left + 0.9 * width, y.median)];
            chart.draw_series([Rectangle::new(corners, style.mix(0.85).filled())])?;
            let middle = left + width / 2.0;
            let spread = vec![(middle, y.least), (middle, y.most)];
            chart.draw_series([PathElement::new(spread, BLACK.stroke_width(1))])?;
        }
    }
    root.present()?;
    Ok(())
}
