//! The comparison of this crate's two wheels: the loads that are published, and what they come to.
//!
//! The figure of a load is the CPU time on the hierarchical wheel over that on the hashed one, taken round by round. The two
//! differ if all rounds agree on which is less, and the median is more than 5 % away from 1.

use std::fmt::Write as _;

use crate::sheet::{Figure, Sheet};

/// A load of the comparison.
#[derive(Debug)]
pub struct Load {
    /// Its row in the file of figures.
    pub row: &'static str,
    pub kind: Kind,
    /// What it is called in the picture.
    pub label: &'static str,
    /// Where it stands in the plan of the comparison: the group, and the place on its axis.
    pub case: (&'static str, f64),
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Short,
    Medium,
    Long,
    Crowd,
    RealTime,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Short,
        Self::Medium,
        Self::Long,
        Self::Crowd,
        Self::RealTime,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::Short => "delays of at most one revolution",
            Self::Medium => "delays of ten revolutions",
            Self::Long => "delays of a hundred revolutions or more",
            Self::Crowd => "thousands of timeouts due at the same tick",
            Self::RealTime => "threads that schedule, cancel and wait in real time",
        }
    }
}

const fn load(
    row: &'static str,
    kind: Kind,
    label: &'static str,
    case: (&'static str, f64),
) -> Load {
    Load {
        row,
        kind,
        label,
        case,
    }
}

/// All loads, in the order of the picture.
pub const LOADS: &[Load] = &[
    load(
        "compare-fired-0.1",
        Kind::Short,
        "fire after 0.1 revolutions",
        ("delay-fired", 0.1),
    ),
    load(
        "compare-fired-1",
        Kind::Short,
        "fire after 1 revolution",
        ("delay-fired", 1.0),
    ),
    load(
        "compare-few-fired-1",
        Kind::Short,
        "fire after 1, with 1 000 pending",
        ("pending-fired", 1_000.0),
    ),
    load(
        "compare-cancelled-0.1",
        Kind::Short,
        "cancelled, delay 0.1 revolutions",
        ("delay-cancelled", 0.1),
    ),
    load(
        "compare-fired-10",
        Kind::Medium,
        "fire after 10 revolutions",
        ("delay-fired", 10.0),
    ),
    load(
        "compare-cancelled-10",
        Kind::Medium,
        "cancelled, delay 10 revolutions",
        ("delay-cancelled", 10.0),
    ),
    load(
        "compare-fired-100",
        Kind::Long,
        "fire after 100 revolutions",
        ("delay-fired", 100.0),
    ),
    load(
        "compare-fired-1000",
        Kind::Long,
        "fire after 1 000 revolutions",
        ("delay-fired", 1_000.0),
    ),
    load(
        "compare-cancelled-1000",
        Kind::Long,
        "cancelled, delay 1 000 revolutions",
        ("delay-cancelled", 1_000.0),
    ),
    load(
        "compare-crowd",
        Kind::Crowd,
        "4 096 due at each tick in use",
        ("burst", 4_096.0),
    ),
    load(
        "compare-churn",
        Kind::RealTime,
        "schedule and cancel, real clock",
        ("churn", 0.0),
    ),
    load(
        "compare-fire",
        Kind::RealTime,
        "fire a million, real clock",
        ("fire", 1.0),
    ),
];

/// The figure of a load.
pub const METRIC: &str = "cpu_ns:hashed";
pub const CONTESTANT: &str = "hierarchical";

/// Which wheel costs less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Less {
    Hashed,
    Hierarchical,
    /// The difference is within the noise.
    Neither,
}

impl Less {
    pub fn of(ratio: &Figure) -> Self {
        match (ratio.min, ratio.median, ratio.max) {
            // One round tells nothing about noise.
            _ if ratio.runs < 3 => Self::Neither,
            (min, median, _) if min > 1.0 && median > 1.05 => Self::Hashed,
            (_, median, max) if max < 1.0 && median < 0.95 => Self::Hierarchical,
            _ => Self::Neither,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Hashed => "`HashedWheelTimer`",
            Self::Hierarchical => "`HierarchicalWheelTimer`",
            Self::Neither => "either",
        }
    }
}

/// The loads that were measured, with their figures.
pub fn measured(sheet: &Sheet) -> Vec<(&'static Load, &Figure)> {
    let found = |load: &'static Load| Some((load, sheet.get(load.row, CONTESTANT, METRIC)?));
    LOADS.iter().filter_map(found).collect()
}

/// Three sentences.
pub fn sentences(sheet: &Sheet) -> String {
    let all = measured(sheet);
    let same = all.iter().filter(|(_, it)| Less::of(it) == Less::Neither);
    let (same, all) = (same.count(), all.len());
    let first = if 2 * same > all {
        format!(
            "For most loads the two wheels cost the same: {same} of {all} differ by no more than the noise."
        )
    } else {
        format!(
            "The two wheels differ beyond the noise for {} of {all} loads.",
            all - same
        )
    };
    let about = |less: Less, other: &str| {
        let kinds = Kind::ALL
            .into_iter()
            .filter(|kind| take(sheet, *kind) == Some(less));
        let kinds: Vec<Kind> = kinds.collect();
        let single = measured(sheet).iter().any(|(_, it)| Less::of(it) == less);
        let ratios = kinds.iter().flat_map(|kind| inside(sheet, *kind));
        let ratios = ratios.map(|it| match less {
            Less::Hierarchical => 1.0 / it.median,
            _ => it.median,
        });
        let most = ratios.fold(1.0, f64::max);
        let kinds: Vec<String> = kinds.iter().map(|kind| kind.title().to_owned()).collect();
        match kinds.len() {
            0 if single => format!("{} costs less for single loads only.", less.name()),
            0 => format!("{} costs clearly less for none of them.", less.name()),
            _ => format!(
                "{} costs less for {}: {other} takes up to {most:.1} times the CPU time.",
                less.name(),
                list(&kinds)
            ),
        }
    };
    format!(
        "{first} {} {}",
        about(Less::Hashed, "`HierarchicalWheelTimer`"),
        about(Less::Hierarchical, "`HashedWheelTimer`")
    )
}

