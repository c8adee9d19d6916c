//! A running timer in the browser: the wheel turns, buckets fill and empty, entries move from level to level.
//!
//! The program prints an address on loopback; the page behind it asks for the state of the timer ten times a
//! second. Buttons schedule a burst, cancel everything, run a slow task or exchange the wheel, and a slider sets the
//! tick. While nobody looks, the program does nothing. It ends by itself.
//!
//! ```text
//! cargo run --release --example watch                  # for ten minutes, on any free port
//! cargo run --release --example watch -- --port 7000   # on a port of your choice
//! cargo run --release --example watch -- --seconds 60  # for a minute
//! cargo run --release --example watch -- --quick       # asks itself for a second, and ends
//! ```

use hashed_wheel::{HashedWheelTimer, HierarchicalWheelTimer, Stats, Timeout, TimerHandle};
use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: watch [--port PORT] [--seconds N] [--quick]

Serves a page on loopback that shows a running timer: its wheel, its queue, its lateness.

  --port PORT    1 to 65535, instead of any port that is free
  --seconds N    ends after N seconds, 1 to 86400; without it, after 600
  --quick        reads the page itself for a second, and ends";

const PAGE: &str = include_str!("watch/page.html");

/// Buckets of the hashed wheel: few enough to be seen one by one.
const SLOTS: usize = 64;
/// Buckets of each level of the hierarchical wheel.
const WHEEL_SIZE: usize = 16;
/// Levels that are drawn: 16⁵ ticks reach far beyond the longest delay here.
const LEVELS: usize = 5;
const TICKS_MS: [u64; 6] = [5, 10, 20, 50, 100, 200];
const DEFAULT_TICK_MS: u64 = 50;
const BURST: usize = 100_000;
const MAX_PENDING: usize = 1_000_000;
const SLOW_TASK: Duration = Duration::from_millis(1500);
/// A picture is used again for so long: a hundred viewers cost no more than one.
const FRAME: Duration = Duration::from_millis(80);
/// After so long without a question nobody is looking.
const NOBODY: Duration = Duration::from_secs(2);
/// Connections served at one time; others are told to come again.
const VIEWERS: usize = 64;
/// A request is no longer than this, and no slower.
const MAX_HEAD: usize = 8 * 1024;
const PATIENCE: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(mistake) => {
            eprintln!("{mistake}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let port = options.port;
    let listener = TcpListener::bind(("127.0.0.1", port)).map_err(|error| {
        if error.kind() == io::ErrorKind::AddrInUse {
            format!("port {port} is in use: choose another, or leave --port out for a free one")
        } else {
            format!("cannot listen on 127.0.0.1:{port}: {error}")
        }
    })?;
    let address = listener.local_addr()?;
    let show = Arc::new(Show::new()?);
    let traffic = Arc::clone(&show);
    thread::spawn(move || traffic.traffic());
    let served = Arc::clone(&show);
    thread::spawn(move || accept(&listener, &served));
    if options.quick {
        return check(address);
    }
    println!(
        "open http://{address}/ in a browser (for {} s)",
        options.seconds
    );
    thread::sleep(Duration::from_secs(options.seconds));
    println!("{} s are over", options.seconds);
    Ok(())
}

// --- what is shown

/// The two wheels of the crate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Hashed,
    Hierarchical,
}

/// Dropping it stops the timer.
enum Owner {
    Hashed { _timer: HashedWheelTimer },
    Hierarchical { _timer: HierarchicalWheelTimer },
}

/// A timer and what is known about it.
struct Running {
    _owner: Owner,
    handle: TimerHandle,
    kind: Kind,
    tick: Duration,
    started: Instant,
    /// FALLBACK for `for_each_pending` and `cancel_all`: see [`look`] and [`Show::cancel_all`].
    scheduled: Vec<(Timeout, Instant)>,
}

