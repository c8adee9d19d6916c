//! The service as a process: opening, listening, signals, the end.
//!
//! | module | |
//! |---|---|
//! | [`accept`], [`phase`] | connections: how many, how long, with TLS |
//! | [`guard`] | who may ask: host, origin, token; the log of requests |
//! | [`limits`] | descriptors of this process, and what they are used for |
//! | [`health`] | does the store work? |

mod accept;
pub mod guard;
pub mod health;
mod limits;
mod phase;

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashed_wheel::{HashedWheelTimer, TimerHandle};
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio_rustls::rustls::ServerConfig;

use crate::api::{self, App};
use crate::call::Caller;
use crate::call::allowed::Allowed;
use crate::call::resolve::Resolver;
use crate::deliver::{Deliverer, PutOff};
use crate::hosts::Hosts;
use crate::log::{self, Level};
use crate::metrics::Metrics;
use crate::options::Options;
use crate::queue::Queue;
use crate::secrets::{Reloaded, SigningKeys, Tokens};
use crate::tls;

use self::health::Health;

/// Exit code when the store failed.
pub const STORE_FAILED: u8 = 3;

/// Runs the service until it is told to stop. The exit code.
pub fn serve(options: &Options) -> Result<u8, Box<dyn Error>> {
    log::start(options.log);
    let limits = limits::apply(options);
    let tokens = Arc::new(Reloaded::open(&options.token_files, Tokens::load)?);
    let keys = Arc::new(Reloaded::open(
        &options.signing_key_files,
        SigningKeys::load,
    )?);
    let certificate = match (&options.tls_cert, &options.tls_key) {
        (Some(cert), Some(key)) => {
            let files = [cert.clone(), key.clone()];
            Some(Arc::new(Reloaded::open(&files, load_certificate)?))
        }
        _ => None,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_io()
        .build()?;
    let wheel = HashedWheelTimer::builder()
        .tick_duration(Duration::from_millis(1))
        .ticks_per_wheel(512)
        .thread_name("delay-queue-wheel")
        .build()?;
    wheel.start()?;
    let timer = wheel.handle();
    let (cut, cutting) = watch::channel(false);
    let metrics = Arc::new(Metrics::default());
    let allowed = Allowed::new(options.allowed.clone(), &options.public_origins);
    let deliverer = Arc::new(Deliverer {
        caller: Caller::new(
            allowed.clone(),
            Resolver::new(limits.lookups),
            timer.clone(),
            tls::client(options.callback_ca.as_deref())?,
            Arc::clone(&keys),
            options.timeout,
            limits.idle,
        ),
        hosts: Hosts::new(options.rate, options.calls_per_host, limits.calls),
        // One lookup at a time for a name, and all names without an answer share the lookups that there are.
        names: Hosts::new(1000, 1, 2 * limits.lookups),
        put_off: PutOff::default(),
        metrics: Arc::clone(&metrics),
        timer: timer.clone(),
        cut: cutting,
    });
    let listener = runtime
        .block_on(tokio::net::TcpListener::bind(options.listen))
        .map_err(|error| format!("cannot listen on {}: {error}", options.listen))?;
    let address = listener.local_addr()?;
    // Before the first call.
    allowed.listens_on(address);
    let queue = Queue::open(
        options,
        runtime.handle().clone(),
        Arc::clone(&deliverer),
        limits.calls,
    )?;
    let app = Arc::new(App {
        queue,
        allowed,
        deliverer,
        metrics,
        health: Health::default(),
        guard: guard::Guard::new(
            Arc::clone(&tokens),
            options.public_origins.clone(),
            certificate.is_some(),
        ),
        timer: timer.clone(),
        body_timeout: options.body_timeout,
    });
    // Before anybody is told that it runs.
    let signals = runtime.block_on(async { Signals::caught() })?;
    announce(options, address, &limits);
    let server = accept::Server {
        app: Arc::clone(&app),
        router: api::router(Arc::clone(&app)),
        certificate: certificate.clone(),
        timer: timer.clone(),
        most: limits.connections,
        header_timeout: options.header_timeout,
        idle_timeout: options.idle_timeout,
    };
    let reload = Reload {
        tokens,
        keys,
        certificate,
    };
    let reason = runtime.block_on(run(&app, server, listener, signals, reload, options));
    let code = end(&runtime, &app, &cut, reason, options);
    // A lookup of a name cannot be given up: nobody waits for it.
    runtime.shutdown_background();
    log::flush();
    Ok(code)
}

/// Tells that it has begun, on standard output and in the log.
fn announce(options: &Options, address: SocketAddr, limits: &limits::Limits) {
    use std::io::Write as _;

    let tls = options.tls_cert.is_some();
    let scheme = if tls { "https" } else { "http" };
    let text = format!(
        "open {scheme}://{address}/\nThe jobs are in {}. Ctrl-C ends the service; they stay.\n",
        options.store()
    );
    // In one write: whoever started this may read the first line only, and close the pipe.
    let _ = std::io::stdout().write_all(text.as_bytes());
    let _ = std::io::stdout().flush();
    log::event(
        Level::Info,
        "started",
        json!({ "listen": address.to_string(), "tls": tls, "store": options.store(), "tokens": !options.token_files.is_empty(),
            "connections": limits.connections, "calls": limits.calls, "version": env!("CARGO_PKG_VERSION") }),
    );
}

fn load_certificate(files: &[PathBuf]) -> Result<ServerConfig, String> {
    tls::server(&files[0], &files[1])
}

/// What is read again at SIGHUP.
struct Reload {
    tokens: Arc<Reloaded<Tokens>>,
    keys: Arc<Reloaded<SigningKeys>>,
    certificate: Option<Arc<Reloaded<ServerConfig>>>,
}

impl Reload {
    fn reload(&self) {
        let certificate = self
            .certificate
            .as_ref()
            .map_or(Ok(()), |files| files.reload());
        for (what, result) in [
            ("tokens", self.tokens.reload()),
            ("signing keys", self.keys.reload()),
            ("certificate", certificate),
        ] {
            match result {
                Ok(()) => log::event(Level::Info, "reloaded", json!({ "what": what })),
                Err(reason) => log::event(
                    Level::Error,
                    "not_reloaded",
                    json!({ "what": what, "reason": reason }),
                ),
            }
        }
    }
}

/// Why the service ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Told,
    Store,
}

