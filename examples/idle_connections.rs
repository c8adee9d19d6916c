//! A TCP server that closes each connection after a silence: one timeout per connection, and every
//! byte that arrives pushes it out with `reset`.
//!
//! Server and clients live in this one process and talk over loopback, with as many connections as
//! the limit of open files allows (two descriptors each), 8 000 at most. The clients talk for a
//! while, fall silent one after the other, and must be closed one silence later: not before, and
//! hardly after.
//!
//! Two threads read the server's side by asking every socket in turn, because the standard library
//! has nothing better. A real server would wait in epoll or kqueue; the timer would not notice. The
//! clients need no thread: each one is a chain of timeouts on a timer of their own.
//!
//! ```text
//! cargo run --release --example idle_connections                       # about ten seconds
//! cargo run --release --example idle_connections -- --connections 500
//! cargo run --release --example idle_connections -- --quick            # 200, about two seconds
//! ```

use hashed_wheel::{HashedWheelTimer, Timeout, TimerHandle};
use std::error::Error;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: idle_connections [--quick] [--connections N]

A TCP server on loopback closes each connection after a silence; every byte pushes its timeout out.

  --connections N    how many, instead of 8000 or as many as open files allow
  --quick            200 connections and short silences: two seconds instead of ten";

const READERS: usize = 2;
/// Descriptors left to everything else: the listener, the standard streams, what the shell opened.
const SPARE: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::read();
    let (silence, talking) = if options.quick {
        (Duration::from_millis(500), Duration::from_millis(800))
    } else {
        (Duration::from_secs(2), Duration::from_secs(6))
    };
    let limit = descriptor_limit();
    let connections = options
        .connections
        .min(limit.saturating_sub(SPARE) / 2)
        .max(1);
    println!(
        "{connections} connections (two of {limit} open files each), closed after {silence:?} of silence"
    );

    let timer = HashedWheelTimer::new(Duration::from_millis(10), 1024);
    let server = Arc::new(Server::new(&timer, silence));
    let address = server.listen(connections)?;
    let chatter = HashedWheelTimer::new(Duration::from_millis(5), 1024);
    let clients = server.connect(address, connections, talking, &chatter.handle())?;
    let connected = server.now();
    server
        .all_connected
        .store(connected.as_nanos() as u64, Relaxed);
    println!("all connected after {:.2} s\n", connected.as_secs_f64());

    println!("  time     open  resets/s   closed  closed late: median    p99     max");
    let mut before = (server.now(), 0);
    let mut waiting = 3 * (talking + silence).as_secs() + 30;
    while server.closed.load(Relaxed) < connections && waiting > 0 {
        thread::sleep(Duration::from_millis(if options.quick {
            250
        } else {
            1000
        }));
        waiting -= 1;
        let (now, resets) = (server.now(), server.resets.load(Relaxed));
        let milliseconds = now.saturating_sub(before.0).as_millis().max(1) as u64;
        let rate = (resets - before.1) * 1000 / milliseconds;
        server.print(now, rate, connections);
        before = (now, resets);
    }

    server.done.store(true, Relaxed);
    let saw_the_end = clients.iter().filter(|client| at_end(client)).count();
    let stats = timer.stats();
    println!(
        "\n{} closed by the server after their silence; {saw_the_end} of {connections} clients saw the end",
        server.closed.load(Relaxed)
    );
    println!(
        "timeouts: {} scheduled, {} resets, {} fired, {} wake-ups of the timer's thread",
        stats.scheduled,
        server.resets.load(Relaxed),
        stats.expired,
        stats.wakeups
    );
    let cut_off = server.cut_off.load(Relaxed);
    if cut_off > 0 {
        println!(
            "{cut_off} were held up (a busy machine?) and cut off before they meant to be silent"
        );
    }
    chatter.stop()?;
    timer.stop()?;
    if server.closed.load(Relaxed) != connections || saw_the_end != connections {
        return Err("a connection was left open".into());
    }
    Ok(())
}

/// The server: accepts, reads, and closes what is silent; with what the clients share.
struct Server {
    started: Instant,
    timer: TimerHandle,
    silence: Duration,
    accepted: AtomicUsize,
    resets: AtomicU64,
    closed: AtomicUsize,
    /// The lateness of each closed connection.
    lateness: Mutex<Vec<Duration>>,
    /// When the last client was connected, in nanoseconds since the start: the clients' show of
    /// falling silent begins there.
    all_connected: AtomicU64,
    /// Clients that found their connection closed when they wanted to speak.
    cut_off: AtomicUsize,
    done: AtomicBool,
}

