//! The columns of `-o wide`, computed from the object alone: they need no API server.
//!
//! The most common kinds have about the same columns as in kubectl; every other kind has version, age and labels. A
//! column with a field that the informer does not keep (`drop`, `metadata-only`) is `<none>`: an absent number is not
//! 0.

use serde_json::Value;

use crate::admin::AbsentFields;
use crate::age;

/// A column: its heading, and the cell for an object.
pub(super) struct WideColumn {
    pub(super) heading: &'static str,
    /// JSON pointers to the fields that the cell is computed from; `*` is each item of a list.
    reads: &'static [&'static str],
    cell: fn(&Value) -> String,
}

impl WideColumn {
    /// The cell for an object that lacks the fields `absent`.
    pub(super) fn show(&self, object: &Value, absent: &AbsentFields) -> String {
        if self.reads.iter().any(|pointer| absent.affects(pointer)) {
            NOTHING.to_owned()
        } else {
            (self.cell)(object)
        }
    }
}

const NOTHING: &str = "<none>";

const fn column(heading: &'static str, reads: &'static [&'static str], cell: fn(&Value) -> String) -> WideColumn {
    WideColumn { heading, reads, cell }
}

const AGE: WideColumn = column("AGE", &["/metadata/creationTimestamp"], |object| {
    age::since(object.pointer("/metadata/creationTimestamp").and_then(Value::as_str))
});
const CONTAINERS: WideColumn = column("CONTAINERS", &["/spec/template/spec/containers/*/name"], |object| {
    of_containers(object, "name")
});
const IMAGES: WideColumn = column("IMAGES", &["/spec/template/spec/containers/*/image"], |object| {
    of_containers(object, "image")
});

const PODS: [WideColumn; 6] = [
    column(
        "READY",
        &["/status/containerStatuses/*/ready", "/spec/containers/*/name"],
        pod_ready,
    ),
    column(
        "STATUS",
        &["/status/phase", "/status/reason", "/status/containerStatuses/*/state"],
        pod_status,
    ),
    column("RESTARTS", &["/status/containerStatuses/*/restartCount"], pod_restarts),
    AGE,
    column("IP", &["/status/podIP"], |pod| text(pod, "/status/podIP")),
    column("NODE", &["/spec/nodeName"], |pod| text(pod, "/spec/nodeName")),
];
const NODES: [WideColumn; 5] = [
    column(
        "STATUS",
        &["/status/conditions/*/status", "/spec/unschedulable"],
        node_status,
    ),
    column("ROLES", &["/metadata/labels"], node_roles),
    AGE,
    column("VERSION", &["/status/nodeInfo/kubeletVersion"], |node| {
        text(node, "/status/nodeInfo/kubeletVersion")
    }),
    column("INTERNAL-IP", &["/status/addresses/*/address"], node_address),
];
const DEPLOYMENTS: [WideColumn; 6] = [
    column("READY", &["/status/readyReplicas", "/spec/replicas"], |object| {
        fraction(object, "/status/readyReplicas", "/spec/replicas")
    }),
    column("UP-TO-DATE", &["/status/updatedReplicas"], |object| {
        number(object, "/status/updatedReplicas").to_string()
    }),
    column("AVAILABLE", &["/status/availableReplicas"], |object| {
        number(object, "/status/availableReplicas").to_string()
    }),
    AGE,
    CONTAINERS,
    IMAGES,
];
const REPLICA_SETS: [WideColumn; 6] = [
    column("DESIRED", &["/spec/replicas"], |object| {
        number(object, "/spec/replicas").to_string()
    }),
    column("CURRENT", &["/status/replicas"], |object| {
        number(object, "/status/replicas").to_string()
    }),
    column("READY", &["/status/readyReplicas"], |object| {
        number(object, "/status/readyReplicas").to_string()
    }),
    AGE,
    CONTAINERS,
    IMAGES,
];
const STATEFUL_SETS: [WideColumn; 4] = [
    column("READY", &["/status/readyReplicas", "/spec/replicas"], |object| {
        fraction(object, "/status/readyReplicas", "/spec/replicas")
    }),
    AGE,
    CONTAINERS,
    IMAGES,
];
const DAEMON_SETS: [WideColumn; 6] = [
    column("DESIRED", &["/status/desiredNumberScheduled"], |object| {
        number(object, "/status/desiredNumberScheduled").to_string()
    }),
    column("READY", &["/status/numberReady"], |object| {
        number(object, "/status/numberReady").to_string()
    }),
    column("AVAILABLE", &["/status/numberAvailable"], |object| {
        number(object, "/status/numberAvailable").to_string()
    }),
    AGE,
    CONTAINERS,
    IMAGES,
];
const JOBS: [WideColumn; 4] = [
    column("COMPLETIONS", &["/status/succeeded", "/spec/completions"], |object| {
        fraction(object, "/status/succeeded", "/spec/completions")
    }),
    AGE,
    CONTAINERS,
    IMAGES,
];
const SERVICES: [WideColumn; 5] = [
    column("TYPE", &["/spec/type"], |service| text(service, "/spec/type")),
    column("CLUSTER-IP", &["/spec/clusterIP"], |service| {
        text(service, "/spec/clusterIP")
    }),
    column("PORT(S)", &["/spec/ports/*/port"], service_ports),
    AGE,
    column("SELECTOR", &["/spec/selector"], |service| {
        pairs(service.pointer("/spec/selector"))
    }),
];
const CONFIG_MAPS: [WideColumn; 2] = [
    column("DATA", &["/data", "/binaryData"], |object| {
        (entries(object, "/data") + entries(object, "/binaryData")).to_string()
    }),
    AGE,
];
const SECRETS: [WideColumn; 3] = [
    column("TYPE", &["/type"], |secret| text(secret, "/type")),
    column("DATA", &["/data"], |secret| entries(secret, "/data").to_string()),
    AGE,
];
const NAMESPACES: [WideColumn; 2] = [
    column("STATUS", &["/status/phase"], |object| text(object, "/status/phase")),
    AGE,
];
const OTHERS: [WideColumn; 3] = [
    column("VERSION", &["/metadata/resourceVersion"], |object| {
        text(object, "/metadata/resourceVersion")
    }),
    AGE,
    column("LABELS", &["/metadata/labels"], |object| {
        pairs(object.pointer("/metadata/labels"))
    }),
];

/// The columns for any kind.
pub(super) const OF_ANY_KIND: &[WideColumn] = &OTHERS;

/// The columns after the name, for a kind in a group.
pub(super) fn columns(group: &str, kind: &str) -> &'static [WideColumn] {
    match (group, kind) {
        ("", "Pod") => &PODS,
        ("", "Node") => &NODES,
        ("", "Service") => &SERVICES,
        ("", "ConfigMap") => &CONFIG_MAPS,
        ("", "Secret") => &SECRETS,
        ("", "Namespace") => &NAMESPACES,
        ("apps", "Deployment") => &DEPLOYMENTS,
        ("apps", "ReplicaSet") => &REPLICA_SETS,
        ("apps", "StatefulSet") => &STATEFUL_SETS,
        ("apps", "DaemonSet") => &DAEMON_SETS,
        ("batch", "Job") => &JOBS,
        _ => OF_ANY_KIND,
    }
}

