//! How late calls are, and how many there are a second, beside silent hosts; memory with many jobs pending.
//!
//! ```text
//! cargo build --release -p delay-queue-service --features postgres --bins --examples
//! target/release/examples/figures                       # a file: three minutes
//! target/release/examples/figures --postgres URL        # a database, whose tables it fills
//! target/release/examples/figures --pending 1000000     # memory only
//! ```
//!
//! Jobs are stored before the service is started, each with the time it is due in its payload. Ten receivers answer at once, on connections that they keep; a hundred silent
//! ones accept and never answer, and get 100 jobs a second in all. Lateness is from the due time to the moment in which the receiver has read the request.

use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
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

fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// What the receivers have seen: when each job was due and how late it came, in microseconds.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(u64, u64)>>>);

fn receive(stream: TcpStream, seen: &Seen) -> Option<()> {
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
        let due: u64 = std::str::from_utf8(&body).ok()?.parse().ok()?;
        let late = (now().as_micros() as u64).saturating_sub(due * 1000);
        seen.0.lock().ok()?.push((due, late));
        writer
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            .ok()?;
    }
}

fn receiver(seen: &Seen) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let seen = seen.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let seen = seen.clone();
            thread::spawn(move || receive(stream, &seen));
        }
    });
    Ok(address)
}

/// Where the jobs are.
enum Store {
    File(PathBuf),
    Postgres(String),
}

impl Store {
    fn open(&self) -> Result<DurableTimer> {
        Ok(match self {
            Store::File(path) => DurableTimer::builder().open(path)?,
            #[cfg(feature = "postgres")]
            Store::Postgres(url) => DurableTimer::builder().open_postgres(url)?,
            #[cfg(not(feature = "postgres"))]
            Store::Postgres(_) => return Err("needs the feature `postgres`".into()),
        })
    }

