//! The threads that use the timers.

use crate::life::Visit;
use crate::nap::Nap;
use crate::task::Held;
use crate::{PLACES, Random, World, lock, ms};
use hashed_wheel::Timeout;
use std::mem;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// One thread after the other, so that threads end while their timers go on.
pub(crate) fn work(world: &'static World, number: u64) {
    let mut random = Random(world.seed ^ number << 32);
    while !world.is_over() {
        let (seed, span) = (random.next(), ms(100 + random.below(2000)));
        let session = thread::spawn(move || {
            let mut session = Session::new(world, seed);
            let since = Instant::now();
            while since.elapsed() < span && !world.is_over() {
                session.do_something();
            }
        });
        if session.join().is_err() {
            world.fail("a thread that uses timers has panicked");
        }
    }
}

/// What one thread holds.
pub(crate) struct Session {
    pub(crate) world: &'static World,
    pub(crate) random: Random,
    /// By place.
    pub(crate) held: Vec<Vec<Held>>,
    pub(crate) naps: Vec<Nap>,
    pub(crate) operations: u64,
}

impl Drop for Session {
    fn drop(&mut self) {
        for nap in self.naps.drain(..) {
            // A living timer counts what is done to its futures.
            let mut visit = nap.life.enter();
            while visit.is_none() && nap.life.generation.load(SeqCst) == nap.generation {
                thread::sleep(ms(1));
                visit = nap.life.enter();
            }
            drop(nap);
        }
        // What is left of a living timer fires without its handle; but periodic tasks would run on.
        for place in 0..PLACES {
            let visit = self.world.lives[place].enter();
            let generation = visit.as_ref().map(|visit| visit.generation);
            for held in self.held[place].drain(..) {
                if held.periodic && generation == Some(held.generation) {
                    held.cancel();
                }
            }
        }
    }
}

impl Session {
    pub(crate) fn new(world: &'static World, seed: u64) -> Session {
        Session {
            world,
            random: Random(seed),
            held: (0..PLACES).map(|_| Vec::new()).collect(),
            naps: Vec::new(),
            operations: 0,
        }
    }

    pub(crate) fn do_something(&mut self) {
        if self.world.lull.load(Relaxed) {
            return thread::sleep(ms(2));
        }
        let place = self.random.below(PLACES as u64) as usize;
        let life = &self.world.lives[place];
        if let Some(visit) = life.enter() {
            self.forget_the_past(place, visit.generation);
            match self.random.below(100) {
                0..40 => self.add_and_cancel(&visit),
                40..60 => self.add(&visit),
                60..75 => self.cancel_some(&visit),
                75..88 => self.reset_some(&visit),
                88..94 => self.use_what_others_hold(&visit),
                _ => self.add_periodic(&visit),
            }
        } else {
            thread::yield_now();
        }
        if self.random.below(4) == 0 {
            self.nap_here_and_there();
        }
        if self.random.below(64) == 0 {
            // With a pause now and then, so that timer threads fall asleep.
            thread::sleep(Duration::from_micros(self.random.below(3000)));
        }
        let done = &self.world.done.operations;
        done.fetch_add(mem::take(&mut self.operations), Relaxed);
    }

    /// Drops the handles of timers that were in this place before.
    pub(crate) fn forget_the_past(&mut self, place: usize, generation: u32) {
        let past = take_past(&mut self.held[place], generation);
        self.operations += past.len() as u64;
        past.iter().for_each(Held::check_afterlife);
    }

    pub(crate) fn add_and_cancel(&mut self, visit: &Visit) {
        for _ in 0..100 {
            let delay = ms(1 + self.random.below(2000));
            let life = visit.life;
            let held = life.schedule(&visit.timer, delay, |token| move |_: &Timeout| token.ran());
            self.operations += 1;
            let Some(held) = held else { break };
            held.cancel();
            self.operations += 1;
        }
    }

