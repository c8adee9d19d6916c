//! Does anybody wait for a thread that is interrupted in the middle of a call? For Linux.
//!
//! Four threads, the *producers*, schedule, cancel and reset timeouts of one timer at full speed. A signal suspends one
//! of them, chosen at random, for 200 ms, at whatever instruction it is: in most cases inside a call of this
//! crate. Then another one, and so on.
//!
//! Checked in each suspension:
//!
//! - the timer thread goes on: a task runs every millisecond, without a gap of [`LONGEST_GAP`] or more;
//! - the other producers go on, and their short timeouts fire;
//! - the short timeouts that the suspended producer has scheduled before fire as well.
//!
//! A check does not count if the system gave the thread no processor: `/proc/self/task/TID/schedstat` tells how long it
//! was ready to run and did not. Checked all the time:
//!
//! - each timeout runs once or is cancelled, as its calls have told, and none is lost;
//! - none runs before its deadline;
//! - what one producer has scheduled for the same deadline runs in the order of scheduling.
//!
//! ```text
//! cargo run --release --example suspend                       # 20 seconds
//! cargo run --release --example suspend -- --seconds 120
//! cargo run --release --example suspend -- --quick            # three seconds
//! ```
//!
//! It prints a line a second and a verdict. The exit code is 1 if something did not hold. Of a timer thread that stood still it
//! prints where it was, and where the suspended producer was: `addr2line -Cfie FILE OFFSET` names the lines.

use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "usage: suspend [--seconds N] [--seed N] [--quick]";

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    let _ = Options::read();
    println!("threads are suspended by a signal: on Linux only");
    ExitCode::SUCCESS
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let options = Options::read();
    if linux::run(options.span, options.seed) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

struct Options {
    #[cfg_attr(not(target_os = "linux"), expect(dead_code))]
    span: Duration,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code))]
    seed: u64,
}

