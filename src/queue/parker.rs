//! How the timer thread (the *worker*) sleeps, and who wakes it.
//!
//! The worker announces in one word until when it will sleep, its *plan*. A thread that pushes an entry reads the word
//! and wakes the worker only if the plan is too late for the entry. So a push costs a load, a worker with nothing to do
//! sleeps without a timeout, and `cancel` wakes nobody.
//!
//! What sleeps is a thread, or a loop of the caller's that is woken by a *hook*: the plan is announced and taken back by two
//! calls, with the caller's own sleep in between, and where a thread would be unparked the hook is called.
//!
//! # The word
//!
//! | value | meaning | written by |
//! |---|---|---|
//! | 0 | awake | the worker |
//! | `tick << 2`, `room`, 1 | a plan: the worker sleeps until `tick` ([`Tick::NEVER`]: until it is woken); `room` says that it could move entries of a crowded shard before that | the worker |
//! | `tick << 2`, 1, 0 | being woken, by a push that came when `tick` had passed | a pusher, in exchange for a plan |
//!
//! # Why no wake-up is lost
//!
//! ```text
//! a pusher                                   the worker
//! P1  push: the shard's tail moves on        W0  transfer, expire, sweep
//! P2  s = word                               W1  word = plan
//!     if s is a plan that is too late:       W2  look at the shards and at the timer's state;
//!     exchange s for "woken", then unpark        the plan was too late: word = 0, back to W0
//!                                            W3  park until the plan's tick
//!                                            W4  word = 0, back to W0
//! ```
//!
//! P1, P2, W1, W4 and W2's look at the shards (L1 to L4 in [`super`]) are sequentially consistent, so they have one
//! order, in which P1 < P2 and W1 < W2.
//!
//! 1. *P1 < W2*: the worker sees the entry, or its due tick, before it sleeps, and does not sleep beyond it. The head of
//!    [`super`] tells why a look overlooks nothing.
//! 2. *W2 < P1*: then W1 < P2, so P2 reads this plan or something later.
//!    - *This plan, not later than the entry's due tick*: the worker wakes at the plan's tick by itself,
//!      and looks at the shards before it expires anything: in time.
//!    - *This plan, too late*: the exchange succeeds, and the unpark either ends W3 or makes the coming
//!      one return at once (its token is kept, and no foreign code that could take it runs between
//!      W1 and W3). Or the exchange fails because the word has changed: it reads again.
//!    - *0 or "woken"*: the worker is awake, or another pusher unparks it. Either way it gets to its
//!      next W2, which comes after P1: case 1.
//!    - *A later plan*: its W2 comes after P1 as well, or P2 is in time for it: as above.
//! 3. *A crowded shard* is treated like a late plan while `room` is set. When the worker could not move anything
//!    before the next boundary, `room` is off and crowds do not wake it.
//! 4. *Stop* stores the state and then unparks unconditionally. If W2 misses the state, W2
//!    came first, so the token arrives after W1, and W3 returns.
//! 5. *A hook* is called where the worker would be unparked. Its caller sleeps between W2 and W4; that a hook called
//!    before that sleep begins is not forgotten (as an unpark's token is not) is the business of what it wakes: an eventfd, a
//!    waker of mio, a thread's token.

use crate::catch_panic::catch_panic;
use crate::sync::thread::{self, Thread};
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::time::Tick;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Where the worker sleeps.
#[repr(align(128))]
pub(crate) struct Parker {
    /// See the module's head.
    word: AtomicU64,
    sleeper: OnceLock<Sleeper>,
}

/// Called instead of unparking a thread.
pub(crate) type Hook = Arc<dyn Fn() + Send + Sync>;

/// What is woken.
enum Sleeper {
    Thread(Thread),
    Loop(Mutex<HookState>),
}

#[derive(Default)]
struct HookState {
    hook: Option<Hook>,
    /// It should have been called and there was none.
    missed: bool,
}

const AWAKE: u64 = 0;
const PLAN: u64 = 1;
/// In a plan: crowds may wake the worker. Without [`PLAN`]: it has been woken.
const ROOM: u64 = 2;
const WOKEN: u64 = 2;
const TICK_SHIFT: u32 = 2;

/// How a sleep ended.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum WakeReason {
    /// There was news, or no time: it did not sleep.
    Awake,
    /// No push ended it: its time had come, or it was stopped, or it woke up for no reason.
    Planned,
    /// A push ended it, which came when this boundary had passed.
    Push(Tick),
}

impl Parker {
    pub(crate) fn new() -> Parker {
        Parker {
            word: AtomicU64::new(AWAKE),
            sleeper: OnceLock::new(),
        }
    }

