//! `GET /api/v1/plugins`: how each plugin fares.

use axum::Json;
use axum::extract::State;
use informant_cache::listener::ListenerStats;
use informant_cache::{Environment, Moment};
use informant_plugin_host::{Plugin, PluginState, PluginStatus, StuckOn};
use serde::Serialize;

use super::AdminState;
use crate::daemon::{PluginEntry, PluginPhase};

#[derive(Debug, Serialize)]
pub(super) struct Plugins {
    items: Vec<PluginItem>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PluginItem {
    name: String,
    component: String,
    informers: Vec<String>,
    /// A loaded plugin's state, or `loading`, `refused`, `stopped`.
    state: &'static str,
    /// Why, where there is something to say.
    because: Option<String>,
    #[serde(flatten)]
    loaded: Option<Loaded>,
}

/// What only a loaded plugin has.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Loaded {
    /// What the component calls itself.
    manifest_name: String,
    manifest_version: String,
    roles: String,
    sha256: String,
    previous_sha256: Option<String>,
    memory_bytes: usize,
    restarts: u64,
    reloads: u64,
    pending: usize,
    in_flight: usize,
    failing: usize,
    keyed: bool,
    dead_letters: usize,
    delivered: u64,
    coalesced: u64,
    last_error: Option<LastError>,
    stuck_on: Option<Stuck>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct LastError {
    message: String,
    age_ms: u64,
}

/// The call that has been under way for longest.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Stuck {
    source: u32,
    object: Option<String>,
    event: &'static str,
    for_ms: u64,
}

pub(super) async fn list(State(state): State<AdminState>) -> Json<Plugins> {
    let items = state
        .board
        .plugins()
        .iter()
        .map(|entry| item(entry, &*state.environment))
        .collect();
    Json(Plugins { items })
}

fn item(entry: &PluginEntry, environment: &dyn Environment) -> PluginItem {
    let (state, because, loaded) = match entry.phase() {
        PluginPhase::Loading => ("loading", None, None),
        PluginPhase::Refused { reason } => ("refused", Some(reason.to_string()), None),
        PluginPhase::Stopped => ("stopped", None, None),
        PluginPhase::Running(plugin) => {
            let status = plugin.status();
            let loaded = of_plugin(&status, &plugin.listener().stats(), environment.now());
            (status.state.as_str(), status.because, Some(loaded))
        }
    };
    let section = entry.section();
    PluginItem {
        name: entry.name.clone(),
        component: section.component.value.display().to_string(),
        informers: section
            .informers
            .iter()
            .map(|(_, informer)| informer.value.clone())
            .collect(),
        state,
        because,
        loaded,
    }
}

fn of_plugin(status: &PluginStatus, listener: &ListenerStats, now: Moment) -> Loaded {
    Loaded {
        manifest_name: status.manifest.0.clone(),
        manifest_version: status.manifest.1.clone(),
        roles: status.roles.to_string(),
        sha256: status.digest.to_string(),
        previous_sha256: status.previous_digest.map(|digest| digest.to_string()),
        memory_bytes: status.memory_bytes,
        restarts: status.restarts,
        reloads: status.reloads,
        pending: listener.pending,
        in_flight: listener.in_flight,
        failing: listener.failing,
        keyed: listener.keyed,
        dead_letters: listener.dead_letters,
        delivered: listener.counters.delivered,
        coalesced: listener.counters.coalesced,
        last_error: status.last_error.as_ref().map(|(when, message)| LastError {
            message: message.clone(),
            age_ms: age_ms(now, *when),
        }),
        stuck_on: status.stuck_on.as_ref().map(|call| stuck(call, now)),
    }
}

fn stuck(call: &StuckOn, now: Moment) -> Stuck {
    Stuck {
        source: call.source.0,
        object: call.key.as_ref().map(ToString::to_string),
        event: call.event,
        for_ms: age_ms(now, call.since),
    }
}

/// How long ago `when` was.
pub(super) fn age_ms(now: Moment, when: Moment) -> u64 {
    u64::try_from((now - when).as_millis()).unwrap_or(u64::MAX)
}

/// Whether a loaded plugin is well, and a line about it.
pub(super) fn health(plugin: &Plugin) -> (bool, String) {
    let status = plugin.status();
    let good = matches!(status.state, PluginState::Loaded | PluginState::Running);
    let because = status.because.map_or(String::new(), |because| format!(": {because}"));
    (
        good,
        format!(
            "{}{because}, {} pending, {} dead letters",
            status.state, status.pending, status.dead_letters
        ),
    )
}
