//! Futures, polled by hand.

use crate::life::{Life, Visit};
use crate::task::{DROPPED, FUTURE, OnPurpose, RUNG};
use crate::{FAR, Random, ms, nanos};
use hashed_wheel::{Interval, RejectReason, Sleep, TimeoutError, WithTimeout};
use std::future::{Future, Pending, pending};
use std::panic::panic_any;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

pub(crate) enum Waiting {
    Sleep(Sleep),
    Timeout(WithTimeout<Pending<()>>),
    Interval(Interval),
    /// It has been dropped.
    Nothing,
}

/// One future of a timer, polled by hand.
pub(crate) struct Nap {
    pub(crate) waiting: Waiting,
    pub(crate) life: &'static Life,
    pub(crate) generation: u32,
    pub(crate) not_before: u64,
    pub(crate) period: Duration,
    /// It holds a timeout: this mark, and the waker that it was polled with last.
    pub(crate) armed: Option<(u32, Arc<Bell>)>,
}

/// Notes that it was woken; sometimes it panics.
pub(crate) struct Bell {
    pub(crate) life: &'static Life,
    pub(crate) id: u32,
    pub(crate) number: u64,
    pub(crate) rung: AtomicBool,
    pub(crate) panics: bool,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, SeqCst);
        let mark = &self.life.marks[self.id as usize];
        if self.panics {
            self.life.tally.panics.fetch_add(1, SeqCst);
        }
        if mark.ran_at.load(SeqCst) == self.number {
            mark.flags.fetch_or(RUNG, SeqCst);
        }
        if self.panics {
            panic_any(OnPurpose);
        }
    }
}

impl Drop for Nap {
    fn drop(&mut self) {
        // First its timeout is cancelled, then that is told.
        self.waiting = Waiting::Nothing;
        if self.generation == self.life.generation.load(SeqCst) {
            self.end();
        }
    }
}

impl Nap {
    pub(crate) fn new(visit: &Visit, random: &mut Random) -> Nap {
        let period = ms(random.below(40));
        let delay = if random.below(8) == 0 { FAR } else { period };
        let now = visit.life.world().now();
        let (waiting, delay) = match random.below(3) {
            0 => (Waiting::Sleep(visit.timer.sleep(delay)), delay),
            1 => {
                let timeout = visit.timer.with_timeout(pending(), delay);
                (Waiting::Timeout(timeout), delay)
            }
            _ => (Waiting::Interval(visit.timer.interval(period)), period),
        };
        Nap {
            waiting,
            life: visit.life,
            generation: visit.generation,
            not_before: now.saturating_add(nanos(delay)),
            period,
            armed: None,
        }
    }

    /// Its wait is over, or given up.
    pub(crate) fn end(&mut self) {
        if let Some((id, _)) = self.armed.take() {
            let mark = &self.life.marks[id as usize];
            mark.flags.fetch_or(DROPPED, SeqCst);
        }
    }

    /// Polls it, if there is reason to; whether there will be again.
    pub(crate) fn look(&mut self, visit: &Visit, random: &mut Random) -> bool {
        if self.generation != visit.generation {
            self.check_afterlife();
            return false;
        }
        let bell = match &self.armed {
            None => {
                let Some(id) = self.life.mark(FUTURE | DROPPED, self.not_before) else {
                    return false;
                };
                self.bell(id, random)
            }
            // Nobody need poll it before it is woken; but somebody may, with this waker or another.
            Some((id, bell)) if !bell.rung.load(SeqCst) => match random.below(16) {
                0 => Arc::clone(bell),
                1 => self.bell(*id, random),
                _ => return true,
            },
            Some((_, bell)) => Arc::clone(bell),
        };
        self.poll(bell, random)
    }

    pub(crate) fn bell(&self, id: u32, random: &mut Random) -> Arc<Bell> {
        Arc::new(Bell {
            life: self.life,
            id,
            number: random.next() | 1,
            rung: AtomicBool::new(false),
            panics: random.below(32) == 0,
        })
    }

    pub(crate) fn poll(&mut self, bell: Arc<Bell>, random: &mut Random) -> bool {
        let (life, first) = (self.life, self.armed.is_none());
        let mark = &life.marks[bell.id as usize];
        mark.ran_at.store(bell.number, SeqCst);
        let rung = bell.rung.load(SeqCst);
        let outcome = self.waiting.poll(&Waker::from(Arc::clone(&bell)));
        let now = life.world().now();
        match outcome {
            Poll::Pending => {
                if first {
                    life.tally.armed.fetch_add(1, SeqCst);
                    mark.flags.fetch_and(!DROPPED, SeqCst);
                } else if rung {
                    life.fail("a future was woken and is not ready");
                }
                self.armed = Some((bell.id, bell));
                true
            }
            Poll::Ready(Ok(())) => {
                // One whose time has passed is ready at its first poll, without a timeout.
                if now < self.not_before {
                    life.fail("a future is ready before its time");
                }
                self.end();
                self.not_before = self.not_before.saturating_add(nanos(self.period));
                matches!(self.waiting, Waiting::Interval(_)) && random.below(8) > 0
            }
            Poll::Ready(Err(reason)) => {
                if first {
                    life.check_reason(&reason);
                } else if !life.ending.load(SeqCst) {
                    life.fail(&format!("a future ended with an error: {reason}"));
                }
                self.end();
                false
            }
        }
    }

    /// Its timer has ended: it was woken, and is ready.
    pub(crate) fn check_afterlife(&mut self) {
        if self
            .armed
            .as_ref()
            .is_some_and(|(_, bell)| !bell.rung.load(SeqCst))
        {
            self.life
                .fail("a future was not woken when its timer ended");
        }
        let fired = match self.waiting.poll(Waker::noop()) {
            Poll::Ready(Err(RejectReason::Stopped)) => false,
            Poll::Ready(Ok(())) => true,
            other => {
                return self
                    .life
                    .fail(&format!("a future of a timer that has ended: {other:?}"));
            }
        };
        if fired && self.life.world().now() < self.not_before {
            self.life.fail("a future is ready before its time");
        }
    }
}

impl Waiting {
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Result<(), RejectReason>> {
        let mut context = Context::from_waker(waker);
        match self {
            Waiting::Sleep(sleep) => Pin::new(sleep).poll(&mut context),
            Waiting::Timeout(timeout) => {
                Pin::new(timeout).poll(&mut context).map(|out| match out {
                    Err(TimeoutError::Rejected(reason)) => Err(reason),
                    _ => Ok(()),
                })
            }
            Waiting::Interval(interval) => interval.poll_tick(&mut context),
            Waiting::Nothing => Poll::Pending,
        }
    }
}
