//! The engine without threads, on a manual clock.

use std::sync::Arc;

use hashed_wheel::Timeout;
use parking_lot::Mutex;

use super::Engine;
use super::core::Core;
use crate::error::Error;
use crate::store::{Claim, Op, Reply, Verdict};
use crate::time::Millis;

#[derive(Default)]
pub(super) struct Manual {
    /// `None` when the timer has stopped. Not held while a handler runs.
    core: Mutex<Option<Core>>,
    /// Held while claims are made and handlers run, on the thread that advances the clock. Only `stop` waits for it.
    driving: Mutex<()>,
    /// The wheel's timeout for the next claim, and its time.
    armed: Mutex<Option<(Millis, Timeout)>>,
}

pub(super) fn start(engine: &Arc<Engine>, core: Core) {
    if let Some(manual) = &engine.manual {
        *manual.core.lock() = Some(core);
        manual.arm(engine);
    }
}

impl Manual {
    pub(super) fn call(&self, engine: &Engine, op: Op) -> Result<Reply, Error> {
        engine.inbox.check()?;
        let (mut replies, _) = self.transact(engine, &[op])?;
        self.arm(engine);
        Ok(replies.remove(0))
    }

    fn transact(&self, engine: &Engine, ops: &[Op]) -> Result<(Vec<Reply>, Vec<Claim>), Error> {
        let mut core = self.core.lock();
        let core = core.as_mut().ok_or(Error::Stopped)?;
        core.transact(engine, ops).inspect_err(|error| {
            log::error!("{error}; nothing can be stored until the store is opened again");
            engine.inbox.poison();
        })
    }

    /// Has the wheel call `drive` at the next claim, if it does not do so already.
    fn arm(&self, engine: &Engine) {
        let Some(next) = self.core.lock().as_ref().and_then(Core::next) else {
            return;
        };
        let mut armed = self.armed.lock();
        if let Some((at, timeout)) = &*armed
            && *at <= next
            && !timeout.is_expired()
        {
            return;
        }
        let me = engine.me.clone();
        let timeout = engine.wheel.new_timeout(
            move |_| {
                if let Some(engine) = me.upgrade()
                    && let Some(manual) = &engine.manual
                {
                    manual.drive(&engine);
                }
            },
            engine.wall.until(next),
        );
        if let Ok(timeout) = timeout
            && let Some((_, old)) = armed.replace((next, timeout))
        {
            old.cancel();
        }
    }

    /// Claims and runs all that is due.
    fn drive(&self, engine: &Engine) {
        {
            let _driving = self.driving.lock();
            while let Some(op) = self.plan(engine) {
                let Ok((_, claims)) = self.transact(engine, &[op]) else {
                    break;
                };
                for claim in claims {
                    engine.flight.begin();
                    self.run(engine, claim);
                }
            }
        }
        self.arm(engine);
        self.end_if_stopped(engine);
    }

    fn plan(&self, engine: &Engine) -> Option<Op> {
        if engine.inbox.check().is_err() {
            return None;
        }
        let (ahead, bytes) = engine.flight.ahead();
        self.core
            .lock()
            .as_ref()?
            .plan(engine.wall.now(), ahead, bytes, false)
    }

    /// Runs a claim to its end; given back if the timer has been stopped meanwhile.
    fn run(&self, engine: &Engine, claim: Claim) {
        let finish = if engine.inbox.is_stopping() {
            Some(Op::Finish {
                id: claim.id,
                token: claim.token,
                verdict: Verdict::GiveBack,
            })
        } else {
            engine.execute(claim)
        };
        if let Some(finish) = finish {
            engine.flight.end();
            let _ = self.transact(engine, &[finish]);
        }
    }

    /// A claim that was parked is due.
    pub(super) fn fire(&self, engine: &Engine, id: u64) {
        {
            let _driving = self.driving.lock();
            if let Some(claim) = engine.flight.take(id) {
                self.run(engine, claim);
            }
        }
        // There may be room now, or nothing runs alone any more.
        self.drive(engine);
    }

    /// A handler dropped the timer: nobody waits for its end.
    fn end_if_stopped(&self, engine: &Engine) {
        if engine.inbox.is_stopping() {
            self.finish(engine);
        }
    }

    /// Waits for the running handler, gives back what has not begun, and closes the store.
    pub(super) fn finish(&self, engine: &Engine) {
        let _driving = self.driving.lock();
        let ops: Vec<Op> = engine
            .flight
            .close()
            .into_iter()
            .map(|claim| Op::Finish {
                id: claim.id,
                token: claim.token,
                verdict: Verdict::GiveBack,
            })
            .collect();
        if !ops.is_empty() {
            let _ = self.transact(engine, &ops);
        }
        *self.core.lock() = None;
    }
}
