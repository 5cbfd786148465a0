//! kube-apiserver and etcd as processes on loopback, as small as possible: no controllers, no nodes, tokens from a
//! file.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::kubeconfig::{Login, kubeconfig};
use crate::guests::target_folder;
use crate::process::Process;
use crate::wait;

use super::ports;

/// The deadline of a cold start on two busy cores; on idle ones it takes about three seconds.
const READY_WITHIN: Duration = Duration::from_secs(90);

/// The token of the cluster's administrator.
pub(crate) const ADMIN_TOKEN: &str = "admin-token";

/// The token of `reader`, who has no permissions until RBAC grants some.
pub(super) const READER_TOKEN: &str = "reader-token";

/// Where `cargo xtask cluster-tools` puts kube-apiserver, kubectl and etcd.
pub fn tools_folder() -> PathBuf {
    match std::env::var_os("INFORMANT_CLUSTER_TOOLS_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => target_folder().join("cluster-tools"),
    }
}

/// A tool by name.
fn tool(name: &str) -> Result<PathBuf> {
    let path = tools_folder().join(name);
    ensure!(
        path.is_file(),
        "{} does not exist; run `cargo xtask cluster-tools` first (it needs Go)",
        path.display()
    );
    Ok(path)
}

/// Flags of tests that have no use for service accounts: pods need none.
const WITHOUT_SERVICE_ACCOUNTS: &str = "--disable-admission-plugins=ServiceAccount";

/// It sends only the objects of the shards that a request names: KEP-5866.
const SHARDS_GATE: &str = "--feature-gates=ShardedListAndWatch=true";

/// Where it writes its audit log.
pub(super) const AUDIT_LOG: &str = "audit.log";

pub(super) struct Real {
    folder: PathBuf,
    /// Flags besides those of every start.
    flags: Vec<String>,
    etcd_port: u16,
    port: u16,
    _etcd: Process,
    apiserver: Process,
}

impl Real {
    pub(super) async fn start(folder: &Path) -> Result<Self> {
        Self::start_with(folder, vec![WITHOUT_SERVICE_ACCOUNTS.to_owned()]).await
    }

    /// Starts one that sends only the objects of the shards that a request names: KEP-5866.
    pub(super) async fn start_with_shards(folder: &Path) -> Result<Self> {
        Self::start_with(
            folder,
            vec![WITHOUT_SERVICE_ACCOUNTS.to_owned(), SHARDS_GATE.to_owned()],
        )
        .await
    }

    /// Starts one that admits pods as clusters do, and records what service accounts request.
    pub(super) async fn start_with_audit_log(folder: &Path) -> Result<Self> {
        let rules = json!([{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}]);
        Self::start_with(folder, audit_flags(folder, rules).await?).await
    }

    /// Starts one that records each patch of a ConfigMap with its body.
    pub(super) async fn start_with_recorded_patches(folder: &Path, selects_shards: bool) -> Result<Self> {
        let maps = json!([{"group": "", "resources": ["configmaps"]}]);
        let rules = json!([{"level": "Request", "verbs": ["patch"], "resources": maps}, {"level": "None"}]);
        let mut flags = audit_flags(folder, rules).await?;
        flags.push(WITHOUT_SERVICE_ACCOUNTS.to_owned());
        flags.extend(selects_shards.then(|| SHARDS_GATE.to_owned()));
        Self::start_with(folder, flags).await
    }

