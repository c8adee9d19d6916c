//! The engine with threads: one for the store, some for the handlers.

use std::sync::Arc;
use std::thread;

use super::Engine;
use super::core::Core;
use super::inbox::Request;
use crate::broken::{self, Defect};
use crate::error::{Error, StoreError};
use crate::job::Scheduled;
use crate::store::{Claim, Op, Reply, Verdict};

/// The most operations in one transaction: what comes later must not wait for a very long one.
const BATCH: usize = 1024;

pub(super) fn start(engine: &Arc<Engine>, mut core: Core) -> Result<(), Error> {
    let failed = |error| Error::Store(StoreError::with("cannot start a thread", error));
    engine
        .wheel
        .start()
        .map_err(|error| Error::Store(StoreError::with("cannot start the timer", error)))?;
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
    for number in 0..engine.settings.threads {
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
        engine.flight.close();
    }
    *engine.threads.lock() = threads;
    started
}

/// Waits for all threads. A second caller waits for the first.
pub(super) fn join(engine: &Engine) {
    let mut threads = engine.threads.lock();
    for thread in threads.drain(..) {
        let _ = thread.join();
    }
}

fn handle_jobs(engine: &Engine) {
    while let Some(claim) = engine.flight.next() {
        if let Some(finish) = engine.execute(claim) {
            engine.flight.end();
            engine.inbox.tell(finish);
        }
    }
}

/// Whatever ends the store thread, nobody is left waiting for it.
struct Ending<'a>(&'a Engine);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.inbox.poison();
            self.0.flight.abandon();
        }
    }
}

fn keep_store(engine: &Engine, mut core: Core) {
    let _ending = Ending(engine);
    let mut closed = false;
    let mut rest = Some(std::time::Duration::ZERO);
    loop {
        let (requests, stopping) = engine.inbox.take(rest, BATCH);
        let mut given_back = Vec::new();
        if stopping && !closed {
            closed = true;
            given_back = engine.flight.close();
        }
        if let Err(error) = step(engine, &mut core, requests, given_back, stopping) {
            log::error!("{error}; nothing can be stored until the store is opened again");
            // Claims stay in the store: they are taken up as interrupted ones.
            engine.flight.abandon();
            break;
        }
        if stopping && core.is_stuck() {
            log::error!("the outcomes of some jobs cannot be stored: these will run again");
            engine.inbox.poison();
            break;
        }
        if stopping && core.is_idle() && engine.inbox.is_empty() {
            break;
        }
        rest = core.rest(engine, stopping);
    }
    // Closes the file. Whoever joins this thread finds it free.
    drop(core);
}

/// One transaction with all that waits.
fn step(
    engine: &Engine,
    core: &mut Core,
    requests: Vec<Request>,
    given_back: Vec<Claim>,
    stopping: bool,
) -> Result<(), Error> {
    core.keep_up(engine);
    let unstored = core.take_unstored();
    let mut ops = Vec::with_capacity(requests.len() + unstored.len() + given_back.len() + 1);
    let mut answers = Vec::with_capacity(requests.len());
    for mut request in requests {
        if broken::is(Defect::AckBeforeCommit)
            && let (Op::Schedule { .. }, Some(answer)) = (&request.op, &mut request.answer)
        {
            answer.give(Ok(Reply::Scheduled(Scheduled::New)));
        }
        ops.push(request.op);
        answers.push(request.answer);
    }
    ops.extend(unstored);
    for claim in given_back {
        ops.push(Op::Finish {
            id: claim.id,
            token: claim.token,
            verdict: Verdict::GiveBack,
        });
    }
    if !stopping {
        core.foresee(engine, &ops);
        let (ahead, bytes) = engine.flight.ahead();
        ops.extend(core.plan(engine.wall.now(), ahead, bytes, !ops.is_empty()));
    }
    if ops.is_empty() {
        core.tighten();
        return Ok(());
    }
    match core.transact(engine, &ops) {
        Ok((replies, claims)) => {
            for (answer, reply) in answers.into_iter().zip(replies) {
                if let Some(mut answer) = answer {
                    answer.give(Ok(reply));
                }
            }
            dispatch(engine, claims);
            Ok(())
        }
        Err(error) if matches!(&error, Error::Store(store) if store.is_passing()) => {
            log::warn!("{error}");
            core.keep_unstored(ops);
            for mut answer in answers.into_iter().flatten() {
                answer.give(Err(error.clone()));
            }
            Ok(())
        }
        Err(error) => {
            engine.inbox.poison();
            for mut answer in answers.into_iter().flatten() {
                answer.give(Err(error.clone()));
            }
            Err(error)
        }
    }
}

/// Hands claims to the threads, or to the wheel if they are not due yet.
fn dispatch(engine: &Engine, claims: Vec<Claim>) {
    let now = engine.wall.now();
    let (due, early): (Vec<_>, Vec<_>) = claims.into_iter().partition(|claim| claim.due <= now);
    engine.flight.push(due);
    for claim in early {
        let (id, token) = (claim.id, claim.token);
        if !engine.park(claim) {
            engine.inbox.tell(Op::Finish {
                id,
                token,
                verdict: Verdict::GiveBack,
            });
        }
    }
}
