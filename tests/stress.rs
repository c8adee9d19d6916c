//! Real threads against each other. Whatever the order of events, every task runs once or is
//! dropped unrun once, and the counters say the same.

mod common;

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use common::{
    Count, FAR, Guard, Kind, Record, Rng, assert_counts_add_up, in_thread, ms, on_both_timers, recv,
};
use hashed_wheel::{Job, Period, RejectReason, Timeout, TimerHandle};

on_both_timers![
    producers_against_cancellers_against_stop,
    a_new_timeout_racing_with_stop_is_fired_returned_or_rejected,
    threads_come_and_go,
    timers_come_and_go_under_their_timeouts,
    periodic_runs_on_an_executor_against_cancel_and_stop,
    sleeping_threads_all_wake_when_the_timer_stops,
];

/// What became of a number of tasks: how often each ran and how often it was dropped.
#[derive(Debug)]
struct Fates(Vec<(AtomicU8, AtomicU8)>);

impl Fates {
    fn new(n: usize) -> Arc<Fates> {
        Arc::new(Fates((0..n).map(|_| Default::default()).collect()))
    }

    fn task(self: &Arc<Self>, id: usize) -> impl FnOnce(&Timeout) + Send + use<> {
        let mark = Mark(Arc::clone(self), id);
        move |_| {
            mark.0.0[mark.1].0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn ran(&self) -> usize {
        self.0
            .iter()
            .filter(|(ran, _)| ran.load(Ordering::SeqCst) == 1)
            .count()
    }

    fn assert_each_ended_once(&self) {
        for (id, (ran, dropped)) in self.0.iter().enumerate() {
            assert!(ran.load(Ordering::SeqCst) <= 1, "task {id} ran twice");
            assert_eq!(
                dropped.load(Ordering::SeqCst),
                1,
                "task {id} was dropped so often"
            );
        }
    }
}

struct Mark(Arc<Fates>, usize);

impl Drop for Mark {
    fn drop(&mut self) {
        self.0.0[self.1].1.fetch_add(1, Ordering::SeqCst);
    }
}

fn producers_against_cancellers_against_stop(kind: Kind) {
    const PRODUCERS: usize = 3;
    const EACH: usize = 1_500;
    for round in 0..6 {
        let timer = Arc::new(kind.real(ms(1)));
        let fates = Fates::new(PRODUCERS * EACH);
        let (hand_over, handles) = mpsc::channel::<Timeout>();
        let handles = Arc::new(std::sync::Mutex::new(handles));
        let produced = Arc::new(AtomicUsize::new(0));
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|p| {
                let (timer, fates) = (Arc::clone(&timer), Arc::clone(&fates));
                let (hand_over, produced) = (hand_over.clone(), Arc::clone(&produced));
                in_thread(move || {
                    let mut random = Rng(round * 100 + p as u64);
                    let mut accepted = 0;
                    for n in 0..EACH {
                        let delay = [ms(random.below(8)), FAR][usize::from(random.below(4) == 0)];
                        let task = fates.task(p * EACH + n);
                        if let Ok(timeout) = timer.new_timeout(task, delay) {
                            accepted += 1;
                            let _ = hand_over.send(timeout);
                        }
                        produced.fetch_add(1, Ordering::SeqCst);
                    }
                    accepted
                })
            })
            .collect();
        drop(hand_over);
        let cancellers: Vec<_> = (0..2)
            .map(|c| {
                let handles = Arc::clone(&handles);
                in_thread(move || {
                    let mut random = Rng(round * 100 + 50 + c);
                    let mut cancelled = 0;
                    loop {
                        let Ok(timeout) = handles.lock().unwrap().recv() else {
                            return cancelled;
                        };
                        match random.below(4) {
                            0 => cancelled += usize::from(timeout.cancel()),
                            1 => _ = timeout.reset(ms(random.below(5))),
                            2 => _ = timeout.reset(FAR),
                            _ => drop(timeout),
                        }
                    }
                })
            })
            .collect();
        // The later rounds stop the timer earlier.
        let when = PRODUCERS * EACH * (6 - round as usize) / 6;
        common::eventually("so many are scheduled", || {
            produced.load(Ordering::SeqCst) >= when
        });
        let left = timer.stop().unwrap();
        let accepted: usize = producers.iter().map(recv).sum();
        let cancelled: usize = cancellers.iter().map(recv).sum();
        let returned = left.len();
        assert_eq!(
            accepted,
            fates.ran() + cancelled + returned,
            "round {round}"
        );
        let s = timer.stats();
        assert_eq!(s.scheduled as usize, accepted);
        assert_eq!(
            (s.cancelled as usize, s.unprocessed as usize),
            (cancelled, returned)
        );
        assert_eq!(s.rejected as usize, PRODUCERS * EACH - accepted);
        assert_counts_add_up(&timer);
        drop(left);
        fates.assert_each_ended_once();
    }
}

fn a_new_timeout_racing_with_stop_is_fired_returned_or_rejected(kind: Kind) {
    const EACH: usize = 200;
    for round in 0..60 {
        let timer = kind.real(ms(1));
        if round % 3 > 0 {
            timer.start().unwrap();
        }
        let fates = Fates::new(2 * EACH);
        let barrier = Barrier::new(3);
        let (rejected, left) = thread::scope(|scope| {
            let add = |first: usize| {
                let mut rejected = 0;
                barrier.wait();
                for id in first..first + EACH {
                    let delay = [ms(0), FAR][id % 2];
                    if let Err(back) = timer.new_timeout(fates.task(id), delay) {
                        assert!(matches!(back.reason, RejectReason::Stopped), "{back}");
                        rejected += 1;
                    }
                }
                rejected
            };
            let adders = [0, EACH].map(|first| scope.spawn(move || add(first)));
            barrier.wait();
            for _ in 0..round * 30 {
                std::hint::spin_loop();
            }
            let left = timer.stop().unwrap();
            let rejected: usize = adders.into_iter().map(|adder| adder.join().unwrap()).sum();
            (rejected, left)
        });
        let fired = fates.ran();
        assert_eq!(
            fired + left.len() + rejected,
            2 * EACH,
            "round {round}: none is lost"
        );
        // Run by hand, those that came back have not run before.
        for timeout in &left {
            timeout.take_task().expect("its task is inside")(timeout);
        }
        assert_eq!(fates.ran(), 2 * EACH - rejected);
        fates.assert_each_ended_once();
        assert_counts_add_up(&timer);
    }
}

fn threads_come_and_go(kind: Kind) {
    let timers = [kind.real(ms(1)), kind.real(ms(1)), kind.real(ms(2))];
    let fates = Fates::new(100 * 60);
    let accepted = Count::new();
    for wave in 0..25 {
        thread::scope(|scope| {
            for t in 0..4 {
                let (timers, fates, accepted) = (&timers, &fates, &accepted);
                scope.spawn(move || {
                    // What one thread arms, another frees, or the worker does.
                    let mut kept = Vec::new();
                    for n in 0..60 {
                        let id = (wave * 4 + t) * 60 + n;
                        let delay = ms(n as u64 % 7);
                        let timeout = timers[id % 3].new_timeout(fates.task(id), delay).unwrap();
                        accepted.add();
                        if n % 2 == 0 {
                            kept.push(timeout);
                        }
                    }
                    thread::spawn(move || kept.iter().filter(|t| t.cancel()).count());
                });
            }
        });
    }
    assert_eq!(accepted.get(), 6_000);
    common::eventually("all is over", || {
        timers.iter().all(|t| t.pending_timeouts() == 0)
    });
    for timer in timers {
        assert!(timer.stop().unwrap().is_empty());
        assert_counts_add_up(&timer);
    }
    common::eventually("the last canceller is gone", || {
        Arc::strong_count(&fates) == 1
    });
    fates.assert_each_ended_once();
}

fn timers_come_and_go_under_their_timeouts(kind: Kind) {
    const EACH: usize = 50;
    let fates = Fates::new(4 * 40 * EACH);
    thread::scope(|scope| {
        for t in 0..4 {
            let fates = &fates;
            scope.spawn(move || {
                let mut older: Vec<Timeout> = Vec::new();
                for round in 0..40 {
                    let timer = kind.real(ms(1));
                    let first = (t * 40 + round) * EACH;
                    let held: Vec<_> = (first..first + EACH)
                        .map(|id| {
                            let delay = [ms(0), ms(1), FAR][id % 3];
                            timer.new_timeout(fates.task(id), delay).unwrap()
                        })
                        .collect();
                    let (handle, in_task) = (timer.handle(), timer.handle());
                    assert!(held.iter().step_by(5).all(|t| t.cancel() || t.is_expired()));
                    timer.new_timeout(move |_| drop(in_task), FAR).unwrap();
                    drop(timer);
                    assert_eq!(handle.pending_timeouts(), 0);
                    assert_counts_add_up(&handle);
                    assert!(held.iter().all(|t| t.is_cancelled() != t.is_expired()));
                    assert!(older.iter().all(|t| t.is_cancelled() != t.is_expired()));
                    older = held;
                }
            });
        }
    });
    fates.assert_each_ended_once();
}

fn periodic_runs_on_an_executor_against_cancel_and_stop(kind: Kind) {
    fn start(timer: &TimerHandle, overlaps: &Count, drops: &Record<thread::ThreadId>) -> Timeout {
        let (inside, overlaps, guard) = (AtomicUsize::new(0), overlaps.clone(), Guard::on(drops));
        let task = move |_: &Timeout| {
            let _held = &guard;
            if inside.fetch_add(1, Ordering::SeqCst) > 0 {
                overlaps.add();
            }
            thread::yield_now();
            inside.fetch_sub(1, Ordering::SeqCst);
        };
        timer
            .new_periodic(task, ms(0), Period::FixedRate(ms(0)))
            .unwrap()
    }
    for round in 0..8_usize {
        let (submit, jobs) = mpsc::channel::<Job>();
        let jobs = Arc::new(std::sync::Mutex::new(jobs));
        let pool: Vec<_> = (0..2)
            .map(|_| {
                let jobs = Arc::clone(&jobs);
                thread::spawn(move || {
                    loop {
                        let job = jobs.lock().unwrap().recv();
                        let Ok(job) = job else { return };
                        job();
                    }
                })
            })
            .collect();
        let executor = move |job| submit.send(job).unwrap();
        let timer = kind.builder().tick(ms(1)).executor(executor).build();
        let (overlaps, drops) = (Count::new(), Record::new());
        let held: Vec<_> = (0..30).map(|_| start(&timer, &overlaps, &drops)).collect();
        common::eventually("they run", || timer.stats().periodic_runs > 100);
        let (kept, gone) = held.split_at(10 + round);
        let cancelled = thread::scope(|scope| {
            let all = || gone.iter().filter(|t| t.cancel()).count();
            let threads = [scope.spawn(all), scope.spawn(all)];
            threads.map(|t| t.join().unwrap()).iter().sum::<usize>()
        });
        assert_eq!(cancelled, gone.len());
        let left = timer.stop().unwrap();
        assert_eq!(left.len(), kept.len());
        assert!(held.iter().all(Timeout::is_cancelled));
        assert_counts_add_up(&timer);
        drop((left, timer));
        for thread in pool {
            thread.join().unwrap();
        }
        assert_eq!((overlaps.get(), drops.len()), (0, held.len()));
    }
}

fn sleeping_threads_all_wake_when_the_timer_stops(kind: Kind) {
    for _ in 0..10 {
        let timer = kind.real(ms(1));
        let sleepers: Vec<_> = (0..6)
            .map(|n| {
                let handle = timer.handle();
                in_thread(move || {
                    let mut naps = 0;
                    let delay = if n == 0 { FAR } else { ms(1 + n % 3) };
                    while common::poll::block_on(handle.sleep(delay)).is_ok() {
                        naps += 1;
                    }
                    naps
                })
            })
            .collect();
        common::eventually("they sleep", || timer.stats().scheduled >= 20);
        assert!(timer.stop().unwrap().is_empty(), "futures are not returned");
        let naps: u64 = sleepers.iter().map(recv).sum();
        assert!(timer.stats().expired <= naps, "a nap for each that fired");
        assert_counts_add_up(&timer);
    }
}