impl Options {
    fn read() -> Options {
        let mut options = Options {
            span: Duration::from_secs(20),
            seed: 1,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(option) = arguments.next() {
            match option.as_str() {
                "--quick" => options.span = Duration::from_secs(3),
                "--seconds" => {
                    let seconds = number(&option, arguments.next(), 1..=1_000_000);
                    options.span = Duration::from_secs(seconds);
                }
                "--seed" => options.seed = number(&option, arguments.next(), 0..=u64::MAX),
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

fn number(option: &str, text: Option<String>, range: std::ops::RangeInclusive<u64>) -> u64 {
    let Some(text) = text else {
        refuse(&format!("`{option}` needs a number"));
    };
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.unwrap_or_else(|| {
        let (least, most) = (range.start(), range.end());
        refuse(&format!(
            "`{option}` cannot be `{text}`: a whole number from {least} to {most}"
        ))
    })
}

fn refuse(problem: &str) -> ! {
    eprintln!("{problem}\n{USAGE}");
    std::process::exit(2);
}

#[cfg(target_os = "linux")]
mod evidence;

#[cfg(target_os = "linux")]
mod linux {
    use crate::evidence::{self, Snapshot};
    use hashed_wheel::{HashedWheelTimer, Period, Timeout, TimerHandle};
    use std::array::from_fn;
    use std::fmt;
    use std::os::unix::thread::JoinHandleExt;
    use std::sync::atomic::Ordering::{Relaxed, SeqCst};
    use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64};
    use std::sync::{Mutex, PoisonError};
    use std::thread::{self, JoinHandle};
    use std::time::{Duration, Instant};

    const PRODUCERS: usize = 4;
    /// How long a producer is suspended, in milliseconds.
    const SUSPENSION: i32 = 200;
    /// The periodic task waits for a suspended thread if it has a gap like this.
    const LONGEST_GAP: Duration = ms(SUSPENSION as u64 * 3 / 4);
    /// The longest delay of a short timeout, in milliseconds.
    const SHORT: u64 = 16;
    /// Short timeouts in a row with the same deadline.
    const SAME_DEADLINE: usize = 4;
    /// Timeouts that a producer holds, to cancel or to reset one at random: most entries in the queue are dead, in no
    /// order, so that the survivors have to be moved.
    const HELD: usize = 4096;
    /// Timeouts of one producer that are told apart: by their number modulo this.
    const LEDGER: usize = 1 << 20;
    /// Deadlines that are told apart, in milliseconds.
    const DEADLINES: usize = 1 << 16;
    /// After this time something is lost or hangs. It is no bound on lateness.
    const PATIENCE: Duration = Duration::from_secs(60);

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    // ── the suspension ───────────────────────────────────────────────────────────────────────────

    const NOT_SENT: u8 = 0;
    const SUSPENDED: u8 = 1;
    const RETURNED: u8 = 2;
    /// Where the handler of the only signal under way is.
    static HANDLER: AtomicU8 = AtomicU8::new(NOT_SENT);
    static SUSPENDED_AT: Snapshot = Snapshot::new();
    static TIMER_AT: Snapshot = Snapshot::new();

    /// Suspends the thread that it interrupts. All that it calls is async-signal-safe.
    extern "C" fn suspend(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        SUSPENDED_AT.take(context);
        // SAFETY: the pointer is that of this thread's `errno`, which `poll` may change under the interrupted code.
        let errno = unsafe { *libc::__errno_location() };
        HANDLER.store(SUSPENDED, SeqCst);
        // SAFETY: no descriptors are passed. It merely waits.
        unsafe { libc::poll(std::ptr::null_mut(), 0, SUSPENSION) };
        HANDLER.store(RETURNED, SeqCst);
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = errno };
    }

    /// Notes where the timer thread is.
    extern "C" fn observe(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        TIMER_AT.take(context);
    }

    fn install_handlers() -> bool {
        install(libc::SIGUSR1, suspend) && install(libc::SIGUSR2, observe)
    }

    type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

    fn install(signal: libc::c_int, handler: Handler) -> bool {
        // SAFETY: all zero is a valid `sigaction`; its handler and mask are set before it is used, and the handler has
        // the signature that goes with SA_SIGINFO.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
            libc::sigfillset(&raw mut action.sa_mask);
            libc::sigaction(signal, &raw const action, std::ptr::null_mut()) == 0
        }
    }

    /// Where the suspended producer and the timer thread are.
    fn evidence(world: &World) -> String {
        let timer = world.pulse.thread.load(SeqCst);
        let kernel = evidence::kernel(timer);
        TIMER_AT.forget();
        // SAFETY: only identifiers are passed.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), timer, libc::SIGUSR2) };
        eventually(|| TIMER_AT.is_taken());
        format!(
            "  the timer thread: {kernel}\n  {}\n  {}",
            TIMER_AT.describe("the timer thread is at"),
            SUSPENDED_AT.describe("the suspended one is at"),
        )
    }

    // ── producers ────────────────────────────────────────────────────────────────────────────────

    /// What a producer is doing.
    const DOING: [&str; 5] = [
        "between calls",
        "new_timeout",
        "cancel",
        "reset",
        "drop of a handle",
    ];
    const BETWEEN: u8 = 0;
    const SCHEDULING: u8 = 1;
    const CANCELLING: u8 = 2;
    const RESETTING: u8 = 3;
    const DROPPING: u8 = 4;

    /// The lower bits of a ledger's entry; the others are the number of the timeout.
    const PENDING: u64 = 1;
    const FIRED: u64 = 2;
    const CANCELLED: u64 = 3;

    fn state_name(entry: u64) -> &'static str {
        ["never made", "pending", "fired", "cancelled"][(entry & 3) as usize]
    }

    /// One producer, and what became of its timeouts.
    #[repr(align(128))]
    struct Producer {
        number: usize,
        /// What became of each timeout.
        ledger: Box<[AtomicU64]>,
        /// The last short timeout that fired for each deadline.
        last_fired: Box<[AtomicU64]>,
        doing: AtomicU8,
        thread: AtomicI32,
        scheduled: AtomicU64,
        cancelled: AtomicU64,
        reset: AtomicU64,
        fired: AtomicU64,
        /// Short timeouts whose call has returned, and those that have fired.
        short: AtomicU64,
        short_fired: AtomicU64,
    }

    impl Producer {
        fn new(number: usize) -> Producer {
            let zeros = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
            Producer {
                number,
                ledger: zeros(LEDGER),
                last_fired: zeros(DEADLINES),
                doing: AtomicU8::new(BETWEEN),
                thread: AtomicI32::new(0),
                scheduled: AtomicU64::new(0),
                cancelled: AtomicU64::new(0),
                reset: AtomicU64::new(0),
                fired: AtomicU64::new(0),
                short: AtomicU64::new(0),
                short_fired: AtomicU64::new(0),
            }
        }

        fn entry(&self, number: u64) -> &AtomicU64 {
            &self.ledger[number as usize % LEDGER]
        }

        /// Writes a new timeout into the ledger; `false` if its place is not free, for the one before is lost.
        fn begin(&self, world: &World, number: u64) -> bool {
            let entry = self.entry(number);
            let since = Instant::now();
            while entry.load(Relaxed) & 3 == PENDING {
                if since.elapsed() > PATIENCE {
                    let lost = entry.load(Relaxed) >> 2;
                    world.fail(format!("{self}: timeout {lost} was lost"));
                    return false;
                }
                thread::sleep(Duration::from_micros(100));
            }
            entry.store(number << 2 | PENDING, Relaxed);
            true
        }

        /// Notes the end of a timeout, which is its only one.
        fn end(&self, world: &World, number: u64, end: u64) {
            let before = self.entry(number).swap(number << 2 | end, Relaxed);
            if before != number << 2 | PENDING {
                world.fail(format!(
                    "{self}: timeout {number} has {} after it was {} (number {})",
                    state_name(end),
                    state_name(before),
                    before >> 2,
                ));
            }
        }

        /// The task of a timeout.
        fn fire(&self, world: &World, number: u64) {
            self.end(world, number, FIRED);
            self.fired.fetch_add(1, Relaxed);
        }

        /// The task of a short timeout, which is never reset.
        fn fire_short(&self, world: &World, number: u64, deadline: u64) {
            if Instant::now() < world.born + ms(deadline) {
                world.fail(format!("{self}: timeout {number} fired early"));
            }
            let last = self.last_fired[deadline as usize % DEADLINES].swap(number, Relaxed);
            if last >= number {
                world.fail(format!(
                    "{self}: timeout {number} fired after {last}, which was scheduled later for the same deadline"
                ));
            }
            self.fire(world, number);
            self.short_fired.fetch_add(1, Relaxed);
        }

        fn during<T>(&self, what: u8, call: impl FnOnce() -> T) -> T {
            self.doing.store(what, Relaxed);
            let result = call();
            self.doing.store(BETWEEN, Relaxed);
            result
        }
    }

    impl fmt::Display for Producer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "producer {}", self.number)
        }
    }

    /// The thread of a producer.
    struct Calls {
        world: &'static World,
        producer: &'static Producer,
        timer: TimerHandle,
        random: Random,
        next_number: u64,
        held: Vec<Option<(Timeout, u64)>>,
    }

    impl Calls {
        fn run(mut self) {
            // SAFETY: it has no arguments, and cannot fail.
            let thread = unsafe { libc::gettid() };
            self.producer.thread.store(thread, SeqCst);
            let mut goes_on = true;
            while goes_on && !self.world.over.load(Relaxed) {
                goes_on = match self.random.below(32) {
                    0 => self.schedule_short(),
                    1..4 => self.reset_one(),
                    _ => self.replace_one(),
                };
            }
            // One half is cancelled, the other fires.
            for index in 0..self.held.len() {
                let Some((timeout, number)) = self.held[index].take() else {
                    continue;
                };
                if index % 2 == 0 {
                    self.cancel(timeout, number);
                } else if timeout.reset(ms(5)) {
                    self.producer.reset.fetch_add(1, Relaxed);
                }
            }
        }

        /// Schedules some with the same deadline, and leaves them alone.
        fn schedule_short(&mut self) -> bool {
            let (world, producer) = (self.world, self.producer);
            let deadline = world.now().as_millis() as u64 + 1 + self.random.below(SHORT);
            (0..SAME_DEADLINE).all(|_| {
                let task = |number| move |_: &Timeout| producer.fire_short(world, number, deadline);
                let scheduled = self.schedule(|timer, number| {
                    timer
                        .new_timeout_at(task(number), world.born + ms(deadline))
                        .ok()
                });
                let Some((timeout, _)) = scheduled else {
                    return false;
                };
                producer.short.fetch_add(1, Relaxed);
                producer.during(DROPPING, || drop(timeout));
                true
            })
        }

        /// Cancels one of those that are held, and schedules another one in its place.
        fn replace_one(&mut self) -> bool {
            let (world, producer) = (self.world, self.producer);
            let index = self.random.below(HELD as u64) as usize;
            if let Some((timeout, number)) = self.held[index].take() {
                self.cancel(timeout, number);
            }
            let delay = ms(500 + self.random.below(1000));
            let scheduled = self.schedule(|timer, number| {
                let task = move |_: &Timeout| producer.fire(world, number);
                timer.new_timeout(task, delay).ok()
            });
            self.held[index] = scheduled;
            self.held[index].is_some()
        }

        fn reset_one(&mut self) -> bool {
            let delay = self.random.pick([ms(0), ms(5), ms(50), ms(1000)]);
            let index = self.random.below(HELD as u64) as usize;
            if let Some((timeout, _)) = &self.held[index] {
                if self.producer.during(RESETTING, || timeout.reset(delay)) {
                    self.producer.reset.fetch_add(1, Relaxed);
                }
            }
            true
        }

        fn schedule(
            &mut self,
            call: impl FnOnce(&TimerHandle, u64) -> Option<Timeout>,
        ) -> Option<(Timeout, u64)> {
            self.next_number += 1;
            let number = self.next_number;
            if !self.producer.begin(self.world, number) {
                return None;
            }
            let timeout = self
                .producer
                .during(SCHEDULING, || call(&self.timer, number));
            if timeout.is_none() {
                let producer = self.producer;
                self.world
                    .fail(format!("{producer}: timeout {number} was rejected"));
            }
            self.producer.scheduled.fetch_add(1, Relaxed);
            Some((timeout?, number))
        }

        fn cancel(&self, timeout: Timeout, number: u64) {
            let producer = self.producer;
            if producer.during(CANCELLING, || timeout.cancel()) {
                producer.end(self.world, number, CANCELLED);
                producer.cancelled.fetch_add(1, Relaxed);
            }
            producer.during(DROPPING, || drop(timeout));
        }
    }

    // ── the periodic task ────────────────────────────────────────────────────────────────────────

    /// How the task that runs every millisecond fares. Times are nanoseconds since the beginning.
    #[derive(Default)]
    struct Pulse {
        thread: AtomicI32,
        runs: AtomicU64,
        last: AtomicU64,
        /// Gaps count from here on.
        from: AtomicU64,
        longest_gap: AtomicU64,
    }

    impl Pulse {
        fn beat(&self, now: Duration) {
            if self.thread.load(Relaxed) == 0 {
                // SAFETY: it has no arguments, and cannot fail.
                self.thread.store(unsafe { libc::gettid() }, SeqCst);
            }
            self.note_gap(now);
            self.last.store(now.as_nanos() as u64, Relaxed);
            self.runs.fetch_add(1, Relaxed);
        }

        fn note_gap(&self, now: Duration) {
            let from = self.last.load(Relaxed).max(self.from.load(Relaxed));
            let gap = (now.as_nanos() as u64).saturating_sub(from);
            self.longest_gap.fetch_max(gap, Relaxed);
        }

        fn begin_window(&self, now: Duration) {
            self.from.store(now.as_nanos() as u64, Relaxed);
            self.longest_gap.store(0, Relaxed);
        }

        fn end_window(&self, now: Duration) -> Duration {
            self.note_gap(now);
            Duration::from_nanos(self.longest_gap.load(Relaxed))
        }
    }

    // ── windows ──────────────────────────────────────────────────────────────────────────────────

    struct World {
        born: Instant,
        over: AtomicBool,
        failures: Mutex<Vec<String>>,
        producers: [Producer; PRODUCERS],
        pulse: Pulse,
    }

    impl World {
        fn now(&self) -> Duration {
            self.born.elapsed()
        }

        /// Notes what went wrong, and ends the run.
        fn fail(&self, what: String) {
            let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
            if failures.len() < 20 {
                println!("FAILED: {what}");
            }
            failures.push(what);
            self.over.store(true, SeqCst);
        }

        fn sum(&self, counter: impl Fn(&Producer) -> &AtomicU64) -> u64 {
            self.producers
                .iter()
                .map(|p| counter(p).load(Relaxed))
                .sum()
        }

        fn look(&self) -> Look {
            let producer = |index: usize| &self.producers[index];
            Look {
                at: self.now(),
                runs: self.pulse.runs.load(Relaxed),
                timer_waited: schedstat(&self.pulse.thread).0,
                scheduled: from_fn(|i| producer(i).scheduled.load(Relaxed)),
                short_fired: from_fn(|i| producer(i).short_fired.load(Relaxed)),
                waited: from_fn(|i| schedstat(&producer(i).thread).0),
            }
        }
    }

    /// How long a thread was ready to run and did not, and how often it got its turn; zero if the system does not tell.
    fn schedstat(thread: &AtomicI32) -> (Duration, u64) {
        let thread = thread.load(SeqCst);
        let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat"));
        let text = text.unwrap_or_default();
        let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
        let mut next = |skipped| numbers.nth(skipped).flatten().unwrap_or(0);
        (Duration::from_nanos(next(1)), next(0))
    }

    /// How long a thread was ready to run and did not, including now: the system counts that when it gets its turn.
    fn waited_for_processor(thread: &AtomicI32) -> Duration {
        let (_, turns) = schedstat(thread);
        if turns > 0 {
            eventually(|| schedstat(thread).1 != turns);
        }
        schedstat(thread).0
    }

    /// What is known at the beginning or at the end of a window.
    struct Look {
        at: Duration,
        runs: u64,
        timer_waited: Duration,
        scheduled: [u64; PRODUCERS],
        short_fired: [u64; PRODUCERS],
        waited: [Duration; PRODUCERS],
    }

    /// The windows of one kind.
    #[derive(Default)]
    struct Windows {
        count: u32,
        runs: u32,
        longest_gap: Duration,
        fewest_scheduled: Option<u64>,
        /// What did not hold because a thread was given no processor.
        excused: u64,
        doing: [u64; DOING.len()],
    }

    impl Windows {
        /// Judges what happened in a window, in which `suspended` was, if any.
        fn judge(&mut self, world: &World, suspended: Option<usize>, begin: &Look, gap: Duration) {
            let end = world.look();
            let window = end.at.saturating_sub(begin.at);
            self.count += 1;
            self.runs += (end.runs - begin.runs) as u32;
            self.longest_gap = self.longest_gap.max(gap);
            let Some(suspended) = suspended else {
                return;
            };
            let producer = &world.producers[suspended];
            let short = producer.short.load(SeqCst);
            let fired = producer.short_fired.load(SeqCst);
            let doing = producer.doing.load(Relaxed);
            self.doing[usize::from(doing)] += 1;
            // Asked for only if something did not hold: it takes until the thread gets its next turn.
            let timer_waited =
                || waited_for_processor(&world.pulse.thread).saturating_sub(begin.timer_waited);
            let waited = |other: usize| {
                waited_for_processor(&world.producers[other].thread)
                    .saturating_sub(begin.waited[other])
            };
            // `excused`: the system gave no processor.
            let mut fail = |excused: bool, what: String| {
                if excused {
                    self.excused += 1;
                } else {
                    let doing = DOING[usize::from(doing)];
                    world.fail(format!("producer {suspended} suspended, {doing}: {what}"));
                }
            };
            if gap >= LONGEST_GAP {
                fail(
                    timer_waited() > gap / 2,
                    format!("the timer thread stood still for {gap:.1?}"),
                );
            }
            for other in (0..PRODUCERS).filter(|other| *other != suspended) {
                let scheduled = end.scheduled[other] - begin.scheduled[other];
                let fewest = self.fewest_scheduled.unwrap_or(u64::MAX);
                self.fewest_scheduled = Some(fewest.min(scheduled));
                if scheduled == 0 {
                    // In a tenth of the time it would have come to something.
                    fail(
                        waited(other) > window * 9 / 10,
                        format!("producer {other} scheduled nothing"),
                    );
                } else if end.short_fired[other] == begin.short_fired[other] {
                    fail(
                        waited(other).max(timer_waited()) > window / 2,
                        format!("no short timeout of producer {other} fired"),
                    );
                }
            }
            // What it had scheduled before has been due for long.
            if short > fired {
                fail(
                    timer_waited() > window / 2,
                    format!("{} of its short timeouts have not fired", short - fired),
                );
            }
        }

        fn runs_per_window(&self) -> f64 {
            f64::from(self.runs) / f64::from(self.count.max(1))
        }
    }

    /// A window without a suspension.
    fn watch_undisturbed(world: &World, windows: &mut Windows) {
        let begin = world.look();
        world.pulse.begin_window(world.now());
        thread::sleep(ms(SUSPENSION as u64));
        let gap = world.pulse.end_window(world.now());
        windows.judge(world, None, &begin, gap);
    }

    /// Suspends a producer, and watches the others until shortly before it returns.
    fn watch_suspension(
        world: &World,
        threads: &[JoinHandle<()>],
        victim: usize,
        seen: &mut Windows,
    ) {
        HANDLER.store(NOT_SENT, SeqCst);
        // SAFETY: the thread has not been joined, so its identifier is valid. The handler is installed.
        let sent = unsafe { libc::pthread_kill(threads[victim].as_pthread_t(), libc::SIGUSR1) };
        if sent != 0 || !eventually(|| HANDLER.load(SeqCst) != NOT_SENT) {
            return world.fail(format!("producer {victim} cannot be interrupted: {sent}"));
        }
        let begin = world.look();
        world.pulse.begin_window(world.now());
        thread::sleep(ms(SUSPENSION as u64 * 19 / 20));
        let gap = world.pulse.end_window(world.now());
        if gap >= LONGEST_GAP {
            println!("{}", evidence(world));
        }
        // On a busy machine this thread may be late: then it is not known what happened when.
        if HANDLER.load(SeqCst) == SUSPENDED {
            seen.judge(world, Some(victim), &begin, gap);
        }
        if !eventually(|| HANDLER.load(SeqCst) == RETURNED) {
            world.fail(format!("producer {victim} did not come back"));
        }
    }

    fn eventually(condition: impl Fn() -> bool) -> bool {
        let since = Instant::now();
        while !condition() {
            if since.elapsed() > PATIENCE {
                return false;
            }
            thread::sleep(Duration::from_micros(200));
        }
        true
    }

    // ── the run ──────────────────────────────────────────────────────────────────────────────────

    /// Prints a line a second.
    struct Report {
        next: Duration,
        scheduled: u64,
    }

    impl Report {
        fn print(&mut self, world: &World, seen: &Windows) {
            let now = world.now();
            if now < self.next {
                return;
            }
            let scheduled = world.sum(|p| &p.scheduled);
            println!(
                "{:>6.1} {:>10} {:>11} {:>11} {:>11} {:>11} {:>10.1} {:>9.1}",
                now.as_secs_f64(),
                scheduled - self.scheduled,
                world.sum(|p| &p.fired),
                world.sum(|p| &p.cancelled),
                world.sum(|p| &p.reset),
                seen.count,
                seen.runs_per_window(),
                seen.longest_gap.as_secs_f64() * 1e3,
            );
            self.scheduled = scheduled;
            self.next = now + Duration::from_secs(1);
        }
    }

    pub(crate) fn run(span: Duration, seed: u64) -> bool {
        let world: &'static World = Box::leak(Box::new(World {
            born: Instant::now(),
            over: AtomicBool::new(false),
            failures: Mutex::default(),
            producers: from_fn(Producer::new),
            pulse: Pulse::default(),
        }));
        if !install_handlers() {
            world.fail("the signal's handler cannot be installed".to_owned());
            return false;
        }
        println!(
            "{PRODUCERS} producers, one of them suspended for {SUSPENSION} ms at a time, seed {seed}, for {} s\n\n     \
             s  scheduled       fired   cancelled       reset suspensions runs/susp. gap/ms",
            span.as_secs(),
        );
        let timer = HashedWheelTimer::new(ms(1), 512);
        let pulse = timer.new_periodic(
            |_| world.pulse.beat(world.now()),
            ms(1),
            Period::FixedRate(ms(1)),
        );
        let Ok(pulse) = pulse else {
            world.fail("the timer cannot be started".to_owned());
            return false;
        };
        let threads: Vec<_> = (world.producers.iter().zip(1..))
            .map(|(producer, number)| {
                let calls = Calls {
                    world,
                    producer,
                    timer: timer.handle(),
                    random: Random(seed.wrapping_mul(PRODUCERS as u64 + 1) + number),
                    next_number: 0,
                    held: (0..HELD).map(|_| None).collect(),
                };
                thread::spawn(move || calls.run())
            })
            .collect();

        let (mut usual, mut windows) = (Windows::default(), Windows::default());
        let mut report = Report {
            next: Duration::from_secs(1),
            scheduled: 0,
        };
        let mut random = Random(seed);
        while !world.over.load(SeqCst) && world.now() < span {
            if world.now() < span / 5 {
                watch_undisturbed(world, &mut usual);
            } else {
                thread::sleep(Duration::from_micros(random.below(30_000)));
                let victim = random.below(PRODUCERS as u64) as usize;
                watch_suspension(world, &threads, victim, &mut windows);
            }
            report.print(world, &windows);
        }
        world.over.store(true, SeqCst);
        if threads.into_iter().any(|thread| thread.join().is_err()) {
            world.fail("a producer has panicked".to_owned());
        }
        pulse.cancel();
        check_ends(world, &timer);
        verdict(world, &usual, &windows)
    }

    /// Every timeout has come to its end.
    fn check_ends(world: &World, timer: &HashedWheelTimer) {
        let ended = || world.sum(|p| &p.fired) + world.sum(|p| &p.cancelled);
        let scheduled = world.sum(|p| &p.scheduled);
        eventually(|| ended() >= scheduled || timer.pending_timeouts() == 0);
        // The last task may still be running; `stop` waits for it.
        match timer.stop() {
            Ok(left) if left.is_empty() => {}
            Ok(left) => world.fail(format!("{} timeouts are left at the end", left.len())),
            Err(error) => world.fail(format!("the timer cannot be stopped: {error}")),
        }
        if ended() != scheduled {
            world.fail(format!("{scheduled} scheduled, {} ended", ended()));
        }
        for producer in &world.producers {
            let lost = |entry: &&AtomicU64| entry.load(SeqCst) & 3 == PENDING;
            let lost = producer.ledger.iter().filter(lost).count();
            if lost > 0 {
                world.fail(format!("{producer}: {lost} timeouts were lost"));
            }
        }
        let stats = timer.stats();
        // The periodic task is one more.
        if (stats.scheduled, stats.expired + stats.cancelled) != (scheduled + 1, ended() + 1) {
            world.fail(format!("the timer counts otherwise: {stats:?}"));
        }
    }

    fn verdict(world: &World, usual: &Windows, seen: &Windows) -> bool {
        println!(
            "\nundisturbed, in {SUSPENSION} ms: {:.1} runs of the periodic task, longest gap {:.1?}\n\
             while a producer was suspended: {:.1} runs, longest gap {:.1?}; each other producer scheduled {} \
             timeouts at least",
            usual.runs_per_window(),
            usual.longest_gap,
            seen.runs_per_window(),
            seen.longest_gap,
            seen.fewest_scheduled.unwrap_or(0),
        );
        let places: Vec<_> = (DOING.iter().zip(seen.doing))
            .map(|(doing, count)| format!("{count} {doing}"))
            .collect();
        println!(
            "{} suspensions: {}\n{} checks did not count, because a thread was given no processor",
            seen.count,
            places.join(", "),
            seen.excused,
        );
        // A timer thread that waits for suspended producers would run it once or twice.
        if seen.count > 0 && seen.runs_per_window() < usual.runs_per_window() / 10.0 {
            world.fail(
                "the periodic task runs far less often while a producer is suspended".to_owned(),
            );
        }
        let failures = world
            .failures
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if failures.is_empty() {
            println!("verdict: all held");
        } else {
            println!("verdict: FAILED {} times", failures.len());
        }
        failures.is_empty()
    }

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
            self.next() % end
        }

        fn pick<T: Copy, const N: usize>(&mut self, from: [T; N]) -> T {
            from[self.below(N as u64) as usize]
        }
    }
}
