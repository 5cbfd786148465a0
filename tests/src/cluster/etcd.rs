//! Direct requests to etcd, through its JSON gateway.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

/// Makes etcd drop every revision but the newest, also on disk.
pub(super) async fn compact(port: u16) -> Result<()> {
    let status = ask(port, "/v3/maintenance/status", &json!({})).await?;
    let revision = status
        .pointer("/header/revision")
        .and_then(Value::as_str)
        .context("etcd's status has no revision")?;
    let wanted = json!({"revision": revision, "physical": true});
    ask(port, "/v3/kv/compaction", &wanted).await.map(drop)
}

async fn ask(port: u16, path: &str, body: &Value) -> Result<Value> {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let request = Request::post(format!("http://127.0.0.1:{port}{path}"))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_string())))?;
    let answer = client.request(request).await?;
    let status = answer.status();
    let text = answer.into_body().collect().await?.to_bytes();
    ensure!(
        status.is_success(),
        "etcd answered {status} to {path}: {}",
        String::from_utf8_lossy(&text)
    );
    Ok(serde_json::from_slice(&text)?)
}
