//! Catches panics of user code: the only place with `catch_unwind`.

use std::any::Any;
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `code`, catches its panic and logs it as a panic of `what`. Returns `true` if it panicked.
#[inline]
pub(crate) fn catch_panic(what: impl fmt::Display, code: impl FnOnce()) -> bool {
    if cfg!(hashed_wheel_loom) {
        // A panic in a model is a failure of the model.
        code();
        return false;
    }
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(()) => false,
        Err(payload) => {
            log_panic(&what, payload);
            true
        }
    }
}

#[cold]
fn log_panic(what: &dyn fmt::Display, payload: Box<dyn Any + Send>) {
    // The logger and the drop of the payload are user code too. A payload of their panic is leaked: dropping it might
    // panic again.
    for step in [
        catch_unwind(AssertUnwindSafe(|| {
            let message = message(&*payload);
            log::error!("{what} panicked: {message}{}", advice(message));
        })),
        catch_unwind(AssertUnwindSafe(move || drop(payload))),
    ] {
        if let Err(payload) = step {
            mem::forget(payload);
        }
    }
}

/// Runs `code` and keeps the payload of its panic in `first`, unless there is one already.
pub(crate) fn keep_panic(first: &mut Option<Box<dyn Any + Send>>, code: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(code)) {
        match first {
            None => *first = Some(payload),
            // Leaked: its drop might panic again.
            Some(_) => mem::forget(payload),
        }
    }
}

/// Logs, and catches a panic of the logger.
pub(crate) fn log_catching(level: log::Level, message: std::fmt::Arguments<'_>) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| log::log!(level, "{message}"))) {
        mem::forget(payload);
    }
}

/// What to do about a panic that tokio raises where there is no runtime.
fn advice(message: &str) -> &'static str {
    if message.ends_with("Tokio 1.x runtime") {
        "; the timer thread is outside of the runtime: give the timer an executor made by tokio_executor (feature `tokio`)"
    } else {
        ""
    }
}

fn message(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no message)")
}
