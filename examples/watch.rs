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
use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

#[cfg(test)]
#[path = "watch/tests.rs"]
mod tests;

const USAGE: &str = "\
usage: watch [--port PORT] [--seconds N] [--quick]

Serves a page on loopback that shows a running timer: its wheel, its queue, its lateness.

  --port PORT    1 to 65535, instead of any port that is free
  --seconds N    ends after N seconds, 1 to 86400; without it, after 600
  --quick        reads the page itself for a second, and ends";

const PAGE: &str = include_str!("watch/page.html");

/// Buckets of the hashed wheel: few enough to be seen one by one.
const BUCKETS: usize = 64;
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
/// Requests answered at one time; others wait for their turn.
const REQUESTS: usize = 128;
/// A request is no longer than this, and no slower.
const MAX_HEAD: usize = 8 * 1024;
const PATIENCE: Duration = Duration::from_secs(2);
/// A timeout that should have fired so long ago waits for the timer thread, which is blocked.
const OVERDUE: Duration = Duration::from_millis(250);
/// Timeouts of the traffic that may still be cancelled.
const RECENT: usize = 256;

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
    let listener = listen(options.port)?;
    let address = listener.local_addr()?;
    start(listener)?;
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

fn listen(port: u16) -> Result<TcpListener, String> {
    TcpListener::bind(("127.0.0.1", port)).map_err(|error| {
        if error.kind() == io::ErrorKind::AddrInUse {
            format!("port {port} is in use: choose another, or leave --port out for a free one")
        } else {
            format!("cannot listen on 127.0.0.1:{port}: {error}")
        }
    })
}

/// Runs a timer and answers requests, on threads of their own.
fn start(listener: TcpListener) -> Result<Arc<Show>, Box<dyn Error>> {
    let show = Arc::new(Show::new()?);
    let traffic = Arc::clone(&show);
    thread::spawn(move || traffic.traffic());
    let served = Arc::clone(&show);
    thread::spawn(move || accept(&listener, &served));
    Ok(show)
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
    /// The traffic's last timeouts: some of them are cancelled.
    recent: VecDeque<Timeout>,
}

impl Running {
    fn new(kind: Kind, tick_ms: u64) -> Result<Running, Box<dyn Error>> {
        let tick = Duration::from_millis(tick_ms);
        let (owner, handle) = match kind {
            Kind::Hashed => {
                let settings = HashedWheelTimer::builder().ticks_per_wheel(BUCKETS);
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
            recent: VecDeque::new(),
        })
    }

    /// Schedules a task that does nothing.
    fn schedule(&self, label: &'static str, delay: Duration) -> Option<Timeout> {
        self.handle.labelled(label).new_timeout(|_| {}, delay).ok()
    }
}

/// Everything that the threads of this program share.
struct Show {
    running: Mutex<Running>,
    frame: Mutex<Option<(Instant, Arc<str>)>>,
    /// The time of the last request.
    looked: Mutex<Option<Instant>>,
    somebody: Condvar,
    /// Requests that are being answered.
    requests: Mutex<usize>,
    answered: Condvar,
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
            looked: Mutex::new(None),
            somebody: Condvar::new(),
            requests: Mutex::new(0),
            answered: Condvar::new(),
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
            while looked.is_none_or(|last| last.elapsed() > NOBODY) {
                let waited = self.somebody.wait(looked);
                looked = waited.unwrap_or_else(PoisonError::into_inner);
            }
            drop(looked);
            let mut running = lock(&self.running);
            for _ in 0..20 {
                // Short delays more often than long ones.
                let longest = 100 << below(8);
                let delay = Duration::from_millis(100 + below(longest));
                let scheduled = running.schedule("load", delay);
                running.recent.extend(scheduled);
            }
            let excess = running.recent.len().saturating_sub(RECENT);
            running.recent.drain(..excess);
            for _ in 0..5 {
                let place = below(RECENT as u64) as usize;
                if let Some(timeout) = running.recent.get(place) {
                    timeout.cancel();
                }
            }
            drop(running);
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn somebody_looks(&self) {
        *lock(&self.looked) = Some(Instant::now());
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
        let text: Arc<str> = draw(&lock(&self.running)).into();
        *frame = Some((Instant::now(), Arc::clone(&text)));
        text
    }

