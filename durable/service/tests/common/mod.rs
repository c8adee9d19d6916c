//! What the tests share: a folder with a service in it, and clients that send bytes.
#![allow(dead_code, reason = "not every test uses all of it")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use delay_queue_service::harness::{Receiver, Service, eventually};
use serde_json::{Value, json};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConnection, StreamOwned};

pub(crate) const HOUR: u64 = 3_600_000;

/// A token that the tests use.
pub(crate) const TOKEN: &str = "token-for-the-tests-0123456789";

pub(crate) fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_delay-queue-service"))
}

/// A folder that is removed in the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("delay-queue-test-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a file. Its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.0.join(name), text).unwrap();
        self.path(name)
    }

    /// A service on a file in the folder, which may call loopback.
    pub(crate) fn start(&self, args: &[&str]) -> Service {
        let file = self.path("jobs.redb");
        let mut all = vec!["--file", &file];
        all.extend(args);
        Service::start(program(), &all).unwrap()
    }

    /// The command for a service that may call nobody.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(["--file", &self.path("jobs.redb"), "--log", "error"]);
        command.args(args);
        command
    }

    /// Runs a service that does not start: its exit code and what it says.
    pub(crate) fn refused(&self, args: &[&str]) -> (Option<i32>, String) {
        let output = self.command(args).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn receiver() -> Receiver {
    Receiver::start(|call| match call.path.as_str() {
        "/fail" => 500,
        "/twice" if call.attempt <= 2 => 503,
        _ => 200,
    })
    .unwrap()
}

pub(crate) fn keys(jobs: &[Value]) -> Vec<&str> {
    jobs.iter().filter_map(|job| job["key"].as_str()).collect()
}

/// A connection that has sent something, with a limit for what is read from it.
pub(crate) fn connect(address: SocketAddr, sent: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    stream.write_all(sent.as_bytes()).unwrap();
    stream
}

/// All that comes until the end, however that comes.
pub(crate) fn read_all(mut stream: impl Read) -> String {
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// A request by hand: status line, headers and body as they came.
pub(crate) fn raw(address: SocketAddr, method: &str, path: &str, headers: &str) -> String {
    let host = if headers.contains("Host: ") {
        String::new()
    } else {
        format!("Host: {address}\r\n")
    };
    read_all(connect(
        address,
        &format!("{method} {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n"),
    ))
}

/// A certificate for loopback and localhost with its key, signed by itself.
pub(crate) struct Certificate {
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Certificate {
    pub(crate) fn new(folder: &Folder, name: &str) -> Certificate {
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        Certificate {
            cert: folder.write(&format!("{name}.pem"), &made.cert.pem()),
            key: folder.write(
                &format!("{name}-key.pem"),
                &made.signing_key.serialize_pem(),
            ),
        }
    }

    /// A request over TLS that trusts this certificate. The answer, or the error.
    pub(crate) fn ask(&self, address: SocketAddr, path: &str) -> std::io::Result<String> {
        let config = delay_queue_service::tls::client(Some(Path::new(&self.cert))).unwrap();
        let name = ServerName::IpAddress(address.ip().into());
        let connection = ClientConnection::new(Arc::clone(&config), name).unwrap();
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let mut stream = StreamOwned::new(connection, stream);
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
        )?;
        Ok(read_all(stream))
    }
}

/// Calls to hosts that answer beside a hundred that do not, before and right after a kill.
pub(crate) fn silent_hosts_cost_the_others_nothing(start: impl Fn(&[&str]) -> Service) {
    let receiver = receiver();
    let args = ["--timeout", "20000", "--rate", "1000"];
    let service = start(&args);
    // Each accepts, as the system does for it, and never answers.
    let silent: Vec<TcpListener> = (0..100)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let post = |service: &Service, round: u64| {
        for (number, listener) in silent.iter().enumerate() {
            let callback = format!("http://{}/", listener.local_addr().unwrap());
            let key = format!("silent {round} {number}");
            service
                .post(&json!({ "callback": callback, "delay_ms": 100, "key": key }))
                .unwrap();
        }
        for number in 0..100 {
            let key = format!("good {round} {number}");
            let job =
                json!({ "callback": receiver.url("/"), "delay_ms": 500 + 10 * number, "key": key });
            service.post(&job).unwrap();
        }
    };
    let good = |service: &Service| -> usize {
        let jobs = service.pending().unwrap();
        keys(&jobs)
            .iter()
            .filter(|key| key.starts_with("good"))
            .count()
    };
    for round in 0..3 {
        post(&service, round);
    }
    eventually("the others are called", || Ok(good(&service) == 0)).unwrap();
    assert_eq!(receiver.calls().len(), 300);
    // Not one of the silent ones has timed out meanwhile: nobody waited for them.
    assert!(service.dead().unwrap().is_empty());
    assert_eq!(service.pending().unwrap().len(), 300);
    // The same right after a kill, with all of them under way.
    service.kill().unwrap();
    let service = start(&args);
    post(&service, 3);
    eventually("the others are called", || Ok(good(&service) == 0)).unwrap();
    assert!(receiver.calls().len() >= 400);
    assert!(service.dead().unwrap().is_empty());
    assert_eq!(service.pending().unwrap().len(), 400);
}
