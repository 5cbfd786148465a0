//! A plugin's section of config.toml, already parsed.

use std::path::PathBuf;
use std::time::Duration;

use informant_cache::listener::RetryPolicy;
use informant_object::{LabelSelector, Object};

use crate::{Digest, HttpGrant, KubeGrant};

/// Memory of one instance: 64 MiB. A Rust or C plugin needs 2, JavaScript and Python 16.
pub const MEMORY_BYTES: usize = 64 * 1_024 * 1_024;

/// CPU time of one call: 1 s. Waiting in the host does not count.
pub const CPU: Duration = Duration::from_secs(1);

/// Total time of one call, including waiting in the host: 30 s.
pub const CALL: Duration = Duration::from_secs(30);

/// Instances that handle the events of one plugin: 1.
pub const INSTANCES: u32 = 1;

/// The most instances that may handle the events of one plugin: 64.
pub const INSTANCES_MAX: u32 = informant_cache::listener::SHARDS_MAX as u32;

/// Direct calls of one plugin to clusters at once: 8.
pub const KUBE_CALLS: usize = 8;

/// Deferred writes of one plugin in flight: 16.
pub const WRITES_IN_FLIGHT: usize = 16;

/// Deferred writes of one plugin in a second: 20, after bursts of [`WRITES_BURST`](crate::limits::WRITES_BURST).
pub const WRITES_PER_SECOND: u32 = 20;

/// Keys and values of one plugin in `kv`: 1 MiB, with [`KV_KEY_COST_BYTES`](crate::limits::KV_KEY_COST_BYTES) for each
/// key.
pub const KV_BYTES: usize = 1 << 20;

/// HTTP requests of one plugin in flight: 16. Further ones wait, within their own time.
pub const HTTP_IN_FLIGHT: usize = 16;

/// HTTP requests of one plugin in a second: 50, after bursts of [`HTTP_BURST`](crate::limits::HTTP_BURST). Further ones
/// wait, within their own time.
pub const HTTP_PER_SECOND: u32 = 50;

/// Time of one HTTP request, from waiting for its turn to the end of the response: 10 s, or nine tenths of the call.
pub const HTTP_TIME: Duration = Duration::from_secs(10);

/// The body of an HTTP request: 1 MiB.
pub const HTTP_REQUEST_BYTES: usize = 1 << 20;

/// The body of an HTTP response: 8 MiB.
pub const HTTP_RESPONSE_BYTES: usize = 8 << 20;

/// One plugin as configured by the operator.
#[derive(Clone, Debug)]
pub struct PluginSpec {
    /// The plugin's name in config.toml; a label of its metrics and a field of its log lines.
    pub name: String,
    /// The plugin's file: a component, or a script ([`crate::is_script`]).
    pub component: PathBuf,
    /// The file's digest, if pinned. Checked at load and at each reload.
    pub sha256: Option<Digest>,
    /// Passed to `init` as a JSON document. `{}` if there is none.
    pub config: serde_json::Value,
    /// The informers the plugin may read: the name it uses, and the informer's name.
    pub informers: Vec<(String, String)>,
    /// The objects whose events it receives, of those that its manifest selects. A change takes effect while it runs:
    /// its handler receives an add of each object that is selected from now on, and a delete of each that no longer is.
    pub selection: EventSelection,
    /// What it may do on the cluster.
    pub allow_kube: Vec<KubeGrant>,
    /// Where it may send HTTP requests.
    pub allow_http: Vec<HttpGrant>,
    /// Its resource limits.
    pub limits: Limits,
    /// The resync period; none: no resync.
    pub resync: Option<Duration>,
    /// The shortest time between the starts of two calls for one object; none: no limit.
    pub min_interval: Option<Duration>,
    /// How many calls of the event handler may start in a second, after a burst of as many; none: no limit.
    pub calls_per_second_max: Option<u32>,
    /// Whether it receives a replay of the cache after a reload.
    pub on_reload: ReplayPolicy,
    /// Whether it receives a replay of the cache after a trap or a timeout cost it its memory.
    pub on_restart: ReplayPolicy,
    /// What happens to an event it fails on.
    pub on_failure: OnFailure,
    /// How events it fails on are retried.
    pub retry: RetryPolicy,
    /// Whether it starts paused. A change pauses or resumes it; otherwise what an operator last asked for holds.
    pub paused: bool,
    /// Whether it is in dry run: what it would change is recorded, and withheld.
    pub is_dry_run: bool,
    /// Whether readiness waits for it. Not used by this crate.
    pub required: bool,
}

