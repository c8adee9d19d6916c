//! How late calls are, and how many there are a second, beside silent hosts; memory with many jobs pending.
//!
//! ```text
//! cargo build --release -p delay-queue-service --features postgres --bins --examples && target/release/examples/figures
//! target/release/examples/figures --store file --rates 1,100    # some of it
//! ```
//!
//! All of it takes five minutes: each row with a file and with a PostgreSQL server of its own, both in the temporary folder.
//!
//! Jobs are stored before the service is started, each with the time it is due in its payload. Ten receivers answer at once, on connections that they keep; a hundred silent
//! ones accept and never answer, and get 100 jobs a second in all. In the row in which they fall silent they answer at first, and get 3000; the bounds of calls are the
//! defaults there. Lateness is from the due time to the moment in which the receiver has read the request; after an event, of the jobs due since.

#[cfg(feature = "postgres")]
#[path = "../../tests/common/server.rs"]
mod server;

use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs, process, thread};

use delay_queue_service::harness::Service;
use delay_queue_service::queue::Envelope;
use hashed_wheel_durable::DurableTimer;
use serde_json::value::RawValue;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const HEALTHY: usize = 10;
const SILENT: usize = 100;
const SECONDS: u64 = 10;

/// When something happens in a row, in milliseconds after its first job is due.
const EVENT: u64 = 3000;

/// How long a call waits for an answer in the row in which hosts fall silent: it has to see what happens then.
const TIMEOUT: &str = "3000";

const PENDING: u64 = 1_000_000;

fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// What the receivers have seen: when each job was due and how late it came, in microseconds.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(u64, u64)>>>);

/// Answers what comes on a connection until this time, and then no more.
fn receive(stream: TcpStream, seen: &Seen, until: Duration) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    loop {
        let mut length = 0;
        loop {
            line.clear();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let text = line.trim_end();
            if text.is_empty() {
                break;
            }
            if let Some(value) = text.strip_prefix("content-length: ") {
                length = value.parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        if now() >= until {
            continue;
        }
        let due: u64 = std::str::from_utf8(&body).ok()?.parse().ok()?;
        let late = (now().as_micros() as u64).saturating_sub(due * 1000);
        seen.0.lock().ok()?.push((due, late));
        writer
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            .ok()?;
    }
}

/// Starts so many receivers. Their addresses.
fn receivers(many: usize, seen: &Seen, until: Duration) -> Result<Vec<String>> {
    let receiver = |_| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}/", listener.local_addr()?);
        let seen = seen.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = seen.clone();
                thread::spawn(move || receive(stream, &seen, until));
            }
        });
        Ok(url)
    };
    (0..many).map(receiver).collect()
}

/// Where the jobs of a row are. It is empty at first.
enum Store {
    File(PathBuf),
    #[cfg(feature = "postgres")]
    Postgres(server::Server),
}

impl Store {
    /// `None`: there is no PostgreSQL, and a line has said so.
    fn new(kind: &str, folder: &Path) -> Result<Option<Store>> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Ok(match kind {
            "file" => Some(Store::File(folder.join(format!("{number}.redb")))),
            #[cfg(feature = "postgres")]
            "postgres" => server::Server::start().map(Store::Postgres),
            #[cfg(not(feature = "postgres"))]
            "postgres" => {
                eprintln!("PostgreSQL needs the feature `postgres`");
                None
            }
            _ => return Err(format!("--store is {kind:?}: it must be file or postgres").into()),
        })
    }

    fn open(&self) -> Result<DurableTimer> {
        Ok(match self {
            Store::File(path) => DurableTimer::builder().open(path)?,
            #[cfg(feature = "postgres")]
            Store::Postgres(server) => DurableTimer::builder().open_postgres(&server.url())?,
        })
    }

    fn start(&self, args: &[&str]) -> Result<Service> {
        let program = env::current_exe()?;
        let folder = program.parent().and_then(|folder| folder.parent());
        let program = folder.ok_or("no folder")?.join("delay-queue-service");
        let (option, place) = match self {
            Store::File(file) => ("--file", file.display().to_string()),
            #[cfg(feature = "postgres")]
            Store::Postgres(server) => ("--postgres", server.url()),
        };
        let mut all = vec![option, &place];
        all.extend(args);
        Service::start(&program, &all)
    }
}

/// Stores jobs, each with its address and due time.
fn fill(store: &Store, jobs: &[(String, u64)]) -> Result<()> {
    let timer = store.open()?;
    for part in jobs.chunks(10_000) {
        let new = part.iter().map(|(callback, due)| {
            let payload = RawValue::from_string(due.to_string())?;
            let envelope = Envelope::new(callback.clone(), BTreeMap::new(), payload);
            let job = timer.job("call").payload(envelope.encode());
            Ok(job.due_at(UNIX_EPOCH + Duration::from_millis(*due)))
        });
        timer.schedule_all(new.collect::<Result<Vec<_>>>()?)?;
    }
    timer.stop()?;
    Ok(())
}

/// A line of `/proc/PID/status`, in megabytes.
fn megabytes(id: u32, name: &str) -> f64 {
    let text = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) / 1024.0
}

fn at(sorted: &[u64], part: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let index = (last as f64 * part).round() as usize;
    sorted
        .get(index)
        .map_or(f64::NAN, |micros| *micros as f64 / 1000.0)
}

/// What happens in a row.
#[derive(Clone, Copy, PartialEq)]
enum Event {
    Nothing,
    /// `kill -9`, and a new start.
    Kill,
    /// The silent hosts answer until then.
    FallSilent,
}

