//! What a plugin says about itself.

use informant_cache::Moment;
use informant_cache::index_feed::IndexJob;
use informant_cache::listener::Delivery;
use informant_object::{Key, KeyRef, SourceId};

use crate::{Digest, Roles};

/// What a plugin is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PluginState {
    /// Loaded, and not started.
    Loaded,
    /// It has an instance and is called when there is something to tell.
    Running,
    /// It lost its instance and waits for the next one; what comes in meanwhile waits, or folds per key.
    Restarting,
    /// It was rebuilt too often and is not called until it is resumed or swapped.
    Quarantined,
    /// It takes no more events and delivers those it has.
    Draining,
    /// It is over.
    Stopped,
}

/// A plugin at one moment.
#[derive(Clone, Debug)]
pub struct PluginStatus {
    /// Its name in config.toml.
    pub name: String,
    /// Its name and version by its own manifest.
    pub manifest: (String, String),
    /// What it is doing.
    pub state: PluginState,
    /// Why, where there is something to say: what led to a restart or to quarantine.
    pub because: Option<String>,
    /// The roles of the component that runs.
    pub roles: Roles,
    /// The component that runs.
    pub digest: Digest,
    /// The component that ran before the last swap: what a roll-back would go to.
    pub previous_digest: Option<Digest>,
    /// Why the last good version runs, and not the one in its file: that one is refused, or failed soon after it was
    /// swapped in.
    pub rolled_back: Option<String>,
    /// Linear memory of all its instances, in bytes.
    pub memory_bytes: usize,
    /// Instances rebuilt since it was loaded.
    pub restarts: u64,
    /// Live instances.
    pub instances: usize,
    /// Components swapped in since it was loaded.
    pub reloads: u64,
    /// The last try to swap a component in, or to run by another section with another instance.
    pub last_reload: Option<Reload>,
    /// What went wrong last: a failed swap, a trap, a timeout; with the moment.
    pub last_error: Option<(Moment, String)>,
    /// The call that has been under way for longest.
    pub stuck_on: Option<StuckOn>,
    /// Events that wait for it.
    pub pending: usize,
    /// Events it failed on for good.
    pub dead_letters: usize,
}

/// A try to have something else run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reload {
    /// When it ended.
    pub at: Moment,
    /// Why the old one goes on; none if the new one runs.
    pub refused: Option<String>,
}

/// A call that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckOn {
    /// The object's source.
    pub source: SourceId,
    /// The object; none while it is told that a source is synced.
    pub key: Option<Key>,
    /// `add`, `update`, `delete`, `sync` or `index`.
    pub event: &'static str,
    /// Since when.
    pub since: Moment,
}

impl StuckOn {
    pub(crate) fn of(delivery: &Delivery, since: Moment) -> StuckOn {
        let (source, event) = (delivery.source, delivery.what.as_str());
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
    /// All states, in the order in which a plugin goes through them.
    pub const ALL: [PluginState; 6] = [
        PluginState::Loaded,
        PluginState::Running,
        PluginState::Restarting,
        PluginState::Quarantined,
        PluginState::Draining,
        PluginState::Stopped,
    ];

    /// The state's name in metrics, JSON and tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            PluginState::Loaded => "loaded",
            PluginState::Running => "running",
            PluginState::Restarting => "restarting",
            PluginState::Quarantined => "quarantined",
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
