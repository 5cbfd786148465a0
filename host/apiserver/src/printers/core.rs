//! Namespaces, nodes, configuration and events.

use serde_json::{Value, json};

use super::cells::{NONE, UNKNOWN, condition, entries, items, joined, number, or, or_none, plain, since, text};
use super::column::{AGE, Column, NAME, column, field, wide};

/// The prefix of the labels with a node's roles.
const ROLE_PREFIX: &str = "node-role.kubernetes.io/";

pub(super) const NAMESPACES: &[Column] = &[NAME, field("Status", &["/status/phase"], plain), AGE];

pub(super) const CONFIG_MAPS: &[Column] = &[
    NAME,
    column("Data", &["/data", "/binaryData"], |it, _| {
        json!(entries(&it["data"]) + entries(&it["binaryData"]))
    }),
    AGE,
];

pub(super) const SECRETS: &[Column] = &[
    NAME,
    field("Type", &["/type"], plain),
    column("Data", &["/data"], |it, _| json!(entries(&it["data"]))),
    AGE,
];

const ADDRESSES: &[&str] = &["/status/addresses/*/type", "/status/addresses/*/address"];

pub(super) const NODES: &[Column] = &[
    NAME,
    column(
        "Status",
        &[
            "/status/conditions/*/type",
            "/status/conditions/*/status",
            "/spec/unschedulable",
        ],
        |node, _| json!(node_status(node)),
    ),
    column("Roles", &["/metadata/labels"], |node, _| json!(node_roles(node))),
    AGE,
    field("Version", &["/status/nodeInfo/kubeletVersion"], plain),
    wide("Internal-IP", ADDRESSES, |node, _| {
        json!(node_address(node, "InternalIP"))
    }),
    wide("External-IP", ADDRESSES, |node, _| {
        json!(node_address(node, "ExternalIP"))
    }),
    field("OS-Image", &["/status/nodeInfo/osImage"], |it| json!(or(it, UNKNOWN))).wide(),
    wide(
        "Kernel-Version",
        &["/status/nodeInfo/kernelVersion", "/status/nodeInfo/architecture"],
        |node, _| {
            let info = &node["status"]["nodeInfo"];
            let version = or(&info["kernelVersion"], UNKNOWN);
            match text(&info["architecture"]) {
                "" => json!(version),
                architecture => json!(format!("{version} ({architecture})")),
            }
        },
    ),
    wide(
        "Container-Runtime",
        &["/status/nodeInfo/containerRuntimeVersion"],
        |node, _| json!(or(&node["status"]["nodeInfo"]["containerRuntimeVersion"], UNKNOWN)),
    ),
];

pub(super) const EVENTS: &[Column] = &[
    column(
        "Last Seen",
        &[
            "/series/lastObservedTime",
            "/lastTimestamp",
            "/firstTimestamp",
            "/eventTime",
        ],
        |it, now| json!(since(last_seen(it), now)),
    ),
    field("Type", &["/type"], plain),
    field("Reason", &["/reason"], plain),
    column("Object", &["/involvedObject/kind", "/involvedObject/name"], |it, _| {
        let about = &it["involvedObject"];
        let kind = text(&about["kind"]).to_lowercase();
        match text(&about["name"]) {
            "" => json!(kind),
            name => json!(format!("{kind}/{name}")),
        }
    }),
    field("Subobject", &["/involvedObject/fieldPath"], plain).wide(),
    wide(
        "Source",
        &["/source", "/reportingComponent", "/reportingInstance"],
        |it, _| json!(event_source(it)),
    ),
    column("Message", &["/message"], |it, _| json!(text(&it["message"]).trim())),
    wide("First Seen", &["/firstTimestamp", "/eventTime"], |it, now| {
        json!(since(first_seen(it), now))
    }),
    wide("Count", &["/series/count", "/count"], |it, _| {
        json!(match (number(&it["series"]["count"]), number(&it["count"])) {
            (0, 0) => 1,
            (0, count) => count,
            (count, _) => count,
        })
    }),
    wide("Name", &[], super::cells::name),
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
    joined(&roles)
}

fn node_address(node: &Value, type_: &str) -> Value {
    let addresses = items(&node["status"]["addresses"]);
    let found = addresses.iter().find(|address| address["type"] == type_);
    found.map_or(json!(NONE), |address| or_none(&address["address"]))
}
