//! Recurring jobs, with several processes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use super::*;
use crate::{JobFilter, Outcome};

/// What ran, by key and due time in milliseconds: how often.
type Runs = Arc<Mutex<BTreeMap<(String, u64), usize>>>;

fn timer(table: &Table, runs: &Runs) -> DurableTimer {
    let runs = Arc::clone(runs);
    table.timer(DurableTimer::builder().on("tick", move |job| {
        let due = job.due().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let key = job.key().expect("a run shows its key").to_owned();
        *runs.lock().unwrap().entry((key, due as u64)).or_default() += 1;
        Outcome::Done
    }))
}

#[test]
fn each_of_its_times_has_one_run_whoever_comes_and_goes() {
    let Some(table) = Table::new() else {
        return;
    };
    let runs = Runs::default();
    let mut timers: Vec<DurableTimer> = (0..4).map(|_| timer(&table, &runs)).collect();
    for timer in &timers {
        timer.job("tick").key("often").every(ms(20)).unwrap();
        let cron = timer.job("tick").key("cron");
        cron.cron("* * * * * *", "Europe/Berlin").unwrap();
    }
    assert_eq!(table.count("state = -1"), 2);
    for _ in 0..4 {
        std::thread::sleep(ms(500));
        timers.remove(0).stop().unwrap();
        timers.push(timer(&table, &runs));
    }
    for key in ["often", "cron"] {
        assert!(timers[0].cancel(key).unwrap());
        assert!(!timers[1].cancel(key).unwrap());
    }
    eventually("the end of all runs", || table.count("true") == 0);
    for timer in timers {
        timer.stop().unwrap();
    }
    let runs = runs.lock().unwrap();
    let twice: Vec<_> = runs.iter().filter(|&(_, &many)| many != 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    for (key, period, least) in [("often", 20, 20), ("cron", 1000, 2)] {
        let dues = runs.keys().filter(|(of, _)| of == key);
        let dues: Vec<u64> = dues.map(|&(_, due)| due).collect();
        assert!(dues.len() >= least, "{key}: {dues:?}");
        let first = dues[0];
        assert!(
            dues.iter().all(|due| (due - first).is_multiple_of(period)),
            "{key}: {dues:?}"
        );
    }
}

#[test]
fn a_transaction_that_holds_it_delays_nobody_else() {
    let Some(table) = Table::new() else {
        return;
    };
    let runs = Runs::default();
    let timer = timer(&table, &runs);
    timer.job("tick").key("held").every(ms(300)).unwrap();
    // Somebody moves it in a transaction, and thinks.
    table.execute("BEGIN; SELECT {}reschedule('held', now() + interval '1 hour')");
    std::thread::sleep(ms(400));
    for number in 0..5 {
        let key = number.to_string();
        timer.job("tick").key(&*key).after(ms(10)).unwrap();
        eventually("a job", || {
            runs.lock().unwrap().keys().any(|(of, _)| *of == key)
        });
    }
    assert!(!runs.lock().unwrap().keys().any(|(key, _)| key == "held"));
    table.execute("ROLLBACK");
    eventually("its run", || {
        runs.lock().unwrap().keys().any(|(key, _)| key == "held")
    });
    // The outcome of its run is stored a moment after its handler has noted it.
    eventually("the outcome", || {
        timer.jobs(JobFilter::new()).unwrap().len() == 1
    });
    table.execute("SELECT {}cancel('held')");
    eventually("its end", || table.count("true") == 0);
    timer.stop().unwrap();
}
