//! A cluster to run against: the real kube-apiserver with etcd, or the embedded one, behind one face.

mod embedded;
mod ports;
mod real;

use std::path::Path;

use anyhow::Result;

use crate::client::Client;

pub use real::tools_folder;

/// Which API server a scenario runs against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `informant apiserver` in a process of its own.
    Embedded,
    /// kube-apiserver and etcd, built from `tests/go.mod`.
    Real,
}

enum Server {
    Embedded(Box<embedded::Embedded>),
    Real(Box<real::Real>),
}

/// A running cluster. It ends when dropped.
pub struct Cluster {
    folder: tempfile::TempDir,
    server: Server,
}

impl Cluster {
    /// Starts a cluster and waits until it answers.
    ///
    /// # Errors
    /// If a program is missing, does not start or does not answer within its deadline.
    pub async fn start(kind: Kind) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let server = match kind {
            Kind::Embedded => Server::Embedded(Box::new(embedded::Embedded::start(folder.path()).await?)),
            Kind::Real => Server::Real(Box::new(real::Real::start(folder.path()).await?)),
        };
        Ok(Self { folder, server })
    }

    /// A kubeconfig that reaches it.
    pub fn kubeconfig(&self) -> std::path::PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// A folder that lives as long as the cluster.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A client with all rights.
    ///
    /// # Errors
    /// If the kubeconfig can not be read.
    pub async fn client(&self) -> Result<Client> {
        Client::new(&self.kubeconfig()).await
    }

    /// Ends the API server with SIGKILL and starts it again on the same address with the same data.
    ///
    /// # Errors
    /// If it does not come back.
    pub async fn restart_apiserver(&mut self) -> Result<()> {
        match &mut self.server {
            Server::Embedded(server) => server.restart(self.folder.path()).await,
            Server::Real(server) => server.restart_apiserver().await,
        }
    }
}
