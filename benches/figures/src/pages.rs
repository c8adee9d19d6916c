//! The pages: what stands in them between marks is made from the file of figures.
//!
//! ```text
//! <!-- figures: NAME -->
//! a block of `blocks`
//! <!-- end -->
//!
//! In a sentence: <!-- figure: churn-1k-1p hashed wall_ns -->26 ns<!-- end -->.
//! ```
//!
//! Outside of marks a page names no number of nanoseconds, unless in code font: what was measured has one source.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sheet::{Sheet, number};
use crate::{blocks, in_repository, plot};

/// The pages with marks, beside all that lie in `src/docs`.
const PAGES: [&str; 4] = [
    "README.md",
    "CONTRIBUTING.md",
    "benches/README.md",
    "examples/compare/README.md",
];
const DOCS: &str = "src/docs";
/// The plots of the performance page, and the picture of the comparison.
const PLOTS: &str = "src/docs/performance";
const COMPARE_PLOT: &str = "examples/compare/compare.svg";

const BEGIN_BLOCK: &str = "<!-- figures: ";
const BEGIN_FIGURE: &str = "<!-- figure: ";
const END: &str = "<!-- end -->";

/// All pages, by their names in the repository.
fn pages() -> Result<Vec<PathBuf>, String> {
    let mut pages: Vec<PathBuf> = PAGES.iter().map(PathBuf::from).collect();
    let mut folders = vec![PathBuf::from(DOCS)];
    while let Some(folder) = folders.pop() {
        let path = in_repository(&folder.to_string_lossy());
        let entries =
            fs::read_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        for entry in entries.flatten() {
            let name = folder.join(entry.file_name());
            if entry.path().is_dir() {
                folders.push(name);
            } else if name.extension().is_some_and(|it| it == "md") {
                pages.push(name);
            }
        }
    }
    pages.sort();
    Ok(pages)
}

/// Everything that is made from the sheet: name of the file, and its text.
fn made(sheet: &Sheet) -> Result<Vec<(PathBuf, String)>, String> {
    let mut files = Vec::new();
    for page in pages()? {
        let text = read(&page)?;
        let filled = fill(&text, sheet).map_err(|error| format!("{}: {error}", page.display()))?;
        files.push((page, filled));
    }
    for plot in plot::all(sheet) {
        files.push((Path::new(PLOTS).join(plot.name), plot.svg));
    }
    if let Some(svg) = plot::comparison(sheet) {
        files.push((PathBuf::from(COMPARE_PLOT), svg));
    }
    Ok(files)
}

fn read(page: &Path) -> Result<String, String> {
    let path = in_repository(&page.to_string_lossy());
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", page.display()))
}

/// Fills the pages and draws the plots.
pub fn write(sheet: &Sheet) -> Result<(), String> {
    // As the file has it: rounded.
    let sheet = &Sheet::parse(&sheet.to_text())?;
    for (name, text) in made(sheet)? {
        if read(&name).ok().as_deref() != Some(&text) {
            let path = in_repository(&name.to_string_lossy());
            fs::write(&path, text).map_err(|error| format!("{}: {error}", name.display()))?;
            println!("{} is written.", name.display());
        }
    }
    Ok(())
}

/// What in the pages and plots is not of the sheet: one line each.
pub fn check(sheet: &Sheet) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    for (name, text) in made(sheet)? {
        let old = read(&name).unwrap_or_default();
        if old != text {
            let line = old
                .lines()
                .zip(text.lines())
                .position(|(old, new)| old != new);
            let line = line.map_or(String::new(), |line| format!(":{}", line + 1));
            let name = name.display();
            wrong.push(format!(
                "{name}{line}: not what {} says; run cargo run -p figures -- --write",
                crate::FILE
            ));
        }
    }
    for page in pages()? {
        for (line, figure) in figures_outside(&read(&page)?) {
            let page = page.display();
            wrong.push(format!("{page}:{line}: `{figure}` stands outside of marks; if it is a setting, use code font"));
        }
    }
    Ok(wrong)
}

/// The text with everything between marks made anew.
fn fill(text: &str, sheet: &Sheet) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(begin) = rest.find("<!-- figure") {
        filled.push_str(&rest[..begin]);
        rest = &rest[begin..];
        let line = || text[..text.len() - rest.len()].lines().count().max(1);
        let close = rest
            .find(" -->")
            .ok_or_else(|| format!("line {}: a mark does not end", line()))?;
        let (mark, behind) = rest.split_at(close + 4);
        let end = behind
            .find(END)
            .ok_or_else(|| format!("line {}: no `{END}` after `{mark}`", line()))?;
        let made = if let Some(name) = mark.strip_prefix(BEGIN_BLOCK) {
            let name = name.trim_end_matches(" -->");
            let block = blocks::block(name, sheet);
            let block = block.ok_or_else(|| {
                format!(
                    "line {}: there is no block `{name}`: {}",
                    line(),
                    blocks::NAMES.join(", ")
                )
            })?;
            format!("\n\n{}\n\n", block.trim_end())
        } else {
            let name = mark
                .strip_prefix(BEGIN_FIGURE)
                .map(|it| it.trim_end_matches(" -->"));
            let name = name.ok_or_else(|| format!("line {}: `{mark}` is no mark", line()))?;
            inline(name, sheet)
                .ok_or_else(|| format!("line {}: there is no figure `{name}`", line()))?
        };
        filled.push_str(mark);
        filled.push_str(&made);
        filled.push_str(END);
        rest = &behind[end + END.len()..];
    }
    filled.push_str(rest);
    Ok(filled)
}

