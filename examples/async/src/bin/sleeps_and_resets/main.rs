//! Futures and resets, side by side with tokio's, in one run:
//!
//! ```text
//! cargo run --release -p async-examples --bin sleeps_and_resets             three minutes
//! cargo run --release -p async-examples --bin sleeps_and_resets -- --quick  half a minute, rough
//! ```
//!
//! Every figure is the median of several runs, in which the contestants take turns. Ratios hold on
//! another machine; the nanoseconds do not.

mod clock;
mod resets;
mod sleeps;
mod table;
mod tokio_thread;

const USAGE: &str = "usage: sleeps_and_resets [--quick] [--runs N]";

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct Effort {
    /// How often each contestant has its turn.
    runs: usize,
    /// Divides the number of operations and the seconds.
    divisor: u32,
}

fn main() {
    let effort = options();
    println!("medians of {} alternating runs", effort.runs);
    println!("\nsleep: create, first poll, drop");
    println!("ns for each: wall / CPU of the process\n");
    sleeps::compare(effort).print();
    println!("\nreset: 100 000 connections at 30 s, in random order, as fast as it goes");
    println!("ns for each: wall / CPU of the process\n");
    resets::compare_flat_out(effort).print();
    println!("\nreset at a rate: 100 000 connections at 30 s");
    println!("ns of the caller for each / background CPU, % of a core\n");
    resets::compare_paced(effort).print();
    println!(
        "\nand when entries come round: 100 000 connections at 1 s, each reset 3 times a second"
    );
    println!("ns of the caller for each / background CPU, % of a core\n");
    resets::compare_rounds(effort).print();
}

fn options() -> Effort {
    let mut effort = Effort {
        runs: 5,
        divisor: 1,
    };
    let mut options = std::env::args().skip(1);
    while let Some(option) = options.next() {
        match option.as_str() {
            "--quick" => {
                effort = Effort {
                    runs: 1,
                    divisor: 10,
                }
            }
            "--runs" => {
                let number = options.next().and_then(|number| number.parse().ok());
                effort.runs = number
                    .filter(|runs| *runs > 0)
                    .unwrap_or_else(|| usage("--runs wants a number"));
            }
            "--help" | "-h" => {
                println!("{USAGE}");
                std::process::exit(0);
            }
            _ => usage(&format!("unknown option `{option}`")),
        }
    }
    effort
}

fn usage(mistake: &str) -> ! {
    eprintln!("{mistake}\n{USAGE}");
    std::process::exit(2);
}
