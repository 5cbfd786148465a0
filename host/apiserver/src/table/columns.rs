//! The columns between a name and its age, by kind.

use serde_json::{Value, json};

use super::since;
use crate::kinds::Kind;

/// One column.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) type_: &'static str,
    /// Shown with `-o wide` only, after the age.
    pub(super) wide: bool,
    /// The cell's value, from the object and the time in seconds since 1970.
    pub(super) cell: fn(&Value, i64) -> Value,
}

const fn column(name: &'static str, cell: fn(&Value, i64) -> Value) -> Column {
    Column {
        name,
        type_: "string",
        wide: false,
        cell,
    }
}

const fn wide(name: &'static str, cell: fn(&Value, i64) -> Value) -> Column {
    Column {
        name,
        type_: "string",
        wide: true,
        cell,
    }
}

const NONE: &str = "<none>";

const PODS: &[Column] = &[
    column("Ready", |pod, _| {
        let statuses = items(&pod["status"]["containerStatuses"]);
        let ready = statuses.iter().filter(|status| status["ready"] == true).count();
        json!(format!("{ready}/{}", items(&pod["spec"]["containers"]).len()))
    }),
    column("Status", |pod, _| json!(pod_status(pod))),
    column("Restarts", |pod, now| json!(restarts(pod, now))),
    wide("IP", |pod, _| or_none(&pod["status"]["podIP"])),
    wide("Node", |pod, _| or_none(&pod["spec"]["nodeName"])),
];
const DEPLOYMENTS: &[Column] = &[
    column("Ready", |it, _| {
        ready_of(&it["status"]["readyReplicas"], &it["spec"]["replicas"])
    }),
    column("Up-to-date", |it, _| count(&it["status"]["updatedReplicas"])),
    column("Available", |it, _| count(&it["status"]["availableReplicas"])),
];
const REPLICA_SETS: &[Column] = &[
    column("Desired", |it, _| count(&it["spec"]["replicas"])),
    column("Current", |it, _| count(&it["status"]["replicas"])),
    column("Ready", |it, _| count(&it["status"]["readyReplicas"])),
];
const STATEFUL_SETS: &[Column] = &[column("Ready", |it, _| {
    ready_of(&it["status"]["readyReplicas"], &it["spec"]["replicas"])
})];
const SERVICES: &[Column] = &[
    column("Type", |it, _| or_none(&it["spec"]["type"])),
    column("Cluster-IP", |it, _| or_none(&it["spec"]["clusterIP"])),
    column("External-IP", |it, _| or_none(&it["spec"]["externalIPs"][0])),
    column("Port(s)", |it, _| json!(ports(&it["spec"]["ports"]))),
];
const NODES: &[Column] = &[column("Status", |node, _| json!(node_status(node)))];
const STATUS_PHASE: &[Column] = &[column("Status", |it, _| or_none(&it["status"]["phase"]))];
const CONFIG_MAPS: &[Column] = &[column("Data", |it, _| {
    json!(entries(&it["data"]) + entries(&it["binaryData"]))
})];
const SECRETS: &[Column] = &[
    column("Type", |it, _| or_none(&it["type"])),
    column("Data", |it, _| json!(entries(&it["data"]))),
];
const EVENTS: &[Column] = &[
    column("Type", |it, _| or_none(&it["type"])),
    column("Reason", |it, _| or_none(&it["reason"])),
    column("Object", |it, _| {
        let about = &it["involvedObject"];
        json!(format!(
            "{}/{}",
            text(&about["kind"]).to_lowercase(),
            text(&about["name"])
        ))
    }),
    column("Message", |it, _| or_none(&it["message"])),
];

/// The columns of a kind; none for most.
pub(super) fn of(kind: &Kind) -> &'static [Column] {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => PODS,
        ("apps", "Deployment") => DEPLOYMENTS,
        ("apps", "ReplicaSet") | ("", "ReplicationController") => REPLICA_SETS,
        ("apps", "StatefulSet") => STATEFUL_SETS,
        ("", "Service") => SERVICES,
        ("", "Node") => NODES,
        ("", "Namespace" | "PersistentVolume" | "PersistentVolumeClaim") => STATUS_PHASE,
        ("", "ConfigMap") => CONFIG_MAPS,
        ("", "Secret") => SECRETS,
        ("", "Event") => EVENTS,
        _ => &[],
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn entries(value: &Value) -> usize {
    value.as_object().map_or(0, serde_json::Map::len)
}

fn count(value: &Value) -> Value {
    json!(value.as_i64().unwrap_or(0).to_string())
}

fn or_none(value: &Value) -> Value {
    json!(value.as_str().filter(|text| !text.is_empty()).unwrap_or(NONE))
}

fn ready_of(ready: &Value, wanted: &Value) -> Value {
    json!(format!(
        "{}/{}",
        ready.as_i64().unwrap_or(0),
        wanted.as_i64().unwrap_or(0)
    ))
}

/// The phase, unless a container has something more telling to say.
fn pod_status(pod: &Value) -> String {
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return "Terminating".to_owned();
    }
    let reason = |status: &Value| {
        let state = &status["state"];
        [&state["waiting"]["reason"], &state["terminated"]["reason"]]
            .into_iter()
            .find_map(Value::as_str)
            .map(str::to_owned)
    };
    let telling = items(&pod["status"]["containerStatuses"]).iter().rev().find_map(reason);
    telling
        .or_else(|| pod["status"]["reason"].as_str().map(str::to_owned))
        .unwrap_or_else(|| text(&pod["status"]["phase"]).to_owned())
}

fn restarts(pod: &Value, now: i64) -> String {
    let statuses = items(&pod["status"]["containerStatuses"]);
    let total: i64 = statuses
        .iter()
        .filter_map(|status| status["restartCount"].as_i64())
        .sum();
    let last = statuses
        .iter()
        .filter_map(|status| status["lastState"]["terminated"]["finishedAt"].as_str())
        .max();
    match last {
        Some(last) if total > 0 => format!("{total} ({} ago)", since(last, now)),
        _ => total.to_string(),
    }
}

fn ports(ports: &Value) -> String {
    let port = |port: &Value| {
        format!(
            "{}/{}",
            port["port"].as_i64().unwrap_or(0),
            port["protocol"].as_str().unwrap_or("TCP")
        )
    };
    let ports: Vec<String> = items(ports).iter().map(port).collect();
    if ports.is_empty() {
        NONE.to_owned()
    } else {
        ports.join(",")
    }
}

fn node_status(node: &Value) -> String {
    let ready = items(&node["status"]["conditions"])
        .iter()
        .find(|condition| condition["type"] == "Ready");
    let mut status = match ready.map(|condition| text(&condition["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    status
}
