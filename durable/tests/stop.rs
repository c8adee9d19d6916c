//! Stopping and dropping.

mod common;

use std::cell::RefCell;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use common::{Folder, HOUR, Notes, eventually, ms};
use hashed_wheel::ManualClock;
use hashed_wheel_durable::{DurableTimer, Error, Outcome};

#[test]
fn every_call_after_stop_says_so() {
    let folder = Folder::new();
    for manual in [true, false] {
        let builder = DurableTimer::builder().on("mail", |_| Outcome::Done);
        let timer = if manual {
            builder.open_in_memory(&ManualClock::new()).unwrap()
        } else {
            builder.open(folder.file("timers.redb")).unwrap()
        };
        timer.stop().unwrap();
        timer.stop().unwrap();
        assert!(matches!(timer.job("mail").after(HOUR), Err(Error::Stopped)));
        assert!(matches!(timer.cancel("a"), Err(Error::Stopped)));
        assert!(matches!(timer.reschedule("a", HOUR), Err(Error::Stopped)));
        assert!(matches!(timer.pending(), Err(Error::Stopped)));
        assert!(matches!(timer.dead(1), Err(Error::Stopped)));
        assert!(matches!(timer.revive(1), Err(Error::Stopped)));
        assert!(matches!(timer.discard(1), Err(Error::Stopped)));
        assert_eq!(timer.stats().fired, 0);
        assert!(format!("{timer:?}").contains("stopped: true"));
    }
}

#[test]
fn stop_from_a_handler_is_an_error_and_changes_nothing() {
    let folder = Folder::new();
    let answers = Notes::new();
    let notes = answers.clone();
    let timer = DurableTimer::builder()
        .on("mail", move |job| {
            notes.add(matches!(job.timer().stop(), Err(Error::FromHandler)));
            Outcome::Done
        })
        .open(folder.file("timers.redb"))
        .unwrap();
    timer.job("mail").after(Duration::ZERO).unwrap();
    eventually("the job", || timer.pending().unwrap() == 0);
    timer.job("mail").after(Duration::ZERO).unwrap();
    eventually("the second job", || timer.pending().unwrap() == 0);
    assert_eq!(answers.take(), [true, true]);
    timer.stop().unwrap();
}

#[test]
fn stop_from_a_handler_on_the_manual_clock_too() {
    let clock = ManualClock::new();
    let answers = Notes::new();
    let notes = answers.clone();
    let timer = DurableTimer::builder()
        .on("mail", move |job| {
            notes.add(matches!(job.timer().stop(), Err(Error::FromHandler)));
            Outcome::Done
        })
        .open_in_memory(&clock)
        .unwrap();
    timer.job("mail").after(ms(1)).unwrap();
    clock.advance(ms(1));
    assert_eq!(answers.take(), [true]);
    assert_eq!(timer.pending().unwrap(), 0);
}

#[test]
fn stop_waits_for_a_running_handler_and_stores_its_outcome() {
    let folder = Folder::new();
    let path = folder.file("timers.redb");
    let (sender, begun) = mpsc::channel();
    let timer = DurableTimer::builder()
        .on("mail", move |_| {
            sender.send(()).unwrap();
            thread::sleep(ms(100));
            Outcome::Done
        })
        .open(&path)
        .unwrap();
    timer.job("mail").after(Duration::ZERO).unwrap();
    timer.job("mail").after(HOUR).unwrap();
    begun.recv().unwrap();
    timer.stop().unwrap();
    let timer = DurableTimer::builder()
        .on("mail", |_| Outcome::Done)
        .open(&path)
        .unwrap();
    assert_eq!(timer.pending().unwrap(), 1);
}

#[test]
fn many_stops_at_once_all_wait_for_the_end() {
    let folder = Folder::new();
    let path = folder.file("timers.redb");
    let (sender, begun) = mpsc::channel();
    let ended = Notes::new();
    let notes = ended.clone();
    let timer = DurableTimer::builder()
        .on("mail", move |_| {
            sender.send(()).unwrap();
            thread::sleep(ms(50));
            notes.add(());
            Outcome::Done
        })
        .open(&path)
        .unwrap();
    timer.job("mail").after(Duration::ZERO).unwrap();
    begun.recv().unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                timer.stop().unwrap();
                assert_eq!(ended.len(), 1);
            });
        }
    });
    DurableTimer::builder().open(&path).unwrap();
}

