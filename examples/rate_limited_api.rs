//! Calls to an interface that allows so many a second: each call is given the next free moment and
//! a timeout that makes it then. Nothing is dropped, nobody waits in a thread, and each customer's
//! calls are made in the order they were asked for.
//!
//! The calls themselves are slow, so they must not run on the timer's thread, where they would hold
//! up every other timeout: an executor hands them to a thread of its own. That thread also keeps
//! the limit when the plan does not: a timer that was held up, by a busy machine or a closed
//! laptop, catches up at once, and what then comes out in a burst must wait a little longer.
//!
//! ```text
//! cargo run --example rate_limited_api             # about six seconds
//! cargo run --example rate_limited_api -- --quick  # about one second
//! ```

mod options;

use hashed_wheel::{HashedWheelTimer, Job, TimerHandle};
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: rate_limited_api [--quick]

Four customers throw their calls in at once; each call gets a moment of its own, so that the limit is
kept, in order and with none dropped.

  --quick    with fewer calls, in half a second instead of six";

/// The calls that the interface allows in any one second.
const ALLOWED: u32 = 100;
/// The calls that are planned for. The rest is slack: it lets the calls catch up with the plan when they were
/// held up.
const PLANNED: u32 = 95;
/// The callers, with their number of calls at once.
const BURSTS: [(&str, u32); 4] = [("acme", 40), ("bits", 25), ("cogs", 60), ("dyna", 15)];

fn main() -> Result<(), Box<dyn Error>> {
    let quick = options::quick(USAGE);
    let rounds = if quick { 1 } else { 4 };
    let share = if quick { 4 } else { 1 };
    let started = Instant::now();

    let api = Arc::new(Api {
        started,
        free_from: Mutex::new(started),
        calls: Mutex::default(),
    });

    // The executor: a channel to one thread, so the calls stay in order.
    let (sender, jobs) = mpsc::channel::<Job>();
    let caller = thread::Builder::new()
        .name("caller".into())
        .spawn(move || {
            for job in jobs {
                job();
            }
        })?;
    let timer = HashedWheelTimer::builder()
        .tick_duration(Duration::from_millis(2))
        .ticks_per_wheel(1024)
        .executor(move |job| {
            // The caller's thread ends only after the last sender is gone. Were it gone already,
            // the job would be dropped and counted in `stats().dropped_jobs`.
            let _ = sender.send(job);
        })
        .build()?;
    let limiter = Arc::new(Limiter {
        timer: timer.handle(),
        spacing: Duration::from_secs(1) / PLANNED,
        next: Mutex::new(started),
    });

    println!(
        "the interface allows {ALLOWED} calls a second; {PLANNED} are planned, the rest is slack\n"
    );
    let mut asked = 0;
    let total: u32 = BURSTS.iter().map(|(_, calls)| calls / share * rounds).sum();
    for round in 1..=rounds {
        // Each customer is a thread that throws all its calls in at once.
        thread::scope(|scope| {
            for (customer, calls) in BURSTS {
                let (limiter, api) = (&limiter, &api);
                scope.spawn(move || {
                    for number in 1..=calls / share {
                        limiter.call(api, customer, (round - 1) * (calls / share) + number);
                    }
                });
            }
        });
        asked += BURSTS.iter().map(|(_, calls)| calls / share).sum::<u32>();
        println!(
            "{:>6.2} s  {asked} calls asked for, {} made, {} waiting",
            started.elapsed().as_secs_f64(),
            api.made(),
            timer.pending_timeouts()
        );
        thread::sleep(Duration::from_millis(if quick { 100 } else { 700 }));
    }

    // At this rate the last call has its moment; wait for it, with a generous margin.
    let patience = limiter.last_moment() + Duration::from_secs(10);
    while api.made() < total as usize && Instant::now() < patience {
        thread::sleep(Duration::from_millis(if quick { 50 } else { 500 }));
        println!(
            "{:>6.2} s  {} of {total} made",
            started.elapsed().as_secs_f64(),
            api.made()
        );
    }

    let left_over = timer.stop()?.len();
    let lateness = timer.stats().max_lateness;
    drop((limiter, timer));
    caller.join().map_err(|_| "the caller's thread panicked")?;

    let calls = std::mem::take(&mut *api.calls.lock().unwrap_or_else(PoisonError::into_inner));
    print_by_second(&calls);
    print_by_customer(&calls);
    println!(
        "\n{} of {total} calls made, {left_over} left over; busiest second: {} of {ALLOWED} allowed; the latest task began {:.1} ms after its deadline",
        calls.len(),
        busiest_second(&calls),
        lateness.as_secs_f64() * 1e3
    );
    if calls.len() != total as usize || !in_order(&calls) {
        return Err("a call was lost or out of order".into());
    }
    if busiest_second(&calls) > ALLOWED as usize {
        return Err("too many calls in a second".into());
    }
    Ok(())
}

