//! Deadlines for many requests, with retries, back-off and jitter: the work a wheel is made for,
//! because nearly every deadline is cancelled long before it is due.
//!
//! Two client threads send requests as fast as a busy gateway would. Each request has one timeout
//! standing for it at any time: the deadline of its attempt, or the pause before the next one. An
//! answer cancels whichever it is. The network between is played by a second timer: it brings an
//! answer after a few milliseconds, loses one request in five hundred, and delays another; a few
//! requests go to a server that is down, and are given up after the last attempt.
//!
//! ```text
//! cargo run --release --example request_deadlines             # five seconds of traffic
//! cargo run --release --example request_deadlines -- --quick  # one second, at a lower rate
//! ```

mod options;

use hashed_wheel::{HashedWheelTimer, Timeout, TimerHandle};
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: request_deadlines [--quick]

Two clients send requests, each with a deadline and retries; nearly every timeout is cancelled by an
answer.

  --quick    for one second instead of five, at a lower rate";

const CLIENTS: u64 = 2;
/// The longest that an attempt may take.
const DEADLINE: Duration = Duration::from_millis(60);
/// The pause before attempt 2; it doubles with each further one, and half of it is chance.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const ATTEMPTS: u32 = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let quick = options::quick(USAGE);
    let (run_for, per_millisecond) = (
        Duration::from_secs(if quick { 1 } else { 5 }),
        if quick { 5 } else { 100 },
    );

    let deadlines = HashedWheelTimer::new(Duration::from_millis(5), 1024);
    let network = HashedWheelTimer::new(Duration::from_millis(1), 512);
    let gateway = Arc::new(Gateway {
        deadlines: deadlines.handle(),
        network: network.handle(),
        tally: Tally::default(),
    });

    println!(
        "{CLIENTS} clients, {} requests a second, {} ms for an attempt, {ATTEMPTS} attempts at most; \
         pending: timeouts, one for each open request\n",
        CLIENTS * per_millisecond * 1000,
        DEADLINE.as_millis()
    );
    println!("  time       sent   answered  timed out    retried   given up    pending");

    let started = Instant::now();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let gateway = &gateway;
            scope.spawn(move || send_requests(gateway, client, started, run_for, per_millisecond));
        }
        let lines = if quick { 4 } else { 10 };
        for line in 1..=lines {
            let at = run_for * line / lines;
            thread::sleep(at.saturating_sub(started.elapsed()));
            gateway.print(started.elapsed(), &deadlines);
        }
    });

    // Every request ends by itself: answered, or given up after its last attempt.
    let patience = Instant::now() + Duration::from_secs(30);
    while gateway.tally.open() > 0 && Instant::now() < patience {
        thread::sleep(Duration::from_millis(10));
    }
    gateway.print(started.elapsed(), &deadlines);

    let left_over = deadlines.stop()?.len();
    network.stop()?;
    let stats = deadlines.stats();
    let (sent, answered, given_up) = (
        gateway.tally.sent.load(Relaxed),
        gateway.tally.answered.load(Relaxed),
        gateway.tally.given_up.load(Relaxed),
    );
    println!(
        "\nevery request accounted for: {sent} sent = {answered} answered + {given_up} given up"
    );
    println!(
        "timeouts: {} scheduled, {} cancelled ({}), {} fired, {left_over} left over",
        stats.scheduled,
        stats.cancelled,
        per_cent(stats.cancelled, stats.scheduled),
        stats.expired
    );
    println!(
        "the timer thread woke up {} times; the latest task ran {:.1} ms after its deadline",
        stats.wakeups,
        stats.max_lateness.as_secs_f64() * 1e3
    );
    if sent != answered + given_up {
        return Err("a request got lost".into());
    }
    Ok(())
}

/// Sends `per_millisecond` requests in each millisecond, until `run_for` is over.
fn send_requests(
    gateway: &Arc<Gateway>,
    client: u64,
    started: Instant,
    run_for: Duration,
    per_millisecond: u64,
) {
    let mut number = 0;
    while started.elapsed() < run_for {
        for _ in 0..per_millisecond {
            number += 1;
            gateway.tally.sent.fetch_add(1, Relaxed);
            let request = Request {
                dice: mix(client << 56 | number),
                standing: Mutex::new(None),
            };
            gateway.attempt(&Arc::new(request), 1);
        }
        let due = Duration::from_millis(number / per_millisecond);
        thread::sleep(due.saturating_sub(started.elapsed()));
    }
}

