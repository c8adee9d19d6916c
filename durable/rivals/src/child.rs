//! One measurement of one contestant, in a process of its own:
//!
//! ```text
//! child NAME STORE LOG late COUNT              # prints how late each was, in microseconds
//! child NAME STORE LOG store COUNT CALLERS     # prints jobs stored, and the microseconds it took
//! child NAME STORE LOG pass COUNT CALLERS      # as `store`, with the jobs run meanwhile, until all have run
//! child NAME STORE LOG fire COUNT              # prints jobs run, and the microseconds it took
//! child NAME STORE LOG both FIRST HANDLER_MS   # stores and runs until it is killed
//! child NAME STORE LOG work HANDLER_MS         # runs until it is killed
//! ```
//!
//! The log has a line for every job that was acknowledged (`stored ID`), and for every run that came to its end (`ran ID`).

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use crate::contestant::{
    ApalisPostgres, ApalisSqlite, Awa, Contestant, Fang, Graphile, Own, Result,
};

/// A rate is measured for so long at most.
const MOST: Duration = Duration::from_secs(6);

/// Lateness is measured with as many jobs as fit into this time, and one at least.
const LATE: Duration = Duration::from_secs(75);

static LOG: OnceLock<Mutex<File>> = OnceLock::new();
static RAN: AtomicU64 = AtomicU64::new(0);
static LAST: Mutex<Option<(u64, SystemTime)>> = Mutex::new(None);
static HANDLER_MS: AtomicU64 = AtomicU64::new(0);

/// What every handler does.
pub(crate) fn handle(id: u64) {
    *LAST.lock().unwrap() = Some((id, SystemTime::now()));
    let millis = HANDLER_MS.load(Ordering::SeqCst);
    if millis > 0 {
        std::thread::sleep(Duration::from_millis(millis));
    }
    // At its end: what is killed before it has to run again.
    note("ran", id);
    RAN.fetch_add(1, Ordering::SeqCst);
}

/// One write: a kill leaves the whole line or nothing of it.
fn note(what: &str, id: u64) {
    if let Some(log) = LOG.get() {
        let _ = log
            .lock()
            .unwrap()
            .write_all(format!("{what} {id}\n").as_bytes());
    }
}

pub(crate) fn run(args: &[String]) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let [name, store, log, what, numbers @ ..] = args else {
        return Err("child NAME STORE LOG WHAT NUMBER...".into());
    };
    if !log.is_empty() {
        let file = OpenOptions::new().create(true).append(true).open(log)?;
        let _ = LOG.set(Mutex::new(file));
    }
    let numbers: Vec<u64> = numbers
        .iter()
        .map(|text| text.parse())
        .collect::<std::result::Result<_, _>>()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(8)
        .enable_all()
        .build()?;
    runtime
        .block_on(async {
            match name.as_str() {
                "own" | "own-pg" => measure::<Own>(store, what, &numbers).await,
                "apalis-sqlite" => measure::<ApalisSqlite<false>>(store, what, &numbers).await,
                "apalis-sqlite-poll" => measure::<ApalisSqlite<true>>(store, what, &numbers).await,
                "apalis-pg" => measure::<ApalisPostgres<false>>(store, what, &numbers).await,
                "apalis-pg-poll" => measure::<ApalisPostgres<true>>(store, what, &numbers).await,
                "fang" => measure::<Fang>(store, what, &numbers).await,
                "graphile" => measure::<Graphile<false>>(store, what, &numbers).await,
                "graphile-load" => measure::<Graphile<true>>(store, what, &numbers).await,
                "awa" => measure::<Awa>(store, what, &numbers).await,
                other => Err(format!("no contestant {other}").into()),
            }
        })
        .map_err(|error| error.to_string())?;
    // Whatever still runs.
    std::process::exit(0);
}

async fn measure<C: Contestant>(store: &str, what: &str, numbers: &[u64]) -> Result<()> {
    match (what, numbers) {
        ("late", [count]) => late::<C>(store, *count).await,
        ("store", [count, callers]) => store_many::<C>(store, *count, *callers, false).await,
        ("pass", [count, callers]) => store_many::<C>(store, *count, *callers, true).await,
        ("fire", [count]) => fire::<C>(store, *count).await,
        ("both", [first, handler]) => both::<C>(store, *first, *handler).await,
        ("work", [handler]) => {
            HANDLER_MS.store(*handler, Ordering::SeqCst);
            let _open = C::open(store, true).await?;
            println!("open");
            std::future::pending().await
        }
        _ => Err(format!("child: {what} {numbers:?}").into()),
    }
}

/// One job at a time, due in one to two seconds, on a store that is idle otherwise.
async fn late<C: Contestant>(store: &str, count: u64) -> Result<()> {
    let contestant = C::open(store, true).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begin = Instant::now();
    for id in 1..=count {
        if id > 1 && begin.elapsed() > LATE {
            break;
        }
        // Spread over the second, so that no poll meets them all.
        let delay = Duration::from_millis(1000 + id * 377 % 1000);
        let due = SystemTime::now() + delay;
        contestant.schedule(id, delay).await?;
        let patience = Instant::now() + delay + LATE;
        let ran = loop {
            match *LAST.lock().unwrap() {
                Some((last, time)) if last == id => break Some(time),
                _ if Instant::now() > patience => break None,
                _ => {}
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        };
        match ran {
            None => println!("late never"),
            Some(time) => {
                let late = match time.duration_since(due) {
                    Ok(late) => late.as_micros() as i64,
                    Err(early) => -(early.duration().as_micros() as i64),
                };
                println!("late {late}");
            }
        }
    }
    Ok(())
}

async fn store_many<C: Contestant>(
    store: &str,
    count: u64,
    callers: u64,
    work: bool,
) -> Result<()> {
    let contestant = Arc::new(C::open(store, work).await?);
    let next = Arc::new(AtomicU64::new(0));
    let stored = Arc::new(AtomicU64::new(0));
    let begin = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..callers {
        let (contestant, next, stored) = (
            Arc::clone(&contestant),
            Arc::clone(&next),
            Arc::clone(&stored),
        );
        tasks.push(tokio::spawn(async move {
            while begin.elapsed() < MOST {
                let id = next.fetch_add(1, Ordering::SeqCst);
                if id >= count {
                    break;
                }
                contestant.schedule(id, Duration::ZERO).await?;
                stored.fetch_add(1, Ordering::SeqCst);
            }
            Result::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    let mut done = stored.load(Ordering::SeqCst);
    if work {
        while RAN.load(Ordering::SeqCst) < done && begin.elapsed() < 2 * MOST {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        done = RAN.load(Ordering::SeqCst);
    }
    println!("stored {done} {}", begin.elapsed().as_micros());
    Ok(())
}

async fn fire<C: Contestant>(store: &str, count: u64) -> Result<()> {
    let begin = Instant::now();
    let _contestant = C::open(store, true).await?;
    while RAN.load(Ordering::SeqCst) < count && begin.elapsed() < MOST {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    println!(
        "fired {} {}",
        RAN.load(Ordering::SeqCst),
        begin.elapsed().as_micros()
    );
    Ok(())
}

/// Stores a job every ten milliseconds, due in up to half a second, and runs them.
async fn both<C: Contestant>(store: &str, first: u64, handler: u64) -> Result<()> {
    HANDLER_MS.store(handler, Ordering::SeqCst);
    let contestant = C::open(store, true).await?;
    println!("open");
    for id in first.. {
        contestant
            .schedule(id, Duration::from_millis(id * 37 % 500))
            .await?;
        note("stored", id);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}
