//! HTTP/1.1 servers: sockets, connections and their limits. What is answered is in [`crate::admin`].

mod bind;

use std::net::{SocketAddr, TcpListener};

use axum::Router;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) use bind::bind;

/// A server while it runs.
#[derive(Debug)]
pub(crate) struct HttpServer {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl HttpServer {
    /// Serves on a bound listener.
    pub(crate) fn start(listener: TcpListener, routes: Router) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, routes).with_graceful_shutdown(stopped).await {
                tracing::error!(%error, "admin server failed");
            }
        });
        Ok(Self { address, stop, task })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops immediately; responses that are being read are cut off.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
        self.task.abort();
    }
}
