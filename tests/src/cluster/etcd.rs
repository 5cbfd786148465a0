//! Direct requests to etcd, through its JSON gateway.

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

/// The database of the real kube-apiserver.
#[derive(Clone)]
pub(crate) struct Etcd {
    client: Client<HttpConnector, Full<Bytes>>,
    port: u16,
}

impl Etcd {
    pub(super) fn new(port: u16) -> Self {
        Self {
            client: Client::builder(TokioExecutor::new()).build_http(),
            port,
        }
    }

    /// Drops every revision but the newest, also on disk.
    pub(super) async fn compact(&self) -> Result<()> {
        let status = self.ask("/v3/maintenance/status", &json!({})).await?;
        let revision = status
            .pointer("/header/revision")
            .and_then(Value::as_str)
            .context("etcd's status has no revision")?;
        let wanted = json!({"revision": revision, "physical": true});
        self.ask("/v3/kv/compaction", &wanted).await.map(drop)
    }

    /// The value of a key, as the API server wrote it.
    pub(crate) async fn get(&self, key: &str) -> Result<Vec<u8>> {
        let answer = self.ask("/v3/kv/range", &json!({"key": STANDARD.encode(key)})).await?;
        let value = answer.pointer("/kvs/0/value").and_then(Value::as_str);
        Ok(STANDARD.decode(value.with_context(|| format!("etcd has no {key}"))?)?)
    }

    /// Sets the value of a key.
    pub(crate) async fn put(&self, key: &str, value: &[u8]) -> Result<()> {
        let body = json!({"key": STANDARD.encode(key), "value": STANDARD.encode(value)});
        self.ask("/v3/kv/put", &body).await.map(drop)
    }

    async fn ask(&self, path: &str, body: &Value) -> Result<Value> {
        let request = Request::post(format!("http://127.0.0.1:{}{path}", self.port))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_string())))?;
        let answer = self.client.request(request).await?;
        let status = answer.status();
        let text = answer.into_body().collect().await?.to_bytes();
        ensure!(
            status.is_success(),
            "etcd answered {status} to {path}: {}",
            String::from_utf8_lossy(&text)
        );
        Ok(serde_json::from_slice(&text)?)
    }
}