impl Running {
    fn new(kind: Kind, tick_ms: u64) -> Result<Running, Box<dyn Error>> {
        let tick = Duration::from_millis(tick_ms);
        let (owner, handle) = match kind {
            Kind::Hashed => {
                let settings = HashedWheelTimer::builder().ticks_per_wheel(SLOTS);
                let settings = settings.max_pending_timeouts(MAX_PENDING);
                let timer = settings.tick_duration(tick).build()?;
                let handle = timer.handle();
                (Owner::Hashed { _timer: timer }, handle)
            }
            Kind::Hierarchical => {
                let settings = HierarchicalWheelTimer::builder().wheel_size(WHEEL_SIZE);
                let settings = settings.max_pending_timeouts(MAX_PENDING);
                let timer = settings.tick_duration(tick).build()?;
                let handle = timer.handle();
                (Owner::Hierarchical { _timer: timer }, handle)
            }
        };
        handle.start()?;
        Ok(Running {
            _owner: owner,
            handle,
            kind,
            tick,
            started: Instant::now(),
            scheduled: Vec::new(),
        })
    }

    /// Whether the timer has taken it.
    fn schedule(&mut self, delay: Duration) -> bool {
        let Ok(timeout) = self.handle.new_timeout(|_| {}, delay) else {
            return false;
        };
        self.scheduled.push((timeout, Instant::now() + delay));
        true
    }
}

/// A pending timeout, as far as the picture needs it.
#[derive(Clone, Copy)]
struct Seen {
    due_tick: u64,
}

/// The tick that the hand stands at, and every pending timeout.
///
/// FALLBACK. This is the one place that will use `Stats::tick` and `for_each_pending`, which the crate does not
/// have yet. Until then the program remembers what it has scheduled, asks each timeout whether it is
/// still pending, and counts ticks by the clock. With them, all of this becomes:
///
/// ```text
/// running.handle.for_each_pending(|it| seen.push(Seen { due_tick: it.due_tick }));
/// (running.handle.stats().tick, seen)
/// ```
fn look(running: &mut Running) -> (u64, Vec<Seen>) {
    let ticks = |time: Duration| time.as_nanos().div_ceil(running.tick.as_nanos()) as u64;
    let started = running.started;
    running
        .scheduled
        .retain(|(timeout, _)| !timeout.is_expired() && !timeout.is_cancelled());
    let seen = running.scheduled.iter().map(|(_, deadline)| Seen {
        due_tick: ticks(deadline.saturating_duration_since(started)),
    });
    let seen = seen.collect();
    (ticks(started.elapsed()).saturating_sub(1), seen)
}

/// Everything that the threads of this program share.
struct Show {
    running: Mutex<Running>,
    frame: Mutex<Option<(Instant, Arc<str>)>>,
    /// When somebody has looked last.
    looked: Mutex<Instant>,
    somebody: Condvar,
    viewers: AtomicUsize,
}

