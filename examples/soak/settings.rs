//! How a timer is built.

use crate::life::Life;
use crate::{Random, ms};
use hashed_wheel::{HashedWheelTimer, HierarchicalWheelTimer, TimerHandle};

pub(crate) enum Owner {
    Hashed(HashedWheelTimer),
    Hierarchical(HierarchicalWheelTimer),
}

impl Owner {
    pub(crate) fn handle(&self) -> TimerHandle {
        match self {
            Owner::Hashed(timer) => timer.handle(),
            Owner::Hierarchical(timer) => timer.handle(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tasks {
    OnTheTimerThread,
    OnAnExecutor,
    /// On an executor that drops one job in seven.
    Forgotten,
}

/// How one timer is built, and what it is used for.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) hashed: bool,
    pub(crate) tick: u64,
    pub(crate) slots: usize,
    pub(crate) max_pending: usize,
    pub(crate) max_transfers: usize,
    pub(crate) tasks: Tasks,
    pub(crate) futures: bool,
    pub(crate) periodic: bool,
}

impl Settings {
    pub(crate) fn random(random: &mut Random) -> Settings {
        let hashed = random.below(2) == 0;
        let max_pending = random.pick(&[1, 30, 1000, 50_000, usize::MAX, usize::MAX]);
        let tasks = random.pick(&[
            Tasks::OnTheTimerThread,
            Tasks::OnTheTimerThread,
            Tasks::OnAnExecutor,
            Tasks::Forgotten,
        ]);
        Settings {
            hashed,
            tick: random.pick(&[1, 1, 2, 5, 10]),
            slots: random.pick(if hashed {
                &[1, 8, 64, 512]
            } else {
                &[2, 8, 20, 64]
            }),
            max_pending,
            // With more pending, a few a tick would take for ever.
            max_transfers: if max_pending <= 30 {
                random.pick(&[1, 10, 100_000])
            } else {
                random.pick(&[10_000, 100_000])
            },
            tasks,
            futures: random.below(3) > 0,
            // A job that is forgotten ends a task that runs once, but not a periodic one.
            periodic: tasks != Tasks::Forgotten,
        }
    }

    pub(crate) fn build(&self, life: &'static Life) -> Owner {
        let executor = |tasks: Tasks| {
            let queue = life.world().executor.clone();
            let forgetful = (tasks == Tasks::Forgotten).then_some(life);
            move |job| queue.send((job, forgetful)).expect("it works to the end")
        };
        let tick = ms(self.tick);
        let refused = "the settings are allowed";
        if self.hashed {
            let mut builder = HashedWheelTimer::builder()
                .tick_duration(tick)
                .ticks_per_wheel(self.slots)
                .max_transfers_per_tick(self.max_transfers);
            if self.max_pending != usize::MAX {
                builder = builder.max_pending_timeouts(self.max_pending);
            }
            if self.tasks != Tasks::OnTheTimerThread {
                builder = builder.executor(executor(self.tasks));
            }
            Owner::Hashed(builder.build().expect(refused))
        } else {
            let mut builder = HierarchicalWheelTimer::builder()
                .tick_duration(tick)
                .wheel_size(self.slots)
                .max_transfers_per_tick(self.max_transfers);
            if self.max_pending != usize::MAX {
                builder = builder.max_pending_timeouts(self.max_pending);
            }
            if self.tasks != Tasks::OnTheTimerThread {
                builder = builder.executor(executor(self.tasks));
            }
            Owner::Hierarchical(builder.build().expect(refused))
        }
    }
}
