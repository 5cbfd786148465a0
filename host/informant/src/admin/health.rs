//! `/livez` and `/readyz`.
//!
//! Alive is who answers. Ready is who has what the configuration says is required: informers until their first sync,
//! unless `required` says otherwise. With `?verbose` each check has a line, as kube-apiserver's.

use std::fmt::Write as _;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use http::StatusCode;
use informant_cache::{Source, SourceState};
use informant_informer::SourceStatus;

use super::{AdminState, sources};
use crate::age::human;
use crate::config::Required;
use crate::daemon::{Board, InformerPhase, Place, PluginEntry, PluginPhase};

/// What one check found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Check {
    name: String,
    good: bool,
    counts: Counts,
    text: String,
}

/// Whether readiness depends on a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    Yes,
    /// The configuration requires it until it was good once, and it was.
    NotAnyMore,
    No,
}

impl Counts {
    /// Of what is required as the configuration says, and was good before or not.
    fn of(required: Required, was_good: bool) -> Self {
        match required {
            Required::No => Self::No,
            Required::Once if was_good => Self::NotAnyMore,
            Required::Once | Required::Always => Self::Yes,
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
    let checks = checks(&state.board);
    let ready = checks.iter().all(|check| check.good || check.counts != Counts::Yes);
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

fn is_verbose(query: Option<&str>) -> bool {
    query.is_some_and(|query| {
        query
            .split('&')
            .any(|part| part == "verbose" || part.starts_with("verbose="))
    })
}

/// The lines of the verbose form.
fn show(checks: &[Check], ready: bool) -> String {
    let mut text = String::new();
    for Check {
        name,
        good,
        counts,
        text: what,
    } in checks
    {
        let _ = match (good, counts) {
            (true, _) => writeln!(text, "[+]{name} ok: {what}"),
            (false, Counts::Yes) => writeln!(text, "[-]{name} failed: {what}"),
            (false, Counts::NotAnyMore) => {
                writeln!(text, "[ ]{name} failed, but was ready once and counts no more: {what}")
            }
            (false, Counts::No) => writeln!(text, "[ ]{name} failed, not required: {what}"),
        };
    }
    let _ = writeln!(text, "readyz check {}", if ready { "passed" } else { "failed" });
    text
}

/// All checks of the moment.
fn checks(board: &Board) -> Vec<Check> {
    let stopping = board.is_stopping();
    let text = if stopping {
        "stopping: what was accepted is being delivered"
    } else {
        "running"
    };
    let mut checks = vec![Check {
        name: "process".into(),
        good: !stopping,
        counts: Counts::Yes,
        text: text.into(),
    }];
    for entry in board.informers() {
        let places = entry.places();
        checks.extend(
            places
                .iter()
                .map(|(cluster, place)| informer(board, &entry.name, cluster, place)),
        );
    }
    checks.extend(board.plugins().iter().map(|entry| plugin(entry)));
    checks
}

fn informer(board: &Board, name: &str, cluster: &str, place: &Place) -> Check {
    let required = place.section.required;
    let (good, counts, text) = match &place.phase {
        InformerPhase::Discovering { trouble } => {
            let trouble = trouble.as_ref().map(ToString::to_string);
            let text = trouble.unwrap_or_else(|| "asking the API server what it is".to_owned());
            (false, Counts::of(required, false), text)
        }
        InformerPhase::Refused { reason } => (false, Counts::of(required, false), reason.to_string()),
        InformerPhase::Stopped => (false, Counts::of(required, false), "stopped".to_owned()),
        InformerPhase::Running(_) => running(board, name, cluster, place),
    };
    Check {
        name: match cluster {
            "" => format!("informer/{name}"),
            cluster => format!("informer/{name}/{cluster}"),
        },
        good,
        counts,
        text,
    }
}

fn running(board: &Board, name: &str, cluster: &str, place: &Place) -> (bool, Counts, String) {
    let mut sources = board.sources(name);
    sources.retain(|source| source.info().cluster == cluster);
    let mut text = Vec::new();
    let (mut synced, mut live) = (!sources.is_empty(), true);
    for source in &sources {
        let status = source.status();
        synced &= status.synced;
        live &= status.state == SourceState::Live;
        let name = match sources.len() {
            1 => String::new(),
            _ => name_in(place, source),
        };
        text.push(name + &line(place, source));
    }
    // Trouble after the first sync shows here all the same; whether it counts is the configuration's to say.
    let counts = Counts::of(place.section.required, synced);
    (synced && live, counts, text.join("; "))
}

/// What tells one of an informer's several sources from the others: `v1/pods in default: `.
fn name_in(place: &Place, source: &Source) -> String {
    let resource = sources::resource_of(place, source);
    let names = [resource.as_deref(), source.info().namespace.as_deref()];
    let names: Vec<_> = names.into_iter().flatten().collect();
    format!("{}: ", names.join(" in "))
}

/// How one source fares.
fn line(place: &Place, source: &Source) -> String {
    let status = source.status();
    let version = status.snapshot.version().map_or("none", |version| version.as_str());
    let line = format!("{}, {} objects, version {version}", status.state, status.snapshot.len());
    match (sources::of_reflector(place, source), status.trouble) {
        (Some(reflector), _) => line + &signs_of_life(&reflector),
        (None, Some(trouble)) => format!("{line} ({trouble})"),
        (None, None) => line,
    }
}

/// When the source was last heard of, how often its state was obtained anew, and what went wrong last.
fn signs_of_life(status: &SourceStatus) -> String {
    let ago = |age: Duration| human(i64::try_from(age.as_secs()).unwrap_or(i64::MAX));
    let mut text = String::new();
    if let Some(age) = status.last_event_age {
        let _ = write!(text, ", last event {} ago", ago(age));
    }
    if let Some(age) = status.bookmark_age {
        let _ = write!(text, ", bookmark {} ago", ago(age));
    }
    let _ = write!(text, ", {} relists", status.relists);
    if let Some((error, age)) = &status.last_error {
        let _ = write!(text, ", last error {} ago: {error}", ago(*age));
    }
    text
}

fn plugin(entry: &PluginEntry) -> Check {
    let phase = entry.phase();
    let counts = Counts::of(entry.section().required, matches!(phase, PluginPhase::Running(_)));
    let (good, text) = match phase {
        PluginPhase::Loading => (false, "loading".to_owned()),
        PluginPhase::Refused { reason } => (false, reason.to_string()),
        PluginPhase::Running(plugin) => super::plugins::health(&plugin),
        PluginPhase::Stopped => (false, "stopped".to_owned()),
    };
    Check {
        name: format!("plugin/{}", entry.name),
        good,
        counts,
        text,
    }
}