/// A panic elsewhere leaves nothing half done here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Show {
    fn new() -> Result<Show, Box<dyn Error>> {
        Ok(Show {
            running: Mutex::new(Running::new(Kind::Hashed, DEFAULT_TICK_MS)?),
            frame: Mutex::new(None),
            looked: Mutex::new(Instant::now()),
            somebody: Condvar::new(),
            viewers: AtomicUsize::new(0),
        })
    }

    /// Something to look at: timeouts of a tenth of a second to twelve seconds, some of them cancelled. Waits
    /// while nobody looks.
    fn traffic(&self) {
        let mut random = 0x9E37_79B9_7F4A_7C15_u64;
        let mut below = |limit: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % limit
        };
        loop {
            let mut looked = lock(&self.looked);
            while looked.elapsed() > NOBODY {
                let waited = self.somebody.wait(looked);
                looked = waited.unwrap_or_else(PoisonError::into_inner);
            }
            drop(looked);
            let mut running = lock(&self.running);
            for _ in 0..20 {
                // Short delays more often than long ones.
                let longest = 100 << below(8);
                running.schedule(Duration::from_millis(100 + below(longest)));
            }
            let count = running.scheduled.len() as u64;
            for _ in 0..5 {
                if count > 0 {
                    running.scheduled[below(count) as usize].0.cancel();
                }
            }
            drop(running);
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn somebody_looks(&self) {
        *lock(&self.looked) = Instant::now();
        self.somebody.notify_all();
    }

    /// The state as JSON, at most [`FRAME`] old.
    fn state(&self) -> Arc<str> {
        let mut frame = lock(&self.frame);
        if let Some((made, text)) = &*frame {
            if made.elapsed() < FRAME {
                return Arc::clone(text);
            }
        }
        let text: Arc<str> = draw(&mut lock(&self.running)).into();
        *frame = Some((Instant::now(), Arc::clone(&text)));
        text
    }

    /// Another timer in the place of the one that runs.
    fn replace(&self, kind: Option<Kind>, tick_ms: Option<u64>) -> Result<(), Box<dyn Error>> {
        let mut running = lock(&self.running);
        let kind = kind.unwrap_or(running.kind);
        let tick_ms = tick_ms.unwrap_or(running.tick.as_millis() as u64);
        *running = Running::new(kind, tick_ms)?;
        Ok(())
    }

    /// FALLBACK: with `TimerHandle::cancel_all`, that alone.
    fn cancel_all(&self) -> usize {
        let scheduled = std::mem::take(&mut lock(&self.running).scheduled);
        scheduled
            .iter()
            .filter(|(timeout, _)| timeout.cancel())
            .count()
    }

    /// What a button does: what to say about it, or why not.
    fn act(&self, path: &str) -> Result<String, Mistake> {
        match path.split_once('?').unwrap_or((path, "")) {
            ("/burst", "") => {
                let mut running = lock(&self.running);
                let taken = (0..BURST)
                    .take_while(|number| {
                        running.schedule(Duration::from_millis(500 + *number as u64 % 9_500))
                    })
                    .count();
                Ok(if taken < BURST {
                    format!("{taken} scheduled, then refused: at most {MAX_PENDING} may be pending")
                } else {
                    format!("{taken} scheduled, due within ten seconds")
                })
            }
            ("/cancel", "") => Ok(format!("{} cancelled", self.cancel_all())),
            ("/slow", "") => {
                let running = lock(&self.running);
                let task = |_: &Timeout| thread::sleep(SLOW_TASK);
                let taken = running.handle.new_timeout(task, Duration::ZERO);
                taken.map_err(|refused| Mistake(503, refused.to_string()))?;
                Ok(format!("a task blocks the timer thread for {SLOW_TASK:?}"))
            }
            ("/wheel", kind) => {
                let kind = match kind {
                    "hashed" => Kind::Hashed,
                    "hierarchical" => Kind::Hierarchical,
                    other => {
                        let why = format!("`{other}` is no wheel: hashed or hierarchical");
                        return Err(Mistake(400, why));
                    }
                };
                self.replace(Some(kind), None)
                    .map_err(|error| internal(&*error))?;
                Ok("another wheel, and counters from zero".to_owned())
            }
            ("/tick", text) => {
                let tick = text.parse().ok().filter(|tick| TICKS_MS.contains(tick));
                let tick = tick.ok_or_else(|| {
                    Mistake(400, format!("`{text}` is no tick: one of {TICKS_MS:?} ms"))
                })?;
                self.replace(None, Some(tick))
                    .map_err(|error| internal(&*error))?;
                Ok(format!("a tick of {tick} ms, and counters from zero"))
            }
            _ => Err(Mistake(404, format!("there is no {path} here"))),
        }
    }
}

fn internal(error: &dyn Error) -> Mistake {
    Mistake(500, error.to_string())
}

// --- the picture, as JSON

fn draw(running: &mut Running) -> String {
    let stats = running.handle.stats();
    let (tick, seen) = look(running);
    let mut text = String::from("{");
    let (name, buckets) = match running.kind {
        Kind::Hashed => ("hashed", SLOTS),
        Kind::Hierarchical => ("hierarchical", WHEEL_SIZE),
    };
    let tick_ms = running.tick.as_millis();
    let _ = write!(
        text,
        "\"wheel\":\"{name}\",\"buckets\":{buckets},\"tick_ms\":{tick_ms},\"tick\":{tick}"
    );
    // What should have fired some ticks ago by the clock, whatever the hand says: the timer thread is busy with
    // something else.
    let passed = (running.started.elapsed().as_nanos() / running.tick.as_nanos()) as u64;
    let overdue = seen.iter().filter(|it| it.due_tick + 3 < passed).count();
    let _ = write!(text, ",\"overdue\":{overdue},\"rows\":");
    match running.kind {
        Kind::Hashed => write_rows(&mut text, &ring(&seen, tick)),
        Kind::Hierarchical => write_rows(&mut text, &levels(&seen, tick)),
    }
    write_stats(&mut text, &stats);
    text.push('}');
    text
}

