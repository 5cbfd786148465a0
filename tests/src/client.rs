//! A client that reads and writes objects as plain JSON by path.

use std::path::Path;

use anyhow::{Context, Result};
use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;

/// Talks to one API server with the rights of its kubeconfig.
#[derive(Clone)]
pub struct Client {
    client: kube::Client,
}

impl Client {
    /// Reads `kubeconfig` and creates a client. Nothing is sent yet.
    ///
    /// # Errors
    /// If the file cannot be read or is invalid.
    pub async fn new(kubeconfig: &Path) -> Result<Self> {
        let file = Kubeconfig::read_from(kubeconfig).with_context(|| format!("reading {}", kubeconfig.display()))?;
        let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        config.default_retry = false;
        Ok(Self {
            client: kube::Client::try_from(config)?,
        })
    }

    /// The underlying kube client.
    pub fn kube(&self) -> kube::Client {
        self.client.clone()
    }

    /// GET of a path with a text answer.
    ///
    /// # Errors
    /// Errors of the kube client.
    pub async fn text(&self, path: &str) -> Result<String> {
        Ok(self.client.request_text(Request::get(path).body(Vec::new())?).await?)
    }

    /// GET of an object or a list.
    ///
    /// # Errors
    /// Errors of the kube client: `kube::Error::Api` for an answer that is a Status.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.send(Method::GET, path, "application/json", &Value::Null).await
    }

    /// POST of an object to its collection.
    ///
    /// # Errors
    /// See [`get`](Self::get).
    pub async fn post(&self, path: &str, object: &Value) -> Result<Value> {
        self.send(Method::POST, path, "application/json", object).await
    }

    /// PUT of an object.
    ///
    /// # Errors
    /// See [`get`](Self::get).
    pub async fn put(&self, path: &str, object: &Value) -> Result<Value> {
        self.send(Method::PUT, path, "application/json", object).await
    }

    /// JSON merge patch of an object.
    ///
    /// # Errors
    /// See [`get`](Self::get).
    pub async fn merge(&self, path: &str, patch: &Value) -> Result<Value> {
        self.send(Method::PATCH, path, "application/merge-patch+json", patch)
            .await
    }

    /// DELETE of an object, without a grace period.
    ///
    /// # Errors
    /// See [`get`](Self::get).
    pub async fn delete(&self, path: &str) -> Result<Value> {
        let options = serde_json::json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
        self.send(Method::DELETE, path, "application/json", &options).await
    }

    async fn send(&self, method: Method, path: &str, content_type: &str, body: &Value) -> Result<Value> {
        let bytes = if body.is_null() {
            Vec::new()
        } else {
            serde_json::to_vec(body)?
        };
        let request = Request::builder()
            .method(&method)
            .uri(path)
            .header("content-type", content_type)
            .body(bytes)?;
        self.client
            .request(request)
            .await
            .with_context(|| format!("{method} {path}"))
    }
}
