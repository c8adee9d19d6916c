//! The engine with threads: one for the store, some for the handlers.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::Engine;
use super::claims::Task;
use super::step::Core;
use crate::error::{Error, StoreError};
use crate::store::Verdict;

/// The most calls in one transaction: what comes later must not wait for a very long one.
const BATCH: usize = 1024;

/// The time in which callers who were answered together come back.
const GATHER: Duration = Duration::from_micros(150);

pub(super) fn start(engine: &Arc<Engine>, mut core: Core) -> Result<(), Error> {
    let failed = |error| Error::Store(StoreError::with("cannot start a thread", error));
    let mut threads = Vec::new();
    let mut spawn = |name: String, work: Box<dyn FnOnce(Arc<Engine>) + Send>| {
        let engine = Arc::clone(engine);
        let thread = thread::Builder::new()
            .name(name)
            .spawn(move || work(engine))
            .map_err(failed);
        thread.map(|thread| threads.push(thread))
    };
    let mut started = Ok(());
    // What only begins futures needs one.
    let settings = &engine.settings;
    let blocking = settings.kinds.iter().any(|kind| !kind.handler.is_async());
    for number in 0..if blocking { settings.threads } else { 1 } {
        started = started.and_then(|()| {
            spawn(
                format!("durable-job-{number}"),
                Box::new(|engine| handle_jobs(&engine)),
            )
        });
    }
    core.listen(engine);
    started = started.and_then(|()| {
        spawn(
            "durable-store".to_owned(),
            Box::new(|engine| keep_store(&engine, core)),
        )
    });
    if started.is_err() {
        engine.inbox.stop();
        engine.claims.close();
    }
    *engine.threads.lock() = threads;
    started
}

/// Waits for all threads, for so long at most. False if they still run. A second caller waits for the first.
pub(super) fn join(engine: &Engine, most: Option<Duration>) -> bool {
    if let Some(most) = most {
        let end = Instant::now() + most;
        let mut closed = engine.closed.lock();
        while !*closed {
            if engine.closing.wait_until(&mut closed, end).timed_out() {
                return *closed;
            }
        }
    }
    let mut threads = engine.threads.lock();
    for thread in threads.drain(..) {
        let _ = thread.join();
    }
    true
}

fn handle_jobs(engine: &Engine) {
    while let Some(task) = engine.claims.next() {
        match task {
            Task::Run(claim) => engine.execute(claim),
            Task::TellDead(id) => engine.tell_dead(id),
        }
    }
}

/// Whatever ends the store thread, nobody is left waiting for it.
struct Ending<'a>(&'a Engine);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let cause = StoreError::new("the store thread panicked");
            self.0.inbox.poison(&cause);
            self.0.claims.close();
        }
        *self.0.closed.lock() = true;
        self.0.closing.notify_all();
    }
}

fn keep_store(engine: &Engine, mut core: Core) {
    let _ending = Ending(engine);
    let mut rest = Some(Duration::ZERO);
    let mut closed = false;
    loop {
        let mut taken = engine.inbox.take(rest, BATCH);
        let stopping = taken.stopping;
        let unbegun = if stopping && !closed {
            closed = true;
            engine.claims.close()
        } else {
            engine.claims.overstayed(Instant::now())
        };
        let back = unbegun.iter().map(|claim| claim.end(Verdict::GiveBack));
        taken.ends.extend(back);
        core.step(engine, taken, true);
        if stopping && core.is_finished(engine) {
            break;
        }
        rest = core.rest(engine, stopping);
        if core.has_company() {
            thread::sleep(GATHER);
        }
    }
    // Closes the file. Whoever joins this thread finds it free.
    drop(core);
}
