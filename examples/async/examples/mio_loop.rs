//! An event loop on mio: a server's sockets and its timeouts in one thread. The timer has no thread of its own: the loop asks
//! it how long `poll` may wait, and gives it a turn after each. A connection that is silent for too long is closed by a timeout,
//! which every line on it resets.
//!
//! A thread beside it, the operator, schedules on the same timer while the loop sleeps in `poll`; the hook wakes the poll. In the
//! end it stops the timer, and by that the loop.
//!
//! ```text
//! cargo run -p async-examples --example mio_loop             # three seconds
//! cargo run -p async-examples --example mio_loop -- --quick  # one second
//! ```

use async_examples::options;
use hashed_wheel::{HashedWheelTimer, Timeout, TimerHandle, TimerState};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use std::collections::HashMap;
use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: mio_loop [--quick]

A server in one thread, sockets and timeouts: silent connections are closed, talking ones are kept.

  --quick    for one second instead of three";

const LISTENER: Token = Token(0);
const WAKE: Token = Token(1);
const FIRST_CONNECTION: usize = 2;

struct Connection {
    stream: TcpStream,
    idle: Timeout,
    silence: Duration,
    lines: usize,
}

#[derive(Default)]
struct Outcome {
    lines: usize,
    closed_idle: usize,
    closed_by_client: usize,
    notes: usize,
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let quick = options::quick(USAGE);
    let length = Duration::from_millis(if quick { 1000 } else { 3000 });
    let silence = length / 4;

    let mut poll = Poll::new()?;
    let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
    let (timer, mut driver) = HashedWheelTimer::builder()
        .tick_duration(Duration::from_millis(1))
        .build_driven()?;
    driver.on_wake(move || waker.wake().expect("the poll lives as long as the driver"));

    let mut listener = TcpListener::bind("127.0.0.1:0".parse()?)?;
    let address = listener.local_addr()?;
    let registry = poll.registry().try_clone()?;
    registry.register(&mut listener, LISTENER, Interest::READABLE)?;

    let clients = start_clients(address, length, silence);
    let (notes, inbox) = mpsc::channel();
    let operator = start_operator(timer.handle(), length + silence, notes);

    // Tasks run on this thread, in `turn`; they tell the loop which connection has been silent.
    let (silent, silences) = mpsc::channel::<Token>();
    let mut connections: HashMap<Token, Connection> = HashMap::new();
    let mut next_token = FIRST_CONNECTION;
    let mut outcome = Outcome::default();
    let mut events = Events::with_capacity(128);
    while timer.state() == TimerState::Started {
        let wait = driver
            .next_due()
            .map(|due| due.saturating_duration_since(Instant::now()));
        match poll.poll(&mut events, wait) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            polled => polled?,
        }
        for event in &events {
            match event.token() {
                LISTENER => {
                    while let Some(mut stream) = accept(&listener)? {
                        let token = Token(next_token);
                        next_token += 1;
                        registry.register(&mut stream, token, Interest::READABLE)?;
                        let silent = silent.clone();
                        let task = move |_: &Timeout| {
                            let _ = silent.send(token);
                        };
                        let idle = timer.new_timeout(task, silence)?;
                        let connection = Connection {
                            stream,
                            idle,
                            silence,
                            lines: 0,
                        };
                        connections.insert(token, connection);
                    }
                }
                WAKE => {} // `turn` and the state say why.
                token => {
                    let Some(connection) = connections.get_mut(&token) else {
                        continue;
                    };
                    let open = connection.read()?;
                    if !open && connection.idle.cancel() {
                        outcome.closed_by_client += 1;
                        outcome.lines += connection.lines;
                        connections.remove(&token);
                    }
                }
            }
        }
        driver.turn();
        for token in silences.try_iter() {
            if let Some(connection) = connections.remove(&token) {
                outcome.closed_idle += 1;
                outcome.lines += connection.lines;
                // The client sees the end.
                let _ = connection.stream.shutdown(Shutdown::Both);
            }
        }
        outcome.notes += inbox.try_iter().count();
    }

    let left = operator.join().expect("the operator does not panic")?;
    let cut_off: usize = clients
        .into_iter()
        .map(|client| client.join().expect("no client panics").map(usize::from))
        .sum::<io::Result<usize>>()?;
    let stats = timer.stats();
    println!("{} lines read", outcome.lines);
    println!(
        "{} connections closed after {silence:?} of silence ({cut_off} clients saw it), {} by their clients",
        outcome.closed_idle, outcome.closed_by_client
    );
    println!(
        "{} notes of the operator, {left} timeouts left at the end",
        outcome.notes
    );
    println!(
        "{} turns and {} timeouts, all in one thread",
        stats.wakeups, stats.scheduled
    );
    assert_eq!((outcome.closed_idle, cut_off), (2, 2));
    assert_eq!(outcome.closed_by_client, 2);
    assert_eq!(outcome.notes, 3);
    Ok(())
}

fn accept(listener: &TcpListener) -> io::Result<Option<TcpStream>> {
    match listener.accept() {
        Ok((stream, _)) => Ok(Some(stream)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

impl Connection {
    /// Reads what there is, and starts the silence anew. Returns `false` at the end of the stream.
    fn read(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => {
                    self.lines += buffer[..count].split(|byte| *byte == b'\n').count() - 1;
                    self.idle.reset(self.silence);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Two clients that fall silent and wait for the end, and two that talk all the time and hang up. Each returns whether it was
/// cut off.
fn start_clients(
    server: SocketAddr,
    length: Duration,
    silence: Duration,
) -> Vec<JoinHandle<io::Result<bool>>> {
    let client = move |talks: bool| -> io::Result<bool> {
        let mut stream = std::net::TcpStream::connect(server)?;
        let begin = Instant::now();
        let talk_for = if talks { length } else { silence / 2 };
        while begin.elapsed() < talk_for {
            stream.write_all(b"hello\n")?;
            thread::sleep(silence / 20);
        }
        if talks {
            return Ok(false);
        }
        // A cut connection reads as the end, or as an error.
        Ok(stream.read(&mut [0; 1]).map_or(true, |count| count == 0))
    };
    [true, false, true, false]
        .map(|talks| thread::spawn(move || client(talks)))
        .into()
}

/// Schedules notes from a thread of its own, and stops the timer after a while. Returns how many timeouts were left.
fn start_operator(
    timer: TimerHandle,
    length: Duration,
    notes: Sender<()>,
) -> JoinHandle<Result<usize, Box<dyn Error + Send + Sync>>> {
    thread::spawn(move || {
        let begin = Instant::now();
        for _ in 0..3 {
            let notes = notes.clone();
            let task = move |_: &Timeout| {
                let _ = notes.send(());
            };
            timer.new_timeout(task, length / 10)?;
            thread::sleep(length / 4);
        }
        thread::sleep(length.saturating_sub(begin.elapsed()));
        Ok(timer.stop()?.len())
    })
}
