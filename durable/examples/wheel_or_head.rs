//! The experiment that decided the design: which jobs are kept in memory before they are due?
//!
//! - `head, at due`: nothing. One timer for the earliest job; when it is due, everything due is claimed.
//! - `head, ahead`: nothing. One timer for the earliest job, 25 ms before it is due; everything due
//!   within the next 50 ms is claimed and handed to the wheel.
//! - `wheel`: hints (due time and id) of everything due within the horizon, in a wheel of its own. A hint fires
//!   25 ms before its job is due, and what has fired is claimed by id in batches.
//!
//! All three have the same tables, the same commit (redb, quick repair), the same batch of 256 and the same acknowledgements. Jobs lie in
//! the store before the clock starts and fall due evenly. Reported for each: how late jobs were handed out, CPU time for
//! each job, commits for each second.
//!
//! ```text
//! cargo run --release -p hashed-wheel-durable --example wheel_or_head             # about three minutes
//! cargo run --release -p hashed-wheel-durable --example wheel_or_head -- --quick  # about ten seconds
//! ```

use std::collections::VecDeque;
use std::error::Error;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, fs, process};

use hashed_wheel::{HashedWheelTimer, TimerHandle};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

const USAGE: &str = "\
usage: wheel_or_head [--quick]

Compares waking for the earliest job alone with keeping hints of the next 30 seconds in a wheel.

  --quick    one second for each row instead of ten";

const JOBS: TableDefinition<u64, &[u8]> = TableDefinition::new("jobs");
const DUE: TableDefinition<(i64, u64), u32> = TableDefinition::new("due");
const CLAIMED: TableDefinition<u64, u64> = TableDefinition::new("claimed");

const LEAD: i64 = 50;
const BATCH: usize = 256;
const HORIZON: i64 = 30_000;

#[derive(Clone, Copy, PartialEq)]
enum Variant {
    HeadAtDue,
    HeadAhead,
    Wheel,
}

/// When the clock of the experiment starts, in microseconds since 1970.
static START: AtomicI64 = AtomicI64::new(0);

fn micros_since_1970() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}

/// Microseconds since the start.
fn micros() -> i64 {
    micros_since_1970() - START.load(Ordering::Relaxed)
}

/// Milliseconds since the start.
fn now() -> i64 {
    micros().div_euclid(1000)
}

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = match env::args().nth(1).as_deref() {
        None => 10,
        Some("--quick") => 1,
        Some(other) => {
            eprintln!("unknown option {other}\n{USAGE}");
            process::exit(2);
        }
    };
    println!(
        "jobs fall due evenly for {seconds} s; lateness is measured where a job is handed to its handler\n"
    );
    println!("| due a second | variant | p50 ms | p99 ms | max ms | CPU µs/job | commits/s |");
    println!("|---|---|---|---|---|---|---|");
    for rate in [1, 100, 1000, 10_000] {
        for (variant, name) in [
            (Variant::HeadAtDue, "head, at due"),
            (Variant::HeadAhead, "head, ahead"),
            (Variant::Wheel, "wheel"),
        ] {
            let row = run(variant, rate, seconds)?;
            println!(
                "| {rate} | {name} | {:.2} | {:.2} | {:.2} | {:.1} | {:.0} |",
                row.p50, row.p99, row.max, row.cpu, row.commits
            );
        }
    }
    Ok(())
}

struct Row {
    p50: f64,
    p99: f64,
    max: f64,
    cpu: f64,
    commits: f64,
}

