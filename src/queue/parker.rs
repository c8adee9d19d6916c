//! How the timer thread (the *worker*) sleeps, and who wakes it.
//!
//! Before it sleeps, the worker announces in one word until when: its *plan*. A thread that pushes a slot reads the word and wakes
//! the worker only if the plan is too late for the slot. So a push costs a load, a worker with nothing to do sleeps without a
//! limit, and `cancel` does not wake it.
//!
//! The sleeper is a thread, or a loop of the caller's. The loop announces and withdraws its plan by two calls, and sleeps in
//! between in its own way; a *hook* is called where a thread would be woken.
//!
//! # The word
//!
//! `tick:45 | epoch:16 | state:3`
//!
//! | state | meaning | written by |
//! |---|---|---|
//! | [`PLAN`], perhaps [`ROOM`] | the worker sleeps until `tick` ([`Tick::NEVER`]: until it is woken); `ROOM` says that it could move slots of a crowded shard before that | the worker |
//! | [`WOKEN`] | a pusher has begun to wake it, at a push that came when `tick` had passed | a pusher, in exchange for a plan |
//! | 0 | it is awake, or has been woken: a pusher does nothing | the worker; the pusher that woke it, in exchange for `WOKEN` |
//!
//! The epoch goes up with each plan, so that an exchange that comes late does not meet a later plan's word. (It would have to
//! be late by 65 536 plans.)
//!
//! # Why no wake-up is lost
//!
//! ```text
//! a pusher                                   the worker
//! P1  push: the number is announced          W0  transfer, fire, sweep
//! P2  s = word                               W1  word = plan
//!     s is a plan that is too late:          W2  look at the shards and at the timer's state;
//! P3    exchange s for WOKEN                     the plan was too late: word = 0, back to W0
//!     now, or if s was WOKEN:                W3  sleep while the word is the plan, until its tick
//! P4    wake                                 W4  word = 0, back to W0
//! P5    exchange WOKEN for 0
//! ```
//!
//! P1, P2, P3, P5, W1, W4 and W2's look at the shards (L1 to L3 in [`super`]) are sequentially consistent, so they have one
//! order, in which P1 < P2 and W1 < W2. A call that finds its slot queued has no P1 of its own: the number was announced before
//! the call armed the slot, and `slots/slot/place.rs` argues that the worker sees that arming or the call pushes.
//!
//! 1. *P1 < W2*: the worker sees the slot before it sleeps, and does not sleep beyond it. The head of
//!    [`super`] argues that a look overlooks nothing.
//! 2. *W2 < P1*: then W1 < P2, so P2 reads this plan or something later.
//!    - *This plan, not later than the slot's due tick*: the worker wakes at the plan's tick by itself,
//!      and looks at the shards before it fires anything: in time.
//!    - *This plan, too late*: P3 succeeds, and P4 follows. Or it fails because the word has changed: it reads again.
//!    - *`WOKEN`*: P4. The pusher that wrote it may be suspended, so no other relies on it.
//!    - *0*: the worker is awake, or P4 has returned in another thread. Either way the worker gets to its next W2, which comes
//!      after P1: case 1.
//!    - *A later plan*: if its W2 comes after P1, case 1; otherwise case 2 for it.
//! 3. *P4 ends W3*, or makes the coming one return at once, for the word is the plan no longer: [`Sleeper`].
//! 4. *A crowded shard* is treated like a late plan while `ROOM` is set. When the worker could not move anything
//!    before the next boundary, `ROOM` is off and crowds do not wake it.
//! 5. *Stop* stores the state and then does P2 to P5 for any plan. If W2 misses the state, W2 came first: case 2.
//! 6. *A hook* is called where the worker would be woken. Its caller sleeps between W2 and W4; a hook that
//!    is called before that sleep begins must end it all the same, as an eventfd, a waker of mio and a thread's token do. It is
//!    called once for a plan, so there is no `WOKEN`: P3 writes 0, and other pushers rely on the one that wrote it.
//!
//! # Suspended pushers
//!
//! On 64-bit Linux, no thread waits for another: a pusher that is suspended between P1 and P5 leaves a word that makes the next
//! pusher wake the worker. Elsewhere, a pusher that is suspended *inside* P4, in the standard library's `unpark`, may hold the
//! wake-up back: slots that others push are late until it continues, or until the plan's tick. With a hook, this holds from P3 on.

