//! The server on a socket: HTTP/1.1, one task per connection.
//!
//! This is the only place where the room spawns: a listener exists only where real time and real sockets do.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::faults::Ending;
use crate::faults::Filter;
use crate::server::{ApiServer, Inner};
use crate::service::ApiService;

/// How long connections have to finish their answers after the shutdown began.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(2);

/// How long to wait after the system refused a connection, for example for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How many connections may be open at once; further ones wait in the system's backlog.
pub const CONNECTIONS_MAX: usize = 4_096;

impl ApiServer {
    /// Serves connections until `shutdown` completes; then ends watches, lets answers finish for up to 2 s and cuts what is left.
    ///
    /// # Errors
    /// None at present: a connection that can not be accepted is tried again.
    pub async fn serve(&self, listener: TcpListener, shutdown: impl Future<Output = ()> + Send) -> io::Result<()> {
        serve(&self.inner, &self.service(), listener, shutdown).await
    }
}

pub(crate) async fn serve(
    inner: &Arc<Inner>,
    service: &ApiService,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
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
                    connections.spawn(connection(socket, service.clone(), inner.life(), stopping.clone()));
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

/// Serves one connection until it closes, the server stops, or a restart cuts it.
async fn connection(socket: TcpStream, service: ApiService, life: CancellationToken, stopping: CancellationToken) {
    // Events are small and wanted at once.
    let _ = socket.set_nodelay(true);
    let connection = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(socket), TowerToHyperService::new(service));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        () = life.cancelled() => return,
        ended = connection.as_mut() => ended,
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
