//! The figures in `README.md`: what stands between two marks is written anew from a run, the rest stays.

use crate::answer::{Answer, HEAD, TERMS};
use crate::contestant::Contestant;
use crate::figures::{Picture, Section};
use crate::headline::Headline;
use crate::report::Report;
use crate::sheet::{Sheet, short_text};
use crate::words::significant;
use std::fmt::Write as _;

/// The parts that are written, by their names.
const PARTS: [&str; 2] = ["answer", "details"];

/// Whether all marks are there: asked before the run, so that its figures are not lost.
pub(crate) fn check(readme: &str) -> Result<(), String> {
    PARTS
        .iter()
        .try_for_each(|part| span(readme, part).map(drop))
}

/// The README with the figures of this report.
pub(crate) fn filled(readme: &str, report: &Report) -> Result<String, String> {
    let mut text = readme.to_owned();
    for (part, written) in PARTS.iter().zip([answer(report), details(report)]) {
        let (from, to) = span(&text, part)?;
        text.replace_range(from..to, &format!("\n\n{}\n\n", written.trim()));
    }
    Ok(text)
}

/// The plots that the README shows: of a plot and its close-up, the close-up; of times, CPU time.
pub(crate) fn shown(section: &Section) -> impl Iterator<Item = &Picture> {
    let close = |name: &str| {
        let near = format!("{name}-close");
        section.pictures.iter().any(|it| it.name == near)
    };
    let pictures = section.pictures.iter();
    pictures.filter(move |it| !close(&it.name) && !it.name.ends_with("wall-ns"))
}

/// Where a part stands, without its marks.
fn span(readme: &str, part: &str) -> Result<(usize, usize), String> {
    let [begin, end] = ["begin", "end"].map(|edge| format!("<!-- {part}: {edge} -->"));
    let find = |mark: &str| {
        let found = readme.find(mark);
        found.ok_or_else(|| format!("it has no line `{mark}`"))
    };
    let (from, to) = (find(&begin)? + begin.len(), find(&end)?);
    if from > to {
        return Err(format!("`{end}` stands before `{begin}`"));
    }
    Ok((from, to))
}

fn answer(report: &Report) -> String {
    let Answer {
        choices,
        maps,
        headlines,
    } = &report.answer;
    let mut text = String::new();
    let _ = writeln!(text, "| {} |\n|---|---|---|---|", HEAD.join(" | "));
    for choice in choices {
        let take = choice.take.in_words();
        let (load, because, by) = (&choice.load, &choice.because, &choice.by);
        let _ = writeln!(text, "| {load} | **{take}** | {because} | {by} |");
    }
    let _ = writeln!(text, "\n{TERMS}\n");
    for map in maps {
        let (name, words) = (map.form.name(), map.in_words());
        let _ = writeln!(
            text,
            "<img src=\"plots/map-{name}.svg\" width=\"49%\" alt=\"{words}\">"
        );
    }
    text.push('\n');
    figures(&mut text, headlines);
    let remarks = report.remarks.join(" ");
    let _ = writeln!(
        text,
        "\nOf one run on {}: {}; `{}`. {remarks}",
        report.machine.date,
        report.machine.line(),
        report.machine.command
    );
    text
}

fn figures(text: &mut String, headlines: &[Headline]) {
    let timers = Contestant::TIMERS;
    let took_part = |who: &Contestant| {
        let mut all = headlines.iter().flat_map(|it| &it.values);
        all.any(|(it, _)| it == who)
    };
    let columns: Vec<Contestant> = timers.into_iter().filter(took_part).collect();
    let names: Vec<_> = columns.iter().map(|it| it.label()).collect();
    let _ = writeln!(text, "| | {} |", names.join(" | "));
    let _ = writeln!(text, "|---|{}", "--:|".repeat(columns.len()));
    for headline in headlines {
        let of = |who: &Contestant| {
            let found = headline.values.iter().find(|(it, _)| it == who);
            found.map_or("–".to_owned(), |(_, value)| significant(*value))
        };
        let cells: Vec<String> = columns.iter().map(of).collect();
        let Headline {
            title, unit, load, ..
        } = headline;
        let _ = writeln!(
            text,
            "| **{title}**: {unit} ({load}) | {} |",
            cells.join(" | ")
        );
    }
    let notes: Vec<&str> = headlines.iter().map(|it| it.note.as_str()).collect();
    let _ = writeln!(text, "\n{}", notes.join(" "));
}

fn details(report: &Report) -> String {
    let mut text = String::new();
    folded(&mut text, "In words", &format!("{}\n", report.summary));
    for section in report.sections.iter().filter(|it| it.level == 3) {
        let mut inside = String::new();
        for words in [&section.about, &section.found] {
            if !words.is_empty() {
                let _ = writeln!(inside, "{words}\n");
            }
        }
        for picture in shown(section) {
            let _ = writeln!(inside, "![{}](plots/{}.svg)\n", section.title, picture.name);
        }
        for sheet in &section.sheets {
            table(&mut inside, sheet);
        }
        folded(&mut text, &section.title, &inside);
    }
    text
}

fn folded(text: &mut String, title: &str, inside: &str) {
    let inside = inside.trim_end();
    let _ = writeln!(
        text,
        "<details><summary>{title}</summary>\n\n{inside}\n\n</details>\n"
    );
}

fn table(text: &mut String, sheet: &Sheet) {
    let names: Vec<_> = sheet.columns.iter().map(|it| it.name()).collect();
    let _ = writeln!(text, "{}:\n", sheet.caption);
    let _ = writeln!(text, "| {} | {} |", sheet.head, names.join(" | "));
    let _ = writeln!(text, "|---|{}", "--:|".repeat(names.len()));
    for (label, row) in &sheet.rows {
        let cells: Vec<String> = row
            .iter()
            .map(|cell| cell.as_ref().map_or("–".to_owned(), short_text))
            .collect();
        let _ = writeln!(text, "| {label} | {} |", cells.join(" | "));
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::{check, span};

    const README: &str = "# A\n<!-- answer: begin -->\nold\n<!-- answer: end -->\nstays\n\
        <!-- details: begin -->\n<!-- details: end -->\n";

    #[test]
    fn only_what_stands_between_the_marks_is_written() {
        assert_eq!(check(README), Ok(()));
        let (from, to) = span(README, "answer").unwrap();
        assert_eq!(&README[from..to], "\nold\n");
    }

    #[test]
    fn a_file_without_marks_is_refused_and_the_mark_is_named() {
        let wrong = check("# A").unwrap_err();
        assert!(wrong.contains("<!-- answer: begin -->"), "{wrong}");
        let turned = README
            .replace("begin", "x")
            .replace("end", "begin")
            .replace('x', "end");
        assert!(check(&turned).unwrap_err().contains("stands before"));
    }
}
