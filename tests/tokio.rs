//! Tasks on a tokio runtime, and what a task is told that has none.
#![cfg(feature = "tokio")]

mod common;

use std::sync::mpsc;
use std::thread;

use common::shrink::quiet;
use common::{Kind, eventually, logs, ms, on_both_timers, recv};
use hashed_wheel::{ManualClock, Timeout, tokio_executor};
use tokio::runtime::{Builder, Handle};

on_both_timers![
    tasks_run_on_the_runtime_and_may_spawn,
    tasks_of_a_runtime_that_is_gone_are_counted,
    a_task_on_the_timer_thread_is_told_that_there_is_no_runtime,
    a_panic_on_the_runtime_is_contained,
];

fn tasks_run_on_the_runtime_and_may_spawn(kind: Kind) {
    let runtime = Builder::new_current_thread().build().unwrap();
    let executor = tokio_executor(runtime.handle().clone());
    let timer = kind.builder().tick(ms(1)).executor(executor).build();
    let (sender, receiver) = mpsc::channel();
    let runtimes_thread = thread::current().id();
    let task = move |timeout: &Timeout| {
        assert!(timeout.is_expired());
        let id = Handle::current().id();
        tokio::spawn(async move { sender.send((id, thread::current().id())) });
    };
    timer.new_timeout(task, ms(2)).unwrap();
    let id = runtime.handle().id();
    runtime.block_on(async {
        let ran = loop {
            match receiver.try_recv() {
                Ok(ran) => break ran,
                Err(_) => timer.sleep(ms(1)).await.unwrap(),
            }
        };
        assert_eq!(ran, (id, runtimes_thread));
    });
    timer.stop().unwrap();
}

fn tasks_of_a_runtime_that_is_gone_are_counted(kind: Kind) {
    let clock = ManualClock::new();
    let runtime = Builder::new_current_thread().build().unwrap();
    let executor = tokio_executor(runtime.handle().clone());
    let timer = kind.builder().clock(&clock).executor(executor).build();
    timer.new_timeout(|_| unreachable!(), ms(10)).unwrap();
    drop(runtime);
    clock.advance(ms(10));
    assert_eq!((timer.stats().expired, timer.stats().dropped_jobs), (1, 1));
}

fn a_task_on_the_timer_thread_is_told_that_there_is_no_runtime(kind: Kind) {
    logs::keep();
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let label = match kind {
        Kind::Hashed => "hashed uploads",
        Kind::Hierarchical => "hierarchical uploads",
    };
    let spawns = |_: &Timeout| drop(tokio::spawn(async {}));
    timer.labelled(label).new_timeout(spawns, ms(10)).unwrap();
    quiet(|| clock.advance(ms(10)));
    let lines = logs::containing(label);
    assert_eq!(lines.len(), 1);
    let text = &lines[0].text;
    assert!(text.contains("there is no reactor running"), "{text}");
    assert!(
        text.contains("made by tokio_executor (feature `tokio`)"),
        "{text}"
    );
    assert_eq!(timer.stats().panicked, 1);
}

fn a_panic_on_the_runtime_is_contained(kind: Kind) {
    let (sender, receiver) = mpsc::channel();
    let runtime = Builder::new_current_thread().build().unwrap();
    let executor = tokio_executor(runtime.handle().clone());
    let timer = kind.builder().tick(ms(1)).executor(executor).build();
    let panics = |_: &Timeout| quiet(|| panic!("on the runtime"));
    timer.new_timeout(panics, ms(1)).unwrap();
    timer
        .new_timeout(move |_| sender.send(()).unwrap(), ms(2))
        .unwrap();
    eventually("both were handed over", || timer.pending_timeouts() == 0);
    runtime.block_on(async { timer.sleep(ms(1)).await.unwrap() });
    recv(&receiver);
    assert_eq!((timer.stats().panicked, timer.stats().dropped_jobs), (1, 0));
}
