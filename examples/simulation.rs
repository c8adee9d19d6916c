//! A day of a shop's traffic in a second, on the manual clock.
//!
//! The timer is the real one, with its real wheel; only the waiting is different: time stands still
//! until `advance` is called, and jumps from one boundary that has work to the next. So a program
//! that lives by its timeouts can be tried over a day, or a century, without a `sleep`, and with
//! the same outcome each time.
//!
//! Visitors come as the hour of day suggests, click, think, click again, and buy or wander off. A
//! session ends half an hour after the last click: one timeout each, pushed out by `reset` on every
//! click and cancelled by a purchase. A backup runs at three in the morning.
//!
//! ```text
//! cargo run --release --example simulation             # 100 000 visitors
//! cargo run --release --example simulation -- --quick  # a tenth of them
//! ```

mod options;

use hashed_wheel::{HashedWheelTimer, ManualClock, Period, RejectReason, Timeout, TimerHandle};
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: simulation [--quick]

A day of a shop on the manual clock: what takes 24 hours is over in about a second, and comes out the
same every time.

  --quick    with a tenth of the visitors";

const HOUR: Duration = Duration::from_secs(3600);
/// Of 1 000 visitors, those that come in each hour of the day.
const CURVE: [u32; 24] = [
    16, 9, 6, 4, 4, 7, 15, 28, 42, 52, 56, 60, 68, 62, 54, 52, 54, 58, 66, 78, 84, 64, 40, 21,
];
const SESSION: Duration = Duration::from_secs(30 * 60);
/// Seconds between two clicks, on average.
const THINKING: f64 = 90.0;

fn main() -> Result<(), Box<dyn Error>> {
    let visitors = if options::quick(USAGE) {
        10_000
    } else {
        100_000
    };
    let clock = ManualClock::new();
    let timer = HashedWheelTimer::builder()
        .tick_duration(Duration::from_millis(100))
        .ticks_per_wheel(512)
        .clock(&clock)
        .build()?;
    let shop = Arc::new(Shop {
        clock: clock.clone(),
        visitors,
        day: Mutex::new(Day::default()),
    });

    arrival(&shop, &timer.handle())?;
    let backup = Arc::clone(&shop);
    let save = move |_: &Timeout| backup.day().backups += 1;
    timer.new_periodic(save, HOUR * 3, Period::FixedRate(HOUR * 24))?;

    println!(
        "a day of a shop on a manual clock: a session ends half an hour after its last click\n"
    );
    println!("hour   visitors   clicks  purchases  sessions ended   open");
    let started = Instant::now();
    for hour in 0..24 {
        let before = shop.day().clone();
        clock.advance(HOUR);
        let day = shop.day();
        println!(
            "{hour:02}:00 {:>9} {:>8} {:>10} {:>15} {:>6}  {}",
            day.visitors - before.visitors,
            day.clicks - before.clicks,
            day.purchases - before.purchases,
            day.ended - before.ended,
            day.open(),
            "#".repeat((day.visitors - before.visitors) as usize * 500 / visitors as usize),
        );
    }
    let took = started.elapsed();

    let unprocessed = timer.stop()?;
    let stats = timer.stats();
    let day = shop.day();
    println!(
        "\n{} visitors, {} clicks, {} purchases, {} came back too late, {} backup; checksum {:016x}",
        day.visitors, day.clicks, day.purchases, day.too_late, day.backups, day.checksum
    );
    println!(
        "{} timeouts fired, {} were reset, {} cancelled, {} left at midnight ({} sessions open)",
        stats.expired,
        day.resets,
        stats.cancelled,
        unprocessed.len(),
        day.open()
    );
    println!(
        "{} of {} ticks had work; no task ran more than {:?} after its deadline",
        stats.wakeups,
        clock.now().as_millis() / 100,
        stats.max_lateness
    );
    println!(
        "24 hours took {:.3} s: {} times faster than life",
        took.as_secs_f64(),
        clock.now().as_nanos() / took.as_nanos().max(1)
    );
    Ok(())
}

