//! A hyper server on loopback whose header timeout is on a wheel, and clients for it: good ones, and
//! one that never finishes its headers.

use hashed_wheel::TimerHandle;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};

const ANSWER: &str = "hello";

/// Starts a server in the current tokio runtime. A connection whose next request's headers are not
/// complete `header_timeout` after it began to wait for them is closed.
///
/// # Errors
/// If no port can be had.
pub async fn start(timer: TimerHandle, header_timeout: Duration) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let mut http = http1::Builder::new();
        http.timer(timer).header_read_timeout(header_timeout);
        while let Ok((stream, _)) = listener.accept().await {
            let connection = http.serve_connection(TokioIo::new(stream), service_fn(answer));
            // An error is a client that is gone, or was cut off.
            tokio::spawn(connection);
        }
    });
    Ok(address)
}

async fn answer(_: Request<Incoming>) -> Result<Response<String>, Infallible> {
    Ok(Response::new(ANSWER.to_owned()))
}

/// Sends `requests` good requests over one connection, one after the other; how many were answered.
///
/// # Errors
/// If the connection breaks.
pub async fn good_client(address: SocketAddr, requests: u32) -> io::Result<u32> {
    let mut stream = BufStream::new(TcpStream::connect(address).await?);
    let mut answered = 0;
    for _ in 0..requests {
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .await?;
        stream.flush().await?;
        answered += u32::from(read_answer(&mut stream).await?);
    }
    Ok(answered)
}

/// Reads one answer to its end; whether it is the right one.
async fn read_answer(stream: &mut BufStream<TcpStream>) -> io::Result<bool> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let mut body = [0; ANSWER.len()];
    stream.read_exact(&mut body).await?;
    Ok(head.starts_with(b"HTTP/1.1 200 OK\r\n") && body == ANSWER.as_bytes())
}

/// Connects and sends one byte of a header every `pause`, for ever; how long the server puts up
/// with that.
///
/// # Errors
/// If there is no connection to begin with.
pub async fn endless_client(address: SocketAddr, pause: Duration) -> io::Result<Duration> {
    let start = Instant::now();
    let mut stream = TcpStream::connect(address).await?;
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Endless: ")
        .await?;
    let (mut reader, mut writer) = stream.split();
    let drip = async {
        while writer.write_all(b"x").await.is_ok() {
            tokio::time::sleep(pause).await;
        }
    };
    let end = async {
        // The end of the stream, or a reset: cut off either way.
        let _ = reader.read_to_end(&mut Vec::new()).await;
    };
    smol::future::or(drip, end).await;
    Ok(start.elapsed())
}
