//! Pods of about 5 KB, and updates to them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;

use informant_cache::stable_hash;

use crate::client::Client;
use crate::cluster::Cluster;

/// Environment variables per container.
const VARIABLES: u32 = 3;

/// Names of so many pods have one length.
const COPIES_MAX: u32 = 1_000_000;

/// Maximum number of concurrent requests.
const REQUESTS_AT_ONCE: usize = 8;

pub(super) async fn create(client: &Client, count: u32) -> Result<()> {
    create_in(client, count, Spread::Default).await
}

/// Creates the pods of a spread, and its namespaces.
pub(super) async fn create_in(client: &Client, count: u32, spread: Spread) -> Result<()> {
    for namespace in spread.namespaces() {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        client.post("/api/v1/namespaces", &namespace).await?;
    }
    let posts = stream::iter(0..count).map(|number| {
        let client = client.clone();
        async move {
            let mut pod = pod(number);
            pod["metadata"]["namespace"] = spread.namespace(number).into();
            client.post(&spread.path(number, ""), &pod).await.map(drop)
        }
    });
    posts.buffer_unordered(REQUESTS_AT_ONCE).try_collect().await
}

/// As [`create_in`], for a large number on the real kube-apiserver: it creates the first pod of each namespace, and the
/// others are copies of them in its database, which takes a fifth of the time.
pub(super) async fn copy_in(cluster: &Cluster, count: u32, spread: Spread) -> Result<()> {
    let originals = u32::try_from(spread.namespaces().len())?.min(count);
    ensure!(
        originals > 0 && count <= COPIES_MAX,
        "{count} pods of {originals} namespaces"
    );
    create_in(&cluster.client().await?, originals, spread).await?;
    copy(cluster, originals, count, spread).await
}

/// Copies the present states of the first pods to the others.
async fn copy(cluster: &Cluster, originals: u32, count: u32, spread: Spread) -> Result<()> {
    let etcd = cluster.etcd().context("only the real kube-apiserver has a database")?;
    let key = |number| format!("/registry/pods/{}/{}", spread.namespace(number), name(number));
    let mut stored = Vec::new();
    for number in 0..originals {
        let value = etcd.get(&key(number)).await?;
        let pod = cluster.client().await?.get(&spread.path(number, &name(number))).await?;
        let uid = pod["metadata"]["uid"].as_str().context("a pod has a uid")?.to_owned();
        stored.push((value, uid));
    }
    let puts = stream::iter(originals..count).map(|number| {
        let original = number % originals;
        let (value, uid) = &stored[original as usize];
        // Names and uids have one length, so that the encoding, which has lengths, stays valid.
        let value = replaced(value, &name(original), &name(number));
        let value = replaced(&value, uid, &format!("{number:08x}-0000-4000-8000-{number:012x}"));
        let (etcd, key) = (etcd.clone(), key(number));
        async move { etcd.put(&key, &value).await }
    });
    puts.buffer_unordered(REQUESTS_AT_ONCE).try_collect().await
}

/// `value` with another text in each place of `text`, which is as long.
fn replaced(value: &[u8], text: &str, other: &str) -> Vec<u8> {
    let (text, other) = (text.as_bytes(), other.as_bytes());
    let mut value = value.to_vec();
    for at in 0..value.len() {
        if value[at..].starts_with(text) {
            value[at..at + text.len()].copy_from_slice(other);
        }
    }
    value
}

/// In which namespaces the pods are.
#[derive(Clone, Copy)]
pub(super) enum Spread {
    /// All in `default`.
    Default,
    /// Equally in so many: `team-1` and so on.
    Teams(u32),
    /// Equally in so many whose names have no pattern.
    Random(u32),
}

impl Spread {
    fn namespaces(self) -> Vec<String> {
        match self {
            Spread::Default => Vec::new(),
            Spread::Teams(count) | Spread::Random(count) => (0..count).map(|number| self.namespace(number)).collect(),
        }
    }

