//! The sweeps: one thing varies, the rest stays. On a manual clock, with a tick of 1 ms.

use super::{Extent, Plan};
use crate::case::Work;
use crate::contestant::{Contestant, Sizes};
use crate::group::{Axis, Figure, Group, Part};
use crate::load::CPU_NS;
use crate::load::burst::Burst;
use crate::load::steady::Steady;
use crate::words::count;

const PER_TIMEOUT: &[Figure] = &[Figure {
    name: CPU_NS,
    label: "CPU time per timeout, ns",
}];

const SLOTS: f64 = Sizes::DEFAULT.slots as f64;

pub(super) fn add_to(plan: &mut Plan, extent: Extent) {
    delay(plan, extent);
    pending(plan, extent);
    share(plan, extent);
    burst(plan, extent);
    size(plan, extent);
}

fn runs(extent: Extent) -> usize {
    extent.pick(3, 5)
}

fn group(plan: &mut Plan, name: &'static str, title: &'static str, axis: Axis, about: String) {
    plan.groups.push(Group {
        name,
        title,
        about,
        part: Part::Swept(axis),
        figures: PER_TIMEOUT,
    });
}

/// Delays from a hundredth of a turn to ten thousand turns.
fn delay(plan: &mut Plan, extent: Extent) {
    let pending = extent.pick(10_000, 100_000);
    let forms = [
        ("delay-fired", "Delay, all fire", 0.0, "all of which fire"),
        (
            "delay-cancelled",
            "Delay, all are cancelled",
            1.0,
            "all of which are cancelled, each at a random moment of its life",
        ),
    ];
    for (name, title, cancelled, how) in forms {
        let about = format!(
            "{} timeouts pending at any time, {how}. The mean delay varies.",
            count(pending as f64)
        );
        group(plan, name, title, Axis::Turns, about);
        for half in extent.pick((-4..=6).step_by(2), (-4..=8).step_by(1)) {
            let turns = 10_f64.powf(f64::from(half) / 2.0);
            let delay = turns * SLOTS;
            let work = Work::Steady(Steady {
                pending,
                delay,
                cancelled,
                events: 2 * pending,
                sizes: Sizes::DEFAULT,
            });
            plan.add(name, turns, label(turns), runs(extent), work);
        }
    }
}

/// From a hundred timeouts to ten million.
fn pending(plan: &mut Plan, extent: Extent) {
    let forms = [
        (
            "pending-fired",
            "Number pending, all fire",
            0.0,
            "All timeouts fire.",
        ),
        (
            "pending-cancelled",
            "Number pending, all are cancelled",
            1.0,
            "All timeouts are cancelled, each at a random moment of its life.",
        ),
    ];
    for (name, title, cancelled, how) in forms {
        let about = format!(
            "{how} The mean delay is one revolution of the hashed wheel: 512 ticks. The number pending varies."
        );
        group(plan, name, title, Axis::Pending, about);
        for exponent in 2..=extent.pick(5, 7) {
            let pending = 10_usize.pow(exponent);
            let work = Work::Steady(Steady {
                pending,
                delay: SLOTS,
                cancelled,
                events: pending.clamp(extent.pick(50_000, 200_000), 4_000_000),
                sizes: Sizes::DEFAULT,
            });
            let runs = if exponent == 7 { 3 } else { runs(extent) };
            plan.add(name, pending as f64, pending.to_string(), runs, work);
            if let Some(case) = plan.cases.last_mut() {
                case.contestants.push(Contestant::Array);
            }
        }
    }
}

/// From none cancelled to all but one in a thousand.
fn share(plan: &mut Plan, extent: Extent) {
    let pending = extent.pick(20_000, 200_000);
    let about = format!(
        "{} timeouts pending at any time, with a mean delay of ten revolutions of the hashed wheel. The share varies that is cancelled before it is due.",
        count(pending as f64)
    );
    group(
        plan,
        "share",
        "Share cancelled before due",
        Axis::OneFires,
        about,
    );
    let quick: &[f64] = &[1.0, 2.0, 10.0, 100.0, 1000.0];
    let full: &[f64] = &[1.0, 1.25, 2.0, 4.0, 10.0, 30.0, 100.0, 300.0, 1000.0];
    for &one_in in extent.pick(quick, full) {
        let work = Work::Steady(Steady {
            pending,
            delay: 10.0 * SLOTS,
            cancelled: 1.0 - 1.0 / one_in,
            events: 2 * pending,
            sizes: Sizes::DEFAULT,
        });
        plan.add("share", one_in, label(one_in), extent.pick(2, 5), work);
    }
}

/// From one at a boundary to all of them.
fn burst(plan: &mut Plan, extent: Extent) {
    let (bits, slots) = extent.pick((14, 256), (18, 4096));
    let timeouts = 1_usize << bits;
    let turns = timeouts / slots;
    let about = format!(
        "{} timeouts are scheduled at once and fall due over {turns} revolutions of a hashed wheel of {slots} slots. The number varies that share a boundary.",
        count(timeouts as f64)
    );
    group(plan, "burst", "Due at one boundary", Axis::AtOnce, about);
    for bit in (0..=bits).step_by(extent.pick(4, 2)) {
        let work = Work::Burst(Burst {
            timeouts,
            at_once: 1 << bit,
            span: timeouts as u64,
            sizes: Sizes::slots(slots),
        });
        let at_once = 1_usize << bit;
        plan.add(
            "burst",
            at_once as f64,
            at_once.to_string(),
            extent.pick(2, 5),
            work,
        );
    }
}

/// Wheels from a few slots to a hundred thousand, and levels alike.
fn size(plan: &mut Plan, extent: Extent) {
    let pending = extent.pick(10_000, 100_000);
    let about = format!(
        "{} timeouts pending at any time, all of which fire, with a mean delay of 8192 ticks. The size of the wheels varies.",
        count(pending as f64)
    );
    group(plan, "size", "Size of the wheel", Axis::Size, about);
    for bit in (3..=17).step_by(extent.pick(3, 2)) {
        let size = 1_usize << bit;
        let work = Work::Steady(Steady {
            pending,
            delay: 8192.0,
            cancelled: 0.0,
            events: 2 * pending,
            sizes: Sizes {
                slots: size,
                wheel_size: size,
            },
        });
        let runs = extent.pick(2, 5);
        plan.add("size", size as f64, size.to_string(), runs, work);
    }
}

/// A plain number that is a name.
fn label(x: f64) -> String {
    let text = format!("{x:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
