//! The guide. There is nothing to call here; the programs on these pages run as tests.
//!
//! | page | |
//! |---|---|
//! | [`choosing`] | which wheel, which tick, how many buckets |
//! | [`recipes`] | idle connection, deadline, retry, heartbeat, debounce, expiring map, delay queue, rate limit, shutdown |
//! | [`async_frameworks`] | futures, executors, tokio, tower, hyper, your own event loop |
//! | [`testing`] | tests that advance time by hand |
//! | [`shutdown`] | starting and stopping |
//! | [`faq`] | short answers |
//! | [`coming_from`] | Netty, tokio, Kafka, Java's executors |
//! | [`design`] | how it works inside |
//! | [`limits`] | ranges, bounds and caveats |
//! | [`performance`] | figures, and how they were measured |
//!
//! # Glossary
//!
//! | word | meaning |
//! |---|---|
//! | timer | a [`HashedWheelTimer`] or [`HierarchicalWheelTimer`], with all that belongs to it |
//! | owner | the value of one of these two types. Dropping it stops the timer |
//! | timeout | one scheduled task, and the [`Timeout`] handle to it |
//! | task | the closure of a timeout |
//! | job | a task on its way to an executor: a [`Job`] |
//! | deadline | the moment from which on a task may run |
//! | tick | the unit of the timer's time: a duration, and the number of one since the timer's start |
//! | tick boundary | the moment at which a tick begins. Tasks run at boundaries |
//! | due | said of a timeout whose boundary has come |
//! | pending | said of a timeout that is scheduled and has neither fired, been cancelled, nor been returned by `stop` |
//! | to fire, expired | the task is started or handed to the executor |
//! | wheel | the array, or levels of arrays, of buckets that sorts timeouts by their tick |
//! | bucket | one place of a wheel, which holds the entries of its tick |
//! | entry | the 16 bytes in a bucket that refer to a slot |
//! | slot | the 64-byte record of a timeout: its state, deadline and task. Never a bucket |
//! | revolution | tick × buckets: the time in which a hashed wheel comes round |
//! | round | one revolution that an entry still has to wait |
//! | level, cascade | one wheel of the hierarchy; the move of entries to a lower level |
//! | timer thread, worker | the thread that moves entries and runs tasks; also a thread inside [`advance`](ManualClock::advance) or [`turn`](TimerDriver::turn) |
//! | producer | a thread that schedules timeouts |
//! | pending queue | carries new timeouts from the producers to the timer thread |
//! | shard | the part of the pending queue that belongs to one producer |
//! | to arm, to claim | to write a timeout into its slot; to win the right to run its task |
//! | queued, filed | said of a slot whose number waits in the pending queue; of one that has an entry in the wheel |
//! | plan | the tick until which the timer thread sleeps |
//! | stamp | a count of the armings of one thread, which keeps their order |
//! | transfer | the move of a timeout from the pending queue to the wheel |
//! | lateness | the time from a deadline to the start of its task |

#[expect(unused_imports, reason = "for the links to items")]
use crate::*;

// The pages are also read as files, where links lead to other files. In rustdoc the first definition of a link counts:
// `links.txt` comes first, and names the pages as items. Links to items of the crate stand below, after the page.
macro_rules! pages {
    ($($name:ident: $($file:literal),+ $(=> $items:literal)?;)+) => {
        $(
            #[doc = include_str!("links.txt")]
            $(#[doc = include_str!($file)] #[doc = ""])+
            $(#[doc = concat!("\nItems on this page: ", $items, ".")])?
            pub mod $name {}
        )+
    };
}

pages! {
    choosing: "choosing.md" => "[`HashedWheelTimerBuilder`], [`HierarchicalWheelTimerBuilder`], [`Stats`], [`Lateness`]";
    recipes: "recipes.md" => "[`TimerHandle::new_timeout`], [`TimerHandle::new_timeout_at`], \
        [`TimerHandle::new_periodic`], [`Timeout::reset`], [`Timeout::cancel_on_drop`], [`DelayQueue`], [`TimerHandle::stop`], [`Timeout::take_task`]";
    async_frameworks: "async_frameworks.md" => "[`global`], [`sleep`], [`timeout`], [`interval`], [`TimerHandle::with_timeout`], \
        [`TimerHandle::interval`], [`HashedWheelTimerBuilder::executor`], [`HashedWheelTimerBuilder::build_driven`], [`TimerDriver`]";
    testing: "testing.md" => "[`ManualClock`], [`HashedWheelTimerBuilder::clock`], [`TimerHandle::now`]";
    shutdown: "shutdown.md" => "[`TimerHandle::start`], [`TimerHandle::stop`], [`Timeout::take_task`], \
        [`HashedWheelTimer::shutdown_background`], [`StopError`]";
    faq: "faq.md" => "[`Timeout`], [`CancelOnDrop`], [`TimerHandle`], [`Stats`]";
    coming_from: "coming_from.md" => "[`HashedWheelTimer`], [`HierarchicalWheelTimer`], [`TimerHandle`], [`Timeout`], \
        [`RejectReason`], [`MissedTicks`]";
    design: "design.md";
    limits: "limits.md" => "[`ConfigError`], [`Stats`], [`MissedTicks`]";
    performance: "performance.md", "performance/rivals.svg", "performance/tails.svg", "performance/growth.svg";
}
