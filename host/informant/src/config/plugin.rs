//! `[plugin.NAME]`: a component or script, the events it receives and what it may use.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use informant_cache::listener::RetryPolicy;
use informant_object::LabelSelector;
use informant_plugin_host::limits::INSTANCES_MAX;
use informant_plugin_host::{Digest, EventSelection, HttpGrant, KubeGrant, Limits, OnFailure, ReplayPolicy, is_script};

use super::allow;
use super::folder_of;
use super::http;
use super::informer::{Required, read_namespaces, read_parsed, read_required};
use super::name;
use super::source::{FilePosition, Located};
use super::table::{Keys, Table};

const KEYS: Keys = Keys {
    known: &[
        "allow",
        "component",
        "config",
        "dry-run",
        "informers",
        "label-selector",
        "limits",
        "max-rate",
        "min-interval",
        "namespaces",
        "on-failure",
        "on-reload",
        "on-restart",
        "on-start",
        "paused",
        "required",
        "resync",
        "retry",
        "script",
        "sha256",
    ],
    planned: &[
        (
            "as",
            "plugins act with Informant's own identity, within `allow`: remove it",
        ),
        ("cache-beyond-identity", "remove it"),
    ],
};

const LIMIT_KEYS: Keys = Keys {
    known: &[
        "call",
        "cpu",
        "http",
        "http-in-flight",
        "http-request",
        "http-response",
        "http-time",
        "instances",
        "kube-calls",
        "kv",
        "memory",
        "pending",
        "writes",
        "writes-in-flight",
    ],
    planned: &[],
};

const RETRY_KEYS: Keys = Keys {
    known: &["attempts", "initial", "max"],
    planned: &[],
};

/// Shortest wait before a retry.
const RETRY_WAIT_MIN: Duration = Duration::from_millis(10);
/// Longest wait before a retry.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Shortest interval between two calls for one object.
const INTERVAL_MIN: Duration = Duration::from_millis(10);
/// Longest interval between two calls for one object.
const INTERVAL_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Most calls in a second.
const CALLS_PER_SECOND_MAX: u64 = 100_000;
/// Most attempts; more are no different from unlimited ones.
const RETRY_ATTEMPTS_MAX: u64 = 1_000_000;
/// Least memory: a language runtime needs more than this to start.
const MEMORY_BYTES_MIN: usize = 1 << 20;
/// Most memory: all that 32-bit WebAssembly can address.
const MEMORY_BYTES_MAX: usize = 4 << 30;
/// Least time: a few ticks of the epoch clock that interrupts guests.
const TIME_MIN: Duration = Duration::from_millis(10);
/// Most CPU in one call.
const CPU_MAX: Duration = Duration::from_secs(60);
/// Most wall time in one call.
const CALL_MAX: Duration = Duration::from_secs(600);
/// Most pending events that are kept in full.
const PENDING_EVENTS_MAX: u64 = 1_000_000;

/// Least bytes in `kv`: a few small keys.
const KV_BYTES_MIN: usize = 1 << 10;
/// Most bytes in `kv`: they are in memory.
const KV_BYTES_MAX: usize = 64 << 20;
/// Most direct calls to clusters at once.
const KUBE_CALLS_MAX: u64 = 1_000;
/// Most deferred writes in flight.
const WRITES_IN_FLIGHT_MAX: u64 = 1_000;
/// Most deferred writes in a second.
const WRITES_PER_SECOND_MAX: u64 = 100_000;

const ON_FAILURE: [(&str, OnFailure); 3] = [
    ("retry", OnFailure::Retry),
    ("skip", OnFailure::Skip),
    ("quarantine", OnFailure::Quarantine),
];

const CONTINUATION: [(&str, ReplayPolicy); 2] =
    [("replay", ReplayPolicy::Replay), ("continue", ReplayPolicy::Continue)];