/// The data that a connection's reader and its timeout share.
struct Link {
    stream: TcpStream,
    /// The time of the last byte, in nanoseconds since the server's start.
    heard: AtomicU64,
}

struct Connection {
    link: Arc<Link>,
    idle: Timeout,
}

impl Server {
    fn new(timer: &HashedWheelTimer, silence: Duration) -> Self {
        Server {
            started: Instant::now(),
            timer: timer.handle(),
            silence,
            accepted: AtomicUsize::new(0),
            resets: AtomicU64::new(0),
            closed: AtomicUsize::new(0),
            lateness: Mutex::default(),
            all_connected: AtomicU64::new(u64::MAX),
            cut_off: AtomicUsize::new(0),
            done: AtomicBool::new(false),
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Starts the thread that accepts `expected` connections and deals them out to the readers.
    fn listen(self: &Arc<Self>, expected: usize) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let mut readers = Vec::new();
        for _ in 0..READERS {
            let (sender, incoming) = mpsc::channel();
            let server = Arc::clone(self);
            thread::spawn(move || server.read(&incoming));
            readers.push(sender);
        }
        let server = Arc::clone(self);
        thread::spawn(move || {
            for (stream, reader) in listener
                .incoming()
                .zip(readers.iter().cycle())
                .take(expected)
            {
                match stream.and_then(|stream| server.accept(stream)) {
                    // The reader lives as long as this thread may send to it.
                    Ok(connection) => drop(reader.send(connection)),
                    Err(error) => eprintln!("not accepted: {error}"),
                }
            }
        });
        Ok(address)
    }

    /// Connects the clients, never so many ahead of the server that its backlog overflows, and
    /// lets them talk.
    fn connect(
        self: &Arc<Self>,
        address: SocketAddr,
        connections: usize,
        talking: Duration,
        chatter: &TimerHandle,
    ) -> Result<Vec<Arc<TcpStream>>, Box<dyn Error>> {
        let mut clients = Vec::with_capacity(connections);
        let patience = Instant::now() + Duration::from_secs(60);
        while clients.len() < connections || self.accepted.load(Relaxed) < connections {
            if Instant::now() > patience {
                return Err("the server did not accept them all".into());
            }
            if clients.len() == connections || clients.len() - self.accepted.load(Relaxed) > 64 {
                thread::sleep(Duration::from_micros(100));
                continue;
            }
            let client = Arc::new(TcpStream::connect(address)?);
            client.set_nonblocking(true)?;
            clients.push(Arc::clone(&client));
            let chance = mix(clients.len() as u64);
            let talks = talking * (chance % 1000) as u32 / 1000;
            Talker {
                server: Arc::clone(self),
                client,
                talks,
                chance,
            }
            .pause(chatter);
        }
        Ok(clients)
    }

    fn accept(self: &Arc<Self>, stream: TcpStream) -> io::Result<Connection> {
        stream.set_nonblocking(true)?;
        let heard = AtomicU64::new(self.now().as_nanos() as u64);
        let link = Arc::new(Link { stream, heard });
        let close = {
            let (server, link) = (Arc::clone(self), Arc::clone(&link));
            move |_: &Timeout| server.close(&link)
        };
        let idle = self
            .timer
            .new_timeout(close, self.silence)
            .map_err(io::Error::other)?;
        self.accepted.fetch_add(1, Relaxed);
        Ok(Connection { link, idle })
    }

    /// The task of an idle timeout. Shutting the socket down is enough: its reader then meets the
    /// end of the stream and lets go of it.
    fn close(&self, link: &Link) {
        let deadline = Duration::from_nanos(link.heard.load(Relaxed)) + self.silence;
        let late = self.now().saturating_sub(deadline);
        self.lateness
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(late);
        // An error means that the other side was faster.
        let _ = link.stream.shutdown(Shutdown::Both);
    }

    /// A reader: asks each of its connections in turn, until all are done.
    fn read(&self, incoming: &Receiver<Connection>) {
        let mut connections = Vec::new();
        while !self.done.load(Relaxed) {
            connections.extend(incoming.try_iter());
            connections.retain(|connection| self.hear(connection));
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Reads what there is; false if the connection is over.
    fn hear(&self, Connection { link, idle }: &Connection) -> bool {
        let mut buffer = [0; 512];
        match (&link.stream).read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Ok(length) if length > 0 => {
                let now = self.now();
                // False if the silence was over in this very moment.
                if idle.reset(self.silence) {
                    link.heard.store(now.as_nanos() as u64, Relaxed);
                    self.resets.fetch_add(1, Relaxed);
                }
                return true;
            }
            _ => {}
        }
        // The end of the stream, or an error. If the timeout is still pending the client left
        // first, which is not what happens here; `cancel` settles who closes.
        if !idle.cancel() {
            self.closed.fetch_add(1, Relaxed);
        }
        false
    }

    fn print(&self, now: Duration, rate: u64, connections: usize) {
        let mut lateness = self.lateness.lock().unwrap_or_else(PoisonError::into_inner);
        lateness.sort_unstable();
        let at = |share: usize| {
            let index = lateness.len().saturating_sub(1) * share / 100;
            lateness.get(index).map_or("-".into(), |late| {
                format!("{:.1} ms", late.as_secs_f64() * 1e3)
            })
        };
        let closed = self.closed.load(Relaxed);
        println!(
            "{:>5.1} s {:>7} {rate:>9} {closed:>8} {:>20} {:>7} {:>7}",
            now.as_secs_f64(),
            connections - closed,
            at(50),
            at(99),
            at(100)
        );
    }
}

/// A client: says something now and then, until it falls silent.
struct Talker {
    server: Arc<Server>,
    client: Arc<TcpStream>,
    /// The time that it talks after all are connected.
    talks: Duration,
    chance: u64,
}

impl Talker {
    /// Waits for something between 10 % and 60 % of the allowed silence, and speaks.
    fn pause(mut self, timer: &TimerHandle) {
        self.chance = mix(self.chance);
        let pause = self.server.silence * (100 + self.chance % 500) as u32 / 1000;
        let all_connected = Duration::from_nanos(self.server.all_connected.load(Relaxed));
        if self.server.now() + pause > all_connected + self.talks {
            return;
        }
        if let Err(rejected) = timer.new_timeout(move |timeout| self.speak(&timeout.timer()), pause)
        {
            eprintln!("a client is struck dumb: {rejected}");
        }
    }

    fn speak(self, timer: &TimerHandle) {
        match (&*self.client).write_all(b"still here\n") {
            Ok(()) => self.pause(timer),
            Err(_) => drop(self.server.cut_off.fetch_add(1, Relaxed)),
        }
    }
}

/// Returns `true` if the server has closed this client's connection.
fn at_end(mut client: &TcpStream) -> bool {
    match client.read(&mut [0]) {
        Ok(length) => length == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// The number of files that this process may open. The shell knows; without one, a low guess.
fn descriptor_limit() -> usize {
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -n"])
        .output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    match text.as_deref() {
        Ok("unlimited") => usize::MAX,
        Ok(number) => number.parse().unwrap_or(256),
        Err(_) => 256,
    }
}

/// Chance that is the same in every run (the mixing step of `SplitMix64`).
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

struct Options {
    quick: bool,
    connections: usize,
}

impl Options {
    fn read() -> Self {
        let (mut quick, mut connections) = (false, None);
        let mut options = std::env::args().skip(1);
        while let Some(option) = options.next() {
            match option.as_str() {
                "--quick" => quick = true,
                "--connections" => {
                    let number = options.next().and_then(|number| number.parse().ok());
                    connections = Some(number.filter(|number| *number > 0).unwrap_or_else(|| {
                        usage("--connections wants a number, 1 or more");
                    }));
                }
                "--help" | "-h" => {
                    println!("{USAGE}");
                    std::process::exit(0);
                }
                _ => usage(&format!("unknown option `{option}`")),
            }
        }
        Options {
            quick,
            connections: connections.unwrap_or(if quick { 200 } else { 8_000 }),
        }
    }
}

fn usage(mistake: &str) -> ! {
    eprintln!("{mistake}\n{USAGE}");
    std::process::exit(2);
}
