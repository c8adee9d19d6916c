//! What each operation costs alone: `cargo bench --bench operations`.
//!
//! All but `new_timeout_and_cancel` run on a manual clock, where the thread that advances the
//! clock does the worker's part, so caller's and worker's costs can be told apart. A batch of
//! timeouts is prepared, the operation alone is timed, and what it leaves behind is cleared away
//! untimed. Figures are per timeout unless the name says otherwise.

#![allow(missing_docs, reason = "criterion's macro makes a public function")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use hashed_wheel::{HashedWheelTimer, HierarchicalWheelTimer, ManualClock, Timeout, TimerHandle};

const TICK: Duration = Duration::from_millis(1);
const SLOTS: usize = 512;
const WHEEL_SIZE: usize = 20;
const FAR: Duration = Duration::from_secs(100);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
/// Timeouts prepared at a time: they fit the second-level cache, and any queue.
const BATCH: u64 = 1024;

/// One timer on a manual clock. The owner is kept only for its drop.
struct Bench {
    clock: ManualClock,
    timer: TimerHandle,
    _owner: Owner,
}

/// Either timer; both are used through their handle, which is the same type.
#[allow(dead_code, reason = "the owners are kept for their drop")]
enum Owner {
    Hashed(HashedWheelTimer),
    Hierarchical(HierarchicalWheelTimer),
}

fn hashed() -> Bench {
    let clock = ManualClock::new();
    let owner = HashedWheelTimer::builder()
        .tick_duration(TICK)
        .ticks_per_wheel(SLOTS)
        .clock(&clock)
        .build()
        .expect("these settings are allowed");
    Bench {
        clock,
        timer: owner.handle(),
        _owner: Owner::Hashed(owner),
    }
}

fn hierarchical() -> Bench {
    let clock = ManualClock::new();
    let owner = HierarchicalWheelTimer::builder()
        .tick_duration(TICK)
        .wheel_size(WHEEL_SIZE)
        .clock(&clock)
        .build()
        .expect("these settings are allowed");
    Bench {
        clock,
        timer: owner.handle(),
        _owner: Owner::Hierarchical(owner),
    }
}

type MakeBench = fn() -> Bench;
const WHEELS: [(&str, MakeBench); 2] = [("hashed", hashed), ("hierarchical", hierarchical)];

impl Bench {
    fn schedule(&self, delay: Duration) -> Timeout {
        let task = |timeout: &Timeout| {
            black_box(timeout.is_expired());
        };
        self.timer
            .new_timeout(task, delay)
            .expect("no limit is set")
    }

    /// `count` timeouts that are still in the pending queue.
    fn queued(&self, count: u64, delay: Duration) -> Vec<Timeout> {
        (0..count).map(|_| self.schedule(delay)).collect()
    }

    /// `count` timeouts that are in the wheel.
    fn filed(&self, count: u64, delay: Duration) -> Vec<Timeout> {
        let timeouts = self.queued(count, delay);
        self.clock.advance(TICK);
        timeouts
    }

    fn clear(&self, timeouts: &[Timeout]) {
        for timeout in timeouts {
            timeout.cancel();
        }
        self.clock.advance(TICK);
    }
}

/// Times `operation` on batches that `prepare` makes, `iterations` timeouts in all; the rest, that
/// `tidy` clears away, is not timed.
fn batches<P, R>(
    iterations: u64,
    mut prepare: impl FnMut(u64) -> P,
    mut operation: impl FnMut(P) -> R,
    mut tidy: impl FnMut(R),
) -> Duration {
    let mut total = Duration::ZERO;
    let mut left = iterations;
    while left > 0 {
        let count = left.min(BATCH);
        let prepared = prepare(count);
        let start = Instant::now();
        let rest = operation(prepared);
        total += start.elapsed();
        tidy(rest);
        left -= count;
    }
    total
}

/// A group of one operation on both wheels.
fn on_both(
    c: &mut Criterion,
    name: &str,
    mut bench: impl FnMut(&mut BenchmarkGroup<'_, WallTime>, &str, &Bench),
) {
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(1));
    for (wheel, make) in WHEELS {
        bench(&mut group, wheel, &make());
    }
    group.finish();
}

/// The caller's side.
fn caller(c: &mut Criterion) {
    on_both(c, "new_timeout", |group, wheel, bench| {
        group.bench_function(wheel, |b| {
            b.iter_custom(|iterations| {
                let schedule = |count| (0..count).for_each(|_| drop(bench.schedule(FAR)));
                batches(
                    iterations,
                    |count| count,
                    schedule,
                    |()| bench.clock.advance(2 * FAR),
                )
            });
        });
    });
    on_both(c, "cancel_queued", |group, wheel, bench| {
        group.bench_function(wheel, |b| {
            b.iter_custom(|iterations| {
                let prepare = |count| bench.queued(count, FAR);
                batches(iterations, prepare, cancel_all, |()| {
                    bench.clock.advance(TICK);
                })
            });
        });
    });
    on_both(c, "cancel_in_wheel", |group, wheel, bench| {
        group.bench_function(wheel, |b| {
            b.iter_custom(|iterations| {
                let prepare = |count| bench.filed(count, FAR);
                batches(iterations, prepare, cancel_all, |()| {
                    bench.clock.advance(TICK);
                })
            });
        });
    });
    for (name, delay) in [("reset_later", 2 * FAR), ("reset_earlier", FAR / 2)] {
        on_both(c, name, |group, wheel, bench| {
            group.bench_function(wheel, |b| {
                b.iter_custom(|iterations| {
                    let prepare = |count| bench.filed(count, FAR);
                    let tidy = |timeouts: Vec<Timeout>| bench.clear(&timeouts);
                    batches(
                        iterations,
                        prepare,
                        |timeouts| reset_all(timeouts, delay),
                        tidy,
                    )
                });
            });
        });
    }
}