/// Gives each call the next free moment.
struct Limiter {
    timer: TimerHandle,
    spacing: Duration,
    next: Mutex<Instant>,
}

impl Limiter {
    fn call(&self, api: &Arc<Api>, customer: &'static str, number: u32) {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let moment = (*next).max(now);
        *next = moment + self.spacing;
        let api = Arc::clone(api);
        let planned = moment.saturating_duration_since(api.started);
        let task = move |_: &_| api.call(customer, number, planned);
        if let Err(rejected) = self.timer.new_timeout(task, moment - now) {
            eprintln!("{customer}'s call {number} is refused: {rejected}");
        }
    }

    fn last_moment(&self) -> Instant {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The interface: notes who called when.
struct Api {
    started: Instant,
    /// The earliest moment of the next call.
    free_from: Mutex<Instant>,
    calls: Mutex<Vec<Call>>,
}

struct Call {
    customer: &'static str,
    number: u32,
    planned: Duration,
    actual: Duration,
}

impl Api {
    /// Makes a call. Runs on the caller's thread, which may wait.
    fn call(&self, customer: &'static str, number: u32, planned: Duration) {
        let mut free_from = self
            .free_from
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        thread::sleep(free_from.saturating_duration_since(Instant::now()));
        let actual = self.started.elapsed();
        *free_from = self.started + actual + Duration::from_secs(1) / ALLOWED;
        let call = Call {
            customer,
            number,
            planned,
            actual,
        };
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(call);
        // A round trip.
        thread::sleep(Duration::from_millis(1));
    }

    fn made(&self) -> usize {
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }
}

fn print_by_second(calls: &[Call]) {
    let mut seconds = BTreeMap::<u64, (usize, usize)>::new();
    for call in calls {
        seconds.entry(call.planned.as_secs()).or_default().0 += 1;
        seconds.entry(call.actual.as_secs()).or_default().1 += 1;
    }
    println!("\nsecond  planned  actual");
    for (second, (planned, actual)) in seconds {
        println!(
            "{:>6}  {planned:>7}  {actual:>6}  {}",
            second + 1,
            "#".repeat(actual / 2)
        );
    }
}

fn print_by_customer(calls: &[Call]) {
    println!("\ncustomer  calls  first at   last at  mean delay of actual against planned");
    for (customer, _) in BURSTS {
        let own = calls.iter().filter(|call| call.customer == customer);
        let (mut count, mut late, mut last) = (0, Duration::ZERO, Duration::ZERO);
        let mut first = Duration::MAX;
        for call in own {
            count += 1;
            late += call.actual.saturating_sub(call.planned);
            first = first.min(call.actual);
            last = last.max(call.actual);
        }
        println!(
            "{customer:<8}  {count:>5}  {:>6.2} s  {:>6.2} s  {:.2} ms",
            first.as_secs_f64(),
            last.as_secs_f64(),
            late.as_secs_f64() * 1e3 / f64::from(count)
        );
    }
}

/// The most calls that were made within any one second.
fn busiest_second(calls: &[Call]) -> usize {
    let within = |first: &Call| {
        let end = first.actual + Duration::from_secs(1);
        calls
            .iter()
            .filter(|call| call.actual >= first.actual && call.actual < end)
            .count()
    };
    calls.iter().map(within).max().unwrap_or(0)
}

/// Returns `true` if each customer's calls came in the order of their numbers.
fn in_order(calls: &[Call]) -> bool {
    let mut last = BTreeMap::new();
    calls
        .iter()
        .all(|call| last.insert(call.customer, call.number).unwrap_or(0) < call.number)
}