    fn start(&self, args: &[&str]) -> Result<Service> {
        let program = env::current_exe()?;
        let folder = program.parent().and_then(|folder| folder.parent());
        let program = folder.ok_or("no folder")?.join("delay-queue-service");
        let path;
        let place = match self {
            Store::File(file) => {
                path = file.display().to_string();
                ["--file", &path]
            }
            Store::Postgres(url) => ["--postgres", url],
        };
        let mut all = place.to_vec();
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

/// One row: so many jobs due a second, for ten seconds.
fn row(store: &Store, rate: u64, kill: bool, silent: &[String]) -> Result<()> {
    let seen = Seen::default();
    let healthy: Vec<SocketAddr> = (0..HEALTHY)
        .map(|_| receiver(&seen))
        .collect::<Result<_>>()?;
    let count = rate * SECONDS;
    // Time enough to store all of them.
    let begin = now().as_millis() as u64 + 3000 + count / 8;
    let mut jobs: Vec<(String, u64)> = (0..count)
        .map(|number| {
            let host = healthy[number as usize % HEALTHY];
            (format!("http://{host}/"), begin + number * 1000 / rate)
        })
        .collect();
    for number in 0..SECONDS * SILENT as u64 {
        jobs.push((
            silent[number as usize % SILENT].clone(),
            begin + number * 1000 / SILENT as u64,
        ));
    }
    fill(store, &jobs)?;
    if now().as_millis() as u64 + 500 > begin {
        return Err("storing the jobs took too long".into());
    }
    let args = [
        "--rate",
        "100000",
        "--calls-per-host",
        "32",
        "--calls",
        "1000",
        "--attempts",
        "1000",
    ];
    let mut service = store.start(&args)?;
    let mut restarted = 0;
    if kill {
        let half = Duration::from_millis(begin + SECONDS * 500);
        thread::sleep(half.saturating_sub(now()));
        service.kill()?;
        service = store.start(&args)?;
        restarted = now().as_millis() as u64;
    }
    let until = Instant::now() + Duration::from_secs(60);
    let all = loop {
        thread::sleep(Duration::from_millis(200));
        let seen = seen.0.lock().map_err(|_| "poisoned")?.clone();
        let jobs: HashSet<u64> = seen.iter().map(|(due, _)| *due).collect();
        let over = now().as_millis() as u64 > begin + SECONDS * 1000 + 1000;
        if (over && seen.len() as u64 >= count && (rate > 1000 || jobs.len() as u64 == count))
            || Instant::now() > until
        {
            break seen;
        }
    };
    let mut late: Vec<u64> = all
        .iter()
        .filter(|(due, _)| *due >= restarted)
        .map(|(_, late)| *late)
        .collect();
    late.sort_unstable();
    let ends = all.iter().map(|(due, late)| due * 1000 + late);
    let first = all
        .iter()
        .map(|(due, late)| due * 1000 + late)
        .min()
        .unwrap_or(0);
    let took = (ends.max().unwrap_or(0).saturating_sub(first)) as f64 / 1e6;
    let of = if kill { " after kill -9" } else { "" };
    println!(
        "| {rate}{of} | {} of {count} | {:.1} | {:.1} | {:.1} | {:.1} | {:.0} | {:.0} |",
        all.len(),
        at(&late, 0.5),
        at(&late, 0.99),
        at(&late, 0.999),
        at(&late, 1.0),
        all.len() as f64 / took.max(0.001),
        megabytes(service.id(), "VmHWM"),
    );
    // What the silent ones have left is no part of the next row.
    service.kill()?;
    if let Store::File(path) = store {
        fs::remove_file(path)?;
    } else {
        let service = store.start(&["--attempts", "1", "--timeout", "1"])?;
        let patience = Instant::now() + Duration::from_secs(60);
        while service.ask("GET", "/jobs?limit=1", None)?.1["pending"] != 0
            && Instant::now() < patience
        {
            thread::sleep(Duration::from_millis(200));
        }
        service.ask("DELETE", "/dead?all=true", None)?;
    }
    Ok(())
}

fn pending(store: &Store, count: u64) -> Result<()> {
    let far = now().as_millis() as u64 + 86_400_000;
    let jobs: Vec<(String, u64)> = (0..count)
        .map(|number| ("http://127.0.0.1:9/".to_owned(), far + number))
        .collect();
    let began = Instant::now();
    fill(store, &jobs)?;
    println!("{count} jobs stored in {:.1?}", began.elapsed());
    let began = Instant::now();
    let service = store.start(&[])?;
    let opened = began.elapsed();
    thread::sleep(Duration::from_secs(5));
    let idle = megabytes(service.id(), "VmRSS");
    let began = Instant::now();
    let listed = service.ask("GET", "/jobs?limit=100", None)?.1;
    println!(
        "open after {opened:.0?}; {idle:.0} MB resident, {:.0} MB after a list of the first hundred of {}, which took {:.0?}",
        megabytes(service.id(), "VmRSS"),
        listed["pending"],
        began.elapsed()
    );
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let value = |name: &str| {
        let place = args.iter().position(|arg| arg == name)?;
        args.get(place + 1).cloned()
    };
    let folder = env::temp_dir().join(format!("delay-queue-figures-{}", process::id()));
    fs::create_dir_all(&folder)?;
    let store = match value("--postgres") {
        Some(url) => Store::Postgres(url),
        None => Store::File(folder.join("jobs.redb")),
    };
    let result = (|| {
        if let Some(count) = value("--pending") {
            return pending(&store, count.parse()?);
        }
        let listeners: Vec<TcpListener> = (0..SILENT)
            .map(|_| TcpListener::bind("127.0.0.1:0"))
            .collect::<std::io::Result<_>>()?;
        let silent: Vec<String> = listeners
            .iter()
            .map(|listener| Ok(format!("http://{}/", listener.local_addr()?)))
            .collect::<Result<_>>()?;
        println!(
            "| due a second | called | p50 ms late | p99 | p99.9 | most | calls a second | peak MB |\n|---|---|---|---|---|---|---|---|"
        );
        let rates = value("--rates").unwrap_or_else(|| "1,100,10000".to_owned());
        for rate in rates.split(',') {
            row(&store, rate.parse()?, false, &silent)?;
        }
        row(&store, 100, true, &silent)
    })();
    fs::remove_dir_all(&folder)?;
    result
}
