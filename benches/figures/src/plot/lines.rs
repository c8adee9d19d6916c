//! A panel of curves, each with its name at its end.

use super::svg::{Svg, class};

/// Where a panel stands, and what its axes show.
pub(super) struct Panel<'a> {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) head: &'a str,
    pub(super) unit: &'a str,
    /// The names of the places on the horizontal axis, evenly apart.
    pub(super) places: Vec<String>,
    /// The vertical axis, and the steps of it that are marked.
    pub(super) scale: Scale,
    pub(super) marks: Vec<(f64, String)>,
}

/// A vertical axis.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scale {
    /// From zero to this.
    Linear(f64),
    /// From the one to the other.
    Logarithmic(f64, f64),
}

pub(super) struct Curve {
    pub(super) name: String,
    /// What it is drawn like.
    pub(super) like: &'static str,
    pub(super) values: Vec<Option<f64>>,
}

/// Room for the names at the right of the curves, and for the marks at their left.
const NAMES: f64 = 92.0;
const MARKS: f64 = 52.0;
/// The least distance between two names.
const APART: f64 = 15.0;

impl Panel<'_> {
    fn x(&self, place: usize) -> f64 {
        let room = self.width - NAMES - MARKS;
        let last = (self.places.len() - 1).max(1) as f64;
        self.left + MARKS + room * place as f64 / last
    }

    fn y(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear(high) => value / high,
            Scale::Logarithmic(low, high) => {
                (value.clamp(low, high) / low).ln() / (high / low).ln()
            }
        };
        self.top + self.height * (1.0 - share)
    }

    pub(super) fn draw(&self, svg: &mut Svg, curves: &[Curve]) {
        svg.text(self.left, self.top - 42.0, "head", self.head);
        svg.text(self.left, self.top - 23.0, "soft", self.unit);
        let (first, last) = (self.x(0), self.x(self.places.len() - 1));
        for (value, name) in &self.marks {
            let y = self.y(*value);
            svg.line((first, y), (last, y), "axis");
            svg.text(first - 8.0, y + 4.0, "soft end", name);
        }
        for (place, name) in self.places.iter().enumerate() {
            let y = self.top + self.height + 18.0;
            svg.text(self.x(place), y, "soft middle", name);
        }
        let mut ends = Vec::new();
        // The first of the list is drawn last: on top.
        for curve in curves.iter().rev() {
            if let Some(y) = self.draw_curve(svg, curve) {
                ends.push((y, curve));
            }
        }
        self.draw_names(svg, ends);
    }

    /// Returns the height at which the curve ends.
    fn draw_curve(&self, svg: &mut Svg, curve: &Curve) -> Option<f64> {
        let points = curve.values.iter().enumerate();
        let points: Vec<(f64, f64)> = points
            .filter_map(|(place, value)| Some((self.x(place), self.y((*value)?))))
            .collect();
        let &(_, end) = points.last()?;
        let path: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{x:.1} {y:.1}"))
            .collect();
        let class = curve.class();
        svg.add(format_args!(
            r#"<path class="curve {class}" d="M{}"/>"#,
            path.join("L")
        ));
        for (x, y) in points {
            svg.add(format_args!(
                r#"<circle class="dot {class}" cx="{x:.1}" cy="{y:.1}" r="2.5"/>"#
            ));
        }
        Some(end)
    }

    /// Names at the ends of their curves, moved apart where they would lie on each other.
    fn draw_names(&self, svg: &mut Svg, mut ends: Vec<(f64, &Curve)>) {
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut last = f64::NEG_INFINITY;
        for (y, _) in &mut ends {
            *y = y.max(last + APART);
            last = *y;
        }
        // What was pushed below the axis is moved up again, together with those above it.
        let mut limit = self.top + self.height;
        for (y, _) in ends.iter_mut().rev() {
            *y = y.min(limit);
            limit = *y - APART;
        }
        let x = self.x(self.places.len() - 1) + 9.0;
        for (y, curve) in ends {
            svg.text(x, y + 4.0, &format!("name {}", curve.class()), &curve.name);
        }
    }
}

impl Curve {
    fn class(&self) -> String {
        let kind = match self.like {
            "hashed" => " own",
            "clock" | "array" => " dashed",
            _ => "",
        };
        class(self.like) + kind
    }
}

/// A time with its unit.
pub(super) fn time(nanos: f64) -> String {
    let (value, unit) = match nanos {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    format!("{value:.0} {unit}")
}
