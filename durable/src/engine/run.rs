//! A run of a handler, from its claim to the outcome that the store thread is told.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use super::{Engine, Handler, panic_text, reentrancy, survive};
use crate::DurableTimer;
use crate::job::{Job, Outcome};
use crate::stats::count;
use crate::store::{Claim, End, Verdict};

#[cfg(feature = "tokio")]
type Running = std::pin::Pin<Box<dyn Future<Output = Outcome> + Send>>;

#[cfg(feature = "tokio")]
pub(crate) type AsyncHandler = Box<dyn Fn(Job) -> Running + Send + Sync>;

/// What a handler has answered, or the payload of its panic.
type Answer = Result<Outcome, Box<dyn Any + Send>>;

/// A run that has begun. The store thread is told of its end once, whatever becomes of its handler.
struct Run {
    engine: Arc<Engine>,
    kind: usize,
    attempt: u32,
    end: Option<End>,
}

impl Run {
    fn finish(mut self, answer: Answer) {
        let kind = &self.engine.settings.kinds[self.kind];
        let outcome = answer.map_err(|payload| {
            let text = panic_text(&*payload);
            // The payload's drop may panic, too.
            survive(|| {
                log::error!("the handler of {:?} panicked: {text}", kind.name);
                drop(payload);
            });
            text
        });
        self.tell(outcome);
    }

    fn tell(&mut self, outcome: Result<Outcome, String>) {
        let Some(mut end) = self.end.take() else {
            return;
        };
        let (engine, kind) = (&self.engine, &self.engine.settings.kinds[self.kind]);
        end.verdict = kind
            .policy
            .verdict(&*engine.wall, end.id, self.attempt, outcome);
        engine.claims.ended(|| engine.inbox.tell(end));
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.tell(Err("the runtime of its handler has ended".to_owned()));
    }
}

impl Engine {
    /// Runs the handler of a claim whose time has come, and tells the store thread how it ended. That of an async one is begun, and its runtime does the rest.
    pub(super) fn run(&self, claim: Claim) {
        let end = claim.end(Verdict::GiveBack);
        let (Some(me), Some(&kind)) = (self.me.upgrade(), self.kinds.get(&*claim.kind)) else {
            return self.claims.ended(|| self.inbox.tell(end));
        };
        count(&self.counters.fired);
        let late = self.wall.since(claim.due);
        self.lateness.lock().record(late);
        let run = Run {
            engine: Arc::clone(&me),
            kind,
            attempt: claim.attempt,
            end: Some(end),
        };
        let job = Job::new(claim, DurableTimer::for_handler(me));
        match &self.settings.kinds[kind].handler {
            Handler::Blocking(handler) => run.finish(self.inside(|| handler(&job))),
            #[cfg(feature = "tokio")]
            Handler::Async(handler, runtime) => {
                let future = match self.inside(|| handler(job)) {
                    Ok(future) => watched(Arc::clone(&run.engine), future),
                    Err(panic) => return run.finish(Err(panic)),
                };
                if self.manual.is_none() {
                    runtime.spawn(async move { run.finish(future.await) });
                    return;
                }
                // Who advances a manual clock waits for what falls due, and may be in a runtime.
                let answer = std::thread::scope(|scope| {
                    let thread = scope.spawn(|| runtime.block_on(future));
                    thread.join().unwrap_or_else(Err)
                });
                run.finish(answer);
            }
        }
    }

    /// Calls a handler of this engine.
    fn inside<T>(&self, call: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
        let _inside = reentrancy::enter(self);
        panic::catch_unwind(AssertUnwindSafe(call))
    }
}

/// Makes an answer of a panic, and has every step of a handler known as one.
#[cfg(feature = "tokio")]
async fn watched(engine: Arc<Engine>, mut future: Running) -> Answer {
    use std::task::Poll;

    std::future::poll_fn(
        |context| match engine.inside(|| future.as_mut().poll(context)) {
            Ok(Poll::Ready(outcome)) => Poll::Ready(Ok(outcome)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(panic) => Poll::Ready(Err(panic)),
        },
    )
    .await
}
