//! A game's loop, which has a thread already and wants no other: it steps its world sixty times a second, and calls
//! `turn` once a frame, between input and physics. Poison wears off, a bomb goes off, a monster comes back: each is
//! a timeout whose task runs on the loop's own thread, between two frames, so it may touch the world without waiting for anybody.
//!
//! `next_due` says whether something falls due before the next frame; what is left of a frame is slept through.
//!
//! ```text
//! cargo run --example game_loop             # three seconds
//! cargo run --example game_loop -- --quick  # half a second
//! ```

mod options;

use hashed_wheel::{HashedWheelTimer, Period, Timeout, TimerHandle};
use std::error::Error;
use std::fmt;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: game_loop [--quick]

A loop of sixty frames a second that drives its timer itself: effects wear off, bombs go off and monsters come back
between two frames, on the loop's own thread.

  --quick    for half a second instead of three";

const FRAME: Duration = Duration::from_nanos(1_000_000_000 / 60);

/// A change of the world, from a task or a frame.
enum Event {
    PoisonBites,
    PoisonIsOver,
    Explodes { bomb: u32 },
    MonsterIsBack,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::PoisonBites => f.write_str("the poison bites"),
            Event::PoisonIsOver => f.write_str("the poison wears off"),
            Event::Explodes { bomb } => write!(f, "bomb {bomb} goes off"),
            Event::MonsterIsBack => f.write_str("a monster comes back"),
        }
    }
}

#[derive(Debug)]
struct World {
    health: i32,
    poisoned: bool,
    monsters: u32,
    bombs: u32,
}

fn main() -> Result<(), Box<dyn Error>> {
    let quick = options::quick(USAGE);
    let length = if quick { 30 } else { 180 };

    let (timer, mut driver) = HashedWheelTimer::builder()
        .tick_duration(Duration::from_millis(1))
        .build_driven()?;
    let (events, happened) = mpsc::channel();
    let mut world = World {
        health: 100,
        poisoned: true,
        monsters: 3,
        bombs: 0,
    };
    poison(&timer.handle(), &events)?;

    let begin = Instant::now();
    let mut next_frame = begin;
    let (mut ran, mut late_frames) = (0, 0);
    for frame in 0..length {
        // Input: the player lays a bomb every tenth frame.
        if frame % 10 == 0 {
            world.bombs += 1;
            lay_bomb(&timer, &events, frame / 10)?;
        }
        // What has fallen due since the last frame runs here.
        ran += driver.turn();
        for event in happened.try_iter() {
            world.apply(&event, &timer, &events)?;
            println!("frame {frame:3}  {event}");
        }
        next_frame += FRAME;
        match next_frame.checked_duration_since(Instant::now()) {
            Some(left) => thread::sleep(left),
            None => late_frames += 1,
        }
    }

    let next_due = driver.next_due();
    println!(
        "{length} frames in {:.2?}, {late_frames} of them late; {ran} tasks, all on the loop's thread",
        begin.elapsed()
    );
    println!("{world:?}");
    let left = timer.stop()?;
    if let Some(due) = next_due {
        let wait = due.saturating_duration_since(Instant::now());
        println!(
            "{} things were still to come, the next in {wait:.0?}",
            left.len()
        );
    }
    assert_eq!(left.is_empty(), next_due.is_none());
    assert!(ran > 0, "something must have happened");
    Ok(())
}

/// Bites every 100 ms, for 400 ms.
fn poison(timer: &TimerHandle, events: &Sender<Event>) -> Result<(), Box<dyn Error>> {
    let period = Duration::from_millis(100);
    let tell_bite = tell(events);
    let bite = move |_: &Timeout| tell_bite(Event::PoisonBites);
    let bites = timer.new_periodic(bite, period, Period::FixedRate(period))?;
    let tell_end = tell(events);
    let heal = move |_: &Timeout| {
        bites.cancel();
        tell_end(Event::PoisonIsOver);
    };
    timer.new_timeout(heal, Duration::from_millis(400))?;
    Ok(())
}

fn lay_bomb(timer: &TimerHandle, events: &Sender<Event>, bomb: u32) -> Result<(), Box<dyn Error>> {
    let tell = tell(events);
    let explode = move |_: &Timeout| tell(Event::Explodes { bomb });
    timer.new_timeout(explode, Duration::from_millis(250))?;
    Ok(())
}

impl World {
    fn apply(
        &mut self,
        event: &Event,
        timer: &TimerHandle,
        events: &Sender<Event>,
    ) -> Result<(), Box<dyn Error>> {
        match event {
            Event::PoisonBites => self.health -= 5,
            Event::PoisonIsOver => self.poisoned = false,
            Event::Explodes { .. } => {
                self.bombs -= 1;
                if self.monsters > 0 {
                    self.monsters -= 1;
                    let tell = tell(events);
                    let come_back = move |_: &Timeout| tell(Event::MonsterIsBack);
                    timer.new_timeout(come_back, Duration::from_millis(600))?;
                }
            }
            Event::MonsterIsBack => self.monsters += 1,
        }
        Ok(())
    }
}

/// A message from a task to the loop.
fn tell(events: &Sender<Event>) -> impl Fn(Event) + Send + use<> {
    let events = events.clone();
    // The loop may be over.
    move |event| drop(events.send(event))
}