/// A selection of objects. Default: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventSelection {
    /// Their namespaces. Empty: all. Cluster-scoped objects are in the namespace "".
    pub namespaces: Vec<String>,
    /// Their labels. None: all.
    pub label_selector: Option<LabelSelector>,
}

/// The resource limits of one plugin. Each has a default of the same name in this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of linear memory of one instance. At the limit `memory.grow` fails, which most languages turn into a trap.
    pub memory_bytes: usize,
    /// CPU time of one call. At the limit the call is a timeout and the instance is rebuilt.
    pub cpu: Duration,
    /// Total time of one call, including waiting in the host. At the limit the call is a timeout and the instance is
    /// rebuilt.
    pub call: Duration,
    /// Pending events that are kept one by one; above it they are compressed per key.
    pub pending: usize,
    /// Instances that share the plugin's keys; more than 1 only if its manifest says `parallel`.
    pub instances: u32,
    /// Direct calls to clusters at once, of all instances; further ones wait.
    pub kube_calls: usize,
    /// Deferred writes that are in flight at once; further ones wait.
    pub writes_in_flight: usize,
    /// Deferred writes in a second, after a burst; further ones wait.
    pub writes_per_second: u32,
    /// Bytes of its keys and values in `kv`. At the limit a key is not set.
    pub kv_bytes: usize,
    /// HTTP requests in flight at once; further ones wait.
    pub http_in_flight: usize,
    /// HTTP requests in a second, after a burst; further ones wait.
    pub http_per_second: u32,
    /// Time of one HTTP request, with its response. At the limit it fails.
    pub http_time: Duration,
    /// Bytes of the body of an HTTP request. At the limit it fails.
    pub http_request_bytes: usize,
    /// Bytes of the body of an HTTP response. At the limit reading it fails.
    pub http_response_bytes: usize,
}

/// What a new instance receives when it replaces another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplayPolicy {
    /// It continues where the old one stopped.
    #[default]
    Continue,
    /// It receives a replay of the whole cache.
    Replay,
}

/// What happens to an event that a plugin fails on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// It is retried with back-off, and dead-lettered once it is out of attempts.
    #[default]
    Retry,
    /// It is counted and dropped.
    Skip,
    /// As `Retry`, but a permanent failure, a trap or a timeout quarantines the plugin until it is resumed.
    Quarantine,
}

impl PluginSpec {
    /// A plugin with defaults for everything else.
    #[must_use]
    pub fn new(name: impl Into<String>, component: impl Into<PathBuf>) -> PluginSpec {
        PluginSpec {
            name: name.into(),
            component: component.into(),
            sha256: None,
            config: serde_json::json!({}),
            informers: Vec::new(),
            selection: EventSelection::default(),
            allow_kube: Vec::new(),
            allow_http: Vec::new(),
            limits: Limits::default(),
            resync: None,
            min_interval: None,
            calls_per_second_max: None,
            on_reload: ReplayPolicy::default(),
            on_restart: ReplayPolicy::default(),
            on_failure: OnFailure::default(),
            retry: RetryPolicy::default(),
            paused: false,
            is_dry_run: false,
            required: false,
        }
    }
}

impl EventSelection {
    /// Whether it contains `object`.
    #[must_use]
    pub fn selects(&self, object: &Object) -> bool {
        let has_labels = |selector: &LabelSelector| selector.matches(object);
        self.selects_namespace(object.namespace()) && self.label_selector.as_ref().is_none_or(has_labels)
    }

    /// Whether it contains objects in `namespace`.
    #[must_use]
    pub fn selects_namespace(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|selected| selected == namespace)
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
            kube_calls: KUBE_CALLS,
            writes_in_flight: WRITES_IN_FLIGHT,
            writes_per_second: WRITES_PER_SECOND,
            kv_bytes: KV_BYTES,
            http_in_flight: HTTP_IN_FLIGHT,
            http_per_second: HTTP_PER_SECOND,
            http_time: HTTP_TIME,
            http_request_bytes: HTTP_REQUEST_BYTES,
            http_response_bytes: HTTP_RESPONSE_BYTES,
        }
    }
}