/// A plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginSection {
    /// The position of the section.
    pub position: FilePosition,
    /// The file of the component or script, resolved relative to the current folder.
    pub component: Located<PathBuf>,
    /// The required SHA-256 of the file.
    pub sha256: Option<Digest>,
    /// Pairs of the plugin's alias for an informer and the informer's name.
    pub informers: Vec<(String, Located<String>)>,
    /// The objects whose events it receives, of those that its manifest selects.
    pub selection: Located<EventSelection>,
    /// The JSON object that init receives.
    pub config: Located<serde_json::Value>,
    /// Its permissions on the cluster.
    pub allow_kube: Vec<Located<KubeGrant>>,
    /// Where it may send HTTP requests.
    pub allow_http: Vec<Located<HttpGrant>>,
    /// Its limits.
    pub limits: Limits,
    /// Overrides the informers' resync.
    pub resync: Option<Duration>,
    /// The shortest time between two calls for one object.
    pub min_interval: Option<Duration>,
    /// Most calls that start in a second.
    pub max_rate: Option<u32>,
    /// What happens to an event whose handler failed.
    pub on_failure: OnFailure,
    /// How such an event is retried.
    pub retry: RetryPolicy,
    /// Whether it starts paused.
    pub paused: bool,
    /// Whether it is in dry run.
    pub dry_run: bool,
    /// Whether a new version receives a replay of the cache.
    pub on_reload: ReplayPolicy,
    /// Whether it receives a replay after a trap or timeout, which loses its memory.
    pub on_restart: ReplayPolicy,
    /// Whether it receives a replay of durable informers after a restart of Informant.
    pub on_start: ReplayPolicy,
    /// Whether readiness depends on its loading.
    pub required: Required,
}

impl PluginSection {
    /// Whether both have the same settings, wherever in the file they are.
    #[must_use]
    pub fn has_same_settings(&self, other: &Self) -> bool {
        let position = other.position;
        Self {
            position,
            ..self.clone()
        } == *other
    }
}

pub(super) fn read(table: &Table<'_>) -> Option<PluginSection> {
    table.only(&KEYS);
    let component = read_file(table);
    let allow = allow::read(table);
    let section = PluginSection {
        position: table.position(),
        sha256: read_sha256(table),
        informers: read_informers(table),
        selection: read_selection(table),
        config: read_config(table),
        allow_kube: allow.kube,
        allow_http: allow.http,
        limits: read_limits(table),
        resync: table.duration("resync", super::informer::RESYNC_MIN..=super::informer::RESYNC_MAX),
        min_interval: table.duration("min-interval", INTERVAL_MIN..=INTERVAL_MAX),
        max_rate: table
            .rate("max-rate", 1..=CALLS_PER_SECOND_MAX)
            .and_then(|rate| u32::try_from(rate).ok()),
        on_failure: table.choice("on-failure", &ON_FAILURE).unwrap_or_default(),
        retry: read_retry(table),
        paused: table.boolean("paused").unwrap_or(false),
        dry_run: table.boolean("dry-run").unwrap_or(false),
        // A saved file changes the code, not the past: no replay unless requested.
        on_reload: table
            .choice("on-reload", &CONTINUATION)
            .unwrap_or(ReplayPolicy::Continue),
        on_restart: table
            .choice("on-restart", &CONTINUATION)
            .unwrap_or(ReplayPolicy::Continue),
        on_start: table.choice("on-start", &CONTINUATION).unwrap_or(ReplayPolicy::Replay),
        required: read_required(table, Required::No),
        component: component?,
    };
    Some(section)
}

/// `component = "NAME.wasm"` or `script = "NAME.js"`.
fn read_file(table: &Table<'_>) -> Option<Located<PathBuf>> {
    match (table.has("component"), table.has("script")) {
        (true, true) => {
            let problem = table.error(
                table.value_position("script"),
                format!("{} has both `component` and `script`", table.title()),
            );
            table
                .reporter()
                .report(problem.help("keep one of them: a plugin is one file"));
            None
        }
        (false, true) => read_script(table),
        _ => read_component(table),
    }
}

