//! TLS with a self-made certificate authority, generated for each server and never stored.

use std::fmt;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// The server's certificate with its key, and the authority that signed it.
#[derive(Clone)]
pub struct Identity {
    pub(crate) config: Arc<ServerConfig>,
    authority_pem: String,
}

/// Why no certificate could be created.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A name that is not valid in a certificate, or a signing failure.
    #[error("cannot create a certificate for {names}: {source}")]
    Certificate {
        /// The requested names.
        names: String,
        source: rcgen::Error,
    },
    /// rustls rejected the certificate.
    #[error("the TLS library rejected the server's certificate: {0}")]
    Config(#[from] tokio_rustls::rustls::Error),
}

impl Identity {
    /// Generates an authority and a certificate for `names`: host names and IP addresses.
    ///
    /// # Errors
    /// If a name is not valid in a certificate.
    pub fn generate(names: &[String]) -> Result<Self, IdentityError> {
        let (authority_pem, chain, key) = certificate(names).map_err(|source| IdentityError::Certificate {
            names: names.join(", "),
            source,
        })?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            authority_pem,
        })
    }

    /// The authority's certificate, which clients must trust, as PEM.
    pub fn authority_pem(&self) -> &str {
        &self.authority_pem
    }
}

type Certificate = tokio_rustls::rustls::pki_types::CertificateDer<'static>;

fn certificate(names: &[String]) -> Result<(String, Vec<Certificate>, KeyPair), rcgen::Error> {
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    authority
        .distinguished_name
        .push(DnType::CommonName, "informant apiserver");
    let authority_pem = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate()?;
    let mut server = CertificateParams::new(names.to_vec())?;
    server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let signed = server.signed_by(&key, &issuer)?;
    Ok((authority_pem, vec![signed.der().clone()], key))
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}