    async fn start_with(folder: &Path, flags: Vec<String>) -> Result<Self> {
        let [etcd_port, peer_port, port] = ports::free()?;
        write_credentials(folder, port).await?;
        let etcd = start_etcd(folder, etcd_port, peer_port)?;
        let apiserver = start_apiserver(folder, etcd_port, port, &flags)?;
        let mut real = Self {
            folder: folder.to_path_buf(),
            flags,
            etcd_port,
            port,
            _etcd: etcd,
            apiserver,
        };
        real.wait_until_ready().await?;
        Ok(real)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn etcd_port(&self) -> u16 {
        self.etcd_port
    }

    pub(super) fn apiserver_id(&self) -> Option<u32> {
        self.apiserver.id()
    }

    pub(super) async fn restart_apiserver(&mut self, flags: &[&str]) -> Result<()> {
        self.apiserver.signal("KILL").await?;
        self.apiserver.wait_for_end(Duration::from_secs(10)).await?;
        let flags: Vec<String> = self
            .flags
            .iter()
            .cloned()
            .chain(flags.iter().map(|flag| (*flag).to_owned()))
            .collect();
        self.apiserver = start_apiserver(&self.folder, self.etcd_port, self.port, &flags)?;
        self.wait_until_ready().await
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        let client = crate::client::Client::new(&self.folder.join("kubeconfig")).await?;
        let ready = wait::until("kube-apiserver to be ready", READY_WITHIN, async || {
            client.text("/readyz").await.map_err(|error| format!("{error:#}"))?;
            // A controller inside kube-apiserver creates the default namespace shortly after it is ready.
            client
                .get("/api/v1/namespaces/default")
                .await
                .map_err(|error| format!("{error:#}"))
        });
        self.apiserver.while_running(ready).await?;
        Ok(())
    }
}

fn start_etcd(folder: &Path, port: u16, peer_port: u16) -> Result<Process> {
    let url = format!("http://127.0.0.1:{port}");
    let peer = format!("http://127.0.0.1:{peer_port}");
    Process::start(
        &tool("etcd")?,
        [
            format!("--data-dir={}", folder.join("etcd").display()),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            "--unsafe-no-fsync".to_owned(),
            "--log-level=error".to_owned(),
        ],
    )
}

fn start_apiserver(folder: &Path, etcd_port: u16, port: u16, flags: &[String]) -> Result<Process> {
    let file = |name: &str| folder.join(name).display().to_string();
    Process::start(
        &tool("kube-apiserver")?,
        [
            format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--cert-dir={}", file("certs")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", file("sa.pub")),
            format!("--service-account-signing-key-file={}", file("sa.key")),
            format!("--token-auth-file={}", file("tokens.csv")),
            "--authorization-mode=RBAC".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            "--allow-privileged".to_owned(),
        ]
        .into_iter()
        .chain(feature_gates())
        .chain(flags.iter().cloned()),
    )
}

/// The flags for an audit log by these rules.
async fn audit_flags(folder: &Path, rules: Value) -> Result<Vec<String>> {
    let policy = folder.join("audit-policy.json");
    let text = json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules,
    });
    tokio::fs::write(&policy, text.to_string()).await?;
    Ok(vec![
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", folder.join(AUDIT_LOG).display()),
    ])
}

/// Features that are off in older versions, and that tests use.
fn feature_gates() -> Option<String> {
    let gates = std::env::var("INFORMANT_FEATURE_GATES").ok()?;
    Some(format!("--feature-gates={gates}"))
}

/// The signing key, the tokens and a kubeconfig. The serving certificate is kube-apiserver's own, so it is not
/// verified.
async fn write_credentials(folder: &Path, port: u16) -> Result<()> {
    let key = rcgen::KeyPair::generate().context("failed to create the service account key")?;
    tokio::fs::write(folder.join("sa.key"), key.serialize_pem()).await?;
    tokio::fs::write(folder.join("sa.pub"), key.public_key_pem()).await?;
    write_tokens(folder, &[(READER_TOKEN, "reader")]).await?;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    for (name, token) in [("kubeconfig", ADMIN_TOKEN), ("reader.kubeconfig", READER_TOKEN)] {
        let text = kubeconfig("https", address, &Login::token(token)).to_string();
        tokio::fs::write(folder.join(name), text).await?;
    }
    Ok(())
}

/// Writes the token file, which kube-apiserver reads when it starts.
pub(super) async fn write_tokens(folder: &Path, tokens: &[(&str, &str)]) -> Result<()> {
    let mut text = format!("{ADMIN_TOKEN},admin,admin,\"system:masters\"\n");
    for (token, user) in tokens {
        let _ = writeln!(text, "{token},{user},{user},\"{user}s\"");
    }
    Ok(tokio::fs::write(folder.join("tokens.csv"), text).await?)
}
