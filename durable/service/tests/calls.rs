//! Whom the service calls, and how.

mod common;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{Certificate, Folder, HOUR, receiver};
use delay_queue_service::harness::{Receiver, Service, eventually, most_in_a_second};
use delay_queue_service::secrets::SigningKeys;
use delay_queue_service::tls;
use rustix::process::Signal;
use serde_json::{Value, json};

/// The only dead letter, when there is one.
fn dead(service: &Service) -> Value {
    eventually("there is a dead letter", || Ok(!service.dead()?.is_empty())).unwrap();
    service.dead().unwrap().remove(0)
}

fn error(service: &Service) -> String {
    dead(service)["error"].as_str().unwrap().to_owned()
}

#[test]
fn nobody_is_called_who_is_not_named() {
    let (folder, receiver) = (Folder::new(), receiver());
    let service = Service::spawn(&mut folder.command(&[])).unwrap();
    let port = receiver.address.port();
    for callback in [
        format!("http://127.0.0.1:{port}/"),
        format!("http://localhost:{port}/"),
        format!("http://[::1]:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://2130706433:{port}/"),
        format!("http://0.0.0.0:{port}/"),
        format!("http://{}/jobs", service.address),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://10.0.0.1/".to_owned(),
        "http://[fd00::1]/".to_owned(),
        "https://example.org/".to_owned(),
    ] {
        let job = json!({ "callback": callback, "delay_ms": 0 });
        let (status, body) = service.ask("POST", "/jobs", Some(&job)).unwrap();
        assert_eq!(status, 403, "{callback}: {body}");
        assert!(
            body["error"].as_str().unwrap().contains("is not allowed"),
            "{body}"
        );
        assert_eq!(body["field"], "callback");
    }
    assert!(receiver.calls().is_empty());
}

#[test]
fn a_name_that_is_allowed_opens_no_loopback_address() {
    let (folder, receiver) = (Folder::new(), receiver());
    let port = receiver.address.port();
    let service = Service::spawn(&mut folder.command(&["--allow-host", "localhost"])).unwrap();
    service
        .post(&json!({ "callback": format!("http://localhost:{port}/"), "delay_ms": 0 }))
        .unwrap();
    let error = error(&service);
    assert!(
        error.contains("a loopback address must be named"),
        "{error}"
    );
    assert!(receiver.calls().is_empty());
    drop(service);
    let args = ["--allow-host", "localhost", "--allow-host", "127.0.0.1"];
    let service = Service::spawn(&mut folder.command(&args)).unwrap();
    service
        .post(&json!({ "callback": format!("http://localhost:{port}/"), "delay_ms": 0 }))
        .unwrap();
    assert!(receiver.wait(|calls| calls.len() == 1));
}

#[test]
fn what_is_no_longer_allowed_is_not_called() {
    let (folder, receiver) = (Folder::new(), receiver());
    let service = folder.start(&[]);
    service
        .post(&json!({ "callback": receiver.url("/"), "delay_ms": 1000 }))
        .unwrap();
    drop(service);
    let service = Service::spawn(&mut folder.command(&[])).unwrap();
    assert!(error(&service).contains("is not allowed"));
    assert!(receiver.calls().is_empty());
}

#[test]
fn its_own_address_makes_no_job() {
    let folder = Folder::new();
    let service = folder.start(&["--allow-host", "localhost"]);
    let port = service.address.port();
    for host in ["127.0.0.1", "127.0.0.5", "localhost"] {
        let job = json!({ "callback": format!("http://{host}:{port}/jobs"), "delay_ms": 0, "payload": { "callback": "http://127.0.0.1:1/", "delay_ms": HOUR } });
        let (status, body) = service.ask("POST", "/jobs", Some(&job)).unwrap();
        if status == 201 {
            // A name is looked at when it is called.
            assert!(error(&service).contains("it is this service"), "{host}");
        } else {
            assert!(
                body["error"]
                    .as_str()
                    .unwrap()
                    .contains("it is this service"),
                "{body}"
            );
        }
    }
    assert!(service.pending().unwrap().is_empty());
}

#[test]
fn one_host_is_one_host_under_all_its_names() {
    let folder = Folder::new();
    let receiver = Receiver::listen("0.0.0.0", None, |_| 200).unwrap();
    let service = folder.start(&["--rate", "20"]);
    let port = receiver.address.port();
    for number in 0..40 {
        let host = ["127.0.0.1", "127.0.0.2", "localhost", "[::ffff:127.0.0.1]"][number % 4];
        let job = json!({ "callback": format!("http://{host}:{port}/"), "delay_ms": 0, "key": format!("{number}") });
        service.post(&job).unwrap();
    }
    assert!(receiver.wait(|calls| calls.len() == 40));
    let most = most_in_a_second(&receiver.calls());
    assert!(most <= 20, "{most}");
}

