//! HTTP/1.1 servers: sockets, connections and their limits. What is answered is in [`crate::admin`].
//!
//! ```text
//! bind ──▶ accept ──▶ connection: head within 10 s ──▶ routes ──▶ answer, read without a pause of 30 s ─┐
//!             │            ▲                                                                            │
//!             │            └──────────────── next request within 10 s ◀─────────────────────────────────┘
//!             └ at the limit: the connection that has waited longest for a request, or else the one whose answer takes
//!               longest, is closed
//! ```
//!
//! A unix socket ([`local`]) serves processes of this user only.
//!
//! With TLS a connection begins with a handshake, within 10 s, too.
//!
//! Each server has a thread of its own, so that neither informers nor another server's answers delay it.

mod accept;
mod bind;
mod connections;
mod local;
mod slow_reader;
mod tls;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use axum::Router;
use rustix::process::{Uid, geteuid};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::{CancellationToken, DropGuard};

use accept::Listener;
pub(crate) use bind::bind;
use local::SocketFile;
pub(crate) use local::{LocalSocket, SocketProblem};
pub(crate) use tls::{Certificate, CertificateFiles, CertificateProblem, ServerIdentity};

use crate::metrics::ServerMetrics;

/// How long a request's head may take to arrive, and how long a connection may stay open without a request. A TLS
/// handshake may take as long before that.
pub(crate) const REQUEST_WAIT_MAX: Duration = Duration::from_secs(10);

/// How long a client may take to read the next bytes of an answer. An answer holds snapshots, which keep replaced
/// objects in memory.
pub(crate) const READ_PAUSE_MAX: Duration = Duration::from_secs(30);

/// The longest head of a request; a longer one is answered 431. A connection buffers at most this.
pub(crate) const HEAD_BYTES_MAX: usize = 32 * 1024;

/// How many threads a server has for work that may block, see [`crate::admin`].
const BLOCKING_THREADS_MAX: usize = 2;

/// How long a server waits for its clients, and how many it serves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    pub(crate) connections: usize,
    pub(crate) request_wait: Duration,
    pub(crate) read_pause: Duration,
    pub(crate) answer_spared: Duration,
}

impl ConnectionLimits {
    /// Of the health server, which answers probes.
    pub(crate) fn of_health() -> Self {
        Self {
            answer_spared: connections::HEALTH_ANSWER_SPARED,
            ..Self::default()
        }
    }
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections: connections::connections_max(),
            request_wait: REQUEST_WAIT_MAX,
            read_pause: READ_PAUSE_MAX,
            answer_spared: connections::ANSWER_SPARED,
        }
    }
}

/// A server while it runs; dropping it ends it.
#[derive(Debug)]
pub(crate) struct HttpServer {
    address: SocketAddr,
    stop: DropGuard,
}

/// A runtime that is dropped without waiting for work that blocks: such work must not hold up the server's thread, and
/// a server whose thread the system refuses is dropped where nothing may wait.
struct Background(Option<Runtime>);

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl HttpServer {
    /// Serves on a bound listener, in a thread called `name`; with `tls`, connections without it are refused.
    /// Errors: when the system refuses the thread or what its runtime needs.
    pub(crate) fn start(
        name: &'static str,
        listener: TcpListener,
        routes: Router,
        limits: ConnectionLimits,
        tls: Option<TlsAcceptor>,
        metrics: &ServerMetrics,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let listener = Bound::Tcp(listener, tls);
        let stop = start_thread(name, listener, routes, limits, metrics)?;
        Ok(Self { address, stop })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops immediately; responses that are being read are cut off.
    pub(crate) fn stop(self) {
        drop(self.stop);
    }
}

/// A server on a unix socket while it runs; dropping it ends it and removes the socket.
#[derive(Debug)]
pub(crate) struct LocalServer {
    file: SocketFile,
    _stop: DropGuard,
}

impl LocalServer {
    /// Serves processes of this user, in a thread called `name`.
    /// Errors: as for [`HttpServer::start`].
    pub(crate) fn start(
        name: &'static str,
        socket: LocalSocket,
        routes: Router,
        metrics: &ServerMetrics,
    ) -> io::Result<Self> {
        Self::start_for(geteuid(), name, socket, routes, metrics)
    }

    fn start_for(
        user: Uid,
        name: &'static str,
        socket: LocalSocket,
        routes: Router,
        metrics: &ServerMetrics,
    ) -> io::Result<Self> {
        let (listener, file) = socket.into_parts();
        let listener = Bound::Local(listener, user);
        let stop = start_thread(name, listener, routes, ConnectionLimits::default(), metrics)?;
        Ok(Self { file, _stop: stop })
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }
}

/// A bound socket, and who may use it: over TCP everybody, with TLS if it is configured; locally one user.
enum Bound {
    Tcp(TcpListener, Option<TlsAcceptor>),
    Local(UnixListener, Uid),
}

/// Serves in a thread until the guard is dropped.
fn start_thread(
    name: &'static str,
    listener: Bound,
    routes: Router,
    limits: ConnectionLimits,
    metrics: &ServerMetrics,
) -> io::Result<DropGuard> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_name(name)
        .enable_all()
        .build()?;
    let listener = {
        let _entered = runtime.enter();
        Listener::new(listener)?
    };
    let runtime = Background(Some(runtime));
    let stop = CancellationToken::new();
    let (stopped, metrics) = (stop.clone(), metrics.of(name));
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let served = stopped.run_until_cancelled_owned(accept::serve(listener, routes, limits, metrics));
        runtime.0.as_ref().map(|runtime| runtime.block_on(served));
    })?;
    Ok(stop.drop_guard())
}

#[cfg(test)]
mod tests;