fn text(object: &Value, pointer: &str) -> String {
    match object.pointer(pointer).and_then(Value::as_str) {
        Some("") | None => NOTHING.to_owned(),
        Some(text) => text.to_owned(),
    }
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn fraction(object: &Value, part: &str, whole: &str) -> String {
    format!("{}/{}", number(object, part), number(object, whole))
}

fn entries(object: &Value, pointer: &str) -> usize {
    object
        .pointer(pointer)
        .and_then(Value::as_object)
        .map_or(0, serde_json::Map::len)
}

fn list<'o>(object: &'o Value, pointer: &str) -> impl Iterator<Item = &'o Value> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn joined(words: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = words.collect();
    if words.is_empty() {
        NOTHING.to_owned()
    } else {
        words.join(",")
    }
}

/// `app=web,tier=front`
fn pairs(map: Option<&Value>) -> String {
    let pairs = map.and_then(Value::as_object).into_iter().flatten();
    joined(pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())))
}

/// A field of each container in a workload's pod template.
fn of_containers(object: &Value, field: &str) -> String {
    let containers = list(object, "/spec/template/spec/containers");
    joined(containers.filter_map(|container| Some(container.get(field)?.as_str()?.to_owned())))
}

fn pod_ready(pod: &Value) -> String {
    let ready = list(pod, "/status/containerStatuses").filter(|status| status["ready"] == true);
    format!("{}/{}", ready.count(), list(pod, "/spec/containers").count())
}

fn pod_restarts(pod: &Value) -> String {
    let restarts = list(pod, "/status/containerStatuses").filter_map(|status| status["restartCount"].as_i64());
    restarts.sum::<i64>().to_string()
}

/// The phase, or a more specific reason. Source: kubernetes `printPod`, without its rules for init
/// containers.
fn pod_status(pod: &Value) -> String {
    if pod.pointer("/metadata/deletionTimestamp").is_some() {
        return "Terminating".to_owned();
    }
    let of_container = list(pod, "/status/containerStatuses").find_map(|status| {
        let reason = |state: &str| status["state"][state]["reason"].as_str();
        reason("waiting").or_else(|| reason("terminated"))
    });
    let of_pod = pod.pointer("/status/reason").and_then(Value::as_str);
    match of_container.or(of_pod) {
        Some(reason) => reason.to_owned(),
        None => text(pod, "/status/phase"),
    }
}

