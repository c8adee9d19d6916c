//! For hours if wanted: everything that can be done with timers, at once, on real threads, with every task
//! followed from its making to its end.
//!
//! In each of a few *places* a timer lives for a moment or a few seconds: of either kind, with a small limit,
//! a large one or none, with an executor, with one that forgets jobs, or without. Threads schedule, cancel
//! and reset its timeouts, pass handles on to each other, poll futures by hand, come and go. Tasks are slow,
//! panic, panic when dropped, schedule others here and elsewhere. Then the timer ends: stopped by one thread
//! or by two, or its owner is dropped by a thread, by its own task, by a task of another timer, or by the
//! drop of a cancelled task. Its successor takes the place.
//!
//! Checked all the time:
//!
//! - each task runs or is dropped unrun, exactly once, and its end is the one that its timeout has told of;
//! - none runs before its deadline, counted from before the call that set it;
//! - a limit of pending timeouts is never exceeded;
//! - at rest, `scheduled = expired + cancelled + unprocessed + pending`, and each is what was seen here;
//! - a future is woken, when its time has come or its timer has stopped;
//! - `stop` returns all that is left, a dropped owner drops it, and nothing hangs;
//! - before all that: with more threads than processors, a periodic task gets its turn (`soak/crowd.rs`);
//! - after a warm-up, neither what is allocated grows nor, on Linux, what is resident (in runs of a minute and
//!   more).
//!
//! The seed chooses what is done, not how the threads meet: a failure need not come again with it.
//!
//! ```text
//! cargo run --release --example soak                              # a minute
//! cargo run --release --example soak -- --minutes 240 --threads 8 --seed 7
//! cargo run --release --example soak -- --quick                   # five seconds
//! ```

#[path = "soak/crowd.rs"]
mod crowd;
#[path = "soak/keeper.rs"]
mod keeper;
#[path = "soak/life.rs"]
mod life;
#[path = "soak/memory.rs"]
mod memory;
#[path = "soak/nap.rs"]
mod nap;
#[path = "soak/session.rs"]
mod session;
#[path = "soak/settings.rs"]
mod settings;
#[path = "soak/task.rs"]
mod task;

use hashed_wheel::{HashedWheelTimer, Job};
use life::Life;
use std::panic;
use std::process::ExitCode;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use task::{Held, OnPurpose};

const USAGE: &str = "usage: soak [--minutes N] [--threads N] [--seed N] [--quick]";

/// Timers that live at the same time.
const PLACES: usize = 4;
/// Tasks that a timer is given in its life, at most.
const REGISTER: usize = 1 << 18;
/// After this time something hangs or is lost. It is no bound on lateness.
const PATIENCE: Duration = Duration::from_secs(60);
/// A delay that nobody lives to see.
const FAR: Duration = Duration::from_secs(100 * 60);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// ── the world ────────────────────────────────────────────────────────────────────────────────────

/// The data that all threads share. It lives as long as the process.
struct World {
    seed: u64,
    born: Instant,
    over: AtomicBool,
    failures: Mutex<Vec<String>>,
    lives: Vec<Life>,
    /// Handles that any thread may use, several at once.
    exchange: Vec<Mutex<Option<Arc<Held>>>>,
    /// All threads rest.
    lull: AtomicBool,
    /// A timer whose tasks end other timers.
    undertaker: HashedWheelTimer,
    executor: mpsc::Sender<(Job, Option<&'static Life>)>,
    done: Done,
}

/// For the line that is printed each second.
#[derive(Default)]
struct Done {
    operations: AtomicU64,
    fired: AtomicU64,
    cancelled: AtomicU64,
    reset: AtomicU64,
    timers: AtomicU64,
}

impl World {
    fn now(&self) -> u64 {
        nanos(self.born.elapsed())
    }

    fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// Notes what went wrong, and ends the run.
    fn fail(&self, what: &str) {
        let mut failures = lock(&self.failures);
        if failures.len() < 20 {
            println!("FAILED: {what}");
        }
        failures.push(what.to_owned());
        self.over.store(true, SeqCst);
    }

