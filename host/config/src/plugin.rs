//! `[plugin.NAME]`: a component or script, the events it receives and what it may use.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use informant_object::LabelSelector;
use informant_spec::{
    CALL_INTERVAL_MAX, CALL_INTERVAL_MIN, ContentSource, Digest, EventSelection, HttpGrant, INSTANCES_MAX,
    InformerGrant, KubeGrant, Limits, OnFailure, PluginSpec, ReplayPolicy, Required, RetryPolicy, ServiceAccount,
    Suffix, WAIT_FOR_MAX_DEFAULT, WaitFor,
};

use crate::allow::{self, InformerGrantPositions};
use crate::http;
use crate::informer::{LABEL_SELECTOR_HELP, RESYNC_MAX, RESYNC_MIN, read_namespaces, read_parsed, read_required};
use crate::name;
use crate::script_runners::ScriptRunnersSection;
use crate::source::{FilePosition, Located};
use crate::state::StateStore;
use crate::table::{Planned, Table};
use crate::timers;

const PLANNED: &Planned = &[("cache-beyond-identity", "remove it")];

/// Shortest wait before a retry.
const RETRY_WAIT_MIN: Duration = Duration::from_millis(10);
/// Longest wait before a retry.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Shortest limit on the wait before the first calls.
const WAIT_FOR_MAX_MIN: Duration = Duration::from_secs(1);
/// Longest limit on the wait before the first calls.
const WAIT_FOR_MAX_MAX: Duration = Duration::from_secs(60 * 60);
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

const WAIT_FOR: [(&str, WaitFor); 2] = [("all", WaitFor::All), ("own", WaitFor::Own)];

const CONTINUATION: [(&str, ReplayPolicy); 2] =
    [("replay", ReplayPolicy::Replay), ("continue", ReplayPolicy::Continue)];

/// A plugin: what its section means, and where the file has it.
#[derive(Debug, Clone)]
pub struct PluginSection {
    /// What it means.
    pub spec: PluginSpec,
    /// Why one replica has to run it for all objects, if its own section shows that.
    pub(crate) runs_once: Option<&'static str>,
    /// Where that is written.
    pub positions: PluginPositions,
}

/// The positions of a plugin's section, and of values that are checked against other things than the file.
#[derive(Debug, Clone)]
pub struct PluginPositions {
    pub section: FilePosition,
    pub component: FilePosition,
    /// `config`, or the section.
    pub config: FilePosition,
    /// The first of the keys that select objects, or the section.
    pub selection: FilePosition,
    pub informers: Vec<FilePosition>,
    /// The entries of `allow.kube` with `resource`, in the order of the spec.
    pub allow_kube: Vec<FilePosition>,
    /// Those with `informer`, in the order of the spec.
    pub allow_informers: Vec<InformerGrantPositions>,
    /// The entries of `allow.http`, in the order of the spec.
    pub allow_http: Vec<FilePosition>,
}

impl PluginSection {
    pub fn informers(&self) -> impl Iterator<Item = (&str, FilePosition)> {
        let names = self.spec.informers.iter().map(|(_, name)| name.as_str());
        names.zip(self.positions.informers.iter().copied())
    }

    pub fn allow_kube(&self) -> impl Iterator<Item = (&KubeGrant, FilePosition)> {
        self.spec
            .allow_kube
            .iter()
            .zip(self.positions.allow_kube.iter().copied())
    }

    pub fn allow_informers(&self) -> impl Iterator<Item = (&InformerGrant, &InformerGrantPositions)> {
        self.spec.allow_informers.iter().zip(&self.positions.allow_informers)
    }

    pub fn allow_http(&self) -> impl Iterator<Item = (&HttpGrant, FilePosition)> {
        self.spec
            .allow_http
            .iter()
            .zip(self.positions.allow_http.iter().copied())
    }
}

pub(crate) fn read(
    name: &str,
    table: &Table<'_>,
    runners: &ScriptRunnersSection,
    store: StateStore,
) -> Option<PluginSection> {
    let section = read_keys(name, table, runners, store);
    table.finish(PLANNED);
    section
}

