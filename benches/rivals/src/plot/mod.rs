//! Three plots of the figures, drawn from the CSV: `rivals.svg`, `tails.svg` and `growth.svg`.
//!
//! They are made to stand in a page, as an image or inline: colours follow the reader's light or
//! dark scheme, and a theme of rustdoc where there is one. No blank line is in them, so that Markdown
//! takes them as one block.

mod bars;
mod growth;
mod lines;
mod svg;
mod tails;

use std::fs;
use std::path::{Path, PathBuf};

/// The medians of one or more CSV files. Of a figure that comes twice, the later one counts.
#[derive(Debug, Default)]
pub(crate) struct Medians(Vec<Median>);

#[derive(Debug)]
struct Median {
    row: String,
    contestant: String,
    metric: String,
    value: f64,
}

impl Medians {
    /// Adds what [`crate::table::csv`] has written.
    pub(crate) fn add(&mut self, csv: &str) -> Result<(), String> {
        for (number, line) in csv.lines().enumerate().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let median = fields.get(5).and_then(|field| field.parse().ok());
            let (Some(value), [row, contestant, metric, ..]) = (median, fields.as_slice()) else {
                return Err(format!("line {} is not a figure: `{line}`", number + 1));
            };
            self.0.push(Median {
                row: (*row).to_owned(),
                contestant: (*contestant).to_owned(),
                metric: (*metric).to_owned(),
                value,
            });
        }
        Ok(())
    }

    pub(crate) fn read(files: &[PathBuf]) -> Result<Self, String> {
        let mut medians = Self::default();
        for file in files {
            let say = |message: String| format!("{}: {message}", file.display());
            let text = fs::read_to_string(file).map_err(|error| say(error.to_string()))?;
            medians.add(&text).map_err(say)?;
        }
        Ok(medians)
    }

    fn get(&self, row: &str, contestant: &str, metric: &str) -> Option<f64> {
        let found = self.0.iter().rfind(|median| {
            median.row == row && median.contestant == contestant && median.metric == metric
        })?;
        Some(found.value)
    }
}

/// Draws all plots that the figures suffice for, and says which.
pub(crate) fn draw(medians: &Medians, folder: &Path) -> Result<(), String> {
    let say = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(say)?;
    let plots = [
        ("rivals.svg", bars::draw(medians), "churn-100k and fire-1ms"),
        ("tails.svg", tails::draw(medians), "tails-100k"),
        ("growth.svg", growth::draw(medians), "growth and producers"),
    ];
    for (name, plot, rows) in plots {
        match plot {
            Some(text) => {
                fs::write(folder.join(name), text).map_err(say)?;
                println!("{} is drawn.", folder.join(name).display());
            }
            None => println!("{name} is left out: it needs the rows {rows}."),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "row,contestant,metric,runs,failed,median,min,max,ratio\n";

    #[test]
    fn the_later_figure_counts() {
        let mut medians = Medians::default();
        let line = |value| format!("{HEAD}fire-1ms,hashed,worker_cpu_ns,5,0,{value},1,2,1.0\n");
        medians.add(&line(200)).unwrap();
        medians.add(&line(150)).unwrap();
        let found = medians.get("fire-1ms", "hashed", "worker_cpu_ns");
        assert_eq!(found, Some(150.0));
        assert_eq!(medians.get("fire-1ms", "netty", "worker_cpu_ns"), None);
    }

    #[test]
    fn a_line_without_a_median_is_named() {
        let error = Medians::default().add(&format!("{HEAD}fire,hashed\n"));
        assert_eq!(
            error,
            Err("line 2 is not a figure: `fire,hashed`".to_owned())
        );
    }

    #[test]
    fn plots_without_their_rows_are_left_out() {
        let medians = Medians::default();
        assert!(bars::draw(&medians).is_none());
        assert!(tails::draw(&medians).is_none());
        assert!(growth::draw(&medians).is_none());
    }

    #[test]
    fn a_plot_is_one_block_of_markdown_with_all_it_shows() {
        let mut medians = Medians::default();
        for (row, metric) in [
            ("churn-100k-1p", "cpu_ns"),
            ("churn-100k-2p", "cpu_ns"),
            ("fire-1ms", "worker_cpu_ns"),
        ] {
            let own = format!("{row},hashed,{metric},5,0,80,70,90,1");
            let netty = format!("{row},netty,{metric},5,0,2000,1,1,2");
            medians.add(&format!("{HEAD}{own}\n{netty}\n")).unwrap();
        }
        let plot = bars::draw(&medians).unwrap();
        assert!(plot.starts_with("<svg") && plot.trim_end().ends_with("</svg>"));
        assert!(!plot.contains("\n\n"));
        assert_eq!(plot.matches(">netty<").count(), 3);
        assert_eq!(plot.matches(">2000<").count(), 3);
    }
}
