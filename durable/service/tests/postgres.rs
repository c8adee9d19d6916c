//! Two services on one database, one of which is killed. Needs PostgreSQL's programs; without them, a line says so.
#![cfg(feature = "postgres")]

#[path = "../../tests/common/server.rs"]
mod server;

use std::path::Path;

use delay_queue_service::harness::{Receiver, Service, eventually};
use serde_json::json;

#[test]
fn two_services_share_the_work_and_one_is_killed() {
    let Some(server) = server::Server::start() else {
        return;
    };
    let url = server.url();
    let start = || {
        let args = ["--postgres", &url, "--lease", "1000", "--rate", "1000"];
        Service::start(Path::new(env!("CARGO_BIN_EXE_delay-queue-service")), &args).unwrap()
    };
    let receiver = Receiver::start(|_| 200).unwrap();
    let (one, other) = (start(), start());
    for number in 0..60_u64 {
        let service = if number % 2 == 0 { &one } else { &other };
        let key = format!("{number}");
        let job =
            json!({ "callback": receiver.url("/"), "delay_ms": 1000 + 25 * number, "key": key });
        service.post(&job).unwrap();
    }
    // What one has stored, the other lists, moves and cancels.
    for (key, delay) in [("far", 3_600_000), ("cancelled", 3_600_000)] {
        let job = json!({ "callback": receiver.url("/"), "delay_ms": delay, "key": key });
        one.post(&job).unwrap();
    }
    assert_eq!(
        other.ask("DELETE", "/jobs?key=cancelled", None).unwrap().0,
        200
    );
    let sooner = json!({ "delay_ms": 1_800_000 });
    assert_eq!(
        other
            .ask("PATCH", "/jobs?key=far", Some(&sooner))
            .unwrap()
            .0,
        200
    );
    assert!(
        other
            .pending()
            .unwrap()
            .iter()
            .any(|job| job["key"] == "far")
    );

    assert!(receiver.wait(|calls| calls.len() >= 10));
    one.kill().unwrap();
    eventually("the other takes over, and all are called", || {
        Ok((0..60).all(|number| !receiver.of_key(&number.to_string()).is_empty()))
    })
    .unwrap();
    eventually("only the far one is left", || {
        let jobs = other.pending()?;
        Ok(jobs.len() == 1 && jobs[0]["key"] == "far")
    })
    .unwrap();
    assert!(receiver.of_key("cancelled").is_empty() && receiver.of_key("far").is_empty());
    for number in 0..60 {
        let calls = receiver.of_key(&number.to_string());
        assert!(calls.iter().all(|call| call.id == calls[0].id));
    }
}