/// One row: so many jobs due a second, for ten seconds.
fn row(store: &Store, kind: &str, rate: u64, event: Event) -> Result<()> {
    let count = rate * SECONDS;
    let silent_rate = if event == Event::FallSilent {
        3000
    } else {
        100
    };
    // Time enough to store all of them, and to start.
    let all = count + silent_rate * SECONDS;
    let begin = now().as_millis() as u64 + 4000 + all / 4;
    let happens = Duration::from_millis(begin + EVENT);
    let seen = Seen::default();
    let healthy = receivers(HEALTHY, &seen, Duration::MAX)?;
    let until = if event == Event::FallSilent {
        happens
    } else {
        Duration::ZERO
    };
    let silent = receivers(SILENT, &Seen::default(), until)?;
    let due = |hosts: &[String], rate: u64, number: u64| {
        let host = hosts[number as usize % hosts.len()].clone();
        (host, begin + number * 1000 / rate)
    };
    let mut jobs: Vec<(String, u64)> = (0..count)
        .map(|number| due(&healthy, rate, number))
        .collect();
    jobs.extend((0..silent_rate * SECONDS).map(|number| due(&silent, silent_rate, number)));
    fill(store, &jobs)?;
    if now().as_millis() as u64 + 500 > begin {
        return Err("storing the jobs took too long".into());
    }
    let mut args = vec!["--rate", "100000", "--attempts", "1000"];
    if event == Event::FallSilent {
        args.extend(["--timeout", TIMEOUT]);
    } else {
        args.extend(["--calls-per-host", "32", "--calls", "1000"]);
    }
    let mut service = store.start(&args)?;
    let mut since = 0;
    if event != Event::Nothing {
        thread::sleep(happens.saturating_sub(now()));
        if event == Event::Kill {
            service.kill()?;
            service = store.start(&args)?;
        }
        since = now().as_millis() as u64;
    }
    let patience = Instant::now() + Duration::from_secs(75);
    let calls = loop {
        thread::sleep(Duration::from_millis(200));
        let calls = seen.0.lock().map_err(|_| "poisoned")?.clone();
        let over = now().as_millis() as u64 > begin + (SECONDS + 1) * 1000;
        // After a kill some come twice.
        let different = || {
            calls
                .iter()
                .map(|(due, _)| *due)
                .collect::<HashSet<_>>()
                .len() as u64
        };
        if (over && calls.len() as u64 >= count && (rate > 1000 || different() == count))
            || Instant::now() > patience
        {
            break calls;
        }
    };
    let mut late: Vec<u64> = calls
        .iter()
        .filter(|(due, _)| *due >= since)
        .map(|(_, late)| *late)
        .collect();
    late.sort_unstable();
    let came = calls.iter().map(|(due, late)| due * 1000 + late);
    let took = came.clone().max().unwrap_or(0) - came.min().unwrap_or(0);
    let of = match event {
        Event::Nothing => "",
        Event::Kill => ", after `kill -9`",
        Event::FallSilent => ", after the 100 fell silent",
    };
    println!(
        "| {rate}{of} | {kind} | {} of {count} | {:.1} | {:.1} | {:.1} | {:.1} | {:.0} | {:.0} |",
        calls.len(),
        at(&late, 0.5),
        at(&late, 0.99),
        at(&late, 0.999),
        at(&late, 1.0),
        calls.len() as f64 * 1e6 / took.max(1) as f64,
        megabytes(service.id(), "VmHWM"),
    );
    Ok(())
}

fn pending(store: &Store, kind: &str) -> Result<()> {
    let far = now().as_millis() as u64 + 86_400_000;
    let jobs: Vec<(String, u64)> = (0..PENDING)
        .map(|number| ("http://127.0.0.1:9/".to_owned(), far + number))
        .collect();
    let began = Instant::now();
    fill(store, &jobs)?;
    let stored = began.elapsed();
    let began = Instant::now();
    let service = store.start(&[])?;
    let opened = began.elapsed();
    thread::sleep(Duration::from_secs(5));
    let idle = megabytes(service.id(), "VmRSS");
    let began = Instant::now();
    let listed = service.ask("GET", "/jobs?limit=100", None)?.1;
    println!(
        "{kind}, {} pending (stored in {stored:.0?}, opened in {opened:.0?}): {idle:.0} MB resident, {:.0} MB after a list of the first hundred, which took {:.0?}",
        listed["pending"],
        megabytes(service.id(), "VmRSS"),
        began.elapsed()
    );
    Ok(())
}

fn measure(folder: &Path, stores: &[&str], rates: &[u64]) -> Result<()> {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load {}", load.trim());
    println!(
        "| due a second | store | called | p50 ms late | p99 | p99.9 | most | calls a second | peak MB |\n|---|---|---|---|---|---|---|---|---|"
    );
    let plain = rates.iter().map(|rate| (*rate, Event::Nothing));
    let events = [(100, Event::Kill), (100, Event::FallSilent)];
    for (rate, event) in plain.chain(events) {
        for kind in stores {
            if let Some(store) = Store::new(kind, folder)? {
                row(&store, kind, rate, event)?;
            }
        }
    }
    for kind in stores {
        if let Some(store) = Store::new(kind, folder)? {
            pending(&store, kind)?;
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let value = |name: &str| {
        let place = args.iter().position(|arg| arg == name)?;
        args.get(place + 1).map(String::as_str)
    };
    let stores = match value("--store") {
        Some(kind) => vec![kind],
        None => vec!["file", "postgres"],
    };
    let rates = value("--rates").unwrap_or("1,100,10000").split(',');
    let rates = rates
        .map(str::parse)
        .collect::<std::result::Result<Vec<u64>, _>>()?;
    let folder = env::temp_dir().join(format!("delay-queue-figures-{}", process::id()));
    fs::create_dir_all(&folder)?;
    let result = measure(&folder, &stores, &rates);
    fs::remove_dir_all(&folder)?;
    result
}
