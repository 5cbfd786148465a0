//! `informant apiserver`: the embedded API server on a socket.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use informant_apiserver::{ApiServer, Options};
use tokio::net::TcpListener;

use super::{Exit, output};
use crate::signals::Signals;

/// `informant apiserver`.
#[derive(Debug, Args)]
pub(super) struct ApiserverArgs {
    /// Where to listen, without TLS and without asking who is there; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8088")]
    listen: SocketAddr,
    /// Writes a kubeconfig for this server, for kubectl and for --kubeconfig
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Serves /informant/faults too, where watches can be dropped and errors ordered
    #[arg(long)]
    faults: bool,
}

pub(super) fn run(args: &ApiserverArgs) -> Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("no runtime can be made")?;
    runtime.block_on(serve(args))
}

async fn serve(args: &ApiserverArgs) -> Result<Exit> {
    let mut signals = Signals::listen().context("signals cannot be listened to")?;
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener.local_addr().context("the listener has no address")?;
    if !address.ip().is_loopback() {
        output::note(&format!(
            "warning: {address} can be reached from outside, and this server asks nobody who they are"
        ));
    }
    let server = ApiServer::new(Options {
        faults_over_http: args.faults,
        ..Options::at_wall_time()
    });
    if let Some(path) = &args.kubeconfig_out {
        write_kubeconfig(path, address)?;
    }
    tracing::info!(url = %format!("http://{address}"), "API server listens");
    let stopped = async move {
        signals.next().await;
    };
    server.serve(listener, stopped).await.context("the API server ended")?;
    Ok(Exit::Done)
}

/// Writes aside and renames, so that nobody reads half a file.
fn write_kubeconfig(path: &Path, address: SocketAddr) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    let aside = path.with_added_extension("tmp");
    std::fs::write(&aside, kubeconfig(address)).with_context(failed)?;
    std::fs::rename(&aside, path).with_context(failed)
}

fn kubeconfig(address: SocketAddr) -> String {
    format!(
        "apiVersion: v1
kind: Config
current-context: informant
clusters:
- name: informant
  cluster:
    server: http://{address}
contexts:
- name: informant
  context:
    cluster: informant
    user: informant
    namespace: default
users:
- name: informant
  user: {{}}
"
    )
}