/// A visitor comes in, and the next one is expected: counted from the planned moment of this one,
/// not from the boundary it fired at, so that the rounding does not add up.
fn arrival(shop: &Arc<Shop>, timer: &TimerHandle) -> Result<(), RejectReason> {
    let gap = {
        let mut day = shop.day();
        let hour = day.next_arrival.as_secs() / 3600 % 24;
        let per_hour = f64::from(CURVE[hour as usize] * shop.visitors) / 1000.0;
        let gap = day.chance.exponential(3600.0 / per_hour);
        day.next_arrival += gap;
        day.next_arrival.saturating_sub(shop.clock.now())
    };
    let shop = Arc::clone(shop);
    let visit = move |timeout: &Timeout| {
        let timer = timeout.timer();
        shop.day().visitors += 1;
        let visit = open_session(&shop, &timer)
            .and_then(|session| click(&shop, &timer, session))
            .and_then(|()| arrival(&shop, &timer));
        report(visit);
    };
    timer.new_timeout(visit, gap)?;
    Ok(())
}

/// The timeout that ends a session is the session.
fn open_session(shop: &Arc<Shop>, timer: &TimerHandle) -> Result<Arc<Timeout>, RejectReason> {
    let shop = Arc::clone(shop);
    let ended = move |_: &Timeout| {
        shop.day().ended += 1;
        shop.note(3);
    };
    Ok(Arc::new(timer.new_timeout(ended, SESSION)?))
}

/// One click; the visitor then buys, wanders off, or thinks until the next one.
fn click(shop: &Arc<Shop>, timer: &TimerHandle, session: Arc<Timeout>) -> Result<(), RejectReason> {
    shop.day().clicks += 1;
    shop.note(1);
    if !session.reset(SESSION) {
        shop.day().too_late += 1;
        return Ok(());
    }
    shop.day().resets += 1;
    let luck = shop.day().chance.below(100);
    if luck < 4 {
        if session.cancel() {
            shop.day().purchases += 1;
            shop.note(2);
        }
        return Ok(());
    }
    if luck < 25 {
        return Ok(());
    }
    // One in a hundred is called away from the screen.
    let thinking = if luck == 99 {
        THINKING * 15.0
    } else {
        THINKING
    };
    let pause = shop.day().chance.exponential(thinking);
    let shop = Arc::clone(shop);
    timer.new_timeout(move |it| report(click(&shop, &it.timer(), session)), pause)?;
    Ok(())
}

fn report(outcome: Result<(), RejectReason>) {
    if let Err(reason) = outcome {
        eprintln!("the shop is closed: {reason}");
    }
}

struct Shop {
    clock: ManualClock,
    visitors: u32,
    day: Mutex<Day>,
}

impl Shop {
    fn day(&self) -> MutexGuard<'_, Day> {
        self.day.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event and its moment to the checksum.
    fn note(&self, kind: u64) {
        let moment = self.clock.now().as_nanos() as u64;
        let mut day = self.day();
        day.checksum = (day.checksum ^ moment ^ kind)
            .wrapping_mul(0x0100_0000_01B3)
            .rotate_left(17);
    }
}

#[derive(Clone, Default)]
struct Day {
    visitors: u32,
    clicks: u32,
    purchases: u32,
    ended: u32,
    resets: u32,
    too_late: u32,
    backups: u32,
    next_arrival: Duration,
    checksum: u64,
    chance: Chance,
}

impl Day {
    fn open(&self) -> u32 {
        self.visitors - self.purchases - self.ended
    }
}

/// Chance that is the same in every run (`SplitMix64`).
#[derive(Clone, Default)]
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A waiting time with this mean, in seconds.
    fn exponential(&mut self, mean: f64) -> Duration {
        let share = (f64::from((self.next() >> 32) as u32) + 1.0) / (f64::from(u32::MAX) + 1.0);
        Duration::from_secs_f64(mean * -share.ln().min(0.0))
    }
}
