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
    let payload = caught(code);
    let panicked = payload.is_some();
    if let Some(payload) = payload {
        log_panic(&what, payload);
    }
    panicked
}

type Payload = Box<dyn Any + Send>;

/// Runs `code`. Returns the payload of its panic.
#[inline]
fn caught(code: impl FnOnce()) -> Option<Payload> {
    catch_unwind(AssertUnwindSafe(code)).err()
}

#[cold]
fn log_panic(what: &dyn fmt::Display, payload: Payload) {
    let text = message(&*payload);
    let advice = advice(text);
    log_catching(
        log::Level::Error,
        format_args!("{what} panicked: {text}{advice}"),
    );
    leak_panic(|| drop(payload));
}

/// Runs user code. The payload of its panic is leaked: its drop might panic again.
fn leak_panic(code: impl FnOnce()) {
    mem::forget(caught(code));
}

/// Runs `code` and keeps the payload of its panic in `first`, unless there is one already.
pub(crate) fn keep_panic(first: &mut Option<Payload>, code: impl FnOnce()) {
    let panic = caught(code);
    match first {
        None => *first = panic,
        // Leaked: its drop might panic again.
        Some(_) => mem::forget(panic),
    }
}

/// Logs, and catches a panic of the logger.
pub(crate) fn log_catching(level: log::Level, message: fmt::Arguments<'_>) {
    leak_panic(|| log::log!(level, "{message}"));
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
