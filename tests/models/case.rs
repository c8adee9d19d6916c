//! Random cases: a few timers on one clock, and what is done to all of them.

use std::sync::Arc;

use hashed_wheel::ManualClock;

use super::action::{Action, Answer, Event, Which};
use super::common::shrink::{self, smaller_numbers, with_one_simpler, without_some};
use super::common::{Kind, Rng};
use super::world::World;

const MS: u64 = 1_000_000;
const YEAR: u64 = 365 * 24 * 3_600 * 1_000 * MS;

#[derive(Debug, Clone)]
pub(crate) struct TimerSettings {
    pub(crate) kind: Kind,
    /// In nanoseconds.
    pub(crate) tick: u64,
    pub(crate) slots: usize,
    pub(crate) max_pending: Option<usize>,
    pub(crate) max_transfers: Option<usize>,
    /// Tasks go through an executor that runs them where it is called.
    pub(crate) executor: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// What the clock reads when the timers are made.
    pub(crate) made_at: u64,
    pub(crate) timers: Vec<TimerSettings>,
    pub(crate) actions: Vec<Action>,
    /// In which order everything is dropped in the end.
    pub(crate) end: usize,
}

impl shrink::Case for Case {
    fn random(random: &mut Rng) -> Case {
        let tick = one_of(random, &[1, 1, 2, 3, 10, 10, 64, 100, 1_000, 3_600_000]) * MS;
        let tick = tick + one_of(random, &[0, 0, 0, 0, 1, 999_999]);
        let kinds = [Kind::Hashed, Kind::Hierarchical];
        let mut timers = kinds.map(|kind| random_timer(random, kind, tick));
        let mut scale = Scale {
            tick,
            slots: timers[random.below(2) as usize].slots as u64,
        };
        let made_at = match random.below(4) {
            0 => random.below(tick),
            1 => scale.delay(random),
            _ => 0,
        };
        let count = 1 + random.below(70);
        let mut actions: Vec<_> = (0..count).map(|_| scale.action(random)).collect();
        // A crowd that leaves something behind to be swept. Slow in the model, so not in every case.
        if random.below(100) == 0 {
            for timer in &mut timers {
                timer.max_pending = None;
            }
            let place = random.below(count) as usize;
            actions.splice(place..place, scale.crowd(random));
        }
        Case {
            made_at,
            timers: timers.into(),
            actions,
            end: random.below(6) as usize,
        }
    }

    fn smaller(&self) -> Vec<Case> {
        let with_actions = |actions| Case {
            actions,
            ..self.clone()
        };
        let with_timers = |timers| Case {
            timers,
            ..self.clone()
        };
        let with_made_at = |made_at| Case {
            made_at,
            ..self.clone()
        };
        let timers = without_some(&self.timers).filter(|timers| !timers.is_empty());
        let mut smaller: Vec<Case> = timers.map(with_timers).collect();
        smaller.extend(without_some(&self.actions).map(with_actions));
        if self.end > 0 {
            let end = 0;
            smaller.push(Case {
                end,
                ..self.clone()
            });
        }
        smaller.extend(with_one_simpler(&self.timers, simpler_settings).map(with_timers));
        smaller.extend(smaller_numbers(self.made_at).into_iter().map(with_made_at));
        smaller.extend(with_one_simpler(&self.actions, simpler_actions).map(with_actions));
        smaller
    }

    fn run(&self) -> Result<(), String> {
        let clock = ManualClock::new();
        clock.advance(super::action::duration(self.made_at));
        let make = |settings| World::new(settings, &clock);
        let mut worlds: Vec<World> = self.timers.iter().map(make).collect();
        for (step, action) in self.actions.iter().enumerate() {
            apply(&clock, &mut worlds, action).map_err(|why| format!("step {step}: {why}"))?;
        }
        for world in worlds {
            world.end(self.end).map_err(|why| format!("end: {why}"))?;
        }
        Ok(())
    }
}

/// Does one thing to all timers. The clock is advanced once for all of them.
fn apply(clock: &ManualClock, worlds: &mut [World], action: &Action) -> Result<(), String> {
    let by = match action {
        Action::Advance(by) => *by,
        Action::ToBoundary(ahead) => worlds[0].model.time_to_boundary(*ahead),
        action => return worlds.iter_mut().try_for_each(|world| world.step(action)),
    };
    let longest = worlds.iter().map(|world| world.model.longest_advance());
    let by = longest.fold(by, u64::min);
    let action = Arc::new(Action::Advance(by));
    for world in &mut *worlds {
        let (action, this) = (Arc::clone(&action), None);
        world.note(Event::Doing { action, this });
    }
    clock.advance(super::action::duration(by));
    for world in &mut *worlds {
        world.note(Event::Did(Answer::None));
    }
    worlds.iter_mut().try_for_each(World::check)
}

fn one_of<T: Copy>(random: &mut Rng, choices: &[T]) -> T {
    choices[random.below(choices.len() as u64) as usize]
}

