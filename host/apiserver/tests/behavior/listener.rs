//! The listener, over real sockets on loopback. Waits are conditions with a deadline.

use std::sync::Arc;
use std::time::Duration;

use informant_apiserver::{ApiServer, Ending, Filter, Identity};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::support::{PODS, pod, server};

/// How long anything here may take before it counts as stuck.
const DEADLINE: Duration = Duration::from_secs(20);

struct Served {
    address: std::net::SocketAddr,
    stop: oneshot::Sender<()>,
    done: JoinHandle<std::io::Result<()>>,
}

async fn serve(server: &ApiServer) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let server = server.clone();
    let done = tokio::spawn(async move {
        let stopped = async {
            let _ = stopped.await;
        };
        server.serve(listener, stopped).await
    });
    Served { address, stop, done }
}

impl Served {
    /// Sends a GET and returns the connection.
    async fn get(&self, uri: &str) -> TcpStream {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        let request = format!("GET {uri} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        socket
    }
}

/// Reads until `text` was seen.
async fn until(socket: &mut TcpStream, text: &str) -> String {
    let mut seen = String::new();
    let mut buffer = [0; 4_096];
    while !seen.contains(text) {
        let read = timeout(DEADLINE, socket.read(&mut buffer)).await.unwrap().unwrap();
        assert_ne!(read, 0, "the connection ended before {text:?}: {seen}");
        seen.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
    seen
}

/// Reads to the end of the connection, orderly or not.
async fn rest(socket: &mut TcpStream) -> String {
    let mut seen = Vec::new();
    let _ = timeout(DEADLINE, socket.read_to_end(&mut seen)).await.unwrap();
    String::from_utf8(seen).unwrap()
}

#[tokio::test]
async fn lists_and_watches_come_over_http_1() {
    let server = server();
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    let served = serve(&server).await;
    let mut list = served.get(PODS).await;
    let answer = until(&mut list, "]}").await;
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("content-length: "),
        "{answer}"
    );

    let mut watch = served.get(&format!("{PODS}?watch=true&resourceVersion=5")).await;
    let head = until(&mut watch, "\r\n\r\n").await;
    assert!(
        head.contains("transfer-encoding: chunked"),
        "the head comes before the first event: {head}"
    );
    server.create("v1/pods", "default", pod("b", json!({}))).unwrap();
    until(&mut watch, r#""name":"b""#).await;

    server.faults().drop_watches(&Filter::any(), Ending::Clean);
    assert_eq!(
        until(&mut watch, "0\r\n\r\n").await,
        "0\r\n\r\n",
        "an orderly end of the chunks"
    );
}

#[tokio::test]
async fn a_reset_watch_loses_its_connection_without_an_end() {
    let server = server();
    let served = serve(&server).await;
    let mut watch = served.get(&format!("{PODS}?watch=true")).await;
    until(&mut watch, "\r\n\r\n").await;
    server.faults().drop_watches(&Filter::any(), Ending::MidLine);
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    let seen = rest(&mut watch).await;
    assert!(
        seen.contains(r#"{"type":"ADDED""#) && !seen.contains("0\r\n\r\n"),
        "{seen}"
    );
}

#[tokio::test]
async fn a_restart_cuts_connections_and_serves_again() {
    let server = server();
    let served = serve(&server).await;
    let mut watch = served.get(&format!("{PODS}?watch=true")).await;
    until(&mut watch, "\r\n\r\n").await;
    server.faults().restart(Duration::ZERO, false);
    assert_eq!(rest(&mut watch).await, "");
    until(&mut served.get(PODS).await, "]}").await;
}

#[tokio::test]
async fn a_shutdown_ends_watches_in_order_and_waits_for_them() {
    let server = server();
    let served = serve(&server).await;
    let mut watch = served.get(&format!("{PODS}?watch=true")).await;
    until(&mut watch, "\r\n\r\n").await;
    served.stop.send(()).unwrap();
    assert_eq!(rest(&mut watch).await, "0\r\n\r\n");
    timeout(DEADLINE, served.done).await.unwrap().unwrap().unwrap();
    assert!(TcpStream::connect(served.address).await.is_err());
}

#[tokio::test]
async fn tls_clients_must_trust_the_authority() {
    let server = server();
    let identity = Identity::generate(&["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let (serving, served_identity) = (server.clone(), identity.clone());
    let done = tokio::spawn(async move {
        let stopped = async {
            let _ = stopped.await;
        };
        serving.serve_tls(listener, &served_identity, stopped).await
    });
    let mut socket = shake(address, identity.authority_pem()).await.unwrap();
    socket
        .write_all(b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let _ = timeout(DEADLINE, socket.read_to_end(&mut answer)).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\"gitVersion\""),
        "{answer}"
    );
    let stranger = Identity::generate(&["localhost".to_owned()]).unwrap();
    assert!(shake(address, stranger.authority_pem()).await.is_err());
    stop.send(()).unwrap();
    timeout(DEADLINE, done).await.unwrap().unwrap().unwrap();
}

/// Opens a TLS connection that trusts one authority.
async fn shake(address: std::net::SocketAddr, authority_pem: &str) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority_pem.as_bytes()).unwrap())
        .unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let socket = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, socket).await
}