/// One figure with its unit.
fn inline(name: &str, sheet: &Sheet) -> Option<String> {
    let [row, contestant, metric] = name.split_whitespace().collect::<Vec<_>>()[..] else {
        return None;
    };
    let value = sheet.median(row, contestant, metric)?;
    let unit = match metric {
        it if it.contains(':') || it.ends_with("_ratio") => "",
        it if it.ends_with("_ns") => " ns",
        it if it.ends_with("_us") => " µs",
        it if it.ends_with("_percent") => " %",
        it if it.ends_with("_mb") => " MB",
        it if it.starts_with("bytes") => " bytes",
        _ => "",
    };
    let value = if value >= 9.95 {
        format!("{value:.0}")
    } else {
        number(value)
    };
    Some(format!("{value}{unit}"))
}

/// Numbers of nanoseconds outside of marks and of code, with their lines.
fn figures_outside(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut in_code, mut in_marks) = (false, false);
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        let mut kept = String::new();
        // A figure in a sentence begins and ends on its line.
        for (place, part) in line.split(BEGIN_FIGURE).enumerate() {
            kept.push_str(if place == 0 {
                part
            } else {
                part.split_once(END).map_or("", |(_, rest)| rest)
            });
        }
        in_marks |= line.contains(BEGIN_BLOCK);
        if !in_code && !in_marks {
            let plain: String = kept.split('`').step_by(2).collect::<Vec<_>>().join("`");
            found.extend(nanoseconds(&plain).map(|figure| (number + 1, figure)));
        }
        in_marks &= !kept.contains(END);
    }
    found
}

/// Each number that is followed by `ns`.
fn nanoseconds(text: &str) -> impl Iterator<Item = String> {
    let words: Vec<&str> = text
        .split(|it: char| it.is_whitespace() || it == '\u{a0}')
        .collect();
    // Not such as 2<sup>64</sup>, which is a bound.
    let is_number = |word: &str| {
        !word.is_empty()
            && word
                .chars()
                .all(|it| it.is_ascii_digit() || ".,–-/".contains(it))
    };
    let is_unit = |word: &str| word.trim_end_matches(|it: char| !it.is_alphanumeric()) == "ns";
    let found: Vec<String> = words
        .windows(2)
        .filter(|pair| {
            is_number(pair[0].trim_start_matches(|it: char| !it.is_alphanumeric()))
                && is_unit(pair[1])
        })
        .map(|pair| pair.join(" "))
        .collect();
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::{check, figures_outside, fill};
    use crate::sheet::{Figure, Sheet};

    #[test]
    fn the_pages_say_what_the_file_of_figures_says() {
        let wrong = Sheet::published().and_then(|sheet| check(&sheet)).unwrap();
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    }

    fn sheet() -> Sheet {
        let mut sheet = Sheet::default();
        sheet.set_head("machine", "a machine");
        let figure = Figure::of("churn-1k-1p", "hashed", "wall_ns", &[26.4]);
        sheet.replace(|_| true, figure.into_iter().collect());
        sheet
    }

    #[test]
    fn what_stands_between_marks_is_made_anew() {
        let page = "a <!-- figure: churn-1k-1p hashed wall_ns -->99 ns<!-- end --> b\n<!-- figures: conditions -->\nold\n<!-- end -->\nc\n";
        let filled = fill(page, &sheet()).unwrap();
        assert!(
            filled
                .starts_with("a <!-- figure: churn-1k-1p hashed wall_ns -->26 ns<!-- end --> b\n"),
            "{filled}"
        );
        assert!(
            filled.contains("a machine") && !filled.contains("old"),
            "{filled}"
        );
        assert!(filled.ends_with("<!-- end -->\nc\n"));
        assert_eq!(fill(&filled, &sheet()).unwrap(), filled);
    }

    #[test]
    fn a_mark_that_cannot_be_filled_is_named_with_its_line() {
        let wrong = |page: &str| fill(page, &sheet()).unwrap_err();
        assert!(
            wrong("a\n\n<!-- figures: nothing -->\n<!-- end -->").contains("no block `nothing`")
        );
        assert!(
            wrong("<!-- figure: churn-1k-1p netty wall_ns -->1<!-- end -->")
                .contains("no figure `churn-1k-1p netty wall_ns`")
        );
        assert!(wrong("<!-- figures: conditions -->\n").contains("no `<!-- end -->`"));
    }

    #[test]
    fn a_figure_outside_of_marks_is_found() {
        let found = |page: &str| {
            figures_outside(page)
                .into_iter()
                .map(|(line, _)| line)
                .collect::<Vec<_>>()
        };
        assert_eq!(found("fine\nA pair takes 26 ns, or (31 ns).\n"), [2, 2]);
        assert_eq!(
            found("at least `1 ns`, in turns of 10 ms\n```\n5 ns\n```\n"),
            []
        );
        assert_eq!(
            found("<!-- figures: summary -->\n26 ns\n<!-- end -->\n26 ns\n"),
            [4]
        );
        assert_eq!(
            found("It is <!-- figure: a b c -->26 ns<!-- end --> here, 27 ns there"),
            [1]
        );
    }
}
