//! Connections to receivers: made to an address that was checked, kept for the next call, and never more of them idle than there are descriptors for.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::allowed::{Host, Target};

/// How long a connection is kept without a call.
const IDLE: Duration = Duration::from_secs(4);

pub(super) type Connection = SendRequest<Full<Bytes>>;

/// What a connection belongs to. By name as well: what TLS has checked is a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Place {
    https: bool,
    host: String,
    port: u16,
}

impl Place {
    pub(super) fn of(target: &Target) -> Place {
        Place {
            https: target.https,
            host: target.host.to_string(),
            port: target.port,
        }
    }
}

/// Idle connections.
#[derive(Debug)]
pub(super) struct Pool {
    state: Mutex<State>,
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    idle: HashMap<Place, Vec<(Instant, Connection)>>,
    count: usize,
}

impl Pool {
    pub(super) fn new(most: usize) -> Pool {
        Pool {
            state: Mutex::default(),
            most,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection to this place that was used last.
    pub(super) fn take(&self, place: &Place) -> Option<Connection> {
        let mut state = self.lock();
        let state = &mut *state;
        let idle = state.idle.get_mut(place)?;
        let mut found = None;
        while let Some((since, connection)) = idle.pop() {
            state.count -= 1;
            if since.elapsed() < IDLE && !connection.is_closed() {
                found = Some(connection);
                break;
            }
        }
        if idle.is_empty() {
            state.idle.remove(place);
        }
        found
    }

    pub(super) fn give(&self, place: Place, connection: Connection) {
        let mut state = self.lock();
        if state.count >= self.most {
            state.sweep();
        }
        if state.count < self.most {
            state.count += 1;
            let idle = state.idle.entry(place).or_default();
            idle.push((Instant::now(), connection));
        }
    }

    /// Closes what has been idle for too long.
    pub(super) fn sweep(&self) {
        self.lock().sweep();
    }
}

impl State {
    fn sweep(&mut self) {
        self.idle.retain(|_, idle| {
            idle.retain(|(since, connection)| since.elapsed() < IDLE && !connection.is_closed());
            !idle.is_empty()
        });
        self.count = self.idle.values().map(Vec::len).sum();
    }
}

/// Connects to the first of these addresses that lets it.
pub(super) async fn connect(
    target: &Target,
    addresses: &[IpAddr],
    tls: &Arc<ClientConfig>,
) -> io::Result<Connection> {
    let mut failed = io::Error::other("there is no address");
    for ip in addresses {
        match TcpStream::connect(SocketAddr::new(*ip, target.port)).await {
            Ok(stream) => return prepare(target, stream, tls).await,
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

async fn prepare(
    target: &Target,
    stream: TcpStream,
    tls: &Arc<ClientConfig>,
) -> io::Result<Connection> {
    stream.set_nodelay(true)?;
    if !target.https {
        return handshake(TokioIo::new(stream)).await;
    }
    let name = match &target.host {
        Host::Name(name) => ServerName::try_from(name.clone()).map_err(io::Error::other)?,
        Host::Address(ip) => ServerName::IpAddress((*ip).into()),
    };
    let stream = TlsConnector::from(Arc::clone(tls))
        .connect(name, stream)
        .await?;
    handshake(TokioIo::new(stream)).await
}

async fn handshake<T>(io: T) -> io::Result<Connection>
where
    T: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (sender, connection) = http1::Builder::new()
        .max_headers(100)
        .max_buf_size(64 << 10)
        .handshake(io)
        .await
        .map_err(io::Error::other)?;
    tokio::spawn(async move {
        // Its error is told to the call as well.
        let _ = connection.await;
    });
    Ok(sender)
}
