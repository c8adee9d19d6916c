//! A logger that panics. In a file of its own: a process has one logger.

mod common;

use std::time::Duration;

use common::{Folder, eventually};
use hashed_wheel_durable::{DurableTimer, Outcome};

struct Panicking;

impl log::Log for Panicking {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        panic!("cannot write {}", record.args());
    }

    fn flush(&self) {}
}

#[test]
fn a_logger_that_panics_takes_no_thread_with_it() {
    log::set_logger(&Panicking).unwrap();
    log::set_max_level(log::LevelFilter::Error);
    let folder = Folder::new();
    let timer = DurableTimer::builder()
        .threads(1)
        .on("mail", |_| panic!("no network"))
        .on("report", |_| Outcome::Done)
        .max_attempts(1)
        .open(folder.file("timers.redb"))
        .unwrap();
    timer.job("mail").after(Duration::ZERO).unwrap();
    eventually("the end of the job", || timer.dead(1).unwrap().len() == 1);
    assert_eq!(timer.dead(1).unwrap()[0].last_error, "no network");
    timer.job("report").after(Duration::ZERO).unwrap();
    eventually("the next job", || timer.pending().unwrap() == 0);
    timer.stop().unwrap();
}
