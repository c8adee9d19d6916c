//! The frame of a plot: its colours in light and dark, text, and what is drawn in it.

use std::fmt::{Display, Write as _};

pub(super) const WIDTH: f64 = 900.0;

/// The colours of the contestants, in light and in dark. The class of a contestant is `c-NAME`.
const COLOURS: [(&str, &str, &str); 7] = [
    ("hashed", "#0969da", "#58a6ff"),
    ("hierarchical", "#8250df", "#b392f0"),
    ("netty", "#bc4c00", "#f0883e"),
    ("tokio", "#1a7f37", "#56d364"),
    ("delayqueue", "#bf3989", "#f778ba"),
    ("clock", "#8c959f", "#768390"),
    ("array", "#8c959f", "#768390"),
];

/// The class of a contestant; one without a colour of its own is drawn like an axis.
pub(super) fn class(contestant: &str) -> String {
    let known = COLOURS.iter().any(|(name, ..)| *name == contestant);
    format!("c-{}", if known { contestant } else { "other" })
}

pub(super) struct Svg {
    text: String,
}

impl Svg {
    pub(super) fn new(height: f64, title: &str, description: &str) -> Self {
        let mut text = String::new();
        let _ = writeln!(
            text,
            r#"<svg class="hwp" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{description}">"#
        );
        let _ = writeln!(text, "<title>{title}</title>\n<style>\n{}</style>", style());
        let mut svg = Self { text };
        svg.add(format_args!(
            r#"<rect class="card" x="0.5" y="0.5" width="{}" height="{}" rx="6"/>"#,
            WIDTH - 1.0,
            height - 1.0
        ));
        svg
    }

    /// Adds an element, on a line of its own.
    pub(super) fn add(&mut self, element: impl Display) {
        let _ = writeln!(self.text, "{element}");
    }

    pub(super) fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.add(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" class="{class}">{text}</text>"#
        ));
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        self.add(format_args!(
            r#"<path class="{class}" d="M{:.1} {:.1}L{:.1} {:.1}"/>"#,
            from.0, from.1, to.0, to.1
        ));
    }

    pub(super) fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

/// Light, dark, and the themes of rustdoc, which the reader may choose against the system.
fn style() -> String {
    let scheme = |dark: bool| {
        let (soft, line) = if dark {
            ("#9198a1", "#3d444d")
        } else {
            ("#656d76", "#d1d9e0")
        };
        let mut text = format!("--soft: {soft}; --line: {line}; ");
        for (name, light, night) in COLOURS {
            let colour = if dark { night } else { light };
            let _ = write!(text, "--{name}: {colour}; ");
        }
        text
    };
    let mut style = format!(
        ".hwp {{ --bg: var(--main-background-color, #ffffff); --ink: var(--main-color, #1f2328); {}max-width: 100%; height: auto; }}\n",
        scheme(false)
    );
    let _ = writeln!(
        style,
        "@media (prefers-color-scheme: dark) {{ .hwp {{ --bg: var(--main-background-color, #0d1117); --ink: var(--main-color, #e6edf3); {}}} }}",
        scheme(true)
    );
    let _ = writeln!(
        style,
        "[data-theme=\"light\"] .hwp {{ {}}}\n[data-theme=\"dark\"] .hwp, [data-theme=\"ayu\"] .hwp {{ {}}}",
        scheme(false),
        scheme(true)
    );
    style.push_str(
        ".hwp .card { fill: var(--bg); stroke: var(--line); }\n\
         .hwp text { fill: var(--ink); font: 13px system-ui, -apple-system, \"Segoe UI\", Helvetica, Arial, sans-serif; }\n\
         .hwp .head { font-weight: 600; }\n\
         .hwp .soft { fill: var(--soft); font-size: 12px; }\n\
         .hwp .end { text-anchor: end; }\n\
         .hwp .middle { text-anchor: middle; }\n\
         .hwp .own { font-weight: 600; }\n\
         .hwp .axis { fill: none; stroke: var(--line); }\n\
         .hwp .strong { stroke: var(--soft); stroke-width: 1.5; }\n\
         .hwp .bar { fill: var(--c); }\n\
         .hwp .curve { fill: none; stroke: var(--c); stroke-width: 1.75; stroke-linejoin: round; }\n\
         .hwp .curve.own { stroke-width: 3; }\n\
         .hwp .curve.dashed { stroke-dasharray: 5 4; }\n\
         .hwp .dot { fill: var(--c); }\n\
         .hwp .name { fill: var(--c); font-size: 12.5px; }\n\
         .hwp .c-other { --c: var(--soft); }\n",
    );
    for (name, ..) in COLOURS {
        let _ = writeln!(style, ".hwp .c-{name} {{ --c: var(--{name}); }}");
    }
    style
}
