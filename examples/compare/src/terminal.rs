//! What is printed: the first screen, and with `--details` the rest behind it.

use crate::answer::{Answer, TERMS};
use crate::contestant::Contestant;
use crate::decision::Choice;
use crate::figures::{Found, Section};
use crate::headline::Headline;
use crate::map::Map;
use crate::report::Report;
use crate::telling;
use crate::words::{count, factor, significant, turns};
use std::fmt::Write as _;

const WIDTH: usize = 96;

/// The first screen.
pub(crate) fn first_screen(report: &Report) -> String {
    let Answer {
        choices,
        maps,
        headlines,
    } = &report.answer;
    let mut text = String::new();
    if !choices.is_empty() {
        text.push_str("WHICH WHEEL FOR MY LOAD?\n\n");
        for choice in choices {
            row(&mut text, choice);
        }
        wrap(&mut text, "", TERMS);
    }
    for map in maps {
        text.push('\n');
        grid(&mut text, map);
    }
    if !headlines.is_empty() {
        text.push('\n');
        figures(&mut text, headlines);
    }
    text.push('\n');
    wrap(&mut text, "", &report.machine.line());
    wrap(&mut text, "", &report.machine.command);
    for remark in &report.remarks {
        wrap(&mut text, "", remark);
    }
    text.replace('`', "")
}

fn row(text: &mut String, choice: &Choice) {
    let Choice {
        load,
        take,
        because,
        by,
    } = choice;
    let _ = writeln!(text, "{load}");
    let _ = writeln!(text, "  → {}", take.in_words().to_uppercase());
    wrap(text, "    ", by);
    wrap(text, "    ", because);
}

/// Lines of at most so many characters, each behind a margin.
fn wrap(text: &mut String, margin: &str, words: &str) {
    let mut line = margin.to_owned();
    // A space that does not break is no white space here.
    for word in words.split([' ', '\n']).filter(|it| !it.is_empty()) {
        let length = line.chars().count() + 1 + word.chars().count();
        if length > WIDTH && line.len() > margin.len() {
            let _ = writeln!(text, "{}", line.trim_end());
            margin.clone_into(&mut line);
        }
        line.push_str(word);
        line.push(' ');
    }
    if line.len() > margin.len() {
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

fn grid(text: &mut String, map: &Map) {
    let _ = writeln!(
        text,
        "{}: who costs least, ns of CPU a timeout",
        map.form.title()
    );
    for (pending, cells) in &map.rows {
        let _ = write!(text, "  {:>7}", count(*pending));
        for cell in cells {
            let tie = if cell.ties.is_empty() { ' ' } else { '~' };
            let number = format!("{} {}{tie}", cell.best.mark(), significant(cell.cost));
            let late = cell.late.map_or(String::new(), |late| {
                format!("{}{}", late.who.mark(), factor(late.factor))
            });
            let _ = write!(text, "  {number:<8}{late:<6}");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    let _ = write!(text, "  {:>7}", "pending");
    for column in &map.columns {
        let _ = write!(text, "  {:<14}", turns(*column));
    }
    text.truncate(text.trim_end().len());
    text.push_str("  delay ÷ turn\n");
    let names: Vec<String> = map
        .shown()
        .into_iter()
        .map(|who| format!("{} {}", who.mark(), who.name()))
        .collect();
    let mut legend = names.join("   ");
    if map.has_ties() {
        legend.push_str("   ~ others cost as little, within the noise");
    }
    if map.has_late() {
        let mark = Contestant::Kernel.mark();
        let _ = write!(legend, "   {mark}{}", map.late_in_words());
    }
    wrap(text, "  ", &legend);
}

fn figures(text: &mut String, headlines: &[Headline]) {
    for Headline {
        title,
        unit,
        load,
        values,
        note,
    } in headlines
    {
        let _ = writeln!(text, "{title}, {unit} ({load})");
        let all: Vec<String> = values
            .iter()
            .map(|(who, value)| format!("{} {}", who.label(), significant(*value)))
            .collect();
        wrap(text, "  ", &all.join(" · "));
        wrap(text, "  ", note);
    }
}

/// Tables, sentences and crossings.
pub(crate) fn details(report: &Report) -> String {
    let mut text = String::from("\n== Found ==\n\n");
    wrap(&mut text, "", &report.summary);
    for Section {
        level,
        title,
        sheets,
        ..
    } in &report.sections
    {
        if *level == 2 {
            let _ = writeln!(text, "\n== {title} ==");
        }
        for sheet in sheets {
            let _ = writeln!(text, "\n{}", sheet.text().trim_end());
        }
    }
    if !report.crossings.is_empty() {
        text.push_str("\n== Where the lines cross ==\n\n");
    }
    for Found {
        title,
        axis,
        crossing,
    } in &report.crossings
    {
        let told = telling::crossing(crossing, *axis);
        wrap(&mut text, "", &format!("- {title}: {told}"));
    }
    text.replace('`', "")
}