/// For each bucket, what is due in this turn; and what is due in a later one.
fn ring(seen: &[Seen], tick: u64) -> Vec<Vec<u32>> {
    let mut rows = vec![vec![0; SLOTS]; 2];
    for it in seen {
        let is_later = it.due_tick > tick + SLOTS as u64;
        rows[usize::from(is_later)][it.due_tick as usize % SLOTS] += 1;
    }
    rows
}

/// For each level, its buckets: the place where an entry would be filed now.
fn levels(seen: &[Seen], tick: u64) -> Vec<Vec<u32>> {
    let size = WHEEL_SIZE as u64;
    let mut rows = vec![vec![0; WHEEL_SIZE]; LEVELS];
    for it in seen {
        let mut unit = 1;
        let mut level = 0;
        while level + 1 < LEVELS && it.due_tick / unit >= tick / unit + size {
            unit *= size;
            level += 1;
        }
        rows[level][(it.due_tick / unit % size) as usize] += 1;
    }
    rows
}

fn write_rows(text: &mut String, rows: &[Vec<u32>]) {
    // Numbers and brackets are JSON already.
    let _ = write!(text, "{rows:?}");
}

fn write_stats(text: &mut String, stats: &Stats) {
    let counters = [
        ("pending", stats.pending),
        ("queued", stats.queued),
        ("filed", stats.filed),
        ("scheduled", stats.scheduled),
        ("expired", stats.expired),
        ("cancelled", stats.cancelled),
        ("rejected", stats.rejected),
        ("wakeups", stats.wakeups),
        ("bucket_visits", stats.bucket_visits),
        ("passed_over", stats.passed_over),
        ("cascaded", stats.cascaded),
        ("slow_tasks", stats.slow_tasks),
        ("bytes", stats.bytes),
    ];
    for (name, value) in counters {
        let _ = write!(text, ",\"{name}\":{value}");
    }
    let lateness = &stats.lateness;
    let times = [
        ("p50_us", lateness.p50()),
        ("p99_us", lateness.p99()),
        ("max_us", lateness.max()),
        ("longest_task_us", stats.longest_task),
    ];
    for (name, time) in times {
        let _ = write!(text, ",\"{name}\":{}", time.as_micros());
    }
    text.push_str(",\"lateness\":[");
    for (place, (latest, runs)) in lateness.buckets().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        let _ = write!(text, "{comma}[{},{runs}]", latest.as_micros());
    }
    text.push(']');
}

// --- HTTP, as much as a page needs

/// A status and the words for it.
struct Mistake(u16, String);