#[test]
fn a_receiver_with_https_is_called_if_its_certificate_is_trusted() {
    let folder = Folder::new();
    let certificate = Certificate::new(&folder, "receiver");
    let config = tls::server(Path::new(&certificate.cert), Path::new(&certificate.key)).unwrap();
    let receiver = Receiver::listen("127.0.0.1", Some(Arc::new(config)), |_| 200).unwrap();
    let port = receiver.address.port();
    let service = folder.start(&["--callback-ca", &certificate.cert]);
    for host in ["127.0.0.1", "localhost"] {
        let job = json!({ "callback": format!("https://{host}:{port}/hook"), "delay_ms": 0, "payload": host });
        service.post(&job).unwrap();
    }
    eventually("both are called", || Ok(service.pending()?.is_empty())).unwrap();
    assert_eq!(receiver.calls().len(), 2);
    drop(service);
    // Another root, and a name that the certificate does not have.
    let other = Certificate::new(&folder, "other");
    let service = folder.start(&["--callback-ca", &other.cert, "--attempts", "1"]);
    service
        .post(&json!({ "callback": format!("https://localhost:{port}/"), "delay_ms": 0 }))
        .unwrap();
    let said = error(&service);
    assert!(said.contains("certificate"), "{said}");
    drop(service);
    let service = folder.start(&["--callback-ca", &certificate.cert, "--attempts", "1"]);
    service
        .post(&json!({ "callback": format!("https://127.0.0.9:{port}/"), "delay_ms": 0 }))
        .unwrap();
    eventually("there are two", || Ok(service.dead()?.len() == 2)).unwrap();
    assert_eq!(receiver.calls().len(), 2);
    drop(service);
    // Without roots of its own it trusts those of the system.
    let mut command = folder.command(&["--allow-host", "127.0.0.1"]);
    let service = Service::spawn(command.env("SSL_CERT_FILE", &certificate.cert)).unwrap();
    let callback = format!("https://127.0.0.1:{port}/");
    service
        .post(&json!({ "callback": callback, "delay_ms": 0 }))
        .unwrap();
    assert!(receiver.wait(|calls| calls.len() == 3));
}

#[test]
fn calls_are_signed_with_every_key() {
    let (folder, receiver) = (Folder::new(), receiver());
    let (old, new) = (
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX",
    );
    let file = folder.write("keys", &format!("{old}\n"));
    let service = folder.start(&["--signing-key-file", &file, "--rate", "100"]);
    let post = || {
        service.post(&json!({ "callback": receiver.url("/"), "delay_ms": 0, "payload": { "a": [1, 2] } })).unwrap()
    };
    let check = |number: usize, keys: &str| {
        assert!(receiver.wait(|calls| calls.len() == number));
        let call = receiver.calls().pop().unwrap();
        let file = folder.write("check", keys);
        let expected = SigningKeys::load(&[file.into()]).unwrap();
        let stamp: u64 = call.headers["webhook-timestamp"].parse().unwrap();
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs();
        assert!(now.abs_diff(stamp) < 60);
        assert_eq!(call.headers["webhook-id"], call.id);
        let signed = expected.sign(&call.id, stamp, call.text.as_bytes());
        assert_eq!(Some(call.headers["webhook-signature"].clone()), signed);
    };
    post();
    check(1, old);
    // Both for a while, then the new one alone.
    for (number, keys) in [(2, format!("{new}\n{old}\n")), (3, format!("{new}\n"))] {
        folder.write("keys", &keys);
        service.signal(Signal::HUP).unwrap();
        thread::sleep(Duration::from_millis(300));
        post();
        check(number, &keys);
    }
}

