//! Pods of about 5 KB, and updates to them.

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use crate::client::Client;
use crate::objects::pods;

/// How many requests are under way at once.
const REQUESTS_AT_ONCE: usize = 8;

pub(super) async fn create(client: &Client, count: u32) -> Result<()> {
    let posts = stream::iter(0..count).map(|number| {
        let client = client.clone();
        async move { client.post(&pods(""), &pod(number)).await.map(drop) }
    });
    posts.buffer_unordered(REQUESTS_AT_ONCE).try_collect().await
}

/// Each update changes what the handler looks at, so that none is filtered.
/// What it is set to counts up from `first`.
pub(super) async fn update(client: &Client, objects: u32, first: u32, count: u32) -> Result<()> {
    let patches = stream::iter(0..count).map(|number| {
        let client = client.clone();
        let restarts = first + number;
        let status = json!({"status": {"containerStatuses": [status("app", restarts), status("sidecar", restarts)]}});
        async move {
            client
                .merge(&format!("{}/status", pods(&name(number % objects))), &status)
                .await
                .map(drop)
        }
    });
    patches.buffer_unordered(REQUESTS_AT_ONCE).try_collect().await
}

fn name(number: u32) -> String {
    format!("shop-7d9f8b6c5d-{number:06}")
}

fn status(container: &str, restarts: u32) -> Value {
    json!({
        "name": container, "image": format!("registry.example.com/shop/{container}:1.42.0"),
        "imageID": format!("registry.example.com/shop/{container}@sha256:{:064x}", 42), "containerID": format!("containerd://{:064x}", 7),
        "ready": true, "started": true, "restartCount": restarts, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        "lastState": {},
    })
}

fn container(name: &str) -> Value {
    let variable =
        |number: u32| json!({"name": format!("SETTING_{number}"), "value": format!("value-of-setting-{number}")});
    json!({
        "name": name, "image": format!("registry.example.com/shop/{name}:1.42.0"), "imagePullPolicy": "IfNotPresent",
        "env": (0..12).map(variable).collect::<Vec<_>>(),
        "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
        "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10, "failureThreshold": 3},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10, "failureThreshold": 3},
        "volumeMounts": [{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "kube-api-access", "readOnly": true}],
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    })
}

/// A pod as a Deployment makes them, with managedFields as large as they usually are.
fn pod(number: u32) -> Value {
    let managed = json!({"f:metadata": {"f:labels": {".": {}, "f:app": {}, "f:pod-template-hash": {}}}, "f:spec": {
        "f:containers": {"k:{\"name\":\"app\"}": {".": {}, "f:env": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:livenessProbe": {},
        "f:name": {}, "f:ports": {}, "f:readinessProbe": {}, "f:resources": {"f:limits": {}, "f:requests": {}}}},
        "f:dnsPolicy": {}, "f:enableServiceLinks": {}, "f:restartPolicy": {}, "f:schedulerName": {}, "f:securityContext": {}}});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name(number), "namespace": "default",
            "labels": {"app": "shop", "pod-template-hash": "7d9f8b6c5d", "app.kubernetes.io/name": "shop", "app.kubernetes.io/part-of": "store"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "checksum/config": format!("{:064x}", 9)},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "shop-7d9f8b6c5d", "uid": "c1f8f6d0-0000-4000-8000-000000000000", "controller": true}],
            "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": managed}],
        },
        "spec": {
            "nodeName": format!("node-{}", number % 100), "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "serviceAccountName": "shop",
            "containers": [container("app"), container("sidecar")],
            "tolerations": [{"effect": "NoExecute", "key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}],
            "volumes": [{"name": "kube-api-access", "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]}}],
        },
        "status": {
            "phase": "Running", "podIP": "10.0.0.1", "hostIP": "192.168.0.1", "qosClass": "Burstable", "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}, {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "containerStatuses": [status("app", 0), status("sidecar", 0)],
        },
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_pod_is_as_large_as_pods_are() {
        let bytes = super::pod(1).to_string().len();
        assert!((4_800..6_200).contains(&bytes), "{bytes} bytes");
    }
}
