//! Figures for Prometheus, in its text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The upper bounds of the histograms' buckets, in seconds.
const BOUNDS: [f64; 14] = [
    0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
];

#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanos: AtomicU64,
}

impl Histogram {
    pub fn record(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bucket = BOUNDS.partition_point(|bound| *bound < seconds);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    fn write(&self, text: &mut String, name: &str, help: &str) {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} histogram");
        let mut count = 0;
        for (number, bucket) in self.buckets.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            let bound = BOUNDS
                .get(number)
                .map_or("+Inf".to_owned(), ToString::to_string);
            let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {count}");
        }
        let sum = Duration::from_nanos(self.nanos.load(Ordering::Relaxed)).as_secs_f64();
        let _ = writeln!(text, "{name}_sum {sum}\n{name}_count {count}");
    }
}

/// How calls ended.
#[derive(Debug, Default)]
pub struct Calls {
    pub done: AtomicU64,
    pub failed: AtomicU64,
    /// Failed by our own side: not charged.
    pub own: AtomicU64,
    pub dead: AtomicU64,
    /// Not made now, for rate, bound or circuit.
    pub put_off: AtomicU64,
}

/// All that is counted.
#[derive(Debug)]
pub struct Metrics {
    started: SystemTime,
    pub calls: Calls,
    /// From the due time to the beginning of the call, without what was put off by its host's rate or circuit.
    pub lateness: Histogram,
    pub call_duration: Histogram,
    pub request_duration: Histogram,
    pub connections: AtomicUsize,
    /// By method and status.
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            started: SystemTime::now(),
            calls: Calls::default(),
            lateness: Histogram::default(),
            call_duration: Histogram::default(),
            request_duration: Histogram::default(),
            connections: AtomicUsize::new(0),
            requests: Mutex::default(),
        }
    }
}

/// What is known only in the moment of asking.
#[derive(Debug)]
pub struct Now {
    pub pending: Option<u64>,
    pub in_flight: usize,
    pub hosts: usize,
    pub hosts_open: usize,
    pub store_up: bool,
    pub stats: hashed_wheel_durable::Stats,
}

/// Counts one more.
pub fn count(counter: &AtomicU64) {
    // Relaxed: figures for people.
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Metrics {
    pub fn request(&self, method: &axum::http::Method, status: u16, duration: Duration) {
        let method = match method.as_str() {
            "GET" => "GET",
            "HEAD" => "HEAD",
            "POST" => "POST",
            "PATCH" => "PATCH",
            "DELETE" => "DELETE",
            _ => "other",
        };
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((method, status)).or_default() += 1;
        drop(requests);
        self.request_duration.record(duration);
    }

    /// The text that a Prometheus server reads.
    pub fn text(&self, now: &Now) -> String {
        let mut text = Text(String::new());
        self.process(&mut text, now);
        self.jobs(&mut text, now);
        self.http(&mut text);
        text.0
    }

    fn process(&self, text: &mut Text, now: &Now) {
        let version = format!("{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
        text.family(
            "delay_queue_build_info",
            "gauge",
            "The version, as a label.",
            &[(version, 1.0)],
        );
        let started = self.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        text.gauge(
            "process_start_time_seconds",
            "When the process was started, since 1970.",
            started.as_secs_f64(),
        );
        text.gauge(
            "delay_queue_store_up",
            "1 if the store works.",
            f64::from(u8::from(now.store_up)),
        );
        text.counter(
            "delay_queue_store_commits_total",
            "Transactions that were written.",
            now.stats.commits,
        );
    }

    fn jobs(&self, text: &mut Text, now: &Now) {
        if let Some(pending) = now.pending {
            let help = "Stored jobs that are not dead.";
            text.gauge("delay_queue_jobs_pending", help, pending as f64);
        }
        for (name, help, value) in [
            (
                "scheduled",
                "Jobs that were made or replaced.",
                now.stats.scheduled,
            ),
            (
                "cancelled",
                "Jobs that were cancelled.",
                now.stats.cancelled,
            ),
            ("dead", "Jobs that became dead letters.", now.stats.dead),
        ] {
            text.counter(&format!("delay_queue_jobs_{name}_total"), help, value);
        }
        let calls = &self.calls;
        let results = [
            ("done", &calls.done),
            ("failed", &calls.failed),
            ("own_side", &calls.own),
            ("dead", &calls.dead),
            ("put_off", &calls.put_off),
        ]
        .map(|(result, counter)| {
            let value = counter.load(Ordering::Relaxed) as f64;
            (format!("{{result=\"{result}\"}}"), value)
        });
        text.family(
            "delay_queue_calls_total",
            "counter",
            "Jobs that fell due, by what became of it.",
            &results,
        );
        for (name, help, value) in [
            (
                "delay_queue_calls_in_flight",
                "Calls under way.",
                now.in_flight,
            ),
            (
                "delay_queue_hosts",
                "Hosts that were called lately.",
                now.hosts,
            ),
            (
                "delay_queue_hosts_open",
                "Hosts whose circuit is open.",
                now.hosts_open,
            ),
        ] {
            text.gauge(name, help, value as f64);
        }
        self.call_duration.write(
            &mut text.0,
            "delay_queue_call_duration_seconds",
            "How long calls took.",
        );
        self.lateness.write(
            &mut text.0,
            "delay_queue_lateness_seconds",
            "From the due time of a job to its call, where no rate or circuit put it off.",
        );
    }

    fn http(&self, text: &mut Text) {
        text.gauge(
            "delay_queue_connections",
            "Connections of clients.",
            self.connections.load(Ordering::Relaxed) as f64,
        );
        let requests: Vec<(String, f64)> = self
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .map(|((method, code), count)| {
                let labels = format!("{{method=\"{method}\",code=\"{code}\"}}");
                (labels, *count as f64)
            })
            .collect();
        text.family(
            "delay_queue_http_requests_total",
            "counter",
            "Requests, by method and status.",
            &requests,
        );
        self.request_duration.write(
            &mut text.0,
            "delay_queue_http_request_duration_seconds",
            "How long requests took.",
        );
    }
}

/// The text as it grows.
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str, samples: &[(String, f64)]) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(self.0, "{name}{labels} {value}");
        }
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.family(name, "gauge", help, &[(String::new(), value)]);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", help, &[(String::new(), value as f64)]);
    }
}
