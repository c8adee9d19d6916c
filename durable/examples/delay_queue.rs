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

use std::collections::BTreeMap;
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
                "closed {} {} {}",
                job.key().unwrap_or("?"),
                late.as_millis(),
                job.attempt()
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
                timer.job("close").key(order).after(millis(delay)?)?;
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
#[derive(Default)]
struct Book {
    stored: BTreeMap<String, bool>,
    closed: BTreeMap<String, u32>,
    paid: Vec<String>,
}

impl Book {
    /// Takes the child's lines until the time is over, or until one begins with these words.
    fn read(&mut self, queue: &Queue, wait: Duration, until: Option<&str>) -> Option<String> {
        let end = Instant::now() + wait;
        while let Ok(line) = queue
            .lines
            .recv_timeout(end.saturating_duration_since(Instant::now()))
        {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["stored", order] => drop(self.stored.insert(order.to_owned(), true)),
                ["closed", order, late, attempt] => {
                    *self.closed.entry(order.to_owned()).or_default() += 1;
                    println!("    closed {order}, {late} ms late, attempt {attempt}");
                }
                ["moved", order, done] => println!("    moved {order}: {done}"),
                ["paid", order, done] => {
                    println!("    {order} is paid, its timer cancelled: {done}");
                    if done == "true" {
                        self.paid.push(order.to_owned());
                    }
                }
                _ => {}
            }
            if until.is_some_and(|until| line.starts_with(until)) {
                return Some(line);
            }
        }
        None
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
    let mut book = Book::default();

    println!("1. A queue is started on {}.", file.display());
    let mut queue = Queue::start(file)?;
    book.read(&queue, Duration::from_secs(10), Some("open"))
        .ok_or("the queue does not start")?;

    println!(
        "2. Twelve orders come in, each to be closed if nobody pays: the first soon, the last in {:?}.",
        units(7.0)
    );
    for number in 1..=12_u32 {
        let delay = units(1.0 + f64::from(number) * 0.5).as_millis();
        queue.tell(&format!("close order:{number} {delay}"))?;
    }
    queue.tell("pending")?;
    book.read(&queue, Duration::from_secs(10), Some("pending 12"))
        .ok_or("they are not stored")?;
    println!("    all twelve are on disk");

    println!("3. order:3 is paid, order:4 gets more time, order:12 less.");
    queue.tell("paid order:3")?;
    queue.tell(&format!("move order:4 {}", units(6.0).as_millis()))?;
    queue.tell(&format!("move order:12 {}", units(3.5).as_millis()))?;
    queue.tell("pending")?;
    book.read(&queue, Duration::from_secs(10), Some("pending 11"))
        .ok_or("calls are not answered")?;

    println!("4. Time passes; the first orders are closed.");
    book.read(&queue, units(3.0), Some("closed order:2"));

    println!(
        "5. The process is killed while it closes order:2: SIGKILL, no warning, nothing more is written."
    );
    queue.kill()?;
    book.read(&queue, Duration::from_millis(200), None);
    thread::sleep(units(1.0));

    println!("6. A look into the file, with a timer that has no handler and so runs nothing:");
    let pending = {
        let timer = DurableTimer::builder().open(file)?;
        timer.pending()?
    };
    println!(
        "    {pending} orders are pending: all but those that were closed or paid, order:2 among them"
    );

    println!(
        "7. The queue is started again. What was interrupted and what fell due meanwhile comes first:"
    );
    let mut queue = Queue::start(file)?;
    let end = Instant::now() + units(8.0) + Duration::from_secs(10);
    while book.closed.len() + book.paid.len() < 12 && Instant::now() < end {
        book.read(&queue, units(0.2), None);
    }
    queue.tell("stop")?;
    queue.child.wait()?;
    book.read(&queue, Duration::from_millis(200), None);

    let lost: Vec<&String> = book
        .stored
        .keys()
        .filter(|order| !book.closed.contains_key(*order) && !book.paid.contains(order))
        .collect();
    let again: Vec<&String> = book
        .closed
        .iter()
        .filter(|(_, times)| **times > 1)
        .map(|(order, _)| order)
        .collect();
    println!(
        "\n12 orders: {} closed, {} paid, {} lost.",
        book.closed.len(),
        book.paid.len(),
        lost.len()
    );
    if again.is_empty() {
        println!(
            "None was closed twice. One that was being closed at the moment of the kill would have been."
        );
    } else {
        println!(
            "Closed once more, because the kill came before the outcome was stored: {again:?}. At least once, never lost."
        );
    }
    if !lost.is_empty()
        || book
            .paid
            .iter()
            .any(|order| book.closed.contains_key(order))
    {
        return Err(format!("lost {lost:?}, or closed what was paid").into());
    }
    Ok(())
}
