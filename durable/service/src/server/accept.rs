//! Connections of clients: how many, how long, with TLS.
//!
//! A connection that has not sent a whole head within the time, or rests too long between two requests, is closed. When there are as many as are allowed, the next one
//! waits in the system's queue until another ends.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use hashed_wheel::TimerHandle;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use super::phase::{Phase, Watched};
use crate::api::App;
use crate::log::{self, Level};
use crate::secrets::Reloaded;

/// After an error of `accept`, such as too few descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// For the end of an answer, when the service stops.
const LAST: Duration = Duration::from_millis(100);

/// The longest head of a request, in bytes.
const MOST_HEAD: usize = 16 << 10;

/// The most headers of a request.
const MOST_HEADERS: usize = 64;

#[derive(Clone)]
pub(super) struct Server {
    pub(super) app: Arc<App>,
    pub(super) router: Router,
    pub(super) certificate: Option<Arc<Reloaded<ServerConfig>>>,
    pub(super) timer: TimerHandle,
    pub(super) most: usize,
    pub(super) header_timeout: Duration,
    pub(super) idle_timeout: Duration,
}

impl Server {
    /// Accepts connections until told to stop. Returns when the requests under way are answered.
    pub(super) async fn serve(self, listener: TcpListener, mut stopping: watch::Receiver<bool>) {
        let places = Arc::new(Semaphore::new(self.most));
        let stop = stopping.clone();
        let accepting = async {
            loop {
                let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                    return;
                };
                match listener.accept().await {
                    Ok((stream, peer)) => {
                        let (server, stop) = (self.clone(), stop.clone());
                        tokio::spawn(async move {
                            server.connection(stream, peer, stop).await;
                            drop(place);
                        });
                    }
                    Err(error) => {
                        log::event(
                            Level::Warn,
                            "accept_failed",
                            json!({ "reason": error.to_string() }),
                        );
                        let _ = self.timer.sleep(PAUSE).await;
                    }
                }
            }
        };
        tokio::select! {
            () = accepting => {}
            _ = stopping.wait_for(|stop| *stop) => {}
        }
        drop(listener);
        // Every connection has given its place back.
        let _ = places
            .acquire_many(u32::try_from(self.most).unwrap_or(u32::MAX))
            .await;
    }

    async fn connection(self, stream: TcpStream, peer: SocketAddr, stop: watch::Receiver<bool>) {
        let connections = &self.app.metrics.connections;
        connections.fetch_add(1, Ordering::Relaxed);
        let _ = stream.set_nodelay(true);
        let served = match &self.certificate {
            None => self.requests(TokioIo::new(stream), peer, stop).await,
            Some(certificate) => {
                let acceptor = TlsAcceptor::from(certificate.get());
                let mut stopped = stop.clone();
                let accepted = tokio::select! {
                    accepted = self.timer.with_timeout(acceptor.accept(stream), self.header_timeout) => accepted,
                    _ = stopped.wait_for(|stop| *stop) => {
                        connections.fetch_sub(1, Ordering::Relaxed);
                        return;
                    }
                };
                match accepted {
                    Ok(Ok(stream)) => self.requests(TokioIo::new(stream), peer, stop).await,
                    Ok(Err(error)) => Err(error.to_string()),
                    Err(error) => Err(error.to_string()),
                }
            }
        };
        connections.fetch_sub(1, Ordering::Relaxed);
        if let Err(reason) = served
            && log::enabled(Level::Debug)
        {
            let fields = json!({ "peer": peer.to_string(), "reason": reason });
            log::event(Level::Debug, "connection_closed", fields);
        }
    }

    async fn requests<T>(
        &self,
        stream: T,
        peer: SocketAddr,
        mut stop: watch::Receiver<bool>,
    ) -> Result<(), String>
    where
        T: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    {
        let phase = Phase::new();
        let inner = TowerToHyperService::new(self.router.clone());
        let noted = phase.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            noted.begin();
            let (answer, noted) = (inner.call(request), noted.clone());
            async move {
                let answer: Result<Response<Body>, Infallible> = answer.await;
                noted.end();
                answer
            }
        });
        let connection = http1::Builder::new()
            .timer(self.timer.clone())
            .header_read_timeout(None)
            .max_headers(MOST_HEADERS)
            .max_buf_size(MOST_HEAD)
            .serve_connection(Watched::new(stream, phase.clone()), service);
        let mut connection = pin!(connection);
        loop {
            let left = phase.left(self.header_timeout, self.idle_timeout);
            if left.is_some_and(|left| left.is_zero()) {
                return Err("idle, or slow".to_owned());
            }
            // The next phase may have a shorter limit than this one.
            let look = left.unwrap_or(self.idle_timeout).min(self.header_timeout);
            tokio::select! {
                ended = connection.as_mut() => return ended.map_err(|error| error.to_string()),
                _ = self.timer.sleep(look) => {}
                _ = stop.wait_for(|stop| *stop) => break,
            }
        }
        connection.as_mut().graceful_shutdown();
        if phase.is_busy() {
            return connection.await.map_err(|error| error.to_string());
        }
        // An answer may be on its way; a request that is half sent is none that was accepted.
        let _ = self.timer.with_timeout(connection, LAST).await;
        Ok(())
    }
}
