//! A delay queue: orders that are closed if nobody pays, in a process that is killed in the middle.
//!
//! The queue itself is `serve`: it reads commands, and schedules, moves and cancels by key. `--demo` starts it as a child, feeds it, kills it with
//! SIGKILL while orders are pending, starts it again, and tells what happened.
//!
//! ```text
//! cargo run -p hashed-wheel-durable --example delay_queue -- --demo    # about ten seconds
//! cargo run -p hashed-wheel-durable --example delay_queue -- --quick   # the same in three
//! cargo run -p hashed-wheel-durable --example delay_queue -- FILE      # the queue alone: type commands
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant, SystemTime};
use std::{env, fs, io, process, thread};

use hashed_wheel_durable::{DurableTimer, Outcome};

const USAGE: &str = "\
usage: delay_queue --demo | --quick | FILE

A delay queue on durable timers.

  --demo    starts the queue as a child, kills it in the middle and starts it again: ten seconds
  --quick   the same in three seconds
  FILE      the queue alone, on this file; it reads commands:
              close ORDER MS    closes the order in so many milliseconds
              move ORDER MS     so many milliseconds from now instead
              paid ORDER        does not close it
              pending           how many are left
              stop              ends the queue";

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    match (args.next().as_deref(), args.next()) {
        (Some("--demo"), None) => demo(Duration::from_secs(1)),
        (Some("--quick"), None) => demo(Duration::from_millis(300)),
        (Some(file), None) if !file.starts_with('-') => serve(Path::new(file)),
        _ => {
            eprintln!("{USAGE}");
            process::exit(2);
        }
    }
}

/// The queue: durable timers, and a line of text for everything that happens.
fn serve(file: &Path) -> Result<(), Box<dyn Error>> {
    let timer = DurableTimer::builder()
        .on("close", |job| {
            let late = SystemTime::now()
                .duration_since(job.due())
                .unwrap_or_default();
            println!(
                "closed {} {}",
                String::from_utf8_lossy(job.payload()),
                late.as_millis()
            );
            // The order is closed by now. A kill before this is stored closes it once more: closing has to be idempotent.
            thread::sleep(Duration::from_millis(50));
            Outcome::Done
        })
        .open(file)?;
    println!("open {}", timer.pending()?);
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let millis = |text: &str| text.parse().map(Duration::from_millis);
        match words[..] {
            ["close", order, delay] => {
                timer
                    .job("close")
                    .key(order)
                    .payload(order)
                    .after(millis(delay)?)?;
                println!("stored {order}");
            }
            ["move", order, delay] => {
                println!("moved {order} {}", timer.reschedule(order, millis(delay)?)?);
            }
            ["paid", order] => println!("paid {order} {}", timer.cancel(order)?),
            ["pending"] => println!("pending {}", timer.pending()?),
            ["stop"] => break,
            _ => println!("what is {line:?}?"),
        }
    }
    timer.stop()?;
    Ok(())
}

/// The queue as a child process.
struct Queue {
    child: Child,
    commands: ChildStdin,
    lines: Receiver<String>,
}

impl Queue {
    fn start(file: &Path) -> Result<Queue, Box<dyn Error>> {
        let mut child = Command::new(env::current_exe()?)
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let commands = child.stdin.take().ok_or("no input")?;
        let output = child.stdout.take().ok_or("no output")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Queue {
            child,
            commands,
            lines,
        })
    }

    fn tell(&mut self, command: &str) -> io::Result<()> {
        writeln!(self.commands, "{command}")
    }

    fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}

/// What the parent knows of each order.
struct Book {
    started: Instant,
    stored: BTreeSet<String>,
    /// How often each was closed.
    closed: BTreeMap<String, u32>,
    paid: BTreeSet<String>,
    /// The queue was killed and started again.
    restarted: bool,
}

impl Book {
    /// Prints a line with the time.
    fn say(&self, what: &str) {
        println!("   {:>5.2} s  {what}", self.started.elapsed().as_secs_f64());
    }

    /// Takes the child's lines until the time is over, or until one begins with these words.
    fn read(&mut self, queue: &Queue, wait: Duration, until: Option<&str>) -> Option<String> {
        let end = Instant::now() + wait;
        while let Ok(line) = queue
            .lines
            .recv_timeout(end.saturating_duration_since(Instant::now()))
        {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["stored", order] => drop(self.stored.insert(order.to_owned())),
                ["closed", order, late] => self.note_closed(order, late.parse().unwrap_or(0)),
                ["moved", order, "true"] => self.say(&format!("{order} is moved")),
                ["paid", order, "true"] => {
                    self.say(&format!("{order} is paid: its timer is cancelled"));
                    self.paid.insert(order.to_owned());
                }
                ["moved" | "paid", order, _] => self.say(&format!("{order}: too late")),
                _ => {}
            }
            if until.is_some_and(|until| line.starts_with(until)) {
                return Some(line);
            }
        }
        None
    }

    fn note_closed(&mut self, order: &str, late: u64) {
        let times = self.closed.entry(order.to_owned()).or_default();
        *times += 1;
        let why = if *times > 1 {
            "once more: when the kill came, its end was not on disk yet".to_owned()
        } else if self.restarted && late > 100 {
            format!("{late} ms late: it fell due while nobody ran")
        } else {
            format!("{late} ms after its time")
        };
        self.say(&format!("{order} is closed, {why}"));
    }
}

