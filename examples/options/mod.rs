//! The options of the examples that have a short form and no other.

// Seen by one example here, and by all of the package with async ones.
#![allow(unreachable_pub)]

/// Returns `true` for `--quick`, the short form. Prints the usage for `--help`, and for an option that does not exist, which
/// ends the program with exit code 2.
#[must_use]
pub fn quick(usage: &str) -> bool {
    let mut quick = false;
    for option in std::env::args().skip(1) {
        match option.as_str() {
            "--quick" => quick = true,
            "--help" | "-h" => {
                println!("{usage}");
                std::process::exit(0);
            }
            _ => {
                eprintln!("unknown option `{option}`\n{usage}");
                std::process::exit(2);
            }
        }
    }
    quick
}
