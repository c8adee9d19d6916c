//! What is shown of a run, part by part: the plots and the tables that the page, the terminal and the files are made of.

use crate::contestant::Contestant;
use crate::group::{Axis, Group, Part};
use crate::lines::lines;
use crate::load::{CPU_NS, LATE, WAKEUPS, WORK};
use crate::plan::Plan;
use crate::plot::{Curve, Curves, bars, curves};
use crate::results::Results;
use crate::sheet::{COUNTED, Sheet};
use crate::words::list;

/// A part of the report.
#[derive(Debug, Default)]
pub(crate) struct Section {
    /// 2 for a chapter, 3 for what is in it.
    pub(crate) level: u8,
    pub(crate) title: String,
    pub(crate) about: String,
    pub(crate) pictures: Vec<Picture>,
    pub(crate) sheets: Vec<Sheet>,
}

/// A plot, and the name of its file.
#[derive(Debug)]
pub(crate) struct Picture {
    pub(crate) name: String,
    pub(crate) svg: String,
}

type Failure = Box<dyn std::error::Error>;

/// All parts, in order.
pub(crate) fn sections(plan: &Plan, results: &Results) -> Result<Vec<Section>, Failure> {
    let mut sections = Vec::new();
    let mut chapter = |title: &str, about: &str, parts: Vec<Section>| {
        if !parts.is_empty() {
            sections.push(Section {
                level: 2,
                title: title.to_owned(),
                about: about.to_owned(),
                ..Section::default()
            });
            sections.extend(parts);
        }
    };
    let groups = &plan.groups;
    let counted = groups
        .iter()
        .filter(|group| group.name.starts_with("delay-"));
    let counted: Result<Vec<_>, _> = counted
        .map(|group| counted_part(plan, results, group))
        .collect();
    chapter(
        "Counted",
        "What each design does for a timeout, exactly and repeatably, on a manual clock.",
        counted?,
    );
    let measured = groups.iter().filter(|group| group.part == Part::Measured);
    let measured: Result<Vec<_>, _> = measured
        .map(|group| measured_part(plan, results, group))
        .collect();
    chapter(
        "Measured",
        "On the system's clock, with the timer's own thread.",
        measured?,
    );
    let swept = groups.iter().filter(|group| group.axis().is_some());
    let swept: Result<Vec<_>, _> = swept
        .map(|group| swept_part(plan, results, group))
        .collect();
    chapter(
        "Swept",
        "One thing varies, the rest stays. On a manual clock, with a tick of 1 ms; 512 slots and 20 buckets a level unless said otherwise.",
        swept?,
    );
    Ok(sections)
}

fn counted_part(plan: &Plan, results: &Results, group: &Group) -> Result<Section, Failure> {
    let each = if group.name.ends_with("fired") {
        "fired"
    } else {
        "cancelled"
    };
    let mut section = Section {
        level: 3,
        title: format!("For each {each} timeout"),
        about: group.about.clone(),
        ..Section::default()
    };
    let labels = [
        (
            WORK,
            format!("passed over + moved + compared, per {each} timeout"),
        ),
        (WAKEUPS, format!("wake-ups per {each} timeout")),
    ];
    for (figure, label) in labels {
        let plot = plot_of(plan, results, group, figure, &label, Some(0.001));
        section
            .pictures
            .extend(picture(format!("counted-{each}-{figure}"), &plot)?);
    }
    for (figure, label) in COUNTED {
        let caption = if LATE.contains(&figure) {
            label.to_owned()
        } else {
            format!("{label}, per {each} timeout")
        };
        let sheet = Sheet::new(plan, results, group, figure, caption);
        // Of the sum, zeros are worth showing: some designs do nothing at all on the way.
        section.sheets.extend(match figure {
            WORK => sheet,
            _ => sheet.and_then(Sheet::without_zeros),
        });
    }
    Ok(section)
}

