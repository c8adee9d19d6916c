//! The timer of the whole program.

mod common;

use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::poll::block_on;
use common::{FAR, ms, recv};
use hashed_wheel::{
    StopError, TimeoutError, TimerHandle, TimerState, global, interval, sleep, sleep_until,
    timeout, timeout_at,
};

#[test]
fn it_runs_tasks() {
    let (sender, receiver) = mpsc::channel();
    let begun = Instant::now();
    let task = move |_: &_| sender.send(Instant::now()).unwrap();
    global().new_timeout(task, ms(5)).unwrap();
    assert!(recv(&receiver) - begun >= ms(5));
    assert!(std::ptr::eq(global(), global()));
    assert!(format!("{:?}", global()).contains("1ms"), "its tick");
}

#[test]
fn nobody_stops_it() {
    let timeout = global().new_timeout(|_| {}, FAR).unwrap();
    let handles: [TimerHandle; 4] = [
        global().clone(),
        global().handle(),
        global().labelled("mine"),
        timeout.timer(),
    ];
    for handle in handles {
        assert_eq!(handle.stop().unwrap_err(), StopError::Global);
        assert_eq!(handle.cancel_all(), 0);
        drop(handle);
    }
    assert_eq!(global().state(), TimerState::Started);
    let (sender, receiver) = mpsc::channel();
    let from_a_task = move |timeout: &hashed_wheel::Timeout| {
        sender.send(timeout.timer().stop().unwrap_err()).unwrap();
    };
    global().new_timeout(from_a_task, ms(1)).unwrap();
    assert_eq!(recv(&receiver), StopError::Global);
    assert!(timeout.cancel());
}

#[test]
fn the_free_functions_are_futures_on_it() {
    let begun = Instant::now();
    block_on(async {
        sleep(ms(2)).await?;
        sleep_until(Instant::now() + ms(2)).await?;
        let mut ticks = interval(ms(2));
        ticks.tick().await?;
        ticks.tick().await
    })
    .unwrap();
    assert!(begun.elapsed() >= ms(8));

    let never = std::future::pending::<()>;
    let late = block_on(timeout(ms(2), never()));
    assert!(matches!(late, Err(TimeoutError::Elapsed)));
    let late = block_on(timeout_at(Instant::now() + ms(2), never()));
    assert!(matches!(late, Err(TimeoutError::Elapsed)));
    assert_eq!(block_on(timeout(FAR, async { 42 })).unwrap(), 42);
    let past = Instant::now().checked_sub(Duration::from_secs(1));
    assert_eq!(
        block_on(timeout_at(past.unwrap(), async { 42 })).unwrap(),
        42
    );
    assert_eq!(sleep(ms(1)).timer().state(), global().state());
}

#[test]
fn its_error_has_a_text() {
    let text = "stop() was called on the global timer, which belongs to the whole program and is never stopped";
    assert_eq!(StopError::Global.to_string(), text);
}
