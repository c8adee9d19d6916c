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
    match reach(&config) {
        Reach::Sockets => return Ok(builder.open_postgres_with(config, NoTls)?),
        Reach::Network if config.get_ssl_mode() == SslMode::Prefer => {
            config.ssl_mode(SslMode::Require);
        }
        Reach::Loopback | Reach::Network => {}
    }
    let connector = Connector(tls::client(ca)?);
    Ok(builder.open_postgres_with(config, connector)?)
}

/// The furthest place that a connection may lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Sockets,
    Loopback,
    Network,
}

fn reach(config: &Config) -> Reach {
    let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
    // The address is what is connected to; the name stands in the certificate.
    if !addresses.is_empty() {
        let here = addresses.iter().all(IpAddr::is_loopback);
        return if here {
            Reach::Loopback
        } else {
            Reach::Network
        };
    }
    let local =
        |name: &str| name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    let far = |host: &Host| matches!(host, Host::Tcp(name) if !local(name));
    match hosts {
        _ if hosts.iter().any(far) => Reach::Network,
        _ if hosts.iter().any(|host| matches!(host, Host::Tcp(_))) => Reach::Loopback,
        _ => Reach::Sockets,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_beyond_this_machine_is_told_from_what_does_not() {
        for (url, expected) in [
            ("host=/run/postgresql user=a", Reach::Sockets),
            ("postgres:///jobs?host=/run/postgresql", Reach::Sockets),
            ("postgres://a@localhost/jobs", Reach::Loopback),
            ("postgres://a@[::1]/jobs", Reach::Loopback),
            ("host=/run/postgresql,127.0.0.1 user=a", Reach::Loopback),
            ("host=db.example hostaddr=127.0.0.1 user=a", Reach::Loopback),
            ("postgres://a@db.example/jobs", Reach::Network),
            ("postgres://a:sslmode@10.0.0.1/jobs", Reach::Network),
            ("host=localhost,db.example user=a", Reach::Network),
            ("host=localhost hostaddr=10.0.0.1 user=a", Reach::Network),
            ("hostaddr=10.0.0.1 user=a", Reach::Network),
        ] {
            assert_eq!(reach(&url.parse().unwrap()), expected, "{url}");
        }
    }
}
