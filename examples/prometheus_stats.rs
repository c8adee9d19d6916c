//! The timer's counters as Prometheus text, served over HTTP on loopback.
//!
//! A timer is kept busy, and this program scrapes itself as Prometheus would: `GET /metrics`, a few
//! times. `stats()` is a snapshot of counters, so a scrape does not hold up the timer.
//!
//! ```text
//! cargo run --example prometheus_stats                 three scrapes in three seconds
//! cargo run --example prometheus_stats -- --port 9100  the same, on a port of your choice
//! cargo run --example prometheus_stats -- --quick      three scrapes in half a second
//! ```

use hashed_wheel::{HashedWheelTimer, Period, Stats, Timeout, TimerHandle};
use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

const USAGE: &str = "usage: prometheus_stats [--quick] [--port PORT]";

const SCRAPES: u32 = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let (quick, port) = options();
    let pause = Duration::from_millis(if quick { 150 } else { 1000 });

    let timer = HashedWheelTimer::builder()
        .tick_duration(Duration::from_millis(10))
        .ticks_per_wheel(512)
        .max_pending_timeouts(5_000)
        .build()?;
    keep_busy(&timer)?;

    let listener = TcpListener::bind(("127.0.0.1", port))?;
    let address = listener.local_addr()?;
    println!("serving http://{address}/metrics\n");
    let handle = timer.handle();
    thread::spawn(move || {
        for stream in listener.incoming() {
            if let Err(error) = stream.and_then(|stream| serve(&stream, &handle)) {
                eprintln!("a scrape failed: {error}");
            }
        }
    });

    let mut last = String::new();
    for scrape in 1..=SCRAPES {
        thread::sleep(pause);
        last = get(address, "/metrics")?;
        let lines = last.lines().filter(|line| !line.starts_with('#'));
        println!("scrape {scrape}: {} samples", lines.count());
    }
    println!("\nthe last one:\n\n{last}");
    timer.stop()?;
    Ok(())
}

/// Something to count: requests of which most are answered, a heartbeat, a limit that is hit.
fn keep_busy(timer: &HashedWheelTimer) -> Result<(), Box<dyn Error>> {
    let handle = timer.handle();
    let requests = move |_: &Timeout| {
        for number in 0..200 {
            let answered = number % 50 != 0;
            // `Err` when the limit is reached: the counter `rejected` shows it.
            if let Ok(deadline) = handle.new_timeout(|_| {}, Duration::from_millis(300)) {
                if answered {
                    deadline.cancel();
                }
            }
        }
    };
    timer.new_periodic(
        requests,
        Duration::ZERO,
        Period::FixedRate(Duration::from_millis(20)),
    )?;
    for _ in 0..4_900 {
        timer.new_timeout(|_| {}, Duration::from_secs(3600))?;
    }
    // A burst that does not quite fit: what is refused comes back in the error, here unused.
    for _ in 0..150 {
        drop(timer.new_timeout(|_| {}, Duration::from_millis(100)));
    }
    Ok(())
}

/// One metric: its name, what Prometheus calls its type, what it means, its value.
type Metric = (&'static str, &'static str, &'static str, String);

/// The text format: <https://prometheus.io/docs/instrumenting/exposition_formats/>.
fn render(timer: &str, stats: &Stats) -> String {
    let counter = |name, help, value: u64| -> Metric { (name, "counter", help, value.to_string()) };
    let gauge = |name, help, value: u64| -> Metric { (name, "gauge", help, value.to_string()) };
    let seconds = |name, help, value: Duration| -> Metric {
        (name, "gauge", help, format!("{:.9}", value.as_secs_f64()))
    };
    let metrics = [
        counter("scheduled_total", "Timeouts accepted.", stats.scheduled),
        counter("expired_total", "Timeouts fired.", stats.expired),
        counter(
            "cancelled_total",
            "Timeouts cancelled before they were due.",
            stats.cancelled,
        ),
        counter(
            "rejected_total",
            "Timeouts refused: limit, stopped, no thread.",
            stats.rejected,
        ),
        counter(
            "unprocessed_total",
            "Timeouts returned or dropped by stop.",
            stats.unprocessed,
        ),
        counter("panicked_total", "Panics caught in tasks.", stats.panicked),
        counter(
            "periodic_runs_total",
            "Runs of periodic tasks.",
            stats.periodic_runs,
        ),
        counter(
            "dropped_jobs_total",
            "Jobs an executor dropped unrun.",
            stats.dropped_jobs,
        ),
        counter(
            "wakeups_total",
            "Wake-ups of the timer thread.",
            stats.wakeups,
        ),
        counter(
            "transferred_total",
            "Entries moved from the queue to the wheel.",
            stats.transferred,
        ),
        counter(
            "bucket_visits_total",
            "Buckets looked into.",
            stats.bucket_visits,
        ),
        counter(
            "passed_over_total",
            "Entries met that were not due.",
            stats.passed_over,
        ),
        counter(
            "cascaded_total",
            "Entries moved to a lower level.",
            stats.cascaded,
        ),
        gauge("pending", "Timeouts waiting.", stats.pending),
        gauge("levels", "Levels of the wheel.", stats.levels),
        seconds(
            "longest_task_seconds",
            "The longest task so far.",
            stats.longest_task,
        ),
        seconds(
            "max_lateness_seconds",
            "The latest start of a task so far.",
            stats.max_lateness,
        ),
    ];
    let mut text = String::new();
    for (name, kind, help, value) in metrics {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "# HELP hashed_wheel_{name} {help}");
        let _ = writeln!(text, "# TYPE hashed_wheel_{name} {kind}");
        let _ = writeln!(text, "hashed_wheel_{name}{{timer=\"{timer}\"}} {value}");
    }
    text
}

/// Answers one request. The handle stays valid when the timer is gone: it then gives the last
/// figures.
fn serve(mut stream: &TcpStream, timer: &TimerHandle) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    while lines
        .next()
        .transpose()?
        .is_some_and(|line| !line.is_empty())
    {}
    let (status, body) = if request.starts_with("GET /metrics ") {
        ("200 OK", render("requests", &timer.stats()))
    } else {
        ("404 Not Found", "only /metrics is here\n".to_owned())
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// What Prometheus does.
fn get(address: SocketAddr, path: &str) -> Result<String, Box<dyn Error>> {
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("not an HTTP answer")?;
    if !head.starts_with("HTTP/1.1 200 ") {
        return Err(format!("refused: {head}").into());
    }
    Ok(body.to_owned())
}

/// Reads the options: short form or not, and the port (0: any).
fn options() -> (bool, u16) {
    let (mut quick, mut port) = (false, 0);
    let mut options = std::env::args().skip(1);
    while let Some(option) = options.next() {
        match option.as_str() {
            "--quick" => quick = true,
            "--port" => {
                let number = options.next().and_then(|number| number.parse().ok());
                port = number.unwrap_or_else(|| usage("--port wants a number up to 65535"));
            }
            "--help" | "-h" => {
                println!("{USAGE}");
                std::process::exit(0);
            }
            _ => usage(&format!("unknown option `{option}`")),
        }
    }
    (quick, port)
}

fn usage(mistake: &str) -> ! {
    eprintln!("{mistake}\n{USAGE}");
    std::process::exit(2);
}
