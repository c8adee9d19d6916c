//! Spans around tasks, with `tracing`: an executor is the one place through which every task goes, so a span there is around
//! all of them. The span of whoever schedules a task is taken along by the task itself.
//!
//! ```text
//! cargo run --release -p async-examples --example tracing_spans
//! ```
//!
//! It takes a fraction of a second.

use async_examples::options;
use hashed_wheel::{HashedWheelTimer, Job, Timeout};
use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;
use tracing::{Span, info, info_span};

/// Runs each task on the timer thread, in a span. With `tokio_executor`, or a pool, wrap the job in the same way.
fn in_a_span(job: Job) {
    info_span!("timer_task").in_scope(job);
}

fn main() -> Result<(), Box<dyn Error>> {
    let _ = options::quick("usage: tracing_spans [--quick]");
    tracing_subscriber::fmt()
        .with_writer(std::io::stdout)
        .with_ansi(false)
        .without_time()
        .init();
    let timer = HashedWheelTimer::builder()
        .tick_duration(Duration::from_millis(1))
        .executor(in_a_span)
        .build()?;
    let (done, finished) = mpsc::channel();

    for order in [17, 18] {
        let request = info_span!("request", order);
        let _entered = request.enter();
        info!("the order has come in");
        // The span of this request, kept by the task.
        let (span, done) = (Span::current(), done.clone());
        let remind = move |_: &Timeout| {
            span.in_scope(|| info!("it has not been paid in time"));
            info!("in the executor's span alone");
            let _ = done.send(());
        };
        timer.new_timeout(remind, Duration::from_millis(20))?;
    }
    drop(done);
    while finished.recv().is_ok() {}
    Ok(())
}
