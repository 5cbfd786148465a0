//! Pods, with a one-word summary of their containers' state.

use serde_json::{Value, json};

use super::cells::{NONE, condition, is_deleted, items, number, or_none, since, text};
use super::column::{AGE, Column, NAME, column, field, wide};

// All three depend on which init container is not finished yet, and on whether the pod counts as initialized.
const READY_READS: &[&str] = &[
    "/spec/containers/*/name",
    "/spec/initContainers/*/name",
    "/spec/initContainers/*/restartPolicy",
    "/status/conditions/*/type",
    "/status/conditions/*/status",
    "/status/initContainerStatuses/*/name",
    "/status/initContainerStatuses/*/ready",
    "/status/initContainerStatuses/*/started",
    "/status/initContainerStatuses/*/state",
    "/status/containerStatuses/*/ready",
    "/status/containerStatuses/*/state",
];
const STATUS_READS: &[&str] = &[
    "/spec/initContainers/*/name",
    "/spec/initContainers/*/restartPolicy",
    "/status/phase",
    "/status/reason",
    "/status/conditions/*/type",
    "/status/conditions/*/status",
    "/status/conditions/*/reason",
    "/status/initContainerStatuses/*/name",
    "/status/initContainerStatuses/*/started",
    "/status/initContainerStatuses/*/state",
    "/status/containerStatuses/*/ready",
    "/status/containerStatuses/*/state",
];
const RESTARTS_READS: &[&str] = &[
    "/spec/initContainers/*/name",
    "/spec/initContainers/*/restartPolicy",
    "/status/conditions/*/type",
    "/status/conditions/*/status",
    "/status/initContainerStatuses/*/name",
    "/status/initContainerStatuses/*/started",
    "/status/initContainerStatuses/*/state",
    "/status/initContainerStatuses/*/lastState",
    "/status/initContainerStatuses/*/restartCount",
    "/status/containerStatuses/*/lastState",
    "/status/containerStatuses/*/restartCount",
];

pub(super) const PODS: &[Column] = &[
    NAME,
    column("Ready", READY_READS, |pod, _| {
        let state = row(pod);
        json!(format!("{}/{}", state.ready, state.containers))
    }),
    column("Status", STATUS_READS, |pod, _| json!(row(pod).reason)),
    column("Restarts", RESTARTS_READS, |pod, now| {
        let state = row(pod);
        json!(match state.last_restart {
            Some(last) if state.restarts != 0 => format!("{} ({} ago)", state.restarts, since(last, now)),
            _ => state.restarts.to_string(),
        })
    }),
    AGE,
    wide("IP", &["/status/podIPs", "/status/podIP"], |pod, _| {
        match &pod["status"]["podIPs"][0]["ip"] {
            Value::Null => or_none(&pod["status"]["podIP"]),
            ip => or_none(ip),
        }
    }),
    field("Node", &["/spec/nodeName"], or_none).wide(),
    field("Nominated Node", &["/status/nominatedNodeName"], or_none).wide(),
    wide(
        "Readiness Gates",
        &[
            "/spec/readinessGates",
            "/status/conditions/*/type",
            "/status/conditions/*/status",
        ],
        |pod, _| json!(readiness_gates(pod)),
    ),
];

/// The cells of a pod's row.
struct PodRow<'a> {
    ready: usize,
    containers: usize,
    reason: String,
    restarts: i64,
    last_restart: Option<&'a str>,
}

/// Restarts of some containers, and when the last one was.
#[derive(Default, Clone, Copy)]
struct Restarts<'a> {
    count: i64,
    last: Option<&'a str>,
}

impl<'a> Restarts<'a> {
    fn add(&mut self, status: &'a Value) {
        self.count += number(&status["restartCount"]);
        self.last = self.last.max(status["lastState"]["terminated"]["finishedAt"].as_str());
    }
}

