//! The file: a head with what the figures belong to, then one line for each figure.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// What several runs say about one figure of one contestant.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    pub row: String,
    pub contestant: String,
    pub metric: String,
    pub runs: usize,
    /// Runs that came to nothing.
    pub failed: usize,
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Figure {
    /// Sums up the values of all runs; `None` if there is no value.
    pub fn of(row: &str, contestant: &str, metric: &str, values: &[f64]) -> Option<Self> {
        let mut values = values.to_vec();
        values.sort_unstable_by(f64::total_cmp);
        Some(Self {
            row: row.to_owned(),
            contestant: contestant.to_owned(),
            metric: metric.to_owned(),
            runs: values.len(),
            failed: 0,
            median: f64::midpoint(
                *values.get((values.len().checked_sub(1)?) / 2)?,
                values[values.len() / 2],
            ),
            min: *values.first()?,
            max: *values.last()?,
        })
    }
}

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sheet {
    /// `machine`, `versions`, and a line for each program that has written figures.
    head: Vec<(String, String)>,
    figures: Vec<Figure>,
}

const COLUMNS: &str = "row,contestant,metric,runs,failed,median,min,max";

impl Sheet {
    pub fn read(path: &Path) -> Result<Self, String> {
        let text =
            fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The file of the repository; an empty sheet if there is none.
    pub fn published() -> Result<Self, String> {
        let path = crate::in_repository(crate::FILE);
        if path.exists() {
            Self::read(&path)
        } else {
            Ok(Self::default())
        }
    }

    pub fn write(&self, path: &Path) -> Result<(), String> {
        fs::write(path, self.to_text()).map_err(|error| format!("{}: {error}", path.display()))
    }

    pub fn parse(text: &str) -> Result<Self, String> {
        let mut sheet = Self::default();
        for (number, line) in text.lines().enumerate() {
            if let Some(head) = line.strip_prefix("# ") {
                let pair = head.split_once(": ");
                let (name, value) =
                    pair.ok_or_else(|| format!("line {} is no `# name: value`", number + 1))?;
                sheet.set_head(name, value);
            } else if line != COLUMNS {
                let figure = parse_line(line);
                sheet.figures.push(
                    figure.ok_or_else(|| format!("line {} is no figure: `{line}`", number + 1))?,
                );
            }
        }
        Ok(sheet)
    }

    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.head {
            let _ = writeln!(text, "# {name}: {value}");
        }
        let _ = writeln!(text, "{COLUMNS}");
        for it in &self.figures {
            let [median, min, max] = [it.median, it.min, it.max].map(short);
            let _ = writeln!(
                text,
                "{},{},{},{},{},{median},{min},{max}",
                it.row, it.contestant, it.metric, it.runs, it.failed
            );
        }
        text
    }

    pub fn head(&self, name: &str) -> Option<&str> {
        let found = self.head.iter().find(|(it, _)| it == name)?;
        Some(&found.1)
    }

    pub fn set_head(&mut self, name: &str, value: &str) {
        match self.head.iter_mut().find(|(it, _)| it == name) {
            Some((_, old)) => value.clone_into(old),
            None => self.head.push((name.to_owned(), value.to_owned())),
        }
    }

    /// Puts these figures in the place of all whose row `is_own`.
    pub fn replace(&mut self, is_own: impl Fn(&str) -> bool, figures: Vec<Figure>) {
        self.figures.retain(|figure| !is_own(&figure.row));
        self.figures.extend(figures);
    }

    pub fn figures(&self) -> &[Figure] {
        &self.figures
    }

    pub fn get(&self, row: &str, contestant: &str, metric: &str) -> Option<&Figure> {
        self.figures
            .iter()
            .find(|it| it.row == row && it.contestant == contestant && it.metric == metric)
    }

    pub fn median(&self, row: &str, contestant: &str, metric: &str) -> Option<f64> {
        Some(self.get(row, contestant, metric)?.median)
    }
}

fn parse_line(line: &str) -> Option<Figure> {
    let [row, contestant, metric, runs, failed, median, min, max] =
        line.split(',').collect::<Vec<_>>()[..]
    else {
        return None;
    };
    Some(Figure {
        row: row.to_owned(),
        contestant: contestant.to_owned(),
        metric: metric.to_owned(),
        runs: runs.parse().ok()?,
        failed: failed.parse().ok()?,
        median: median.parse().ok()?,
        min: min.parse().ok()?,
        max: max.parse().ok()?,
    })
}

/// Five digits that matter: more would be noise, in the file and in its differences.
fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let decimals = (4 - value.abs().log10().floor() as i32).clamp(0, 8) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

/// Three digits that matter, for a reader.
pub fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 99.5 => format!("{value:.0}"),
        size if size >= 9.95 => format!("{value:.1}"),
        size if size >= 0.01 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Figure, Sheet, number, short};

    #[test]
    fn a_sheet_survives_its_file() {
        let mut sheet = Sheet::default();
        sheet.set_head("machine", "2 cores: a, b");
        let figure = Figure::of("churn-1k-1p", "hashed", "cpu_ns", &[3.0, 1.0, 2.5]);
        sheet.replace(|_| true, figure.into_iter().collect());
        assert_eq!(Sheet::parse(&sheet.to_text()), Ok(sheet.clone()));
        assert_eq!(sheet.median("churn-1k-1p", "hashed", "cpu_ns"), Some(2.5));
        assert_eq!(sheet.head("machine"), Some("2 cores: a, b"));
    }

    #[test]
    fn a_line_that_is_no_figure_is_named() {
        let wrong = Sheet::parse("# machine: x\nfire,hashed\n").unwrap_err();
        assert_eq!(wrong, "line 2 is no figure: `fire,hashed`");
    }

    #[test]
    fn own_rows_are_replaced_and_others_stay() {
        let figure = |row, value| Figure::of(row, "hashed", "ns", &[value]).unwrap();
        let mut sheet = Sheet::default();
        sheet.replace(|_| true, vec![figure("a-1", 1.0), figure("b-1", 2.0)]);
        sheet.replace(|row| row.starts_with("a-"), vec![figure("a-2", 3.0)]);
        assert_eq!(sheet.median("a-1", "hashed", "ns"), None);
        assert_eq!(sheet.median("a-2", "hashed", "ns"), Some(3.0));
        assert_eq!(sheet.median("b-1", "hashed", "ns"), Some(2.0));
    }

    #[test]
    fn digits_that_matter() {
        let texts = [0.0, 31.234_567, 123_456.7, 0.001_234_567, 2.0].map(short);
        assert_eq!(texts, ["0", "31.235", "123457", "0.0012346", "2"]);
        assert_eq!([0.123_4, 31.23, 299.7].map(number), ["0.12", "31.2", "300"]);
    }
}
