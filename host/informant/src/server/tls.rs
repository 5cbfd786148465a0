//! TLS of a server: reads certificates, and shows one that can be replaced while the server runs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::client::verify_server_cert_signed_by_trust_anchor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use tokio_rustls::rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{CertificateError, Error, InconsistentKeys, RootCertStore, ServerConfig};

use crate::files::read_regular_file;

/// The largest file with a certificate chain or a key: 1 MiB.
pub(crate) const CERTIFICATE_BYTES_MAX: usize = 1 << 20;

/// What a key file with a passphrase contains, in both formats of such files.
const ENCRYPTED: &[u8] = b"ENCRYPTED";

#[derive(Clone)]
pub(crate) struct Certificate {
    key: Arc<CertifiedKey>,
    pub(crate) expires: Timestamp,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateProblem {
    #[error("cannot read {path}: {message}", path = path.display())]
    Unreadable { path: PathBuf, message: String },
    #[error("{path} contains no certificate in PEM format; expected \"-----BEGIN CERTIFICATE-----\"", path = .0.display())]
    NoCertificate(PathBuf),
    #[error("{path} contains no private key in PEM format: {message}", path = path.display())]
    NoKey { path: PathBuf, message: String },
    #[error("the private key in {key} does not belong to the first certificate in {certificate}", key = key.display(), certificate = certificate.display())]
    OtherKey { certificate: PathBuf, key: PathBuf },
    #[error("the certificate in {path} cannot be used: {message}", path = path.display())]
    Unusable { path: PathBuf, message: String },
    #[error("the certificate in {path} expired at {at}", path = path.display())]
    Expired { path: PathBuf, at: Timestamp },
    #[error("the certificate in {path} is not valid before {from}", path = path.display())]
    NotValidYet { path: PathBuf, from: Timestamp },
    #[error("cannot generate a certificate: {0}")]
    Generate(#[from] rcgen::Error),
    #[error("the TLS library refuses the generated certificate: {0}")]
    Generated(#[source] Error),
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CertificateFiles {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl CertificateFiles {
    /// Blocks.
    pub(crate) fn read(certificate: &Path, key: &Path) -> Result<Self, CertificateProblem> {
        let read = |path: &Path| {
            read_regular_file(path, CERTIFICATE_BYTES_MAX).map_err(|error| CertificateProblem::Unreadable {
                path: path.to_owned(),
                message: error.to_string(),
            })
        };
        Ok(Self {
            certificate: read(certificate)?,
            key: read(key)?,
        })
    }

    /// The certificate in the files, which have these paths.
    pub(crate) fn parse(&self, certificate: &Path, key: &Path) -> Result<Certificate, CertificateProblem> {
        let chain: Result<Vec<CertificateDer<'static>>, _> =
            CertificateDer::pem_slice_iter(&self.certificate).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or_else(|| CertificateProblem::NoCertificate(certificate.to_owned()))?;
        let private = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| CertificateProblem::NoKey {
            path: key.to_owned(),
            message: match self.key.windows(ENCRYPTED.len()).any(|part| part == ENCRYPTED) {
                true => "it is encrypted, and Informant has no passphrase".to_owned(),
                false => error.to_string(),
            },
        })?;
        Certificate::new(chain, private).map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => CertificateProblem::OtherKey {
                certificate: certificate.to_owned(),
                key: key.to_owned(),
            },
            error => CertificateProblem::Unusable {
                path: certificate.to_owned(),
                message: error.to_string(),
            },
        })
    }
}

impl Certificate {
    /// A certificate for these host names and addresses, signed by itself. It does not expire: it ends with the
    /// process.
    pub(crate) fn self_signed(names: Vec<String>) -> Result<Self, CertificateProblem> {
        let key = KeyPair::generate()?;
        let mut server = CertificateParams::new(names)?;
        server.distinguished_name.push(DnType::CommonName, "informant");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let signed = server.self_signed(&key)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Self::new(vec![signed.der().clone()], key).map_err(CertificateProblem::Generated)
    }

    fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Self, Error> {
        let key = CertifiedKey::from_der(chain, key, &ring::default_provider())?;
        let expires = expires(key.end_entity_cert()?)?;
        Ok(Self {
            key: Arc::new(key),
            expires,
        })
    }

    /// Errors: if it has expired or is not valid yet; `path` is its file.
    pub(crate) fn check_time(&self, now: Timestamp, path: &Path) -> Result<(), CertificateProblem> {
        let path = || path.to_owned();
        let seconds = u64::try_from(now.as_second()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let found = self.key.end_entity_cert().map(|certificate| verify(certificate, now));
        match found {
            Ok(Err(Error::InvalidCertificate(CertificateError::ExpiredContext { .. }))) => {
                Err(CertificateProblem::Expired {
                    path: path(),
                    at: self.expires,
                })
            }
            Ok(Err(Error::InvalidCertificate(CertificateError::NotValidYetContext { not_before, .. }))) => {
                Err(CertificateProblem::NotValidYet {
                    path: path(),
                    from: timestamp(not_before),
                })
            }
            // Clients decide whether they trust the signature.
            _ => Ok(()),
        }
    }
}

/// When a certificate expires: the verification at the end of time tells.
fn expires(certificate: &CertificateDer<'_>) -> Result<Timestamp, Error> {
    let end_of_time = UnixTime::since_unix_epoch(Duration::from_secs(i64::MAX.unsigned_abs()));
    match verify(certificate, end_of_time) {
        Err(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => Ok(timestamp(not_after)),
        Err(error) => Err(error),
        Ok(()) => Ok(Timestamp::MAX),
    }
}

fn timestamp(at: UnixTime) -> Timestamp {
    let seconds = i64::try_from(at.as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}

/// Checks a certificate at a time. Its validity is looked at first, before its signature.
fn verify(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let parsed = ParsedCertificate::try_from(certificate)?;
    let algorithms = ring::default_provider().signature_verification_algorithms;
    verify_server_cert_signed_by_trust_anchor(&parsed, &RootCertStore::empty(), &[], now, algorithms.all)
}

/// What a server shows to its clients. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct ServerIdentity(Arc<RwLock<Option<Arc<CertifiedKey>>>>);

impl ServerIdentity {
    /// Shows this certificate from the next connection on. Without any, connections are refused.
    pub(crate) fn set(&self, certificate: &Certificate) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&certificate.key));
    }

    pub(crate) fn acceptor(&self) -> Result<TlsAcceptor, Error> {
        let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(self.clone()));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

impl ResolvesServerCert for ServerIdentity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for ServerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerIdentity")
    }
}

#[cfg(test)]
mod tests;
