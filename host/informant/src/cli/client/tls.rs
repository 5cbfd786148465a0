//! TLS to the admin server: which certificates are accepted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use http::Uri;
use kube::client::ConfigExt as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, AlertDescription, CertificateError};

use crate::files::read_regular_file;

/// Bytes of the file of `--certificate-authority`: 4 MiB. A larger one is an error.
const AUTHORITY_BYTES_MAX: usize = 4 << 20;

/// Which certificates are accepted.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct TlsArgs {
    /// Accept only certificates of the authorities in this PEM file [default: of the operating system's; through a
    /// port-forward, any]
    #[arg(long, value_name = "FILE")]
    certificate_authority: Option<PathBuf>,
    /// Accept any certificate: a server in place of the daemon would receive your token
    #[arg(long, conflicts_with = "certificate_authority")]
    insecure_skip_tls_verify: bool,
    /// Name that the certificate must be valid for [default: the host of --admin; through a port-forward,
    /// informant.NAMESPACE.svc]
    #[arg(long, value_name = "NAME", conflicts_with = "insecure_skip_tls_verify")]
    tls_server_name: Option<String>,
}

/// What proves that the other side is the daemon.
enum Proof<'a> {
    /// A certificate of an authority in this file.
    Authority(&'a Path),
    /// A certificate of one of the operating system's authorities.
    System,
    /// Its certificate is not looked at.
    None,
}

impl TlsArgs {
    /// The first flag that makes sense only with TLS.
    pub(super) fn flag(&self) -> Option<&'static str> {
        if self.certificate_authority.is_some() {
            Some("--certificate-authority")
        } else if self.insecure_skip_tls_verify {
            Some("--insecure-skip-tls-verify")
        } else {
            self.tls_server_name.as_ref().map(|_| "--tls-server-name")
        }
    }

    /// Shakes hands with an admin server, whose certificate must be valid for `host`.
    pub(super) async fn with_server<S>(&self, host: &str, stream: S) -> Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let proof = match &self.certificate_authority {
            _ if self.insecure_skip_tls_verify => Proof::None,
            Some(file) => Proof::Authority(file),
            None => Proof::System,
        };
        self.shake_hands(proof, host, stream).await
    }

    /// Shakes hands through a port-forward. The API server and the kubelet have authenticated the pod, so its
    /// certificate is verified only on request: most often the daemon has made it for itself.
    pub(super) async fn with_pod<S>(&self, namespace: &str, stream: S) -> Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let proof = self
            .certificate_authority
            .as_deref()
            .map_or(Proof::None, Proof::Authority);
        self.shake_hands(proof, &format!("informant.{namespace}.svc"), stream)
            .await
    }

    async fn shake_hands<S>(&self, proof: Proof<'_>, host: &str, stream: S) -> Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = self.tls_server_name.as_deref().unwrap_or(host);
        let server = ServerName::try_from(name.to_owned())
            .map_err(|_| anyhow!("{name:?} is not a name that a certificate can have"))?;
        let connector = TlsConnector::from(Arc::new(client_config(&proof)?));
        let shaken = connector.connect(server, stream).await;
        shaken.map_err(|error| anyhow!("{}", explain(&error, name)))
    }
}

/// kube's own configuration of rustls, with only what is set here.
fn client_config(proof: &Proof<'_>) -> Result<rustls::ClientConfig> {
    let mut config = kube::Config::new(Uri::from_static("https://informant"));
    match proof {
        Proof::Authority(file) => config.root_cert = Some(authorities(file)?),
        Proof::System => {}
        Proof::None => {
            config.root_cert = Some(Vec::new());
            config.accept_invalid_certs = true;
        }
    }
    let mut config = config.rustls_client_config().context("cannot set up TLS")?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn authorities(file: &Path) -> Result<Vec<Vec<u8>>> {
    let unusable = || format!("cannot use {} (--certificate-authority)", file.display());
    let text = read_regular_file(file, AUTHORITY_BYTES_MAX).with_context(unusable)?;
    let certificates = CertificateDer::pem_slice_iter(&text).map(|found| found.map(|der| der.to_vec()));
    let certificates: Vec<_> = certificates.collect::<Result<_, _>>().with_context(unusable)?;
    if certificates.is_empty() {
        bail!("{}: it contains no certificate in PEM", unusable());
    }
    Ok(certificates)
}

/// Why the handshake failed, and what to do.
fn explain(error: &std::io::Error, name: &str) -> String {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::AlertReceived(AlertDescription::AccessDenied)) => {
            "the daemon has no certificate that it can show: its log, and /readyz?verbose on its health port, have the \
             reason"
                .to_owned()
        }
        Some(rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => format!("{error}; pass the name that it is valid for with --tls-server-name"),
        Some(rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => format!("{error}; renew the certificate of the daemon"),
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(other)))
            if other.to_string().contains("CaUsedAsEndEntity") =>
        {
            "the daemon shows the certificate of an authority (CA:TRUE), which clients refuse: issue one with \
             basicConstraints=CA:FALSE"
                .to_owned()
        }
        Some(rustls::Error::InvalidCertificate(_)) => format!(
            "{error}; if an authority of your own issued its certificate for {name}, pass the authority's file with \
             --certificate-authority; if the certificate is for another name, pass that with --tls-server-name. \
             Nothing can verify the one of `tls = \"self-signed\"`: use a port-forward, or on the daemon's own \
             machine --insecure-skip-tls-verify"
        ),
        Some(rustls::Error::InvalidMessage(_)) => {
            format!("it does not use TLS ({error}); for plain HTTP, pass --admin ADDRESS:PORT")
        }
        _ => format!("the TLS handshake failed: {error}"),
    }
}
