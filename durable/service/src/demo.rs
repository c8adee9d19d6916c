//! The demo: a service that is killed in the middle, and a receiver that keeps account.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, process, thread};

use serde_json::{Value, json};

use crate::harness::{Receiver, Result, Service, eventually, most_in_a_second};

/// Calls a second for each host.
const RATE: usize = 20;

/// The settings of its services: a rate that shows, and failures that are told soon.
const SETTINGS: [&str; 7] = [
    "--rate",
    "20",
    "--attempts",
    "3",
    "--backoff",
    "200",
    "1000",
];

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs the demo.
pub fn run(quick: bool, postgres: Option<&str>) -> Result<()> {
    let unit = Duration::from_millis(if quick { 300 } else { 1000 });
    let folder = Folder(env::temp_dir().join(format!("delay-queue-service-{}", process::id())));
    fs::create_dir_all(&folder.0)?;
    let file = folder.0.join("jobs.redb").display().to_string();
    let store = match postgres {
        Some(url) => vec!["--postgres", url, "--lease", "1500"],
        None => vec!["--file", file.as_str()],
    };
    Story {
        program: env::current_exe()?,
        store: &store,
        shared: postgres.is_some(),
        unit,
        // With it, several runs can use one database.
        prefix: format!("demo-{}", process::id()),
    }
    .tell()
}

struct Story<'a> {
    program: PathBuf,
    store: &'a [&'a str],
    /// Two services share it.
    shared: bool,
    unit: Duration,
    prefix: String,
}

