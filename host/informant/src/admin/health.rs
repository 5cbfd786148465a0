//! `/livez` and `/readyz`.
//!
//! A process that responds is alive. It is ready if everything that the configuration requires is ready. A source
//! counts until its first sync, unless `required` says otherwise; one that appeared later, and a kind of a pattern that
//! cannot be read, never count. One of several replicas also waits until its plugins are compiled. With `?verbose` each
//! check has a line, as in kube-apiserver.
//!
//! Everybody who reaches the port may read this, so it shows states, counts and our own words and codes. Errors are
//! withheld, as kube-apiserver does: they may quote a plugin, a script, an object, or what an API server said.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use http::StatusCode;
use informant_cache::{Source, SourceState};
use informant_config::Resources;
use informant_informer::ReflectorStatus;
use informant_plugin_host::{Compiling, PluginHost, PluginState, PluginStatus};
use informant_spec::Required;

use super::{AdminState, sources};
use crate::age::human;
use crate::daemon::{CertificateStatus, InformerPhase, InformerStatus, PluginEntry, PluginPhase, StatusRegistry};
use crate::escape;
use crate::runbooks::{self, Runbook};

/// After the state of what failed: where its error is shown.
const ERROR_WITHHELD: &str = "; `informant status` and the log show why";

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReadinessCheck {
    name: String,
    passed: bool,
    gating: Gating,
    text: String,
    /// The runbook for a check that did not pass.
    runbook: Option<Runbook>,
}

/// Whether readiness depends on a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gating {
    Yes,
    /// Nothing of what failed counts: it was ready before, appeared later, or is one kind of a pattern.
    Degraded,
    No,
}

impl Gating {
    /// From the configured requirement and whether what failed counts.
    fn of(required: Required, counts: bool) -> Self {
        match required {
            Required::No => Self::No,
            Required::Once | Required::Always if counts => Self::Yes,
            Required::Once | Required::Always => Self::Degraded,
        }
    }
}

pub(super) async fn livez(RawQuery(query): RawQuery) -> String {
    if is_verbose(query.as_deref()) {
        "[+]ping ok\nlivez check passed\n".to_owned()
    } else {
        "ok".to_owned()
    }
}

pub(super) async fn readyz(State(state): State<AdminState>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    let checks = checks(&state.registry);
    let ready = passes(&checks);
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let text = if ready && !is_verbose(query.as_deref()) {
        "ok".to_owned()
    } else {
        show(&checks, ready)
    };
    (status, text)
}

/// Whether everything that the configuration requires is ready.
pub fn is_ready(registry: &StatusRegistry) -> bool {
    passes(&checks(registry))
}

/// What readiness waits for: `plugin/greeter: loading`.
pub(super) fn not_ready(registry: &StatusRegistry) -> Vec<String> {
    let failed = checks(registry)
        .into_iter()
        .filter(|check| !check.passed && check.gating == Gating::Yes);
    failed.map(|check| format!("{}: {}", check.name, check.text)).collect()
}

fn passes(checks: &[ReadinessCheck]) -> bool {
    checks.iter().all(|check| check.passed || check.gating != Gating::Yes)
}

fn is_verbose(query: Option<&str>) -> bool {
    query.is_some_and(|query| {
        query
            .split('&')
            .any(|part| part == "verbose" || part.starts_with("verbose="))
    })
}

fn show(checks: &[ReadinessCheck], ready: bool) -> String {
    let mut text = String::new();
    for ReadinessCheck {
        name,
        passed,
        gating,
        text: what,
        runbook,
    } in checks
    {
        let (name, what) = (escape::line(name), escape::line(what));
        let hint = runbooks::hint(runbook.map(|runbook| runbook.code));
        let _ = match (passed, gating) {
            (true, _) => writeln!(text, "[+]{name} ok: {what}"),
            (false, Gating::Yes) => writeln!(text, "[-]{name} failed: {what}{hint}"),
            (false, Gating::Degraded) => writeln!(text, "[ ]{name} degraded: {what}{hint}"),
            (false, Gating::No) => writeln!(text, "[ ]{name} failing, not required: {what}{hint}"),
        };
    }
    let _ = writeln!(text, "readyz check {}", if ready { "passed" } else { "failed" });
    text
}