fn node_status(node: &Value) -> String {
    let ready = list(node, "/status/conditions").find(|condition| condition["type"] == "Ready");
    let mut status = match ready.and_then(|condition| condition["status"].as_str()) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node.pointer("/spec/unschedulable") == Some(&Value::Bool(true)) {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn node_roles(node: &Value) -> String {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let roles = labels.into_iter().flatten().filter_map(|(label, _)| {
        let role = label.strip_prefix("node-role.kubernetes.io/")?;
        Some(role.to_owned())
    });
    joined(roles)
}

fn node_address(node: &Value) -> String {
    let addresses = list(node, "/status/addresses").filter(|address| address["type"] == "InternalIP");
    joined(
        addresses
            .filter_map(|address| Some(address["address"].as_str()?.to_owned()))
            .take(1),
    )
}

/// `80/TCP,443:30443/TCP`
fn service_ports(service: &Value) -> String {
    joined(list(service, "/spec/ports").map(|port| {
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        match port["nodePort"].as_i64() {
            Some(node_port) => format!("{}:{node_port}/{protocol}", port["port"]),
            None => format!("{}/{protocol}", port["port"]),
        }
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(group: &str, kind: &str, object: &Value) -> String {
        let cells = columns(group, kind).iter().map(|column| {
            let cell = column.show(object, &AbsentFields::default());
            format!("{} {cell}", column.heading)
        });
        cells.collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn common_kinds_have_kubectls_columns() {
        let pod = json!({
            "spec": { "nodeName": "node-1", "containers": [{}, {}] },
            "status": { "phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [
                { "ready": true, "restartCount": 2, "state": { "running": {} } },
                { "ready": false, "restartCount": 3, "state": { "waiting": { "reason": "CrashLoopBackOff" } } },
            ] },
        });
        assert_eq!(
            shown("", "Pod", &pod),
            "READY 1/2 | STATUS CrashLoopBackOff | RESTARTS 5 | AGE <unknown> | IP 10.0.0.1 | NODE node-1"
        );
        let node = json!({
            "metadata": { "labels": { "node-role.kubernetes.io/control-plane": "", "a": "b" } },
            "spec": { "unschedulable": true },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }], "nodeInfo": { "kubeletVersion": "v1.34.0" },
                "addresses": [{ "type": "Hostname", "address": "n" }, { "type": "InternalIP", "address": "10.0.0.2" }] },
        });
        assert_eq!(
            shown("", "Node", &node),
            "STATUS Ready,SchedulingDisabled | ROLES control-plane | AGE <unknown> | VERSION v1.34.0 | INTERNAL-IP 10.0.0.2"
        );
        let service = json!({ "spec": { "type": "NodePort", "clusterIP": "10.96.0.1", "selector": { "app": "web" },
            "ports": [{ "port": 80, "nodePort": 30080 }, { "port": 53, "protocol": "UDP" }] } });
        assert_eq!(
            shown("", "Service", &service),
            "TYPE NodePort | CLUSTER-IP 10.96.0.1 | PORT(S) 80:30080/TCP,53/UDP | AGE <unknown> | SELECTOR app=web"
        );
        let widget = json!({ "metadata": { "resourceVersion": "7", "labels": { "b": "2", "a": "1" } } });
        assert_eq!(
            shown("example.com", "Widget", &widget),
            "VERSION 7 | AGE <unknown> | LABELS a=1,b=2"
        );
    }

    #[test]
    fn numbers_of_fields_that_are_not_kept_are_none() {
        let in_wide = |group: &str, kind: &str, absent: &AbsentFields| {
            let cells = columns(group, kind)
                .iter()
                .map(|column| column.show(&json!({}), absent));
            cells.collect::<Vec<_>>().join(" ")
        };
        let metadata_only = AbsentFields {
            metadata_only: true,
            ..AbsentFields::default()
        };
        assert_eq!(in_wide("", "ConfigMap", &metadata_only), "<none> <unknown>");
        assert_eq!(
            in_wide("", "Pod", &metadata_only),
            "<none> <none> <none> <unknown> <none> <none>"
        );
        assert_eq!(
            in_wide("apps", "Deployment", &metadata_only),
            "<none> <none> <none> <unknown> <none> <none>"
        );
        let dropping = |pointer: &str| AbsentFields {
            metadata_only: false,
            drop: [pointer.to_owned()].into(),
        };
        assert_eq!(in_wide("", "Secret", &dropping("/data")), "<none> <none> <unknown>");
        let pod = |pointer: &str| in_wide("", "Pod", &dropping(pointer));
        assert_eq!(pod("/status"), "<none> <none> <none> <unknown> <none> <none>");
        assert_eq!(pod("/spec/containers/*/env"), "0/0 <none> 0 <unknown> <none> <none>");
    }

    #[test]
    fn empty_objects_have_placeholder_cells_in_every_kind() {
        for (group, kind) in [
            ("", "Pod"),
            ("", "Node"),
            ("", "Service"),
            ("", "ConfigMap"),
            ("", "Secret"),
            ("", "Namespace"),
            ("apps", "Deployment"),
            ("apps", "ReplicaSet"),
            ("apps", "StatefulSet"),
            ("apps", "DaemonSet"),
            ("batch", "Job"),
            ("x", "Y"),
        ] {
            assert!(shown(group, kind, &json!({})).contains("AGE <unknown>"), "{kind}");
            assert!(shown(group, kind, &Value::Null).contains("AGE <unknown>"), "{kind}");
        }
    }
}