    pub(crate) fn add(&mut self, visit: &Visit) {
        let burst = self.random.below(50) == 0;
        let count = if burst { 5000 } else { self.random.below(60) };
        for _ in 0..count {
            let held = visit.life.schedule_any(&visit.timer, &mut self.random);
            self.operations += 1;
            let Some(held) = held else { break };
            self.keep(visit.life.place, held);
        }
    }

    pub(crate) fn keep(&mut self, place: usize, held: Held) {
        let list = &mut self.held[place];
        if self.random.below(3) > 0 || held.periodic {
            list.push(held);
        }
        // What a thread no longer cares for still fires.
        if list.len() > 1000 {
            let place = self.random.below(list.len() as u64) as usize;
            let dropped = list.swap_remove(place);
            if dropped.periodic {
                dropped.cancel();
            }
        }
    }

    pub(crate) fn cancel_some(&mut self, visit: &Visit) {
        let count = self.random.below(80) as usize;
        let list = &mut self.held[visit.life.place];
        for _ in 0..count.min(list.len()) {
            let held = list.swap_remove(self.random.below(list.len() as u64) as usize);
            held.cancel();
            self.operations += 1;
        }
    }

    pub(crate) fn reset_some(&mut self, visit: &Visit) {
        let list = &self.held[visit.life.place];
        if list.is_empty() {
            return;
        }
        for _ in 0..self.random.below(80) {
            let held = &list[self.random.below(list.len() as u64) as usize];
            held.reset(self.random.delay());
            self.operations += 1;
        }
    }

    /// Puts handles where others find them, and uses those that are there while others may.
    pub(crate) fn use_what_others_hold(&mut self, visit: &Visit) {
        for _ in 0..20 {
            let place = self.random.below(self.world.exchange.len() as u64) as usize;
            let found = lock(&self.world.exchange[place]).clone();
            match found {
                Some(held) if ptr::eq(held.life, visit.life) => {
                    if held.generation != visit.generation {
                        held.check_afterlife();
                    } else if self.random.below(4) == 0 {
                        held.cancel();
                    } else {
                        held.reset(self.random.delay());
                    }
                    self.operations += 1;
                    if self.random.below(8) == 0 {
                        lock(&self.world.exchange[place]).take();
                    }
                }
                _ => {
                    if let Some(mut held) = self.held[visit.life.place].pop() {
                        held.shared = true;
                        let before = lock(&self.world.exchange[place]).replace(Arc::new(held));
                        drop(before);
                    }
                }
            }
        }
    }

    pub(crate) fn add_periodic(&mut self, visit: &Visit) {
        if !visit.settings.periodic {
            return;
        }
        let held = visit.life.schedule_periodic(&visit.timer, &mut self.random);
        self.operations += 1;
        if let Some(held) = held {
            self.keep(visit.life.place, held);
        }
    }

    pub(crate) fn nap_here_and_there(&mut self) {
        if self.naps.len() < 40 {
            let place = self.random.below(PLACES as u64) as usize;
            if let Some(visit) = self.world.lives[place].enter() {
                if visit.settings.futures {
                    self.naps.push(Nap::new(&visit, &mut self.random));
                }
            }
        }
        let mut index = 0;
        while index < self.naps.len() {
            self.operations += 1;
            let nap = &mut self.naps[index];
            // Nothing is done to a future while its timer is at rest or ends.
            let Some(visit) = nap.life.enter() else {
                index += 1;
                continue;
            };
            if nap.look(&visit, &mut self.random) && self.random.below(200) > 0 {
                index += 1;
            } else {
                drop(self.naps.swap_remove(index));
            }
        }
    }
}

/// Takes out what does not belong to the timer that lives now.
fn take_past(held: &mut Vec<Held>, generation: u32) -> Vec<Held> {
    if held.iter().all(|held| held.generation == generation) {
        return Vec::new();
    }
    let (now, past) = mem::take(held)
        .into_iter()
        .partition(|held| held.generation == generation);
    *held = now;
    past
}