use super::hook::{Hook, WakeHook};
use crate::sync::{AtomicU64, Ordering, Sleeper};
use crate::time::Tick;
use std::sync::OnceLock;
use std::time::Duration;

/// Where the worker sleeps.
#[repr(align(128))]
pub(crate) struct Parker {
    /// See the module's head.
    word: AtomicU64,
    sleeper: Sleeper,
    /// Set if a loop of the caller's sleeps, and no thread of the timer's.
    hook: OnceLock<WakeHook>,
}

/// The worker sleeps until the tick.
const PLAN: u64 = 1;
/// With [`PLAN`]: crowds may wake the worker.
const ROOM: u64 = 2;
/// A pusher has begun to wake the worker.
const WOKEN: u64 = 4;
const TICK_SHIFT: u32 = 64 - Tick::BITS;
const EPOCH: u64 = (1 << TICK_SHIFT) - (1 << EPOCH_SHIFT);
const EPOCH_SHIFT: u32 = 3;

/// How a sleep ended.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum WakeReason {
    /// It did not sleep: W2 found something, or the plan's tick had come.
    Awake,
    /// No push ended it: the plan's tick has come, or the wake-up was spurious.
    Planned,
    /// A push ended it, when this boundary had passed; or a stop, with boundary zero.
    Push(Tick),
}

impl Parker {
    pub(crate) fn new() -> Parker {
        Parker {
            word: AtomicU64::new(0),
            sleeper: Sleeper::new(),
            hook: OnceLock::new(),
        }
    }

    /// Makes the calling thread the one that is woken.
    pub(crate) fn register_worker(&self) {
        self.sleeper.register();
    }

    /// Makes the caller's loop the one that is woken, by a hook.
    pub(crate) fn register_loop(&self) {
        self.hook.get_or_init(WakeHook::new);
    }

    /// Sets the hook, or removes it. Calls a new one at once if it has been missed since the plan was announced.
    pub(crate) fn set_hook(&self, hook: Option<Hook>) {
        if let Some(state) = self.hook.get() {
            state.set(hook);
        }
    }

    /// Returns `true` if [`Parker::wake_if_late`] would wake the worker: P2 alone.
    #[inline]
    pub(crate) fn is_late(&self, due: Tick, crowded: bool) -> bool {
        needs_wake(self.word.load(Ordering::SeqCst), due, crowded)
    }

    /// P2, after the push of a slot that is due at `due`. `passed` returns the last boundary that has passed.
    #[inline]
    pub(crate) fn wake_if_late(&self, due: Tick, crowded: bool, passed: impl FnOnce() -> Tick) {
        let word = self.word.load(Ordering::SeqCst);
        if needs_wake(word, due, crowded) {
            self.wake_slow(word, passed(), |word| is_too_late(word, due, crowded));
        }
    }

    /// P3 to P5. `ends` returns `true` for a plan that is to be ended.
    #[cold]
    fn wake_slow(&self, word: u64, passed: Tick, ends: impl Fn(u64) -> bool) {
        let Some(woken) = self.claim(word, passed, ends) else {
            return;
        };
        if let Some(hook) = self.hook.get() {
            return hook.call();
        }
        self.sleeper.wake(&self.word);
        let order = Ordering::SeqCst;
        // If the word has changed, the worker is awake, or another pusher has woken it.
        let _ = self
            .word
            .compare_exchange(woken, woken & !WOKEN, order, order);
    }

