//! What an operator sees: health, readiness, figures, logs, exit codes.

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::thread;

use common::{Folder, HOUR, TOKEN, raw, receiver};
use delay_queue_service::harness::{Service, eventually};
use serde_json::{Value, json};

/// The samples of `/metrics`, by name with labels. Checks the form of it on the way.
fn samples(service: &Service) -> BTreeMap<String, f64> {
    let answer = raw(service.address, "GET", "/metrics", "");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.to_lowercase()
            .contains("content-type: text/plain; version=0.0.4"),
        "{head}"
    );
    let mut kinds = BTreeMap::new();
    let mut found = BTreeMap::new();
    for line in body.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["#", "HELP", name, ..] => assert!(
                name.starts_with("delay_queue_") || name.starts_with("process_"),
                "{line}"
            ),
            ["#", "TYPE", name, kind] => {
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                assert!(
                    kinds.insert(name.to_owned(), kind.to_owned()).is_none(),
                    "{line}"
                );
            }
            [name, value] => {
                let bare = name.split('{').next().unwrap();
                let family = ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|suffix| bare.strip_suffix(suffix));
                assert!(
                    kinds.contains_key(bare)
                        || kinds
                            .get(family.unwrap_or(""))
                            .is_some_and(|kind| kind == "histogram"),
                    "{line}"
                );
                assert!(
                    found
                        .insert(name.to_owned(), value.parse().unwrap())
                        .is_none(),
                    "{line}"
                );
            }
            _ => panic!("{line:?}"),
        }
    }
    found
}

#[test]
fn health_and_figures_are_there() {
    let (folder, receiver) = (Folder::new(), receiver());
    let service = folder.start(&["--attempts", "1", "--rate", "1000"]);
    for path in ["/healthz", "/readyz"] {
        let (status, body) = service.ask("GET", path, None).unwrap();
        assert_eq!(status, 200, "{path}: {body}");
    }
    for (path, number) in [("/", 3), ("/fail", 2)] {
        for _ in 0..number {
            service
                .post(&json!({ "callback": receiver.url(path), "delay_ms": 0 }))
                .unwrap();
        }
    }
    service
        .post(&json!({ "callback": receiver.url("/"), "delay_ms": HOUR }))
        .unwrap();
    eventually("all but one have ended", || {
        Ok(service.pending()?.len() == 1)
    })
    .unwrap();
    let found = samples(&service);
    for (name, value) in [
        ("delay_queue_jobs_pending", 1.0),
        ("delay_queue_jobs_scheduled_total", 6.0),
        ("delay_queue_calls_total{result=\"done\"}", 3.0),
        ("delay_queue_calls_total{result=\"failed\"}", 2.0),
        (
            "delay_queue_http_requests_total{method=\"POST\",code=\"201\"}",
            6.0,
        ),
        ("delay_queue_store_up", 1.0),
        ("delay_queue_calls_in_flight", 0.0),
        ("delay_queue_hosts_open", 0.0),
        ("delay_queue_call_duration_seconds_count", 5.0),
    ] {
        assert_eq!(found.get(name), Some(&value), "{name} in {found:#?}");
    }
    // Those that had to wait for their turn are not in it.
    let late = found["delay_queue_lateness_seconds_count"];
    assert!((1.0..=5.0).contains(&late), "{late}");
}

#[test]
fn logs_are_json_with_the_numbers_of_requests_and_jobs() {
    let (folder, receiver) = (Folder::new(), receiver());
    let tokens = folder.write("tokens", TOKEN);
    let mut command = folder.command(&["--log", "info", "--token-file", &tokens]);
    command.args(["--attempts", "1", "--allow-host", "127.0.0.1"]);
    command.args(["--allow-host", "localhost"]);
    let mut service = Service::spawn(command.stderr(Stdio::piped())).unwrap();
    let log = service.take_log().unwrap();
    let reader = thread::spawn(move || -> Vec<Value> {
        let lines = BufReader::new(log).lines().map_while(Result::ok);
        lines
            .map(|line| serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}")))
            .collect()
    });
    let headers = format!(
        "Content-Type: application/json\r\nAuthorization: Bearer {TOKEN}\r\nX-Request-Id: my-request-7\r\n"
    );
    let mut jobs = Vec::new();
    let own = format!("http://localhost:{}/?secret=1", service.address.port());
    for (callback, key) in [
        (receiver.url("/?secret=1"), "good"),
        (receiver.url("/fail"), "bad"),
        (own, "forbidden"),
    ] {
        let body = json!({ "callback": callback, "delay_ms": 0, "key": key, "payload": "private" });
        let (status, made) = service
            .send("POST", "/jobs", &headers, &body.to_string())
            .unwrap();
        assert_eq!(status, 201);
        jobs.push(made["id"].clone());
    }
    assert_eq!(service.send("GET", "/jobs", "", "").unwrap().0, 401);
    let answer = raw(
        service.address,
        "GET",
        "/healthz",
        "X-Request-Id: my-request-8\r\n",
    );
    assert!(answer.contains("x-request-id: my-request-8"), "{answer}");
    assert!(receiver.wait(|calls| calls.len() == 2));
    let headers = format!("Authorization: Bearer {TOKEN}\r\n");
    eventually("both have ended", || {
        Ok(service.send("GET", "/jobs", &headers, "")?.1["pending"] == 0)
    })
    .unwrap();
    service.signal(rustix::process::Signal::TERM).unwrap();
    assert_eq!(service.wait().unwrap().0, Some(0));
    let lines = reader.join().unwrap();
    let of = |event: &str| -> Vec<&Value> {
        lines.iter().filter(|line| line["event"] == event).collect()
    };
    for (event, job) in [
        ("job_stored", &jobs[0]),
        ("call_done", &jobs[0]),
        ("job_stored", &jobs[1]),
        ("call_failed", &jobs[1]),
        ("call_forbidden", &jobs[2]),
    ] {
        assert!(
            of(event).iter().any(|line| line["job"] == *job),
            "{event} {job}: {lines:#?}"
        );
    }
    assert!(
        of("job_stored")
            .iter()
            .all(|line| line["request"] == "my-request-7"),
        "{lines:#?}"
    );
    assert!(
        of("request")
            .iter()
            .any(|line| line["status"] == 401 && line["request"].is_string()),
        "{lines:#?}"
    );
    assert_eq!(
        (
            of("started").len(),
            of("stopping").len(),
            of("stopped").len()
        ),
        (1, 1, 1),
        "{lines:#?}"
    );
    for line in &lines {
        assert!(
            line["time"]
                .as_str()
                .is_some_and(|time| time.ends_with('Z'))
                && line["level"].is_string(),
            "{line}"
        );
        let text = line.to_string();
        assert!(
            !text.contains(TOKEN) && !text.contains("private") && !text.contains("secret=1"),
            "{text}"
        );
    }
}