impl Story<'_> {
    fn service(&self) -> Result<Service> {
        let args: Vec<&str> = self.store.iter().copied().chain(SETTINGS).collect();
        Service::start(Path::new(&self.program), &args)
    }

    fn key(&self, name: &str, number: u64) -> String {
        format!("{}:{name}:{number}", self.prefix)
    }

    /// Posts the jobs to both services in turn. Their keys by id, which every call tells: a job that is called again may have lost its key to its own copy.
    fn post(
        &self,
        first: &Service,
        other: &Service,
        receiver: &Receiver,
    ) -> Result<BTreeMap<String, String>> {
        let unit = self.unit.as_millis() as u64;
        let mut posted = BTreeMap::new();
        for number in 0..140_u64 {
            // Two are an hour off: one of them will be cancelled, one moved.
            let (name, delay) = match number {
                10 | 30 => ("reminder", 3_600_000),
                0..40 => ("reminder", unit + 7 * unit * number / 40),
                _ => ("burst", 3 * unit),
            };
            let path = match number {
                5 => "/flaky",
                6 => "/broken",
                _ => "/ok",
            };
            let service = if number % 2 == 0 { first } else { other };
            let key = self.key(name, number);
            let made = service.post(&json!({
                "key": key, "delay_ms": delay, "callback": receiver.url(path), "payload": { "number": number },
            }))?;
            posted.insert(made["id"].as_str().unwrap_or_default().to_owned(), key);
        }
        Ok(posted)
    }

    fn tell(&self) -> Result<()> {
        // Fails the first call for what is flaky, and every call for what is broken.
        let receiver = Receiver::start(|call| match call.path.as_str() {
            "/flaky" if call.attempt == 1 => 503,
            "/broken" => 500,
            _ => 200,
        })?;
        let first = self.service()?;
        println!(
            "1. A service is started, with its page at http://{}/",
            first.address
        );
        let second = if self.shared {
            let second = self.service()?;
            println!(
                "   A second one on the same database: http://{}/",
                second.address
            );
            Some(second)
        } else {
            None
        };
        let other = second.as_ref().unwrap_or(&first);

        println!(
            "2. Forty reminders are posted, the last due in {:?}; a flaky and a broken address among them;",
            self.unit * 8
        );
        println!(
            "   and a hundred for one moment in the middle, to a host that wants {RATE} calls a second at most."
        );
        let mut posted = self.post(&first, other, &receiver)?;
        println!("   {} jobs are on disk", posted.len());

        println!(
            "3. Two of them are due in an hour. One is cancelled, the other moved to the end."
        );
        let cancelled = self.key("reminder", 30);
        let moved = self.key("reminder", 10);
        let (status, _) = first.ask("DELETE", &format!("/jobs?key={cancelled}"), None)?;
        let delay = json!({ "delay_ms": (self.unit * 8).as_millis() as u64 });
        let (other_status, _) = other.ask("PATCH", &format!("/jobs?key={moved}"), Some(&delay))?;
        if (status, other_status) != (200, 200) {
            return Err(format!("cancel {status}, move {other_status}").into());
        }
        posted.retain(|_, key| *key != cancelled);

        println!(
            "4. Calls come in; in the middle of the burst the service is killed: SIGKILL, nothing more is written."
        );
        receiver.wait(|calls| {
            calls
                .iter()
                .filter(|call| call.key.contains(":burst:"))
                .count()
                >= 10
        });
        let before = receiver.calls().len();
        first.kill()?;
        let survivor = if let Some(second) = second {
            println!(
                "   {before} calls so far. The other service goes on, and takes over what was claimed."
            );
            second
        } else {
            thread::sleep(self.unit);
            let again = self.service()?;
            let jobs = again.pending()?;
            println!(
                "   {before} calls so far. It is started again, and lists {} jobs.",
                jobs.len()
            );
            again
        };

        println!("5. The rest is called, at {RATE} a second.");
        let broken = self.key("reminder", 6);
        eventually("everything is called", || {
            let done: BTreeSet<String> = receiver.calls().into_iter().map(|call| call.id).collect();
            let dead = survivor.dead()?;
            let dead = dead.iter().any(|job| job["key"] == json!(broken));
            Ok(dead && posted.keys().all(|id| done.contains(id)))
        })?;
        eventually("nothing is pending", || {
            let jobs = survivor.pending()?;
            let ours = |job: &Value| {
                let id = job["id"].as_str();
                id.is_some_and(|id| posted.contains_key(id))
            };
            Ok(!jobs.iter().any(ours))
        })?;

        self.settle(&receiver, &survivor, &posted, &cancelled)
    }

    /// The account of the receiver, and whether it is as it should be.
    fn settle(
        &self,
        receiver: &Receiver,
        survivor: &Service,
        posted: &BTreeMap<String, String>,
        cancelled: &str,
    ) -> Result<()> {
        let (flaky, broken) = (self.key("reminder", 5), self.key("reminder", 6));
        let calls = receiver.calls();
        let mut times: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        let mut again = Vec::new();
        for call in &calls {
            let key = posted.get(&call.id).map_or(cancelled, String::as_str);
            if !times.entry(key).or_default().insert(call.attempt) {
                again.push(key);
            }
        }
        let lost = posted
            .values()
            .filter(|key| !times.contains_key(key.as_str()))
            .count();
        let most = most_in_a_second(&calls);
        println!(
            "\n{} jobs: {} called, 1 cancelled, {lost} lost.",
            posted.len() + 1,
            times.len()
        );
        println!(
            "The flaky address was called {} times, the broken one {} times: that job is a dead letter now.",
            times.get(flaky.as_str()).map_or(0, BTreeSet::len),
            times.get(broken.as_str()).map_or(0, BTreeSet::len)
        );
        println!(
            "Called once more, because the kill came before the outcome was stored: {again:?}"
        );
        let services = if self.shared { 2 } else { 1 };
        println!(
            "At most {most} calls began within a second; {RATE} are allowed for each service."
        );
        for job in survivor.dead()? {
            if job["key"] == json!(broken) {
                let dead = job["dead"].as_str().unwrap_or_default();
                survivor.ask("DELETE", &format!("/dead/{dead}"), None)?;
            }
        }
        if lost > 0 || times.contains_key(cancelled) || most > services * RATE {
            return Err("that is not as it should be".into());
        }
        Ok(())
    }
}
