//! TLS to the hosts that plugins call: the system's roots, and those of `[http] ca-file`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use informant_plugin_host::{HttpError, HttpErrorCode};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

use super::connect::Stream;
use crate::files::{Turn, read_regular_file};
use crate::sync::lock;

/// Bytes of `[http] ca-file`: 4 MiB. A larger one is an error.
const CA_FILE_BYTES_MAX: usize = 4 << 20;

pub(super) struct Tls {
    ca_file: Option<PathBuf>,
    /// Created for the first request that needs it: reading the roots takes milliseconds and memory.
    loaded: Arc<Mutex<Option<Loaded>>>,
}

/// The roots that are trusted.
struct Loaded {
    /// The content of `ca_file`, if there is one.
    ca: Option<Vec<u8>>,
    config: Arc<ClientConfig>,
}

impl Tls {
    pub(super) fn new(ca_file: Option<PathBuf>) -> Tls {
        Tls {
            ca_file,
            loaded: Arc::default(),
        }
    }

    /// Shakes hands with `host`, whose certificate must be valid for this name or address.
    pub(super) async fn shake_hands(
        &self,
        host: &str,
        stream: Box<dyn Stream>,
    ) -> Result<TlsStream<Box<dyn Stream>>, HttpError> {
        let config = self.config().await?;
        let name = host.trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(name)
            .map_err(|_| HttpError::new(HttpErrorCode::Tls, "the host is not a name that a certificate can have"))?;
        TlsConnector::from(config)
            .connect(name, stream)
            .await
            .map_err(|error| of_handshake(&error))
    }

    /// Reads `ca_file` each time, as the files of headers, so that a new content is used at once.
    async fn config(&self) -> Result<Arc<ClientConfig>, HttpError> {
        let (ca_file, loaded) = (self.ca_file.clone(), Arc::clone(&self.loaded));
        let turn = self.ca_file.as_deref().map_or_else(Turn::new, Turn::of);
        let config = turn.run(move || current(ca_file.as_deref(), &loaded)).await;
        config
            .unwrap_or_else(|_| Err("Informant is stopping".to_owned()))
            .map_err(|problem| HttpError::new(HttpErrorCode::Tls, problem))
    }
}

fn of_handshake(error: &io::Error) -> HttpError {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(_)) => {
            let message = format!("{error}; if a private CA signed it, name its file: [http] ca-file");
            HttpError::new(HttpErrorCode::Certificate, message)
        }
        _ => HttpError::new(HttpErrorCode::Tls, format!("the TLS handshake failed: {error}")),
    }
}

/// What is loaded, if `ca_file` still has that content.
fn current(ca_file: Option<&Path>, loaded: &Mutex<Option<Loaded>>) -> Result<Arc<ClientConfig>, String> {
    let unusable = |problem: String| {
        let path = ca_file.unwrap_or(Path::new(""));
        format!("cannot use {} ([http] ca-file): {problem}", path.display())
    };
    let read = ca_file
        .map(|path| read_regular_file(path, CA_FILE_BYTES_MAX))
        .transpose();
    let ca = read.map_err(|error| unusable(error.to_string()))?;
    // Replaced as a whole: valid after any panic.
    let mut loaded = lock(loaded);
    if let Some(same) = loaded.as_ref().filter(|loaded| loaded.ca == ca) {
        return Ok(Arc::clone(&same.config));
    }
    let mut roots = RootCertStore::empty();
    // Roots that cannot be read are missed by the handshakes that need them.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(text) = &ca {
        add(&mut roots, text).map_err(unusable)?;
    }
    let config = config(roots)?;
    *loaded = Some(Loaded {
        ca,
        config: Arc::clone(&config),
    });
    Ok(config)
}

/// Whether `[http] ca-file` can be used.
pub(crate) fn check_ca_file(path: &Path) -> Result<(), String> {
    let text = read_regular_file(path, CA_FILE_BYTES_MAX).map_err(|error| error.to_string())?;
    add(&mut RootCertStore::empty(), &text)
}

/// Adds the certificates in `text`.
fn add(roots: &mut RootCertStore, text: &[u8]) -> Result<(), String> {
    let before = roots.len();
    for certificate in CertificateDer::pem_slice_iter(text) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    match roots.len() == before {
        true => Err("it contains no certificate in PEM".to_owned()),
        false => Ok(()),
    }
}

fn config(roots: RootCertStore) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
