//! The status of a plugin, as JSON.

use serde::{Deserialize, Serialize};

use crate::admin::sources::AgedText;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Plugins {
    pub items: Vec<PluginView>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PluginView {
    pub name: String,
    pub component: String,
    pub informers: Vec<String>,
    /// A loaded plugin's state, or `loading`, `refused`, `stopped`; `not-ready` while its first calls wait for
    /// something that it may read, or began without it.
    pub state: String,
    /// Why, if a reason is known.
    pub because: Option<String>,
    /// The runbook for its state, if there is one: `informant explain CODE`.
    pub code: Option<String>,
    /// What is wrong with it, and what its events wait for: sentences, the worst first.
    pub problems: Vec<String>,
    /// Only if loaded.
    #[serde(flatten)]
    pub loaded: Option<LoadedView>,
}

/// The component that runs a script.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunnerView {
    pub language: String,
    pub version: String,
    /// The digest of the runner's file.
    pub sha256: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoadedView {
    pub manifest_name: String,
    pub manifest_version: String,
    pub roles: String,
    /// The digest of the running component.
    pub sha256: String,
    /// The digest of the previous component.
    pub previous_sha256: Option<String>,
    /// The runner of a script; none for a component without one.
    #[serde(default)]
    pub runner: Option<RunnerView>,
    /// Linear memory of all instances.
    pub memory_bytes: usize,
    /// CPU time of its calls since it was loaded.
    #[serde(default)]
    pub cpu_ms: u64,
    /// Its calls to the API servers, and the bytes of the documents that it sent and received.
    #[serde(default)]
    pub kube_requests: u64,
    #[serde(default)]
    pub kube_sent_bytes: u64,
    #[serde(default)]
    pub kube_received_bytes: u64,
    /// Writes, HTTP requests that may change something, and Kubernetes Events.
    #[serde(default)]
    pub effects: u64,
    /// Live instances.
    pub instances: usize,
    /// Instances rebuilt.
    pub restarts: u64,
    /// Components swapped in.
    pub reloads: u64,
    /// What its next version waits for, if that is being compiled.
    #[serde(default)]
    pub compiling: Option<String>,
    /// The last attempt to swap in a component or to apply another section.
    pub last_reload: Option<ReloadView>,
    /// The last ten, oldest first.
    #[serde(default)]
    pub reload_history: Vec<PastReloadView>,
    pub pending: usize,
    /// How long ago the frame of the oldest pending event was read: the plugin's lag.
    pub oldest_pending_ms: Option<u64>,
    /// Events being handled.
    pub in_flight: usize,
    /// Objects on which it failed and that are delivered again.
    pub failing: usize,
    /// Those of them that failed first, at most [`RETRIES_SHOWN_MAX`].
    #[serde(default)]
    pub retries: Vec<RetryView>,
    /// Objects with events that wait for the end of `min-interval`.
    #[serde(default)]
    pub spaced: usize,
    /// Objects whose last call found a source or an index not ready.
    #[serde(default)]
    pub waiting: usize,
    /// Objects that wait because their namespace is suspect and has used up its share of time.
    #[serde(default)]
    pub suspect: usize,
    /// Namespaces, and cluster-scoped objects, that cost the plugin an instance a short time ago.
    #[serde(default)]
    pub suspects: usize,
    /// The first of these by name, at most [`SUSPECTS_SHOWN_MAX`].
    #[serde(default)]
    pub suspect_namespaces: Vec<String>,
    /// Whether deliveries wait for `max-rate`.
    #[serde(default)]
    pub rate_held: bool,
    /// Objects for which it will be called again because its handler asked for that.
    #[serde(default)]
    pub requeues: usize,
    /// Those of them whose calls are spaced: the handler asks again and again, although the object does not change.
    #[serde(default)]
    pub slowed: usize,
    /// The first of these, at most [`SLOWED_SHOWN_MAX`].
    #[serde(default)]
    pub slowed_objects: Vec<SlowedView>,
    /// Its deferred writes that wait or are in flight.
    #[serde(default)]
    pub writes_waiting: usize,
    /// The events to which these belong: they are handled, apart from their writes.
    #[serde(default)]
    pub writes_waiting_events: usize,
    /// Keys whose calls are spaced because they write to one object again and again.
    #[serde(default)]
    pub writes_spaced: usize,
    /// The first of these, at most [`SLOWED_SHOWN_MAX`].
    #[serde(default)]
    pub writes_spaced_keys: Vec<WritingKeyView>,
    /// How long none of them is sent, because the API server asked for that.
    #[serde(default)]
    pub writes_paused_ms: Option<u64>,
    /// What its keys take; none if it has not used them since it was loaded.
    #[serde(default)]
    pub kv: Option<KvView>,
    /// The hosts to which it sends no requests, because they asked for a pause.
    #[serde(default)]
    pub closed_hosts: Vec<ClosedHostView>,
    /// Its timers.
    #[serde(default)]
    pub timers: Vec<TimerView>,
    /// Whether it is in dry run: what it would change is withheld.
    #[serde(default)]
    pub dry_run: bool,
    /// Whether it is paused, whatever else its state is.
    #[serde(default)]
    pub paused: bool,
    /// Whether newer events are coalesced with pending ones of the same object.
    pub keyed: bool,
    pub dead_letters: usize,
    /// The most recent one.
    #[serde(default)]
    pub last_dead_letter: Option<DeadLetterView>,
    pub delivered: u64,
    /// Events coalesced with others.
    pub coalesced: u64,
    /// The last error; the plugin may have recovered since.
    pub last_error: Option<AgedText>,
    /// The longest-running call.
    pub stuck_on: Option<StuckView>,
}

/// A timer of a plugin. Times are RFC 3339 in UTC.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TimerView {
    pub name: String,
    /// `every 10s`, `0 8 * * 1-5 Europe/Berlin`.
    pub schedule: String,
    /// When the last run was due that has ended; none if there was none since the plugin was loaded.
    pub last: Option<String>,
    /// Whether that succeeded.
    pub last_succeeded: Option<bool>,
    /// When the next run is made.
    pub next: Option<String>,
}

