//! The engine against a naive model, on clocks that jump, and with jobs that were interrupted.

mod clock;
mod group;
mod interrupted;
mod model;
mod options;
mod recurring;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Waits for something that has to happen.
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "{what} does not happen"
        );
        std::thread::sleep(ms(2));
    }
}

/// What handlers note.
struct Notes<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Notes<T> {
    fn clone(&self) -> Self {
        Notes(Arc::clone(&self.0))
    }
}

impl<T> Notes<T> {
    fn new() -> Self {
        Notes(Arc::default())
    }

    fn add(&self, note: T) {
        self.0.lock().push(note);
    }

    fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.0.lock())
    }

    fn len(&self) -> usize {
        self.0.lock().len()
    }
}