fn checks(registry: &StatusRegistry) -> Vec<ReadinessCheck> {
    let stopping = registry.is_stopping();
    let text = match (stopping, registry.acts_elsewhere()) {
        (true, _) => "stopping: delivering accepted events".to_owned(),
        (false, None) => "running".to_owned(),
        (false, Some(Some(holder))) => format!("running, standby: {holder} acts"),
        (false, Some(None)) => "running, standby: no replica acts; `informant replicas` shows why".to_owned(),
    };
    let mut checks = vec![ReadinessCheck {
        name: "process".into(),
        passed: !stopping,
        gating: Gating::Yes,
        text,
        runbook: None,
    }];
    for entry in registry.informers() {
        let statuses = entry.by_cluster();
        checks.extend(
            statuses
                .iter()
                .map(|(cluster, status)| informer(registry, &entry.name, cluster, status)),
        );
    }
    let is_first_load = registry.loads_for_the_first_time();
    checks.extend(registry.plugins().iter().map(|entry| plugin(entry, is_first_load)));
    let certificate = registry.configuration().certificate.clone();
    checks.extend(certificate.map(|status| certificate_check(&status)));
    checks
}

/// Only the admin port depends on it.
fn certificate_check(status: &CertificateStatus) -> ReadinessCheck {
    let expires = status
        .expires
        .map_or("no certificate".to_owned(), |at| format!("expires {at}"));
    ReadinessCheck {
        name: "admin/certificate".to_owned(),
        passed: status.problem.is_none(),
        gating: Gating::Degraded,
        text: match &status.problem {
            None => expires,
            Some(problem) => format!("{problem}; in use: {expires}"),
        },
        runbook: Some(runbooks::ADMIN_CERTIFICATE),
    }
}

fn informer(registry: &StatusRegistry, name: &str, cluster: &str, status: &InformerStatus) -> ReadinessCheck {
    let required = status.section.required;
    let mut runbook = Some(runbooks::WATCH_NOT_LIVE);
    let (passed, gating, text) = match &status.phase {
        InformerPhase::Discovering { last_error } => {
            let text = "discovering the resource".to_owned();
            let text = text + last_error.as_ref().map_or("", |_| ERROR_WITHHELD);
            (false, Gating::of(required, true), text)
        }
        InformerPhase::Refused { .. } => (false, Gating::of(required, true), format!("refused{ERROR_WITHHELD}")),
        InformerPhase::Stopped => (false, Gating::of(required, true), "stopped".to_owned()),
        InformerPhase::Running(_) => {
            runbook = runbook_of_sources(registry, name, cluster);
            running(registry, name, cluster, status)
        }
    };
    ReadinessCheck {
        name: match cluster {
            "" => format!("informer/{name}"),
            cluster => format!("informer/{name}/{cluster}"),
        },
        passed,
        gating,
        text,
        runbook,
    }
}

/// The runbook for an informer with sources that are not live: a first list in progress matters least.
fn runbook_of_sources(registry: &StatusRegistry, name: &str, cluster: &str) -> Option<Runbook> {
    let sources = registry.sources(name);
    let mut runbooks = sources
        .iter()
        .filter(|source| source.info().cluster == cluster)
        .filter_map(|source| runbooks::of_source(source.state()));
    let first = runbooks.next()?;
    runbooks.find(|other| *other != runbooks::NOT_SYNCED).or(Some(first))
}

fn running(registry: &StatusRegistry, name: &str, cluster: &str, informer: &InformerStatus) -> (bool, Gating, String) {
    let mut sources = registry.sources(name);
    sources.retain(|source| source.info().cluster == cluster);
    let required = informer.section.required;
    if sources.is_empty() {
        return match informer.section.resource.value {
            // Its source is being replaced.
            Resources::One(_) => (false, Gating::of(required, true), "no source yet".to_owned()),
            Resources::Several(_) => (true, Gating::of(required, false), "no resource matches".to_owned()),
        };
    }
    let describe = |source: &Arc<Source>| match sources.len() {
        1 => line(informer, source),
        _ => name_in(informer, source) + &line(informer, source),
    };
    let (well, degraded): (Vec<_>, Vec<_>) = sources.iter().partition(|source| source.state() == SourceState::Live);
    if degraded.is_empty() {
        let text: Vec<_> = well.into_iter().map(describe).collect();
        return (true, Gating::of(required, false), text.join("; "));
    }
    let counts = degraded.iter().any(|source| counts(informer, source));
    let mut text: Vec<_> = degraded.into_iter().map(describe).collect();
    match well.len() {
        0 => {}
        1 => text.push("1 other source is Live".to_owned()),
        others => text.push(format!("{others} other sources are Live")),
    }
    (false, Gating::of(required, counts), text.join("; ") + ERROR_WITHHELD)
}

