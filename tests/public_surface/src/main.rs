//! Is the public surface of both libraries the one that is written down, and does every item of it have an example?
//!
//! ```text
//! cargo run -p public-surface              compares with tests/public_surface.txt and durable/tests/public_surface.txt; exit code 1 if one differs
//! cargo run -p public-surface -- --write   writes the files anew, for a change that is meant
//! ```
//!
//! The surface is taken from rustdoc's JSON, so it is what the compiler sees: macros are expanded, and
//! what is hidden is left out. That output is unstable, so `RUSTC_BOOTSTRAP` asks the stable
//! compiler for it. If a later compiler writes something that is not known here, this says what.

mod list;
mod text;

use serde_json::Value;
use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use list::Surface;

/// A library: its package, where its surface is written down, and whether an example may be compiled only.
struct Library {
    package: &'static str,
    file: &'static str,
    no_run: bool,
}

const LIBRARIES: [Library; 2] = [
    Library {
        package: "hashed-wheel",
        file: "tests/public_surface.txt",
        no_run: false,
    },
    // Some of it needs a database.
    Library {
        package: "hashed-wheel-durable",
        file: "durable/tests/public_surface.txt",
        no_run: true,
    },
];

const USAGE: &str = "usage: cargo run -p public-surface [-- --write]";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let write = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--write"] => true,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(write) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all is as it should be.
fn run(write: bool) -> Result<bool, Box<dyn Error>> {
    let mut right = true;
    for library in &LIBRARIES {
        right &= look(library, write)?;
    }
    Ok(right)
}

fn look(library: &Library, write: bool) -> Result<bool, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let json = fs::read_to_string(rustdoc(&root, library.package)?)?;
    let json: Value = serde_json::from_str(&json)?;
    let surface = Surface::of(&json, library.no_run).map_err(|error| {
        let version = &json["format_version"];
        format!("rustdoc's JSON, version {version}, is not understood: {error}")
    })?;

    for item in &surface.without_example {
        println!("no example: {item}");
    }
    println!(
        "{}: {} public items that are called or named, {} of them without an example",
        library.package,
        surface.items,
        surface.without_example.len()
    );

    let file = root.join(library.file);
    if write {
        fs::write(&file, &surface.text)?;
        println!("{} written", library.file);
        return Ok(surface.without_example.is_empty());
    }
    let same = compare(library.file, &fs::read_to_string(file)?, &surface.text);
    Ok(same && surface.without_example.is_empty())
}

/// Has rustdoc describe a library with all its features, and returns the file.
fn rustdoc(root: &Path, package: &str) -> Result<PathBuf, Box<dyn Error>> {
    // This program lies in the directory of a profile, inside the target directory.
    let program = env::current_exe()?;
    let target = program
        .ancestors()
        .nth(2)
        .ok_or("no target directory above this program")?;
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(root)
        .args(["rustdoc", "--quiet", "-p", package, "--lib"])
        .args(["--all-features", "--target-dir"])
        .arg(target)
        .args(["--", "-Z", "unstable-options", "--output-format", "json"])
        .env("RUSTC_BOOTSTRAP", "1")
        .status()?;
    if !status.success() {
        return Err("cargo rustdoc failed".into());
    }
    Ok(target.join(format!("doc/{}.json", package.replace('-', "_"))))
}

/// Prints the lines that are in one of the two only, each with the type that it is under.
fn compare(file: &str, written: &str, found: &str) -> bool {
    let (written, found) = (under_their_type(written), under_their_type(found));
    let gone: Vec<_> = written
        .iter()
        .filter(|line| !found.contains(line))
        .collect();
    let new: Vec<_> = found
        .iter()
        .filter(|line| !written.contains(line))
        .collect();
    for line in &gone {
        println!("- {line}");
    }
    for line in &new {
        println!("+ {line}");
    }
    let same = written == found;
    if same {
        println!("the public surface is that of {file}");
    } else {
        println!(
            "\nThe public surface differs from {file}. If that is meant, run\n    \
             cargo run -p public-surface -- --write\nand say in the changelog what has changed. A line \
             with a minus breaks programs that use it."
        );
    }
    same
}

/// The lines, indented ones with the last one that is not in front of them.
fn under_their_type(text: &str) -> Vec<String> {
    let mut owner = "";
    text.lines()
        .map(|line| {
            if let Some(member) = line.strip_prefix("    ") {
                format!("{owner}: {member}")
            } else {
                owner = line;
                line.to_owned()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = "struct A\n    fn f(&self)\n\nstruct B\n    fn f(&self)\n";

    #[test]
    fn the_same_list_is_no_change() {
        assert!(compare("", WRITTEN, WRITTEN));
    }

    #[test]
    fn a_changed_signature_a_lost_and_a_new_item_are_changes() {
        assert!(!compare(
            "",
            WRITTEN,
            &WRITTEN.replacen("&self", "&mut self", 1)
        ));
        assert!(!compare("", WRITTEN, "struct A\n    fn f(&self)\n"));
        assert!(!compare("", WRITTEN, &format!("{WRITTEN}\nstruct C\n")));
        // The same lines, but the function is another type's.
        assert!(!compare("", "A\n    f\nB\n", "A\nB\n    f\n"));
    }
}
