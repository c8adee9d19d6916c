//! Faults of the whole process: it is stopped and continued, it ends with timeouts pending, it gets no
//! thread. Each test runs itself once more as a child process, which it can signal, limit and wait for.
#![cfg(unix)]

mod common;

use std::env;
use std::io::{BufRead, BufReader};
use std::mem;
use std::process::{self, Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use common::poll::block_on;
use common::{FAR, Kind, Record, Timer, WATCHDOG, assert_counts_add_up, eventually, ms, recv};
use hashed_wheel::{
    DelayQueue, HashedWheelTimer, HierarchicalWheelTimer, Job, Period, RejectReason, StopError,
    Timeout, TimerState,
};

/// Set for a child: the name of its test.
const CHILD: &str = "HASHED_WHEEL_FAULT";

fn is_child(test: &str) -> bool {
    env::var(CHILD).is_ok_and(|name| name == test)
}

/// The same program once more, to run this test only, and to know that it is a child. On another machine's processor it
/// needs what runs it: `.ci/platforms` tells.
fn command(test: &str) -> Command {
    let this = env::current_exe().unwrap();
    let mut command = match env::var("HASHED_WHEEL_RUNNER") {
        Ok(runner) => {
            let mut command = Command::new(runner);
            command.arg(this);
            command
        }
        Err(_) => Command::new(this),
    };
    command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, test)
        .stdin(Stdio::null());
    command
}

/// Waits for the child; if it hangs, it is killed and the test fails.
fn wait(mut child: Child) -> ExitStatus {
    let since = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if since.elapsed() > WATCHDOG {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the process hangs at its end");
        }
        thread::sleep(ms(5));
    }
}

/// What a child prints to tell its parent how far it is.
const READY: &str = "the child is ready";

/// Starts the test as a child and waits until it says that it is ready. Its further output is read and
/// thrown away, so that it never waits for a reader.
fn start(test: &str) -> Child {
    start_with(command(test))
}

fn start_with(mut command: Command) -> Child {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    recv(&in_background(output));
    child
}

fn in_background(output: BufReader<ChildStdout>) -> mpsc::Receiver<()> {
    let (ready, signal) = mpsc::channel();
    thread::spawn(move || {
        for line in output.lines() {
            if line.is_ok_and(|line| line.contains(READY)) {
                let _ = ready.send(());
            }
        }
    });
    signal
}

