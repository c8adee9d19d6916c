use super::*;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

const FOR_EVER: Duration = Duration::from_secs(100_000_000_000);

#[test]
fn whoever_comes_after_a_change_does_not_sleep() {
    let word = AtomicU64::new(7 << 32 | 1);
    Sleeper::new().wait(&word, 7 << 32 | 2, None);
    Sleeper::new().wait(&word, 7 << 32 | 2, Some(FOR_EVER));
}

#[test]
fn only_the_lower_half_counts() {
    let word = AtomicU64::new(7 << 32 | 1);
    let limit = Duration::from_millis(20);
    let start = Instant::now();
    // Any signal ends a sleep, so it may take more than one.
    while start.elapsed() < limit {
        let left = limit.saturating_sub(start.elapsed());
        Sleeper::new().wait(&word, 8 << 32 | 1, Some(left));
    }
    assert!(start.elapsed() >= limit);
}

#[test]
fn a_change_and_a_wake_up_by_another_thread_end_a_sleep() {
    let word = AtomicU64::new(1);
    let begin = AtomicU64::new(0);
    thread::scope(|scope| {
        let sleeps = scope.spawn(|| {
            begin.store(1, Ordering::SeqCst);
            while word.load(Ordering::SeqCst) == 1 {
                Sleeper::new().wait(&word, 1, Some(FOR_EVER));
            }
        });
        while begin.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(20));
        // Changed by one thread, which does nothing more, and woken by another.
        scope
            .spawn(|| word.store(2, Ordering::SeqCst))
            .join()
            .unwrap();
        scope.spawn(|| Sleeper::new().wake(&word)).join().unwrap();
        sleeps.join().unwrap();
    });
}
