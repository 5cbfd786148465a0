//! `informant apiserver` in a process of its own.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::guests;
use crate::process::Process;
use crate::wait;

use super::real::ADMIN_TOKEN;
use super::{EmbeddedOptions, ports};

/// The deadline for the embedded server to answer.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// How long a restart keeps it unavailable.
const AWAY_MS: u64 = 300;

pub(super) struct Embedded {
    port: u16,
    process: Process,
}

impl Embedded {
    pub(super) async fn start(folder: &Path, options: &EmbeddedOptions) -> Result<Self> {
        let [port] = ports::free()?;
        let mut embedded = Self {
            port,
            process: start(folder, port, options)?,
        };
        embedded.wait_until_ready(folder).await?;
        Ok(embedded)
    }

    pub(super) fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Makes the server close all connections and return with its data. The process stays, because it keeps nothing on
    /// disk.
    pub(super) async fn restart(&mut self, folder: &Path) -> Result<()> {
        let fault = serde_json::json!({"restart": {"down_ms": AWAY_MS, "empty_history": false}});
        self.fault(folder, &fault).await?;
        self.wait_until_ready(folder).await
    }

    pub(super) async fn fault(&self, folder: &Path, fault: &serde_json::Value) -> Result<()> {
        let client = crate::client::Client::new(&folder.join("kubeconfig")).await?;
        client.post("/informant/faults", fault).await.map(drop)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    async fn wait_until_ready(&mut self, folder: &Path) -> Result<()> {
        let path = folder.join("kubeconfig");
        let what = format!("the embedded API server to answer on port {}", self.port);
        let ready = wait::until(&what, READY_WITHIN, async || {
            let client = crate::client::Client::new(&path)
                .await
                .map_err(|error| format!("{error:#}"))?;
            client.text("/readyz").await.map_err(|error| format!("{error:#}"))
        });
        self.process.while_running(ready).await?;
        Ok(())
    }
}

fn start(folder: &Path, port: u16, options: &EmbeddedOptions) -> Result<Process> {
    let mut args = vec![
        "apiserver".to_owned(),
        "--faults".to_owned(),
        format!("--token={ADMIN_TOKEN}=admin"),
        format!("--listen=127.0.0.1:{port}"),
        format!("--kubeconfig-out={}", folder.join("kubeconfig").display()),
    ];
    args.extend(options.tls.then(|| "--tls".to_owned()));
    Process::start_under(&options.under, &guests::informant()?, args)
}