fn read_keys(
    name: &str,
    table: &Table<'_>,
    runners: &ScriptRunnersSection,
    store: StateStore,
) -> Option<PluginSection> {
    let component = read_content(table, runners);
    let informers = read_informers(table);
    let selection = read_selection(table);
    let config = read_config(table);
    let allow = allow::read(table);
    let run_once = table.boolean("run-once").unwrap_or(false);
    let spec = PluginSpec {
        name: name.to_owned(),
        sha256: read_sha256(table),
        informers: informers
            .iter()
            .map(|(alias, name)| (alias.clone(), name.value.clone()))
            .collect(),
        selection: selection.value,
        config: config.value,
        limits: read_limits(table, store),
        resync: table.duration("resync", RESYNC_MIN..=RESYNC_MAX),
        min_interval: table.duration("min-interval", CALL_INTERVAL_MIN..=CALL_INTERVAL_MAX),
        timers: timers::read(table),
        calls_per_second_max: table.rate("max-rate", 1..=CALLS_PER_SECOND_MAX),
        wait_for: table.choice("wait-for", &WAIT_FOR).unwrap_or_default(),
        wait_for_max: table
            .duration("wait-for-max", WAIT_FOR_MAX_MIN..=WAIT_FOR_MAX_MAX)
            .unwrap_or(WAIT_FOR_MAX_DEFAULT),
        on_failure: table.choice("on-failure", &ON_FAILURE).unwrap_or_default(),
        retry: read_retry(table),
        paused: table.boolean("paused").unwrap_or(false),
        is_dry_run: table.boolean("dry-run").unwrap_or(false),
        // A saved file changes the code, not the past: no replay unless requested.
        on_reload: table
            .choice("on-reload", &CONTINUATION)
            .unwrap_or(ReplayPolicy::Continue),
        on_restart: table
            .choice("on-restart", &CONTINUATION)
            .unwrap_or(ReplayPolicy::Continue),
        on_start: table.choice("on-start", &CONTINUATION).unwrap_or(ReplayPolicy::Replay),
        required: read_required(table, Required::No),
        allow_kube: allow.kube.iter().map(|grant| grant.value.clone()).collect(),
        allow_informers: allow.informers.iter().map(|written| written.grant.clone()).collect(),
        allow_http: allow.http.iter().map(|grant| grant.value.clone()).collect(),
        allow_events: allow.events,
        identity: read_identity(table),
        content: component.as_ref()?.value.clone(),
        // Known when the whole file has been read.
        is_divided: false,
    };
    let runs_once = why_once(table, &spec, run_once);
    let positions = PluginPositions {
        section: table.position(),
        component: component?.position,
        config: config.position,
        selection: selection.position,
        informers: informers.iter().map(|(_, name)| name.position).collect(),
        allow_kube: allow.kube.iter().map(|grant| grant.position).collect(),
        allow_informers: allow.informers.into_iter().map(|written| written.positions).collect(),
        allow_http: allow.http.iter().map(|grant| grant.position).collect(),
    };
    Some(PluginSection {
        spec,
        runs_once,
        positions,
    })
}

/// Why one replica has to run it. Its timers, and what it remembers, exist once. The manifest may have more of them.
fn why_once(table: &Table<'_>, spec: &PluginSpec, run_once: bool) -> Option<&'static str> {
    let limits = table.is_table("limits").then(|| table.table("limits")).flatten();
    let has_kv = limits.is_some_and(|limits| limits.has("kv"));
    let reasons = [
        (run_once, "`run-once` is set"),
        (!spec.timers.is_empty(), "it has timers"),
        (has_kv, "it has `limits.kv`"),
        (spec.informers.is_empty(), "it has no informers"),
    ];
    reasons.iter().find_map(|(holds, why)| holds.then_some(*why))
}

/// `component = "NAME.wasm"` or `script = "NAME.js"`.
fn read_content(table: &Table<'_>, runners: &ScriptRunnersSection) -> Option<Located<ContentSource>> {
    match (table.has("component"), table.has("script")) {
        (true, true) => {
            let message = format!("{} has both `component` and `script`", table.title());
            let help = "keep one of them: a plugin is one file";
            table.refuse(table.value_position("script"), message, help);
            None
        }
        (false, true) => read_script(table, runners),
        _ => read_component(table, runners),
    }
}

fn read_script(table: &Table<'_>, runners: &ScriptRunnersSection) -> Option<Located<ContentSource>> {
    let text = table.string("script")?;
    if let Some(suffix) = script_suffix(&text.value, runners).filter(|_| !text.value.contains("://")) {
        return Some(Located {
            value: ContentSource::script(table.file(&text.value), suffix),
            position: text.position,
        });
    }
    let known: Vec<String> = runners.suffixes().map(|suffix| format!(".{suffix}")).collect();
    let (last, others) = known.split_last()?;
    let message = format!("`script` must name a file that ends in {} or {last}", others.join(", "));
    let suffix = Path::new(&text.value).extension().and_then(OsStr::to_str);
    let help = match suffix {
        _ if text.value.contains("://") => "download the script first, and set its file".to_owned(),
        Some(suffix @ ("cts" | "tsx" | "jsx")) => {
            format!("build it, and name the result: informant plugin build NAME.{suffix}")
        }
        Some("wasm") => "for a component use component = \"NAME.wasm\"".to_owned(),
        Some(suffix) if Suffix::new(suffix).is_some() => {
            format!("for another language, name its runner: [script-runners] {suffix} = \"FILE\"")
        }
        _ => "write the name of a script: script = \"NAME.js\"".to_owned(),
    };
    table.refuse(text.position, message, help);
    None
}

/// The suffix of a file that a runner can run.
fn script_suffix(file: &str, runners: &ScriptRunnersSection) -> Option<Suffix> {
    let suffix = Suffix::of(Path::new(file))?;
    runners.suffixes().any(|known| known == suffix).then_some(suffix)
}

fn read_component(table: &Table<'_>, runners: &ScriptRunnersSection) -> Option<Located<ContentSource>> {
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
        table.report(text.position, "`component` is empty");
        return None;
    }
    if script_suffix(&text.value, runners).is_some() {
        let help = format!("write script = \"{}\"", text.value);
        table.refuse(text.position, "`component` names a script", help);
        return None;
    }
    Some(Located {
        value: table.file(&text.value).into(),
        position: text.position,
    })
}

