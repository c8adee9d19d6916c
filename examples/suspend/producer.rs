//! The record of one producer: what it is doing, and what became of each of its timeouts.

use crate::world::{PATIENCE, World, ms};
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};

/// Timeouts of one producer that are told apart: by their number modulo this.
const LEDGER: usize = 1 << 20;
/// Deadlines that are told apart, in milliseconds.
const DEADLINES: usize = 1 << 16;

/// The calls of a producer, by number.
pub(crate) const DOING: [&str; 5] = [
    "between calls",
    "new_timeout",
    "cancel",
    "reset",
    "drop of a handle",
];
const BETWEEN: u8 = 0;
pub(crate) const SCHEDULING: u8 = 1;
pub(crate) const CANCELLING: u8 = 2;
pub(crate) const RESETTING: u8 = 3;
pub(crate) const DROPPING: u8 = 4;

/// The lower bits of a ledger's entry; the others are the number of the timeout.
pub(crate) const PENDING: u64 = 1;
const FIRED: u64 = 2;
pub(crate) const CANCELLED: u64 = 3;

fn state_name(entry: u64) -> &'static str {
    ["never made", "pending", "fired", "cancelled"][(entry & 3) as usize]
}

/// One producer, and what became of its timeouts.
#[repr(align(128))]
pub(crate) struct Producer {
    number: usize,
    /// The state of each timeout.
    pub(crate) ledger: Box<[AtomicU64]>,
    /// The last short timeout that fired for each deadline.
    last_fired: Box<[AtomicU64]>,
    pub(crate) doing: AtomicU8,
    pub(crate) thread: AtomicI32,
    pub(crate) scheduled: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) reset: AtomicU64,
    pub(crate) fired: AtomicU64,
    /// Short timeouts whose call has returned, and those that have fired.
    pub(crate) short: AtomicU64,
    pub(crate) short_fired: AtomicU64,
}

impl Producer {
    pub(crate) fn new(number: usize) -> Producer {
        let zeros = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        Producer {
            number,
            ledger: zeros(LEDGER),
            last_fired: zeros(DEADLINES),
            doing: AtomicU8::new(BETWEEN),
            thread: AtomicI32::new(0),
            scheduled: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
            reset: AtomicU64::new(0),
            fired: AtomicU64::new(0),
            short: AtomicU64::new(0),
            short_fired: AtomicU64::new(0),
        }
    }

    fn entry(&self, number: u64) -> &AtomicU64 {
        &self.ledger[number as usize % LEDGER]
    }

    /// Writes a new timeout into the ledger; `false` if its place is not free, for the one before is lost.
    pub(crate) fn begin(&self, world: &World, number: u64) -> bool {
        let entry = self.entry(number);
        let since = Instant::now();
        while entry.load(Relaxed) & 3 == PENDING {
            if since.elapsed() > PATIENCE {
                let lost = entry.load(Relaxed) >> 2;
                world.fail(format!("{self}: timeout {lost} was lost"));
                return false;
            }
            thread::sleep(Duration::from_micros(100));
        }
        entry.store(number << 2 | PENDING, Relaxed);
        true
    }

    /// Notes the end of a timeout, which is its only one.
    pub(crate) fn end(&self, world: &World, number: u64, end: u64) {
        let before = self.entry(number).swap(number << 2 | end, Relaxed);
        if before != number << 2 | PENDING {
            world.fail(format!(
                "{self}: timeout {number} has {} after it was {} (number {})",
                state_name(end),
                state_name(before),
                before >> 2,
            ));
        }
    }

    /// The task of a timeout.
    pub(crate) fn fire(&self, world: &World, number: u64) {
        self.end(world, number, FIRED);
        self.fired.fetch_add(1, Relaxed);
    }

    /// The task of a short timeout, which is never reset.
    pub(crate) fn fire_short(&self, world: &World, number: u64, deadline: u64) {
        if Instant::now() < world.born + ms(deadline) {
            world.fail(format!("{self}: timeout {number} fired early"));
        }
        let last = self.last_fired[deadline as usize % DEADLINES].swap(number, Relaxed);
        if last >= number {
            world.fail(format!(
                "{self}: timeout {number} fired after {last}, which was scheduled later for the same deadline"
            ));
        }
        self.fire(world, number);
        self.short_fired.fetch_add(1, Relaxed);
    }

    pub(crate) fn during<T>(&self, what: u8, call: impl FnOnce() -> T) -> T {
        self.doing.store(what, Relaxed);
        let result = call();
        self.doing.store(BETWEEN, Relaxed);
        result
    }
}

impl fmt::Display for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "producer {}", self.number)
    }
}
