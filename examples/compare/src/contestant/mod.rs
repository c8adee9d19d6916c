//! The contestants, each a wheel (or what stands in its place) under the same front: the queue, the
//! slots, the worker, the clock and the counters of the crate's own timers.

mod btree;
mod classic;
pub(crate) mod compared;
mod heap;
mod kernel;
#[cfg(test)]
mod tests;

use hashed_wheel::unstable::{Wheel, timer_on};
use hashed_wheel::{HashedWheelTimer, HierarchicalWheelTimer, ManualClock, TimerHandle};
use std::time::Duration;

/// Who takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Contestant {
    Hashed,
    Hierarchical,
    Kernel,
    Classic,
    Heap,
    Btree,
    /// No timer: a plain array of 64-byte slots, used in the same order as the timer's slots. It
    /// shows what the cache alone costs.
    Array,
}

impl Contestant {
    pub(crate) const TIMERS: [Contestant; 6] = [
        Contestant::Hashed,
        Contestant::Hierarchical,
        Contestant::Kernel,
        Contestant::Classic,
        Contestant::Heap,
        Contestant::Btree,
    ];
    pub(crate) const ALL: [Contestant; 7] = [
        Contestant::Hashed,
        Contestant::Hierarchical,
        Contestant::Kernel,
        Contestant::Classic,
        Contestant::Heap,
        Contestant::Btree,
        Contestant::Array,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Contestant::Hashed => "hashed",
            Contestant::Hierarchical => "hierarchical",
            Contestant::Kernel => "kernel",
            Contestant::Classic => "classic",
            Contestant::Heap => "heap",
            Contestant::Btree => "btree",
            Contestant::Array => "array",
        }
    }

    /// Its name where lateness has to be told beside it.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Contestant::Kernel => "kernel (late)",
            _ => self.name(),
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Contestant> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// By how many ticks a timeout that is filed so many ticks ahead may be late: 0 if this design hands
    /// out everything at the boundary it is due at.
    pub(crate) fn lateness(self, delay: u64) -> u64 {
        match self {
            Contestant::Kernel => kernel::lateness(delay),
            _ => 0,
        }
    }

    /// Whether it is late by more than the tick's rounding.
    pub(crate) fn is_late(self) -> bool {
        self == Contestant::Kernel
    }

    /// One line for the report.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Contestant::Hashed => {
                "the crate's hashed wheel: sleeps until a bucket is due, passes over what is due in a later round"
            }
            Contestant::Hierarchical => {
                "the crate's hierarchy of wheels, after Kafka: moves entries down, level by level"
            }
            Contestant::Kernel => {
                "the Linux kernel's wheel since 4.8: levels without a cascade, so nothing is moved, and up to 12.7 % of its delay late"
            }
            Contestant::Classic => {
                "the original's wheel taken literally: wakes at every tick, walks every entry of the bucket, counts rounds down"
            }
            Contestant::Heap => "a binary heap with lazy deletion",
            Contestant::Btree => "a sorted map from ticks to what is due then",
            Contestant::Array => {
                "no timer: a plain array of 64-byte slots, touched in the same order, to show what the cache alone costs"
            }
        }
    }
}

/// The sizes of the wheels: what the others do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Of `hashed` and `classic`.
    pub(crate) slots: usize,
    /// Of `hierarchical`: the buckets of each level.
    pub(crate) wheel_size: usize,
}

impl Sizes {
    /// The defaults of the crate's two timers.
    pub(crate) const DEFAULT: Sizes = Sizes {
        slots: 512,
        wheel_size: 20,
    };

    /// Other slots; the hierarchy keeps its default, since its reach has no end anyway.
    pub(crate) const fn slots(slots: usize) -> Sizes {
        Sizes {
            slots,
            ..Sizes::DEFAULT
        }
    }
}

/// A running timer.
#[derive(Debug)]
pub(crate) struct Timer {
    pub(crate) handle: TimerHandle,
    _owner: Keeper,
}

#[derive(Debug)]
enum Keeper {
    Hashed { _owner: HashedWheelTimer },
    Hierarchical { _owner: HierarchicalWheelTimer },
}

impl Timer {
    /// A timer on the system's clock, with the crate's default settings.
    pub(crate) fn real(contestant: Contestant, tick: Duration, sizes: Sizes) -> Timer {
        let hashed = HashedWheelTimer::builder()
            .tick_duration(tick)
            .ticks_per_wheel(sizes.slots);
        let hierarchical = HierarchicalWheelTimer::builder()
            .tick_duration(tick)
            .wheel_size(sizes.wheel_size);
        Self::build(contestant, sizes, hashed, hierarchical)
    }

    /// A timer on a manual clock, with a tick of [`TICK`]. It takes over at one boundary whatever was
    /// scheduled since the last, so that everything fires at its own boundary.
    pub(crate) fn manual(contestant: Contestant, sizes: Sizes, clock: &ManualClock) -> Timer {
        let hashed = HashedWheelTimer::builder()
            .tick_duration(TICK)
            .ticks_per_wheel(sizes.slots)
            .max_transfers_per_tick(usize::MAX)
            .clock(clock);
        let hierarchical = HierarchicalWheelTimer::builder()
            .tick_duration(TICK)
            .wheel_size(sizes.wheel_size)
            .max_transfers_per_tick(usize::MAX)
            .clock(clock);
        Self::build(contestant, sizes, hashed, hierarchical)
    }

    fn build(
        contestant: Contestant,
        sizes: Sizes,
        hashed: hashed_wheel::HashedWheelTimerBuilder,
        hierarchical: hashed_wheel::HierarchicalWheelTimerBuilder,
    ) -> Timer {
        fn other(
            settings: hashed_wheel::HashedWheelTimerBuilder,
            wheel: impl Wheel + 'static,
        ) -> Timer {
            let owner = timer_on(settings, wheel).expect("the settings are valid");
            Timer {
                handle: owner.handle(),
                _owner: Keeper::Hashed { _owner: owner },
            }
        }
        match contestant {
            Contestant::Hashed => {
                let owner = hashed.build().expect("the settings are valid");
                Timer {
                    handle: owner.handle(),
                    _owner: Keeper::Hashed { _owner: owner },
                }
            }
            Contestant::Hierarchical => {
                let owner = hierarchical.build().expect("the settings are valid");
                Timer {
                    handle: owner.handle(),
                    _owner: Keeper::Hierarchical { _owner: owner },
                }
            }
            Contestant::Kernel => other(hashed, kernel::Kernel::new()),
            Contestant::Classic => other(hashed, classic::Classic::new(sizes.slots)),
            Contestant::Heap => other(hashed, heap::Heap::default()),
            Contestant::Btree => other(hashed, btree::Btree::default()),
            Contestant::Array => panic!("an array is no timer"),
        }
    }
}

/// The tick on a manual clock.
pub(crate) const TICK: Duration = Duration::from_millis(1);
