//! The engine without threads, on a manual clock: a caller carries out its own step, and the thread that advances the clock claims and runs handlers.

use hashed_wheel::Timeout;
use parking_lot::Mutex;

use super::Engine;
use super::claims::Task;
use super::step::Core;
use crate::store::Verdict;
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

impl Manual {
    pub(super) fn start(&self, engine: &Engine, core: Core) {
        *self.core.lock() = Some(core);
        self.arm(engine);
    }

    /// Stores what waits in the inbox.
    pub(super) fn store(&self, engine: &Engine) {
        self.step(engine, false);
        self.arm(engine);
    }

    fn step(&self, engine: &Engine, claiming: bool) {
        let mut core = self.core.lock();
        let taken = engine
            .inbox
            .take(Some(std::time::Duration::ZERO), usize::MAX);
        if let Some(core) = core.as_mut() {
            core.step(engine, taken, claiming);
        } else {
            for mut request in taken.requests {
                request.answer.give(Err(crate::Error::Stopped));
            }
        }
    }

    /// Has the wheel call `drive` at the next claim, if it does not do so already.
    fn arm(&self, engine: &Engine) {
        let Some(next) = self.core.lock().as_ref().and_then(|core| core.next(engine)) else {
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

    /// Claims and runs all that is due, each to its end.
    pub(super) fn drive(&self, engine: &Engine) {
        {
            let _driving = self.driving.lock();
            loop {
                self.step(engine, true);
                let mut ran = false;
                while let Some(task) = engine.claims.try_next() {
                    ran = true;
                    match task {
                        Task::Run(claim) if engine.inbox.is_stopping() => {
                            let end = claim.end(Verdict::GiveBack);
                            engine.claims.ended(|| engine.inbox.tell(end));
                        }
                        Task::Run(claim) => engine.execute(claim),
                        Task::TellDead(id) => engine.tell_dead(id),
                    }
                    self.step(engine, false);
                }
                if !ran && engine.inbox.is_empty() {
                    break;
                }
            }
        }
        self.arm(engine);
        // A handler dropped the timer: nobody waits for its end.
        if engine.inbox.is_stopping() {
            self.finish(engine);
        }
    }

    /// Waits for the running handler, gives back what has not begun, and closes the store.
    pub(super) fn finish(&self, engine: &Engine) {
        let _driving = self.driving.lock();
        for claim in engine.claims.close() {
            engine.inbox.tell(claim.end(Verdict::GiveBack));
        }
        self.step(engine, false);
        *self.core.lock() = None;
    }
}