#[test]
fn a_job_has_headers_of_its_own() {
    let (folder, receiver) = (Folder::new(), receiver());
    let service = folder.start(&[]);
    let headers = json!({ "Authorization": "Bearer of-the-receiver", "X-Tenant": "7", "content-type": "application/cloudevents+json" });
    service
        .post(&json!({ "callback": receiver.url("/"), "delay_ms": 0, "headers": headers }))
        .unwrap();
    assert!(receiver.wait(|calls| calls.len() == 1));
    let call = &receiver.calls()[0];
    assert_eq!(call.headers["authorization"], "Bearer of-the-receiver");
    assert_eq!(call.headers["x-tenant"], "7");
    assert_eq!(call.headers["content-type"], "application/cloudevents+json");
    for (headers, words) in [
        (json!({ "Host": "evil" }), "set by the service"),
        (json!({ "Content-Length": "1" }), "set by the service"),
        (json!({ "X": "a\r\nb" }), "printable ASCII"),
        (json!({ "X": "x".repeat(1025) }), "1024"),
        (json!({ "X": 1 }), "the body"),
    ] {
        let job = json!({ "callback": receiver.url("/"), "delay_ms": 0, "headers": headers });
        let (status, body) = service.ask("POST", "/jobs", Some(&job)).unwrap();
        assert_eq!(status, 400, "{body}");
        assert!(body["error"].as_str().unwrap().contains(words), "{body}");
    }
    // What may be a secret is not listed.
    let job = json!({ "callback": receiver.url("/"), "delay_ms": HOUR, "headers": { "Authorization": "Bearer secret" } });
    service.post(&job).unwrap();
    assert!(
        !service
            .ask("GET", "/jobs", None)
            .unwrap()
            .1
            .to_string()
            .contains("secret")
    );
}

/// A receiver that does with each connection what it is told.
fn odd(act: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let act = Arc::new(act);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let act = Arc::clone(&act);
            thread::spawn(move || {
                let mut head = [0; 4096];
                let _ = stream.read(&mut head);
                act(stream);
            });
        }
    });
    format!("http://{address}/")
}

#[test]
fn odd_receivers_have_a_clear_result() {
    let folder = Folder::new();
    let service = folder.start(&["--attempts", "1", "--timeout", "1500"]);
    let cases: [(&str, String, Option<&str>); 8] = [
        ("closes early", odd(drop), Some("no answer: ")),
        (
            "half an answer",
            odd(|mut stream| stream.write_all(b"HTTP/1.1 200 O").unwrap()),
            Some("no answer: "),
        ),
        (
            "no HTTP",
            odd(|mut stream| stream.write_all(b"220 mail.example ESMTP\r\n\r\n").unwrap()),
            Some("no answer: "),
        ),
        (
            "too late",
            odd(|mut stream| {
                thread::sleep(Duration::from_secs(3));
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            }),
            Some("no answer within 1.5s"),
        ),
        (
            "a head byte by byte",
            odd(|mut stream| {
                for byte in b"HTTP/1.1 200 OK\r\nX-Slow: yes\r\nContent-Length: 0\r\n\r\n" {
                    thread::sleep(Duration::from_millis(100));
                    if stream.write_all(&[*byte]).is_err() {
                        return;
                    }
                }
            }),
            Some("no answer within 1.5s"),
        ),
        (
            "an endless head",
            odd(|mut stream| {
                while stream
                    .write_all(
                        b"HTTP/1.1 200 OK\r\nX: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\nX",
                    )
                    .is_ok()
                {}
            }),
            Some("no answer: "),
        ),
        (
            "ten gigabytes",
            odd(|mut stream| {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n");
                while stream.write_all(&[b'x'; 4096]).is_ok() {}
            }),
            None,
        ),
        (
            "a redirect",
            odd(|mut stream| {
                stream.write_all(b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n").unwrap();
            }),
            Some("answered 302"),
        ),
    ];
    for (key, callback, _) in &cases {
        service
            .post(&json!({ "callback": callback, "delay_ms": 0, "key": key }))
            .unwrap();
    }
    eventually("all have ended", || Ok(service.pending()?.is_empty())).unwrap();
    let dead = service.dead().unwrap();
    for (key, _, words) in &cases {
        let found = dead.iter().find(|job| job["key"] == *key);
        match words {
            None => assert!(found.is_none(), "{found:?}"),
            Some(words) => {
                let error = found
                    .map(|job| job["error"].as_str().unwrap())
                    .unwrap_or_default();
                assert!(error.contains(words), "{key}: {error:?}");
            }
        }
    }
}

#[test]
fn a_receiver_that_closes_its_connections_meanwhile_is_called_all_the_same() {
    let folder = Folder::new();
    // Says that it keeps the connection, and closes it.
    let callback = odd(|mut stream| {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            .unwrap();
    });
    let service = folder.start(&["--attempts", "1", "--rate", "1000"]);
    for number in 0..50 {
        service
            .post(&json!({ "callback": callback, "delay_ms": number * 10 }))
            .unwrap();
    }
    eventually("all have ended", || Ok(service.pending()?.is_empty())).unwrap();
    assert!(service.dead().unwrap().is_empty());
}

#[test]
fn silent_hosts_cost_the_others_nothing() {
    let folder = Folder::new();
    common::silent_hosts_cost_the_others_nothing(|args| folder.start(args));
}
