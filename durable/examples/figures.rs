//! The figures of this crate on this machine, each with what the disk and the engine can do without it.
//!
//! ```text
//! cargo run --release -p hashed-wheel-durable --example figures                # some minutes
//! cargo run --release -p hashed-wheel-durable --example figures -- --far 10    # the last row with ten million jobs
//! cargo run --release -p hashed-wheel-durable --example figures -- --quick     # some seconds, rough
//! cargo run --release -p hashed-wheel-durable --example figures --features postgres -- --postgres
//! ```

use std::error::Error;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime};
use std::{env, process, thread};

#[cfg(feature = "postgres")]
#[path = "../tests/common/server.rs"]
mod server;
#[cfg(feature = "postgres")]
#[path = "../tests/common/slow.rs"]
mod slow;

use hashed_wheel_durable::{DurableTimer, DurableTimerBuilder, Outcome};
use redb::{Database, TableDefinition};

const USAGE: &str = "\
usage: figures [--quick] [--postgres] [--far MILLIONS]

Measures lateness, durable schedules, throughput, the time to open and memory.

  --quick          fewer repetitions
  --postgres       the figures of PostgreSQL instead, on a server of its own; needs the feature `postgres`
  --far MILLIONS   how many jobs are stored for the last rows (1 unless told)";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn usage(problem: &str) -> ! {
    eprintln!("{problem}\n{USAGE}");
    process::exit(2);
}

fn main() -> Result<()> {
    if let Ok(path) = env::var(OPEN) {
        return open_and_fire(Path::new(&path));
    }
    #[cfg(feature = "postgres")]
    if let Ok(url) = env::var(shared::KILLED) {
        return shared::run_until_killed(&url);
    }
    let mut quick = false;
    let mut postgres = false;
    let mut far = None;
    let mut args = env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => quick = true,
            "--postgres" if cfg!(feature = "postgres") => postgres = true,
            "--postgres" => usage("--postgres needs the feature `postgres`"),
            "--far" => match args.next().map(|value| value.parse::<u64>()) {
                Some(Ok(millions @ 1..=1000)) => far = Some(millions * 1_000_000),
                _ => usage("--far needs a number of millions, 1 to 1000"),
            },
            other => usage(&format!("unknown option {other}")),
        }
    }
    let far = far.unwrap_or(if quick { 20_000 } else { 1_000_000 });
    let times = |many: usize| if quick { many / 10 } else { many };
    if postgres {
        #[cfg(feature = "postgres")]
        return shared::figures(times);
    }
    // Beside the program: the temporary folder may have no disk.
    let folder = Folder(env::current_dir()?.join(format!("durable-figures-{}", process::id())));
    fs::create_dir_all(&folder.0)?;

    println!("| figure | value |\n|---|---|");
    let syncs = two_syncs(&folder.0, times(500), 1)?;
    row(
        "two bare fsyncs of a page each, p50",
        &format!("{} ms", millis(syncs)),
    );
    let against = |time: Duration| {
        let ratio = time.as_secs_f64() / syncs.as_secs_f64();
        format!("{} ms = {ratio:.2} × two fsyncs", millis(time))
    };
    let pages = two_syncs(&folder.0, times(500), COMMIT_PAGES)?;
    row(
        &format!(
            "the same of {COMMIT_PAGES} scattered pages and one, as a commit writes them, p50"
        ),
        &against(pages),
    );
    for (name, quick_repair) in [("without", false), ("with", true)] {
        let bare = bare_commit(&folder.0, times(500), quick_repair)?;
        row(
            &format!("bare redb, one insert committed in two phases, {name} quick repair, p50"),
            &against(bare),
        );
    }
    let store = DurableTimer::builder().open(folder.0.join("one.redb"))?;
    let one = one_caller(&store, times(500))?;
    row("durable schedule, one caller, p50", &against(one));
    drop(store);
    let alone = many_callers(&folder.0, 1, times(1000))?;
    let all = many_callers(&folder.0, 64, times(40_000))?;
    row(
        "durable schedules a second, one caller",
        &format!("{alone:.0}"),
    );
    row(
        "durable schedules a second, 64 callers",
        &format!("{all:.0} = {:.1} × one caller", all / alone),
    );
    lateness(times(200), |builder| {
        builder.open(folder.0.join("idle.redb"))
    })?;
    let bound = engine_bound(&folder.0, times(50_000))?;
    row(
        "bare redb: stored, claimed, removed a second, 256 at a time",
        &format!("{bound:.0}"),
    );
    row(
        "schedule → fire → acknowledged a second, 64 callers",
        &format!(
            "{:.0}",
            through(times(50_000), |builder| builder
                .open(folder.0.join("through.redb")))?
        ),
    );
    overdue(&folder.0, far.min(1_000_000))?;
    far_jobs(&folder.0, far)
}

