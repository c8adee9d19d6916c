//! The choice of TLS is the caller's, for both connections.
//!
//! The connector here does no more than count and pass on, so what it talks to is no server with TLS but a gate in front of one: it agrees to the request for TLS, and
//! then passes everything on.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::postgres::Socket;
use ::postgres::config::SslMode;
use ::postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::*;
use crate::Outcome;

/// Counts what it is asked for.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicU32>);

impl MakeTlsConnect<Socket> for Counting {
    type Stream = Plain;
    type TlsConnect = Counting;
    type Error = Infallible;

    fn make_tls_connect(&mut self, _: &str) -> Result<Counting, Infallible> {
        Ok(self.clone())
    }
}

impl TlsConnect<Socket> for Counting {
    type Stream = Plain;
    type Error = Infallible;
    type Future = Ready<Result<Plain, Infallible>>;

    fn connect(self, stream: Socket) -> Self::Future {
        self.0.fetch_add(1, Ordering::Relaxed);
        ready(Ok(Plain(stream)))
    }
}

struct Plain(Socket);

impl TlsStream for Plain {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Plain {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Plain {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// The port of a gate that agrees to TLS.
fn gate(server: &Server) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let behind = server.folder().join(".s.PGSQL.5432");
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = UnixStream::connect(&behind).unwrap();
            std::thread::spawn(move || pass(client, server));
        }
    });
    port
}

fn pass(mut client: TcpStream, server: UnixStream) {
    // Length 8, number 80877103.
    let mut request = [0; 8];
    client.read_exact(&mut request).unwrap();
    assert_eq!(request, [0, 0, 0, 8, 4, 210, 22, 47], "a request for TLS");
    client.write_all(b"S").unwrap();
    let (mut to_client, mut from_server) =
        (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_server, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
    });
    let mut server = server;
    let _ = std::io::copy(&mut client, &mut server);
    let _ = server.shutdown(Shutdown::Both);
}

#[test]
fn every_connection_uses_the_callers_connector() {
    let Some(table) = Table::new() else { return };
    let port = gate(Server::shared().unwrap());
    let mut config = ::postgres::Config::new();
    config
        .host("127.0.0.1")
        .port(port)
        .user("postgres")
        .dbname("postgres")
        .ssl_mode(SslMode::Require);
    let connector = Counting::default();
    let timer = DurableTimer::builder()
        .on("mail", |_| Outcome::Done)
        .table_prefix(&table.prefix)
        .open_postgres_with(config.clone(), connector.clone())
        .unwrap();
    timer.job("mail").after(Duration::ZERO).unwrap();
    eventually("the job", || timer.pending().unwrap() == 0);
    eventually("all connections", || {
        connector.0.load(Ordering::Relaxed) == 3
    });
    timer.stop().unwrap();
    // Without a connector the demand for TLS is an error, not a connection without it.
    let refused = DurableTimer::builder().open_postgres_with(config, NoTls);
    let Err(Error::Store(error)) = refused else {
        panic!()
    };
    assert!(error.to_string().contains("cannot connect"), "{error}");
}