fn read_script(table: &Table<'_>) -> Option<Located<PathBuf>> {
    let text = table.string("script")?;
    if is_script(Path::new(&text.value)) && !text.value.contains("://") {
        return Some(located(table, &text));
    }
    let problem = table.error(text.position, "`script` must name a file that ends in .js or .mjs");
    let help = match Path::new(&text.value).extension().and_then(OsStr::to_str) {
        Some("ts" | "mts") => "build it, and name the result: informant plugin build NAME.ts",
        Some("wasm") => "for a component use component = \"NAME.wasm\"",
        _ => "scripts are JavaScript modules: script = \"NAME.js\"",
    };
    table.reporter().report(problem.help(help));
    None
}

fn located(table: &Table<'_>, text: &Located<String>) -> Located<PathBuf> {
    Located {
        value: folder_of(table.reporter().file().path()).join(&text.value),
        position: text.position,
    }
}

fn read_component(table: &Table<'_>) -> Option<Located<PathBuf>> {
    let text = table.required_string(
        "component",
        "set its file: component = \"plugins/NAME.wasm\", or script = \"NAME.js\"",
    )?;
    if let Some((scheme, _)) = text.value.split_once("://") {
        let what = format!("`component` from {scheme}://");
        table.report_planned(text.position, &what, "download the component first, and set its file");
        return None;
    }
    if text.value.is_empty() {
        table
            .reporter()
            .report(table.error(text.position, "`component` is empty"));
        return None;
    }
    if is_script(Path::new(&text.value)) {
        let problem = table.error(text.position, "`component` names a script");
        let help = format!("write script = \"{}\"", text.value);
        table.reporter().report(problem.help(help));
        return None;
    }
    Some(located(table, &text))
}

fn read_sha256(table: &Table<'_>) -> Option<Digest> {
    let text = table.string("sha256")?;
    if let Ok(digest) = text.value.parse() {
        return Some(digest);
    }
    let problem = table.error(text.position, "`sha256` must be 64 hexadecimal digits");
    table
        .reporter()
        .report(problem.help("`informant plugin inspect FILE` prints it"));
    None
}

/// `informers = ["pods"]`, or `informers = { main = "pods" }`.
fn read_informers(table: &Table<'_>) -> Vec<(String, Located<String>)> {
    if !table.has("informers") {
        let problem = table.error(table.position(), format!("{} lacks `informers`", table.title()));
        table
            .reporter()
            .report(problem.help("list the informers whose events it receives: informers = [\"pods\"]"));
        return Vec::new();
    }
    if !table.is_table("informers") {
        let Some(names) = table.strings("informers") else {
            return Vec::new();
        };
        if names.is_empty() {
            let problem = table.error(table.value_position("informers"), "`informers` is empty");
            table
                .reporter()
                .report(problem.help("list the informers whose events it receives: informers = [\"pods\"]"));
        }
        return names.into_iter().map(|name| (name.value.clone(), name)).collect();
    }
    let Some(aliases) = table.table("informers") else {
        return Vec::new();
    };
    let mut informers = Vec::new();
    for alias in aliases.keys() {
        if let Err(rule) = name::validate_alias(alias.value) {
            let problem = aliases.error(
                alias.position,
                format!("\"{}\" is not a valid alias for an informer", alias.value),
            );
            aliases.reporter().report(problem.help(rule));
        }
        informers.extend(aliases.string(alias.value).map(|name| (alias.value.to_owned(), name)));
    }
    informers
}

/// `namespaces` and `label-selector`; the position is that of the first of them.
fn read_selection(table: &Table<'_>) -> Located<EventSelection> {
    let given = ["namespaces", "label-selector"].into_iter().find(|key| table.has(key));
    Located {
        value: EventSelection {
            // Objects without a namespace are in the namespace "", as in manifests.
            namespaces: read_namespaces(table, |namespace| match namespace {
                "" => Ok(()),
                _ => name::validate_name(namespace),
            }),
            label_selector: read_parsed(table, "label-selector", LabelSelector::parse),
        },
        position: given.map_or_else(|| table.position(), |key| table.value_position(key)),
    }
}