/// Follows `printPod`.
fn row(pod: &Value) -> PodRow<'_> {
    let status = &pod["status"];
    let phase = text(&status["phase"]);
    let mut reason = match text(&status["reason"]) {
        "" => phase.to_owned(),
        reason => reason.to_owned(),
    };
    let gated = |it: &&Value| it["type"] == "PodScheduled" && it["reason"] == "SchedulingGated";
    if items(&status["conditions"]).iter().any(|it| gated(&it)) {
        reason = "SchedulingGated".to_owned();
    }
    let mut ready = 0;
    let (mut all, mut sidecars) = (Restarts::default(), Restarts::default());
    let initializing = initialization(pod, &mut ready, &mut all, &mut sidecars);
    if let Some(initializing) = &initializing {
        reason.clone_from(initializing);
    }
    if initializing.is_none() || condition(&status["conditions"], "Initialized") == Some("True") {
        all = sidecars;
        running(pod, &mut ready, &mut all, &mut reason);
    }
    if is_deleted(pod) && status["reason"] == "NodeLost" {
        reason = "Unknown".to_owned();
    } else if is_deleted(pod) && !matches!(phase, "Succeeded" | "Failed") {
        reason = "Terminating".to_owned();
    }
    let sidecars = items(&pod["spec"]["initContainers"])
        .iter()
        .filter(|it| is_sidecar(it))
        .count();
    PodRow {
        ready,
        containers: items(&pod["spec"]["containers"]).len() + sidecars,
        reason,
        restarts: all.count,
        last_restart: all.last,
    }
}

fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

/// Checks the init containers up to the first unfinished one. Returns the state of that one.
fn initialization<'a>(
    pod: &'a Value,
    ready: &mut usize,
    all: &mut Restarts<'a>,
    sidecars: &mut Restarts<'a>,
) -> Option<String> {
    let specs = items(&pod["spec"]["initContainers"]);
    for (index, status) in items(&pod["status"]["initContainerStatuses"]).iter().enumerate() {
        let sidecar = specs
            .iter()
            .any(|spec| spec["name"] == status["name"] && is_sidecar(spec));
        all.add(status);
        if sidecar {
            sidecars.add(status);
        }
        let terminated = &status["state"]["terminated"];
        if terminated.is_object() && number(&terminated["exitCode"]) == 0 {
            continue;
        }
        if sidecar && status["started"] == true {
            *ready += usize::from(status["ready"] == true);
            continue;
        }
        let waiting = text(&status["state"]["waiting"]["reason"]);
        return Some(if terminated.is_object() {
            format!("Init:{}", end_of(terminated))
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{index}/{}", specs.len())
        });
    }
    None
}

/// Why a container ended.
fn end_of(terminated: &Value) -> String {
    match (text(&terminated["reason"]), number(&terminated["signal"])) {
        ("", 0) => format!("ExitCode:{}", number(&terminated["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Checks the containers, from last to first.
fn running<'a>(pod: &'a Value, ready: &mut usize, restarts: &mut Restarts<'a>, reason: &mut String) {
    let (mut has_running, mut error) = (false, None);
    for status in items(&pod["status"]["containerStatuses"]).iter().rev() {
        restarts.add(status);
        let (waiting, terminated) = (
            text(&status["state"]["waiting"]["reason"]),
            &status["state"]["terminated"],
        );
        if !waiting.is_empty() {
            *reason = waiting.to_owned();
        } else if terminated.is_object() {
            *reason = end_of(terminated);
            if number(&terminated["exitCode"]) != 0 {
                error = Some(reason.clone());
            }
        } else if status["ready"] == true && status["state"]["running"].is_object() {
            has_running = true;
            *ready += 1;
        }
    }
    if reason == "Completed" {
        let is_ready = condition(&pod["status"]["conditions"], "Ready") == Some("True");
        *reason = match error {
            _ if has_running && is_ready => "Running".to_owned(),
            Some(error) => error,
            None if has_running => "NotReady".to_owned(),
            None => return,
        };
    }
}

fn readiness_gates(pod: &Value) -> String {
    let gates = items(&pod["spec"]["readinessGates"]);
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let is_met = |gate: &&Value| condition(&pod["status"]["conditions"], text(&gate["conditionType"])) == Some("True");
    format!("{}/{}", gates.iter().filter(is_met).count(), gates.len())
}