fn row(name: &str, value: &str) {
    println!("| {name} | {value} |");
}

fn millis(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1e3)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// The pages that the commit of one schedule writes before its first sync, as `strace` shows it. One more is written before the second.
const COMMIT_PAGES: u64 = 12;

/// Some pages are written and synced, then one more.
fn two_syncs(folder: &Path, many: usize, pages: u64) -> Result<Duration> {
    let mut file = File::create(folder.join("bare"))?;
    file.write_all(&vec![1; 1 << 20])?;
    file.sync_all()?;
    let mut times = Vec::new();
    let mut page = 0;
    for turn in 0..many as u64 {
        let start = Instant::now();
        for count in [pages, 1] {
            for _ in 0..count {
                // One after the other, or all over the file.
                page += if pages == 1 { 1 } else { 101 };
                file.seek(SeekFrom::Start(page % 256 * 4096))?;
                file.write_all(&[turn as u8; 4096])?;
            }
            file.sync_data()?;
        }
        times.push(start.elapsed());
    }
    Ok(median(times))
}

const TABLE: TableDefinition<u64, &[u8]> = TableDefinition::new("jobs");
const OTHER: TableDefinition<u64, u64> = TableDefinition::new("claimed");

fn bare_commit(folder: &Path, many: usize, quick_repair: bool) -> Result<Duration> {
    let database = Database::create(folder.join(format!("bare-{quick_repair}.redb")))?;
    let mut times = Vec::new();
    for number in 0..many as u64 {
        let start = Instant::now();
        let mut transaction = database.begin_write()?;
        transaction.set_two_phase_commit(true);
        transaction.set_quick_repair(quick_repair);
        transaction
            .open_table(TABLE)?
            .insert(number, [7; 64].as_slice())?;
        transaction.commit()?;
        times.push(start.elapsed());
    }
    Ok(median(times))
}

/// The same tables and steps without any timer: three transactions for every 256 jobs.
fn engine_bound(folder: &Path, many: usize) -> Result<f64> {
    let database = Database::create(folder.join("bound.redb"))?;
    let start = Instant::now();
    for batch in 0..(many / 256).max(1) as u64 {
        let numbers = batch * 256..(batch + 1) * 256;
        for step in 0..3 {
            let mut transaction = database.begin_write()?;
            transaction.set_quick_repair(true);
            {
                let mut jobs = transaction.open_table(TABLE)?;
                let mut index =
                    transaction.open_table(TableDefinition::<(u32, i64, u64), u32>::new("due"))?;
                let mut claimed = transaction.open_table(OTHER)?;
                for number in numbers.clone() {
                    match step {
                        0 => {
                            jobs.insert(number, [7; 64].as_slice())?;
                            index.insert((1, number as i64, number), 0)?;
                        }
                        1 => {
                            index.remove((1, number as i64, number))?;
                            claimed.insert(number, 1)?;
                        }
                        _ => {
                            claimed.remove(number)?;
                            jobs.remove(number)?;
                        }
                    }
                }
            }
            transaction.commit()?;
        }
    }
    Ok((many / 256).max(1) as f64 * 256.0 / start.elapsed().as_secs_f64())
}