/// Serves until a signal or the store says otherwise, and then until the requests under way are answered, but not for long.
async fn run(
    app: &Arc<App>,
    server: accept::Server,
    listener: tokio::net::TcpListener,
    signals: Signals,
    reload: Reload,
    options: &Options,
) -> Reason {
    let (stop, stopping) = watch::channel(false);
    let serving = tokio::spawn(server.serve(listener, stopping));
    let watching = health::watch(Arc::clone(app), options.store_patience);
    let reason = tokio::select! {
        () = signals.told_to_stop(&reload) => Reason::Told,
        () = watching => Reason::Store,
    };
    log::event(
        Level::Info,
        "stopping",
        json!({ "reason": if reason == Reason::Told { "signal" } else { "store" } }),
    );
    app.health.stop();
    watchdog(options.grace, reason);
    let _ = stop.send(true);
    let _ = app.timer.with_timeout(serving, options.grace / 2).await;
    reason
}

/// The signals that the service answers to.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Catches them from now on: until then each ends the process.
    fn caught() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn told_to_stop(mut self, reload: &Reload) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hang_up.recv() => reload.reload(),
            }
        }
    }
}

/// Ends the process when the time is up, whatever it waits for: what was accepted is stored.
fn watchdog(grace: Duration, reason: Reason) {
    let _ = std::thread::Builder::new()
        .name("watchdog".to_owned())
        .spawn(move || {
            std::thread::sleep(grace.saturating_sub(Duration::from_millis(50)));
            log::event(
                Level::Error,
                "stopped_late",
                json!({ "grace_ms": grace.as_millis() as u64 }),
            );
            log::flush();
            let code = if reason == Reason::Store {
                STORE_FAILED
            } else {
                1
            };
            std::process::exit(i32::from(code));
        });
}

/// Waits for the calls under way, for a part of the time; then they are given up, uncharged.
fn end(
    runtime: &tokio::runtime::Runtime,
    app: &App,
    cut: &watch::Sender<bool>,
    reason: Reason,
    options: &Options,
) -> u8 {
    let timer: TimerHandle = app.timer.clone();
    let began = Instant::now();
    let cutting = {
        let (cut, wait) = (cut.clone(), options.grace * 3 / 10);
        runtime.spawn(async move {
            let _ = timer.sleep(wait).await;
            let _ = cut.send(true);
        })
    };
    let stopped = app.queue.stop();
    cutting.abort();
    let fields = json!({ "ms": began.elapsed().as_millis() as u64 });
    match (stopped, reason) {
        (Ok(()), Reason::Told) => {
            log::event(Level::Info, "stopped", fields);
            0
        }
        (stopped, _) => {
            let reason = stopped.err().map_or_else(
                || app.health.reason().unwrap_or_default(),
                |error| error.to_string(),
            );
            log::event(Level::Error, "store_failed", json!({ "reason": reason }));
            STORE_FAILED
        }
    }
}
