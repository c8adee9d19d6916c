//! `report.html`: one page that needs nothing else, with the plots inside. The answer stands on the first
//! screen; all the rest is folded below it.

use crate::answer::{Answer, HEAD, TERMS};
use crate::contestant::Contestant;
use crate::decision::{Choice, Take};
use crate::figures::{Found, Picture, Section};
use crate::headline::Headline;
use crate::machine::Machine;
use crate::plot::{css, grid};
use crate::sheet::{Sheet, Value, spread};
use crate::words::significant;
use std::fmt::Write as _;

/// All that the page is made of.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) answer: Answer,
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
is so by more than 5 % with quartiles that do not overlap (by more than 20 % if there were fewer than three runs); lines cross where that changes \
sides, and the place is interpolated between the medians on logarithmic axes. Where it can be told no better than to a factor of ten, it is not told. \
Lateness is the time from a timeout's deadline to its task, in percent of its delay: for all designs but the kernel's it is the rounding to a tick, and not shown beside the cost.";

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
        self.first_screen(&mut page);
        let summary = format!("<p>{}</p>\n", marked(&self.summary));
        folded(&mut page, "In words", &summary);
        for chapter in self.sections.chunk_by(|_, next| next.level != 2) {
            let mut inside = String::new();
            let (head, parts) = chapter.split_at(1);
            let _ = writeln!(inside, "<p>{}</p>", marked(&head[0].about));
            for section in parts {
                part(&mut inside, section);
            }
            folded(&mut page, &head[0].title, &inside);
        }
        self.where_lines_cross(&mut page);
        let mut inside = format!("<p>{METHOD}</p>\n");
        self.facts(&mut inside);
        folded(
            &mut page,
            "Who took part, and how the figures were taken",
            &inside,
        );
        page.push_str("</body></html>\n");
        page
    }

    fn first_screen(&self, page: &mut String) {
        let Answer {
            choices,
            maps,
            headlines,
        } = &self.answer;
        if !choices.is_empty() {
            table_of_choices(page, choices);
            let _ = writeln!(page, "<p class=\"terms\">{TERMS}</p>");
        }
        if !maps.is_empty() {
            page.push_str("<div class=\"maps\">\n");
            for map in maps {
                let _ = writeln!(page, "<figure>{}</figure>", grid(map));
            }
            page.push_str("</div>\n");
        }
        if !headlines.is_empty() {
            page.push_str("<div class=\"cards\">\n");
            for headline in headlines {
                card(page, headline);
            }
            page.push_str("</div>\n");
        }
        let _ = writeln!(
            page,
            "<p class=\"terms\">{}, {}. {}</p>",
            escaped(&self.machine.date),
            escaped(&self.machine.line()),
            marked(&self.remarks.join(" "))
        );
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
            escaped(&self.machine.version),
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
        let mut inside = String::from(
            "<table class=\"crossings\"><tr><th>sweep</th><th>from here on</th>\
             <th>costs less than</th><th>at about</th><th>clear from</th></tr>\n",
        );
        for Found {
            title,
            axis,
            crossing,
        } in &self.crossings
        {
            let _ = writeln!(
                inside,
                "<tr><th>{title}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                crossing.after.label(),
                crossing.before.label(),
                axis.in_words(crossing.at),
                axis.place(crossing.between.1)
            );
        }
        inside.push_str("</table>\n");
        folded(page, "Where the lines cross", &inside);
    }
}

fn folded(page: &mut String, title: &str, inside: &str) {
    let title = escaped(title);
    let _ = writeln!(
        page,
        "<details><summary><h2>{title}</h2></summary>\n{inside}</details>"
    );
}

fn table_of_choices(page: &mut String, choices: &[Choice]) {
    page.push_str("<table class=\"choices\"><thead><tr>");
    for head in HEAD {
        let _ = write!(page, "<th scope=\"col\">{head}</th>");
    }
    page.push_str("</tr></thead>\n");
    for choice in choices {
        let colour = match choice.take {
            Take::One(who) => css(who),
            Take::Either => "var(--rule)".to_owned(),
        };
        let _ = writeln!(
            page,
            "<tr><th scope=\"row\">{}</th><td class=\"take\" style=\"--c:{colour}\">{}</td>\
             <td data-head=\"{}\">{}</td><td data-head=\"{}\">{}</td></tr>",
            marked(&choice.load),
            escaped(&choice.take.in_words().replace('`', "")),
            HEAD[2],
            marked(&choice.because),
            HEAD[3],
            marked(&choice.by)
        );
    }
    page.push_str("</table>\n");
}

/// One of the three figures, with a bar for each contestant.
fn card(page: &mut String, headline: &Headline) {
    let _ = writeln!(
        page,
        "<section class=\"card\"><h2>{}</h2><p>{} <small>{}</small></p>\n<table>",
        headline.title,
        headline.unit,
        escaped(&headline.load)
    );
    let most = headline.values.iter().map(|(_, value)| *value);
    let most = most.max_by(f64::total_cmp).unwrap_or(0.0).max(1e-9);
    for (who, value) in &headline.values {
        let _ = writeln!(
            page,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"bar\" aria-hidden=\"true\">\
             <i style=\"--c:{};--w:{:.1}%\"></i></td></tr>",
            who.label(),
            significant(*value),
            css(*who),
            100.0 * value / most
        );
    }
    let _ = writeln!(
        page,
        "</table>\n<p class=\"note\">{}</p></section>",
        marked(&headline.note)
    );
}

fn part(page: &mut String, section: &Section) {
    let _ = writeln!(page, "<h3>{}</h3>", escaped(&section.title));
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
