//! What the host is told about a plugin: a section of config.toml, already read.

use std::path::PathBuf;
use std::time::Duration;

use crate::{Digest, KubeGrant};

/// Memory of one instance: 64 MiB. A Rust or C plugin lives in 2, JavaScript and Python in 16.
pub const MEMORY_BYTES: usize = 64 * 1_024 * 1_024;

/// Time a guest may run in one call: 1 s. Waiting in the host does not count.
pub const CPU: Duration = Duration::from_secs(1);

/// Time a call may take as a whole, waiting in the host included: 30 s.
pub const CALL: Duration = Duration::from_secs(30);

/// Instances of one plugin that play the role `events`.
pub const INSTANCES: u32 = 1;

/// One plugin as the operator wants it.
#[derive(Clone, Debug)]
pub struct PluginSpec {
    /// The plugin's name in config.toml; marks its metrics and log lines.
    pub name: String,
    /// The plugin's file: a component, or a script ([`crate::is_script`]).
    pub component: PathBuf,
    /// What the file must be, if pinned. Judged at load and at each swap.
    pub sha256: Option<Digest>,
    /// Handed to `init` as a JSON document. `{}` if there is nothing to say.
    pub config: serde_json::Value,
    /// The informers the plugin may read: the name it uses, and the informer's.
    pub informers: Vec<(String, String)>,
    /// What it may do on the cluster.
    pub allow_kube: Vec<KubeGrant>,
    /// What it may use up.
    pub limits: Limits,
    /// How often it is told every object again; none: never.
    pub resync: Option<Duration>,
    /// What it is shown after another version was swapped in.
    pub on_reload: Continuation,
    /// What it is shown after a trap or a timeout cost it its memory.
    pub on_restart: Continuation,
    /// What becomes of an event it fails on.
    pub on_failure: OnFailure,
    /// Whether readiness waits for it. Only carried along.
    pub required: bool,
}

/// What one plugin may use up. Each has a default of the same name in this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of linear memory of one instance. At the limit `memory.grow` fails, which most languages turn into a trap.
    pub memory_bytes: usize,
    /// Time a guest may run in one call. At the limit the call is a timeout and the instance is rebuilt.
    pub cpu: Duration,
    /// Time a call may take, waiting in the host included. At the limit the call is a timeout and the instance is
    /// rebuilt.
    pub call: Duration,
    /// Events that may wait in full; above it they fold per key.
    pub pending: usize,
    /// Instances that share the plugin's keys.
    pub instances: u32,
}

/// How an instance that takes another's place goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Continuation {
    /// Where the old one stopped.
    #[default]
    Continue,
    /// From the beginning: it is shown the whole cache again.
    Replay,
}

/// What becomes of an event that a plugin fails on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// It is tried again with back-off and becomes a dead letter in the end.
    #[default]
    Retry,
    /// It is counted and left.
    Skip,
    /// As `Retry`; and a failure that trying again cannot mend, a trap or a timeout stops the plugin until it is
    /// resumed.
    Quarantine,
}

impl PluginSpec {
    /// A plugin with defaults for all that is not said here.
    #[must_use]
    pub fn new(name: impl Into<String>, component: impl Into<PathBuf>) -> PluginSpec {
        PluginSpec {
            name: name.into(),
            component: component.into(),
            sha256: None,
            config: serde_json::json!({}),
            informers: Vec::new(),
            allow_kube: Vec::new(),
            limits: Limits::default(),
            resync: None,
            on_reload: Continuation::default(),
            on_restart: Continuation::default(),
            on_failure: OnFailure::default(),
            required: false,
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            memory_bytes: MEMORY_BYTES,
            cpu: CPU,
            call: CALL,
            pending: informant_cache::listener::PENDING_EVENTS_MAX,
            instances: INSTANCES,
        }
    }
}
