//! What the operating system knows about this process: CPU time, memory, wake-ups.

use std::fs;
use std::time::{Duration, Instant};

/// CPU time of all threads of this process, those that have ended included.
pub(crate) fn process_cpu() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of the calling thread.
fn own_cpu() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of all threads but the calling one: the timer's, in a workload that has no producer
/// threads of its own.
pub(crate) fn worker_cpu() -> Duration {
    process_cpu().saturating_sub(own_cpu())
}

fn clock(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid, writable timespec, and both clocks exist on every Linux.
    let code = unsafe { libc::clock_gettime(id, &raw mut time) };
    assert_eq!(code, 0, "clock_gettime({id}) failed");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Bytes of memory that are resident now.
pub(crate) fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("/proc/self/statm");
    let pages: u64 = statm
        .split_whitespace()
        .nth(1)
        .and_then(|field| field.parse().ok())
        .expect("a resident size in /proc/self/statm");
    // SAFETY: sysconf takes any name and has no other precondition.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    pages * page as u64
}

/// How often threads other than the calling one have gone to sleep of their own accord so far;
/// between two readings this is the number of their wake-ups.
pub(crate) fn worker_sleeps() -> u64 {
    // SAFETY: gettid has no precondition.
    let own = unsafe { libc::gettid() }.to_string();
    let tasks = fs::read_dir("/proc/self/task").expect("/proc/self/task");
    tasks
        .flatten()
        .filter(|task| task.file_name().to_string_lossy() != own)
        .filter_map(|task| fs::read_to_string(task.path().join("status")).ok())
        .filter_map(|status| voluntary_switches(&status))
        .sum()
}

fn voluntary_switches(status: &str) -> Option<u64> {
    let rest = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    rest.trim().parse().ok()
}

/// Asks for the calling thread to be woken as exactly as the system can.
pub(crate) fn finest_timer_slack() {
    // SAFETY: this option takes a number and touches nothing but the calling thread's slack.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
}

/// Waits until the other threads have worked off what they were given: until they use less than
/// a fifth of a core, but no longer than `limit`. Returns how long that took them.
pub(crate) fn wait_until_quiet(limit: Duration) -> Duration {
    const WINDOW: Duration = Duration::from_millis(20);
    let start = Instant::now();
    loop {
        let (cpu, waited) = (worker_cpu(), start.elapsed());
        std::thread::sleep(WINDOW);
        if waited > limit || worker_cpu().saturating_sub(cpu) < WINDOW / 5 {
            return waited;
        }
    }
}

/// Tells how much of the machine others have used while one child ran: figures taken on a busy
/// machine are no figures.
#[derive(Debug)]
pub(crate) struct Neighbours {
    start: Instant,
    machine: Duration,
    children: Duration,
}

impl Neighbours {
    pub(crate) fn watch() -> Self {
        Self {
            start: Instant::now(),
            machine: machine_cpu(),
            children: children_cpu(),
        }
    }

    /// The share of all processors that was used by anybody but the children that have ended since.
    pub(crate) fn share(&self) -> f64 {
        let machine = machine_cpu().saturating_sub(self.machine);
        let children = children_cpu().saturating_sub(self.children);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let all = self.start.elapsed().as_secs_f64() * processors as f64;
        machine.saturating_sub(children).as_secs_f64() / all
    }
}

/// CPU time of all processes on all processors since the machine was started, the time that a
/// hypervisor took away included.
fn machine_cpu() -> Duration {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = stat.lines().next().unwrap_or_default().split_whitespace();
    let ticks: Vec<u64> = fields.filter_map(|field| field.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; what guests use is in the first two.
    let busy = ticks.iter().take(8).sum::<u64>() - ticks.iter().skip(3).take(2).sum::<u64>();
    // SAFETY: sysconf takes any name and has no other precondition.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Duration::from_secs_f64(busy as f64 / per_second as f64)
}

/// CPU time of the children that have ended and been waited for.
fn children_cpu() -> Duration {
    // SAFETY: a rusage is made of numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid and writable.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    let time = |part: libc::timeval| {
        Duration::from_secs(part.tv_sec as u64) + Duration::from_micros(part.tv_usec as u64)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// A small, fast random generator: the same sequence in every run and for every contestant.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A random number below `bound` (xorshift64, scaled by a wide multiplication).
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u64
    }

    /// A random time of less than `span`.
    #[inline]
    pub(crate) fn within(&mut self, span: Duration) -> Duration {
        Duration::from_nanos(self.below(span.as_nanos() as u64))
    }
}
