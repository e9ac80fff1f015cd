//! The listener: accepts connections, speaks TLS and HTTP/1.1 or HTTP/2 (`http2`) on them, and drains them at shutdown.
//!
//! Everything is bounded: the number of connections (`connections`), and the time for a TLS handshake, for the head of a
//! request, for a client that reads nothing of its response, and for one that still sends a request that is already answered.

mod connections;
mod http2;
mod listen;
mod socket;
pub mod tls;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt as _;

use crate::domain::with_causes;
use crate::http::middleware::permit_body::PermitBody;
use crate::http::middleware::read_progress::ReadProgress;
use crate::http::middleware::traffic::ClientAddress;
use crate::http::settings::ConnectionMeter;
use connections::{ConnectionSlot, Connections};
pub use listen::listen;
use socket::Socket;
pub use tls::{Tls, TlsError};

/// Timeout of the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for a client that reads nothing of what is sent to it. Even a slow client reads something now and then.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(300);
/// How long to read on after a response that was sent before the end of its request, and how long without receiving anything.
const REST_TIMEOUT: Duration = Duration::from_secs(30);
const REST_SILENCE_MAX: Duration = Duration::from_secs(5);
/// How long a connection that is told to close may stay open after its last response.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);
/// Size of a connection's read and write buffers: the head of a request must fit.
const CONNECTION_BYTES_MAX: usize = 64 << 10;
/// Pause after a connection could not be accepted, for example because there are no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

pub struct ServeOptions {
    /// Maximum connections; beyond that, the one that has been idle the longest is closed.
    pub connections_max: usize,
    pub connections: ConnectionMeter,
    /// How long a connection may stay without the complete head of its next request, even if it is idle.
    pub header_timeout: Duration,
    /// How long a client may read nothing of what is sent to it.
    pub write_timeout: Duration,
    /// Certificate and key; without them, plain HTTP.
    pub tls: Option<Arc<Tls>>,
}

/// Serves `router` until `stop` becomes true and the requests running at that time have been answered. In the meantime, new
/// requests still reach the router, which refuses them, so that clients learn at once to go elsewhere. Dropping the future
/// stops early.
pub async fn serve(listener: TcpListener, router: Router, options: ServeOptions, mut stop: watch::Receiver<bool>) {
    let connections = Connections::new(options.connections_max.max(1), Arc::clone(&options.connections));
    // Each connection from before the shutdown holds a sender; once all are dropped, the receiver ends.
    let (alive, mut all_closed) = mpsc::channel::<Infallible>(1);
    let mut alive = Some(alive);
    let shared = Arc::new(Shared { router, options, stop: stop.clone() });
    loop {
        tokio::select! {
            biased;
            _ = all_closed.recv(), if alive.is_none() => return,
            _ = stop.wait_for(|stop| *stop), if alive.is_some() => {
                tracing::info!("stopping");
                alive = None;
            }
            accepted = accept(&listener, &connections) => {
                let (stream, address, slot) = accepted;
                let connection = Connection { shared: Arc::clone(&shared), address, slot, alive: alive.clone() };
                tokio::spawn(async move {
                    let socket = Socket::new(stream);
                    let mut running = std::pin::pin!(connection.run(socket.clone()));
                    loop {
                        tokio::select! {
                            biased;
                            () = running.as_mut() => return,
                            () = connection.slot.wait_for_close_request() => if connection.slot.must_close(socket.has_unread()) {
                                return tracing::debug!(%address, "closed an idle connection to make room for another");
                            },
                        }
                    }
                });
            }
        }
    }
}

struct Shared {
    router: Router,
    options: ServeOptions,
    stop: watch::Receiver<bool>,
}

impl Shared {
    /// Waits until the server begins to stop.
    async fn stopped(&self) {
        let _ = self.stop.clone().wait_for(|stop| *stop).await;
    }
}

