//! quinn's timers on a wheel: [`WheelRuntime`]. Sockets and tasks stay tokio's, whose own timers are not used.

use hashed_wheel::{Sleep, TimerHandle};
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use quinn::{AsyncTimer, AsyncUdpSocket, ClientConfig, Connection, Endpoint, EndpointConfig};
use quinn::{IdleTimeout, Runtime, ServerConfig, TokioRuntime, TransportConfig};
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

const HOST: &str = "localhost";

/// quinn's runtime: tokio, with the timeouts of every connection on a wheel. The timer has to run as long as the
/// connections do.
#[derive(Debug)]
pub struct WheelRuntime {
    timer: TimerHandle,
}

impl WheelRuntime {
    #[must_use]
    pub fn new(timer: TimerHandle) -> Self {
        Self { timer }
    }
}

impl Runtime for WheelRuntime {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(WheelTimer(self.timer.sleep_until(deadline)))
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        TokioRuntime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        self.timer.now()
    }
}

/// The one timer of a connection, which nearly every packet resets.
#[derive(Debug)]
struct WheelTimer(Sleep);

impl AsyncTimer for WheelTimer {
    fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        self.0.reset_at(deadline);
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match Pin::new(&mut self.0).poll(cx) {
            Poll::Ready(Ok(())) => Poll::Ready(()),
            // Rejected: the timer is stopped, or full until the next reset. `Ready` before the deadline would make
            // quinn ask again at once, and again.
            Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending,
        }
    }
}

/// A server and a client on loopback, both with their timeouts on one wheel.
#[derive(Debug)]
pub struct Loopback {
    server: Endpoint,
    client: Endpoint,
    trusted: Arc<RootCertStore>,
    idle_timeout: IdleTimeout,
}

impl Loopback {
    /// Must be called in a tokio runtime.
    ///
    /// # Errors
    /// If no port can be had, or the idle timeout is beyond what QUIC can say.
    pub fn new(timer: &TimerHandle, idle_timeout: Duration) -> Result<Self, Box<dyn Error>> {
        let made = rcgen::generate_simple_self_signed([HOST.to_owned()])?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let certificate = made.cert.der().clone();
        let mut trusted = RootCertStore::empty();
        trusted.add(certificate.clone())?;
        let server = ServerConfig::with_single_cert(vec![certificate], key.into())?;
        Ok(Self {
            server: endpoint(timer, Some(server))?,
            client: endpoint(timer, None)?,
            trusted: Arc::new(trusted),
            idle_timeout: idle_timeout.try_into()?,
        })
    }

    /// Both ends of a new connection, the client's first. It ends after the idle timeout, unless the client is told to send a
    /// keep-alive whenever it has been silent for so long.
    ///
    /// # Errors
    /// If the handshake fails.
    pub async fn connect(
        &self,
        keep_alive: Option<Duration>,
    ) -> Result<(Connection, Connection), Box<dyn Error>> {
        let mut transport = TransportConfig::default();
        transport
            .max_idle_timeout(Some(self.idle_timeout))
            .keep_alive_interval(keep_alive);
        let mut config = ClientConfig::with_root_certificates(Arc::clone(&self.trusted))?;
        config.transport_config(Arc::new(transport));
        let address = self.server.local_addr()?;
        let connecting = self.client.connect_with(config, address, HOST)?;
        // The handshake goes on meanwhile, in a task of quinn.
        let incoming = self.server.accept().await;
        let server = incoming.ok_or("the server's endpoint is closed")?.await?;
        Ok((connecting.await?, server))
    }
}

/// Sends a message from one end of a connection to the other; whether it has arrived as it was.
///
/// # Errors
/// If the connection breaks.
pub async fn send(
    message: &[u8],
    from: &Connection,
    to: &Connection,
) -> Result<bool, Box<dyn Error>> {
    let mut stream = from.open_uni().await?;
    stream.write_all(message).await?;
    stream.finish()?;
    let received = to.accept_uni().await?.read_to_end(message.len()).await?;
    Ok(received == message)
}

fn endpoint(timer: &TimerHandle, config: Option<ServerConfig>) -> io::Result<Endpoint> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let runtime = Arc::new(WheelRuntime::new(timer.clone()));
    Endpoint::new(EndpointConfig::default(), config, socket, runtime)
}
