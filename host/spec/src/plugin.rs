//! [`PluginSpec`]: a section `[plugin.NAME]` as a whole.

use std::time::Duration;

use crate::content::ContentSource;
use crate::digest::Digest;
use crate::http_grant::HttpGrant;
use crate::identity::ServiceAccount;
use crate::kube_grant::{InformerGrant, KubeGrant};
use crate::limits::Limits;
use crate::policy::{OnFailure, ReplayPolicy, Required, RetryPolicy, WaitFor};
use crate::selection::EventSelection;
use crate::timer::Schedule;

/// How long a plugin's first calls wait by default for what it may read: 2 minutes, longer than a first list of many
/// objects takes.
pub const WAIT_FOR_MAX_DEFAULT: Duration = Duration::from_secs(2 * 60);

/// The shortest interval between two calls for one object.
pub const CALL_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// The longest interval between two calls for one object.
pub const CALL_INTERVAL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The line of a section that grants Kubernetes Events.
pub const ALLOW_EVENTS: &str = "allow.events = true";

/// One plugin as configured by the operator.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginSpec {
    /// The plugin's name in config.toml; a label of its metrics and a field of its log lines.
    pub name: String,
    /// Where its content comes from: a component, or a script.
    pub content: ContentSource,
    /// The content's digest, if pinned. Checked at load and at each reload.
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
    /// What it may do with all that an informer watches.
    pub allow_informers: Vec<InformerGrant>,
    /// Where it may send HTTP requests.
    pub allow_http: Vec<HttpGrant>,
    /// Whether it may record Kubernetes Events.
    pub allow_events: bool,
    /// As whom it acts on the cluster; none: as Informant.
    pub identity: Option<ServiceAccount>,
    pub limits: Limits,
    /// The resync period; none: no resync.
    pub resync: Option<Duration>,
    /// The shortest time between the starts of two calls for one object, of a reconciler from the end of one to the
    /// start of the next; none: that of the manifest, or no limit.
    pub min_interval: Option<Duration>,
    /// Schedules of its timers that take the place of those in its manifest, by name.
    pub timers: Vec<(String, Schedule)>,
    /// How many calls of the event handler may start in a second, after a burst of as many; none: no limit.
    pub calls_per_second_max: Option<u32>,
    /// Whether it receives a replay of the cache after a reload.
    pub on_reload: ReplayPolicy,
    /// Whether it receives a replay of the cache after a trap or a timeout cost it its memory.
    pub on_restart: ReplayPolicy,
    /// Whether it receives a replay of durable informers after a restart of Informant.
    pub on_start: ReplayPolicy,
    /// What its first calls about the objects of a cluster wait for.
    pub wait_for: WaitFor,
    /// How long they wait at most.
    pub wait_for_max: Duration,
    /// What happens to an event it fails on.
    pub on_failure: OnFailure,
    /// How events it fails on are retried.
    pub retry: RetryPolicy,
    /// Whether it starts paused. A change pauses or resumes it; otherwise what an operator last asked for holds.
    pub paused: bool,
    /// Whether it is in dry run: what it would change is recorded, and withheld.
    pub is_dry_run: bool,
    /// Whether readiness waits for it.
    pub required: Required,
    /// Whether its objects are divided among the replicas: it is called in each of them, for the objects of that
    /// replica's shards.
    pub is_divided: bool,
}

impl PluginSpec {
    /// Whether something is granted that changes more than the plugin's own keys.
    #[must_use]
    pub fn may_act(&self) -> bool {
        !self.allow_kube.is_empty()
            || !self.allow_informers.is_empty()
            || !self.allow_http.is_empty()
            || self.allow_events
    }

    /// A plugin with defaults for everything else.
    #[must_use]
    pub fn new(name: impl Into<String>, content: impl Into<ContentSource>) -> PluginSpec {
        PluginSpec {
            name: name.into(),
            content: content.into(),
            sha256: None,
            config: serde_json::json!({}),
            informers: Vec::new(),
            selection: EventSelection::default(),
            allow_kube: Vec::new(),
            allow_informers: Vec::new(),
            allow_http: Vec::new(),
            allow_events: false,
            identity: None,
            limits: Limits::default(),
            resync: None,
            min_interval: None,
            timers: Vec::new(),
            calls_per_second_max: None,
            on_reload: ReplayPolicy::default(),
            on_restart: ReplayPolicy::default(),
            on_start: ReplayPolicy::Replay,
            wait_for: WaitFor::default(),
            wait_for_max: WAIT_FOR_MAX_DEFAULT,
            on_failure: OnFailure::default(),
            retry: RetryPolicy::default(),
            paused: false,
            is_dry_run: false,
            required: Required::No,
            is_divided: false,
        }
    }
    /// Whether it may make any call to the cluster.
    #[must_use]
    pub fn may_call_kube(&self) -> bool {
        !self.allow_kube.is_empty() || !self.allow_informers.is_empty()
    }
}