fn one_caller(store: &DurableTimer, many: usize) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..many {
        let start = Instant::now();
        store
            .job("far")
            .payload([7; 64])
            .after(Duration::from_secs(86_400))?;
        times.push(start.elapsed());
    }
    Ok(median(times))
}

/// Schedules a second.
fn many_callers(folder: &Path, callers: usize, many: usize) -> Result<f64> {
    let timer = DurableTimer::builder().open(folder.join(format!("callers-{callers}.redb")))?;
    let start = Instant::now();
    fill(
        &timer,
        "far",
        callers,
        many as u64,
        SystemTime::now() + Duration::from_secs(86_400),
    );
    Ok(many as f64 / start.elapsed().as_secs_f64())
}

fn fill(timer: &DurableTimer, kind: &str, callers: usize, many: u64, due: SystemTime) {
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..callers {
            scope.spawn(|| {
                while next.fetch_add(1, Ordering::Relaxed) < many {
                    timer
                        .job(kind)
                        .payload([7; 64])
                        .at(due)
                        .expect("it can be stored");
                }
            });
        }
    });
}

/// Opens one of the stores.
trait Open:
    Fn(DurableTimerBuilder) -> std::result::Result<DurableTimer, hashed_wheel_durable::Error>
{
}

impl<F: Fn(DurableTimerBuilder) -> std::result::Result<DurableTimer, hashed_wheel_durable::Error>>
    Open for F
{
}

/// How late single jobs begin. None may be early.
fn lateness(many: usize, open: impl Open) -> Result<()> {
    let (sender, late) = mpsc::channel();
    let builder = DurableTimer::builder().on("tick", move |job| {
        let late = SystemTime::now()
            .duration_since(job.due())
            .expect("a job began early");
        sender.send(late).expect("somebody waits");
        Outcome::Done
    });
    let timer = open(builder)?;
    let mut all = Vec::new();
    for turn in 0..many.max(5) as u64 {
        timer
            .job("tick")
            .after(Duration::from_micros(60_000 + turn * 7919 % 40_000))?;
        all.push(late.recv()?);
    }
    all.sort();
    row(
        "lateness of one job on an idle store, p50 / p99 / max",
        &format!(
            "{} / {} / {} ms",
            millis(all[all.len() / 2]),
            millis(all[all.len() * 99 / 100]),
            millis(all[all.len() - 1])
        ),
    );
    Ok(())
}

/// Jobs a second from the call to the acknowledgement, each due at once.
fn through(many: usize, open: impl Open) -> Result<f64> {
    let timer = open(DurableTimer::builder().on("work", |_| Outcome::Done))?;
    let start = Instant::now();
    fill(&timer, "work", 64, many as u64, SystemTime::now());
    while timer.pending()? > 0 {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(many as f64 / start.elapsed().as_secs_f64())
}

/// Jobs that are overdue when the store is opened.
fn overdue(folder: &Path, many: u64) -> Result<()> {
    let path = folder.join("overdue.redb");
    fill(
        &DurableTimer::builder().open(&path)?,
        "work",
        256,
        many,
        SystemTime::now(),
    );
    let before = resident();
    let start = Instant::now();
    let most = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&most);
    let timer = DurableTimer::builder()
        .on("work", move |job| {
            if job.token().is_multiple_of(50) {
                seen.fetch_max(job.timer().stats().in_memory, Ordering::Relaxed);
            }
            Outcome::Done
        })
        .open(&path)?;
    let mut memory = before;
    while timer.pending()? > 0 {
        memory = memory.max(resident());
        thread::sleep(Duration::from_millis(1));
    }
    let rate = many as f64 / start.elapsed().as_secs_f64();
    row(
        &format!("fire → acknowledged a second, {many} overdue jobs"),
        &format!(
            "{rate:.0}; at most {} in memory, {:.0} MB more resident",
            most.load(Ordering::Relaxed),
            memory - before
        ),
    );
    Ok(())
}