    /// Waits for something that must come.
    fn eventually(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let since = Instant::now();
        while !condition() {
            if since.elapsed() > PATIENCE {
                return self.fail(&format!("never came true: {what}"));
            }
            thread::sleep(ms(1));
        }
    }
}

// ── the run ──────────────────────────────────────────────────────────────────────────────────────

/// Runs jobs, and forgets one in seven of those that say so.
fn run_jobs(jobs: &Mutex<mpsc::Receiver<(Job, Option<&'static Life>)>>) {
    let mut count = 0;
    loop {
        let Ok((job, forgetful)) = lock(jobs).recv() else {
            return;
        };
        count += 1;
        match forgetful {
            Some(life) if count % 7 == 0 => {
                life.tally.dropped_jobs.fetch_add(1, SeqCst);
                drop(job);
            }
            _ => job(),
        }
    }
}

/// Reads the counters of all timers, again and again, and lets all threads rest now and then.
fn watch(world: &World) {
    let mut random = Random(world.seed ^ 0xACE);
    let mut next_change = Instant::now() + ms(500);
    while !world.is_over() {
        for life in &world.lives {
            let Some((timer, settings)) = lock(&life.timer).clone() else {
                continue;
            };
            let pending = timer.pending_timeouts();
            if pending > settings.max_pending {
                life.fail(&format!("{pending} timeouts are said to be pending"));
            }
            let stats = timer.stats();
            if stats.scheduled < stats.expired + stats.cancelled {
                life.fail("more timeouts have ended than were scheduled");
            }
        }
        if Instant::now() > next_change {
            let lull = !world.lull.load(Relaxed);
            world.lull.store(lull, Relaxed);
            let span = if lull { 100 } else { 1500 };
            next_change = Instant::now() + ms(random.below(span));
        }
        thread::sleep(Duration::from_micros(500));
    }
}

fn print_line(world: &World, operations: u64, memory: memory::Sample) {
    let seconds = world.born.elapsed().as_secs();
    let resident = memory.resident;
    let timers: Vec<_> = (world.lives.iter())
        .filter_map(|life| lock(&life.timer).clone())
        .collect();
    let pending: usize = timers.iter().map(|(t, _)| t.pending_timeouts()).sum();
    let p99 = timers.iter().map(|(t, _)| t.stats().lateness.p99()).max();
    let done = &world.done;
    println!(
        "{seconds:>6} {operations:>10} {:>11} {:>11} {:>11} {pending:>8} {:>8.1} {:>7} {:>7} {:>7}",
        done.fired.load(Relaxed),
        done.cancelled.load(Relaxed),
        done.reset.load(Relaxed),
        p99.unwrap_or_default().as_secs_f64() * 1e3,
        memory.allocated >> 10,
        resident.map_or_else(|| "?".to_owned(), |kilobytes| (kilobytes >> 10).to_string()),
        done.timers.load(Relaxed),
    );
}

/// A line a second, until the time is over or something has failed.
fn report(world: &World, span: Duration) -> Vec<memory::Sample> {
    println!(
        "     s operations       fired   cancelled       reset  pending   p99/ms heap/MB  RSS/MB  timers"
    );
    let mut samples = Vec::new();
    let mut before = 0;
    while world.born.elapsed() < span && !world.is_over() {
        thread::sleep(Duration::from_secs(1).min(span.saturating_sub(world.born.elapsed())));
        let operations = world.done.operations.load(Relaxed);
        let sample = memory::Sample::take();
        print_line(world, operations - before, sample);
        before = operations;
        samples.push(sample);
        check_progress(world);
    }
    samples
}

/// A place whose keeper is stuck is a timer that hangs.
fn check_progress(world: &World) {
    for life in &world.lives {
        let (phase, since) = *lock(&life.phase);
        if since.elapsed() > 2 * PATIENCE {
            life.fail(&format!("a timer hangs while {phase}"));
            verdict(world, Ok(String::new()));
            std::process::exit(1);
        }
    }
}

/// Prints the summary. Returns `true` if all went well.
fn verdict(world: &World, memory: Result<String, String>) -> bool {
    let memory = memory.unwrap_or_else(|problem| {
        world.fail(&format!("the memory in use has grown; {problem}"));
        problem
    });
    let failures = lock(&world.failures);
    let done = &world.done;
    println!(
        "\n{} operations in {:.1} s: {} tasks fired, {} timeouts cancelled, {} reset, {} timers ended\n{memory}",
        done.operations.load(Relaxed),
        world.born.elapsed().as_secs_f64(),
        done.fired.load(Relaxed),
        done.cancelled.load(Relaxed),
        done.reset.load(Relaxed),
        done.timers.load(Relaxed),
    );
    let seed = world.seed;
    if failures.is_empty() {
        println!("verdict: all held, with seed {seed}");
    } else {
        println!(
            "verdict: FAILED {} times, with seed {seed}; first:",
            failures.len()
        );
        failures
            .iter()
            .take(5)
            .for_each(|what| println!("  {what}"));
    }
    failures.is_empty()
}

fn main() -> ExitCode {
    let options = Options::read();
    // Panics that are meant are not worth a word.
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !info.payload().is::<OnPurpose>() {
            usual(info);
        }
    }));

    // Alone: everything else would disturb it.
    let crowd = crowd::check(options.span.min(Duration::from_secs(2)) / 2);

    let (executor, jobs) = mpsc::channel();
    let world: &'static World = Box::leak(Box::new(World {
        seed: options.seed,
        born: Instant::now(),
        over: AtomicBool::new(false),
        failures: Mutex::default(),
        lives: (0..PLACES).map(Life::new).collect(),
        exchange: (0..32).map(|_| Mutex::default()).collect(),
        lull: AtomicBool::new(false),
        undertaker: HashedWheelTimer::new(ms(1), 64),
        executor,
        done: Done::default(),
    }));
    for life in &world.lives {
        assert!(life.world.set(world).is_ok(), "set once");
    }
    println!(
        "{PLACES} timers at a time, {} threads, seed {}, for {:.1} s\n",
        options.threads,
        options.seed,
        options.span.as_secs_f64()
    );

    if let Err(problem) = crowd {
        world.fail(&problem);
    }

    let jobs = Arc::new(Mutex::new(jobs));
    for _ in 0..2 {
        let jobs = Arc::clone(&jobs);
        thread::spawn(move || run_jobs(&jobs));
    }
    let mut threads: Vec<_> = (world.lives.iter())
        .map(|life| thread::spawn(move || keeper::keep(life)))
        .collect();
    threads.extend(
        (0..options.threads).map(|number| thread::spawn(move || session::work(world, number))),
    );
    threads.push(thread::spawn(move || watch(world)));

    let samples = report(world, options.span);
    world.over.store(true, SeqCst);
    while threads.iter().any(|thread| !thread.is_finished()) {
        thread::sleep(ms(5));
        check_progress(world);
    }
    if threads.into_iter().any(|thread| thread.join().is_err()) {
        world.fail("a thread of this program has panicked");
    }
    world
        .exchange
        .iter()
        .for_each(|place| drop(lock(place).take()));
    if !world.undertaker.stop().is_ok_and(|left| left.is_empty()) {
        world.fail("the timer that ends others has not done all it was asked for");
    }
    if verdict(world, memory::judge(&samples)) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

