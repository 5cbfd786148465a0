//! Kubeconfigs for any user and any address.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};

use super::real::{ADMIN_TOKEN, READER_TOKEN};

/// How the client of a kubeconfig authenticates.
#[derive(Clone, Debug)]
pub enum Login {
    /// With this token.
    Token(String),
    /// With the token in a file, which is read again periodically.
    TokenFile(PathBuf),
}

impl Login {
    /// With this token.
    pub fn token(token: &str) -> Self {
        Self::Token(token.to_owned())
    }

    /// As a user with all permissions.
    pub fn admin() -> Self {
        Self::token(ADMIN_TOKEN)
    }

    /// As `reader`, who has no permissions until RBAC grants some.
    pub fn reader() -> Self {
        Self::token(READER_TOKEN)
    }
}

/// Writes kubeconfigs for one cluster. It does not use the cluster itself, which may be restarted meanwhile.
#[derive(Clone, Debug)]
pub struct Kubeconfigs {
    folder: PathBuf,
    scheme: &'static str,
}

impl Kubeconfigs {
    pub(super) fn new(folder: PathBuf, scheme: &'static str) -> Self {
        Self { folder, scheme }
    }

    /// Writes one called `name` that connects to `way`, a proxy's address, and authenticates as `login`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub async fn write(&self, name: &str, way: SocketAddr, login: &Login) -> Result<PathBuf> {
        let path = self.folder.join(format!("{name}.kubeconfig"));
        let text = kubeconfig(self.scheme, way, login).to_string();
        tokio::fs::write(&path, text).await?;
        Ok(path)
    }
}

/// A kubeconfig as JSON, which is also YAML. The serving certificate is kube-apiserver's own, so it is not verified.
pub(super) fn kubeconfig(scheme: &str, address: SocketAddr, login: &Login) -> Value {
    let user = match login {
        Login::Token(token) => json!({ "token": token }),
        Login::TokenFile(path) => json!({ "tokenFile": path }),
    };
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": format!("{scheme}://{address}"), "insecure-skip-tls-verify": true}}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    })
}
