//! A connection that is cut during COMMIT, before the server has it or after.

use super::*;
use crate::{Outcome, Scheduled};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

/// Stands between a client and the server, cuts the connection at a commit, and delays what is said.
pub(super) struct Proxy {
    folder: PathBuf,
    plan: Arc<Mutex<Plan>>,
    /// In microseconds, in each direction.
    pub(super) delay: Arc<AtomicU32>,
}

#[derive(Default)]
struct Plan {
    /// For the commits to come: pass, cut before it is passed on, cut instead of passing its answer on.
    cuts: Vec<Cut>,
    /// Connections that were cut before and after.
    seen: [usize; 2],
    /// Done at the next cut, before the client hears of it.
    meanwhile: Option<Box<dyn FnOnce() + Send>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    None,
    Before,
    After,
}

impl Proxy {
    pub(super) fn start(server: &Server) -> Proxy {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("durable-cut-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let listener = UnixListener::bind(folder.join(".s.PGSQL.5432")).unwrap();
        let proxy = Proxy {
            folder,
            plan: Arc::default(),
            delay: Arc::default(),
        };
        let delay = Arc::clone(&proxy.delay);
        let behind = server.folder().join(".s.PGSQL.5432");
        let plan = Arc::clone(&proxy.plan);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // Whatever is done at a cut comes first.
                drop(plan.lock());
                if let Ok(server) = UnixStream::connect(&behind) {
                    connect(&plan, &delay, &client, &server);
                }
            }
        });
        proxy
    }

    fn cut(&self, cuts: &[Cut]) {
        self.plan.lock().unwrap().cuts = cuts.to_vec();
    }

    pub(super) fn url(&self) -> String {
        format!(
            "host={} user=postgres dbname=postgres",
            self.folder.display()
        )
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Passes on what both sides say, until a cut.
fn connect(
    plan: &Arc<Mutex<Plan>>,
    delay: &Arc<AtomicU32>,
    client: &UnixStream,
    server: &UnixStream,
) {
    let swallow = Arc::new(Mutex::new(false));
    let (mut from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let there = later(delay, &to);
    let (plan, flag) = (Arc::clone(plan), Arc::clone(&swallow));
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let message = &buffer[..length];
            let commit = message.windows(7).any(|part| part == b"COMMIT\0");
            let mut cut = Cut::None;
            if commit {
                let mut plan = plan.lock().unwrap();
                cut = plan.next();
                if cut != Cut::None
                    && let Some(meanwhile) = plan.meanwhile.take()
                {
                    meanwhile();
                }
            }
            *flag.lock().unwrap() = cut == Cut::After;
            if cut == Cut::Before || there.send(message.to_vec()).is_err() {
                break;
            }
        }
        drop(there);
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    });
    let (mut from, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let back = later(delay, &to);
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if *swallow.lock().unwrap() || back.send(buffer[..length].to_vec()).is_err() {
                break;
            }
        }
        drop(back);
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    });
}

/// What is sent here is written when the delay has passed.
fn later(delay: &Arc<AtomicU32>, to: &UnixStream) -> std::sync::mpsc::Sender<Vec<u8>> {
    let (sender, messages) = std::sync::mpsc::channel::<(Instant, Vec<u8>)>();
    let (entrance, passing) = std::sync::mpsc::channel::<Vec<u8>>();
    let delay = Arc::clone(delay);
    std::thread::spawn(move || {
        for message in passing {
            let delay = Duration::from_micros(delay.load(Ordering::Relaxed).into());
            if sender.send((Instant::now() + delay, message)).is_err() {
                break;
            }
        }
    });
    let mut to = to.try_clone().unwrap();
    std::thread::spawn(move || {
        for (at, message) in messages {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            if to.write_all(&message).is_err() {
                break;
            }
        }
    });
    entrance
}

impl Plan {
    fn next(&mut self) -> Cut {
        let cut = self.cuts.pop().unwrap_or(Cut::None);
        match cut {
            Cut::None => {}
            Cut::Before => self.seen[0] += 1,
            Cut::After => self.seen[1] += 1,
        }
        cut
    }
}

