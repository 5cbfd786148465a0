//! The server on a socket: HTTP/1.1, with or without TLS, one task per connection.
//!
//! This is the only place where the room spawns: a listener exists only where real time and real sockets do.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::faults::Ending;
use crate::faults::Filter;
use crate::server::{ApiServer, Inner};
use crate::service::ApiService;
use crate::tls::Identity;

/// How long connections have to finish their answers after the shutdown began.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(2);

/// How long a client may take for its TLS handshake.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);

/// How long to wait after the system refused a connection, for example for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How many connections may be open at once; further ones wait in the system's backlog.
pub const CONNECTIONS_MAX: usize = 4_096;

impl ApiServer {
    /// Serves connections until `shutdown` completes; then ends watches, lets answers finish for up to 2 s and cuts
    /// what is left.
    ///
    /// # Errors
    /// None at present: a connection that cannot be accepted is tried again.
    pub async fn serve(&self, listener: TcpListener, shutdown: impl Future<Output = ()> + Send) -> io::Result<()> {
        serve(&self.inner, &self.service(), listener, None, shutdown).await
    }

    /// As [`serve`](Self::serve), over TLS.
    ///
    /// # Errors
    /// None at present.
    pub async fn serve_tls(
        &self,
        listener: TcpListener,
        identity: &Identity,
        shutdown: impl Future<Output = ()> + Send,
    ) -> io::Result<()> {
        serve(&self.inner, &self.service(), listener, Some(identity), shutdown).await
    }
}

pub(crate) async fn serve(
    inner: &Arc<Inner>,
    service: &ApiService,
    listener: TcpListener,
    identity: Option<&Identity>,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let acceptor = identity.map(|identity| TlsAcceptor::from(Arc::clone(&identity.config)));
    let stopping = CancellationToken::new();
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((socket, _)) => {
                    let life = Life {
                        restart: inner.life(),
                        stopping: stopping.clone(),
                    };
                    connections.spawn(accept(socket, acceptor.clone(), service.clone(), life));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    inner.options.clock.sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    stopping.cancel();
    inner
        .watches()
        .command(&Filter::any(), &crate::watch::Command::End(Ending::Clean));
    let deadline = inner.options.clock.sleep(SHUTDOWN_DEADLINE);
    tokio::select! {
        biased;
        () = async { while connections.join_next().await.is_some() {} } => {}
        () = deadline => connections.shutdown().await,
    }
    Ok(())
}

/// What ends a connection.
struct Life {
    /// It is cut.
    restart: CancellationToken,
    /// It ends in order.
    stopping: CancellationToken,
}

/// Serves one connection, after its handshake if there is to be one.
async fn accept(socket: TcpStream, acceptor: Option<TlsAcceptor>, service: ApiService, life: Life) {
    // Events are small and wanted at once.
    let _ = socket.set_nodelay(true);
    let Some(acceptor) = acceptor else {
        return connection(socket, service, life).await;
    };
    let shaken = tokio::select! {
        biased;
        () = life.restart.cancelled() => return,
        () = life.stopping.cancelled() => return,
        shaken = tokio::time::timeout(HANDSHAKE_DEADLINE, acceptor.accept(socket)) => shaken,
    };
    match shaken {
        Ok(Ok(socket)) => connection(socket, service, life).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

/// Serves one connection until it closes, the server stops, or a restart cuts it.
async fn connection(socket: impl AsyncRead + AsyncWrite + Send + Unpin, service: ApiService, life: Life) {
    let connection = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(socket), TowerToHyperService::new(service));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        () = life.restart.cancelled() => return,
        ended = connection.as_mut() => ended,
        () = life.stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
