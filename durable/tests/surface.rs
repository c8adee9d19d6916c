//! The surface as programs outside use it: names, types and traits.

use std::error::Error as StdError;
use std::fmt::Debug;
use std::path::Path;
use std::time::{Duration, SystemTime};

use hashed_wheel::{Lateness, ManualClock};
use hashed_wheel_durable::{
    DeadJob, DurableTimer, DurableTimerBuilder, Error, Job, NewJob, Outcome, PendingJob, Scheduled,
    Stats,
};

fn shared<T: Send + Sync + Debug + 'static>() {}
fn value<T: Copy + Eq + Debug>() {}
fn error<T: StdError + Send + Sync + 'static>() {}

#[test]
fn types_have_their_traits() {
    shared::<DurableTimer>();
    shared::<Job>();
    shared::<Stats>();
    shared::<DeadJob>();
    shared::<PendingJob>();
    shared::<Outcome>();
    value::<Scheduled>();
    error::<Error>();
}

#[test]
fn builders_take_what_the_contract_says() {
    let name = String::from("b");
    let builder: DurableTimerBuilder = DurableTimer::builder()
        .on("a", |_: &Job| Outcome::Done)
        .on(name, |job| Outcome::Dead(format!("{:?}", job.timer())))
        .threads(4)
        .max_attempts(25)
        .backoff(Duration::from_secs(1), Duration::from_secs(3600))
        .horizon(Duration::from_secs(30))
        .lease(Duration::from_secs(30));
    let timer: Result<DurableTimer, Error> = builder.open_in_memory(&ManualClock::new());
    assert!(timer.is_ok());
    for refused in [
        DurableTimer::builder().open("/"),
        DurableTimer::builder().open(Path::new("/")),
        DurableTimer::builder().open(String::from("/")),
    ] {
        assert!(matches!(refused, Err(Error::Store(_))));
    }
}

#[test]
fn methods_take_and_return_what_the_contract_says() -> Result<(), Error> {
    let clock = ManualClock::new();
    let timer = DurableTimer::builder()
        .on("a", |job| {
            let _: (&str, Option<&str>, &[u8]) = (job.kind(), job.key(), job.payload());
            let _: (SystemTime, u32, u64) = (job.due(), job.attempt(), job.token());
            let _: &DurableTimer = job.timer();
            match job.payload() {
                b"retry" => Outcome::Retry,
                b"later" => Outcome::RetryAfter(Duration::from_secs(1)),
                b"dead" => Outcome::Dead("why".to_owned()),
                _ => Outcome::Done,
            }
        })
        .max_attempts(1)
        .open_in_memory(&clock)?;
    let hour = Duration::from_secs(3600);
    let new: NewJob<'_> = timer.job("a").key("k").payload(b"42").replace();
    let _: Scheduled = new.after(hour)?;
    let _: Scheduled = timer
        .job(String::from("a"))
        .key(String::from("l"))
        .payload(vec![1])
        .at(SystemTime::now())?;
    let _: bool = timer.reschedule("k", hour)?;
    let _: bool = timer.reschedule_at("k", SystemTime::now())?;
    let _: bool = timer.cancel("k")?;
    timer.job("a").payload("dead").after(Duration::ZERO)?;
    clock.advance(Duration::from_secs(1));
    let _: u64 = timer.pending()?;
    let _: Vec<PendingJob> = timer.pending_jobs(10)?;
    let dead: Vec<DeadJob> = timer.dead(10)?;
    let _: bool = timer.revive(dead[0].id)?;
    let _: bool = timer.discard(dead[0].id)?;
    let stats: Stats = timer.stats();
    let _: [u64; 7] = [
        stats.scheduled,
        stats.fired,
        stats.retried,
        stats.dead,
        stats.cancelled,
        stats.in_memory,
        stats.commits,
    ];
    let _: Lateness = stats.lateness;
    let _: () = timer.stop()?;
    Ok(())
}

#[test]
fn errors_can_be_told_apart() {
    let name = |error: &Error| match error {
        Error::Config { .. } => "config",
        Error::Key { .. } => "key",
        Error::FromHandler => "from handler",
        Error::InUse { .. } => "in use",
        Error::PayloadTooLarge { len: _, max: _ } => "payload",
        Error::Stopped => "stopped",
        Error::Store(_) => "store",
        Error::Poisoned { .. } => "poisoned",
        _ => "another",
    };
    assert_eq!(name(&Error::Stopped), "stopped");
}