/// Whether readiness depends on a source that is not live: it was there at the start or at the last change of its
/// section, it is no unreadable kind of a pattern, and it has not synced yet or is required always.
fn counts(informer: &InformerStatus, source: &Source) -> bool {
    let is_unreadable = matches!(source.state(), SourceState::Forbidden | SourceState::WaitingForResource);
    let is_kind_of_pattern = matches!(informer.section.resource.value, Resources::Several(_));
    let awaited = source.id() <= informer.required_up_to && !(is_kind_of_pattern && is_unreadable);
    awaited && (!source.is_synced() || informer.section.required == Required::Always)
}

/// Distinguishes the sources of an informer: `v1/pods in default: `.
fn name_in(informer: &InformerStatus, source: &Source) -> String {
    let resource = sources::resource_of(informer, source);
    let names = [resource.as_deref(), source.info().namespace.as_deref()];
    let names: Vec<_> = names.into_iter().flatten().collect();
    format!("{}: ", names.join(" in "))
}

fn line(informer: &InformerStatus, source: &Source) -> String {
    let status = source.status();
    let version = status.snapshot.version().map_or("none", |version| version.as_str());
    let line = format!("{}, {} objects, version {version}", status.state, status.snapshot.len());
    match sources::of_reflector(informer, source) {
        Some(reflector) => line + &reflector_status(&reflector),
        None => line,
    }
}

/// The times of the last event and of the last error, and the number of relists.
fn reflector_status(status: &ReflectorStatus) -> String {
    let ago = |age: Duration| human(i64::try_from(age.as_secs()).unwrap_or(i64::MAX));
    let mut text = String::new();
    if let Some(age) = status.last_event_age {
        let _ = write!(text, ", last event {} ago", ago(age));
    }
    if let Some(age) = status.bookmark_age {
        let _ = write!(text, ", bookmark {} ago", ago(age));
    }
    let noun = if status.relists == 1 { "relist" } else { "relists" };
    let _ = write!(text, ", {} {noun}", status.relists);
    if let Some((_, age)) = &status.last_error {
        let _ = write!(text, ", last error {} ago", ago(*age));
    }
    text
}

fn plugin(entry: &PluginEntry, is_first_load: bool) -> ReadinessCheck {
    let phase = entry.phase();
    let required = entry.section().spec.required;
    let counts = required == Required::Always || !matches!(phase, PluginPhase::Running(_));
    let gating = match phase {
        PluginPhase::Loading(_) if is_first_load => Gating::Yes,
        _ => Gating::of(required, counts),
    };
    let runbook = super::plugins::runbook(&phase);
    let (passed, text) = match phase {
        PluginPhase::Loading(host) => (false, loading(entry, &host)),
        PluginPhase::Refused { .. } => (false, format!("refused{ERROR_WITHHELD}")),
        PluginPhase::Running(plugin) => loaded_plugin(&plugin.status()),
        PluginPhase::Stopped => (false, "stopped".to_owned()),
    };
    ReadinessCheck {
        name: format!("plugin/{}", entry.name),
        passed,
        gating,
        text,
        runbook,
    }
}

/// Names what is being compiled.
fn loading(entry: &PluginEntry, host: &PluginHost) -> String {
    match host.compiling(&entry.section().spec.content) {
        Some(Compiling {
            what,
            waits_for_bytes: None,
            ..
        }) => format!("loading: compiling {what}"),
        Some(Compiling { what, .. }) => format!("loading: waiting to compile {what}"),
        None => "loading".to_owned(),
    }
}

/// A paused plugin does what was asked of it, and so does one that stands by. One whose calls fail is called: perhaps
/// they are all about one object.
fn loaded_plugin(status: &PluginStatus) -> (bool, String) {
    let passed = matches!(
        status.state,
        PluginState::Loaded | PluginState::Running | PluginState::Failing | PluginState::Paused | PluginState::Standby
    );
    let withheld = if passed { "" } else { ERROR_WITHHELD };
    let text = format!(
        "{}, {} pending, {} dead letters{withheld}",
        status.state, status.pending, status.dead_letters
    );
    (passed, text)
}
