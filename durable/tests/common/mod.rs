//! What several test files need.
#![allow(dead_code, reason = "not every file uses all of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// Waits for something that has to happen.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "{what} does not happen"
        );
        std::thread::sleep(ms(2));
    }
}

/// A folder that is removed in the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("durable-test-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What handlers note.
#[derive(Default)]
pub(crate) struct Notes<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Notes<T> {
    fn clone(&self) -> Self {
        Notes(Arc::clone(&self.0))
    }
}

impl<T> Notes<T> {
    pub(crate) fn new() -> Self {
        Notes(Arc::default())
    }

    pub(crate) fn add(&self, note: T) {
        self.0.lock().unwrap().push(note);
    }

    pub(crate) fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}
