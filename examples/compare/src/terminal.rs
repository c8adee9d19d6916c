//! What is printed: the answer, and with `--details` all tables.

use crate::report::Report;
use crate::sections::Section;
use figures::compare;
use figures::sheet::Sheet;
use std::fmt::Write as _;

const WIDTH: usize = 96;

/// The answer, and what it belongs to.
pub(crate) fn answer(report: &Report) -> String {
    let mut text = words(&report.answer);
    for remark in &report.remarks {
        wrap(&mut text, remark);
    }
    text
}

/// The three sentences and the table of the README.
pub(crate) fn words(answer: &Sheet) -> String {
    let mut text = String::from("WHICH WHEEL FOR MY LOAD?\n\n");
    wrap(&mut text, &compare::sentences(answer));
    text.push('\n');
    for [load, take, ratio] in compare::rows(answer) {
        let _ = writeln!(text, "  {load:52} {take:24} {ratio:>14}");
    }
    text.push_str("  (CPU time: hierarchical over hashed)\n\n");
    text.replace('`', "")
}

/// Lines of at most so many characters.
fn wrap(text: &mut String, words: &str) {
    let mut length = 0;
    // A space that does not break is no white space here.
    for word in words.split([' ', '\n']).filter(|it| !it.is_empty()) {
        let more = 1 + word.chars().count();
        if length > 0 {
            text.push(if length + more > WIDTH { '\n' } else { ' ' });
        }
        length = if length + more > WIDTH {
            more
        } else {
            length + more
        };
        text.push_str(word);
    }
    text.push('\n');
}

/// All tables.
pub(crate) fn details(report: &Report) -> String {
    let mut text = String::new();
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
    text
}