    /// Says who is to be woken: the calling thread.
    pub(crate) fn register_worker(&self) {
        self.sleeper
            .get_or_init(|| Sleeper::Thread(thread::current()));
    }

    /// Says that a loop of the caller's is to be woken: by a hook.
    pub(crate) fn register_loop(&self) {
        self.sleeper.get_or_init(|| Sleeper::Loop(Mutex::default()));
    }

    /// Sets the hook, or removes it. Calls a new one at once if it has been missed since the plan was announced.
    pub(crate) fn set_hook(&self, hook: Option<Hook>) {
        let Some(Sleeper::Loop(state)) = self.sleeper.get() else {
            return;
        };
        let (old, missed) = {
            let mut state = state.lock();
            let missed = state.missed && hook.is_some();
            state.missed &= !missed;
            (std::mem::replace(&mut state.hook, hook.clone()), missed)
        };
        catch_panic("the drop of a wake hook", move || drop(old));
        if let Some(hook) = hook.filter(|_| missed) {
            call(hook);
        }
    }

    /// Returns `true` if [`Parker::wake_if_late`] would wake the worker: P2 alone.
    #[inline]
    pub(crate) fn is_late(&self, due: Tick, crowded: bool) -> bool {
        is_too_late(self.word.load(Ordering::SeqCst), due, crowded)
    }

    /// P2: to be called after a push of an entry that is due at `due`. `passed` tells the boundary that
    /// has passed.
    #[inline]
    pub(crate) fn wake_if_late(&self, due: Tick, crowded: bool, passed: impl FnOnce() -> Tick) {
        let plan = self.word.load(Ordering::SeqCst);
        if is_too_late(plan, due, crowded) {
            self.wake_slow(plan, due, crowded, passed());
        }
    }

    #[cold]
    fn wake_slow(&self, mut plan: u64, due: Tick, crowded: bool, passed: Tick) {
        let woken = passed.0 << TICK_SHIFT | WOKEN;
        while is_too_late(plan, due, crowded) {
            match self
                .word
                .compare_exchange(plan, woken, Ordering::SeqCst, Ordering::SeqCst)
            {
                Ok(_) => return self.unpark(),
                Err(now) => plan = now,
            }
        }
    }

    /// Wakes the worker whatever its plan.
    pub(crate) fn unpark(&self) {
        match self.sleeper.get() {
            None => {}
            Some(Sleeper::Thread(worker)) => worker.unpark(),
            Some(Sleeper::Loop(state)) => {
                let hook = {
                    let mut state = state.lock();
                    state.missed = state.hook.is_none();
                    state.hook.clone()
                };
                if let Some(hook) = hook {
                    call(hook);
                }
            }
        }
    }

    /// W1.
    pub(crate) fn announce(&self, plan: Tick, room: bool) {
        let room = if room { ROOM } else { 0 };
        self.word
            .store(plan.0 << TICK_SHIFT | room | PLAN, Ordering::SeqCst);
    }

    /// W4. Returns the boundary that had passed at the push that came too early for the plan, if one did.
    pub(crate) fn withdraw(&self) -> Option<Tick> {
        let word = self.word.swap(AWAKE, Ordering::SeqCst);
        if let Some(Sleeper::Loop(state)) = self.sleeper.get() {
            state.lock().missed = false;
        }
        (word & PLAN == 0).then_some(Tick(word >> TICK_SHIFT))
    }

    /// W1 to W4. `until` tells how long it is to the plan's tick, `None` for ever; `news` is W2.
    pub(crate) fn sleep(
        &self,
        plan: Tick,
        room: bool,
        until: impl FnOnce() -> Option<Duration>,
        news: impl FnOnce() -> bool,
    ) -> WakeReason {
        self.announce(plan, room);
        let sleeps = !news() && park(until());
        match self.withdraw() {
            _ if !sleeps => WakeReason::Awake,
            None => WakeReason::Planned,
            Some(passed) => WakeReason::Push(passed),
        }
    }
}

/// Calls a hook, which is foreign code: no lock is held, and its panic is caught, or that of its drop.
fn call(hook: Hook) {
    catch_panic("the wake hook", move || hook());
}

/// Parks, unless there is no time for it.
fn park(duration: Option<Duration>) -> bool {
    match duration {
        None => thread::park(),
        Some(Duration::ZERO) => return false,
        Some(duration) => thread::park_timeout(duration),
    }
    true
}

#[inline]
fn is_too_late(plan: u64, due: Tick, crowded: bool) -> bool {
    plan & PLAN != 0 && (due.0 < plan >> TICK_SHIFT || crowded && plan & ROOM != 0)
}

#[cfg(test)]
mod tests;
