//! `informant apiserver`: the embedded API server on a socket.

mod kubeconfig;
mod snapshot;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use informant_apiserver::{ApiServer, Fault, Identity, Options};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::kubeconfig::{Kubeconfig, Served};
use self::snapshot::SnapshotFile;
use super::{Exit, output};
use crate::signals::Signals;

/// `informant apiserver`.
#[derive(Debug, Args)]
pub(super) struct ApiserverArgs {
    /// Where to listen, without asking who is there; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8088")]
    listen: SocketAddr,
    /// Writes a kubeconfig for this server, for kubectl and for --kubeconfig
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// What the kubeconfig calls this server: its cluster, user and context
    #[arg(long, value_name = "NAME", default_value = "informant", value_parser = NonEmptyStringValueParser::new())]
    context_name: String,
    /// Speaks TLS, with a certificate authority made for this run; the kubeconfig carries it
    #[arg(long)]
    tls: bool,
    /// Begins with the state in this file, if it is there, and keeps it there: every 10 s and at the end
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Serves /informant/faults too, where watches can be dropped and errors ordered
    #[arg(long)]
    faults: bool,
    /// Begins with this fault, in JSON as for /informant/faults; may be given more than once
    #[arg(long, value_name = "JSON", value_parser = fault)]
    fault: Vec<Fault>,
    /// Where a second replica listens, which faults can make lag; the kubeconfig's context NAME-replica
    #[arg(long, value_name = "ADDRESS:PORT")]
    replica: Option<SocketAddr>,
}

fn fault(text: &str) -> Result<Fault, String> {
    serde_json::from_str(text).map_err(|error| {
        format!(
            "{error}; say it for example as {{\"rule\":{{\"times\":1,\"action\":{{\"answer\":\"internal-error\"}}}}}}"
        )
    })
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
    let options = Options {
        // Uids tell one cluster from another: no two servers give out the same. A snapshot goes on with its own.
        seed: crate::daemon::seed(),
        faults_over_http: args.faults,
        ..Options::at_wall_time()
    };
    let snapshot = args.snapshot.clone().map(SnapshotFile::new);
    let server = match &snapshot {
        Some(file) => file.load(options)?,
        None => ApiServer::new(options),
    };
    if let Some(file) = &snapshot {
        // At once: a path that cannot be written to is better known now than at the end.
        file.save(server.snapshot()).await?;
    }
    let (listener, address) = bind(args.listen).await?;
    let replica = match args.replica {
        Some(address) => Some(bind(address).await?),
        None => None,
    };
    let addresses: Vec<SocketAddr> = std::iter::once(address)
        .chain(replica.as_ref().map(|(_, address)| *address))
        .collect();
    let identity = args.tls.then(|| identity(&addresses)).transpose()?;
    if let Some(path) = &args.kubeconfig_out {
        let config = Kubeconfig {
            authority_pem: identity.as_ref().map(Identity::authority_pem),
            first: Served::new(&args.context_name, address),
            replica: addresses
                .get(1)
                .map(|address| Served::new(format!("{}-replica", args.context_name), *address)),
        };
        config.write(path)?;
    }
    let scheme = if identity.is_some() { "https" } else { "http" };
    tracing::info!(url = %format!("{scheme}://{address}"), "API server listens");
    // Made before the faults that begin with the server, which may be about it.
    let replica = replica.map(|(listener, address)| (listener, address, server.replica()));
    for fault in &args.fault {
        server.faults().apply(fault.clone());
    }
    let stopping = CancellationToken::new();
    let stop = async {
        signals.next().await;
        stopping.cancel();
    };
    let first = async {
        match &identity {
            Some(identity) => server.serve_tls(listener, identity, stopping.cancelled()).await,
            None => server.serve(listener, stopping.cancelled()).await,
        }
    };
    let second = async {
        match replica {
            Some((listener, address, replica)) => {
                tracing::info!(url = %format!("{scheme}://{address}"), "second replica listens");
                replica.serve(listener, identity.as_ref(), stopping.cancelled()).await
            }
            None => Ok(()),
        }
    };
    let keep = async {
        match &snapshot {
            Some(file) => file.keep(&server, &stopping).await,
            None => Ok(()),
        }
    };
    let ((), first, second, kept) = tokio::join!(stop, first, second, keep);
    first.and(second).context("the API server ended")?;
    kept?;
    Ok(Exit::Done)
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}"))?;
    let address = listener.local_addr().context("the listener has no address")?;
    if !address.ip().is_loopback() {
        output::note(&format!(
            "warning: {address} can be reached from outside, and this server asks nobody who they are"
        ));
    }
    Ok((listener, address))
}

/// A certificate for where the server listens, and for the usual names of this machine.
fn identity(addresses: &[SocketAddr]) -> Result<Identity> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    for address in addresses {
        let name = address.ip().to_string();
        if !address.ip().is_unspecified() && !names.contains(&name) {
            names.push(name);
        }
    }
    Identity::generate(&names).context("--tls")
}