/// CPU time of the process, in milliseconds.
fn cpu() -> f64 {
    let mut total = 0.0;
    if let Ok(tasks) = fs::read_dir("/proc/self/task") {
        for task in tasks.flatten() {
            if let Ok(text) = fs::read_to_string(task.path().join("schedstat")) {
                total += text
                    .split(' ')
                    .next()
                    .and_then(|ns| ns.parse::<f64>().ok())
                    .unwrap_or(0.0);
            }
        }
    }
    total / 1e6
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(variant: Variant, rate: i64, seconds: i64) -> Result<Row, Box<dyn Error>> {
    let folder = Folder(env::current_dir()?.join(format!("wheel_or_head.{}", process::id())));
    fs::create_dir_all(&folder.0)?;
    let db = Database::create(folder.0.join("experiment.redb"))?;
    let total = rate * seconds;
    // The first is due half a second after the start.
    let first = 500;
    let txn = db.begin_write()?;
    {
        let mut jobs = txn.open_table(JOBS)?;
        let mut due = txn.open_table(DUE)?;
        txn.open_table(CLAIMED)?;
        for n in 0..total {
            jobs.insert(n as u64, [7_u8; 64].as_slice())?;
            due.insert((first + n * 1000 / rate, n as u64), 0)?;
        }
    }
    txn.commit()?;
    START.store(micros_since_1970(), Ordering::Relaxed);

    let cpu_before = cpu();
    let (out, handed) = mpsc::channel();
    // Fires what is claimed ahead; the same for all.
    let firing = HashedWheelTimer::new(Duration::from_millis(1), 128);
    firing.start()?;
    let mut engine = Engine {
        db: &db,
        firing: firing.handle(),
        out,
        commits: 0,
        total,
        done: 0,
    };
    match variant {
        Variant::Wheel => engine.wheel(&handed)?,
        _ => engine.head(&handed, variant == Variant::HeadAhead)?,
    }
    let used = cpu() - cpu_before;
    let mut late = engine_lateness();
    late.sort_by(f64::total_cmp);
    assert_eq!(late.len() as i64, total);
    Ok(Row {
        p50: late[late.len() / 2],
        p99: late[late.len() * 99 / 100],
        max: late[late.len() - 1],
        cpu: used * 1000.0 / total as f64,
        commits: engine.commits as f64 / seconds as f64,
    })
}

thread_local! {
    static LATENESS: std::cell::RefCell<Vec<f64>> = const { std::cell::RefCell::new(Vec::new()) };
}

fn engine_lateness() -> Vec<f64> {
    LATENESS.take()
}

/// A job that was handed out: its id, and how late, in milliseconds.
type Handed = (u64, f64);

struct Engine<'a> {
    db: &'a Database,
    firing: TimerHandle,
    out: Sender<Handed>,
    commits: u64,
    total: i64,
    done: i64,
}

fn hand_out(out: &Sender<Handed>, id: u64, due: i64) {
    let late = micros() - due * 1000;
    assert!(late >= 0, "early");
    let _ = out.send((id, late as f64 / 1000.0));
}

