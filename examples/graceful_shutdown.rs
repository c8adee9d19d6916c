//! Shutting down without losing anything: stop the timer, write what has not fired to a file with
//! the rest of its delay, and in the next life schedule it again.
//!
//! `stop` gives back every unprocessed timeout with its task inside. A task is a closure, so nobody
//! can look into it; but it can be called with the returned timeout, and there it sees that it was
//! not fired (`is_expired` is false) and how much was left (`remaining`). So it writes itself down.
//!
//! ```text
//! cargo run --example graceful_shutdown             # about two seconds
//! cargo run --example graceful_shutdown -- --quick  # under one second
//! ```

mod options;

use hashed_wheel::{HashedWheelTimer, Rejected, Timeout};
use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: graceful_shutdown [--quick]

Stops a timer with reminders pending, writes them to a file, and schedules them again in a second life.

  --quick    in half a second instead of two";

const REMINDERS: [(&str, u32); 8] = [
    ("water the plants", 3),
    ("call the dentist", 16),
    ("feed the cat", 7),
    ("pay the rent", 22),
    ("take out the bread", 5),
    ("back up the disk", 11),
    ("renew the passport", 19),
    ("stretch your legs", 8),
];

fn main() -> Result<(), Box<dyn Error>> {
    let unit = Duration::from_millis(if options::quick(USAGE) { 25 } else { 100 });
    let file = std::env::temp_dir().join(format!("graceful_shutdown-{}.tsv", std::process::id()));
    let (outcomes, seen) = mpsc::channel();

    println!("first life");
    let life = Life::begin(&outcomes);
    for (text, delay) in REMINDERS {
        life.remind(text, unit * delay)?;
    }
    thread::sleep(unit * 10);
    let saved = life.end(&file)?;

    println!("\nthe file {}", file.display());
    for line in fs::read_to_string(&file)?.lines() {
        let (microseconds, text) = line.split_once('\t').ok_or("a line without a tab")?;
        println!("           {microseconds:>8} us left  {text}");
    }

    println!("\nsecond life");
    // Delays go on where they stopped, as if the pause had not been. Where the pause should count,
    // write the wall-clock time of each deadline instead.
    let life = Life::begin(&outcomes);
    let read = life.resume(&file)?;
    while life.timer.pending_timeouts() > 0 {
        thread::sleep(unit);
    }
    let left = life.end(&file)?;
    fs::remove_file(&file)?;

    drop(outcomes);
    let delivered: Vec<String> = seen.iter().collect();
    println!(
        "\n{} reminders: {} delivered in the first life, {saved} saved, {read} read, {} delivered in the second, {left} left",
        REMINDERS.len(),
        REMINDERS.len() - saved,
        delivered.len() + saved - REMINDERS.len(),
    );
    let once = |text: &str| delivered.iter().filter(|it| *it == text).count() == 1;
    if !REMINDERS.iter().all(|(text, _)| once(text)) {
        return Err("a reminder was lost or came twice".into());
    }
    println!("each was delivered exactly once");
    Ok(())
}

/// The rest of a delay, and what to say when it is over.
type Saved = (Duration, String);

/// One run of a service: from its start to its orderly end.
struct Life {
    started: Instant,
    timer: HashedWheelTimer,
    delivered: Sender<String>,
    saved: (Sender<Saved>, Receiver<Saved>),
}

impl Life {
    fn begin(delivered: &Sender<String>) -> Self {
        Life {
            started: Instant::now(),
            timer: HashedWheelTimer::new(Duration::from_millis(5), 512),
            delivered: delivered.clone(),
            saved: mpsc::channel(),
        }
    }

    fn remind(&self, text: &str, delay: Duration) -> Result<(), Box<dyn Error>> {
        let started = self.started;
        say(started, &format!("in {delay:>8.1?}: {text}"));
        let (delivered, saved, text) = (
            self.delivered.clone(),
            self.saved.0.clone(),
            text.to_owned(),
        );
        let task = move |timeout: &Timeout| {
            // A receiver that is gone has no use for what is sent.
            if timeout.is_expired() {
                say(started, &format!("DELIVERED: {text}"));
                let _ = delivered.send(text);
            } else {
                let _ = saved.send((timeout.remaining(), text));
            }
        };
        self.timer
            .new_timeout(task, delay)
            .map_err(|Rejected { reason, .. }| reason)?;
        Ok(())
    }

    /// Stops the timer and writes what is left, a line each: microseconds, tab, text.
    fn end(self, file: &Path) -> Result<usize, Box<dyn Error>> {
        let unprocessed = self.timer.stop()?;
        for timeout in &unprocessed {
            if let Some(task) = timeout.take_task() {
                task(timeout);
            }
        }
        let mut saved: Vec<Saved> = self.saved.1.try_iter().collect();
        saved.sort();
        let line = |(remaining, text): &Saved| format!("{}\t{text}\n", remaining.as_micros());
        fs::write(file, saved.iter().map(line).collect::<String>())?;
        say(
            self.started,
            &format!("stopped, {} written to the file", unprocessed.len()),
        );
        Ok(unprocessed.len())
    }

    /// Schedules what a former life wrote.
    fn resume(&self, file: &Path) -> Result<usize, Box<dyn Error>> {
        let text = fs::read_to_string(file)?;
        for line in text.lines() {
            let (microseconds, text) = line.split_once('\t').ok_or("a line without a tab")?;
            self.remind(text, Duration::from_micros(microseconds.parse()?))?;
        }
        Ok(text.lines().count())
    }
}

fn say(started: Instant, text: &str) {
    println!("{:>7.3} s  {text}", started.elapsed().as_secs_f64());
}
