//! Probes of a container, by HTTP.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use super::{Pod, list, only, text};

pub(super) struct Probe {
    uri: http::Uri,
    timeout: Duration,
    patience: Duration,
}

impl Probe {
    /// The probe called `name`. The API server has filled in what the manifest leaves out.
    pub(super) fn of(pod: &Pod, container: &Value, name: &str) -> Result<Self> {
        let probe = &container[name];
        let known = [
            "httpGet",
            "initialDelaySeconds",
            "periodSeconds",
            "timeoutSeconds",
            "successThreshold",
            "failureThreshold",
        ];
        only(probe, &known).context(name.to_owned())?;
        let get = &probe["httpGet"];
        only(get, &["path", "port", "scheme"])?;
        ensure!(get["scheme"] == "HTTP", "{get}");
        let seconds = |name: &str| probe[name].as_u64().unwrap_or_default();
        let failing = seconds("periodSeconds") * seconds("failureThreshold");
        let port = port(pod, container, &get["port"])?;
        Ok(Self {
            uri: format!("http://127.0.0.1:{port}{}", text(get, "/path")?).parse()?,
            timeout: Duration::from_secs(seconds("timeoutSeconds")),
            patience: Duration::from_secs(seconds("initialDelaySeconds") + failing),
        })
    }

    /// How long it may fail until the kubelet acts on it.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// Probes once. An error has the reason of the failure.
    pub(super) async fn succeeds(&self) -> Result<(), String> {
        // A new connection for each probe, as the kubelet.
        let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
        let answer = tokio::time::timeout(self.timeout, client.get(self.uri.clone())).await;
        let answer = answer.map_err(|_| format!("{} did not answer within {:?}", self.uri, self.timeout))?;
        let status = answer.map_err(|error| format!("{}: {error:?}", self.uri))?.status();
        match status.is_success() || status.is_redirection() {
            true => Ok(()),
            false => Err(format!("{} answered {status}", self.uri)),
        }
    }
}

/// A declared port by name or number.
fn port(pod: &Pod, container: &Value, port: &Value) -> Result<u16> {
    let mut ports = list(container, "/ports").iter();
    let declared = ports.find(|declared| declared["name"] == *port || declared["containerPort"] == *port);
    pod.port(declared.with_context(|| format!("the container has no port {port}"))?)
}