fn accept(listener: &TcpListener, show: &Arc<Show>) {
    for stream in listener.incoming() {
        // A viewer that was gone before it was here.
        let Ok(stream) = stream else { continue };
        let show = Arc::clone(show);
        if show.viewers.fetch_add(1, Ordering::Relaxed) >= VIEWERS {
            let busy = Mistake(
                503,
                format!("{VIEWERS} requests are being answered: come again"),
            );
            let _ = answer(&stream, Err(busy));
            show.viewers.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        thread::spawn(move || {
            // What fails here is the connection: the viewer has gone away.
            let _ = serve(&stream, &show);
            show.viewers.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

fn serve(stream: &TcpStream, show: &Show) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let reply = read_head(stream).and_then(|head| reply(&head, show));
    answer(stream, reply)
}

/// The type and the text of an answer.
type Reply = (&'static str, Arc<str>);

fn reply(head: &str, show: &Show) -> Result<Reply, Mistake> {
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let (Some(method), Some(path), Some(version)) = (words.next(), words.next(), words.next())
    else {
        return Err(Mistake(400, "this is no HTTP request".to_owned()));
    };
    if !version.starts_with("HTTP/1.") || !path.starts_with('/') {
        return Err(Mistake(400, "this is no HTTP/1 request".to_owned()));
    }
    match (method, path) {
        ("GET", "/") => Ok(("text/html; charset=utf-8", PAGE.into())),
        ("GET", "/state") => {
            show.somebody_looks();
            Ok(("application/json", show.state()))
        }
        ("GET", _) => Err(Mistake(
            404,
            format!("there is no {path} here: only / and /state"),
        )),
        ("POST", _) => show
            .act(path)
            .map(|said| ("text/plain; charset=utf-8", said.into())),
        _ => Err(Mistake(
            405,
            format!("{method} is not answered here: GET or POST"),
        )),
    }
}

/// Reads up to the empty line, for [`PATIENCE`] at most.
fn read_head(mut stream: &TcpStream) -> Result<String, Mistake> {
    let until = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|it| it == b"\r\n\r\n") {
        if head.len() > MAX_HEAD {
            let why = format!("a request may have {MAX_HEAD} bytes");
            return Err(Mistake(431, why));
        }
        let left = until.saturating_duration_since(Instant::now());
        let slow = || Mistake(408, format!("no whole request within {PATIENCE:?}"));
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return Err(slow());
        }
        match stream.read(&mut part) {
            Ok(0) => return Err(Mistake(400, "this is no whole HTTP request".to_owned())),
            Ok(count) => head.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(slow()),
        }
    }
    String::from_utf8(head).map_err(|_| Mistake(400, "this is no HTTP request".to_owned()))
}

fn answer(mut stream: &TcpStream, reply: Result<Reply, Mistake>) -> io::Result<()> {
    let (status, kind, body) = match reply {
        Ok((kind, body)) => (200, kind, body),
        Err(Mistake(status, why)) => (
            status,
            "text/plain; charset=utf-8",
            format!("{why}\n").into(),
        ),
    };
    let reason = match status {
        200 => "OK",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Bad Request",
    };
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())
}

// --- the short form

/// Does what a viewer does, and says what came back.
fn check(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    println!("the page is at http://{address}/ for a second");
    let page = ask(address, "GET", "/")?;
    println!("GET /: {} bytes", page.len());
    println!("POST /burst: {}", ask(address, "POST", "/burst")?.trim());
    for _ in 0..8 {
        ask(address, "GET", "/state")?;
        thread::sleep(Duration::from_millis(100));
    }
    println!("POST /cancel: {}", ask(address, "POST", "/cancel")?.trim());
    println!(
        "POST /wheel?hierarchical: {}",
        ask(address, "POST", "/wheel?hierarchical")?.trim()
    );
    thread::sleep(FRAME);
    let state = ask(address, "GET", "/state")?;
    println!("GET /state: {} bytes", state.len());
    Ok(())
}

fn ask(address: SocketAddr, method: &str, path: &str) -> Result<String, Box<dyn Error>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or("not an HTTP answer")?;
    if !head.starts_with("HTTP/1.1 200 ") {
        return Err(format!("{method} {path}: {head}").into());
    }
    Ok(body.to_owned())
}

// --- the command line

struct Options {
    port: u16,
    seconds: u64,
    quick: bool,
}

impl Options {
    /// `None` if help is wanted.
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
        let mut options = Options {
            port: 0,
            seconds: 600,
            quick: false,
        };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quick" => options.quick = true,
                "--help" | "-h" => return Ok(None),
                "--port" => options.port = number("--port", arguments.next(), 65_535)? as u16,
                "--seconds" => options.seconds = number("--seconds", arguments.next(), 86_400)?,
                other => return Err(format!("unknown option `{other}`")),
            }
        }
        Ok(Some(options))
    }
}

fn number(option: &str, value: Option<String>, most: u64) -> Result<u64, String> {
    let text = value.unwrap_or_default();
    let number = text
        .parse()
        .ok()
        .filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("{option} takes a number from 1 to {most}, not `{text}`"))
}
