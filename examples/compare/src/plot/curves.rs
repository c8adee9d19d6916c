//! Lines over a logarithmic axis, with the spread of the runs and the names at their ends.

use super::scale::Scale;
use super::{GREY, HEIGHT, NAMES, WIDTH, colour, coloured_text, finish, marks, steps, text};
use crate::contestant::Contestant;
use crate::group::Axis;
use crate::words::significant;
use plotters::prelude::*;

/// One contestant. Points are pixels' worth of data: place, median, least and most.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    pub(crate) contestant: Contestant,
    pub(crate) points: Vec<[f64; 4]>,
}

#[derive(Clone, Debug)]
pub(crate) struct Curves {
    pub(crate) title: String,
    pub(crate) axis: Axis,
    pub(crate) y_label: String,
    /// What is less is drawn here: a logarithmic axis has no zero. `None` if nothing can be.
    pub(crate) floor: Option<f64>,
    pub(crate) lines: Vec<Curve>,
}

type Failure = Box<dyn std::error::Error>;

/// The plot as SVG.
pub(crate) fn curves(plot: &Curves) -> Result<String, Failure> {
    let mut svg = String::new();
    draw(plot, &mut svg)?;
    Ok(finish(&svg, &plot.title))
}

fn draw(plot: &Curves, svg: &mut String) -> Result<(), Failure> {
    let floor = plot.floor.unwrap_or(f64::MIN_POSITIVE);
    let all = || plot.lines.iter().flat_map(|curve| &curve.points);
    let places: Vec<f64> = all().map(|point| point[0].log10()).collect();
    let (left, right) = extremes(places.iter().copied()).ok_or("no points")?;
    let (low, high) =
        extremes(all().flat_map(|p| [p[2].max(floor), p[3].max(floor)])).ok_or("no points")?;
    let (low, high) = room(low, high);

    let root = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
    let (area, _names) = root.split_horizontally(WIDTH - NAMES);
    let margin = 0.03 * (right - left).max(0.1);
    let x_ticks = ticks(&places);
    let y_ticks: Vec<f64> = steps(low, high).iter().map(|step| step.log10()).collect();
    let mut chart = ChartBuilder::on(&area)
        .margin(8)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(
            Scale {
                low: left - margin,
                high: right + margin,
                marks: x_ticks,
            },
            Scale {
                low: low.log10(),
                high: high.log10(),
                marks: y_ticks,
            },
        )?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GREY.mix(0.3))
        .axis_style(GREY)
        .x_desc(plot.axis.label())
        .y_desc(plot.y_label.as_str())
        .axis_desc_style(text(14))
        .label_style(text(13))
        .x_label_formatter(&|x| plot.axis.place(10_f64.powf(*x)))
        .y_label_formatter(&|y| tick_label(10_f64.powf(*y), plot.floor))
        .draw()?;

    let mut names = Vec::new();
    // The crate's own last, so that they lie on top where lines coincide.
    for Curve { contestant, points } in plot.lines.iter().rev() {
        let pixel = |x: f64, y: f64| chart.backend_coord(&(x.log10(), y.max(floor).log10()));
        let style = colour(*contestant);
        let line: Vec<(i32, i32)> = points.iter().map(|p| pixel(p[0], p[1])).collect();
        root.draw(&PathElement::new(line.clone(), style.stroke_width(2)))?;
        for (point, &at) in points.iter().zip(&line) {
            let spread = vec![pixel(point[0], point[2]), pixel(point[0], point[3])];
            root.draw(&PathElement::new(spread, style.stroke_width(1)))?;
            marks::draw(&root, *contestant, at)?;
        }
        if let Some(end) = line.last() {
            names.push((*contestant, end.1));
        }
    }
    for (contestant, y) in apart(names) {
        let x = WIDTH - NAMES + 6;
        marks::draw(&root, contestant, (x as i32, y))?;
        root.draw(&Text::new(
            contestant.label(),
            (x as i32 + 10, y - 6),
            coloured_text(contestant),
        ))?;
    }
    root.present()?;
    Ok(())
}

fn extremes(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |found, value| {
        let (least, most) = found.unwrap_or((value, value));
        Some((least.min(value), most.max(value)))
    })
}

/// A little room above and below, and at least a factor of three in all.
fn room(low: f64, high: f64) -> (f64, f64) {
    let span = (high / low).max(3.0);
    let stretch = (span / (high / low)).sqrt() * span.powf(0.04);
    (low / stretch, high * stretch)
}

/// The places of the points, each once, thinned out to a dozen.
fn ticks(places: &[f64]) -> Vec<f64> {
    let mut ticks = places.to_vec();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup_by(|a, b| (*a - *b).abs() < 1e-6);
    let step = ticks.len().div_ceil(9);
    ticks.into_iter().step_by(step).collect()
}

/// What lies on the floor may lie below it.
fn tick_label(value: f64, floor: Option<f64>) -> String {
    if floor.is_some_and(|floor| value <= floor * 1.001) {
        return format!("≤ {}", significant(value));
    }
    significant(value)
}

/// Names one below the other, each as near to the end of its line as can be.
fn apart(mut names: Vec<(Contestant, i32)>) -> Vec<(Contestant, i32)> {
    const LINE: i32 = 17;
    names.sort_by_key(|name| name.1);
    for place in 1..names.len() {
        names[place].1 = names[place].1.max(names[place - 1].1 + LINE);
    }
    // Those that were pushed out below come up again.
    let mut lowest = HEIGHT as i32 - 60;
    for name in names.iter_mut().rev() {
        name.1 = name.1.min(lowest);
        lowest = name.1 - LINE;
    }
    names
}

#[cfg(test)]
mod tests {
    use super::{Axis, Contestant, Curve, Curves, apart, curves};

    #[test]
    fn a_plot_is_svg_with_labels_and_names() {
        let curve = |contestant, y: f64| Curve {
            contestant,
            points: vec![[1.0, y, y, y], [100.0, 2.0 * y, y, 3.0 * y]],
        };
        let svg = curves(&Curves {
            title: "A title".to_owned(),
            axis: Axis::Pending,
            y_label: "ns".to_owned(),
            floor: None,
            lines: vec![
                curve(Contestant::Hashed, 10.0),
                curve(Contestant::Heap, 11.0),
            ],
        })
        .unwrap();
        assert!(svg.starts_with("<svg "), "{svg}");
        assert!(svg.contains("timeouts pending") && svg.contains("hashed"));
        assert!(!svg.contains("#000000"));
    }

    #[test]
    fn names_do_not_cover_each_other() {
        let names = Contestant::ALL.map(|it| (it, 390)).to_vec();
        let placed = apart(names);
        assert!(placed.windows(2).all(|pair| pair[1].1 - pair[0].1 >= 17));
        assert!(placed.iter().all(|name| (0..400).contains(&name.1)));
    }
}
