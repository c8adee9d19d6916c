//! The calls of one producer, at full speed.

use crate::producer::{CANCELLED, CANCELLING, DROPPING, Producer, RESETTING, SCHEDULING};
use crate::world::{Random, World, ms};
use hashed_wheel::{Timeout, TimerHandle};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// The longest delay of a short timeout, in milliseconds.
const SHORT: u64 = 16;
/// Short timeouts in a row with the same deadline.
const SAME_DEADLINE: usize = 4;
/// Timeouts that a producer holds, to cancel or to reset one at random: most entries in the queue are dead, in no
/// order, so that the survivors have to be moved.
const HELD: usize = 4096;

/// The thread of a producer.
pub(crate) struct Calls {
    world: &'static World,
    producer: &'static Producer,
    timer: TimerHandle,
    random: Random,
    next_number: u64,
    held: Vec<Option<(Timeout, u64)>>,
}

impl Calls {
    pub(crate) fn new(
        world: &'static World,
        producer: &'static Producer,
        timer: TimerHandle,
        random: Random,
    ) -> Calls {
        Calls {
            world,
            producer,
            timer,
            random,
            next_number: 0,
            held: (0..HELD).map(|_| None).collect(),
        }
    }

    pub(crate) fn run(mut self) {
        // SAFETY: it has no arguments, and cannot fail.
        let thread = unsafe { libc::gettid() };
        self.producer.thread.store(thread, SeqCst);
        let mut goes_on = true;
        while goes_on && !self.world.over.load(Relaxed) {
            goes_on = match self.random.below(32) {
                0 => self.schedule_short(),
                1..4 => self.reset_one(),
                _ => self.replace_one(),
            };
        }
        // One half is cancelled, the other fires.
        for index in 0..self.held.len() {
            let Some((timeout, number)) = self.held[index].take() else {
                continue;
            };
            if index % 2 == 0 {
                self.cancel(timeout, number);
            } else if timeout.reset(ms(5)) {
                self.producer.reset.fetch_add(1, Relaxed);
            }
        }
    }

    /// Schedules some with the same deadline, and leaves them alone.
    fn schedule_short(&mut self) -> bool {
        let (world, producer) = (self.world, self.producer);
        let deadline = world.now().as_millis() as u64 + 1 + self.random.below(SHORT);
        (0..SAME_DEADLINE).all(|_| {
            let task = |number| move |_: &Timeout| producer.fire_short(world, number, deadline);
            let scheduled = self.schedule(|timer, number| {
                timer
                    .new_timeout_at(task(number), world.born + ms(deadline))
                    .ok()
            });
            let Some((timeout, _)) = scheduled else {
                return false;
            };
            producer.short.fetch_add(1, Relaxed);
            producer.during(DROPPING, || drop(timeout));
            true
        })
    }

    /// Cancels one of those that are held, and schedules another one in its place.
    fn replace_one(&mut self) -> bool {
        let (world, producer) = (self.world, self.producer);
        let index = self.random.below(HELD as u64) as usize;
        if let Some((timeout, number)) = self.held[index].take() {
            self.cancel(timeout, number);
        }
        let delay = ms(500 + self.random.below(1000));
        let scheduled = self.schedule(|timer, number| {
            let task = move |_: &Timeout| producer.fire(world, number);
            timer.new_timeout(task, delay).ok()
        });
        self.held[index] = scheduled;
        self.held[index].is_some()
    }

    fn reset_one(&mut self) -> bool {
        let delay = self.random.pick([ms(0), ms(5), ms(50), ms(1000)]);
        let index = self.random.below(HELD as u64) as usize;
        if let Some((timeout, _)) = &self.held[index] {
            if self.producer.during(RESETTING, || timeout.reset(delay)) {
                self.producer.reset.fetch_add(1, Relaxed);
            }
        }
        true
    }

    fn schedule(
        &mut self,
        call: impl FnOnce(&TimerHandle, u64) -> Option<Timeout>,
    ) -> Option<(Timeout, u64)> {
        self.next_number += 1;
        let number = self.next_number;
        if !self.producer.begin(self.world, number) {
            return None;
        }
        let timeout = self
            .producer
            .during(SCHEDULING, || call(&self.timer, number));
        if timeout.is_none() {
            let producer = self.producer;
            self.world
                .fail(format!("{producer}: timeout {number} was rejected"));
        }
        self.producer.scheduled.fetch_add(1, Relaxed);
        Some((timeout?, number))
    }

    fn cancel(&self, timeout: Timeout, number: u64) {
        let producer = self.producer;
        if producer.during(CANCELLING, || timeout.cancel()) {
            producer.end(self.world, number, CANCELLED);
            producer.cancelled.fetch_add(1, Relaxed);
        }
        producer.during(DROPPING, || drop(timeout));
    }
}
