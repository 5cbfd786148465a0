//! The server on a socket: HTTP/1.1, with or without TLS, one task per connection.
//!
//! This is the only module of the crate that spawns tasks: a listener exists only with real time and real sockets.

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

use crate::fault::{Ending, Filter};
use crate::service::ApiService;
use crate::state::ServerState;
use crate::tls::Identity;
use crate::watches::WatchCommand;

/// How long connections may take to finish their responses after the shutdown began.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(2);

/// How long a client may take for its TLS handshake.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);

/// How long to wait after the system refused a connection, for example for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Maximum number of open connections; further ones wait in the system's backlog.
pub(crate) const CONNECTIONS_MAX: usize = 4_096;

pub(crate) async fn serve(
    state: &Arc<ServerState>,
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
                    let tokens = ConnectionTokens {
                        restart: state.restart_token(),
                        stopping: stopping.clone(),
                    };
                    connections.spawn(accept(socket, acceptor.clone(), service.clone(), tokens));
                }
                Err(error) => {
                    tracing::warn!(%error, "connection not accepted; retrying");
                    state.options.clock.sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    stopping.cancel();
    state
        .watches()
        .command(&Filter::any(), &WatchCommand::End(Ending::Clean));
    let deadline = state.options.clock.sleep(SHUTDOWN_DEADLINE);
    tokio::select! {
        biased;
        () = async { while connections.join_next().await.is_some() {} } => {}
        () = deadline => connections.shutdown().await,
    }
    Ok(())
}

struct ConnectionTokens {
    /// Cuts the connection.
    restart: CancellationToken,
    /// Ends the connection gracefully.
    stopping: CancellationToken,
}

/// Serves one connection, after the TLS handshake if there is one.
async fn accept(socket: TcpStream, acceptor: Option<TlsAcceptor>, service: ApiService, tokens: ConnectionTokens) {
    // Events are small and must not be delayed.
    let _ = socket.set_nodelay(true);
    let Some(acceptor) = acceptor else {
        return connection(socket, service, tokens).await;
    };
    let shaken = tokio::select! {
        biased;
        () = tokens.restart.cancelled() => return,
        () = tokens.stopping.cancelled() => return,
        shaken = tokio::time::timeout(HANDSHAKE_DEADLINE, acceptor.accept(socket)) => shaken,
    };
    match shaken {
        Ok(Ok(socket)) => connection(socket, service, tokens).await,
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake timed out"),
    }
}

/// Serves one connection until it closes, the server stops, or a restart cuts it.
async fn connection(socket: impl AsyncRead + AsyncWrite + Send + Unpin, service: ApiService, tokens: ConnectionTokens) {
    let connection = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(socket), TowerToHyperService::new(service));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        () = tokens.restart.cancelled() => return,
        ended = connection.as_mut() => ended,
        () = tokens.stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended early");
    }
}
