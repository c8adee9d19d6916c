//! Two services on one database, one of which is killed. Needs PostgreSQL's programs; without them, a line says so.
#![cfg(feature = "postgres")]

#[path = "../../tests/common/server.rs"]
mod server;

mod common;

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

#[test]
fn silent_hosts_cost_the_others_nothing_after_a_kill_either() {
    let Some(server) = server::Server::start() else {
        return;
    };
    let url = server.url();
    common::silent_hosts_cost_the_others_nothing(|args| {
        // With a short lease, what was under way at the kill is taken over while the others are called.
        let mut all = vec!["--postgres", &url, "--lease", "1000"];
        all.extend(args);
        Service::start(common::program(), &all).unwrap()
    });
}

#[test]
fn a_database_that_goes_and_comes_is_told_and_loses_nothing() {
    let Some(server) = server::Server::start() else {
        return;
    };
    let receiver = Receiver::start(|_| 200).unwrap();
    let url = server.url();
    let service = Service::start(
        Path::new(env!("CARGO_BIN_EXE_delay-queue-service")),
        &["--postgres", &url, "--rate", "1000", "--log", "off"],
    )
    .unwrap();
    for number in 0..20_u64 {
        let job = json!({ "callback": receiver.url("/"), "delay_ms": 100 * number, "key": format!("{number}") });
        service.post(&job).unwrap();
    }
    assert!(receiver.wait(|calls| !calls.is_empty()));
    server.end("immediate");
    eventually("it is not ready", || {
        Ok(service.ask("GET", "/readyz", None)?.0 == 503)
    })
    .unwrap();
    assert_eq!(service.ask("GET", "/healthz", None).unwrap().0, 200);
    server.begin();
    eventually("it is ready again", || {
        Ok(service.ask("GET", "/readyz", None)?.0 == 200)
    })
    .unwrap();
    eventually("all are called", || {
        Ok((0..20).all(|number| !receiver.of_key(&number.to_string()).is_empty()))
    })
    .unwrap();
    // Not charged for what was no failure of theirs.
    assert!(service.dead().unwrap().is_empty());
}

/// Gives the server a certificate and a port. The certificate, and the port.
fn with_tls(server: &server::Server, folder: &common::Folder) -> (common::Certificate, u16) {
    use std::fmt::Write as _;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

    let certificate = common::Certificate::new(folder, "database");
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let owner = std::fs::metadata(server.folder()).unwrap();
    for (from, name) in [
        (&certificate.cert, "cert.pem"),
        (&certificate.key, "key.pem"),
    ] {
        let to = server.folder().join(name);
        std::fs::copy(from, &to).unwrap();
        std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o600)).unwrap();
        chown(&to, Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    server.end("fast");
    let settings = server.folder().join("data/postgresql.auto.conf");
    let mut text = std::fs::read_to_string(&settings).unwrap();
    let place = server.folder().display();
    let _ = writeln!(
        text,
        "listen_addresses = '127.0.0.1'\nport = {port}\nssl = on\nssl_cert_file = '{place}/cert.pem'\nssl_key_file = '{place}/key.pem'"
    );
    std::fs::write(&settings, text).unwrap();
    server.begin();
    (certificate, port)
}

#[test]
fn the_connection_to_the_database_can_be_encrypted_and_is_checked() {
    let Some(server) = server::Server::start() else {
        return;
    };
    let folder = common::Folder::new();
    let (certificate, port) = with_tls(&server, &folder);
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres?sslmode=require");
    // By the environment, where no list of processes shows a password.
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_delay-queue-service"));
    command.args(["--postgres-ca", &certificate.cert, "--log", "error"]);
    let service = Service::spawn(command.env("DELAY_QUEUE_POSTGRES", &url)).unwrap();
    assert_eq!(service.ask("GET", "/readyz", None).unwrap().0, 200);
    drop(service);
    // Another root does not do.
    let other = common::Certificate::new(&folder, "other");
    let (code, said) = folder.refused(&["--postgres", &url, "--postgres-ca", &other.cert]);
    assert_eq!(code, Some(1));
    assert!(
        said.contains("certificate") && !said.contains("secret"),
        "{said}"
    );
}

#[test]
fn a_database_that_stays_away_ends_the_service_with_its_own_exit_code() {
    let Some(server) = server::Server::start() else {
        return;
    };
    let url = server.url();
    let mut service = Service::start(
        Path::new(env!("CARGO_BIN_EXE_delay-queue-service")),
        &[
            "--postgres",
            &url,
            "--store-patience",
            "2000",
            "--grace",
            "2000",
            "--log",
            "off",
        ],
    )
    .unwrap();
    server.end("immediate");
    let (status, body) = service.ask("GET", "/readyz", None).unwrap();
    assert_eq!((status, body["error"].is_string()), (503, true), "{body}");
    assert_eq!(service.wait().unwrap().0, Some(3));
}
