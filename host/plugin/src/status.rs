//! A plugin's status.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Moment;
use informant_cache::index_feed::IndexJob;
use informant_cache::listener::Delivery;
use informant_object::{Key, KeyRef, SourceId};
use informant_spec::Digest;
use jiff::Timestamp;

use crate::capability::http::ClosedHost;
use crate::capability::kube::KubeTraffic;
use crate::capability::kube::writes::WritesStatus;
use crate::capability::kv::key_value::KvUsage;
use crate::component::roles::Roles;
use crate::component::runner::RunnerStatus;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PluginState {
    /// Loaded, but not started.
    Loaded,
    /// It has an instance and handles events.
    Running,
    /// It has an instance, but its last calls have all failed.
    Failing,
    /// It lost its instance and waits for the next one; meanwhile events wait, or are compressed per key.
    Restarting,
    /// It was rebuilt too often and is not called until it is resumed or reloaded.
    Quarantined,
    /// An operator or its section paused it: its event handler is not called until it is resumed.
    Paused,
    /// Another replica calls its event handler: it has no instance for that, but computes its indexes.
    Standby,
    /// Its listener is closed, and the pending events are delivered.
    Draining,
    /// It has ended.
    Stopped,
}

#[derive(Clone, Debug)]
pub struct PluginStatus {
    pub name: String,
    /// The name and version in its manifest.
    pub manifest: (String, String),
    pub state: PluginState,
    /// The reason of the state, if any: what led to a restart, to quarantine or to a pause.
    pub because: Option<String>,
    /// The roles of the running component.
    pub roles: Roles,
    /// The digest of the running component.
    pub digest: Digest,
    /// The component that ran before the last swap: the target of a rollback.
    pub previous_digest: Option<Digest>,
    /// The runner of the script, if it is one.
    pub runner: Option<Arc<RunnerStatus>>,
    /// Why the last good version runs instead of the one in its file: that one was rejected, or failed soon after it
    /// was swapped in.
    pub rolled_back: Option<String>,
    /// Linear memory of all its instances, in bytes.
    pub memory_bytes: usize,
    /// What it cost since it was loaded.
    pub cost: PluginCost,
    /// Instances rebuilt since it was loaded.
    pub restarts: u64,
    /// Live instances.
    pub instances: usize,
    /// Components swapped in since it was loaded.
    pub reloads: u64,
    /// The last reload: of a component, or of a section that needs a new instance.
    pub last_reload: Option<Reload>,
    /// The last reloads, at most 10, oldest first.
    pub reloads_so_far: Vec<Reload>,
    /// The last error (a failed reload, a trap, a timeout) and its time.
    pub last_error: Option<(Moment, String)>,
    /// The call that has been running longest.
    pub stuck_on: Option<StuckOn>,
    /// Whether it is paused, whatever else its state is.
    pub paused: bool,
    /// Whether it is in dry run.
    pub is_dry_run: bool,
    /// Its pending events.
    pub pending: usize,
    /// Its dead-lettered events.
    pub dead_letters: usize,
    /// Its deferred writes.
    pub writes: WritesStatus,
    /// What its keys take; none if it has not used them since it was loaded.
    pub kv: Option<KvUsage>,
    /// The hosts that are closed to it.
    pub closed_hosts: Vec<ClosedHost>,
    /// Its timers, in the order of its manifest.
    pub timers: Vec<TimerStatus>,
}

/// What a plugin cost since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PluginCost {
    /// CPU time of its calls.
    pub cpu: Duration,
    /// Its calls to the API servers.
    pub kube: KubeTraffic,
    /// Writes, HTTP requests that may change something, and Kubernetes Events.
    pub effects: u64,
}

/// A run of a timer that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedRun {
    /// When it was due.
    pub scheduled: Timestamp,
    /// When it ended.
    pub at: Timestamp,
    /// Whether it succeeded; otherwise it was given up.
    pub accepted: bool,
}

/// What is known of a timer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerStatus {
    pub name: String,
    /// `every 10s`, `0 8 * * 1-5 Europe/Berlin`.
    pub schedule: String,
    /// None: none has ended since the plugin was loaded.
    pub ended: Option<EndedRun>,
    /// When the next one is made. None: there is none.
    pub next: Option<Timestamp>,
}

/// A reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reload {
    /// When it ended.
    pub at: Moment,
    /// Why the old version keeps running; none if the reload succeeded.
    pub refused: Option<String>,
    /// The version that runs since, and its digest.
    pub version: String,
    pub digest: Digest,
}

/// A running call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckOn {
    /// The object's source.
    pub source: SourceId,
    /// The object; none in a call about a synced source.
    pub key: Option<Key>,
    /// `add`, `update`, `delete`, `sync`, `timer` or `index`.
    pub event: &'static str,
    /// Since when.
    pub since: Moment,
}

impl StuckOn {
    pub(crate) fn of(delivery: &Delivery, since: Moment) -> StuckOn {
        let (source, event) = (delivery.source, delivery.notification.as_str());
        StuckOn {
            source,
            key: delivery.key().map(KeyRef::to_key),
            event,
            since,
        }
    }

    pub(crate) fn of_index(job: &IndexJob, since: Moment) -> StuckOn {
        StuckOn {
            source: job.source,
            key: Some(job.key.clone()),
            event: "index",
            since,
        }
    }
}

impl PluginState {
    /// All states, in the order of a plugin's life.
    pub const ALL: [PluginState; 9] = [
        PluginState::Loaded,
        PluginState::Running,
        PluginState::Failing,
        PluginState::Restarting,
        PluginState::Quarantined,
        PluginState::Paused,
        PluginState::Standby,
        PluginState::Draining,
        PluginState::Stopped,
    ];

    /// The state's name in metrics, JSON and tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            PluginState::Loaded => "loaded",
            PluginState::Running => "running",
            PluginState::Failing => "failing",
            PluginState::Restarting => "restarting",
            PluginState::Quarantined => "quarantined",
            PluginState::Paused => "paused",
            PluginState::Standby => "standby",
            PluginState::Draining => "draining",
            PluginState::Stopped => "stopped",
        }
    }
}

impl std::fmt::Display for PluginState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
