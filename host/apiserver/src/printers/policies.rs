//! Autoscalers, disruption budgets, leases, quotas, role bindings and priority classes.

use serde_json::{Value, json};

use super::cells::{NONE, UNKNOWN, UNSET, count, items, plain, text};
use super::column::{AGE, Column, NAME, boolean, column, field, wide};

/// Maximum number of an autoscaler's metrics shown; the rest are only counted.
const METRICS_SHOWN_MAX: usize = 2;

pub(super) const AUTOSCALERS: &[Column] = &[
    NAME,
    column(
        "Reference",
        &["/spec/scaleTargetRef/kind", "/spec/scaleTargetRef/name"],
        |it, _| {
            let target = &it["spec"]["scaleTargetRef"];
            json!(format!("{}/{}", text(&target["kind"]), text(&target["name"])))
        },
    ),
    column("Targets", &["/spec/metrics", "/status/currentMetrics"], |it, _| {
        json!(metrics(it))
    }),
    column("MinPods", &["/spec/minReplicas"], |it, _| {
        json!(
            it["spec"]["minReplicas"]
                .as_i64()
                .map_or(UNSET.to_owned(), |min| min.to_string())
        )
    }),
    field("MaxPods", &["/spec/maxReplicas"], count),
    field("Replicas", &["/status/currentReplicas"], count),
    AGE,
];

pub(super) const DISRUPTION_BUDGETS: &[Column] = &[
    NAME,
    column("Min Available", &["/spec/minAvailable"], |it, _| {
        json!(int_or_string(&it["spec"]["minAvailable"]))
    }),
    column("Max Unavailable", &["/spec/maxUnavailable"], |it, _| {
        json!(int_or_string(&it["spec"]["maxUnavailable"]))
    }),
    field("Allowed Disruptions", &["/status/disruptionsAllowed"], count).integer(),
    AGE,
];

pub(super) const LEASES: &[Column] = &[NAME, field("Holder", &["/spec/holderIdentity"], plain), AGE];

pub(super) const RESOURCE_QUOTAS: &[Column] = &[
    NAME,
    column("Request", &["/status/hard", "/status/used"], |it, _| {
        json!(quota(it, false))
    }),
    column("Limit", &["/status/hard", "/status/used"], |it, _| {
        json!(quota(it, true))
    }),
    AGE,
];

const SUBJECTS: &[&str] = &["/subjects/*/kind", "/subjects/*/name", "/subjects/*/namespace"];

pub(super) const ROLE_BINDINGS: &[Column] = &[
    NAME,
    column("Role", &["/roleRef/kind", "/roleRef/name"], |it, _| {
        json!(format!(
            "{}/{}",
            text(&it["roleRef"]["kind"]),
            text(&it["roleRef"]["name"])
        ))
    }),
    AGE,
    wide("Users", SUBJECTS, |it, _| json!(subjects(it, "User"))),
    wide("Groups", SUBJECTS, |it, _| json!(subjects(it, "Group"))),
    wide("ServiceAccounts", SUBJECTS, |it, _| {
        json!(subjects(it, "ServiceAccount"))
    }),
];

pub(super) const PRIORITY_CLASSES: &[Column] = &[
    NAME,
    field("Value", &["/value"], count).integer(),
    boolean("Global-Default", &["/globalDefault"], |it, _| {
        json!(it["globalDefault"] == true)
    }),
    AGE,
    field("PreemptionPolicy", &["/preemptionPolicy"], plain),
];

fn int_or_string(value: &Value) -> String {
    match value {
        Value::Null => "N/A".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The field with the values of a metric of this type, and whether its name precedes them.
fn metric_source(type_: &str) -> (&'static str, bool) {
    match type_ {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "ContainerResource" => ("containerResource", true),
        _ => ("resource", true),
    }
}

fn metrics(autoscaler: &Value) -> String {
    let specs = items(&autoscaler["spec"]["metrics"]);
    let current = &autoscaler["status"]["currentMetrics"];
    let list: Vec<String> = specs
        .iter()
        .enumerate()
        .map(|(index, spec)| metric(spec, &current[index]))
        .collect();
    if list.is_empty() {
        return NONE.to_owned();
    }
    let shown = list[..list.len().min(METRICS_SHOWN_MAX)].join(", ");
    if list.len() > METRICS_SHOWN_MAX {
        format!("{shown} + {} more...", list.len() - METRICS_SHOWN_MAX)
    } else {
        shown
    }
}

/// Follows `formatHPAMetrics`: measured value and target.
fn metric(spec: &Value, status: &Value) -> String {
    let (source, is_resource) = metric_source(text(&spec["type"]));
    let (target, current) = (&spec[source]["target"], &status[source]["current"]);
    let said = |value: &Value, otherwise: &str| match value {
        Value::Null => otherwise.to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let percent = |value: &Value, otherwise: &str| match value.as_i64() {
        Some(percent) => format!("{percent}%"),
        None => otherwise.to_owned(),
    };
    let average = &target["averageValue"];
    if is_resource {
        let name = text(&spec[source]["name"]);
        return if average.is_null() {
            let (current, target) = (&current["averageUtilization"], &target["averageUtilization"]);
            format!("{name}: {}/{}", percent(current, UNKNOWN), percent(target, "<auto>"))
        } else {
            format!(
                "{name}: {}/{}",
                said(&current["averageValue"], UNKNOWN),
                said(average, "")
            )
        };
    }
    match (average.is_null(), source) {
        (true, _) => format!("{}/{}", said(&current["value"], UNKNOWN), said(&target["value"], "")),
        (false, "pods") => format!("{}/{}", said(&current["averageValue"], UNKNOWN), said(average, "")),
        (false, _) => format!(
            "{}/{} (avg)",
            said(&current["averageValue"], UNKNOWN),
            said(average, "")
        ),
    }
}

fn quota(quota: &Value, limits: bool) -> String {
    let (hard, used) = (&quota["status"]["hard"], &quota["status"]["used"]);
    let resources = hard.as_object().into_iter().flatten();
    let of_kind = resources.filter(|(resource, _)| resource.starts_with("limits.") == limits);
    let terms: Vec<String> = of_kind
        .map(|(resource, hard)| {
            let used = used[resource].as_str().unwrap_or("0");
            format!("{resource}: {used}/{}", text(hard))
        })
        .collect();
    terms.join(", ")
}

fn subjects(binding: &Value, kind: &str) -> String {
    let subjects = items(&binding["subjects"])
        .iter()
        .filter(|subject| subject["kind"] == kind);
    let names: Vec<String> = subjects
        .map(|subject| match (kind, text(&subject["namespace"])) {
            ("ServiceAccount", namespace) if !namespace.is_empty() => {
                format!("{namespace}/{}", text(&subject["name"]))
            }
            _ => text(&subject["name"]).to_owned(),
        })
        .collect();
    names.join(", ")
}