fn swept_part(plan: &Plan, results: &Results, group: &Group) -> Result<Section, Failure> {
    let name = format!("swept-{}", group.name);
    let plot = plot_of(plan, results, group, CPU_NS, group.figures[0].label, None);
    let mut pictures = picture(name.clone(), &plot)?;
    if let Some(near) = close_up(&plot) {
        pictures.extend(picture(format!("{name}-close"), &near)?);
    }
    Ok(Section {
        level: 3,
        title: group.title.to_owned(),
        about: group.about.clone(),
        pictures,
        sheets: sheets(plan, results, group),
    })
}

/// The same without the literal wheel and without the array, where those are so far off that the others
/// can hardly be told apart.
fn close_up(plot: &Curves) -> Option<Curves> {
    let is_close = |who: Contestant| !matches!(who, Contestant::Classic | Contestant::Array);
    let (near, far): (Vec<&Curve>, Vec<&Curve>) = plot
        .lines
        .iter()
        .partition(|line| is_close(line.contestant));
    let (low, high) = range(near.iter().copied())?;
    let is_far = |line: &&Curve| {
        let range = range(std::iter::once(*line));
        range.is_some_and(|(least, most)| most > 4.0 * high || least < low / 4.0)
    };
    let left_out: Vec<Contestant> = far
        .into_iter()
        .filter(is_far)
        .map(|line| line.contestant)
        .collect();
    let names: Vec<String> = left_out.iter().map(|it| it.name().to_owned()).collect();
    let mut near = plot.clone();
    near.lines
        .retain(|line| !left_out.contains(&line.contestant));
    near.title = format!("{}, without {}", plot.title, list(&names));
    near.y_label = format!("{} (without {})", plot.y_label, list(&names));
    (!left_out.is_empty()).then_some(near)
}

/// The least and the most median of some lines.
fn range<'a>(lines: impl Iterator<Item = &'a Curve>) -> Option<(f64, f64)> {
    let mut medians: Vec<f64> = lines
        .flat_map(|line| &line.points)
        .map(|it| it[1])
        .collect();
    medians.sort_by(f64::total_cmp);
    Some((*medians.first()?, *medians.last()?))
}

fn measured_part(plan: &Plan, results: &Results, group: &Group) -> Result<Section, Failure> {
    let sheets = sheets(plan, results, group);
    let mut pictures = Vec::new();
    for (sheet, figure) in sheets.iter().zip(group.figures) {
        if matches!(figure.name, CPU_NS | "wall_ns" | "bytes") {
            pictures.push(Picture {
                name: format!("measured-{}-{}", group.name, figure.name.replace('_', "-")),
                svg: bars(sheet, figure.label)?,
            });
        }
    }
    Ok(Section {
        level: 3,
        title: group.title.to_owned(),
        about: group.about.clone(),
        pictures,
        sheets,
    })
}

fn sheets(plan: &Plan, results: &Results, group: &Group) -> Vec<Sheet> {
    let of = |figure: &crate::group::Figure| {
        let caption = format!("{}: {}", group.title, figure.label);
        Sheet::new(plan, results, group, figure.name, caption)
    };
    group.figures.iter().filter_map(of).collect()
}

fn plot_of(
    plan: &Plan,
    results: &Results,
    group: &Group,
    figure: &str,
    label: &str,
    floor: Option<f64>,
) -> Curves {
    let lines = lines(plan, results, group, figure);
    let curves = lines.into_iter().map(|line| Curve {
        contestant: line.contestant,
        points: line
            .points
            .iter()
            .map(|point| [point.x, point.y.median, point.y.least, point.y.most])
            .collect(),
    });
    Curves {
        title: format!("{}: {label}", group.title),
        axis: group.axis().unwrap_or(Axis::Pending),
        y_label: label.to_owned(),
        floor,
        lines: curves.collect(),
    }
}

fn picture(name: String, plot: &Curves) -> Result<Vec<Picture>, Failure> {
    if plot.lines.is_empty() {
        return Ok(Vec::new());
    }
    let svg = curves(plot)?;
    Ok(vec![Picture { name, svg }])
}
