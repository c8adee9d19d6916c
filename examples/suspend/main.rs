//! Does anybody wait for a thread that is interrupted in the middle of a call? For Linux.
//!
//! Four threads, the *producers*, schedule, cancel and reset timeouts of one timer at full speed. A signal suspends one
//! of them, chosen at random, for 200 ms, at whatever instruction it is: in most cases inside a call of this
//! crate. Then another one, and so on.
//!
//! Checked in each suspension:
//!
//! - the timer thread goes on: a task runs every millisecond, without a gap of 150 ms or more;
//! - the other producers go on, and their short timeouts fire;
//! - the short timeouts that the suspended producer has scheduled before fire as well.
//!
//! A check does not count if the system gave the thread no processor: `/proc/self/task/TID/schedstat` tells how long it
//! was ready to run and did not. Checked all the time:
//!
//! - each timeout runs once or is cancelled, as its calls have told, and none is lost;
//! - none runs before its deadline;
//! - what one producer has scheduled for the same deadline runs in the order of scheduling.
//!
//! ```text
//! cargo run --release --example suspend                       # 20 seconds
//! cargo run --release --example suspend -- --seconds 120
//! cargo run --release --example suspend -- --quick            # three seconds
//! ```
//!
//! It prints a line a second and a verdict. The exit code is 1 if something did not hold. Of a timer thread that stood still it
//! prints where it was, and where the suspended producer was: `addr2line -Cfie FILE OFFSET` names the lines.

#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod evidence;
#[cfg(target_os = "linux")]
mod producer;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod suspension;
#[cfg(target_os = "linux")]
mod windows;
#[cfg(target_os = "linux")]
mod world;

use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "usage: suspend [--seconds N] [--seed N] [--quick]";

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    let _ = Options::read();
    println!("threads are suspended by a signal: on Linux only");
    ExitCode::SUCCESS
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let options = Options::read();
    if run::run(options.span, options.seed) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

struct Options {
    #[cfg_attr(not(target_os = "linux"), expect(dead_code))]
    span: Duration,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code))]
    seed: u64,
}

impl Options {
    fn read() -> Options {
        let mut options = Options {
            span: Duration::from_secs(20),
            seed: 1,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(option) = arguments.next() {
            match option.as_str() {
                "--quick" => options.span = Duration::from_secs(3),
                "--seconds" => {
                    let seconds = number(&option, arguments.next(), 1..=1_000_000);
                    options.span = Duration::from_secs(seconds);
                }
                "--seed" => options.seed = number(&option, arguments.next(), 0..=u64::MAX),
                "--help" | "-h" => {
                    println!("{USAGE}");
                    std::process::exit(0);
                }
                _ => refuse(&format!("unknown option `{option}`")),
            }
        }
        options
    }
}

fn number(option: &str, text: Option<String>, range: std::ops::RangeInclusive<u64>) -> u64 {
    let Some(text) = text else {
        refuse(&format!("`{option}` needs a number"));
    };
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.unwrap_or_else(|| {
        let (least, most) = (range.start(), range.end());
        refuse(&format!(
            "`{option}` cannot be `{text}`: a whole number from {least} to {most}"
        ))
    })
}

fn refuse(problem: &str) -> ! {
    eprintln!("{problem}\n{USAGE}");
    std::process::exit(2);
}
