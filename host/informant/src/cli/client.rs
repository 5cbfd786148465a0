//! A client of the admin server of a running daemon.
//!
//! ```text
//! --config, or nothing ─▶ Target: admin socket of this user, if it is there: no token
//! --admin, --config ─▶ Target: ADDRESS:PORT ──plain HTTP, no token──────────────▶ admin server
//!                              https://…  ──TLS────────────────────┐
//! --pod, --informant-namespace ─▶ pod ──API server, kubelet, TLS───┴── Identity's token
//! ```
//! What each replica knows alone is asked of all of them ([`fan_out`]), in the same way.
//!
//! A token is sent over TLS only. The other side is the daemon because its certificate proves it ([`tls`]), or because
//! the API server of a port-forward says which pod that is ([`pod`]).

mod connection;
mod fan_out;
mod identity;
mod lines;
mod names;
mod pod;
mod port_forward;
mod refusal;
mod target;
#[cfg(test)]
mod tests;
mod tls;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use super::Exit;

pub(super) use connection::{AdminClient, escape};
pub(super) use fan_out::{Answer, Answers, Clients, ShardArgs, or_not_found};
use identity::IdentityArgs;
pub(super) use lines::ObjectLines;
use pod::PodArgs;
pub(super) use target::NAMESPACE_DEFAULT;
use target::{AdminServer, Target};
use tls::TlsArgs;

/// Selects the daemon, and who the caller is to it.
#[derive(Debug, Args)]
pub(super) struct AdminArgs {
    /// The daemon's admin server: plain HTTP, or HTTPS with your token [default: the admin socket of this user if it is
    /// there, [admin] in the configuration, 127.0.0.1:8089]
    #[arg(long, value_name = "ADDRESS:PORT|https://HOST:PORT", value_parser = AdminServer::parse)]
    admin: Option<AdminServer>,
    /// Configuration file [default: config.toml]
    // No default for clap: only a file that was named explicitly has to exist.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    pod: PodArgs,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    identity: IdentityArgs,
}

impl AdminArgs {
    /// Connects to the daemon and runs `request`.
    pub(super) fn with_client(&self, request: impl AsyncFnOnce(&mut AdminClient) -> Result<Exit>) -> Result<Exit> {
        self.with_clients(async |mut clients| request(&mut clients.first).await)
    }

    /// The same, for what other replicas are asked, too.
    pub(super) fn with_clients(&self, request: impl AsyncFnOnce(Clients<'_>) -> Result<Exit>) -> Result<Exit> {
        let target = Target::of(self)?;
        let runtime = super::runtime()?;
        let done = runtime.block_on(async { request(Clients::connect(self, target).await?).await });
        // Files are read on other threads, which may wait for a file system without end.
        runtime.shutdown_background();
        done
    }

    /// A connection of its own to the daemon.
    pub(super) async fn connect(&self) -> Result<AdminClient> {
        AdminClient::connect(self, &Target::of(self)?).await
    }

    /// The namespace that the context of the kubeconfig names, if it names one.
    pub(super) fn context_namespace(&self) -> Option<String> {
        self.identity.context_namespace()
    }

    /// An error if a flag needs TLS, which `server` does without: above all, no token is sent in the clear.
    fn refuse_without_tls(&self, server: &AdminServer) -> Result<()> {
        if let Some(flag) = self.identity.flag() {
            bail!(
                "{flag}: no token is sent to {server} over plain HTTP; if its admin server uses TLS, pass --admin https://{server}"
            );
        }
        if let Some(flag) = self.tls.flag() {
            bail!("{flag}: {server} is plain HTTP; if its admin server uses TLS, pass --admin https://{server}");
        }
        Ok(())
    }
}