/// `config`; if it is absent, its position is the section's.
fn read_config(table: &Table<'_>) -> Located<serde_json::Value> {
    let is_table = table.has("config") && table.table("config").is_some();
    let config = is_table.then(|| table.json("config")).flatten();
    let empty = || serde_json::Value::Object(serde_json::Map::new());
    Located {
        value: config.unwrap_or_else(empty),
        position: if is_table {
            table.value_position("config")
        } else {
            table.position()
        },
    }
}

/// `retry = { initial = "1s", max = "5m", attempts = 0 }`.
fn read_retry(table: &Table<'_>) -> RetryPolicy {
    let default = RetryPolicy::default();
    let Some(retry) = table.has("retry").then(|| table.table("retry")).flatten() else {
        return default;
    };
    retry.only(&RETRY_KEYS);
    let wait = |key| retry.duration(key, RETRY_WAIT_MIN..=RETRY_WAIT_MAX);
    let (initial, max) = (wait("initial"), wait("max"));
    let attempts = retry
        .integer("attempts", 0..=RETRY_ATTEMPTS_MAX)
        .and_then(|n| u32::try_from(n.value).ok());
    let policy = RetryPolicy {
        initial: initial.unwrap_or(default.initial),
        max: max.unwrap_or(default.max),
        attempts: attempts.unwrap_or(default.attempts),
    };
    if policy.max < policy.initial {
        let key = if max.is_some() { "max" } else { "initial" };
        let problem = retry.error(
            retry.value_position(key),
            format!("{}: `initial` is longer than `max`", retry.title()),
        );
        let help = "`initial` is the first wait before a retry, 1s by default; it doubles up to `max`, 5m by default";
        retry.reporter().report(problem.help(help));
    }
    policy
}

fn read_limits(table: &Table<'_>) -> Limits {
    let default = Limits::default();
    let Some(limits) = table.has("limits").then(|| table.table("limits")).flatten() else {
        return default;
    };
    limits.only(&LIMIT_KEYS);
    let instances = limits.integer("instances", 1..=INSTANCES_MAX.into());
    let instances = instances.and_then(|n| u32::try_from(n.value).ok());
    let kube_calls = limits.integer("kube-calls", 1..=KUBE_CALLS_MAX);
    let kube_calls = kube_calls.and_then(|n| usize::try_from(n.value).ok());
    let pending = limits
        .integer("pending", 1..=PENDING_EVENTS_MAX)
        .and_then(|n| usize::try_from(n.value).ok());
    let in_flight = limits.integer("writes-in-flight", 1..=WRITES_IN_FLIGHT_MAX);
    let in_flight = in_flight.and_then(|n| usize::try_from(n.value).ok());
    let per_second = limits.rate("writes", 1..=WRITES_PER_SECOND_MAX);
    Limits {
        memory_bytes: limits
            .size_bytes("memory", MEMORY_BYTES_MIN..=MEMORY_BYTES_MAX)
            .unwrap_or(default.memory_bytes),
        instances: instances.unwrap_or(default.instances),
        kube_calls: kube_calls.unwrap_or(default.kube_calls),
        cpu: limits.duration("cpu", TIME_MIN..=CPU_MAX).unwrap_or(default.cpu),
        call: limits.duration("call", TIME_MIN..=CALL_MAX).unwrap_or(default.call),
        pending: pending.unwrap_or(default.pending),
        writes_in_flight: in_flight.unwrap_or(default.writes_in_flight),
        writes_per_second: per_second
            .and_then(|rate| u32::try_from(rate).ok())
            .unwrap_or(default.writes_per_second),
        kv_bytes: limits
            .size_bytes("kv", KV_BYTES_MIN..=KV_BYTES_MAX)
            .unwrap_or(default.kv_bytes),
        ..http::read_limits(&limits, default)
    }
}