/// A service whose files can have so many blocks of 512 bytes, until it is told otherwise.
fn on_a_small_disk(folder: &Folder, blocks: u32, args: &[&str]) -> Service {
    let mut command = Command::new("sh");
    let line = format!("trap '' XFSZ; ulimit -S -f {blocks}; exec \"$0\" \"$@\"");
    command.arg("-c").arg(line).arg(common::program());
    command.args(["--file", &folder.path("jobs.redb"), "--log", "off"]);
    Service::spawn(command.args(["--allow-host", "127.0.0.1"]).args(args)).unwrap()
}

/// Posts jobs until one is refused. The refusal.
fn fill(service: &Service, stored: &mut Vec<String>) -> (u16, Value) {
    let payload = "x".repeat(60_000);
    loop {
        let key = format!("{}", stored.len());
        let job = json!({ "callback": "http://127.0.0.1:9/", "delay_ms": HOUR, "payload": payload, "key": key });
        match service.ask("POST", "/jobs", Some(&job)).unwrap() {
            (201, _) => stored.push(key),
            refusal => return refusal,
        }
        assert!(stored.len() < 1000, "the disk is never full");
    }
}

#[test]
fn a_full_disk_is_told_and_survived() {
    let folder = Folder::new();
    let service = on_a_small_disk(&folder, 8000, &[]);
    let mut stored: Vec<String> = Vec::new();
    let refusal = fill(&service, &mut stored);
    assert_eq!(refusal.0, 503, "{refusal:?}");
    assert!(
        refusal.1["error"].as_str().unwrap().contains("jobs.redb"),
        "{refusal:?}"
    );
    assert_eq!(service.ask("GET", "/healthz", None).unwrap().0, 200);
    let (status, body) = service.ask("GET", "/readyz", None).unwrap();
    assert_eq!((status, body["error"].is_string()), (503, true), "{body}");
    assert!(raw(service.address, "GET", "/metrics", "").contains("delay_queue_store_up 0"));
    // There is room again.
    let limit = rustix::process::Rlimit {
        current: None,
        maximum: None,
    };
    let id = rustix::process::Pid::from_raw(i32::try_from(service.id()).unwrap());
    rustix::process::prlimit(id, rustix::process::Resource::Fsize, limit).unwrap();
    let job = json!({ "callback": "http://127.0.0.1:9/", "delay_ms": HOUR, "key": "after" });
    eventually("it stores jobs again", || {
        Ok(service.ask("POST", "/jobs", Some(&job))?.0 < 300)
    })
    .unwrap();
    eventually("it is ready again", || {
        Ok(service.ask("GET", "/readyz", None)?.0 == 200)
    })
    .unwrap();
    stored.push("after".to_owned());
    let jobs = service.pending().unwrap();
    let keys = common::keys(&jobs);
    assert!(
        stored.iter().all(|key| keys.contains(&key.as_str())),
        "{keys:?}"
    );
}

#[test]
fn a_disk_that_stays_full_ends_the_service_with_its_own_exit_code() {
    let folder = Folder::new();
    let args = ["--store-patience", "1000", "--grace", "2000"];
    let mut service = on_a_small_disk(&folder, 8000, &args);
    let mut stored = Vec::new();
    fill(&service, &mut stored);
    assert_eq!(service.wait().unwrap().0, Some(3));
    // Where there is room, nothing is missing.
    let service = folder.start(&[]);
    assert_eq!(service.pending().unwrap().len(), stored.len());
}

#[test]
fn a_store_that_cannot_be_opened_is_an_error_at_the_start() {
    let folder = Folder::new();
    folder.write("jobs.redb", "this is no store");
    let (code, said) = folder.refused(&["--listen", "127.0.0.1:0"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("jobs.redb"), "{said}");
    let service = Folder::new().start(&[]);
    let (code, said) = Folder::new().refused(&["--listen", &service.address.to_string()]);
    assert_eq!(code, Some(1));
    assert!(said.contains(&service.address.to_string()), "{said}");
}
