//! The service as a child process, and a receiver of its calls: for the demo and the tests. Plain HTTP by hand, so that nothing of what is tested is
//! used to test it.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

/// How long anything is waited for before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A service in a process of its own. Dropped, it is killed.
#[derive(Debug)]
pub struct Service {
    child: Child,
    pub address: SocketAddr,
}

impl Service {
    /// Starts the program on any free port, with receivers on loopback.
    pub fn start(program: &Path, args: &[&str]) -> Result<Service> {
        let mut command = Command::new(program);
        command.args(["--allow-net", "127.0.0.0/8"]);
        if !args.contains(&"--log") {
            command.args(["--log", "error"]);
        }
        Service::spawn(command.args(args))
    }

    /// Starts a program that was prepared. It is told to listen on any free port unless it was told where.
    pub fn spawn(command: &mut Command) -> Result<Service> {
        if !command.get_args().any(|arg| arg == "--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or("no output")?;
        let mut lines = BufReader::new(output).lines();
        let first = lines.next().transpose()?.unwrap_or_default();
        let address = first
            .strip_prefix("open http://")
            .or_else(|| first.strip_prefix("open https://"))
            .and_then(|rest| rest.trim_end_matches('/').parse().ok());
        let Some(address) = address else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("the service did not start: {first:?}").into());
        };
        Ok(Service { child, address })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its log, if the command said that it is piped.
    pub fn take_log(&mut self) -> Option<std::process::ChildStderr> {
        self.child.stderr.take()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: rustix::process::Signal) -> Result<()> {
        let id = i32::try_from(self.child.id())?;
        let process = rustix::process::Pid::from_raw(id).ok_or("no process")?;
        Ok(rustix::process::kill_process(process, signal)?)
    }

