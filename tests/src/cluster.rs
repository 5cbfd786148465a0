//! A cluster to test against: the real kube-apiserver with etcd, or the embedded one, behind one interface.

mod audit;
mod embedded;
mod etcd;
mod kubeconfig;
mod ports;
mod real;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::client::Client;

pub use audit::{AuditLog, Request};
use etcd::Etcd;
pub use kubeconfig::{Kubeconfigs, Login};
pub(crate) use real::ADMIN_TOKEN;
pub use real::tools_folder;

/// Which API server a scenario runs against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `informant apiserver` in a process of its own.
    Embedded,
    /// kube-apiserver and etcd, built from `tests/go.mod`.
    Real,
}

/// How the embedded API server is started.
#[derive(Clone, Debug, Default)]
pub struct EmbeddedOptions {
    /// Another program that starts it: see [`Process::start_under`](crate::process::Process::start_under).
    pub under: Vec<String>,
    /// Whether it uses TLS, with a certificate authority of its own.
    pub tls: bool,
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
        match kind {
            Kind::Embedded => Self::embedded(&EmbeddedOptions::default()).await,
            Kind::Real => {
                let folder = tempfile::tempdir()?;
                let server = Server::Real(Box::new(real::Real::start(folder.path()).await?));
                Ok(Self { folder, server })
            }
        }
    }

    /// A real kube-apiserver with the gate `ShardedListAndWatch`.
    pub async fn start_with_shards() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let server = Server::Real(Box::new(real::Real::start_with_shards(folder.path()).await?));
        Ok(Self { folder, server })
    }

    /// Starts the real one as clusters run it: pods need a service account and get its token, and an audit log
    /// records what service accounts request.
    ///
    /// # Errors
    /// See [`start`](Self::start).
    pub async fn start_with_audit_log() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let server = Server::Real(Box::new(real::Real::start_with_audit_log(folder.path()).await?));
        Ok(Self { folder, server })
    }

    /// Starts the real one, which records each patch of a ConfigMap with its body. It sends only the objects of the
    /// shards that a request names if it `selects_shards`.
    ///
    /// # Errors
    /// See [`start`](Self::start).
    pub async fn start_with_recorded_patches(selects_shards: bool) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let real = real::Real::start_with_recorded_patches(folder.path(), selects_shards).await?;
        let server = Server::Real(Box::new(real));
        Ok(Self { folder, server })
    }

    /// What the real one records.
    pub fn audit_log(&self) -> AuditLog {
        AuditLog::new(self.folder().join(real::AUDIT_LOG))
    }

    /// The certificates that a client of the real kube-apiserver trusts, as PEM.
    ///
    /// # Errors
    /// If it has none.
    pub fn certificate_authority(&self) -> Result<String> {
        // kube-apiserver created it: its own certificate, followed by that of the authority that signed it.
        let path = self.folder().join("certs").join("apiserver.crt");
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    }

    /// Starts the embedded API server with `options`.
    ///
    /// # Errors
    /// See [`start`](Self::start).
    pub async fn embedded(options: &EmbeddedOptions) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let embedded = embedded::Embedded::start(folder.path(), options).await?;
        let server = Server::Embedded(Box::new(embedded));
        Ok(Self { folder, server })
    }

    /// The process id of the API server, while it runs.
    pub fn apiserver_id(&self) -> Option<u32> {
        match &self.server {
            Server::Embedded(server) => server.id(),
            Server::Real(server) => server.apiserver_id(),
        }
    }

    /// A kubeconfig that reaches it.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// A folder that exists as long as the cluster.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A client with all permissions.
    ///
    /// # Errors
    /// If the kubeconfig cannot be read.
    pub async fn client(&self) -> Result<Client> {
        Client::new(&self.kubeconfig()).await
    }

    /// Which kind it is.
    pub fn kind(&self) -> Kind {
        match &self.server {
            Server::Embedded(_) => Kind::Embedded,
            Server::Real(_) => Kind::Real,
        }
    }

    /// The address on which its API server listens.
    pub fn address(&self) -> SocketAddr {
        let port = match &self.server {
            Server::Embedded(server) => server.port(),
            Server::Real(server) => server.port(),
        };
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// Creates kubeconfigs for other addresses and users than those of [`kubeconfig`](Self::kubeconfig).
    pub fn kubeconfigs(&self) -> Kubeconfigs {
        let scheme = match self.kind() {
            Kind::Embedded => "http",
            Kind::Real => "https",
        };
        Kubeconfigs::new(self.folder().to_path_buf(), scheme)
    }

    /// Makes the database drop all history but the newest state. A watch cache may still have more.
    ///
    /// # Errors
    /// If it refuses.
    pub async fn compact(&self) -> Result<()> {
        match &self.server {
            Server::Embedded(server) => server.fault(self.folder(), &serde_json::json!({"compact": {}})).await,
            Server::Real(server) => Etcd::new(server.etcd_port()).compact().await,
        }
    }

    /// The database of the real one.
    pub(crate) fn etcd(&self) -> Option<Etcd> {
        match &self.server {
            Server::Embedded(_) => None,
            Server::Real(server) => Some(Etcd::new(server.etcd_port())),
        }
    }

    /// Ends the API server with SIGKILL and starts it again on the same address with the same data.
    ///
    /// # Errors
    /// If it does not come back.
    pub async fn restart_apiserver(&mut self) -> Result<()> {
        match &mut self.server {
            Server::Embedded(server) => server.restart(self.folder.path()).await,
            Server::Real(server) => server.restart_apiserver(&[]).await,
        }
    }

    /// As [`restart_apiserver`](Self::restart_apiserver), with additional flags (the embedded one has none) and the
    /// current contents of the token file.
    ///
    /// # Errors
    /// If it does not come back.
    pub async fn restart_apiserver_with(&mut self, flags: &[&str]) -> Result<()> {
        match &mut self.server {
            Server::Embedded(server) => server.restart(self.folder.path()).await,
            Server::Real(server) => server.restart_apiserver(flags).await,
        }
    }

    /// Sets the tokens besides the administrator's, as token and user. They take effect with the next restart. The
    /// embedded API server has no authentication.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub async fn set_tokens(&self, tokens: &[(&str, &str)]) -> Result<()> {
        real::write_tokens(self.folder(), tokens).await
    }

    /// Injects this fault into the embedded API server (docs/reference/embedded-apiserver.md). Does nothing on a real
    /// one.
    ///
    /// # Errors
    /// If it does not know the fault.
    pub async fn fault(&self, fault: &serde_json::Value) -> Result<()> {
        match &self.server {
            Server::Embedded(server) => server.fault(self.folder(), fault).await,
            Server::Real(_) => Ok(()),
        }
    }
}
