//! The embedded API server of `informant dev`, on a socket, with a kubeconfig.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;
use informant_apiserver::{ApiServer, Options};
use tokio_util::sync::CancellationToken;

use super::complain;
use crate::cli::apiserver::{Kubeconfig, KubeconfigEntry, bind};
use crate::daemon::seed;

/// The name of its cluster, user and context.
const NAME: &str = "informant";

pub(super) struct LocalCluster {
    pub(super) server: ApiServer,
    pub(super) address: SocketAddr,
    pub(super) kubeconfig: PathBuf,
}

impl LocalCluster {
    /// Listens until `stop`.
    ///
    /// # Errors
    /// If the address is in use, or the kubeconfig cannot be written.
    pub(super) async fn start(listen: SocketAddr, kubeconfig: PathBuf, stop: CancellationToken) -> Result<Self> {
        let server = ApiServer::new(Options {
            seed: seed(),
            ..Options::at_wall_time()
        });
        let (listener, address) = bind(listen).await?;
        let config = Kubeconfig {
            authority_pem: None,
            first: KubeconfigEntry::new(NAME, address),
            replica: None,
        };
        config.write(&kubeconfig)?;
        let served = server.clone();
        tokio::spawn(async move {
            if let Err(error) = served.serve(listener, stop.cancelled()).await {
                complain("the embedded API server failed", &error.into());
            }
        });
        Ok(Self {
            server,
            address,
            kubeconfig,
        })
    }
}
