//! The run: a timer, its producers, one window after the other, and the verdict.

use crate::calls::Calls;
use crate::producer::{DOING, PENDING};
use crate::suspension::{SUSPENSION, install_handlers};
use crate::windows::{Windows, watch_suspension, watch_undisturbed};
use crate::world::{PRODUCERS, Random, World, eventually, ms};
use hashed_wheel::{HashedWheelTimer, Period};
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

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
    let world: &'static World = Box::leak(Box::new(World::new()));
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
            let random = Random(seed.wrapping_mul(PRODUCERS as u64 + 1) + number);
            let calls = Calls::new(world, producer, timer.handle(), random);
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
        world
            .fail("the periodic task runs far less often while a producer is suspended".to_owned());
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