    fn namespace(self, number: u32) -> String {
        match self {
            Spread::Default => "default".to_owned(),
            Spread::Teams(count) => format!("team-{}", 1 + number % count),
            // The hash of the number is spread.
            Spread::Random(count) => format!("n{:016x}", stable_hash(&[&(number % count).to_string()])),
        }
    }

    /// The path of all pods where this one is, or of one of them.
    fn path(self, number: u32, name: &str) -> String {
        let separator = if name.is_empty() { "" } else { "/" };
        format!("/api/v1/namespaces/{}/pods{separator}{name}", self.namespace(number))
    }
}

/// Updates to a cluster's pods. Each changes fields that handlers read, and none repeats an earlier state.
pub(super) struct Load {
    client: Client,
    objects: u32,
    spread: Spread,
    /// The number of updates so far.
    updates: u32,
}

impl Load {
    pub(super) fn new(client: Client, objects: u32) -> Load {
        Load::of(client, objects, Spread::Default)
    }

    pub(super) fn of(client: Client, objects: u32, spread: Spread) -> Load {
        Load {
            client,
            objects,
            spread,
            updates: 0,
        }
    }

    /// The number of pods.
    pub(super) fn objects(&self) -> u32 {
        self.objects
    }

    /// The number of updates so far.
    pub(super) fn updates(&self) -> u32 {
        self.updates
    }

    /// Makes `count` updates as fast as the API server accepts them.
    pub(super) async fn update(&mut self, count: u32) -> Result<()> {
        let first = self.updates;
        self.updates += count;
        let (client, objects, spread) = (&self.client, self.objects, self.spread);
        let patches = stream::iter(first..first + count).map(|number| {
            let of = number % objects;
            let (path, restarts) = (spread.path(of, &name(of)), number + 1);
            let statuses = [status("app", restarts), status("sidecar", restarts)];
            let patch = json!({"status": {"containerStatuses": statuses}});
            async move { client.merge(&format!("{path}/status"), &patch).await.map(drop) }
        });
        patches.buffer_unordered(REQUESTS_AT_ONCE).try_collect().await
    }

    /// Updates each pod once, those that [`copy_in`] has copied in the database: faster than the API server accepts
    /// updates.
    pub(super) async fn update_copies(&mut self, cluster: &Cluster) -> Result<()> {
        let originals = u32::try_from(self.spread.namespaces().len())?.min(self.objects);
        // The first pods are next.
        self.updates = self.updates.next_multiple_of(self.objects);
        self.update(originals).await?;
        copy(cluster, originals, self.objects, self.spread).await
    }

    /// Makes updates at a steady rate for some seconds. Each carries its send time.
    pub(super) async fn paced(&mut self, per_second: u32, seconds: u32) -> Result<()> {
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / per_second);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let count = per_second * seconds;
        let first = self.updates;
        self.updates += count;
        let (client, objects, spread) = (&self.client, self.objects, self.spread);
        let numbers = stream::unfold((ticks, first), |(mut ticks, number)| async move {
            (number < first + count).then_some(())?;
            ticks.tick().await;
            Some((number, (ticks, number + 1)))
        });
        let patches = numbers.map(|number| {
            let path = spread.path(number % objects, &name(number % objects));
            async move {
                let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH)?;
                let written = since_1970.as_micros().to_string();
                let patch = json!({"metadata": {"annotations": {"bench/written-us": written}}});
                client.merge(&path, &patch).await.map(drop)
            }
        });
        patches.buffer_unordered(REQUESTS_AT_ONCE).try_collect().await
    }
}

pub(super) fn name(number: u32) -> String {
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
        "env": (0..VARIABLES).map(variable).collect::<Vec<_>>(),
        "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
        "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10, "failureThreshold": 3},
        "volumeMounts": [{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "kube-api-access", "readOnly": true}],
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    })
}