fn signal(child: &Child, signal: &str) {
    let sent = Command::new("kill")
        .args([signal, &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success(), "{signal} was sent");
}

/// Some timeouts that are near, and some that never come.
fn fill(timer: &Timer) {
    for n in 0..100 {
        timer.new_timeout(|_| {}, ms(n % 5)).unwrap();
        timer.new_timeout(|_| {}, FAR).unwrap();
    }
    let period = Period::FixedRate(ms(1));
    timer.new_periodic(|_| {}, ms(1), period).unwrap();
}

// ── stopped and continued ─────────────────────────────────────────────────────────────────────────

const STOPPED_FOR: Duration = Duration::from_secs(2);
const PERIOD: Duration = ms(30);

#[test]
fn a_process_that_is_stopped_and_continued_loses_nothing_and_runs_nothing_early() {
    const NAME: &str =
        "a_process_that_is_stopped_and_continued_loses_nothing_and_runs_nothing_early";
    if is_child(NAME) {
        return be_stopped_and_continued();
    }
    let child = start(NAME);
    // While it schedules, and before most of it is due.
    thread::sleep(ms(100));
    signal(&child, "-STOP");
    thread::sleep(STOPPED_FOR);
    signal(&child, "-CONT");
    assert!(wait(child).success(), "the child has found a fault");
}

/// The longest time that this thread was not run: it notices that the process was stopped.
fn notice_gaps(longest: &AtomicU64, until: Duration) {
    let (start, mut last) = (Instant::now(), Instant::now());
    while start.elapsed() < until {
        thread::sleep(ms(1));
        let gap = u64::try_from(last.elapsed().as_millis()).unwrap();
        longest.fetch_max(gap, Ordering::SeqCst);
        last = Instant::now();
    }
}

fn be_stopped_and_continued() {
    let timers = [Kind::Hashed, Kind::Hierarchical].map(|kind| kind.real(ms(5)));
    let longest = AtomicU64::new(0);
    let at_work = Barrier::new(timers.len() + 1);
    thread::scope(|scope| {
        scope.spawn(|| notice_gaps(&longest, STOPPED_FOR + ms(1500)));
        for timer in &timers {
            scope.spawn(|| schedule_and_cancel(timer));
            scope.spawn(|| fire_in_order(timer));
            scope.spawn(|| keep_the_rate(timer, &at_work));
            scope.spawn(|| {
                for delay in [ms(1), ms(400), ms(900), ms(20)] {
                    let start = Instant::now();
                    block_on(timer.sleep(delay)).unwrap();
                    assert!(start.elapsed() >= delay);
                }
            });
        }
        at_work.wait();
        println!("{READY}");
    });
    let longest = Duration::from_millis(longest.into_inner());
    assert!(
        longest + ms(100) >= STOPPED_FOR,
        "it was not stopped, but for {longest:?}"
    );
    for timer in timers {
        eventually("all is over", || timer.pending_timeouts() == 0);
        assert!(timer.stop().unwrap().is_empty());
        assert_counts_add_up(&timer);
    }
}

/// All the time: what is cancelled does not run, what is not runs once.
fn schedule_and_cancel(timer: &Timer) {
    let runs = common::Count::new();
    let (start, mut expected) = (Instant::now(), 0);
    while start.elapsed() < STOPPED_FOR + ms(500) {
        for n in 0..20 {
            let timeout = timer.new_timeout(runs.task(), ms(n)).unwrap();
            if n % 2 == 0 || !timeout.cancel() {
                expected += 1;
            }
        }
        // Leaves the processors to the other threads.
        thread::sleep(ms(1));
    }
    eventually("each has run", || runs.get() == expected);
}

/// Deadlines before, in and after the time in which the process is stopped.
fn fire_in_order(timer: &Timer) {
    let runs = Record::new();
    // One moment for all: the process may be stopped between two calls.
    let start = timer.now();
    for n in (0..60).rev() {
        let record = runs.clone();
        let delay = ms(50 * n);
        let task = move |_: &Timeout| record.push((delay, start.elapsed()));
        timer.new_timeout_at(task, start + delay).unwrap();
    }
    let scheduled = start.elapsed();
    eventually("each has run", || runs.len() == 60);
    let runs = runs.take();
    // What was scheduled when it was due already comes in the order of the calls.
    let mut in_time = runs.iter().filter(|(delay, _)| *delay > scheduled);
    assert!(
        in_time.clone().is_sorted_by_key(|(delay, _)| *delay),
        "in order"
    );
    assert!(in_time.next().is_some());
    for (delay, ran) in runs {
        assert!(ran >= delay, "{delay:?} ran after {ran:?}");
    }
}

/// What was missed is skipped: no burst follows.
fn keep_the_rate(timer: &Timer, at_work: &Barrier) {
    let runs = Record::new();
    let (record, start) = (runs.clone(), Instant::now());
    let task = move |_: &Timeout| record.push(start.elapsed());
    let periodic = timer
        .new_periodic(task, PERIOD, Period::FixedRate(PERIOD))
        .unwrap();
    eventually("it runs", || runs.len() > 0);
    at_work.wait();
    // Over the time in which the process is stopped.
    thread::sleep(STOPPED_FOR + ms(800));
    eventually("it runs again", || {
        runs.len() > 8 || start.elapsed() > STOPPED_FOR + ms(1500)
    });
    assert!(periodic.cancel());
    let runs = runs.take();
    for (n, ran) in runs.iter().enumerate() {
        let due = PERIOD * u32::try_from(n + 1).unwrap();
        assert!(*ran >= due, "run {n} came after {ran:?}");
    }
    let after = (1..runs.len())
        .find(|&n| runs[n] > runs[n - 1] + STOPPED_FOR / 2)
        .expect("the process was stopped between two runs");
    // The next one may follow at once, if it is due; the one after that is a period later. A tick is the
    // grain of what counts as missed.
    if let Some(second) = runs.get(after + 2) {
        assert!(*second + ms(5) >= runs[after] + PERIOD, "a burst: {runs:?}");
    }
}

// ── the end of the process ────────────────────────────────────────────────────────────────────────

static HASHED: OnceLock<HashedWheelTimer> = OnceLock::new();
static HIERARCHICAL: OnceLock<HierarchicalWheelTimer> = OnceLock::new();

#[test]
fn a_process_ends_with_timers_in_statics() {
    const NAME: &str = "a_process_ends_with_timers_in_statics";
    if !is_child(NAME) {
        return assert!(wait(start(NAME)).success());
    }
    let hashed = HASHED.get_or_init(|| HashedWheelTimer::new(ms(1), 8));
    let hierarchical = HIERARCHICAL.get_or_init(HierarchicalWheelTimer::default);
    for n in 0..100 {
        for delay in [ms(n % 5), FAR] {
            hashed.new_timeout(|_| {}, delay).unwrap();
            hierarchical.new_timeout(|_| {}, delay).unwrap();
        }
    }
    println!("{READY}");
}

#[test]
fn a_process_ends_with_a_forgotten_owner() {
    const NAME: &str = "a_process_ends_with_a_forgotten_owner";
    if !is_child(NAME) {
        return assert!(wait(start(NAME)).success());
    }
    for kind in [Kind::Hashed, Kind::Hierarchical] {
        let timer = kind.real(ms(1));
        fill(&timer);
        mem::forget(timer);
    }
    println!("{READY}");
}

#[test]
fn a_process_ends_while_a_task_blocks() {
    const NAME: &str = "a_process_ends_while_a_task_blocks";
    if !is_child(NAME) {
        return assert!(wait(start(NAME)).success());
    }
    for kind in [Kind::Hashed, Kind::Hierarchical] {
        let timer = kind.real(ms(1));
        fill(&timer);
        let (began, beginning) = mpsc::channel();
        let task = move |_: &Timeout| {
            began.send(()).unwrap();
            thread::sleep(FAR);
        };
        timer.new_timeout(task, ms(0)).unwrap();
        recv(&beginning);
        mem::forget(timer);
    }
    println!("{READY}");
}

/// The child ends with this code.
const CODE: i32 = 7;

/// Ends the process from within: a task, a task on an executor, a periodic one, a waker, the drop of a task.
fn exit_from(place: &str, kind: Kind) {
    let (jobs, inbox) = mpsc::channel::<Job>();
    thread::spawn(move || inbox.into_iter().for_each(|job| job()));
    let executor = move |job: Job| jobs.send(job).unwrap();
    let timer = match place {
        "job" => kind.builder().tick(ms(1)).executor(executor).build(),
        _ => kind.real(ms(1)),
    };
    fill(&timer);
    println!("{READY}");
    let exit = || -> () { process::exit(CODE) };
    match place {
        "periodic" => {
            let task = move |_: &Timeout| exit();
            let period = Period::FixedDelay(ms(1));
            timer.new_periodic(task, ms(3), period).unwrap();
        }
        "waker" => {
            struct Exit;
            impl std::task::Wake for Exit {
                fn wake(self: std::sync::Arc<Self>) {
                    process::exit(CODE);
                }
            }
            let waker = std::task::Waker::from(std::sync::Arc::new(Exit));
            let mut sleep = Box::pin(timer.sleep(ms(3)));
            assert!(common::poll::poll_with(sleep.as_mut(), &waker).is_pending());
            mem::forget(sleep);
        }
        "drop" => {
            struct Exit;
            impl Drop for Exit {
                fn drop(&mut self) {
                    process::exit(CODE);
                }
            }
            let held = Exit;
            let task = move |_: &Timeout| drop(held);
            timer.new_timeout(task, FAR).unwrap();
            drop(timer);
        }
        _ => drop(timer.new_timeout(move |_| exit(), ms(3)).unwrap()),
    }
    // Ended by the task, or failed by the parent.
    thread::sleep(WATCHDOG);
}

#[test]
fn a_task_may_end_the_process() {
    const NAME: &str = "a_task_may_end_the_process";
    const PLACE: &str = "HASHED_WHEEL_FAULT_PLACE";
    if is_child(NAME) {
        let place = env::var(PLACE).unwrap();
        let (place, kind) = place.split_once(' ').unwrap();
        let kind = [Kind::Hashed, Kind::Hierarchical][usize::from(kind != "hashed")];
        return exit_from(place, kind);
    }
    for place in ["task", "job", "periodic", "waker", "drop"] {
        for kind in ["hashed", "hierarchical"] {
            let mut command = command(NAME);
            command.env(PLACE, format!("{place} {kind}"));
            let status = wait(start_with(command));
            assert_eq!(status.code(), Some(CODE), "{place}, {kind}");
        }
    }
}

// ── no thread to be had ───────────────────────────────────────────────────────────────────────────

#[test]
fn a_thread_that_the_system_refuses_is_a_spawn_error_and_nothing_hangs() {
    const NAME: &str = "a_thread_that_the_system_refuses_is_a_spawn_error_and_nothing_hangs";
    if !is_child(NAME) {
        let mut command = command(NAME);
        // The stack of a thread, which no system has room for.
        let stack = match usize::BITS {
            64 => 1 << 60,
            _ => usize::MAX / 16 * 15,
        };
        command.env("RUST_MIN_STACK", stack.to_string());
        return assert!(wait(start_with(command)).success());
    }
    println!("{READY}");
    for kind in [Kind::Hashed, Kind::Hierarchical] {
        let timer = kind.real(ms(1));
        for tries in 1..=3 {
            let text = String::from("the task comes back");
            let task = move |_: &Timeout| println!("{text}");
            let rejected = timer.new_timeout(task, ms(1)).unwrap_err();
            assert!(matches!(rejected.reason, RejectReason::Spawn(_)));
            assert_eq!(timer.state(), TimerState::Init);
            assert_eq!(timer.stats().rejected, tries);
            assert!(timer.start().is_err());
        }
        assert!(timer.stop().unwrap().is_empty());
        assert_eq!(timer.state(), TimerState::Shutdown);
        assert_counts_add_up(&timer);
    }
    let global = hashed_wheel::global();
    let queue = DelayQueue::new(global);
    for _ in 0..3 {
        let rejected = global.new_timeout(|_| {}, ms(1)).unwrap_err();
        assert!(matches!(rejected.reason, RejectReason::Spawn(_)));
        let rejected = queue.insert("the value comes back", ms(1)).unwrap_err();
        assert!(matches!(rejected.reason, RejectReason::Spawn(_)));
        assert_eq!((rejected.task, queue.len()), ("the value comes back", 0));
        let slept = block_on(hashed_wheel::sleep(ms(1)));
        assert!(matches!(slept, Err(RejectReason::Spawn(_))));
        assert_eq!(global.state(), TimerState::Init);
        assert_eq!(global.stop().unwrap_err(), StopError::Global);
    }
}

// ── threads that nobody joins ─────────────────────────────────────────────────────────────────────

/// Megabytes of memory that are mapped, whether they are in use or not.
#[cfg(target_os = "linux")]
fn mapped() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmSize:"));
    let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
    kilobytes.parse::<u64>().unwrap() >> 10
}

#[cfg(target_os = "linux")]
#[test]
fn a_timer_that_its_task_dropped_keeps_no_stack_while_there_are_handles() {
    const NAME: &str = "a_timer_that_its_task_dropped_keeps_no_stack_while_there_are_handles";
    const STACK: u64 = 64;
    const TIMERS: u64 = 40;
    if !is_child(NAME) {
        let mut command = command(NAME);
        command.env("RUST_MIN_STACK", (STACK << 20).to_string());
        return assert!(wait(start_with(command)).success());
    }
    println!("{READY}");
    let before = mapped();
    let handles: Vec<_> = (0..TIMERS)
        .map(|n| {
            let kind = [Kind::Hashed, Kind::Hierarchical][usize::from(n % 2 == 0)];
            let timer = kind.real(ms(1));
            let handle = timer.handle();
            handle.new_timeout(move |_| drop(timer), ms(0)).unwrap();
            eventually("it has ended", || handle.state() == TimerState::Shutdown);
            handle
        })
        .collect();
    // The last one may not be gone yet, and the system keeps some for threads to come.
    eventually("the stacks are gone", || {
        mapped().saturating_sub(before) < STACK * TIMERS / 2
    });
    assert_eq!(handles.len() as u64, TIMERS);
}
