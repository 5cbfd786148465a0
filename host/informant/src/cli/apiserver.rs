//! `informant apiserver`: the embedded API server on a socket.

mod kubeconfig;
mod snapshot;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use informant_apiserver::{ApiServer, Fault, Identity, Options, TokenOwner};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub(super) use self::kubeconfig::{Kubeconfig, KubeconfigEntry};
use self::snapshot::SnapshotFile;
use super::{Exit, output};
use crate::signals::StopSignals;

/// `informant apiserver`.
#[derive(Debug, Args)]
pub(super) struct ApiserverArgs {
    /// Address to listen on (no authentication); port 0 picks a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8088")]
    listen: SocketAddr,
    /// Write a kubeconfig for this server, for kubectl and for --kubeconfig
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Name of the cluster, user and context in the kubeconfig
    #[arg(long, value_name = "NAME", default_value = "informant", value_parser = NonEmptyStringValueParser::new())]
    context_name: String,
    /// Serve TLS, with a certificate authority generated for this run and included in the kubeconfig
    #[arg(long)]
    tls: bool,
    /// Load the state from this file if it exists, and save it there every 10 s and at exit
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Accept this token of a user in token reviews; may be repeated
    #[arg(long, value_name = "TOKEN=USER", value_parser = token)]
    token: Vec<(String, String)>,
    /// Serve /informant/faults too, to drop watches and inject errors
    #[arg(long)]
    faults: bool,
    /// Start with this fault, in JSON as for /informant/faults; may be repeated
    #[arg(long, value_name = "JSON", value_parser = fault)]
    fault: Vec<Fault>,
    /// Address of a second replica, which faults can make lag; its kubeconfig context is NAME-replica
    #[arg(long, value_name = "ADDRESS:PORT")]
    replica: Option<SocketAddr>,
}

fn token(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((token, user)) if !token.is_empty() && !user.is_empty() => Ok((token.to_owned(), user.to_owned())),
        _ => Err("write TOKEN=USER, for example secret=alice"),
    }
}

fn fault(text: &str) -> Result<Fault, String> {
    serde_json::from_str(text).map_err(|error| {
        format!("{error}; example: {{\"rule\":{{\"times\":1,\"action\":{{\"answer\":\"internal-error\"}}}}}}")
    })
}

pub(super) fn run(args: &ApiserverArgs) -> Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    runtime.block_on(serve(args))
}

async fn serve(args: &ApiserverArgs) -> Result<Exit> {
    let mut signals = StopSignals::listen().context("cannot listen for signals")?;
    let options = Options {
        // Uids tell clusters apart, so no two servers assign the same ones. A snapshot keeps its own.
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
        // Report a path that cannot be written to now, not at exit.
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
            first: KubeconfigEntry::new(&args.context_name, address),
            replica: addresses
                .get(1)
                .map(|address| KubeconfigEntry::new(format!("{}-replica", args.context_name), *address)),
        };
        config.write(path)?;
    }
    let scheme = if identity.is_some() { "https" } else { "http" };
    tracing::info!(url = %format!("{scheme}://{address}"), "API server listening");
    // Created before the initial faults, which may refer to it.
    let replica = replica.map(|(listener, address)| (listener, address, server.replica()));
    for (token, user) in &args.token {
        let owner = TokenOwner {
            user: user.clone(),
            ..TokenOwner::default()
        };
        server.add_token(token, owner);
    }
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
                tracing::info!(url = %format!("{scheme}://{address}"), "second replica listening");
                replica.serve(listener, identity.as_ref(), stopping.cancelled()).await
            }
            None => Ok(()),
        }
    };
    let save = async {
        match &snapshot {
            Some(file) => file.save_periodically(&server, &stopping).await,
            None => Ok(()),
        }
    };
    let ((), first, second, saved) = tokio::join!(stop, first, second, save);
    first.and(second).context("the API server failed")?;
    saved?;
    Ok(Exit::Done)
}

pub(super) async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}"))?;
    let address = listener
        .local_addr()
        .context("cannot determine the address of the listener")?;
    if !address.ip().is_loopback() {
        output::note(&format!(
            "warning: {address} is reachable from other machines, and this server has no authentication"
        ));
    }
    Ok((listener, address))
}

/// A certificate for the addresses that the server listens on, and for the usual names of this machine.
fn identity(addresses: &[SocketAddr]) -> Result<Identity> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    for address in addresses {
        let name = address.ip().to_string();
        if !address.ip().is_unspecified() && !names.contains(&name) {
            names.push(name);
        }
    }
    Identity::generate(&names).context("cannot create the certificate for --tls")
}