/// Resident memory in MB.
fn resident() -> f64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap_or_default();
    line.split_whitespace()
        .next()
        .and_then(|kb| kb.parse::<f64>().ok())
        .unwrap_or(0.0)
        / 1024.0
}

fn far_jobs(folder: &Path, many: u64) -> Result<()> {
    let path = folder.join("far.redb");
    let timer = DurableTimer::builder().open(&path)?;
    let start = Instant::now();
    fill(
        &timer,
        "far",
        256,
        many,
        SystemTime::now() + Duration::from_secs(86_400),
    );
    let filled = many as f64 / start.elapsed().as_secs_f64();
    row(
        &format!("{many} far jobs stored by 256 callers"),
        &format!("{filled:.0} a second"),
    );
    row(
        "durable schedule, one caller, with them stored, p50",
        &format!("{} ms", millis(one_caller(&timer, 200)?)),
    );
    timer.job("now").at(SystemTime::now())?;
    row(
        "the file",
        &format!("{:.0} MB", fs::metadata(&path)?.len() as f64 / 1e6),
    );
    timer.stop()?;
    drop(timer);

    // In a process of its own: the memory that this one has used does not count.
    let output = Command::new(env::current_exe()?)
        .env(OPEN, &path)
        .output()?;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

/// PostgreSQL, on a server of its own with a socket.
#[cfg(feature = "postgres")]
mod shared {
    use std::process::Command;
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, Instant, SystemTime};
    use std::{env, fs, thread};

    use hashed_wheel_durable::postgres::{Client, NoTls};
    use hashed_wheel_durable::{DurableTimer, DurableTimerBuilder, Outcome};

    use super::server::Server;
    use super::slow;
    use super::{Result, fill, lateness, median, millis, row, through};

    pub(super) fn figures(times: impl Fn(usize) -> usize) -> Result<()> {
        let Some(server) = Server::start_in(&env::temp_dir(), &[]) else {
            return Ok(());
        };
        let url = server.url();
        println!("| figure | value |\n|---|---|");
        let mut client = Client::connect(&url, NoTls)?;
        client.batch_execute(
            "CREATE TABLE bare (id bigint PRIMARY KEY, state smallint NOT NULL, due bigint NOT NULL, payload bytea NOT NULL);
            CREATE INDEX ON bare (state, due, id) WHERE state <= 1",
        )?;
        let bare = bare_commit(&mut client, times(500))?;
        row(
            "bare PostgreSQL, one insert committed, p50",
            &format!("{} ms", millis(bare)),
        );
        schedules(&url, "", &times)?;
        for trip in [1, 2] {
            let folder = slow::start(
                &env::temp_dir(),
                server.folder(),
                Duration::from_millis(trip),
            )?;
            let near = server.folder().display().to_string();
            let url = url.replace(&near, &folder.display().to_string());
            let measured = schedules(&url, &format!(", a round trip of {trip} ms"), &times);
            fs::remove_dir_all(&folder)?;
            measured?;
        }
        lateness(times(200), |builder| builder.open_postgres(&url))?;
        beside_a_kill(&url, Duration::from_millis(times(20_000) as u64))?;
        for batch in [64, 256] {
            row(
                &format!("bare PostgreSQL: stored, claimed, removed a second, {batch} at a time"),
                &format!("{:.0}", engine_bound(&mut client, batch, times(20_000))?),
            );
        }
        row(
            "schedule → fire → acknowledged a second, 64 callers",
            &format!(
                "{:.0}",
                through(times(20_000), |builder| builder
                    .table_prefix("through_")
                    .open_postgres(&url))?
            ),
        );
        row(
            "fire → acknowledged a second, overdue jobs, two timers",
            &format!("{:.0}", overdue(&url, times(50_000))?),
        );
        Ok(())
    }

    /// Set for a child: the server whose jobs it runs until it is killed.
    pub(super) const KILLED: &str = "FIGURES_KILLED";

    const LEASE: Duration = Duration::from_secs(1);

    fn worker() -> DurableTimerBuilder {
        let builder = DurableTimer::builder().table_prefix("kill_").lease(LEASE);
        builder.on("work", |_| {
            thread::sleep(Duration::from_millis(30));
            Outcome::Done
        })
    }

    pub(super) fn run_until_killed(url: &str) -> Result<()> {
        let timer = worker().open_postgres(url)?;
        loop {
            for _ in 0..4 {
                timer.job("work").after(Duration::ZERO)?;
            }
            thread::sleep(Duration::from_millis(25));
        }
    }

    /// How late jobs begin in a process of which one thread is busy all the time, after another process was killed with its claims. A thread that only sleeps shows how late this
    /// machine is.
    fn beside_a_kill(url: &str, long: Duration) -> Result<()> {
        let late = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&late);
        let timer = worker()
            .on("long", move |_| {
                thread::sleep(long);
                Outcome::Done
            })
            .on("tick", move |job| {
                let late = SystemTime::now().duration_since(job.due());
                let mut all = all.lock().expect("nobody panics");
                all.push(late.expect("a job began early"));
                Outcome::Done
            })
            .open_postgres(url)?;
        let mut other = Command::new(env::current_exe()?).env(KILLED, url).spawn()?;
        timer.job("long").after(Duration::ZERO)?;
        thread::sleep(long / 4);
        other.kill()?;
        other.wait()?;
        let end = Instant::now() + long / 2;
        let sleeper = thread::spawn(move || {
            let mut all = Vec::new();
            while Instant::now() < end {
                let start = Instant::now();
                thread::sleep(Duration::from_millis(20));
                all.push(start.elapsed().saturating_sub(Duration::from_millis(20)));
            }
            all
        });
        while Instant::now() < end {
            timer.job("tick").after(Duration::from_millis(100))?;
            thread::sleep(Duration::from_millis(20));
        }
        let bare = sleeper.join().expect("it does not panic");
        timer.stop()?;
        let late = std::mem::take(&mut *late.lock().expect("nobody panics"));
        for (what, mut all) in [
            ("lateness beside a long handler, after a kill", late),
            ("the same of a thread that only sleeps", bare),
        ] {
            all.sort();
            let at = |part: usize| millis(all[(all.len() - 1) * part / 100]);
            let text = format!("{} / {} / {} ms", at(50), at(99), at(100));
            row(&format!("{what}, p50 / p99 / max"), &text);
        }
        Ok(())
    }

    fn bare_commit(client: &mut Client, many: usize) -> Result<Duration> {
        let insert = client.prepare("INSERT INTO bare VALUES (-$1::int8, 3, 0, '')")?;
        let mut all = Vec::new();
        for number in 1..=many as i64 {
            let start = Instant::now();
            client.execute(&insert, &[&number])?;
            all.push(start.elapsed());
        }
        Ok(median(all))
    }

    fn schedules(url: &str, way: &str, times: impl Fn(usize) -> usize) -> Result<()> {
        let trip = empty_query(url, times(500))?;
        let one = one_caller(url, times(500))?;
        row(
            &format!("durable schedule, one caller, p50{way}"),
            &format!(
                "{} ms; an empty query takes {} ms",
                millis(one),
                millis(trip)
            ),
        );
        let all = many_callers(url, times(20_000))?;
        row(
            &format!("durable schedules a second, 64 callers{way}"),
            &format!("{all:.0}"),
        );
        Ok(())
    }

    fn empty_query(url: &str, many: usize) -> Result<Duration> {
        let mut client = Client::connect(url, NoTls)?;
        let mut all = Vec::new();
        for _ in 0..many {
            let start = Instant::now();
            client.batch_execute("")?;
            all.push(start.elapsed());
        }
        Ok(median(all))
    }

    fn one_caller(url: &str, many: usize) -> Result<Duration> {
        let timer = DurableTimer::builder()
            .table_prefix("one_")
            .open_postgres(url)?;
        let mut all = Vec::new();
        for _ in 0..many {
            let start = Instant::now();
            timer
                .job("far")
                .payload([7; 64])
                .after(Duration::from_secs(86_400))?;
            all.push(start.elapsed());
        }
        Ok(median(all))
    }

    fn many_callers(url: &str, many: usize) -> Result<f64> {
        let timer = DurableTimer::builder()
            .table_prefix("many_")
            .open_postgres(url)?;
        let start = Instant::now();
        let due = SystemTime::now() + Duration::from_secs(86_400);
        fill(&timer, "far", 64, many as u64, due);
        Ok(many as f64 / start.elapsed().as_secs_f64())
    }

    /// The same steps without any timer: three transactions for each batch, one statement in each.
    fn engine_bound(client: &mut Client, batch: usize, many: usize) -> Result<f64> {
        let insert = client.prepare(
            "INSERT INTO bare SELECT id, 0, id, payload FROM unnest($1::int8[], $2::bytea[]) AS n(id, payload)",
        )?;
        let claim = client.prepare(
            "WITH taken AS (SELECT id FROM bare WHERE state = 0 ORDER BY due, id LIMIT $1 FOR UPDATE SKIP LOCKED)
            UPDATE bare SET state = 2 FROM taken WHERE bare.id = taken.id RETURNING bare.id, bare.payload",
        )?;
        let remove = client.prepare("DELETE FROM bare WHERE id = ANY($1::int8[])")?;
        let rounds = (many / batch).max(1);
        let start = Instant::now();
        for round in 0..rounds {
            let ids: Vec<i64> = (0..batch).map(|n| (round * batch + n) as i64).collect();
            let payloads: Vec<&[u8]> = ids.iter().map(|_| [7; 64].as_slice()).collect();
            client.execute(&insert, &[&ids, &payloads])?;
            client.query(&claim, &[&(batch as i64)])?;
            client.execute(&remove, &[&ids])?;
        }
        Ok((rounds * batch) as f64 / start.elapsed().as_secs_f64())
    }

    /// Two timers share what is overdue.
    fn overdue(url: &str, many: usize) -> Result<f64> {
        let open = |builder: hashed_wheel_durable::DurableTimerBuilder| {
            builder.table_prefix("overdue_").open_postgres(url)
        };
        let filler = open(DurableTimer::builder())?;
        fill(&filler, "work", 256, many as u64, SystemTime::now());
        let start = Instant::now();
        let one = open(DurableTimer::builder().on("work", |_| Outcome::Done))?;
        let other = open(DurableTimer::builder().on("work", |_| Outcome::Done))?;
        while filler.pending()? > 0 {
            thread::sleep(Duration::from_millis(20));
        }
        let rate = many as f64 / start.elapsed().as_secs_f64();
        one.stop()?;
        other.stop()?;
        Ok(rate)
    }
}

/// Set for a child: the file to open.
const OPEN: &str = "FIGURES_OPEN";

/// Opens a store with one overdue job, and tells how long that takes and how much memory.
fn open_and_fire(path: &Path) -> Result<()> {
    let before = resident();
    let start = Instant::now();
    let (sender, first) = mpsc::channel();
    let timer = DurableTimer::builder()
        .on("now", move |_| {
            sender.send(start.elapsed()).expect("somebody waits");
            Outcome::Done
        })
        .on("far", |_| Outcome::Done)
        .open(path)?;
    row(
        "open to first firing with them stored",
        &format!("{} ms", millis(first.recv()?)),
    );
    // A look at all entries, which fills redb's cache, begins with the opening.
    let mut known = 0.0;
    while resident() > known + 0.1 {
        known = resident();
        thread::sleep(Duration::from_millis(1500));
    }
    row(
        "resident memory of a process that has them open, more than before",
        &format!("{:.1} MB, redb's cache included", resident() - before),
    );
    timer.stop()?;
    Ok(())
}
