//! Informant's pod: which one a port-forward leads to.
//!
//! The API server and the kubelet lead the stream to the pod's own loopback interface, so that the admin server needs
//! no other address.

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use informant_config::ADMIN_LISTEN_DEFAULT;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;

use super::identity::{API_SERVER_ANSWER_MAX, explain};
use super::names;
use super::port_forward::{self, Forward};
use super::target::NAMESPACE_DEFAULT;
use crate::cli::output;
use crate::cluster::User;

/// The label of Informant's pods.
const LABEL: &str = "app.kubernetes.io/name=informant";

/// How many pods are looked at; with more, `--pod` must name one.
const PODS_MAX: u32 = 100;

/// The name of the admin server's port in a pod.
const PORT_NAME: &str = "admin";

/// Selects the pod of a port-forward.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct PodArgs {
    /// Open a port-forward to Informant's pod in this namespace: the Ready pod with the label
    /// app.kubernetes.io/name=informant
    #[arg(long, value_name = "NAMESPACE", value_parser = names::parse, conflicts_with_all = ["admin", "config"])]
    informant_namespace: Option<String>,
    /// Open a port-forward to this pod, also if it is not Ready [default namespace: informant]
    #[arg(long, value_name = "NAME", value_parser = names::parse, conflicts_with_all = ["admin", "config"])]
    pub(super) pod: Option<String>,
}

impl PodArgs {
    /// The pod's namespace, if a port-forward is wanted.
    pub(super) fn namespace(&self) -> Option<&str> {
        let default = self.pod.as_ref().map(|_| NAMESPACE_DEFAULT);
        self.informant_namespace.as_deref().or(default)
    }
}

/// Chooses the pod and opens a port-forward to its admin server. Returns the pod for messages, too: `pod
/// informant/informant-0`.
pub(super) async fn forward(user: &User, namespace: &str, name: Option<&str>) -> Result<(Forward, String)> {
    let client = &user.cluster.client;
    let pod = find(&Api::namespaced(client.clone(), namespace), namespace, name).await?;
    let name = name_of(&pod);
    let failed = || format!("cannot open a port-forward to pod {namespace}/{name}");
    let opening = port_forward::open(client, namespace, name, admin_port(&pod));
    let opened = tokio::time::timeout(API_SERVER_ANSWER_MAX, opening).await;
    let forward = opened.with_context(failed)?.map_err(|error| {
        let needed = format!("`get` and `create` on pods/portforward in namespace {namespace}");
        anyhow!("{}: {}", failed(), explain(&error, &needed))
    })?;
    Ok((forward, format!("pod {namespace}/{name}")))
}

async fn find(pods: &Api<Pod>, namespace: &str, name: Option<&str>) -> Result<Pod> {
    let failed = || format!("cannot find Informant's pod in namespace {namespace}");
    let refused = |error: kube::Error, verb| {
        let needed = format!("`{verb}` on pods in namespace {namespace}");
        anyhow!("{}: {}", failed(), explain(&error, &needed))
    };
    let Some(name) = name else {
        let selected = ListParams::default().labels(LABEL).limit(PODS_MAX);
        let listed = tokio::time::timeout(API_SERVER_ANSWER_MAX, pods.list(&selected)).await;
        let listed = listed.with_context(failed)?.map_err(|error| refused(error, "list"))?;
        return choose(listed.items, namespace).map_err(|problem| anyhow!(problem));
    };
    let found = tokio::time::timeout(API_SERVER_ANSWER_MAX, pods.get_opt(name)).await;
    let found = found.with_context(failed)?.map_err(|error| refused(error, "get"))?;
    let pod = found.with_context(|| format!("there is no pod {name} in namespace {namespace}"))?;
    match Condition::of(&pod) {
        Condition::Ready => {}
        Condition::Running => output::note(&format!("warning: pod {name} is not Ready")),
        Condition::Other(phase) => bail!("pod {name} in namespace {namespace} is {phase}: nothing responds there"),
    }
    Ok(pod)
}