fn random_timer(random: &mut Rng, kind: Kind, usual_tick: u64) -> TimerSettings {
    let sizes: &[usize] = match kind {
        Kind::Hashed => &[1, 2, 4, 8, 64, 128, 512, 8192],
        Kind::Hierarchical => &[2, 3, 5, 8, 20, 60, 64, 1_000],
    };
    let other_tick = MS + random.below(50 * MS);
    TimerSettings {
        kind,
        tick: one_of(random, &[usual_tick, usual_tick, usual_tick, other_tick]),
        slots: one_of(random, sizes),
        max_pending: one_of(random, &[None, None, None, Some(1), Some(3), Some(12)]),
        max_transfers: one_of(random, &[None, None, None, Some(1), Some(2), Some(7)]),
        executor: random.below(4) == 0,
    }
}

fn simpler_settings(settings: &TimerSettings) -> Vec<TimerSettings> {
    let mut simpler = Vec::new();
    if settings.executor {
        simpler.push(TimerSettings {
            executor: false,
            ..settings.clone()
        });
    }
    if settings.max_pending.is_some() {
        simpler.push(TimerSettings {
            max_pending: None,
            ..settings.clone()
        });
    }
    if settings.max_transfers.is_some() {
        simpler.push(TimerSettings {
            max_transfers: None,
            ..settings.clone()
        });
    }
    for slots in [2, 8].into_iter().filter(|slots| *slots < settings.slots) {
        simpler.push(TimerSettings {
            slots,
            ..settings.clone()
        });
    }
    for tick in [MS, 10 * MS]
        .into_iter()
        .filter(|tick| *tick < settings.tick)
    {
        simpler.push(TimerSettings {
            tick,
            ..settings.clone()
        });
    }
    simpler
}

/// What delays are measured by.
struct Scale {
    tick: u64,
    slots: u64,
}

impl Scale {
    fn delay(&mut self, random: &mut Rng) -> u64 {
        let tick = self.tick;
        let beside = one_of(random, &[0, 0, 1, -1]);
        let delay = match random.below(20) {
            0..2 => 0,
            2..4 => 1 + random.below(tick - 1),
            4..8 => tick * random.below(12),
            8..11 => random.below(30 * tick),
            11..13 => tick * random.below(3 * self.slots + 1),
            13..15 => tick * self.slots * random.below(9),
            15 => tick.saturating_mul(self.slots.saturating_pow(random.below(5) as u32)),
            16 => (1 << random.below(64)) / MS * MS,
            17 => random.below(600).saturating_mul(YEAR),
            18 => random.next() >> random.below(64),
            _ => return one_of(random, &[u64::MAX, u64::MAX - 1, u64::MAX - tick]),
        };
        delay.saturating_add_signed(beside)
    }

    fn advance(&mut self, random: &mut Rng) -> Action {
        Action::Advance(match random.below(20) {
            0 => 0,
            1..4 => random.below(self.tick),
            4..8 => self.tick,
            8..12 => return Action::ToBoundary(random.below(4)),
            12..14 => self.tick * random.below(5_000),
            14 => return Action::ToBoundary(random.below(3 * self.slots + 2)),
            15..19 => random.below(30 * self.tick),
            _ => self.delay(random),
        })
    }

    fn which(random: &mut Rng) -> Which {
        match random.below(4) {
            0 => Which::This,
            1 => Which::Back(random.below(100) as usize),
            _ => Which::Back(random.below(5) as usize),
        }
    }

    fn crowd(&mut self, random: &mut Rng) -> [Action; 5] {
        let count = 5_500 + random.below(1_500);
        let step = one_of(random, &[0, 1, self.tick]);
        let delay = match random.below(3) {
            0 => self.delay(random),
            _ => self.tick * (2 + random.below(4 * self.slots)),
        };
        let keep = one_of(random, &[8, 20, 50, 300]);
        [
            Action::Burst { count, delay, step },
            Action::ToBoundary(1),
            Action::CancelMany { count, keep },
            self.advance(random),
            Action::Advance(delay),
        ]
    }

    fn action(&mut self, random: &mut Rng) -> Action {
        match random.below(100) {
            0..32 => self.once(random, 2),
            32..38 => self.periodic(random),
            38..47 => Action::Cancel(Self::which(random)),
            47..59 => Action::Reset(Self::which(random), self.delay(random)),
            59..64 => Action::Forget(Self::which(random)),
            64..65 => Action::Start,
            65..66 if random.below(3) == 0 => Action::Stop,
            66..67 if random.below(6) == 0 => Action::DropOwner,
            67..68 => Action::Take(Self::which(random)),
            68..70 => Action::TakeLeft(random.below(20) as usize),
            70..71 => Action::DropLeft(random.below(20) as usize),
            71 => Action::CancelMany {
                count: 1 + random.below(10),
                keep: 1 + random.below(4),
            },
            _ => self.advance(random),
        }
    }

    fn once(&mut self, random: &mut Rng, depth: u32) -> Action {
        Action::Once {
            delay: self.delay(random),
            script: self.script(random, depth, false),
        }
    }