fn demo(unit: Duration) -> Result<(), Box<dyn Error>> {
    let folder = env::temp_dir().join(format!("delay_queue-{}", process::id()));
    fs::create_dir_all(&folder)?;
    let result = tell_story(&folder.join("orders.redb"), unit);
    fs::remove_dir_all(&folder)?;
    result
}

fn tell_story(file: &Path, unit: Duration) -> Result<(), Box<dyn Error>> {
    let units = |count: f64| unit.mul_f64(count);
    let long = Duration::from_secs(10);
    println!(
        "Orders are closed unless they are paid in time. The process that has the timers is killed in the middle.\n"
    );
    let mut book = Book {
        started: Instant::now(),
        stored: BTreeSet::new(),
        closed: BTreeMap::new(),
        paid: BTreeSet::new(),
        restarted: false,
    };

    println!(
        "1. A queue starts, as a process of its own. All that it has to remember is in one file."
    );
    let mut queue = Queue::start(file)?;
    book.read(&queue, long, Some("open"))
        .ok_or("the queue does not start")?;
    book.say(&format!("{} is open", file.display()));

    println!(
        "2. Twelve orders come in. order:1 is to be closed in {:?}, each further one {:?} later.",
        units(1.5),
        units(0.5)
    );
    for number in 1..=12_u32 {
        let delay = units(1.0 + f64::from(number) * 0.5).as_millis();
        queue.tell(&format!("close order:{number} {delay}"))?;
    }
    queue.tell("pending")?;
    book.read(&queue, long, Some("pending 12"))
        .ok_or("they are not stored")?;
    book.say("all twelve are on disk");

    println!(
        "3. order:3 is paid, order:4 gets more time, order:12 gets less. The order's name is the key."
    );
    queue.tell("paid order:3")?;
    queue.tell(&format!("move order:4 {}", units(6.0).as_millis()))?;
    queue.tell(&format!("move order:12 {}", units(3.2).as_millis()))?;
    queue.tell("pending")?;
    book.read(&queue, long, Some("pending 11"))
        .ok_or("calls are not answered")?;

    println!("4. Time passes, and the first orders are closed.");
    book.read(&queue, units(3.0), Some("closed order:2"));

    println!(
        "5. SIGKILL, after order:2 was closed and before the queue could write that down: no warning, no destructor."
    );
    queue.kill()?;
    book.read(&queue, Duration::from_millis(100), None);
    book.say("the process is gone");
    thread::sleep(units(1.8));

    println!("6. Meanwhile other orders have fallen due. What does the file know?");
    let pending = {
        // Without handlers nothing is run.
        let timer = DurableTimer::builder().open(file)?;
        timer.pending_jobs(100)?
    };
    let names: Vec<String> = pending
        .into_iter()
        .filter_map(|job| String::from_utf8(job.payload).ok())
        .map(|order| order.trim_start_matches("order:").to_owned())
        .collect();
    book.say(&format!(
        "{} orders are pending, the earliest first: {}",
        names.len(),
        names.join(", ")
    ));

    println!("7. The queue starts again on the same file.");
    book.restarted = true;
    let mut queue = Queue::start(file)?;
    let end = Instant::now() + units(8.0) + long;
    while book.closed.len() + book.paid.len() < 12 && Instant::now() < end {
        book.read(&queue, units(0.2), None);
    }
    queue.tell("stop")?;
    queue.child.wait()?;
    book.read(&queue, Duration::from_millis(100), None);
    book.verdict()
}

impl Book {
    fn verdict(&self) -> Result<(), Box<dyn Error>> {
        let lost: Vec<&String> = self
            .stored
            .iter()
            .filter(|order| !self.closed.contains_key(*order) && !self.paid.contains(*order))
            .collect();
        let again: Vec<&str> = self
            .closed
            .iter()
            .filter(|(_, times)| **times > 1)
            .map(|(order, _)| order.as_str())
            .collect();
        println!(
            "\nOf {} orders {} were closed, {} was paid, {} were lost.",
            self.stored.len(),
            self.closed.len(),
            self.paid.len(),
            lost.len()
        );
        if again.is_empty() {
            println!("None was closed twice: this time the kill came between two orders.");
        } else {
            println!(
                "Closed twice: {}. Nobody can tell after a crash whether a handler had come to its end, so it runs again:\n\
                 at least once, never lost. Closing an order that is closed already has to do no harm.",
                again.join(", ")
            );
        }
        if !lost.is_empty()
            || self
                .paid
                .iter()
                .any(|order| self.closed.contains_key(order))
        {
            return Err(format!("lost {lost:?}, or closed what was paid").into());
        }
        Ok(())
    }
}