fn cancel_all(timeouts: Vec<Timeout>) {
    for timeout in timeouts {
        black_box(timeout.cancel());
    }
}

fn reset_all(timeouts: Vec<Timeout>, delay: Duration) -> Vec<Timeout> {
    for timeout in &timeouts {
        black_box(timeout.reset(delay));
    }
    timeouts
}

/// Schedule and cancel, again and again, while a real worker ticks.
fn in_real_time(c: &mut Criterion) {
    let mut group = c.benchmark_group("new_timeout_and_cancel");
    group.throughput(Throughput::Elements(1));
    let hashed = HashedWheelTimer::new(10 * TICK, 4096);
    let hierarchical = HierarchicalWheelTimer::new(10 * TICK, WHEEL_SIZE);
    for (wheel, timer) in [
        ("hashed", hashed.handle()),
        ("hierarchical", hierarchical.handle()),
    ] {
        group.bench_function(wheel, |b| {
            b.iter(|| {
                let timeout = timer.new_timeout(|_| {}, FAR).expect("no limit is set");
                timeout.cancel()
            });
        });
    }
    group.finish();
}

/// The worker's side.
fn worker(c: &mut Criterion) {
    on_both(c, "transfer", |group, wheel, bench| {
        group.bench_function(wheel, |b| {
            b.iter_custom(|iterations| {
                let transfer = |timeouts| {
                    bench.clock.advance(TICK);
                    timeouts
                };
                let tidy = |timeouts: Vec<Timeout>| bench.clear(&timeouts);
                batches(iterations, |count| bench.queued(count, FAR), transfer, tidy)
            });
        });
    });
    on_both(c, "fire", |group, wheel, bench| {
        group.bench_function(wheel, |b| {
            b.iter_custom(|iterations| {
                let prepare = |count| drop(bench.filed(count, 3 * TICK));
                batches(
                    iterations,
                    prepare,
                    |()| bench.clock.advance(5 * TICK),
                    drop,
                )
            });
        });
    });
    on_both(
        c,
        "advance_1000_ticks_over_10000_pending",
        |group, wheel, bench| {
            for number in 0..10_000 {
                drop(bench.schedule(100 * YEAR + number * TICK));
            }
            bench.clock.advance(TICK);
            group.bench_function(wheel, |b| b.iter(|| bench.clock.advance(1000 * TICK)));
        },
    );
}

/// Hashed: entries of later rounds in a bucket that has something due. Each batch has one timeout
/// that falls due next to others that lie in the same bucket, one round later; per other.
fn pass_over(c: &mut Criterion) {
    let round = TICK * SLOTS as u32;
    let mut group = c.benchmark_group("pass_over");
    group.throughput(Throughput::Elements(1));
    group.bench_function("hashed", |b| {
        b.iter_custom(|iterations| {
            let prepare = |count| {
                let bench = hashed();
                drop(bench.schedule(10 * TICK));
                let later = bench.filed(count, 10 * TICK + round);
                (bench, later)
            };
            let pass = |(bench, later): (Bench, Vec<Timeout>)| {
                bench.clock.advance(10 * TICK);
                (bench, later)
            };
            let tidy = |(bench, later): (Bench, Vec<Timeout>)| {
                assert_eq!(bench.timer.pending_timeouts(), later.len());
                bench.clear(&later);
            };
            batches(iterations, prepare, pass, tidy)
        });
    });
    group.finish();
}

/// Hierarchical: with 1 ms × 20, a timeout at 450 ms moves from level 3 to level 2 at 400 ms and to
/// level 1 at 440 ms; per timeout, so two cascades.
fn cascade(c: &mut Criterion) {
    let mut group = c.benchmark_group("cascade_twice");
    group.throughput(Throughput::Elements(1));
    group.bench_function("hierarchical", |b| {
        b.iter_custom(|iterations| {
            let prepare = |count| {
                let bench = hierarchical();
                drop(bench.filed(count, 450 * TICK));
                bench
            };
            let cascade = |bench: Bench| {
                bench.clock.advance(444 * TICK);
                bench
            };
            let tidy = |bench: Bench| {
                let stats = bench.timer.stats();
                assert_eq!(stats.cascaded, 2 * stats.pending);
                bench.clock.advance(10 * TICK);
            };
            batches(iterations, prepare, cascade, tidy)
        });
    });
    group.finish();
}

criterion_group! {
    name = operations;
    config = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3));
    targets = caller, in_real_time, worker, pass_over, cascade
}
criterion_main!(operations);
