//! Fills the pages and draws the plots from the file of figures, or says what in them is not of it.

use std::process::ExitCode;

use figures::pages;
use figures::sheet::Sheet;

const USAGE: &str = "\
Usage: cargo run -p figures -- [--write]

Compares the pages with benches/figures.csv.

  --write    fill the pages and draw the plots from it
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => check(),
        ["--write"] => Sheet::published().and_then(|sheet| pages::write(&sheet)),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn check() -> Result<(), String> {
    let wrong = pages::check(&Sheet::published()?)?;
    if wrong.is_empty() {
        return Ok(());
    }
    Err(wrong.join("\n"))
}