    /// Waits for its end, for a minute at most: its exit code, and how long that took.
    pub fn wait(&mut self) -> Result<(Option<i32>, Duration)> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok((status.code(), began.elapsed()));
            }
            if began.elapsed() > PATIENCE {
                return Err("the service does not end".into());
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// SIGKILL.
    pub fn kill(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Sends a request with or without JSON. The status, and the body as JSON.
    pub fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<(u16, Value)> {
        let headers = "Content-Type: application/json\r\n";
        let body = body.map(Value::to_string);
        self.send(method, path, headers, body.as_deref().unwrap_or_default())
    }

    /// Sends a request with headers of its own.
    pub fn send(
        &self,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> Result<(u16, Value)> {
        let host = if headers.contains("Host: ") {
            String::new()
        } else {
            format!("Host: {}\r\n", self.address)
        };
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let length = body.len();
        // A refusal may come before all of a large body has been sent.
        let _ = write!(
            stream,
            "{method} {path} HTTP/1.1\r\n{host}{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        let mut text = Vec::new();
        if let Err(error) = stream.read_to_end(&mut text)
            && text.is_empty()
        {
            return Err(error.into());
        }
        let text = String::from_utf8_lossy(&text);
        let (head, body) = text.split_once("\r\n\r\n").ok_or("no answer")?;
        let status = head.split(' ').nth(1).ok_or("no status")?.parse()?;
        Ok((status, serde_json::from_str(body).unwrap_or(Value::Null)))
    }

    /// Posts a job. An error unless it is new.
    pub fn post(&self, job: &Value) -> Result<Value> {
        match self.ask("POST", "/jobs", Some(job))? {
            (201, made) => Ok(made),
            (status, body) => Err(format!("{status} {body}").into()),
        }
    }

    pub fn pending(&self) -> Result<Vec<Value>> {
        let (_, body) = self.ask("GET", "/jobs", None)?;
        Ok(body["jobs"].as_array().cloned().unwrap_or_default())
    }

    pub fn dead(&self) -> Result<Vec<Value>> {
        let (_, body) = self.ask("GET", "/dead", None)?;
        Ok(body["dead"].as_array().cloned().unwrap_or_default())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A call that was received.
#[derive(Debug, Clone)]
pub struct Call {
    pub path: String,
    pub key: String,
    pub id: String,
    pub attempt: u32,
    /// When the service began it, in milliseconds since 1970.
    pub began: u64,
    pub body: Value,
    /// The body as it came.
    pub text: String,
    /// By names in lower case.
    pub headers: std::collections::HashMap<String, String>,
    pub at: Instant,
}

/// Receives calls, and answers as it is told.
#[derive(Debug, Clone)]
pub struct Receiver {
    pub address: SocketAddr,
    calls: Arc<(Mutex<Vec<Call>>, Condvar)>,
}

impl Receiver {
    /// Answers each call with the status that `decide` says.
    pub fn start(decide: impl Fn(&Call) -> u16 + Send + Sync + 'static) -> io::Result<Receiver> {
        Receiver::listen("127.0.0.1", None, decide)
    }

    /// On this address, with TLS if there is a certificate.
    pub fn listen(
        address: &str,
        tls: Option<Arc<ServerConfig>>,
        decide: impl Fn(&Call) -> u16 + Send + Sync + 'static,
    ) -> io::Result<Receiver> {
        let listener = TcpListener::bind((address, 0))?;
        let receiver = Receiver {
            address: listener.local_addr()?,
            calls: Arc::default(),
        };
        let decide = Arc::new(decide);
        let own = receiver.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (receiver, decide) = (own.clone(), Arc::clone(&decide));
                let tls = tls.clone();
                thread::spawn(move || match tls {
                    None => receiver.answer(stream, &*decide),
                    Some(config) => {
                        let connection = ServerConnection::new(config).ok()?;
                        receiver.answer(StreamOwned::new(connection, stream), &*decide)
                    }
                });
            }
        });
        Ok(receiver)
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn answer(&self, stream: impl Read + Write, decide: &dyn Fn(&Call) -> u16) -> Option<()> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let path = line.split(' ').nth(1)?.to_owned();
        let mut header = std::collections::HashMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            match line.trim_end().split_once(": ") {
                Some((name, value)) => header.insert(name.to_lowercase(), value.to_owned()),
                None => break,
            };
        }
        let text = |name: &str| header.get(name).cloned().unwrap_or_default();
        let mut body = vec![0; text("content-length").parse().unwrap_or(0)];
        reader.read_exact(&mut body).ok()?;
        let call = Call {
            path,
            key: text("delay-queue-key"),
            id: text("delay-queue-id"),
            attempt: text("delay-queue-attempt").parse().unwrap_or(0),
            began: text("delay-queue-time").parse().unwrap_or(0),
            body: serde_json::from_slice(&body).unwrap_or(Value::Null),
            text: String::from_utf8_lossy(&body).into_owned(),
            headers: header.clone(),
            at: Instant::now(),
        };
        let status = decide(&call);
        self.lock().push(call);
        self.calls.1.notify_all();
        let mut stream = reader.into_inner();
        write!(
            stream,
            "HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
        .ok()?;
        stream.flush().ok()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Call>> {
        self.calls.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn calls(&self) -> Vec<Call> {
        self.lock().clone()
    }

    pub fn of_key(&self, key: &str) -> Vec<Call> {
        let calls = self.calls().into_iter();
        calls.filter(|call| call.key == key).collect()
    }

    /// Waits until the calls are as wanted. False if that takes too long.
    pub fn wait(&self, wanted: impl Fn(&[Call]) -> bool) -> bool {
        let until = Instant::now() + PATIENCE;
        let mut calls = self.lock();
        while !wanted(&calls) {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return false;
            }
            calls = self
                .calls
                .1
                .wait_timeout(calls, rest)
                .map_or_else(|error| error.into_inner().0, |(calls, _)| calls);
        }
        true
    }
}

/// The most calls that began within a second, whenever that second is.
pub fn most_in_a_second(calls: &[Call]) -> usize {
    let mut began: Vec<u64> = calls.iter().map(|call| call.began).collect();
    began.sort_unstable();
    (0..began.len())
        .map(|first| {
            let end = began[first] + 1000;
            began[first..]
                .iter()
                .take_while(|time| **time < end)
                .count()
        })
        .max()
        .unwrap_or(0)
}

/// Waits for something that has to happen.
pub fn eventually(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    while !holds()? {
        if Instant::now() > until {
            return Err(format!("does not happen: {what}").into());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