/// A key whose calls are spaced because they write to one object again and again.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WritingKeyView {
    /// The object of the events.
    pub object: String,
    /// Its cluster; empty for the only one.
    #[serde(default)]
    pub cluster: String,
    /// `v1/pods`; empty if its source is gone.
    #[serde(default)]
    pub resource: String,
    /// The object that is written to.
    pub target: String,
    /// How long its next call waits after the last one.
    pub wait_ms: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClosedHostView {
    /// Host and port.
    pub host: String,
    /// Until it opens.
    pub left_ms: u64,
}

/// What the keys of a plugin take.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct KvView {
    /// How many there are.
    pub keys: usize,
    /// Bytes of keys and values.
    pub bytes: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReloadView {
    /// `ok` or `refused`.
    pub result: String,
    /// Why it was refused.
    pub error: Option<String>,
    pub age_ms: u64,
}

/// A reload, and what runs since.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct PastReloadView {
    /// In RFC 3339, in UTC.
    pub time: String,
    /// `ok` or `refused`.
    pub result: String,
    pub version: String,
    pub sha256: String,
    /// Why it was refused.
    pub error: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeadLetterView {
    pub object: String,
    /// Its cluster; empty for the only one.
    #[serde(default)]
    pub cluster: String,
    /// `v1/pods`; empty if its source is gone.
    #[serde(default)]
    pub resource: String,
    /// `add`, `update` or `delete`.
    pub event: String,
    /// The plugin's error, or Informant's for it.
    pub error: String,
    /// How long ago it was given up.
    pub age_ms: u64,
}

/// An object on which a plugin failed and that is delivered again.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RetryView {
    /// The object; null for a sync notification and a timer.
    pub object: Option<String>,
    /// The timer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<String>,
    /// Its cluster; empty for the only one.
    #[serde(default)]
    pub cluster: String,
    /// `v1/pods`; empty if its source is gone.
    #[serde(default)]
    pub resource: String,
    /// `add`, `update`, `delete`, `sync` or `timer`.
    pub event: String,
    /// Calls that failed since it last succeeded.
    pub attempts: u32,
    /// The error of the last one.
    pub error: String,
    /// How long it has been failing.
    pub age_ms: u64,
    /// When the next call is due; 0 while it is being made or waits for its turn.
    pub next_ms: u64,
}

/// An object for which a handler asks for another call again and again.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SlowedView {
    pub object: String,
    /// Its cluster; empty for the only one.
    #[serde(default)]
    pub cluster: String,
    /// `v1/pods`; empty if its source is gone.
    #[serde(default)]
    pub resource: String,
    /// Calls in a row, for the same state of the object, that asked for another one.
    pub requeues: u32,
    /// When the next call is due.
    pub next_ms: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StuckView {
    pub source: u32,
    /// The object; null for a sync notification.
    pub object: Option<String>,
    /// Its cluster; empty for the only one.
    #[serde(default)]
    pub cluster: String,
    /// `v1/pods`; empty if its source is gone.
    #[serde(default)]
    pub resource: String,
    /// `add`, `update`, `delete`, `sync` or `index`.
    pub event: String,
    /// How long it has been running.
    pub for_ms: u64,
}

/// How many keys under retry the status of a plugin shows.
pub(crate) const RETRIES_SHOWN_MAX: usize = 3;

/// How many slowed objects the status of a plugin lists.
pub(crate) const SLOWED_SHOWN_MAX: usize = 3;

/// Suspect namespaces that are listed with a plugin: 3.
pub(crate) const SUSPECTS_SHOWN_MAX: usize = 3;