impl Engine<'_> {
    /// One transaction: acknowledges, and claims what `pick` finds.
    fn commit(
        &mut self,
        acks: &mut Vec<u64>,
        pick: impl FnOnce(&redb::Table<(i64, u64), u32>) -> Vec<(i64, u64)>,
    ) -> Result<(), Box<dyn Error>> {
        let mut txn = self.db.begin_write()?;
        txn.set_quick_repair(true);
        let mut claimed = Vec::new();
        {
            let mut jobs = txn.open_table(JOBS)?;
            let mut due = txn.open_table(DUE)?;
            let mut claims = txn.open_table(CLAIMED)?;
            for id in acks.drain(..) {
                claims.remove(id)?;
                jobs.remove(id)?;
                self.done += 1;
            }
            for (at, id) in pick(&due) {
                if due.remove((at, id))?.is_none() {
                    continue;
                }
                claims.insert(id, 1)?;
                claimed.push((at, id, jobs.get(id)?.expect("stored").value().to_vec()));
            }
        }
        txn.commit()?;
        self.commits += 1;
        for (at, id, _payload) in claimed {
            let out = self.out.clone();
            let wait = at - now();
            if wait > 0 {
                self.firing.new_timeout(
                    move |_| hand_out(&out, id, at),
                    Duration::from_millis(wait as u64),
                )?;
            } else {
                hand_out(&out, id, at);
            }
        }
        Ok(())
    }

    /// Takes what was handed out; the handler takes no time.
    fn receive(handed: &Receiver<Handed>, acks: &mut Vec<u64>, wait: Duration) {
        let mut note = |(id, late): Handed| {
            acks.push(id);
            LATENESS.with_borrow_mut(|all| all.push(late));
        };
        match handed.recv_timeout(wait) {
            Ok(first) => note(first),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        }
        handed.try_iter().for_each(note);
    }

    fn head(&mut self, handed: &Receiver<Handed>, ahead: bool) -> Result<(), Box<dyn Error>> {
        let (lead, wake) = if ahead { (LEAD, LEAD / 2) } else { (0, 0) };
        let mut acks = Vec::new();
        let mut head = self.first()?;
        while self.done < self.total {
            let wait = head.map_or(1000, |head| (head - wake - now()).clamp(0, 1000));
            Self::receive(handed, &mut acks, Duration::from_millis(wait as u64));
            let until = now() + lead;
            let claim = head.is_some_and(|head| head - wake <= now());
            if acks.is_empty() && !claim {
                continue;
            }
            let mut next = head;
            self.commit(&mut acks, |due| {
                if !claim {
                    return Vec::new();
                }
                let mut found = Vec::new();
                next = None;
                for entry in due.iter().unwrap() {
                    let key = entry.unwrap().0.value();
                    if key.0 > until || found.len() == BATCH {
                        next = Some(key.0);
                        break;
                    }
                    found.push(key);
                }
                found
            })?;
            head = next;
        }
        Ok(())
    }

    fn first(&self) -> Result<Option<i64>, Box<dyn Error>> {
        let txn = self.db.begin_read()?;
        let due = txn.open_table(DUE)?;
        Ok(due.first()?.map(|(key, _)| key.value().0))
    }

    fn wheel(&mut self, handed: &Receiver<Handed>) -> Result<(), Box<dyn Error>> {
        // Hints also wake the store thread, through the channel of what is handed out.
        let hints = HashedWheelTimer::new(Duration::from_millis(1), 4096);
        hints.start()?;
        let (fired, ripe) = mpsc::channel();
        let mut loaded_to = (i64::MIN, 0);
        let mut load_at = now();
        let mut waiting = VecDeque::new();
        let mut acks = Vec::new();
        while self.done < self.total {
            if now() >= load_at {
                // Half a horizon later, the next half.
                let end = now() + HORIZON;
                let txn = self.db.begin_read()?;
                let due = txn.open_table(DUE)?;
                for entry in due.range(loaded_to..(end, 0))? {
                    let (at, id) = entry?.0.value();
                    let fired = fired.clone();
                    let out = self.out.clone();
                    let wait = (at - LEAD / 2 - now()).max(0) as u64;
                    hints.new_timeout(
                        move |_| {
                            let _ = fired.send((at, id));
                            // Wakes the store thread.
                            let _ = out.send((u64::MAX, 0.0));
                        },
                        Duration::from_millis(wait),
                    )?;
                }
                loaded_to = (end, 0);
                load_at = now() + HORIZON / 2;
            }
            let wait = (load_at - now()).clamp(0, 1000) as u64;
            match handed.recv_timeout(Duration::from_millis(wait)) {
                Ok(first) => {
                    for (id, late) in std::iter::once(first).chain(handed.try_iter()) {
                        if id != u64::MAX {
                            acks.push(id);
                            LATENESS.with_borrow_mut(|all| all.push(late));
                        }
                    }
                }
                Err(_) => continue,
            }
            waiting.extend(ripe.try_iter());
            if acks.is_empty() && waiting.is_empty() {
                continue;
            }
            let batch: Vec<_> = waiting.drain(..waiting.len().min(BATCH)).collect();
            self.commit(&mut acks, |_| batch)?;
            if !waiting.is_empty() {
                let _ = self.out.send((u64::MAX, 0.0));
            }
        }
        Ok(())
    }
}
