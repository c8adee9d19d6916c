//! The first program: schedule, fire, cancel, reset, stop, and see what happened when.
//!
//! ```text
//! cargo run --release --example quickstart             # about three seconds
//! cargo run --release --example quickstart -- --quick  # a third of that
//! ```

mod options;

use hashed_wheel::{HashedWheelTimer, Timeout};
use std::error::Error;
use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: quickstart [--quick]

Schedules, fires, cancels, resets and stops, and says when each happened and on which thread.

  --quick    in about one second instead of three";

fn main() -> Result<(), Box<dyn Error>> {
    // All delays below are multiples of this: 100 ms, or 30 ms with `--quick`.
    let unit = Duration::from_millis(if options::quick(USAGE) { 30 } else { 100 });
    let log = Log::start();

    // A tick of 10 ms: nothing fires early, and on an idle machine nothing is more than about a
    // tick late. The thread behind the timer starts with the first timeout.
    let timer = HashedWheelTimer::new(Duration::from_millis(10), 512);
    log.say(format_args!(
        "made a timer: tick 10 ms, 512 slots, state {:?}",
        timer.state()
    ));

    heading("schedule");
    let tea = schedule(&timer, log, "tea", unit * 5)?;
    let milk = schedule(&timer, log, "milk", unit * 8)?;
    let idle = schedule(&timer, log, "idle connection", unit * 10)?;
    log.say(format_args!(
        "state {:?}, {} pending",
        timer.state(),
        timer.pending_timeouts()
    ));

    heading("fire: on the timer's thread, at the first tick at or after the deadline");
    thread::sleep(unit * 6);
    log.say(format_args!("tea.is_expired() -> {}", tea.is_expired()));

    heading("cancel: true for exactly one caller, and then the task will never run");
    log.say(format_args!("milk.cancel() -> {}", milk.cancel()));
    log.say(format_args!(
        "milk.cancel() -> {}, the second time",
        milk.cancel()
    ));
    log.say(format_args!(
        "tea.cancel()  -> {}, it has fired",
        tea.cancel()
    ));

    heading("reset: the same timeout, a new deadline");
    log.say(format_args!(
        "idle connection: {} left",
        seconds(idle.remaining())
    ));
    let moved = idle.reset(unit * 8);
    log.say(format_args!(
        "traffic! reset to {}: {moved}",
        seconds(unit * 8)
    ));
    thread::sleep(unit * 9);

    heading("a task may schedule its successor");
    countdown(&timer, log, 3, unit)?;
    thread::sleep(unit * 6);

    many(&timer, log, unit)?;
    stop(&timer, log)?;

    heading("the timer's own account");
    let stats = timer.stats();
    log.say(format_args!(
        "scheduled {} = expired {} + cancelled {} + unprocessed {} + pending {}",
        grouped(stats.scheduled as usize),
        stats.expired,
        grouped(stats.cancelled as usize),
        stats.unprocessed,
        stats.pending
    ));
    log.say(format_args!(
        "the latest task ran {} after its deadline; the thread woke up {} times",
        milliseconds(stats.max_lateness),
        stats.wakeups
    ));
    Ok(())
}

/// A hundred thousand requests, each with a deadline of 30 s; all but three are answered.
fn many(timer: &HashedWheelTimer, log: Log, unit: Duration) -> Result<(), Box<dyn Error>> {
    heading("many: what the wheel is made for");
    let before = Instant::now();
    let mut deadlines = Vec::with_capacity(100_000);
    for _ in 0..100_000 {
        deadlines.push(timer.new_timeout(|_| {}, Duration::from_secs(30))?);
    }
    let scheduled = before.elapsed();
    log.say(format_args!(
        "scheduled 100 000 deadlines in {}",
        milliseconds(scheduled)
    ));
    let before = Instant::now();
    let cancelled = deadlines.drain(3..).filter(Timeout::cancel).count();
    log.say(format_args!(
        "cancelled {} of them in {}",
        grouped(cancelled),
        milliseconds(before.elapsed())
    ));
    // The thread tidies up behind us, and then has nothing to do for half a minute.
    thread::sleep(unit);
    let before = timer.stats().wakeups;
    thread::sleep(unit * 5);
    log.say(format_args!(
        "{} pending; the timer's thread woke up {} times in the last {}",
        timer.pending_timeouts(),
        timer.stats().wakeups - before,
        seconds(unit * 5)
    ));
    Ok(())
}

/// The timeouts that `stop` returns, and what can be done with them.
fn stop(timer: &HashedWheelTimer, log: Log) -> Result<(), Box<dyn Error>> {
    heading("stop: what has not fired comes back, with its task inside");
    let send = move |_: &Timeout| log.say("the letter is sent after all");
    timer.new_timeout(send, Duration::from_secs(60))?;
    let unprocessed = timer.stop()?;
    log.say(format_args!(
        "{} came back, state {:?}",
        unprocessed.len(),
        timer.state()
    ));
    for timeout in &unprocessed {
        log.say(format_args!("  {} were left", seconds(timeout.remaining())));
    }
    // The task of the latest one is taken out and run here, by hand.
    let latest = unprocessed.iter().max_by_key(|timeout| timeout.remaining());
    if let Some((timeout, task)) = latest.and_then(|it| Some((it, it.take_task()?))) {
        task(timeout);
    }
    match timer.new_timeout(|_| {}, Duration::from_secs(1)) {
        Ok(_) => log.say("a stopped timer took a timeout?"),
        Err(rejected) => log.say(format_args!("one more timeout? refused: {rejected}")),
    }
    Ok(())
}

/// Schedules a task that says when it fires.
fn schedule(
    timer: &HashedWheelTimer,
    log: Log,
    name: &'static str,
    delay: Duration,
) -> Result<Timeout, Box<dyn Error>> {
    log.say(format_args!("{name}: in {}", seconds(delay)));
    let task = move |_: &Timeout| log.say(format_args!("{name} fired"));
    Ok(timer.new_timeout(task, delay)?)
}

/// Counts down to zero, each number a timeout that the one before has scheduled.
fn countdown(
    timer: &HashedWheelTimer,
    log: Log,
    from: u32,
    step: Duration,
) -> Result<(), Box<dyn Error>> {
    fn next(timeout: &Timeout, log: Log, left: u32, step: Duration) {
        log.say(format_args!(
            "{left}{}",
            if left == 0 { ", lift-off" } else { " ..." }
        ));
        if left > 0 {
            // `timer()` is a handle that does not keep the timer alive: no cycle.
            let rejected = timeout
                .timer()
                .new_timeout(move |it| next(it, log, left - 1, step), step)
                .err();
            if let Some(rejected) = rejected {
                log.say(format_args!("the count stops at {left}: {rejected}"));
            }
        }
    }
    let first = move |timeout: &Timeout| next(timeout, log, from, step);
    timer.new_timeout(first, Duration::ZERO)?;
    Ok(())
}

/// Prints lines with the time since the start and the thread that speaks.
#[derive(Clone, Copy)]
struct Log(Instant);

impl Log {
    fn start() -> Self {
        println!("    time   thread                what happened");
        Log(Instant::now())
    }

    fn say(self, text: impl Display) {
        let thread = thread::current();
        let name = thread.name().unwrap_or("?");
        println!("{:>8}   {name:<20}  {text}", seconds(self.0.elapsed()));
    }
}

fn heading(text: &str) {
    println!("\n-- {text}");
}

fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

/// A large number with a space before its last three digits.
fn grouped(number: usize) -> String {
    format!("{} {:03}", number / 1000, number % 1000)
}