/// The store thread must not see that nothing runs before it has been told how the run ended.
#[test]
fn a_stop_as_a_handler_returns_stores_its_outcome() {
    let folder = Folder::new();
    for round in 0..200 {
        let path = folder.file(&format!("{round}.redb"));
        let (sender, begun) = mpsc::channel();
        let timer = DurableTimer::builder()
            .on("mail", move |_| {
                sender.send(()).unwrap();
                Outcome::Done
            })
            .open(&path)
            .unwrap();
        timer.job("mail").after(Duration::ZERO).unwrap();
        begun.recv().unwrap();
        // Each call has the store thread look whether everything has ended.
        while timer.stop_within(Duration::ZERO).unwrap() > 0 {}
        timer.stop().unwrap();
        let reopened = DurableTimer::builder().open(&path).unwrap();
        assert_eq!(reopened.pending().unwrap(), 0, "round {round}");
    }
}

#[test]
fn a_drop_inside_a_handler_does_not_wait_for_itself() {
    let folder = Folder::new();
    let path = folder.file("timers.redb");
    let slot: Arc<Mutex<Option<DurableTimer>>> = Arc::default();
    let (sender, dropped) = mpsc::channel();
    let inside = Arc::clone(&slot);
    let timer = DurableTimer::builder()
        .on("mail", move |_| {
            // The last owner.
            drop(inside.lock().unwrap().take());
            sender.send(()).unwrap();
            Outcome::Done
        })
        .open(&path)
        .unwrap();
    timer.job("mail").key("later").after(HOUR).unwrap();
    let mut guard = slot.lock().unwrap();
    timer.job("mail").after(Duration::ZERO).unwrap();
    *guard = Some(timer);
    drop(guard);
    dropped.recv().unwrap();
    // It ends by itself, and the outcome is stored.
    let mut reopened = None;
    eventually("the file to be free", || {
        reopened = DurableTimer::builder().open(&path).ok();
        reopened.is_some()
    });
    assert_eq!(reopened.unwrap().pending().unwrap(), 1);
}

#[test]
fn a_drop_inside_a_handler_on_the_manual_clock() {
    let clock = ManualClock::new();
    let slot: Arc<Mutex<Option<DurableTimer>>> = Arc::default();
    let inside = Arc::clone(&slot);
    let timer = DurableTimer::builder()
        .on("mail", move |_| {
            drop(inside.lock().unwrap().take());
            Outcome::Done
        })
        .open_in_memory(&clock)
        .unwrap();
    timer.job("mail").after(ms(1)).unwrap();
    timer.job("mail").after(ms(2)).unwrap();
    *slot.lock().unwrap() = Some(timer);
    clock.advance(ms(10));
    assert!(slot.lock().unwrap().is_none());
}

#[test]
fn calls_that_race_with_stop_are_stored_or_refused() {
    let folder = Folder::new();
    let path = folder.file("timers.redb");
    for _ in 0..3 {
        let timer = DurableTimer::builder().open(&path).unwrap();
        let before = timer.pending().unwrap();
        let stored: u64 = thread::scope(|scope| {
            let callers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut stored = 0;
                        loop {
                            match timer.job("mail").after(HOUR) {
                                Ok(_) => stored += 1,
                                Err(Error::Stopped) => break stored,
                                Err(error) => panic!("{error}"),
                            }
                        }
                    })
                })
                .collect();
            thread::sleep(ms(20));
            timer.stop().unwrap();
            callers
                .into_iter()
                .map(|caller| caller.join().unwrap())
                .sum()
        });
        let timer = DurableTimer::builder().open(&path).unwrap();
        assert_eq!(timer.pending().unwrap(), before + stored);
    }
}

#[test]
fn a_drop_by_the_end_of_a_thread() {
    thread_local! {
        static KEPT: RefCell<Option<DurableTimer>> = const { RefCell::new(None) };
    }
    let folder = Folder::new();
    let path = folder.file("timers.redb");
    thread::scope(|scope| {
        scope.spawn(|| {
            let timer = DurableTimer::builder().open(&path).unwrap();
            KEPT.set(Some(timer));
            // What the crate keeps for the thread is made later, and is gone earlier.
            let other = DurableTimer::builder().open_in_memory(&ManualClock::new());
            other.unwrap().stop().unwrap();
        });
    });
    eventually("the file to be free", || {
        DurableTimer::builder().open(&path).is_ok()
    });
}