    /// Another timer in the place of the one that runs.
    fn replace(&self, kind: Option<Kind>, tick_ms: Option<u64>) -> Result<(), Box<dyn Error>> {
        let mut running = lock(&self.running);
        let kind = kind.unwrap_or(running.kind);
        let tick_ms = tick_ms.unwrap_or(running.tick.as_millis() as u64);
        let before = std::mem::replace(&mut *running, Running::new(kind, tick_ms)?);
        drop(running);
        // Waits for the task that runs, while the page shows the new one.
        drop(before);
        Ok(())
    }

    /// Runs the action of a button: the message about it, or why not.
    fn act(&self, path: &str) -> Result<String, Mistake> {
        match path.split_once('?').unwrap_or((path, "")) {
            ("/burst", "") => {
                let running = lock(&self.running);
                let delays = (0..BURST).map(|number| 500 + number as u64 % 9_500);
                let taken = delays
                    .map_while(|delay| running.schedule("burst", Duration::from_millis(delay)))
                    .count();
                Ok(if taken < BURST {
                    format!("{taken} scheduled, then refused: at most {MAX_PENDING} may be pending")
                } else {
                    format!("{taken} scheduled, due within ten seconds")
                })
            }
            ("/cancel", "") => {
                let running = lock(&self.running);
                Ok(format!("{} cancelled", running.handle.cancel_all()))
            }
            ("/slow", "") => {
                let running = lock(&self.running);
                let task = |_: &Timeout| thread::sleep(SLOW_TASK);
                let handle = running.handle.labelled("slow task");
                let taken = handle.new_timeout(task, Duration::ZERO);
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

/// What lies where, and the counters of the same moment.
struct View {
    stats: Stats,
    rows: Vec<Vec<u32>>,
    overdue: u32,
    /// How many of each label are pending.
    labels: BTreeMap<&'static str, u32>,
}

/// While the lock is held, nothing is scheduled or cancelled, but timeouts fire: a timeout counts as expired if it was not pending
/// when the walk came to it.
fn view(running: &Running) -> View {
    let mut stats = running.handle.stats();
    let tick = stats.tick;
    let mut rows = match running.kind {
        Kind::Hashed => vec![vec![0; BUCKETS]; 2],
        Kind::Hierarchical => vec![vec![0; WHEEL_SIZE]; LEVELS],
    };
    // By the clock, not by the hand: that stops when the timer thread is blocked.
    let since = running.started.elapsed().saturating_sub(OVERDUE);
    let overdue_before = (since.as_nanos() / running.tick.as_nanos()) as u64;
    let (mut overdue, mut labels) = (0, BTreeMap::new());
    running.handle.for_each_pending(|pending| {
        let (row, bucket) = match running.kind {
            Kind::Hashed => on_ring(pending.due_tick, tick),
            Kind::Hierarchical => on_levels(pending.due_tick, tick),
        };
        rows[row][bucket] += 1;
        overdue += u32::from(pending.due_tick < overdue_before);
        *labels.entry(pending.label.unwrap_or("none")).or_default() += 1;
    });
    stats.pending = rows.iter().flatten().map(|&count| u64::from(count)).sum();
    stats.expired = stats.scheduled - stats.cancelled - stats.pending;
    View {
        stats,
        rows,
        overdue,
        labels,
    }
}

fn draw(running: &Running) -> String {
    let View {
        stats,
        rows,
        overdue,
        labels,
    } = view(running);
    let (name, buckets) = match running.kind {
        Kind::Hashed => ("hashed", BUCKETS),
        Kind::Hierarchical => ("hierarchical", WHEEL_SIZE),
    };
    let tick = stats.tick;
    let tick_ms = running.tick.as_millis();
    let mut text = format!(
        "{{\"wheel\":\"{name}\",\"buckets\":{buckets},\"tick_ms\":{tick_ms},\"tick\":{tick},\"overdue\":{overdue},\"rows\":"
    );
    write_rows(&mut text, &rows);
    // Labels are this program's own words, so that Rust's quotes are JSON's.
    let _ = write!(text, ",\"labels\":{labels:?}");
    write_stats(&mut text, &stats);
    text.push('}');
    text
}

/// The row and the bucket: row 0 for timeouts that are due in this revolution, row 1 for later ones.
fn on_ring(due_tick: u64, tick: u64) -> (usize, usize) {
    let is_later = due_tick > tick + BUCKETS as u64;
    (usize::from(is_later), due_tick as usize % BUCKETS)
}

/// The level and the bucket that an entry would be filed in now.
fn on_levels(due_tick: u64, tick: u64) -> (usize, usize) {
    let size = WHEEL_SIZE as u64;
    let mut unit = 1;
    let mut level = 0;
    while level + 1 < LEVELS && due_tick / unit >= tick / unit + size {
        unit *= size;
        level += 1;
    }
    (level, (due_tick / unit % size) as usize)
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
        let (from, to) = (lower_end(latest).as_micros(), latest.as_micros());
        let _ = write!(text, "{comma}[{from},{to},{runs}]");
    }
    text.push(']');
}

/// The lower end of a class of the histogram, which has eight classes for each power of two.
fn lower_end(latest: Duration) -> Duration {
    let nanos = latest.as_nanos() as u64;
    let width = 1 << nanos.max(1).ilog2().saturating_sub(3);
    Duration::from_nanos(nanos / width * width)
}

// --- HTTP, as much as a page needs

/// A status and the words for it.
#[derive(Debug)]
struct Mistake(u16, String);

fn accept(listener: &TcpListener, show: &Arc<Show>) {
    for stream in listener.incoming() {
        // A viewer that was gone before it was here.
        let Ok(stream) = stream else { continue };
        let mut requests = lock(&show.requests);
        while *requests >= REQUESTS {
            let waited = show.answered.wait(requests);
            requests = waited.unwrap_or_else(PoisonError::into_inner);
        }
        *requests += 1;
        drop(requests);
        let guard = Request(Arc::clone(show));
        // Without a thread to spare, the connection is closed.
        let _ = thread::Builder::new().spawn(move || {
            // What fails here is the connection: the viewer has gone away.
            let _ = serve(&stream, &guard.0);
        });
    }
}

/// Counted until it is dropped.
struct Request(Arc<Show>);

impl Drop for Request {
    fn drop(&mut self) {
        *lock(&self.0.requests) -= 1;
        self.0.answered.notify_one();
    }
}

fn serve(stream: &TcpStream, show: &Show) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let reply = read_head(stream).and_then(|head| reply(&head, show));
    let is_mistake = reply.is_err();
    answer(stream, reply)?;
    if is_mistake {
        hang_up(stream)?;
    }
    Ok(())
}

/// Reads what is left of a request: closing before would take the answer away again.
fn hang_up(mut stream: &TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    let mut part = [0; 1024];
    for _ in 0..64 {
        if stream.read(&mut part)? == 0 {
            break;
        }
    }
    Ok(())
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

/// Reads up to the empty line, for [`PATIENCE`] at most; what cannot be HTTP is refused at its first byte or line.
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
            Ok(count) => {
                head.extend_from_slice(&part[..count]);
                let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
                let is_whole = line.len() < head.len();
                let is_http = line.windows(8).any(|it| it == b" HTTP/1.");
                if !head[0].is_ascii_uppercase() || (is_whole && !is_http) {
                    return Err(Mistake(400, "this is no HTTP/1 request".to_owned()));
                }
            }
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