#[test]
fn a_schedule_whose_commit_is_cut_is_stored_once() {
    let Some(table) = Table::new() else {
        return;
    };
    let proxy = Proxy::start(Server::shared().unwrap());
    let timer = table.timer_at(&proxy.url(), DurableTimer::builder());
    let hour = Duration::from_secs(3600);
    for (number, cut) in [Cut::Before, Cut::After, Cut::After, Cut::Before]
        .into_iter()
        .enumerate()
    {
        proxy.cut(&[cut]);
        assert!(matches!(
            timer.job("mail").after(hour).unwrap(),
            Scheduled::New(_)
        ));
        assert_eq!(table.count("key IS NULL"), number as i64 + 1, "{cut:?}");
        proxy.cut(&[cut]);
        let key = format!("k{number}");
        let new = timer.job("mail").key(&key).after(hour).unwrap();
        assert!(matches!(new, Scheduled::New(_)));
        // True for the caller who did it, though its answer was lost.
        proxy.cut(&[cut]);
        assert!(timer.reschedule(&key, hour).unwrap(), "{cut:?}");
        proxy.cut(&[cut]);
        assert!(timer.cancel(&key).unwrap(), "{cut:?}");
        assert!(!timer.cancel(&key).unwrap());
    }
    assert_eq!(proxy.plan.lock().unwrap().seen, [8, 8]);
    timer.stop().unwrap();
}

#[test]
fn every_job_runs_once_though_commits_are_cut() {
    let Some(table) = Table::new() else {
        return;
    };
    let proxy = Proxy::start(Server::shared().unwrap());
    let ran = Arc::new(Mutex::new(HashMap::<Vec<u8>, u32>::new()));
    let noted = Arc::clone(&ran);
    let timer = table.timer_at(
        &proxy.url(),
        DurableTimer::builder().on("mail", move |job| {
            *noted
                .lock()
                .unwrap()
                .entry(job.payload().to_vec())
                .or_default() += 1;
            Outcome::Done
        }),
    );
    // The last one is the first to come.
    let cuts: Vec<Cut> = (0..60)
        .map(|turn| [Cut::After, Cut::None, Cut::None, Cut::Before, Cut::None][turn % 5])
        .collect();
    proxy.cut(&cuts);
    for number in 0..100_u8 {
        timer
            .job("mail")
            .payload([number])
            .after(ms(u64::from(number % 3) * 20))
            .unwrap();
    }
    eventually("all jobs", || timer.pending().unwrap() == 0);
    let ran = ran.lock().unwrap();
    assert_eq!(ran.len(), 100);
    assert!(ran.values().all(|&times| times == 1), "{ran:?}");
    assert_eq!(table.count("true"), 0);
    let seen = proxy.plan.lock().unwrap().seen;
    assert!(seen[0] > 5 && seen[1] > 5, "{seen:?}");
    timer.stop().unwrap();
}

#[test]
fn a_commit_that_a_crash_has_undone_is_not_taken_for_another_with_its_id() {
    // The server writes its log at a commit and no sooner, so that a crash takes the id of a transaction back.
    let settings = ["wal_writer_delay = 10s", "autovacuum = off"];
    let Some(server) = Server::start_in(&std::env::temp_dir(), &settings) else {
        return;
    };
    let server = Arc::new(server);
    let table = Table::on(&server);
    let proxy = Proxy::start(&server);
    let timer = table.timer_at(&proxy.url(), DurableTimer::builder());
    let hour = Duration::from_secs(3600);
    timer.job("mail").key("a").after(hour).unwrap();
    let crash = Arc::clone(&server);
    proxy.plan.lock().unwrap().meanwhile = Some(Box::new(move || {
        crash.end("immediate");
        crash.begin();
        let mut client = Client::connect(&crash.url(), NoTls).unwrap();
        for _ in 0..20 {
            client
                .batch_execute("SELECT pg_current_xact_id(); CREATE TABLE t (); DROP TABLE t")
                .unwrap();
        }
    }));
    proxy.cut(&[Cut::Before]);
    let new = timer.job("mail").key("b").after(hour).unwrap();
    assert!(matches!(new, Scheduled::New(_)));
    assert_eq!(proxy.plan.lock().unwrap().seen, [1, 0]);
    let mut client = Client::connect(&server.url(), NoTls).unwrap();
    let sql = format!("SELECT count(*) FROM {}jobs WHERE key = 'b'", table.prefix);
    let stored: i64 = client.query_one(&sql, &[]).unwrap().get(0);
    assert_eq!(stored, 1, "it was acknowledged");
    timer.stop().unwrap();
}
