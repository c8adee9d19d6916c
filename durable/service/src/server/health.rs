//! Does the store work?
//!
//! A probe asks it every [`EVERY`], and whenever `/readyz` is asked. When it has failed for longer than `--store-patience`, the service ends with its own exit code, so
//! that whoever watches over it can start it again elsewhere.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hashed_wheel_durable::Error as TimerError;
use serde_json::json;

use crate::api::App;
use crate::log::{self, Level};

/// How often the store is asked.
const EVERY: Duration = Duration::from_secs(2);

/// The longest time for an answer of it.
const LONGEST: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
pub struct Health {
    stopping: AtomicBool,
    failing: Mutex<Option<(Instant, String)>>,
    probing: tokio::sync::Mutex<()>,
}

impl Health {
    /// Notes a failure of the store. Only a probe tells that it works again: what reads may succeed while nothing can be written.
    pub fn note<T>(&self, result: &Result<T, TimerError>) {
        if let Err(error @ (TimerError::Store(_) | TimerError::Poisoned { .. })) = result {
            self.failed(error.to_string());
        }
    }

    fn works(&self) {
        if self.lock().take().is_some() {
            log::event(Level::Info, "store_works_again", json!({}));
        }
    }

    fn failed(&self, reason: String) {
        let mut failing = self.lock();
        if failing.is_none() {
            log::event(Level::Error, "store_fails", json!({ "reason": reason }));
        }
        let since = failing.take().map_or_else(Instant::now, |(since, _)| since);
        *failing = Some((since, reason));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Instant, String)>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the store does not work.
    pub fn reason(&self) -> Option<String> {
        self.lock().as_ref().map(|(_, reason)| reason.clone())
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }
}

/// Asks the store. Why it does not work, if it does not.
pub async fn probe(app: &Arc<App>) -> Option<String> {
    let asked = Arc::clone(app);
    // One at a time: a store that hangs must not get a thread for each question.
    let Ok(probing) = app.health.probing.try_lock() else {
        return app.health.reason();
    };
    let probe = tokio::task::spawn_blocking(move || {
        let failing = asked.health.reason().is_some();
        let result = asked.queue.probe(failing);
        asked.health.note(&result);
        if result.is_ok() {
            asked.health.works();
        }
    });
    if app.timer.with_timeout(probe, LONGEST).await.is_err() {
        app.health.failed(format!("no answer within {LONGEST:?}"));
    }
    drop(probing);
    app.health.reason()
}

/// Returns when the store has failed for too long.
pub(super) async fn watch(app: Arc<App>, patience: Duration) {
    loop {
        let _ = app.timer.sleep(EVERY).await;
        app.deliverer.caller.sweep();
        probe(&app).await;
        let since = app.health.lock().as_ref().map(|(since, _)| *since);
        if !patience.is_zero() && since.is_some_and(|since| since.elapsed() >= patience) {
            return;
        }
    }
}
