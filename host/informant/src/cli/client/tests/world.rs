//! A daemon with TLS that writes down its requests, and an API server that knows its pod.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use futures::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::server::TlsStream;
use tokio_websockets::{Message, ServerBuilder, WebSocketStream};

/// What a server was asked.
type Seen = Arc<Mutex<Vec<String>>>;

/// An admin server with TLS.
pub(super) struct Daemon {
    pub(super) address: SocketAddr,
    /// `GET /api/v1/plugins localhost Bearer secret`
    seen: Seen,
    /// Its certificate, which signs itself.
    pub(super) certificate: PathBuf,
    _folder: TempDir,
}

impl Daemon {
    /// Its certificate is valid for `name`. It answers `answer` to everything.
    pub(super) async fn start(name: &str, answer: (StatusCode, Value)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([name.to_owned()])
            .unwrap()
            .self_signed(&key)
            .unwrap();
        let path = folder.path().join("ca.crt");
        std::fs::write(&path, certificate.pem()).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let seen = Seen::default();
        let routes = Router::new().fallback({
            let seen = Arc::clone(&seen);
            async move |request: Request| {
                seen.lock().unwrap().push(line(&request));
                (answer.0, answer.1.to_string())
            }
        });
        let listener = TlsListener {
            tcp,
            acceptor: TlsAcceptor::from(Arc::new(config)),
        };
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self {
            address,
            seen,
            certificate: path,
            _folder: folder,
        }
    }

    /// What it was asked since the last call.
    pub(super) fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

fn line(request: &Request) -> String {
    let header = |name: &str| {
        let value = request.headers().get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or("-").to_owned()
    };
    format!(
        "{} {} {} {}",
        request.method(),
        request.uri(),
        header("host"),
        header("authorization")
    )
}

struct TlsListener {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let (socket, address) = self.tcp.accept().await.unwrap();
            // Clients that refuse the certificate hang up.
            if let Ok(stream) = self.acceptor.accept(socket).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// An API server: the pods of the namespace `informant`, tokens for service accounts, and port-forwards.
#[derive(Clone)]
pub(super) struct ApiServer {
    pub(super) url: String,
    /// What was requested, with the bodies of token requests.
    seen: Seen,
    pods: Value,
    /// Where port-forwards lead; they fail without.
    daemon: Option<SocketAddr>,
    /// The status of every answer, if it is an error.
    refusal: Option<StatusCode>,
}

impl ApiServer {
    pub(super) async fn start(pods: Value, daemon: Option<SocketAddr>, refusal: Option<StatusCode>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            seen: Seen::default(),
            pods,
            daemon,
            refusal,
        };
        let routes = Router::new().fallback(answer).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        server
    }

    pub(super) fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    /// A kubeconfig for this server with this user.
    pub(super) fn kubeconfig(&self, folder: &TempDir, user: &Value) -> String {
        let path = folder.path().join("kubeconfig");
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{ "name": "test", "cluster": { "server": self.url } }],
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test", "namespace": "team" } }],
            "users": [{ "name": "test", "user": user }],
        });
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        path.display().to_string()
    }
}

async fn answer(State(server): State<ApiServer>, mut request: Request) -> Response {
    let mut seen = line(&request);
    if request.method() == Method::POST {
        let body = request.body_mut().collect().await.unwrap().to_bytes();
        seen.extend([" ", String::from_utf8_lossy(&body).as_ref()]);
    }
    server.seen.lock().unwrap().push(seen);
    if let Some(code) = server.refusal {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "it is forbidden",
            "reason": "Forbidden", "code": code.as_u16(),
        });
        return (code, status.to_string()).into_response();
    }
    match request.uri().path() {
        "/api/v1/namespaces/informant/pods" => {
            json!({ "kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": server.pods })
                .to_string()
                .into_response()
        }
        "/api/v1/namespaces/informant/pods/informant-0" => server.pods[0].to_string().into_response(),
        "/api/v1/namespaces/informant/pods/informant-0/portforward" => port_forward(&server, request),
        path if path.ends_with("/token") => json!({ "status": { "token": "requested" } })
            .to_string()
            .into_response(),
        _ => {
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "not found",
                "reason": "NotFound", "code": 404,
            });
            (StatusCode::NOT_FOUND, status.to_string()).into_response()
        }
    }
}

/// The kubelet's part of a port-forward: port 8089 over channel 0, errors over channel 1.
fn port_forward(server: &ApiServer, mut request: Request) -> Response {
    assert_eq!(request.uri().query(), Some("ports=8089"));
    assert_eq!(request.headers()["sec-websocket-protocol"], "v4.channel.k8s.io");
    let headers = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-protocol", "v4.channel.k8s.io"),
    ];
    let headers: HeaderMap = headers
        .into_iter()
        .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
        .collect();
    let (upgrade, daemon) = (hyper::upgrade::on(&mut request), server.daemon);
    tokio::spawn(async move {
        let socket = TokioIo::new(upgrade.await.unwrap());
        let mut socket = ServerBuilder::new().serve(socket);
        for channel in [0, 1] {
            let [low, high] = 8089_u16.to_le_bytes();
            socket.send(Message::binary(vec![channel, low, high])).await?;
        }
        match daemon {
            Some(daemon) => relay(socket, TcpStream::connect(daemon).await?).await,
            None => {
                let problem = b"\x01error forwarding port 8089: connection refused";
                socket.send(Message::binary(problem.to_vec())).await?;
                // Until the client hangs up.
                while let Some(Ok(_)) = socket.next().await {}
                Ok(())
            }
        }
    });
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

type Upgraded = TokioIo<hyper::upgrade::Upgraded>;

async fn relay(mut client: WebSocketStream<Upgraded>, mut daemon: TcpStream) -> Result<(), tokio_websockets::Error> {
    let mut bytes = vec![0; 4_096];
    loop {
        tokio::select! {
            message = client.next() => match message {
                Some(Ok(message)) if message.is_binary() => {
                    let frame = message.into_payload();
                    assert_eq!(frame[0], 0);
                    daemon.write_all(&frame[1..]).await?;
                }
                _ => return Ok(()),
            },
            read = daemon.read(&mut bytes) => {
                let mut frame = vec![0];
                match read? {
                    0 => return client.close().await,
                    read => frame.extend(&bytes[..read]),
                }
                client.send(Message::binary(frame)).await?;
            }
        }
    }
}
