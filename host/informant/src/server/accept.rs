//! Accepts connections and serves each in a task.

use std::convert::Infallible;
use std::error::Error as _;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::Uid;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt as _;

use super::connections::{AnswerBody, ConnectionPermit, Connections};
use super::slow_reader::SlowReaderTimeout;
use super::{Bound, ConnectionLimits, HEAD_BYTES_MAX};
use crate::metrics::{ConnectionEnd, ListenerMetrics};
use crate::sync::lock;

/// How long to wait when the system has no descriptor for a connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How long a connection may wait for its request although the system has no descriptor for another one.
const SPARED_WITHOUT_DESCRIPTORS: Duration = Duration::from_secs(1);

/// How often the log says that connections cannot be accepted.
const ACCEPT_LOG_PERIOD: Duration = Duration::from_secs(60);

/// The answer to HTTP where TLS is required.
const NEEDS_TLS: &str = "HTTP/1.0 400 Bad Request\r\ncontent-type: text/plain\r\n\r\n\
    this port requires TLS: use https://\n";

struct Server {
    routes: Router,
    limits: ConnectionLimits,
    connections: Connections,
    metrics: ListenerMetrics,
    spare: SpareDescriptor,
}

/// Where connections come from.
pub(super) enum Listener {
    Tcp(TcpListener, Option<TlsAcceptor>),
    Local(UnixListener, Uid),
}

/// An accepted connection.
enum Accepted {
    Tcp(TcpStream, Option<TlsAcceptor>),
    Local(UnixStream),
}

impl Listener {
    /// Needs a runtime.
    pub(super) fn new(bound: Bound) -> io::Result<Self> {
        Ok(match bound {
            Bound::Tcp(listener, tls) => Self::Tcp(TcpListener::from_std(listener)?, tls),
            Bound::Local(listener, user) => Self::Local(UnixListener::from_std(listener)?, user),
        })
    }

    /// The next connection. None: it is of another user.
    async fn accept(&self) -> io::Result<Option<Accepted>> {
        match self {
            Self::Tcp(listener, tls) => Ok(Some(Accepted::Tcp(listener.accept().await?.0, tls.clone()))),
            Self::Local(listener, user) => {
                let (socket, _) = listener.accept().await?;
                let is_own = (socket.peer_cred()).is_ok_and(|peer| peer.uid() == user.as_raw());
                Ok(is_own.then_some(Accepted::Local(socket)))
            }
        }
    }
}

/// Serves until dropped.
pub(super) async fn serve(listener: Listener, routes: Router, limits: ConnectionLimits, metrics: ListenerMetrics) {
    let server = Arc::new(Server {
        routes,
        limits,
        connections: Connections::new(limits, metrics.clone()),
        metrics,
        spare: SpareDescriptor::default(),
    });
    server.spare.refill();
    let mut logged: Option<Instant> = None;
    loop {
        match listener.accept().await {
            Ok(None) => {}
            Ok(Some(socket)) => {
                server.clone().start(socket);
                // Lets the new connection read its request, and one that was replaced release its descriptor.
                tokio::task::yield_now().await;
            }
            Err(error) if concerns_one_connection(&error) => {}
            Err(error) => {
                server.metrics.accept_failed();
                if logged.is_none_or(|at| at.elapsed() >= ACCEPT_LOG_PERIOD) {
                    logged = Some(Instant::now());
                    tracing::warn!(server = server.metrics.server(), %error, code = "file-descriptors", "connections cannot be accepted");
                }
                server.make_room().await;
            }
        }
    }
}

/// Errors of a connection that ended before it was accepted.
fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

/// A descriptor that is given up to accept one more connection when the process has no other left.
#[derive(Debug, Default)]
struct SpareDescriptor(Mutex<Option<File>>);

impl SpareDescriptor {
    fn refill(&self) {
        let mut spare = lock(&self.0);
        if spare.is_none() {
            *spare = File::open("/dev/null").ok();
        }
    }

    fn release(&self) -> bool {
        lock(&self.0).take().is_some()
    }
}

impl Server {
    fn start(self: Arc<Self>, socket: Accepted) {
        let Some(permit) = self.connections.admit() else {
            return;
        };
        tokio::spawn(async move {
            let closed = permit.closed();
            closed.run_until_cancelled(self.serve(socket, permit)).await;
            self.spare.refill();
        });
    }

    /// Frees a descriptor, or waits until another part of the process does. Without a free one the system does not look
    /// whether a connection waits, so perhaps none does: connections that may still send their request are spared.
    async fn make_room(&self) {
        if self.spare.release() || self.connections.close_longest_waiting(SPARED_WITHOUT_DESCRIPTORS) {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(ACCEPT_RETRY).await;
        }
    }

    /// Serves a connection to its end.
    async fn serve(&self, socket: Accepted, permit: ConnectionPermit) {
        let (socket, tls) = match socket {
            Accepted::Tcp(socket, tls) => (socket, tls),
            Accepted::Local(socket) => {
                let socket = SlowReaderTimeout::new(socket, self.limits.read_pause);
                return self.serve_requests(socket, permit).await;
            }
        };
        // Answers are written at once; waiting for more would only delay them.
        let _ = socket.set_nodelay(true);
        let Some(tls) = &tls else {
            let socket = SlowReaderTimeout::new(socket, self.limits.read_pause);
            return self.serve_requests(socket, permit).await;
        };
        match tokio::time::timeout(self.limits.request_wait, self.handshake(tls, socket)).await {
            Ok(Some(socket)) => self.serve_requests(socket, permit).await,
            Ok(None) => self.metrics.ended(ConnectionEnd::Handshake),
            Err(_) => self.metrics.ended(ConnectionEnd::NoRequest),
        }
    }

    /// The server's part of a TLS handshake. `None` if it failed; a client that sends HTTP without TLS gets an answer.
    async fn handshake(
        &self,
        tls: &TlsAcceptor,
        mut socket: TcpStream,
    ) -> Option<TlsStream<SlowReaderTimeout<TcpStream>>> {
        let mut first = [0];
        socket.peek(&mut first).await.ok()?;
        // The letter of a method; a handshake begins with another byte.
        if first[0].is_ascii_uppercase() {
            // What is not read would turn the end of the connection into a reset, which can overtake the answer.
            let _ = socket.read(&mut vec![0; HEAD_BYTES_MAX]).await;
            let _ = socket.write_all(NEEDS_TLS.as_bytes()).await;
            return None;
        }
        let socket = SlowReaderTimeout::new(socket, self.limits.read_pause);
        tls.accept(socket).await.ok()
    }

    /// Answers the requests of a connection to its end.
    async fn serve_requests(&self, socket: impl AsyncRead + AsyncWrite + Unpin, permit: ConnectionPermit) {
        let service = service_fn(|request: Request<Incoming>| {
            let (routes, answering) = (self.routes.clone(), permit.answering());
            async move {
                let Ok(response) = routes.oneshot(request.map(Body::new)).await;
                Ok::<Response<AnswerBody>, Infallible>(response.map(|body| AnswerBody {
                    body,
                    _answering: answering,
                }))
            }
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.request_wait)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(socket), service)
            .await;
        match served {
            Err(error) if is_slow_reader(&error) => self.metrics.ended(ConnectionEnd::SlowReader),
            Err(error) if error.is_timeout() => self.metrics.ended(ConnectionEnd::NoRequest),
            Ok(()) | Err(_) => {}
        }
    }
}

/// Whether the connection ended because the client did not read.
fn is_slow_reader(error: &hyper::Error) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
}