struct Connection {
    shared: Arc<Shared>,
    address: SocketAddr,
    slot: ConnectionSlot,
    /// None if the connection arrived after the shutdown began.
    alive: Option<mpsc::Sender<Infallible>>,
}

/// Waits for a connection, then for a slot for it.
async fn accept(listener: &TcpListener, connections: &Arc<Connections>) -> (TcpStream, SocketAddr, ConnectionSlot) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => return (stream, address, connections.enter(address.ip()).await),
            Err(error) if is_connection_error(&error) => (),
            Err(error) => {
                tracing::error!(error = with_causes(&error), "a connection cannot be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Whether the error concerns only the incoming connection.
fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(error.kind(), Kind::ConnectionRefused | Kind::ConnectionAborted | Kind::ConnectionReset)
}

impl Connection {
    async fn run(&self, socket: Socket) {
        let mut stream = TimeoutStream::new(socket.clone());
        stream.set_write_timeout(Some(self.shared.options.write_timeout));
        let stream = Box::pin(stream);
        let Some(tls) = &self.shared.options.tls else {
            let begins = tokio::select! {
                biased;
                begins = tokio::time::timeout(self.shared.options.header_timeout, socket.begins_http2()) => begins,
                // A client that has sent nothing does not delay a shutdown: `serve_http1` closes its connection.
                () = self.shared.stopped() => Ok(Ok(false)),
            };
            return match begins {
                Ok(Ok(true)) => self.serve_http2(stream, &socket).await,
                Ok(Ok(false)) => self.serve_http1(stream, &socket).await,
                Ok(Err(error)) => tracing::debug!(address = %self.address, %error, "a connection failed"),
                Err(_) => tracing::debug!(address = %self.address, "a client sent nothing"),
            };
        };
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.acceptor().accept(stream)).await {
            Ok(Ok(stream)) if stream.get_ref().1.alpn_protocol() == Some(tls::HTTP2) => self.serve_http2(stream, &socket).await,
            Ok(Ok(stream)) => self.serve_http1(stream, &socket).await,
            Ok(Err(error)) => tracing::debug!(address = %self.address, %error, "a TLS handshake failed"),
            Err(_) => tracing::debug!(address = %self.address, "a TLS handshake took too long"),
        }
    }

    async fn serve_http1(&self, stream: impl AsyncRead + AsyncWrite + Unpin, socket: &Socket) {
        let (client, work) = (ClientAddress(self.address.ip()), self.slot.request_starter());
        // Whether the last response came before the end of its request.
        let answered_early = Arc::new(AtomicBool::new(false));
        let service = service_fn(|request: Request<Incoming>| {
            let (mut request, received) = ReadProgress::track(request.map(Body::new));
            request.extensions_mut().insert(client);
            let (working, answered_early) = (work(), Arc::clone(&answered_early));
            let answering = self.shared.router.clone().oneshot(request);
            async move {
                let response = answering.await;
                answered_early.store(!received.is_complete(), Ordering::Relaxed);
                response.map(|response| response.map(|body| PermitBody::new(body, working)))
            }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(self.shared.options.header_timeout).keep_alive(self.alive.is_some());
        http.max_buf_size(CONNECTION_BYTES_MAX);
        let connection = http.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.shared.stopped(), if self.alive.is_some() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(address = %self.address, error = with_causes(&error), "a connection failed");
        }
        if answered_early.load(Ordering::Relaxed) {
            self.discard_rest(socket).await;
        }
    }

    /// Discards the rest of a request that is already answered. If the connection were closed before, the system would reset it,
    /// and a client that is still sending would get an error instead of the response.
    async fn discard_rest(&self, socket: &Socket) {
        let leaving = async {
            self.shared.stopped().await;
            tokio::time::sleep(CLOSE_TIMEOUT).await;
        };
        tokio::select! {
            _ = tokio::time::timeout(REST_TIMEOUT, socket.discard(REST_SILENCE_MAX)) => (),
            () = leaving => (),
        }
    }
}