/// The managed fields of a container, as the API server records them: about as large as the fields themselves.
fn managed_container() -> Value {
    let probe = json!({
        ".": {}, "f:failureThreshold": {}, "f:httpGet": {".": {}, "f:path": {}, "f:port": {}, "f:scheme": {}},
        "f:periodSeconds": {}, "f:successThreshold": {}, "f:timeoutSeconds": {},
    });
    let mut variables = json!({".": {}});
    for number in 0..VARIABLES {
        variables[format!("k:{{\"name\":\"SETTING_{number}\"}}")] = json!({".": {}, "f:name": {}, "f:value": {}});
    }
    json!({
        ".": {}, "f:env": variables, "f:image": {}, "f:imagePullPolicy": {}, "f:livenessProbe": probe, "f:name": {},
        "f:ports": {".": {}, "k:{\"containerPort\":8080,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}, "f:name": {}, "f:protocol": {}}},
        "f:resources": {".": {}, "f:limits": {".": {}, "f:cpu": {}, "f:memory": {}}, "f:requests": {".": {}, "f:cpu": {}, "f:memory": {}}},
        "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {},
    })
}

fn managed_fields() -> Value {
    let condition = json!({".": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}});
    json!([
        {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {
            "f:metadata": {"f:annotations": {".": {}, "f:checksum/config": {}}, "f:labels": {".": {}, "f:app": {}, "f:pod-template-hash": {}},
                "f:ownerReferences": {".": {}, "k:{\"uid\":\"c1f8f6d0-0000-4000-8000-000000000000\"}": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"app\"}": managed_container(), "k:{\"name\":\"sidecar\"}": managed_container()},
                "f:dnsPolicy": {}, "f:enableServiceLinks": {}, "f:restartPolicy": {}, "f:schedulerName": {}, "f:securityContext": {}}}},
        {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "subresource": "status", "fieldsV1": {
            "f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": condition}, "f:containerStatuses": {}, "f:hostIP": {}, "f:phase": {}, "f:podIP": {}, "f:startTime": {}}}},
    ])
}

/// A pod as a Deployment creates it, with managedFields as API servers write them.
fn pod(number: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name(number), "namespace": "default",
            "labels": {"app": "shop", "pod-template-hash": "7d9f8b6c5d", "app.kubernetes.io/name": "shop", "app.kubernetes.io/part-of": "store"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "checksum/config": format!("{:064x}", 9)},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "shop-7d9f8b6c5d", "uid": "c1f8f6d0-0000-4000-8000-000000000000", "controller": true}],
            "managedFields": managed_fields(),
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
    use informant_apiserver::{ApiServer, Options};
    use informant_cache::stored_bytes;
    use informant_object::{Object, Pointer, Projection, Shape};

    use crate::bench::targets::SHED_POD_BYTES;

    #[test]
    fn pod_and_managed_fields_have_realistic_sizes() {
        let bytes = super::pod(1).to_string().len();
        let managed = super::managed_fields().to_string().len();
        assert!((4_800..6_200).contains(&bytes), "{bytes} bytes");
        assert!(
            (30..42).contains(&(100 * managed / bytes)),
            "{managed} of {bytes} bytes"
        );
    }

    #[test]
    fn a_shed_pod_takes_no_more_than_its_target() {
        let number = 999_999;
        let server = ApiServer::new(Options::default());
        server.put("v1/pods", "default", super::pod(number)).unwrap();
        let mut pod = server.get("v1/pods", "default", &super::name(number)).unwrap().unwrap();
        pod["metadata"]["resourceVersion"] = "1000004".into();
        let pod = Object::parse(pod.to_string().as_bytes(), &Shape::of("v1", "Pod")).unwrap();
        let node = Pointer::parse("/spec/nodeName").unwrap();
        let bytes = stored_bytes(&pod.to_head(&Projection::of_head(&[node])));
        assert!(bytes as f64 <= SHED_POD_BYTES, "{bytes} bytes");
    }
}