/// The figures of all loads of a kind.
fn inside(sheet: &Sheet, kind: Kind) -> Vec<&Figure> {
    let all = measured(sheet).into_iter();
    all.filter(|(load, _)| load.kind == kind)
        .map(|(_, it)| it)
        .collect()
}

/// Which wheel to take for a kind of load: one that costs clearly less for most of its loads, while the other does so
/// for none. `None` if nothing was measured.
fn take(sheet: &Sheet, kind: Kind) -> Option<Less> {
    let inside = inside(sheet, kind);
    let clear = |less: Less| inside.iter().filter(|it| Less::of(it) == less).count();
    let is_most = |count: usize| 2 * count > inside.len();
    let take = match (clear(Less::Hashed), clear(Less::Hierarchical)) {
        (hashed, 0) if is_most(hashed) => Less::Hashed,
        (0, hierarchical) if is_most(hierarchical) => Less::Hierarchical,
        _ => Less::Neither,
    };
    (!inside.is_empty()).then_some(take)
}

/// The table: each kind of load, what to take, and the cost of the hierarchical wheel over the hashed one's.
pub fn rows(sheet: &Sheet) -> Vec<[String; 3]> {
    let row = |kind: Kind| {
        let take = take(sheet, kind)?;
        let mut medians: Vec<f64> = inside(sheet, kind).iter().map(|it| it.median).collect();
        medians.sort_unstable_by(f64::total_cmp);
        let (least, most) = (
            format!("{:.2}", medians.first()?),
            format!("{:.2}", medians.last()?),
        );
        let span = if least == most {
            least
        } else {
            format!("{least} to {most}")
        };
        let inside = inside(sheet, kind);
        let has = |less: Less| inside.iter().any(|it| Less::of(it) == less);
        let take = if has(Less::Hashed) && has(Less::Hierarchical) {
            "depends: see the picture"
        } else {
            take.name()
        };
        Some([kind.title().to_owned(), take.to_owned(), span])
    };
    Kind::ALL.into_iter().filter_map(row).collect()
}

/// The block of the page.
pub fn block(sheet: &Sheet) -> String {
    let mut text = format!("{}\n\n", sentences(sheet));
    let _ = writeln!(
        text,
        "![CPU time of the hierarchical wheel over the hashed one's, for each load](compare.svg)\n\n\
         | load | take | hierarchical ÷ hashed, CPU time |\n|---|---|--:|"
    );
    for [load, take, ratio] in rows(sheet) {
        let _ = writeln!(text, "| {load} | {take} | {ratio} |");
    }
    text
}

fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::{CONTESTANT, LOADS, Less, METRIC, rows, sentences};
    use crate::sheet::{Figure, Sheet};

    fn figure(row: &str, values: &[f64]) -> Figure {
        Figure::of(row, CONTESTANT, METRIC, values).unwrap()
    }

    #[test]
    fn a_difference_counts_if_all_rounds_agree_and_it_is_more_than_a_twentieth() {
        let less = |values: &[f64]| Less::of(&figure("a", values));
        assert_eq!(less(&[1.2, 1.3, 1.1]), Less::Hashed);
        assert_eq!(less(&[0.5, 0.6, 0.7]), Less::Hierarchical);
        assert_eq!(less(&[0.99, 1.3, 1.4]), Less::Neither);
        assert_eq!(less(&[1.01, 1.02, 1.03]), Less::Neither);
        assert_eq!(less(&[2.0]), Less::Neither);
    }

    #[test]
    fn most_loads_alike_is_the_answer_if_it_is_so() {
        let mut sheet = Sheet::default();
        let figures = LOADS.iter().map(|load| match load.row {
            "compare-crowd" => figure(load.row, &[1.2, 1.25, 1.3]),
            row => figure(row, &[0.98, 1.0, 1.02]),
        });
        sheet.replace(|_| true, figures.collect());
        let text = sentences(&sheet);
        assert!(
            text.starts_with("For most loads the two wheels cost the same: 11 of 12"),
            "{text}"
        );
        let hashed = "`HashedWheelTimer` costs less for thousands of timeouts due at the same tick: \
             `HierarchicalWheelTimer` takes up to 1.2 times the CPU time.";
        assert!(text.contains(hashed), "{text}");
        assert!(
            text.contains("`HierarchicalWheelTimer` costs clearly less for none"),
            "{text}"
        );
        let takes: Vec<String> = rows(&sheet).into_iter().map(|[_, take, _]| take).collect();
        assert_eq!(
            takes,
            ["either", "either", "either", "`HashedWheelTimer`", "either"]
        );
    }
}