/// One request, from the first attempt to its end.
struct Request {
    /// Decides its luck, so that two runs send the same requests.
    dice: u64,
    /// The timeout that stands for it: a deadline or a pause. `None` once it has ended.
    standing: Mutex<Option<Timeout>>,
}

struct Gateway {
    deadlines: TimerHandle,
    network: TimerHandle,
    tally: Tally,
}

impl Gateway {
    /// Sets the deadline of attempt `number` and sends it.
    fn attempt(self: &Arc<Self>, request: &Arc<Request>, number: u32) {
        self.stand(request, DEADLINE, move |gateway, request| {
            gateway.tally.timed_out.fetch_add(1, Relaxed);
            if number == ATTEMPTS {
                gateway.tally.given_up.fetch_add(1, Relaxed);
                return;
            }
            gateway.stand(
                request,
                pause_before(number + 1, request.dice),
                move |gateway, request| {
                    gateway.tally.retried.fetch_add(1, Relaxed);
                    gateway.attempt(request, number + 1);
                },
            );
        });
        self.send(request, number);
    }

    /// Makes a new timeout the one that stands for the request.
    ///
    /// The lock is held from the scheduling to the noting down, so that what a task notes down
    /// comes after what the task's own timeout was noted down as, however short the delay. A task
    /// never runs inside `new_timeout`, so this cannot deadlock.
    fn stand<F>(self: &Arc<Self>, request: &Arc<Request>, delay: Duration, then: F)
    where
        F: FnOnce(&Arc<Gateway>, &Arc<Request>) + Send + 'static,
    {
        let mut standing = request
            .standing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let task = {
            let (gateway, request) = (Arc::clone(self), Arc::clone(request));
            move |_: &Timeout| then(&gateway, &request)
        };
        match self.deadlines.new_timeout(task, delay) {
            Ok(timeout) => *standing = Some(timeout),
            Err(rejected) => {
                eprintln!("no deadline, no request: {rejected}");
                self.tally.given_up.fetch_add(1, Relaxed);
            }
        }
    }

    /// An answer has come in. It counts if it stopped the deadline, or the pause before a retry;
    /// `cancel` is true for exactly one of any number of answers.
    fn answered(&self, request: &Request) {
        let standing = request
            .standing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if standing.is_some_and(|timeout| timeout.cancel()) {
            self.tally.answered.fetch_add(1, Relaxed);
        }
    }

    /// The network: most answers take 2 to 20 ms. One request in 500 is lost, one takes 100 ms, and
    /// one in 10 000 goes to a server that is down, whatever the attempt.
    fn send(self: &Arc<Self>, request: &Arc<Request>, attempt: u32) {
        let luck = mix(request.dice ^ u64::from(attempt));
        let latency = match luck % 500 {
            _ if request.dice % 10_000 == 0 => return,
            0 => return,
            1 => Duration::from_millis(100),
            _ => Duration::from_micros(2_000 + mix(luck) % 18_000),
        };
        let (gateway, request) = (Arc::clone(self), Arc::clone(request));
        if let Err(rejected) = self
            .network
            .new_timeout(move |_| gateway.answered(&request), latency)
        {
            eprintln!("the network is down: {rejected}");
        }
    }

    fn print(&self, time: Duration, deadlines: &HashedWheelTimer) {
        let tally = &self.tally;
        println!(
            "{:>5.1} s {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
            time.as_secs_f64(),
            tally.sent.load(Relaxed),
            tally.answered.load(Relaxed),
            tally.timed_out.load(Relaxed),
            tally.retried.load(Relaxed),
            tally.given_up.load(Relaxed),
            deadlines.pending_timeouts()
        );
    }
}

/// Exponential back-off; the second half of the pause is random, so that requests which failed
/// together do not come back together.
fn pause_before(attempt: u32, dice: u64) -> Duration {
    let full = FIRST_PAUSE * 2_u32.pow(attempt - 2);
    let jitter = mix(dice.wrapping_add(u64::from(attempt))) % 1000;
    full / 2 + full / 2 * jitter as u32 / 1000
}

#[derive(Default)]
struct Tally {
    sent: AtomicU64,
    answered: AtomicU64,
    timed_out: AtomicU64,
    retried: AtomicU64,
    given_up: AtomicU64,
}

impl Tally {
    fn open(&self) -> u64 {
        self.sent.load(Relaxed) - self.answered.load(Relaxed) - self.given_up.load(Relaxed)
    }
}

/// `part` of `whole` in per cent, with two decimals.
fn per_cent(part: u64, whole: u64) -> String {
    let hundredths = part * 10_000 / whole.max(1);
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

/// Chance that is the same in every run (the mixing step of `SplitMix64`).
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