/// Whether a pod can be connected to.
#[derive(Debug, PartialEq, Eq)]
enum Condition {
    Ready,
    /// Not Ready, or about to end.
    Running,
    /// It does not run: its phase.
    Other(String),
}

impl Condition {
    fn of(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or("Unknown");
        if phase != "Running" {
            return Self::Other(phase.to_owned());
        }
        let mut conditions = status.into_iter().flat_map(|status| status.conditions.iter().flatten());
        let is_ready = conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
        match is_ready && pod.metadata.deletion_timestamp.is_none() {
            true => Self::Ready,
            false => Self::Running,
        }
    }
}

/// The only Ready pod.
fn choose(pods: Vec<Pod>, namespace: &str) -> Result<Pod, String> {
    let (mut ready, others): (Vec<_>, Vec<_>) =
        pods.into_iter().partition(|pod| Condition::of(pod) == Condition::Ready);
    match (ready.pop(), ready.len(), others.len()) {
        (Some(pod), 0, _) => Ok(pod),
        (Some(pod), _, _) => {
            ready.push(pod);
            let names: Vec<_> = ready.iter().map(name_of).collect();
            let names = names.join(", ");
            Err(format!(
                "several pods of Informant are Ready in namespace {namespace}: {names}; choose one with --pod"
            ))
        }
        (None, _, 0) => Err(format!(
            "no pod in namespace {namespace} has the label {LABEL}: name the namespace that Informant runs in"
        )),
        (None, _, _) => {
            let each = others.iter().map(|pod| match Condition::of(pod) {
                Condition::Other(phase) => format!("{} ({phase})", name_of(pod)),
                _ => name_of(pod).to_owned(),
            });
            let pods = each.collect::<Vec<_>>().join(", ");
            Err(format!(
                "no pod of Informant in namespace {namespace} is Ready: {pods}; to connect to one that runs, name it \
                 with --pod"
            ))
        }
    }
}

fn name_of(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

/// The port of the admin server: the one called `admin`, or else the default one.
fn admin_port(pod: &Pod) -> u16 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
    let admin = ports.find(|port| port.name.as_deref() == Some(PORT_NAME));
    let number = admin.and_then(|port| u16::try_from(port.container_port).ok());
    number.unwrap_or(ADMIN_LISTEN_DEFAULT.port())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, phase: &str, ready: bool) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": { "containers": [{ "name": "informant" }] },
            "status": { "phase": phase, "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }] },
        }))
        .unwrap()
    }

    fn chosen(pods: Vec<Pod>) -> String {
        choose(pods, "tools").map_or_else(|problem| problem, |pod| name_of(&pod).to_owned())
    }

    #[test]
    fn only_one_ready_pod_is_chosen() {
        let running = || pod("informant-1", "Running", false);
        assert_eq!(
            chosen(vec![running(), pod("informant-0", "Running", true)]),
            "informant-0"
        );
        let mut ending = pod("informant-2", "Running", true);
        ending.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
        let several = vec![
            pod("informant-0", "Running", true),
            pod("informant-3", "Running", true),
            running(),
        ];
        insta::assert_snapshot!(chosen(vec![]), @"no pod in namespace tools has the label app.kubernetes.io/name=informant: name the namespace that Informant runs in");
        insta::assert_snapshot!(chosen(several), @"several pods of Informant are Ready in namespace tools: informant-0, informant-3; choose one with --pod");
        let waiting = vec![running(), ending, pod("informant-4", "Pending", false)];
        insta::assert_snapshot!(chosen(waiting), @"no pod of Informant in namespace tools is Ready: informant-1, informant-2, informant-4 (Pending); to connect to one that runs, name it with --pod");
    }

    #[test]
    fn admin_port_is_found_by_name() {
        let mut pod = pod("informant-0", "Running", true);
        assert_eq!(admin_port(&pod), 8089);
        let container = json!({
            "name": "informant",
            "ports": [{ "name": "health", "containerPort": 8090 }, { "name": "admin", "containerPort": 9089 }],
        });
        pod.spec.as_mut().unwrap().containers = vec![serde_json::from_value(container).unwrap()];
        assert_eq!(admin_port(&pod), 9089);
    }
}
