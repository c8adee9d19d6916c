//! Labels: who carries them, and where they are shown.

mod common;

use std::mem::ManuallyDrop;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use common::poll::{poll_once, poll_with};
use common::{FAR, Kind, Record, logs, ms, on_both_timers};
use hashed_wheel::{ManualClock, Period, TimerHandle};

on_both_timers![
    a_handle_gives_its_label_to_whatever_it_schedules,
    a_future_keeps_its_label_over_resets,
    a_slot_that_is_used_again_has_the_new_label,
    what_a_task_schedules_by_its_own_timer_has_its_label,
    the_log_line_of_a_panic_names_the_label,
    the_log_lines_of_drops_wakers_and_jobs_name_the_label,
];

/// The labels of what is pending, sorted.
fn pending_labels(timer: &TimerHandle) -> Vec<Option<&'static str>> {
    let mut labels = Vec::new();
    timer.for_each_pending(|pending| labels.push(pending.label));
    labels.sort_unstable();
    labels
}

fn a_handle_gives_its_label_to_whatever_it_schedules(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    let (a, b) = (timer.labelled("a"), timer.labelled("b"));
    let plain = timer.new_timeout(|_| {}, FAR).unwrap();
    let once = a.new_timeout(|_| {}, FAR).unwrap();
    let at = a.new_timeout_at(|_| {}, timer.now() + FAR).unwrap();
    let periodic = b
        .new_periodic(|_| {}, FAR, Period::FixedDelay(FAR))
        .unwrap();
    let labels = [&plain, &once, &at, &periodic].map(hashed_wheel::Timeout::label);
    assert_eq!(labels, [None, Some("a"), Some("a"), Some("b")]);

    let mut sleep = pin!(b.clone().sleep(FAR));
    assert!(poll_once(sleep.as_mut()).is_pending());
    let mut limited = pin!(b.handle().with_timeout(std::future::pending::<()>(), FAR));
    assert!(poll_once(limited.as_mut()).is_pending());
    let shown = pending_labels(&timer);
    assert_eq!(
        shown,
        [None, Some("a"), Some("a"), Some("b"), Some("b"), Some("b")]
    );

    once.cancel();
    assert_eq!(once.label(), Some("a"), "for ever");
    for left in timer.stop().unwrap() {
        assert!([None, Some("a"), Some("b")].contains(&left.label()));
    }
    assert_eq!(periodic.label(), Some("b"));
}

fn a_future_keeps_its_label_over_resets(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let mut sleep = pin!(timer.labelled("naps").sleep(ms(20)));
    sleep.reset(ms(30));
    assert!(poll_once(sleep.as_mut()).is_pending());
    clock.advance(ms(30));
    assert!(poll_once(sleep.as_mut()).is_ready());
    sleep.reset(ms(30));
    assert!(poll_once(sleep.as_mut()).is_pending());
    assert_eq!(pending_labels(&timer), [Some("naps")]);

    let mut interval = timer.labelled("beats").interval(ms(10));
    for _ in 0..3 {
        assert!(poll_once(pin!(interval.tick())).is_pending());
        assert!(pending_labels(&timer).contains(&Some("beats")));
        clock.advance(ms(10));
        assert!(poll_once(pin!(interval.tick())).is_ready());
    }
}

fn a_slot_that_is_used_again_has_the_new_label(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    let (a, b) = (timer.labelled("a"), timer.labelled("b"));
    for _ in 0..100 {
        for (handle, label) in [(&a, Some("a")), (&*timer, None), (&b, Some("b"))] {
            let timeout = handle.new_timeout(|_| {}, FAR).unwrap();
            assert_eq!(timeout.label(), label);
            timeout.cancel();
        }
    }
}

fn what_a_task_schedules_by_its_own_timer_has_its_label(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let seen = Record::new();
    let note = seen.clone();
    let try_again = move |timeout: &hashed_wheel::Timeout| {
        let again = timeout.timer().new_timeout(|_| {}, FAR).unwrap();
        note.push((timeout.label(), again.label()));
    };
    let handle = timer.labelled("retries");
    handle.new_timeout(try_again, ms(10)).unwrap();
    clock.advance(ms(10));
    assert_eq!(seen.take(), [(Some("retries"), Some("retries"))]);
}

