use super::*;
use crate::shared::retired::tests::assert_gone;
use crate::{HashedWheelTimer, ManualClock};
use std::sync::Weak;

const FAR: Duration = Duration::from_secs(3600);

fn timer() -> (HashedWheelTimer, Weak<Shared>) {
    let timer = HashedWheelTimer::builder()
        .clock(&ManualClock::new())
        .max_pending_timeouts(100)
        .build()
        .unwrap();
    let memory = Arc::downgrade(timer.handle().shared());
    (timer, memory)
}

#[test]
fn a_timeout_whose_timer_stops_meanwhile_leaves_nothing_behind() {
    let (timer, memory) = timer();
    timer.new_timeout(|_| {}, FAR).unwrap();
    let shared = memory.upgrade().unwrap();
    let store = |task: fn(&Timeout)| {
        assert_eq!(timer.stop().unwrap().len(), 1);
        StoredTask::once(task)
    };
    let refused = shared.schedule(|_| (), Kind::Once, Label::NONE, store, When::after(FAR));
    assert!(matches!(
        refused,
        Err((Refused::Stored(_), RejectReason::Stopped))
    ));
    assert_eq!((timer.stats().pending, timer.stats().rejected), (0, 1));
    drop((refused, shared, timer));
    assert_gone(&memory);
}

/// A processor that runs ahead reads the counter before a message has arrived that tells the time.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
fn a_reading_of_the_counter_that_is_behind_makes_no_timeout_early() {
    for (tick, behind) in [
        (1_000, 110),
        (1_000, 50),
        (2_000, 110),
        (8_000, 230),
        (100_000, 900),
    ] {
        let (tick, behind) = (Duration::from_micros(tick), behind * 1_000);
        let timer = HashedWheelTimer::new(tick, 512);
        timer.start().unwrap();
        let shared = Arc::clone(timer.handle().shared());
        if shared.margin == 0 {
            return; // this machine's clock is not made of the counter
        }
        let checked = std::thread::spawn(move || {
            crate::time::set_back(behind);
            // Some milliseconds, until the counter's rate is known.
            while shared.settings.clock.glance().is_none() {
                shared.settings.clock.ordered();
            }
            for part in 0..20_000_u32 {
                let delay = Duration::from_secs(1) + tick * part / 20_000;
                let told = shared.settings.clock.now() - shared.started_at();
                let (due, _) = shared.due(When::after(delay));
                let boundary = shared.settings.scale.time_of(due).unwrap();
                assert!(
                    told + nanos(delay) <= boundary,
                    "{delay:?} after {told} ns: {due:?}"
                );
            }
        });
        checked.join().unwrap();
    }
}

#[test]
fn a_short_tick_and_a_manual_clock_are_never_in_doubt() {
    let fine = HashedWheelTimer::builder().fine_ticks(true);
    let fine = fine.tick_duration(Duration::from_micros(999)).build();
    let handle = fine.unwrap().handle();
    assert_eq!(handle.shared().margin, 0);
    assert_eq!(handle.shared().clock().glance(), None, "every time is read");
    let (timer, _) = timer();
    assert_eq!(timer.handle().shared().margin, 0);
}

/// It has marked its slot as queued. The timeouts of the thread that takes over its shard fire, and `stop` returns its own.
#[test]
fn a_thread_that_ends_between_mark_and_push_holds_nobody_else_up() {
    for lane in [Lane::Soon, Lane::Late] {
        let clock = ManualClock::new();
        let timer = HashedWheelTimer::builder().clock(&clock).build().unwrap();
        timer.start().unwrap();
        let shared = Arc::clone(timer.handle().shared());
        let arm = || {
            shared.with_local(|local| {
                let vacant = shared.take_slot(local);
                shared.counters_of(local).scheduled.add(1);
                let arming = Arming {
                    kind: Kind::Once,
                    label: Label::NONE,
                    stamp: local.next_stamp(),
                    due: Tick(1),
                    lane,
                    early: 0,
                };
                let task = StoredTask::once(|_: &Timeout| {});
                let place = shared.slot(vacant.slot()).arm(vacant, task, arming);
                assert_eq!(place, Place::Nowhere, "and it is not pushed");
            });
        };
        let schedule = || {
            for delay in [Duration::from_millis(50), FAR] {
                timer.new_timeout(|_| {}, delay).unwrap();
            }
        };
        std::thread::scope(|scope| scope.spawn(arm).join().unwrap());
        std::thread::scope(|scope| scope.spawn(schedule).join().unwrap());
        clock.advance(2 * FAR);
        assert_eq!((timer.stats().expired, timer.stats().pending), (2, 1));
        assert_eq!(timer.stop().unwrap().len(), 1);
    }
}
