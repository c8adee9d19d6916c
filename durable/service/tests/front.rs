//! Who may call the service, for how long, and how it ends.

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use common::{Certificate, Folder, HOUR, TOKEN, connect, raw, read_all, receiver};
use delay_queue_service::harness::{Service, eventually};
use rustix::process::Signal;
use serde_json::json;

const POST: &str = "Content-Type: application/json\r\n";

#[test]
fn beyond_loopback_a_token_is_required() {
    let folder = Folder::new();
    let (code, said) = folder.refused(&["--listen", "0.0.0.0:0"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("needs --token-file"), "{said}");
    let file = folder.write("tokens", TOKEN);
    let service =
        Service::spawn(&mut folder.command(&["--listen", "0.0.0.0:0", "--token-file", &file]));
    let mut service = service.unwrap();
    service.address.set_ip([127, 0, 0, 1].into());
    assert_eq!(service.send("GET", "/jobs", "", "").unwrap().0, 401);
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(service.send("GET", "/jobs", &bearer, "").unwrap().0, 200);
    // As a monitor elsewhere calls it.
    let headers = "Host: 10.1.2.3:8085\r\n";
    assert_eq!(service.send("GET", "/readyz", headers, "").unwrap().0, 200);
}

#[test]
fn every_request_for_jobs_needs_one_of_the_tokens() {
    let folder = Folder::new();
    let (one, two) = (
        folder.write("one", TOKEN),
        folder.write("two", "another-token-0123456789\n"),
    );
    let service = folder.start(&["--token-file", &one, "--token-file", &two]);
    let requests = [
        ("GET", "/jobs"),
        ("POST", "/jobs"),
        ("PATCH", "/jobs?key=a"),
        ("DELETE", "/jobs?key=a"),
        ("GET", "/dead"),
        ("POST", "/dead/1"),
        ("DELETE", "/dead/1"),
        ("GET", "/metrics"),
        ("GET", "/nothing"),
    ];
    for (method, path) in requests {
        for headers in [
            "",
            "Authorization: Bearer\r\n",
            "Authorization: Bearer wrong-token-0123456789\r\n",
            "Authorization: Basic dG9rZW4tZm9yLXRoZS10ZXN0cw==\r\n",
            "Cookie: token=token-for-the-tests-0123456789\r\n",
        ] {
            let (status, body) = service.send(method, path, headers, "").unwrap();
            assert_eq!(status, 401, "{method} {path} {headers}: {body}");
            assert!(body["error"].as_str().unwrap().contains("token"), "{body}");
        }
        for token in [TOKEN, "another-token-0123456789"] {
            let headers = format!("{POST}Authorization: bearer {token}\r\n");
            let (status, body) = service.send(method, path, &headers, "{}").unwrap();
            assert!(
                ![401, 403].contains(&status),
                "{method} {path}: {status} {body}"
            );
        }
    }
    let answer = raw(service.address, "GET", "/jobs", "");
    assert!(
        answer.to_lowercase().contains("www-authenticate: bearer"),
        "{answer}"
    );
    for path in [
        "/",
        "/page.js",
        "/page.css",
        "/healthz",
        "/readyz",
        "/openapi.json",
    ] {
        assert_eq!(service.send("GET", path, "", "").unwrap().0, 200, "{path}");
    }
}

#[test]
fn tokens_are_read_again_at_sighup() {
    let folder = Folder::new();
    let file = folder.write("tokens", TOKEN);
    let service = folder.start(&["--token-file", &file]);
    let ask = |token: &str| {
        let headers = format!("Authorization: Bearer {token}\r\n");
        service.send("GET", "/jobs", &headers, "").unwrap().0
    };
    assert_eq!((ask(TOKEN), ask("a-new-token-0123456789")), (200, 401));
    folder.write("tokens", "a-new-token-0123456789\n");
    service.signal(Signal::HUP).unwrap();
    eventually("the new token is known", || {
        Ok(ask("a-new-token-0123456789") == 200)
    })
    .unwrap();
    assert_eq!(ask(TOKEN), 401);
    // A file that is broken changes nothing.
    folder.write("tokens", "");
    service.signal(Signal::HUP).unwrap();
    thread::sleep(Duration::from_millis(200));
    assert_eq!(ask("a-new-token-0123456789"), 200);
}

#[test]
fn behind_a_proxy_its_public_origin_is_known() {
    let folder = Folder::new();
    let service = folder.start(&["--public-origin", "https://queue.example.org"]);
    let status = |headers: &str| service.send("GET", "/jobs", headers, "").unwrap().0;
    assert_eq!(
        status("Host: queue.example.org\r\nOrigin: https://queue.example.org\r\n"),
        200
    );
    assert_eq!(status("Origin: https://queue.example.org\r\n"), 200);
    assert_eq!(status("Host: evil.example.org\r\n"), 403);
    assert_eq!(
        status("Host: queue.example.org\r\nOrigin: https://evil.example.org\r\n"),
        403
    );
    assert_eq!(status("Host: queue.example.org\r\nOrigin: null\r\n"), 403);
}

#[test]
fn it_answers_https_with_its_certificate_and_takes_a_new_one() {
    let folder = Folder::new();
    let certificate = Certificate::new(&folder, "first");
    let service = folder.start(&[
        "--tls-cert",
        &certificate.cert,
        "--tls-key",
        &certificate.key,
    ]);
    let answer = certificate.ask(service.address, "/healthz").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(
        answer.to_lowercase().contains("strict-transport-security"),
        "{answer}"
    );
    // Plain HTTP gets no answer in HTTP.
    assert!(!raw(service.address, "GET", "/healthz", "").contains("200"));

    let second = Certificate::new(&folder, "second");
    assert!(second.ask(service.address, "/healthz").is_err());
    fs::copy(&second.cert, &certificate.cert).unwrap();
    fs::copy(&second.key, &certificate.key).unwrap();
    service.signal(Signal::HUP).unwrap();
    eventually("the new certificate is used", || {
        Ok(second.ask(service.address, "/healthz").is_ok())
    })
    .unwrap();

    let other = Folder::new();
    for (cert, key, words) in [
        (
            certificate.key.as_str(),
            certificate.key.as_str(),
            "no certificate",
        ),
        (certificate.cert.as_str(), "/no/such/key", "/no/such/key"),
    ] {
        let (code, said) = other.refused(&["--tls-cert", cert, "--tls-key", key]);
        assert_eq!(code, Some(1));
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn slow_clients_are_closed() {
    let folder = Folder::new();
    let service = folder.start(&[
        "--header-timeout",
        "300",
        "--body-timeout",
        "300",
        "--idle-timeout",
        "900",
    ]);
    let began = Instant::now();
    let half_sent: Vec<_> = (0..200)
        .map(|_| connect(service.address, "POST /jobs HTTP/1.1\r\nHost: 127"))
        .collect();
    let silent = connect(service.address, "");
    let head = format!(
        "POST /jobs HTTP/1.1\r\nHost: {}\r\n{POST}Content-Length: 100\r\n\r\n{{",
        service.address
    );
    let half_body = connect(service.address, &head);
    let rests = connect(
        service.address,
        &format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", service.address),
    );
    assert!(read_all(half_body).contains("408"));
    for stream in half_sent {
        read_all(stream);
    }
    read_all(silent);
    assert!(read_all(rests).starts_with("HTTP/1.1 200"));
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
    // One that rests shorter may go on.
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", service.address);
    let mut rests = connect(service.address, &request);
    thread::sleep(Duration::from_millis(600));
    rests.write_all(request.as_bytes()).unwrap();
    assert_eq!(read_all(rests).matches("HTTP/1.1 200").count(), 2);
    // A client that is slow but not too slow is served.
    let mut slow = connect(service.address, "GET /healthz HTTP/1.1\r\n");
    thread::sleep(Duration::from_millis(100));
    slow.write_all(format!("Host: {}\r\nConnection: close\r\n\r\n", service.address).as_bytes())
        .unwrap();
    assert!(read_all(slow).starts_with("HTTP/1.1 200"));
}

#[test]
fn idle_connections_leave_descriptors_for_the_calls() {
    let (folder, receiver) = (Folder::new(), receiver());
    let mut command = std::process::Command::new("sh");
    let line = "ulimit -n 256; exec \"$0\" \"$@\"";
    command.arg("-c").arg(line).arg(common::program());
    command.args([
        "--file",
        &folder.path("jobs.redb"),
        "--log",
        "error",
        "--allow-host",
        "127.0.0.1",
        "--attempts",
        "1",
    ]);
    command.args([
        "--rate",
        "1000",
        "--idle-timeout",
        "3000",
        "--header-timeout",
        "3000",
    ]);
    let service = Service::spawn(&mut command).unwrap();
    for number in 0..40 {
        let job =
            json!({ "callback": receiver.url("/"), "delay_ms": 1500, "key": format!("{number}") });
        service.post(&job).unwrap();
    }
    let idle: Vec<_> = (0..300)
        .map(|_| {
            connect(
                service.address,
                &format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", service.address),
            )
        })
        .collect();
    assert!(receiver.wait(|calls| calls.len() == 40));
    assert!(receiver.calls().iter().all(|call| call.attempt == 1));
    // And it goes on to answer when these have ended.
    drop(idle);
    assert!(service.pending().unwrap().is_empty());
    assert!(service.dead().unwrap().is_empty());
}

#[test]
fn it_ends_within_its_grace_with_what_was_accepted() {
    let folder = Folder::new();
    let mut service = folder.start(&["--grace", "6000", "--timeout", "60000"]);
    // One that never answers, a half-sent head, a half-sent body.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let callback = format!("http://{}/", silent.local_addr().unwrap());
    service
        .post(&json!({ "callback": callback, "delay_ms": 0, "key": "called" }))
        .unwrap();
    service
        .post(&json!({ "callback": callback, "delay_ms": HOUR, "key": "waits" }))
        .unwrap();
    let called = silent.accept().unwrap();
    let head = connect(service.address, "POST /jobs HTTP/1.1\r\n");
    let body = format!(
        "POST /jobs HTTP/1.1\r\nHost: {}\r\n{POST}Content-Length: 100\r\n\r\n{{",
        service.address
    );
    let body = connect(service.address, &body);
    thread::sleep(Duration::from_millis(100));
    let address = service.address;
    service.signal(Signal::TERM).unwrap();
    let (code, took) = service.wait().unwrap();
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(20), "{took:?}");
    drop((called, head, body));
    assert!(std::net::TcpStream::connect(address).is_err());
    let service = folder.start(&[]);
    let jobs = service.pending().unwrap();
    let of = |key: &str| {
        jobs.iter()
            .find(|job| job["key"] == key)
            .cloned()
            .unwrap_or_default()
    };
    // Nobody was charged for the end.
    assert_eq!(
        (&of("waits")["failed"], &of("called")["failed"]),
        (&json!(0), &json!(0)),
        "{jobs:?}"
    );
}

#[test]
fn without_work_it_ends_at_once() {
    let folder = Folder::new();
    for signal in [Signal::TERM, Signal::INT] {
        let mut service = folder.start(&[]);
        let mut idle = connect(
            service.address,
            &format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", service.address),
        );
        let mut answer = [0; 15];
        idle.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
        service.signal(signal).unwrap();
        let (code, took) = service.wait().unwrap();
        assert_eq!(code, Some(0));
        assert!(took < Duration::from_secs(5), "{took:?}");
        read_all(idle);
    }
}

#[test]
fn the_file_is_for_its_user_alone() {
    let folder = Folder::new();
    let mode = || {
        fs::metadata(folder.path("jobs.redb"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    let service = folder.start(&[]);
    assert_eq!(mode(), 0o600);
    drop(service);
    fs::set_permissions(folder.path("jobs.redb"), fs::Permissions::from_mode(0o644)).unwrap();
    let _service = folder.start(&[]);
    assert_eq!(mode(), 0o600);
}

#[test]
fn settings_come_from_environment_and_file_too() {
    let folder = Folder::new();
    let tokens = folder.write("tokens", TOKEN);
    let config = folder.write(
        "config",
        &format!(
            "token-file = {tokens}\nfile = {}\nlog = error\n",
            folder.path("x.redb")
        ),
    );
    let mut command = std::process::Command::new(common::program());
    command
        .env("DELAY_QUEUE_CONFIG", &config)
        .env("DELAY_QUEUE_RATE", "7");
    let service = Service::spawn(&mut command).unwrap();
    assert_eq!(service.send("GET", "/jobs", "", "").unwrap().0, 401);
    assert!(fs::exists(folder.path("x.redb")).unwrap());
    let mut command = folder.command(&[]);
    let output = command
        .env("DELAY_QUEUE_RAET", "7")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("DELAY_QUEUE_RAET"));
}

#[test]
fn answers_have_the_headers_that_protect_a_page() {
    let folder = Folder::new();
    let service = folder.start(&[]);
    for path in ["/", "/jobs", "/nothing"] {
        let answer = raw(service.address, "GET", path, "").to_lowercase();
        for header in [
            "frame-ancestors 'none'",
            "x-frame-options: deny",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cross-origin-opener-policy: same-origin",
            "cache-control: no-store",
        ] {
            assert!(answer.contains(header), "{path}: {header} in {answer}");
        }
        assert!(!answer.contains("unsafe-inline"), "{answer}");
    }
}

#[test]
fn a_method_that_is_not_allowed_is_told_with_those_that_are() {
    let folder = Folder::new();
    let service = folder.start(&[]);
    for (path, allowed) in [
        ("/jobs", ["GET", "POST", "PATCH", "DELETE"].as_slice()),
        ("/metrics", &["GET"]),
        ("/dead/1", &["POST", "DELETE"]),
    ] {
        let answer = raw(service.address, "PUT", path, "Content-Length: 0\r\n");
        assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
        let line = answer
            .lines()
            .find(|line| line.to_lowercase().starts_with("allow:"))
            .unwrap_or_default();
        assert!(
            allowed.iter().all(|method| line.contains(method)),
            "{path}: {line:?}"
        );
    }
}
