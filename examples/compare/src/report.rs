//! `report.html`: one page that needs nothing else, with the plots inside. The answer stands on the first
//! screen; all the rest is folded below it.

use crate::contestant::Contestant;
use crate::sections::{Picture, Section};
use crate::sheet::{Sheet, Value, spread};
use crate::words::significant;
use std::fmt::Write as _;

/// All that the page is made of.
#[derive(Debug)]
pub(crate) struct Report {
    /// The figures of the published loads.
    pub(crate) answer: figures::sheet::Sheet,
    /// What has to be known about how this run was made.
    pub(crate) remarks: Vec<String>,
    pub(crate) sections: Vec<Section>,
}

const STYLE: &str = include_str!("report.css");

const METHOD: &str = "Every run is a process of its own. The plan is gone through in rounds, the contestants taking turns in each case, \
each round beginning with another one; figures are medians over the rounds, with the least and the most. On a manual clock \
(counted, swept) one thread does everything, so work is counted exactly, and its CPU time is the whole cost of a timeout: \
scheduling, queue, wheel, and firing or cancelling, with what the clock itself takes for each boundary visited. A real wake-up, with a thread \
that was asleep, costs a good deal more than a boundary on a manual clock: see the wake-ups.";

impl Report {
    pub(crate) fn html(&self) -> String {
        let mut page = String::new();
        let _ = write!(
            page,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\">\
             <title>Which wheel for my load?</title><style>{STYLE}</style></head><body>\n\
             <h1>Which wheel for my load?</h1>\n"
        );
        self.first_screen(&mut page);
        for chapter in self.sections.chunk_by(|_, next| next.level != 2) {
            let mut inside = String::new();
            let (head, parts) = chapter.split_at(1);
            let _ = writeln!(inside, "<p>{}</p>", marked(&head[0].about));
            for section in parts {
                part(&mut inside, section);
            }
            folded(&mut page, &head[0].title, &inside);
        }
        let mut inside = format!("<p>{METHOD}</p>\n<table class=\"facts\">");
        for contestant in Contestant::ALL {
            let (name, what) = (contestant.name(), contestant.what());
            let _ = writeln!(
                inside,
                "<tr><th><code>{name}</code></th><td>{what}</td></tr>"
            );
        }
        inside.push_str("</table>\n");
        let title = "Who took part, and how the figures were taken";
        folded(&mut page, title, &inside);
        page.push_str("</body></html>\n");
        page
    }

    /// What the README has too.
    fn first_screen(&self, page: &mut String) {
        let sentences = figures::compare::sentences(&self.answer);
        let _ = writeln!(page, "<p>{}</p>", marked(&sentences));
        if let Some(svg) = figures::plot::comparison(&self.answer) {
            let _ = writeln!(page, "<figure>{svg}</figure>");
        }
        page.push_str(
            "<table class=\"choices\"><tr><th>load</th><th>take</th>\
             <th>CPU time, hierarchical ÷ hashed</th></tr>\n",
        );
        for [load, take, ratio] in figures::compare::rows(&self.answer) {
            let take = marked(&take);
            let _ = writeln!(
                page,
                "<tr><th>{load}</th><td>{take}</td><td>{ratio}</td></tr>"
            );
        }
        page.push_str("</table>\n");
        let remarks = marked(&self.remarks.join(" "));
        let _ = writeln!(page, "<p class=\"terms\">{remarks}</p>");
    }
}

fn folded(page: &mut String, title: &str, inside: &str) {
    let title = escaped(title);
    let _ = writeln!(
        page,
        "<details><summary><h2>{title}</h2></summary>\n{inside}</details>"
    );
}

fn part(page: &mut String, section: &Section) {
    let _ = writeln!(page, "<h3>{}</h3>", escaped(&section.title));
    let _ = writeln!(page, "<p>{}</p>", marked(&section.about));
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
        "<div class=\"wide\"><table><caption>{caption}</caption><tr><th>{head}</th>"
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
    page.push_str("</table></div>\n");
}

fn cell(value: Option<&Value>) -> String {
    let Some(value) = value else {
        return "–".to_owned();
    };
    let mut text = significant(value.y.median);
    if spread(&value.y).is_some() {
        let (least, most) = (significant(value.y.least), significant(value.y.most));
        let _ = write!(text, " <small>{least}–{most}</small>");
    }
    if let Some(late) = value.late_text() {
        let _ = write!(text, " <small>{late}</small>");
    }
    text
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
