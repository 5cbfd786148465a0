//! Where a scenario runs: a namespace of a cluster, a direct client, and a proxy for the observed clients.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::{ObservedInformer, Setting};
use crate::chaos::ChaosProxy;
use crate::client::Client;
use crate::cluster::{Cluster, Kubeconfigs, Login};

/// The deadline of a connection; as in the daemon, but shorter.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// A namespace, and two ways to its API server.
pub struct Testbed {
    /// The namespace, created for this scenario.
    pub namespace: String,
    /// With all permissions, and not through the proxy.
    pub direct: Client,
    /// The proxy between the API server and the observed clients.
    pub proxy: ChaosProxy,
    kubeconfigs: Kubeconfigs,
    seed: u64,
}

impl Testbed {
    /// Creates a namespace called `name`, and a proxy that draws from `seed`.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn prepare(cluster: &Cluster, name: &str, seed: u64) -> Result<Self> {
        let direct = cluster.client().await?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        direct.post("/api/v1/namespaces", &namespace).await?;
        Ok(Self {
            namespace: name.to_owned(),
            direct,
            proxy: ChaosProxy::start(cluster.address(), seed).await?,
            kubeconfigs: cluster.kubeconfigs(),
            seed,
        })
    }

    /// Starts an informer behind the proxy.
    ///
    /// # Errors
    /// If the setting is inconsistent.
    pub async fn observe(&self, setting: Setting) -> Result<ObservedInformer> {
        let client = self.client(&setting.login).await?;
        ObservedInformer::start(setting, client, self.seed)
    }

    /// A client behind the proxy.
    ///
    /// # Errors
    /// If its kubeconfig cannot be written.
    pub async fn client(&self, login: &Login) -> Result<kube::Client> {
        Ok(kube::Client::try_from(self.config(login).await?)?)
    }

    /// The configuration of such a client.
    ///
    /// # Errors
    /// If its kubeconfig cannot be written.
    pub async fn config(&self, login: &Login) -> Result<kube::Config> {
        config(&self.kubeconfig(login).await?).await
    }

    /// A kubeconfig that connects through the proxy.
    ///
    /// # Errors
    /// If it cannot be written.
    pub async fn kubeconfig(&self, login: &Login) -> Result<PathBuf> {
        self.kubeconfigs
            .write(&self.namespace, self.proxy.address(), login)
            .await
    }

    /// Creates `amount` config maps of about `bytes` each, called `prefix-0` and so on.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn fill(&self, prefix: &str, amount: usize, bytes: usize) -> Result<()> {
        for number in 0..amount {
            self.create(&format!("{prefix}-{number}"), &"x".repeat(bytes)).await?;
        }
        Ok(())
    }

    /// Creates a config map.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn create(&self, name: &str, value: &str) -> Result<Value> {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value},
        });
        self.direct.post(&self.config_maps(""), &object).await
    }

    /// Changes a config map.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn change(&self, name: &str, value: &str) -> Result<Value> {
        let patch = json!({"data": {"value": value}});
        self.direct.merge(&self.config_maps(name), &patch).await
    }

    /// Deletes a config map.
    ///
    /// # Errors
    /// If the API server refuses.
    pub async fn delete(&self, name: &str) -> Result<Value> {
        self.direct.delete(&self.config_maps(name)).await
    }

    /// The path of this namespace's config maps, or of one.
    pub fn config_maps(&self, name: &str) -> String {
        let separator = if name.is_empty() { "" } else { "/" };
        format!("/api/v1/namespaces/{}/configmaps{separator}{name}", self.namespace)
    }
}

/// As in the daemon: a client that does not retry by itself and waits for silent watches.
async fn config(kubeconfig: &Path) -> Result<kube::Config> {
    let file = Kubeconfig::read_from(kubeconfig).with_context(|| format!("reading {}", kubeconfig.display()))?;
    let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_MAX);
    config.read_timeout = None;
    Ok(config)
}
