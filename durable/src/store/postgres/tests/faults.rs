//! Connections that are ended, a server that stops, a database that refuses to write.

use super::*;
use crate::{Outcome, Scheduled};

const HOUR: Duration = Duration::from_secs(3600);

/// How often each job has run, by its payload.
type Runs = Arc<Mutex<HashMap<Vec<u8>, u32>>>;

fn counting(runs: &Runs) -> DurableTimerBuilder {
    let runs = Arc::clone(runs);
    DurableTimer::builder().on("mail", move |job| {
        std::thread::sleep(ms(1));
        *runs
            .lock()
            .unwrap()
            .entry(job.payload().to_vec())
            .or_default() += 1;
        Outcome::Done
    })
}

/// All jobs ran, and none twice: their process was not killed, and no lease ran out.
fn check(runs: &Runs, many: usize) {
    let runs = runs.lock().unwrap();
    assert_eq!(runs.len(), many);
    assert!(runs.values().all(|&times| times == 1), "{runs:?}");
}

#[test]
fn connections_that_the_server_ends_are_made_again() {
    let Some(table) = Table::new() else {
        return;
    };
    let name = format!("ended_{}", table.prefix);
    let url = format!("{} application_name={name}", table.url);
    let runs = Runs::default();
    let timer = table.timer_at(&url, counting(&runs));
    let sql = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{name}'"
    );
    let mut ended = 0;
    for number in 0..200_u8 {
        if number % 20 == 7 {
            ended += table.admin().query(&sql, &[]).unwrap().len();
        }
        timer
            .job("mail")
            .payload([number])
            .after(ms(u64::from(number % 5) * 10))
            .unwrap();
    }
    eventually("all jobs", || timer.pending().unwrap() == 0);
    check(&runs, 200);
    assert!(ended >= 10, "{ended}");
    timer.stop().unwrap();
}

#[test]
fn a_server_that_crashes_and_comes_back_is_used_again() {
    let Some(server) = Server::start() else {
        return;
    };
    let table = Table::on(&server);
    let runs = Runs::default();
    let timer = table.timer(counting(&runs));
    std::thread::scope(|scope| {
        for caller in 0..4_u8 {
            let timer = &timer;
            scope.spawn(move || {
                for number in 0..60_u8 {
                    // Waits for the server, if it is away.
                    let new = timer
                        .job("mail")
                        .payload([caller, number])
                        .after(ms(u64::from(number) * 2));
                    assert!(matches!(new.unwrap(), Scheduled::New(_)));
                    std::thread::sleep(ms(8));
                }
            });
        }
        std::thread::sleep(ms(150));
        server.end("immediate");
        server.begin();
    });
    eventually("all jobs", || timer.pending().unwrap() == 0);
    check(&runs, 240);
    timer.stop().unwrap();
}

#[test]
fn callers_are_told_when_the_server_stays_away_and_nothing_is_lost() {
    let Some(server) = Server::start() else {
        return;
    };
    let table = Table::on(&server);
    let (sender, begun) = std::sync::mpsc::channel();
    let (let_go, hold) = std::sync::mpsc::channel::<()>();
    let hold = Mutex::new(hold);
    let timer = table.timer(DurableTimer::builder().on("mail", move |job| {
        sender.send(job.attempt()).unwrap();
        let _ = hold.lock().unwrap().recv();
        Outcome::Done
    }));
    timer.job("mail").after(Duration::ZERO).unwrap();
    assert_eq!(begun.recv().unwrap(), 1);
    server.end("fast");
    let started = Instant::now();
    let error = timer.job("mail").key("a").after(HOUR).unwrap_err();
    assert!(matches!(error, Error::Store(_)), "{error:?}");
    let waited = started.elapsed();
    assert!(
        waited >= Duration::from_secs(9) && waited < Duration::from_secs(12),
        "{waited:?}"
    );
    // Known to be away: told at once. And the outcome of a handler cannot be stored.
    let_go.send(()).unwrap();
    assert!(matches!(timer.cancel("a"), Err(Error::Store(_))));
    server.begin();
    // Goes on by itself, and has not run the job again.
    eventually("the outcome", || {
        timer.pending().is_ok_and(|pending| pending == 0)
    });
    let new = timer.job("mail").key("a").after(HOUR).unwrap();
    assert!(matches!(new, Scheduled::New(_)));
    assert!(begun.try_recv().is_err());
    timer.stop().unwrap();
}

#[test]
fn a_timer_can_be_stopped_while_the_server_is_away() {
    let Some(server) = Server::start() else {
        return;
    };
    let table = Table::on(&server);
    let timer = table.timer(DurableTimer::builder().on("mail", |_| {
        std::thread::sleep(ms(300));
        Outcome::Done
    }));
    timer.job("mail").after(Duration::ZERO).unwrap();
    eventually("a run", || timer.stats().fired == 1);
    server.end("fast");
    assert!(matches!(timer.stop(), Err(Error::Poisoned { .. })));
    assert!(timer.stop().is_ok());
}

#[test]
fn a_refused_write_is_an_error_and_changes_nothing() {
    let Some(table) = Table::new() else {
        return;
    };
    let timer = table.timer(DurableTimer::builder().on("mail", |_| Outcome::Done));
    timer.job("mail").key("a").after(HOUR).unwrap();
    table.execute(
        "CREATE FUNCTION {}full() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$;
        CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE OR DELETE ON {}jobs FOR EACH ROW EXECUTE FUNCTION {}full()",
    );
    for error in [
        timer.job("mail").after(HOUR).unwrap_err(),
        timer.cancel("a").unwrap_err(),
        timer.reschedule("a", HOUR).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Store(_)), "{error:?}");
        assert!(error.to_string().contains("no space left"), "{error}");
    }
    assert_eq!(timer.pending().unwrap(), 1);
    table.execute("DROP TRIGGER full_disk ON {}jobs");
    assert!(timer.cancel("a").unwrap());
    timer.job("mail").after(Duration::ZERO).unwrap();
    eventually("the job", || timer.pending().unwrap() == 0);
    timer.stop().unwrap();
}

#[test]
fn stopping_gives_back_what_has_not_begun_and_others_take_it() {
    let Some(table) = Table::new() else {
        return;
    };
    let (sender, begun) = std::sync::mpsc::channel();
    let slow = table.timer(DurableTimer::builder().threads(1).on("mail", move |_| {
        let _ = sender.send(());
        std::thread::sleep(ms(200));
        Outcome::Done
    }));
    for _ in 0..20 {
        slow.job("mail").after(Duration::ZERO).unwrap();
    }
    begun.recv().unwrap();
    let runs = Runs::default();
    let other = table.timer(counting(&runs));
    slow.stop().unwrap();
    assert_eq!(table.count("state = 2 AND attempts > 0"), 0);
    eventually("the rest", || other.pending().unwrap() == 0);
    assert!(other.stats().fired > 0);
    other.stop().unwrap();
}
