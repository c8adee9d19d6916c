//! The timer's counters as Prometheus text, served over HTTP on loopback.
//!
//! A timer is kept busy, and this program scrapes itself as Prometheus would: `GET /metrics`, a few
//! times. `stats()` is a snapshot of counters, so a scrape does not hold up the timer.
//!
//! ```text
//! cargo run --example prometheus_stats                 # three scrapes in three seconds
//! cargo run --example prometheus_stats -- --port 9100  # the same, on a port of your choice
//! cargo run --example prometheus_stats -- --quick      # three scrapes in half a second
//! ```

use hashed_wheel::{HashedWheelTimer, Period, Stats, Timeout, TimerHandle};
use std::error::Error;
use std::fmt::{Display, Write as _};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

const USAGE: &str = "\
usage: prometheus_stats [--quick] [--port PORT]

Serves the counters of a busy timer as Prometheus text on loopback, and reads them three times itself.

  --port PORT    a port of your choice instead of any that is free
  --quick        in half a second instead of three";

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
    println!("a timer is kept busy; its counters are at http://{address}/metrics\n");
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
    let period = Period::FixedRate(Duration::from_millis(20));
    timer.new_periodic(requests, Duration::ZERO, period)?;
    for _ in 0..4_900 {
        timer.new_timeout(|_| {}, Duration::from_secs(3600))?;
    }
    // A burst that does not quite fit: what is refused comes back in the error, here unused.
    for _ in 0..150 {
        drop(timer.new_timeout(|_| {}, Duration::from_millis(100)));
    }
    Ok(())
}

/// The text format: <https://prometheus.io/docs/instrumenting/exposition_formats/>.
fn render(timer: &str, stats: &Stats) -> String {
    // Counters: Prometheus makes rates of them.
    let counters = [
        ("scheduled", "Timeouts taken.", stats.scheduled),
        ("expired", "Timeouts fired.", stats.expired),
        ("cancelled", "Timeouts cancelled.", stats.cancelled),
        ("rejected", "Timeouts refused.", stats.rejected),
        (
            "unprocessed",
            "Timeouts pending at stop.",
            stats.unprocessed,
        ),
        ("periodic_runs", "Periodic runs.", stats.periodic_runs),
        ("panicked", "Panics caught.", stats.panicked),
        ("dropped_jobs", "Jobs dropped unrun.", stats.dropped_jobs),
        ("slow_tasks", "Runs longer than a tick.", stats.slow_tasks),
        ("wakeups", "Wake-ups of the thread.", stats.wakeups),
        ("transferred", "Entries filed.", stats.transferred),
        ("bucket_visits", "Buckets looked into.", stats.bucket_visits),
        ("passed_over", "Entries met too early.", stats.passed_over),
        ("cascaded", "Entries moved down.", stats.cascaded),
        ("swept", "Dead entries swept out.", stats.swept),
    ];
    // Gauges.
    let gauges = [
        ("pending", "Timeouts waiting.", stats.pending),
        ("queued", "Entries not filed yet.", stats.queued),
        ("filed", "Entries in the wheel.", stats.filed),
        ("dead", "Entries of no use.", stats.dead),
        ("bytes", "Bytes held.", stats.bytes),
        ("levels", "Levels of the wheel.", stats.levels),
    ];
    let longest = stats.longest_task.as_secs_f64();

    let mut page = Page {
        timer,
        text: String::new(),
    };
    for (name, help, value) in counters {
        page.metric(&format!("{name}_total"), "counter", help);
        page.sample(&format!("{name}_total"), "", value);
    }
    for (name, help, value) in gauges {
        page.metric(name, "gauge", help);
        page.sample(name, "", value);
    }
    page.metric(
        "longest_task_seconds",
        "gauge",
        "The longest run of a task.",
    );
    page.sample("longest_task_seconds", "", longest);
    page.lateness(stats);
    page.text
}

struct Page<'a> {
    timer: &'a str,
    text: String,
}

impl Page<'_> {
    // Writing to a `String` cannot fail.
    fn metric(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP hashed_wheel_{name} {help}");
        let _ = writeln!(self.text, "# TYPE hashed_wheel_{name} {kind}");
    }

    fn sample(&mut self, name: &str, label: &str, value: impl Display) {
        let timer = self.timer;
        let _ = writeln!(
            self.text,
            "hashed_wheel_{name}{{timer=\"{timer}\"{label}}} {value}"
        );
    }

    /// The lateness of tasks, as a histogram. Prometheus wants the same bounds in every scrape and
    /// counts from below; the timer's own buckets are finer.
    fn lateness(&mut self, stats: &Stats) {
        let name = "lateness_seconds";
        self.metric(name, "histogram", "From a task's deadline to its start.");
        for milliseconds in [1, 2, 5, 10, 20, 50, 100, 1000] {
            let bound = Duration::from_millis(milliseconds);
            let within = stats
                .lateness
                .buckets()
                .filter(|(latest, _)| *latest <= bound);
            let runs: u64 = within.map(|(_, runs)| runs).sum();
            self.sample(
                &format!("{name}_bucket"),
                &format!(",le=\"{}\"", bound.as_secs_f64()),
                runs,
            );
        }
        self.sample(
            &format!("{name}_bucket"),
            ",le=\"+Inf\"",
            stats.lateness.count(),
        );
        self.sample(&format!("{name}_count"), "", stats.lateness.count());
    }
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

/// A scrape, as Prometheus does it.
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
