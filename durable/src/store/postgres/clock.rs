//! The database's clock, as this process knows it.

use parking_lot::Mutex;

use crate::time::{Moment, WallClock};

/// The server's last reading, counted on from its receipt by a clock that goes on while the machine is suspended.
///
/// The reading is older than its receipt, by the way that it came, so this is never ahead of the server's clock: nothing is early. It is behind by that way, a
/// fraction of a millisecond on a local network. A step of the server's clock shows at the next query.
#[derive(Debug)]
pub(crate) struct ServerClock(Mutex<Reading>);

#[derive(Debug, Clone, Copy)]
struct Reading {
    /// Microseconds since 1970.
    micros: i64,
    received: Moment,
}

impl ServerClock {
    /// Made before the first reading: 1970.
    pub(super) fn new() -> ServerClock {
        ServerClock(Mutex::new(Reading {
            micros: 0,
            received: Moment::now(),
        }))
    }

    /// A reading has just been received.
    pub(super) fn set(&self, micros: i64) {
        *self.0.lock() = Reading {
            micros,
            received: Moment::now(),
        };
    }
}

impl WallClock for ServerClock {
    fn nanos(&self) -> i128 {
        let reading = *self.0.lock();
        i128::from(reading.micros) * 1000 + Moment::now().since(reading.received).as_nanos() as i128
    }
}
