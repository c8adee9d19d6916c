//! Counts the cache lines that two producers both write, operation by operation, from a trace of all their stores.
//!
//! The test runs itself under valgrind's tool `lackey`, which prints the address of every load and store. In there, two
//! threads take turns: each does the same operation some times, between two stores to a known address. A line counts if
//! both have written it meanwhile. Without valgrind the test does nothing; the table of the performance page is what it checks.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use hashed_wheel::{HashedWheelTimer, ManualClock, Timeout};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

/// Calls of each operation by each thread.
const CALLS: usize = 30;
const LINE: u64 = 64;
/// How long a thread may take to fall asleep once it has passed the turn on.
const REST: Duration = Duration::from_millis(200);
/// Set in the child: it runs the operations.
const CHILD: &str = "HASHED_WHEEL_CACHE_LINES";

/// The operations, in the order of the child.
const OPERATIONS: [&str; 6] = [
    "new_timeout",
    "reset to later",
    "cancel",
    "new_timeout, cancel and drop in turn",
    "new_timeout with a limit",
    "cancel with a limit",
];
/// The operations that write one line in common: the count of pending timeouts.
const WITH_LIMIT: [&str; 2] = ["new_timeout with a limit", "cancel with a limit"];

/// Stores to it begin and end what is counted.
static MARK: AtomicU64 = AtomicU64::new(0);

fn counted<R>(mut run: impl FnMut() -> R) -> R {
    MARK.store(1, Ordering::SeqCst);
    let result = run();
    MARK.store(2, Ordering::SeqCst);
    result
}

/// What each of the two threads does, in turns.
fn operations(
    timer: &HashedWheelTimer,
    limited: &HashedWheelTimer,
    own_turn: &Receiver<()>,
    other: &Sender<()>,
) {
    let far = |number: usize| Duration::from_secs(60) + Duration::from_millis(number as u64);
    let schedule = |timer: &HashedWheelTimer, number: usize| {
        timer.new_timeout(|_| {}, far(number)).expect("a timeout")
    };
    let mut kept: Vec<Timeout> = Vec::with_capacity(CALLS);
    // In turns as well: what a thread stores while the other is counted would count.
    own_turn.recv().expect("the first turn");
    warm_up(timer);
    warm_up(limited);
    other.send(()).expect("the other thread waits");
    let mut step = 0;
    let mut next = |run: &mut dyn FnMut()| {
        // Blocked, and not spinning: what a thread stores while it waits would count as the other's.
        own_turn
            .recv()
            .expect("the other thread passes the turn on");
        // And the other one has come to rest.
        thread::sleep(REST);
        counted(run);
        step += 1;
        // At the end the other one has gone.
        let _ = other.send(());
    };
    next(&mut || kept.extend((0..CALLS).map(|number| schedule(timer, number))));
    next(&mut || {
        for timeout in &kept {
            assert!(timeout.reset(far(2 * CALLS)));
        }
    });
    next(&mut || {
        for timeout in kept.drain(..) {
            assert!(timeout.cancel());
        }
    });
    next(&mut || {
        for number in 0..CALLS {
            schedule(timer, number).cancel();
        }
    });
    next(&mut || kept.extend((0..CALLS).map(|number| schedule(limited, number))));
    next(&mut || {
        for timeout in kept.drain(..) {
            assert!(timeout.cancel());
        }
    });
    assert_eq!(step, OPERATIONS.len());
}

/// Lets the thread have slots of its own and the earliest of its deadlines before anything is counted: a thread takes and
/// gives back slots in groups, and tells the timer thread only of a deadline that is earlier than those before.
fn warm_up(timer: &HashedWheelTimer) {
    for _ in 0..3 {
        let timeouts: Vec<Timeout> = (0..2 * CALLS)
            .map(|number| {
                let delay = Duration::from_secs(30) + Duration::from_millis(number as u64);
                timer.new_timeout(|_| {}, delay).expect("a timeout")
            })
            .collect();
        for timeout in timeouts {
            timeout.cancel();
        }
    }
}

#[test]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let clock = ManualClock::new();
    let builder = || HashedWheelTimer::builder().clock(&clock);
    let timer = builder().build().unwrap();
    let limited = builder().max_pending_timeouts(1_000_000).build().unwrap();
    println!("MARK {:x}", MARK.as_ptr() as usize);
    let (first, second) = (mpsc::channel(), mpsc::channel());
    first.0.send(()).unwrap();
    let threads = [(first.1, second.0), (second.1, first.0)];
    thread::scope(|scope| {
        for (own_turn, other) in threads {
            let (timer, limited) = (&timer, &limited);
            scope.spawn(move || operations(timer, limited, &own_turn, &other));
        }
    });
}

/// The lines that a thread has written in each of its operations, in the order of the trace.
fn trace() -> Option<Vec<BTreeSet<u64>>> {
    if std::env::var("RUSTFLAGS").is_ok_and(|flags| flags.contains("sanitizer")) {
        println!("valgrind cannot run a sanitizer: cache lines are not counted");
        return None;
    }
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("valgrind");
    command.args(["--tool=lackey", "--trace-mem=yes", "--log-fd=1"]);
    let child = command
        .arg(program)
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else {
        println!("valgrind is not installed: cache lines are not counted");
        return None;
    };
    let output = BufReader::with_capacity(1 << 20, child.stdout.take().unwrap());
    let mut mark = None;
    let mut parts: Vec<BTreeSet<u64>> = Vec::new();
    let mut is_counting = false;
    for line in output.split(b'\n') {
        let line = line.unwrap();
        if let Some(address) = line.strip_prefix(b"MARK ") {
            mark = u64::from_str_radix(std::str::from_utf8(address).unwrap(), 16).ok();
            continue;
        }
        // ` S 1ffefffb88,8` stores, ` M …` modifies; everything else is no store.
        let Some(store) = line.strip_prefix(b" S ").or(line.strip_prefix(b" M ")) else {
            continue;
        };
        let Some((address, size)) = parse(store) else {
            continue;
        };
        if Some(address) == mark {
            is_counting = !is_counting;
            if is_counting {
                parts.push(BTreeSet::new());
            }
        } else if let Some(part) = parts.last_mut().filter(|_| is_counting) {
            part.extend(address / LINE..=(address + size - 1) / LINE);
        }
    }
    assert!(child.wait().unwrap().success(), "the child failed");
    Some(parts)
}

fn parse(store: &[u8]) -> Option<(u64, u64)> {
    let (address, size) = std::str::from_utf8(store).ok()?.split_once(',')?;
    Some((u64::from_str_radix(address, 16).ok()?, size.parse().ok()?))
}

#[test]
fn producers_write_no_line_in_common_but_the_limits() {
    let Some(parts) = trace() else {
        return;
    };
    assert_eq!(parts.len(), 2 * OPERATIONS.len(), "operations in the trace");
    let mut common = BTreeMap::new();
    for (operation, pair) in OPERATIONS.iter().zip(parts.chunks(2)) {
        let [one, other] = pair else { unreachable!() };
        // Each call writes at least the slot of its timeout.
        assert!(one.len() >= CALLS / 2, "{operation}: {} lines", one.len());
        let both = one.intersection(other).count();
        println!(
            "{operation}: {} and {} lines, {both} in common",
            one.len(),
            other.len()
        );
        common.insert(*operation, both);
    }
    for operation in OPERATIONS {
        let expected = usize::from(WITH_LIMIT.contains(&operation));
        assert_eq!(common[operation], expected, "{operation}: {common:?}");
    }
}
