//! PostgreSQL, with TLS by rustls.
//!
//! The certificate of the server is always checked, with its name. Beyond loopback and sockets TLS is required unless the connection string says otherwise.

use std::error::Error;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hashed_wheel_durable::postgres::config::{Host, SslMode};
use hashed_wheel_durable::postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use hashed_wheel_durable::postgres::{Config, NoTls, Socket};
use hashed_wheel_durable::{DurableTimer, DurableTimerBuilder};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as RustlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::tls;

/// Opens the store in the database.
pub fn open(
    builder: DurableTimerBuilder,
    url: &str,
    ca: Option<&Path>,
) -> Result<DurableTimer, Box<dyn Error>> {
    let Ok(mut config) = url.parse::<Config>() else {
        // Its error knows what it may repeat.
        return Ok(builder.open_postgres(url)?);
    };
    let local = |host: &Host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    };
    if !url.contains("sslmode") && !config.get_hosts().iter().all(local) {
        config.ssl_mode(SslMode::Require);
    }
    let socket = |host: &Host| !matches!(host, Host::Tcp(_));
    if config.get_hosts().iter().all(socket) {
        return Ok(builder.open_postgres_with(config, NoTls)?);
    }
    let connector = Connector(tls::client(ca)?);
    Ok(builder.open_postgres_with(config, connector)?)
}

#[derive(Debug, Clone)]
struct Connector(Arc<ClientConfig>);

impl MakeTlsConnect<Socket> for Connector {
    type Stream = Stream;
    type TlsConnect = ConnectTo;
    type Error = io::Error;

    fn make_tls_connect(&mut self, name: &str) -> io::Result<ConnectTo> {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        Ok(ConnectTo(TlsConnector::from(Arc::clone(&self.0)), name))
    }
}

struct ConnectTo(TlsConnector, ServerName<'static>);

impl TlsConnect<Socket> for ConnectTo {
    type Stream = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let stream = self.0.connect(self.1, socket).await?;
            Ok(Stream(Box::new(stream)))
        })
    }
}

struct Stream(Box<RustlsStream<Socket>>);

impl TlsStream for Stream {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(context)
    }
}
