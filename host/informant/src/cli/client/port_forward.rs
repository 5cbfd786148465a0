//! The stream of a port-forward: WebSocket messages to the kubelet, by way of the API server.
//!
//! The first byte of a message is its channel: 0 carries the data, 1 an error. The first message of each channel is the
//! port's number.
//!
//! Source: k8s.io/kubelet `pkg/cri/streaming/portforward/websocket.go`, which also serves this protocol to others than
//! kubectl.

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::header::{CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio::sync::oneshot;
use tokio_websockets::{ClientBuilder, Message};

/// The protocol of the messages.
const PROTOCOL: &str = "v4.channel.k8s.io";

/// Bytes on their way in one direction: 64 KiB. Then the sender waits.
const BUFFER_BYTES_MAX: usize = 64 * 1_024;

/// The longest error response of the API server.
const ERROR_BYTES_MAX: usize = 64 * 1_024;

/// The channel of the data; the other one carries an error.
const DATA: u8 = 0;

pub(super) struct Forward {
    /// To and from the port of the pod. Ends with the port-forward.
    pub(super) stream: DuplexStream,
    /// What the kubelet reports, such as a refused connection.
    pub(super) failed: oneshot::Receiver<String>,
}

/// Opens a port-forward.
/// Errors: the API server's, or those of the connection.
pub(super) async fn open(client: &Client, namespace: &str, pod: &str, port: u16) -> kube::Result<Forward> {
    let request = Request::get(format!(
        "/api/v1/namespaces/{namespace}/pods/{pod}/portforward?ports={port}"
    ))
    .header(CONNECTION, "Upgrade")
    .header(UPGRADE, "websocket")
    .header(SEC_WEBSOCKET_VERSION, "13")
    // A key proves to a client that a server speaks WebSocket. Here, the kubeconfig proves that it is the API server.
    .header(SEC_WEBSOCKET_KEY, "aW5mb3JtYW50LWNsaWVudA==")
    .header(SEC_WEBSOCKET_PROTOCOL, PROTOCOL)
    .body(Body::empty())
    .map_err(kube::Error::HttpError)?;
    let response = client.send(request).await?;
    let status = response.status();
    if status != StatusCode::SWITCHING_PROTOCOLS {
        let body = Limited::new(response.into_body(), ERROR_BYTES_MAX).collect().await;
        let body = body.map_or_else(|_| Bytes::new(), |body| body.to_bytes());
        return Err(kube::Error::Api(Box::new(refusal(status, &body))));
    }
    let socket = hyper::upgrade::on(response).await.map_err(kube::Error::HyperError)?;
    let (stream, local) = tokio::io::duplex(BUFFER_BYTES_MAX);
    let (report, failed) = oneshot::channel();
    tokio::spawn(relay(TokioIo::new(socket), local, report));
    Ok(Forward { stream, failed })
}

/// The API server's error; a kubelet may answer with plain text.
fn refusal(status: StatusCode, body: &[u8]) -> Status {
    serde_json::from_slice(body).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(body);
        Status::failure(&format!("{status}: {}", text.trim()), "").with_code(status.as_u16())
    })
}

/// Passes on bytes until one side ends, or the kubelet reports an error.
async fn relay(socket: impl AsyncRead + AsyncWrite + Unpin, local: DuplexStream, report: oneshot::Sender<String>) {
    let (mut to_pod, mut from_pod) = ClientBuilder::new().take_over(socket).split();
    let (mut from_client, mut to_client) = tokio::io::split(local);
    let up = async {
        loop {
            let mut message = Vec::with_capacity(1 + BUFFER_BYTES_MAX);
            message.push(DATA);
            match from_client.read_buf(&mut message).await {
                Ok(1..) if to_pod.send(Message::binary(message)).await.is_ok() => {}
                _ => return None,
            }
        }
    };
    let down = async {
        let mut began = [false; 2];
        while let Some(Ok(message)) = from_pod.next().await {
            let payload = message.is_binary().then(|| message.into_payload());
            let Some((&channel, bytes)) = payload.as_deref().and_then(<[u8]>::split_first) else {
                continue;
            };
            let Some(began) = began.get_mut(usize::from(channel)) else {
                continue;
            };
            let is_port = !std::mem::replace(began, true);
            match channel {
                _ if is_port => {}
                DATA if to_client.write_all(bytes).await.is_ok() => {}
                DATA => return None,
                _ => return Some(String::from_utf8_lossy(bytes).trim().to_owned()),
            }
        }
        None
    };
    let problem = tokio::select! {
        problem = up => problem,
        problem = down => problem,
    };
    if let Some(problem) = problem {
        // Once the connection is in use, its end is the error.
        let _ = report.send(problem);
    }
}