fn the_log_line_of_a_panic_names_the_label(kind: Kind) {
    logs::keep();
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let uploads = timer.labelled("uploads");
    let message = format!("no such bucket, {kind:?}");
    let (once, again) = (message.clone(), message.clone());
    uploads
        .new_timeout(move |_| panic!("{once}"), ms(10))
        .unwrap();
    let task = move |_: &hashed_wheel::Timeout| panic!("{again}");
    let period = Period::FixedRate(FAR);
    uploads.new_periodic(task, ms(20), period).unwrap();
    let plain = message.clone();
    timer
        .new_timeout(move |_| panic!("{plain}"), ms(30))
        .unwrap();
    common::shrink::quiet(|| clock.advance(ms(30)));
    let texts: Vec<_> = logs::containing(&message)
        .into_iter()
        .map(|l| l.text)
        .collect();
    assert_eq!(
        texts,
        [
            format!("a task labelled \"uploads\" panicked: {message}"),
            format!("a periodic task labelled \"uploads\" panicked: {message}"),
            format!("a task panicked: {message}"),
        ]
    );
}

fn the_log_lines_of_drops_wakers_and_jobs_name_the_label(kind: Kind) {
    struct Bomb(&'static str);
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("{}", self.0);
        }
    }
    impl Wake for Bomb {
        fn wake(self: Arc<Self>) {
            panic!("a waker's own message");
        }
    }
    logs::keep();
    let label = ["hashed bombs", "hierarchical bombs"][usize::from(kind == Kind::Hierarchical)];
    let clock = ManualClock::new();
    let timer = kind.builder().clock(&clock).executor(drop).build();
    let bombs = timer.labelled(label);
    let bomb = Bomb("by the executor");
    bombs.new_timeout(move |_| drop(bomb), ms(10)).unwrap();
    common::shrink::quiet(|| clock.advance(ms(10)));
    let bomb = Bomb("after stop");
    bombs.new_timeout(move |_| drop(bomb), FAR).unwrap();
    // Kept: its own drop would panic, too.
    let waker = ManuallyDrop::new(Waker::from(Arc::new(Bomb("never dropped"))));
    let mut sleep = pin!(bombs.sleep(FAR));
    assert!(poll_with(sleep.as_mut(), &waker).is_pending());
    common::shrink::quiet(|| drop(timer.stop().unwrap()));
    let texts: Vec<_> = logs::containing(label)
        .into_iter()
        .map(|l| l.text.replace(label, "L"))
        .collect();
    let name = match kind {
        Kind::Hashed => "hashed-wheel-timer",
        Kind::Hierarchical => "hierarchical-wheel-timer",
    };
    assert_eq!(
        texts,
        [
            format!("the executor of {name} dropped a job labelled \"L\" without running it"),
            String::from("the drop of a task labelled \"L\" panicked: by the executor"),
            String::from("a waker labelled \"L\" panicked: a waker's own message"),
            String::from("the drop of a stopped timer's task labelled \"L\" panicked: after stop"),
        ]
    );
}

#[test]
fn a_hundred_thousand_labels_are_sixty_five_thousand() {
    let clock = ManualClock::new();
    let timer = Kind::Hashed.on(&clock);
    let names: Vec<&'static str> = (0..100_000)
        .map(|n| &*Box::leak(n.to_string().into_boxed_str()))
        .collect();
    let begun = std::time::Instant::now();
    let handles: Vec<_> = names.iter().map(|name| timer.labelled(name)).collect();
    println!("{:?}", begun.elapsed());
    let label_of = |handle: &TimerHandle| {
        let timeout = handle.new_timeout(|_| {}, Duration::from_secs(1)).unwrap();
        timeout.label()
    };
    assert_eq!(label_of(&handles[0]), Some("0"));
    assert_eq!(label_of(&handles[64_999]), Some("64999"));
    assert_eq!(label_of(&handles[65_000]), None);
    assert_eq!(label_of(&handles[99_999]), None);
    // The text counts, not its address, and those that are known are still found.
    let again: &'static str = Box::leak(String::from("64999").into_boxed_str());
    assert_eq!(label_of(&timer.labelled(again)), Some("64999"));
    // Each timer has labels of its own.
    let other = Kind::Hashed.on(&clock);
    assert_eq!(label_of(&other.labelled("65000")), Some("65000"));
    assert_eq!(label_of(&other.labelled("")), Some(""));
}
