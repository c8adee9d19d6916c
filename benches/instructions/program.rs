//! The operations whose instructions `benches/instructions/check` counts, one at a time: run by it under
//! callgrind, which counts what happens within [`measured`] and nothing else.

use std::collections::VecDeque;
use std::env;
use std::hint::black_box;
use std::mem;
use std::time::Duration;

use hashed_wheel::{
    DelayQueue, HashedWheelTimer, HierarchicalWheelTimer, ManualClock, TimerHandle,
};

/// As many as are counted at once. The check divides by it.
const TIMEOUTS: u32 = 100_000;
/// Slots that may be transferred at a tick: more than ever wait, as those that were used before wait too.
const ROOM: usize = 2 * TIMEOUTS as usize;
const DELAY: Duration = Duration::from_secs(30);
const USAGE: &str = "usage: instructions OPERATION   (see benches/instructions/check)";

/// Where counting begins and ends: callgrind is given the name.
#[inline(never)]
fn measured(work: &mut dyn FnMut()) {
    work();
}

fn measure(mut work: impl FnMut()) {
    measured(black_box(&mut work));
}

fn hashed(clock: &ManualClock) -> TimerHandle {
    let builder = HashedWheelTimer::builder()
        .tick_duration(Duration::from_millis(10))
        .ticks_per_wheel(4096)
        .max_transfers_per_tick(ROOM);
    let owner = builder.clock(clock).build().expect("allowed settings");
    let timer = owner.handle();
    // Its end is not what is counted, so it lives as long as the process.
    mem::forget(owner);
    timer
}

fn hierarchical(clock: &ManualClock) -> TimerHandle {
    let builder = HierarchicalWheelTimer::builder()
        .max_transfers_per_tick(ROOM)
        .clock(clock);
    let owner = builder.build().expect("allowed settings");
    let timer = owner.handle();
    mem::forget(owner);
    timer
}

fn schedule(timer: &TimerHandle) -> hashed_wheel::Timeout {
    timer.new_timeout(|_| {}, DELAY).expect("the timer runs")
}

#[expect(clippy::too_many_lines, reason = "one arm for each operation")]
fn main() {
    // `cargo bench` adds an argument of its own.
    let operation = env::args().skip(1).find(|argument| argument != "--bench");
    let Some(operation) = operation else {
        // As one of all benches: there is nothing to be counted without callgrind.
        println!("{USAGE}");
        return;
    };
    // On a manual clock there is no other thread, so that every run counts the same.
    let clock = ManualClock::new();
    let timer = match operation.as_str() {
        "fire_hierarchical" => hierarchical(&clock),
        _ => hashed(&clock),
    };
    // The first timeouts of a thread and of a timer make what the later ones use.
    let warm: Vec<_> = (0..TIMEOUTS).map(|_| schedule(&timer)).collect();
    for timeout in warm {
        timeout.cancel();
    }
    // What that has left in the queue is passed over by later pushes, not by those that are counted.
    for _ in 0..2 * TIMEOUTS {
        schedule(&timer).cancel();
    }

    let mut timeouts = VecDeque::with_capacity(TIMEOUTS as usize + 1);
    match operation.as_str() {
        "new_timeout" => measure(|| {
            for _ in 0..TIMEOUTS {
                timeouts.push_back(schedule(&timer));
            }
        }),
        "new_timeout_at" => {
            let moment = timer.now() + DELAY;
            measure(|| {
                for _ in 0..TIMEOUTS {
                    let timeout = timer.new_timeout_at(|_| {}, moment);
                    timeouts.push_back(timeout.expect("the timer runs"));
                }
            });
        }
        "cancel" => {
            timeouts.extend((0..TIMEOUTS).map(|_| schedule(&timer)));
            measure(|| {
                while let Some(timeout) = timeouts.pop_front() {
                    timeout.cancel();
                }
            });
        }
        "churn" => {
            timeouts.extend((0..1000).map(|_| schedule(&timer)));
            measure(|| {
                for _ in 0..TIMEOUTS {
                    timeouts.push_back(schedule(&timer));
                    timeouts.pop_front().map(|oldest| oldest.cancel());
                }
            });
        }
        "delay_queue" => {
            let queue = DelayQueue::new(&timer);
            let insert = |n| queue.insert(n, DELAY).expect("the timer runs");
            let mut keys: VecDeque<_> = (0..1000).map(insert).collect();
            measure(|| {
                for n in 0..TIMEOUTS {
                    keys.push_back(insert(n));
                    let oldest = keys.pop_front();
                    assert!(oldest.is_some_and(|key| queue.remove(&key).is_some()));
                }
            });
        }
        // The clock stands still, so it stays in its tick.
        "reset" => {
            timeouts.extend((0..1000).map(|_| schedule(&timer)));
            measure(|| {
                for _ in 0..TIMEOUTS / 1000 {
                    for timeout in &timeouts {
                        timeout.reset(DELAY);
                    }
                }
            });
        }
        "reset_at" => {
            timeouts.extend((0..1000).map(|_| schedule(&timer)));
            let moment = timer.now() + DELAY;
            measure(|| {
                for _ in 0..TIMEOUTS / 1000 {
                    for timeout in &timeouts {
                        timeout.reset_at(moment);
                    }
                }
            });
        }
        "reset_later" => {
            timeouts.extend((0..1000).map(|_| schedule(&timer)));
            measure(|| {
                for round in 1..=TIMEOUTS / 1000 {
                    for timeout in &timeouts {
                        timeout.reset(DELAY * round);
                    }
                }
            });
        }
        "for_each_pending" => {
            timeouts.extend((0..TIMEOUTS).map(|_| schedule(&timer)));
            let mut shown = 0;
            measure(|| {
                timer.for_each_pending(|pending| shown += black_box(pending).due_tick.min(1));
            });
            assert_eq!(shown, u64::from(TIMEOUTS));
        }
        // The caller's loop comes round, and nothing is due. On the system's clock, with ticks that are too long to pass.
        "turn" => {
            let builder = HashedWheelTimer::builder().tick_duration(Duration::from_secs(3600));
            let (timer, mut driver) = builder.build_driven().expect("allowed settings");
            timeouts.extend((0..1000).map(|_| schedule(&timer)));
            // Entries leave the queue when they have been there for 200 ms. Not in the midst of the count: that would
            // depend on how fast the machine is.
            driver.turn();
            std::thread::sleep(Duration::from_millis(300));
            driver.turn();
            measure(|| {
                for _ in 0..TIMEOUTS {
                    driver.turn();
                    black_box(driver.next_due());
                }
            });
        }
        "fire_hashed" | "fire_hierarchical" => {
            // From the queue to the task. The handles are gone, as those of most timeouts that fire.
            for number in 0..TIMEOUTS {
                let delay = DELAY + Duration::from_micros(20) * number;
                timer.new_timeout(|_| {}, delay).expect("the timer runs");
            }
            measure(|| clock.advance(2 * DELAY));
            assert_eq!(timer.stats().expired, u64::from(TIMEOUTS));
        }
        other => {
            eprintln!("there is no operation {other:?}\n{USAGE}");
            std::process::exit(2);
        }
    }
}