    /// P3. Returns the word if the caller is to wake the worker.
    fn claim(&self, mut word: u64, passed: Tick, ends: impl Fn(u64) -> bool) -> Option<u64> {
        let state = if self.hook.get().is_some() { 0 } else { WOKEN };
        while word & WOKEN == 0 {
            if !ends(word) {
                return None;
            }
            let woken = passed.0 << TICK_SHIFT | word & EPOCH | state;
            let order = Ordering::SeqCst;
            match self.word.compare_exchange(word, woken, order, order) {
                Ok(_) => return Some(woken),
                Err(now) => word = now,
            }
        }
        Some(word)
    }

    /// P2 and P3, as if the push were suspended then. Returns `true` if there was a plan for it to end.
    #[cfg(all(test, hashed_wheel_loom))]
    pub(crate) fn begin_to_wake(&self, due: Tick) -> bool {
        let word = self.word.load(Ordering::SeqCst);
        self.claim(word, Tick::ZERO, |word| is_too_late(word, due, false))
            .is_some()
    }

    /// How often P4 was done.
    #[cfg(all(test, hashed_wheel_loom))]
    pub(crate) fn wakes(&self) -> usize {
        self.sleeper.wakes()
    }

    /// Wakes the worker whatever its plan.
    pub(crate) fn unpark(&self) {
        if let Some(hook) = self.hook.get() {
            return hook.call();
        }
        let word = self.word.load(Ordering::SeqCst);
        self.wake_slow(word, Tick::ZERO, |word| word & PLAN != 0);
    }

    /// W1. Returns the word.
    pub(crate) fn announce(&self, plan: Tick, room: bool) -> u64 {
        // Relaxed: others leave the epoch alone.
        let last = self.word.load(Ordering::Relaxed);
        let epoch = last.wrapping_add(1 << EPOCH_SHIFT) & EPOCH;
        let room = if room { ROOM } else { 0 };
        let word = plan.0 << TICK_SHIFT | epoch | room | PLAN;
        self.word.store(word, Ordering::SeqCst);
        word
    }

    /// W4. Returns the boundary that had passed at the push that ended the plan, or `None` if none did.
    pub(crate) fn withdraw(&self) -> Option<Tick> {
        let epoch = self.word.load(Ordering::Relaxed) & EPOCH;
        let word = self.word.swap(epoch, Ordering::SeqCst);
        if let Some(hook) = self.hook.get() {
            hook.forget_missed();
        }
        (word & PLAN == 0).then_some(Tick(word >> TICK_SHIFT))
    }

    /// W1 to W4. `until` returns the time to the plan's tick, `None` for ever; `news` is W2.
    pub(crate) fn sleep(
        &self,
        plan: Tick,
        room: bool,
        until: impl FnOnce() -> Option<Duration>,
        news: impl FnOnce() -> bool,
    ) -> WakeReason {
        let plan = self.announce(plan, room);
        let sleeps = !news() && self.wait(plan, until());
        match self.withdraw() {
            _ if !sleeps => WakeReason::Awake,
            None => WakeReason::Planned,
            Some(passed) => WakeReason::Push(passed),
        }
    }

    /// W3, unless the plan's tick has come. Returns `true` if it slept.
    fn wait(&self, plan: u64, limit: Option<Duration>) -> bool {
        let sleeps = limit != Some(Duration::ZERO);
        if sleeps {
            self.sleeper.wait(&self.word, plan, limit);
        }
        sleeps
    }
}

/// P2. Also if another pusher has begun the wake-up: it may be suspended. `wake_slow` checks the plan again: the tick of a word
/// without one has passed, so that is nearly always enough.
#[inline]
fn needs_wake(word: u64, due: Tick, crowded: bool) -> bool {
    due.0 < word >> TICK_SHIFT || crowded && word & ROOM != 0 || word & WOKEN != 0
}

fn is_too_late(word: u64, due: Tick, crowded: bool) -> bool {
    word & PLAN != 0 && (due.0 < word >> TICK_SHIFT || crowded && word & ROOM != 0)
}

#[cfg(test)]
mod tests;
