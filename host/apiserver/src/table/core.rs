//! Namespaces, nodes, configuration and events.

use serde_json::{Value, json};

use super::cells::{NONE, UNKNOWN, condition, entries, items, number, or, or_none, since, text};
use super::columns::{AGE, Column, NAME, column, wide};

/// The prefix of the labels with a node's roles.
const ROLE_PREFIX: &str = "node-role.kubernetes.io/";

pub(super) const NAMESPACES: &[Column] = &[NAME, column("Status", |it, _| json!(text(&it["status"]["phase"]))), AGE];

pub(super) const CONFIG_MAPS: &[Column] = &[
    NAME,
    column("Data", |it, _| json!(entries(&it["data"]) + entries(&it["binaryData"]))),
    AGE,
];

pub(super) const SECRETS: &[Column] = &[
    NAME,
    column("Type", |it, _| json!(text(&it["type"]))),
    column("Data", |it, _| json!(entries(&it["data"]))),
    AGE,
];

pub(super) const NODES: &[Column] = &[
    NAME,
    column("Status", |node, _| json!(node_status(node))),
    column("Roles", |node, _| json!(node_roles(node))),
    AGE,
    column("Version", |node, _| {
        json!(text(&node["status"]["nodeInfo"]["kubeletVersion"]))
    }),
    wide("Internal-IP", |node, _| json!(node_address(node, "InternalIP"))),
    wide("External-IP", |node, _| json!(node_address(node, "ExternalIP"))),
    wide("OS-Image", |node, _| {
        json!(or(&node["status"]["nodeInfo"]["osImage"], UNKNOWN))
    }),
    wide("Kernel-Version", |node, _| {
        let info = &node["status"]["nodeInfo"];
        let version = or(&info["kernelVersion"], UNKNOWN);
        match text(&info["architecture"]) {
            "" => json!(version),
            architecture => json!(format!("{version} ({architecture})")),
        }
    }),
    wide("Container-Runtime", |node, _| {
        json!(or(&node["status"]["nodeInfo"]["containerRuntimeVersion"], UNKNOWN))
    }),
];

pub(super) const EVENTS: &[Column] = &[
    column("Last Seen", |it, now| json!(since(last_seen(it), now))),
    column("Type", |it, _| json!(text(&it["type"]))),
    column("Reason", |it, _| json!(text(&it["reason"]))),
    column("Object", |it, _| {
        let about = &it["involvedObject"];
        let kind = text(&about["kind"]).to_lowercase();
        match text(&about["name"]) {
            "" => json!(kind),
            name => json!(format!("{kind}/{name}")),
        }
    }),
    wide("Subobject", |it, _| json!(text(&it["involvedObject"]["fieldPath"]))),
    wide("Source", |it, _| json!(event_source(it))),
    column("Message", |it, _| json!(text(&it["message"]).trim())),
    wide("First Seen", |it, now| json!(since(first_seen(it), now))),
    wide("Count", |it, _| {
        json!(match (number(&it["series"]["count"]), number(&it["count"])) {
            (0, 0) => 1,
            (0, count) => count,
            (count, _) => count,
        })
    }),
    wide("Name", super::cells::name),
];

fn first_seen(event: &Value) -> &str {
    or(&event["firstTimestamp"], text(&event["eventTime"]))
}

fn last_seen(event: &Value) -> &str {
    let last = or(&event["lastTimestamp"], first_seen(event));
    or(&event["series"]["lastObservedTime"], last)
}

fn event_source(event: &Value) -> String {
    let component = or(&event["source"]["component"], text(&event["reportingComponent"]));
    match or(&event["source"]["host"], text(&event["reportingInstance"])) {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    }
}

fn node_status(node: &Value) -> String {
    let mut status = match condition(&node["status"]["conditions"], "Ready") {
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

fn node_roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let mut roles: Vec<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix(ROLE_PREFIX) {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() {
        NONE.to_owned()
    } else {
        roles.join(",")
    }
}

fn node_address(node: &Value, type_: &str) -> Value {
    let addresses = items(&node["status"]["addresses"]);
    let found = addresses.iter().find(|address| address["type"] == type_);
    found.map_or(json!(NONE), |address| or_none(&address["address"]))
}
