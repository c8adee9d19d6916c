//! Catches panics of user code: the only place with `catch_unwind`.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `code`, catches its panic and logs it as a panic of `what`. Returns `true` if it panicked.
pub(crate) fn catch_panic(what: &str, code: impl FnOnce()) -> bool {
    if cfg!(hashed_wheel_loom) {
        // A panic in a model is a failure of the model.
        code();
        return false;
    }
    let Err(payload) = catch_unwind(AssertUnwindSafe(code)) else {
        return false;
    };
    // The logger and the drop of the payload are user code too. A payload of their panic is leaked: dropping it might
    // panic again.
    for step in [
        catch_unwind(AssertUnwindSafe(|| {
            log::error!("{what} panicked: {}", message(&*payload));
        })),
        catch_unwind(AssertUnwindSafe(move || drop(payload))),
    ] {
        if let Err(payload) = step {
            mem::forget(payload);
        }
    }
    true
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

fn message(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no message)")
}
