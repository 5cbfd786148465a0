//! The benchmark's reconciler: receives five fields of a pod, reads one ConfigMap from the cache, and writes nothing.
//!
//! Sums the restarts of containers that are ready, so that it reads its objects as a real reconciler does.

use informant_plugin_sdk::prelude::*;
use serde::Deserialize;

#[derive(Default)]
struct Measured {
    restarts: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pod {
    spec: Spec,
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    phase: String,
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerStatus {
    name: String,
    ready: bool,
    restart_count: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Settings {
    data: Data,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Data {
    mode: String,
}

impl Plugin for Measured {
    fn describe(_: Describe) -> Result<Manifest> {
        let pods = informant::Reconciles::of("v1", "Pod").fields([
            "/spec/nodeName",
            "/status/phase",
            "/status/containerStatuses/*/name",
            "/status/containerStatuses/*/ready",
            "/status/containerStatuses/*/restartCount",
        ]);
        Ok(Manifest::new().reconciles(pods.owns(Related::of("v1", "ConfigMap"))))
    }

    fn init(_: Init) -> Result<Self> {
        Ok(Measured::default())
    }
}

impl Reconciler for Measured {
    type Object = Pod;

    fn reconcile(&mut self, request: &Request, pod: Option<Pod>) -> Result<Action> {
        let Some(pod) = pod else {
            return Ok(Action::done());
        };
        let settings: Settings = store::get("configmaps", &request.namespace, "settings")?.unwrap_or_default();
        if settings.data.mode.is_empty() || pod.spec.node_name.is_empty() || pod.status.phase.is_empty() {
            return Err(Failure::permanent("a field is missing"));
        }
        let ready = pod.status.container_statuses.iter();
        let ready = ready.filter(|container| container.ready && !container.name.is_empty());
        self.restarts += ready.map(|container| container.restart_count).sum::<u64>();
        Ok(Action::done())
    }
}

export!(Measured: reconciler);
