//! `report.html`: one page that needs nothing else, with the plots inside.

use crate::contestant::Contestant;
use crate::figures::{Found, Picture, Section};
use crate::machine::Machine;
use crate::results::Summary;
use crate::sheet::{Sheet, spread};
use crate::words::significant;
use std::fmt::Write as _;

/// All that the page is made of.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) summary: String,
    pub(crate) machine: &'a Machine,
    /// What has to be known about how this run was made.
    pub(crate) remarks: Vec<String>,
    pub(crate) crossings: Vec<Found>,
    pub(crate) sections: Vec<Section>,
}

const STYLE: &str = include_str!("report.css");

const METHOD: &str = "Every run is a process of its own. The plan is gone through in rounds, the contestants taking turns in each case, \
each round beginning with another one; figures are medians over the rounds, with the least and the most. On a manual clock \
(counted, swept) one thread does everything, so work is counted exactly, and its CPU time is the whole cost of a timeout: \
scheduling, queue, wheel, and firing or cancelling, with what the clock itself takes for each boundary visited. A real wake-up, with a thread \
that was asleep, costs a good deal more than a boundary on a manual clock: see the wake-ups. One line counts as below another where it \
is so by more than 5 % with quartiles that do not overlap; lines cross where that changes sides, and the place is interpolated \
between the medians on logarithmic axes.";

impl Report<'_> {
    pub(crate) fn html(&self) -> String {
        let mut page = String::new();
        let _ = write!(
            page,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\">\
             <title>Which wheel for my load?</title><style>{STYLE}</style></head><body>\n\
             <h1>Which wheel for my load?</h1>\n"
        );
        for remark in &self.remarks {
            let _ = writeln!(page, "<p class=\"remark\">{}</p>", marked(remark));
        }
        let _ = writeln!(page, "<p class=\"summary\">{}</p>", marked(&self.summary));
        self.facts(&mut page);
        for section in &self.sections {
            part(&mut page, section);
        }
        self.where_lines_cross(&mut page);
        let _ = writeln!(page, "<h2>How the figures were taken</h2>\n<p>{METHOD}</p>");
        page.push_str("</body></html>\n");
        page
    }

    fn facts(&self, page: &mut String) {
        let _ = writeln!(
            page,
            "<table class=\"facts\"><tr><th>machine</th><td>{}, {} cores, {}</td></tr>\
             <tr><th>built with</th><td>{}, hashed-wheel {}</td></tr>\
             <tr><th>command</th><td><code>{}</code></td></tr>",
            escaped(&self.machine.processor),
            self.machine.cores,
            escaped(&self.machine.kernel),
            escaped(&self.machine.compiler),
            self.machine.version,
            escaped(&self.machine.command)
        );
        for contestant in Contestant::ALL {
            let (name, what) = (contestant.name(), contestant.what());
            let _ = writeln!(page, "<tr><th><code>{name}</code></th><td>{what}</td></tr>");
        }
        page.push_str("</table>\n");
    }

    fn where_lines_cross(&self, page: &mut String) {
        if self.crossings.is_empty() {
            return;
        }
        page.push_str(
            "<h2>Where the lines cross</h2>\n<table class=\"crossings\"><tr><th>sweep</th>\
             <th>from here on</th><th>costs less than</th><th>at about</th><th>in doubt between</th></tr>\n",
        );
        for Found {
            title,
            axis,
            crossing,
        } in &self.crossings
        {
            let (after, before) = (crossing.after.name(), crossing.before.name());
            let (left, right) = crossing.between;
            let _ = writeln!(
                page,
                "<tr><th>{title}</th><td>{after}</td><td>{before}</td><td>{}</td><td>{} and {}</td></tr>",
                axis.in_words(crossing.at),
                axis.place(left),
                axis.place(right)
            );
        }
        page.push_str("</table>\n");
    }
}

fn part(page: &mut String, section: &Section) {
    if section.level == 2 {
        let _ = writeln!(page, "<h2>{}</h2>", escaped(&section.title));
    } else {
        let _ = writeln!(page, "<h3>{}</h3>", escaped(&section.title));
    }
    for text in [&section.about, &section.found] {
        if !text.is_empty() {
            let _ = writeln!(page, "<p>{}</p>", marked(text));
        }
    }
    for Picture { svg, .. } in &section.pictures {
        let _ = writeln!(page, "<figure>{svg}</figure>");
    }
    for sheet in &section.sheets {
        table(page, sheet);
    }
}

fn table(page: &mut String, sheet: &Sheet) {
    let caption = escaped(&sheet.caption);
    let head = sheet.head;
    let _ = write!(
        page,
        "<table><caption>{caption}</caption><tr><th>{head}</th>"
    );
    for contestant in &sheet.columns {
        let _ = write!(page, "<th>{}</th>", contestant.name());
    }
    page.push_str("</tr>\n");
    for (label, row) in &sheet.rows {
        let _ = write!(page, "<tr><th>{}</th>", escaped(label));
        for y in row {
            let _ = write!(page, "<td>{}</td>", cell(y.as_ref()));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
}

fn cell(y: Option<&Summary>) -> String {
    let Some(y) = y else { return "–".to_owned() };
    let median = significant(y.median);
    if spread(y).is_none() {
        return median;
    }
    let (least, most) = (significant(y.least), significant(y.most));
    format!("{median} <small>{least}–{most}</small>")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Names in backticks become code.
fn marked(text: &str) -> String {
    let mut marked = String::new();
    for (place, piece) in escaped(text).split('`').enumerate() {
        if place % 2 == 1 {
            let _ = write!(marked, "<code>{piece}</code>");
        } else {
            marked.push_str(piece);
        }
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::marked;

    #[test]
    fn names_become_code_and_nothing_becomes_markup() {
        assert_eq!(
            marked("`heap` < `btree`"),
            "<code>heap</code> &lt; <code>btree</code>"
        );
    }
}
