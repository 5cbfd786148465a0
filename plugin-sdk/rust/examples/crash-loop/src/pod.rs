//! The fields of a pod that this plugin reads, named as in Kubernetes (core/v1 `ContainerStatus`).

use serde::Deserialize;

/// The lists of containers that can crash. Ephemeral containers are never restarted.
const LISTS: [&str; 2] = ["/status/initContainerStatuses", "/status/containerStatuses"];

/// The fields that are read: those of [`ContainerStatus`], without the messages of the state, which change with each
/// back-off.
const FIELDS: [&str; 8] = [
    "name",
    "restartCount",
    "state/waiting/reason",
    "state/running/startedAt",
    "state/terminated/reason",
    "state/terminated/exitCode",
    "lastState/terminated/reason",
    "lastState/terminated/exitCode",
];

/// The fields that the manifest requests, as JSON pointers.
pub(crate) fn pointers() -> impl Iterator<Item = String> {
    LISTS
        .iter()
        .flat_map(|list| FIELDS.iter().map(move |field| format!("{list}/*/{field}")))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Pod {
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    init_container_statuses: Vec<ContainerStatus>,
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStatus {
    pub(crate) name: String,
    pub(crate) restart_count: u32,
    state: State,
    last_state: State,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct State {
    waiting: Option<Waiting>,
    running: Option<Running>,
    terminated: Option<Terminated>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: String,
}

#[derive(Debug, Deserialize)]
struct Running {}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Terminated {
    pub(crate) reason: String,
    pub(crate) exit_code: i32,
}

impl Pod {
    /// All containers, init containers first.
    pub(crate) fn containers(&self) -> impl Iterator<Item = &ContainerStatus> {
        self.status
            .init_container_statuses
            .iter()
            .chain(&self.status.container_statuses)
    }
}

impl ContainerStatus {
    /// Whether the kubelet waits before it restarts the container.
    pub(crate) fn is_backing_off(&self) -> bool {
        self.state
            .waiting
            .as_ref()
            .is_some_and(|waiting| waiting.reason == "CrashLoopBackOff")
    }

    /// The ended runs in the status, oldest first: the number of restarts before each run, and how it ended.
    pub(crate) fn ended_runs(&self) -> impl Iterator<Item = (u32, &Terminated)> {
        // A restart is counted when the container starts. Until then, the last run is the one that has just ended.
        let has_begun = self.state.running.is_some() || self.state.terminated.is_some();
        let before = if has_begun {
            self.restart_count.checked_sub(1)
        } else {
            Some(self.restart_count)
        };
        let last = before.zip(self.last_state.terminated.as_ref());
        last.into_iter()
            .chain(self.state.terminated.as_ref().map(|ended| (self.restart_count, ended)))
    }
}