/// `as = "system:serviceaccount:NAMESPACE:NAME"`.
fn read_identity(table: &Table<'_>) -> Option<ServiceAccount> {
    let text = table.string("as")?;
    let refuse = |problem| table.report(text.position, format!("`as` {problem}"));
    text.value.parse().map_err(refuse).ok()
}

fn read_sha256(table: &Table<'_>) -> Option<Digest> {
    let text = table.string("sha256")?;
    if let Ok(digest) = text.value.parse() {
        return Some(digest);
    }
    let message = "`sha256` must be 64 hexadecimal digits";
    let help = "`informant plugin inspect FILE` prints it";
    table.refuse(text.position, message, help);
    None
}

/// `informers = ["pods"]`, or `informers = { main = "pods" }`.
fn read_informers(table: &Table<'_>) -> Vec<(String, Located<String>)> {
    if !table.has("informers") {
        let message = format!("{} lacks `informers`", table.title());
        let help = "list the informers whose events it receives: informers = [\"pods\"]; or none, for a plugin that only \
                    has timers: informers = []";
        table.refuse(table.position(), message, help);
        return Vec::new();
    }
    if !table.is_table("informers") {
        let Some(names) = table.strings("informers") else {
            return Vec::new();
        };
        return names.into_iter().map(|name| (name.value.clone(), name)).collect();
    }
    let Some(aliases) = table.table("informers") else {
        return Vec::new();
    };
    let mut informers = Vec::new();
    for alias in aliases.keys() {
        if let Err(rule) = name::validate_alias(alias.value) {
            let message = format!("\"{}\" is not a valid alias for an informer", alias.value);
            aliases.refuse(alias.position, message, rule);
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
            label_selector: read_parsed(table, "label-selector", LabelSelector::parse, LABEL_SELECTOR_HELP),
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
    let Some(retry) = table.table("retry") else {
        return default;
    };
    let wait = |key| retry.duration(key, RETRY_WAIT_MIN..=RETRY_WAIT_MAX);
    let (initial, max) = (wait("initial"), wait("max"));
    let attempts = retry.integer("attempts", 0..=RETRY_ATTEMPTS_MAX);
    retry.finish(&[]);
    let policy = RetryPolicy {
        initial: initial.unwrap_or(default.initial),
        max: max.unwrap_or(default.max),
        attempts: attempts.unwrap_or(default.attempts),
    };
    if policy.max < policy.initial {
        let key = if max.is_some() { "max" } else { "initial" };
        let message = format!("{}: `initial` is longer than `max`", retry.title());
        let help = "`initial` is the first wait before a retry, 1s by default; it doubles up to `max`, 5m by default";
        retry.refuse(retry.value_position(key), message, help);
    }
    policy
}

fn read_limits(table: &Table<'_>, store: StateStore) -> Limits {
    let default = Limits::default();
    let default = Limits {
        kv_bytes: store.kv_bytes_default(default.kv_bytes),
        ..default
    };
    let Some(limits) = table.table("limits") else {
        return default;
    };
    let read = Limits {
        memory_bytes: limits
            .size_bytes("memory", MEMORY_BYTES_MIN..=MEMORY_BYTES_MAX)
            .unwrap_or(default.memory_bytes),
        instances: limits
            .integer("instances", 1..=INSTANCES_MAX.into())
            .unwrap_or(default.instances),
        kube_calls: limits
            .integer("kube-calls", 1..=KUBE_CALLS_MAX)
            .unwrap_or(default.kube_calls),
        cpu: limits.duration("cpu", TIME_MIN..=CPU_MAX).unwrap_or(default.cpu),
        call: limits.duration("call", TIME_MIN..=CALL_MAX).unwrap_or(default.call),
        pending: limits
            .integer("pending", 1..=PENDING_EVENTS_MAX)
            .unwrap_or(default.pending),
        writes_in_flight: limits
            .integer("writes-in-flight", 1..=WRITES_IN_FLIGHT_MAX)
            .unwrap_or(default.writes_in_flight),
        writes_per_second: limits
            .rate("writes", 1..=WRITES_PER_SECOND_MAX)
            .unwrap_or(default.writes_per_second),
        kv_bytes: limits.size_bytes("kv", store.kv_bytes()).unwrap_or(default.kv_bytes),
        ..http::read_limits(&limits, default)
    };
    limits.finish(&[]);
    read
}