// ── chance and options ───────────────────────────────────────────────────────────────────────────

/// Chance that is the same in every run (`SplitMix64`).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// Most delays are short, some are not lived to see, and a few never end.
    fn delay(&mut self) -> Duration {
        match self.below(100) {
            0..5 => Duration::ZERO,
            5..75 => Duration::from_micros(self.below(30_000)),
            75..88 => ms(self.below(300)),
            88..94 => ms(1000 + self.below(4000)),
            94..99 => FAR,
            _ => Duration::MAX,
        }
    }
}

struct Options {
    span: Duration,
    threads: u64,
    seed: u64,
}

impl Options {
    fn read() -> Options {
        let mut options = Options {
            span: Duration::from_secs(60),
            threads: 4,
            seed: 1,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(option) = arguments.next() {
            match option.as_str() {
                "--quick" => options.span = Duration::from_secs(3),
                "--minutes" => options.span = value(&option, arguments.next(), minutes),
                "--threads" => {
                    let several = |text: &str| text.parse().ok().filter(|&threads| threads > 0);
                    options.threads = value(&option, arguments.next(), several);
                }
                "--seed" => {
                    options.seed = value(&option, arguments.next(), |text| text.parse().ok());
                }
                "--help" | "-h" => {
                    println!("{USAGE}");
                    std::process::exit(0);
                }
                _ => refuse(&format!("unknown option `{option}`")),
            }
        }
        options
    }
}

fn minutes(text: &str) -> Option<Duration> {
    let minutes: f64 = text.parse().ok()?;
    Duration::try_from_secs_f64(minutes * 60.0).ok()
}

fn value<T>(option: &str, text: Option<String>, read: impl Fn(&str) -> Option<T>) -> T {
    let text = text.unwrap_or_default();
    read(&text).unwrap_or_else(|| refuse(&format!("`{option}` cannot be `{text}`")))
}

fn refuse(problem: &str) -> ! {
    eprintln!("{problem}\n{USAGE}");
    std::process::exit(2);
}
