//! Where panics of foreign code end: the one `catch_unwind` of the crate.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `code`. A panic ends here and is logged with its message, as `what` having panicked.
/// Returns whether there was one.
pub(crate) fn catch_panic(what: &str, code: impl FnOnce()) -> bool {
    if cfg!(hashed_wheel_loom) {
        // What panics in a model is the model: it has failed.
        code();
        return false;
    }
    let Err(payload) = catch_unwind(AssertUnwindSafe(code)) else {
        return false;
    };
    // The logger and the payload's own drop are foreign code as well. If one of them panics, its
    // payload is leaked: dropping it might panic without end.
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

/// Logs without letting a panicking logger out.
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
