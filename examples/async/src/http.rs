//! A small client for HTTP/1.1 on loopback, for examples that show what a server does.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;

/// One connection, for one request after the other.
#[derive(Debug)]
pub struct Connection(BufStream<TcpStream>);

/// What a server has answered.
#[derive(Debug)]
pub struct Answer {
    /// As `200 OK`.
    pub status: String,
    headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    /// A header, by its name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl Connection {
    /// # Errors
    /// If nobody listens there.
    pub async fn open(address: SocketAddr) -> io::Result<Connection> {
        Ok(Connection(BufStream::new(
            TcpStream::connect(address).await?,
        )))
    }

    /// Asks for `path`, with more headers, each with its end of line.
    ///
    /// # Errors
    /// If the connection breaks, or the answer is none that this client knows.
    pub async fn get(&mut self, path: &str, headers: &str) -> io::Result<Answer> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        self.0.write_all(request.as_bytes()).await?;
        self.0.flush().await?;
        let status = self.line().await?;
        let status = status.strip_prefix("HTTP/1.1 ").ok_or_else(not_http)?;
        let mut answer = Answer {
            status: status.to_owned(),
            headers: Vec::new(),
            body: String::new(),
        };
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(not_http)?;
            let header = (name.to_lowercase(), value.trim().to_owned());
            answer.headers.push(header);
        }
        let length = answer
            .header("content-length")
            .and_then(|text| text.parse().ok());
        let mut body = vec![0; length.ok_or_else(not_http)?];
        self.0.read_exact(&mut body).await?;
        answer.body = String::from_utf8(body).map_err(|_| not_http())?;
        Ok(answer)
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).await?;
        Ok(line.trim_end().to_owned())
    }

    /// Waits for the server to close the connection. `false` if it says something instead.
    pub async fn closed(&mut self) -> bool {
        self.0.read_u8().await.is_err()
    }
}

fn not_http() -> io::Error {
    io::Error::other("this is no answer of HTTP/1.1 with a length")
}

/// The output of a future, and how long it took.
pub async fn timed<F: Future>(future: F) -> (F::Output, Duration) {
    let begun = Instant::now();
    (future.await, begun.elapsed())
}