    fn periodic(&mut self, random: &mut Rng) -> Action {
        let tick = self.tick;
        Action::Periodic {
            first: self.delay(random),
            period: match random.below(8) {
                0 => 0,
                1 => random.below(tick),
                2 => tick,
                3..6 => random.below(7 * tick),
                6 => tick * random.below(2 * self.slots + 2),
                _ => self.delay(random),
            },
            fixed_rate: random.below(2) == 0,
            script: self.script(random, 0, true),
        }
    }

    /// What a task does. Those that come of a task go no deeper than `depth`, and a periodic one
    /// makes no periodic one: otherwise there would be no end of them.
    fn script(&mut self, random: &mut Rng, depth: u32, again: bool) -> Vec<Action> {
        let count = random.below(6).saturating_sub(3);
        let mut script: Vec<_> = (0..count)
            .map(|_| self.scripted(random, depth, again))
            .collect();
        if again {
            let sometimes = |action| Action::Every(1 + random.below(4), Box::new(action));
            script = script.into_iter().map(sometimes).collect();
        }
        script
    }

    fn scripted(&mut self, random: &mut Rng, depth: u32, again: bool) -> Action {
        match random.below(20) {
            0..5 if depth > 0 => self.once(random, depth - 1),
            0..5 => Action::Once {
                delay: self.delay(random),
                script: Vec::new(),
            },
            5 if depth > 0 && !again => self.periodic(random),
            5..10 => Action::Cancel(Self::which(random)),
            10..15 => Action::Reset(Self::which(random), self.delay(random)),
            15 => Action::Forget(Self::which(random)),
            16 => Action::Stop,
            17 => Action::Advance(self.tick),
            _ => Action::Panic,
        }
    }
}

fn simpler_actions(action: &Action) -> Vec<Action> {
    match action {
        Action::Once { delay, script } => {
            let (delay, with_script) = (*delay, script.clone());
            let scripts = each(simpler_scripts(script), |script| Action::Once {
                delay,
                script,
            });
            let delays = each(smaller_numbers(delay), |delay| Action::Once {
                delay,
                script: with_script.clone(),
            });
            [scripts, delays].concat()
        }
        Action::Periodic { .. } => simpler_periodics(action),
        Action::Burst { count, delay, step } => {
            let with = |count, delay| Action::Burst {
                count,
                delay,
                step: *step,
            };
            let counts = each(smaller_numbers(*count), |count| with(count, *delay));
            let delays = each(smaller_numbers(*delay), |delay| with(*count, delay));
            [counts, delays].concat()
        }
        Action::CancelMany { count, keep } => each(smaller_numbers(*count), |count| {
            let keep = *keep;
            Action::CancelMany { count, keep }
        }),
        Action::Reset(which, delay) => {
            let others = each(simpler_which(*which), |which| Action::Reset(which, *delay));
            let delays = each(smaller_numbers(*delay), |delay| {
                Action::Reset(*which, delay)
            });
            [others, delays].concat()
        }
        Action::Cancel(which) => each(simpler_which(*which), Action::Cancel),
        Action::Forget(which) => each(simpler_which(*which), Action::Forget),
        Action::Take(which) => each(simpler_which(*which), Action::Take),
        Action::Advance(by) => each(smaller_numbers(*by), Action::Advance),
        Action::ToBoundary(ahead) => each(smaller_numbers(*ahead), Action::ToBoundary),
        Action::Every(nth, inner) => {
            let fewer = each(simpler_actions(inner), |inner| {
                Action::Every(*nth, Box::new(inner))
            });
            let always = (*nth > 1).then(|| Action::Every(1, inner.clone()));
            fewer.into_iter().chain(always).collect()
        }
        _ => Vec::new(),
    }
}

fn simpler_periodics(action: &Action) -> Vec<Action> {
    let Action::Periodic {
        first,
        period,
        fixed_rate,
        script,
    } = action
    else {
        return Vec::new();
    };
    let with = |first: u64, period: u64, script: Vec<Action>| Action::Periodic {
        first,
        period,
        fixed_rate: *fixed_rate,
        script,
    };
    let once = Action::Once {
        delay: *first,
        script: Vec::new(),
    };
    let scripts = each(simpler_scripts(script), |script| {
        with(*first, *period, script)
    });
    let firsts = each(smaller_numbers(*first), |first| {
        with(first, *period, script.clone())
    });
    let periods = each(smaller_numbers(*period), |period| {
        with(*first, period, script.clone())
    });
    [vec![once], scripts, firsts, periods].concat()
}

fn simpler_scripts(script: &[Action]) -> Vec<Vec<Action>> {
    let shorter = without_some(script);
    shorter
        .chain(with_one_simpler(script, simpler_actions))
        .collect()
}

fn each<T>(items: impl IntoIterator<Item = T>, make: impl Fn(T) -> Action) -> Vec<Action> {
    items.into_iter().map(make).collect()
}

fn simpler_which(which: Which) -> Option<Which> {
    match which {
        Which::This | Which::Back(0) => None,
        Which::Back(back) => Some(Which::Back(back / 2)),
    }
}
