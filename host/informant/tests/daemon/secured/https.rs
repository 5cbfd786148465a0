//! Requests over TLS, to whatever certificate.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

#[derive(Debug)]
struct TrustAll(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

async fn connect(address: SocketAddr) -> std::io::Result<TlsStream<TcpStream>> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(TrustAll(provider)))
        .with_no_client_auth();
    let socket = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, socket).await
}

/// The certificate that the server shows, or none if the handshake fails.
pub(super) async fn certificate(address: SocketAddr) -> Option<CertificateDer<'static>> {
    let stream = connect(address).await.ok()?;
    let shown = stream.get_ref().1.peer_certificates()?.first()?;
    Some(shown.clone().into_owned())
}

/// One request on its own connection; returns the status and the body.
pub(super) async fn https_raw(address: SocketAddr, request: &str) -> (u16, String) {
    let mut stream = connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // Without a close notification, which HTTP/1.0 does not need.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// One GET; an empty token is none.
pub(super) async fn https_get(address: SocketAddr, path: &str, token: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.0\r\nhost: localhost\r\n{}\r\n", bearer(token));
    https_raw(address, &request).await
}

/// One POST of a JSON document.
pub(super) async fn https_post(address: SocketAddr, path: &str, token: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{}\r\n{body}",
        bearer(token)
    );
    https_raw(address, &head).await
}

fn bearer(token: &str) -> String {
    match token {
        "" => String::new(),
        token => format!("authorization: Bearer {token}\r\n"),
    }
}
