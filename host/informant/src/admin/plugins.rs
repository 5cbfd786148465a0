//! `/api/v1/plugins`, `/api/v1/dead-letters` and `/api/v1/retries`: the status of each plugin ([`views()`]), commands
//! ([`commands`]), the events on which they failed ([`failures`]), what they would have done ([`effects`]), and their
//! last log lines ([`logs`]).
//!
//! ```text
//! GET  /api/v1/plugins
//! GET  /api/v1/dead-letters[?plugin=NAME&cluster=NAME&resource=RESOURCE&namespace=NAMESPACE]
//! GET  /api/v1/retries, the same
//! GET  /api/v1/plugins/NAME/effects
//! GET  /api/v1/plugins/NAME/logs[?from=NUMBER]
//! POST /api/v1/plugins/NAME/pause
//! POST /api/v1/plugins/NAME/resume
//! POST /api/v1/plugins/NAME/restart
//! POST /api/v1/plugins/NAME/requeue   {"key": "namespace/name", "resource": "v1/pods"}, or {} for all dead letters
//! ```
//!
//! A POST has a JSON body, which a web page cannot send to a loopback address without a CORS preflight.

pub(super) mod commands;
pub(super) mod effects;
pub(super) mod failures;
pub(super) mod logs;
mod problems;
pub(super) mod scope;
mod views;

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use informant_cache::listener::{DeadLetter, ListenerStats, RetriedKey, SlowedKey};
use informant_cache::{Catalog, Environment, IndexFeedHandle, Moment};
use informant_object::SourceId;
use informant_plugin_host::{
    ClosedHost, Compiling, KvUsage, Plugin, PluginState, PluginStatus, Reload, RunnerStatus, StuckOn, TimerStatus,
    WritingKey,
};

use jiff::{SignedDuration, Timestamp};

pub(crate) use self::commands::{Paused, RequeueRequest, Requeued, Restarted, Resumed};
pub(crate) use self::effects::{EffectView, EffectsView};
pub(crate) use self::failures::{DeadLettersView, FailedEventView, RetriesView};
pub(crate) use self::logs::{LogLineView, LogsView};
use self::problems::Remark;
pub(crate) use self::problems::remarks;
use self::views::KvView;
pub(crate) use self::views::{
    ClosedHostView, DeadLetterView, LoadedView, PastReloadView, PluginView, Plugins, RETRIES_SHOWN_MAX, ReloadView,
    RetryView, RunnerView, SLOWED_SHOWN_MAX, SUSPECTS_SHOWN_MAX, SlowedView, StuckView, TimerView, WritingKeyView,
};
use super::AdminState;
use super::error::{AdminError, Code};
use super::sources::{AgedText, millis};
use crate::daemon::{PluginEntry, PluginPhase, StatusRegistry};
use crate::runbooks::{self, Runbook};

pub(super) async fn list(State(state): State<AdminState>) -> Json<Plugins> {
    let items = views(&state).into_iter().map(with_problems);
    Json(Plugins { items: items.collect() })
}

/// All plugins, by name.
pub(super) fn views(state: &AdminState) -> Vec<PluginView> {
    let entries = state.registry.plugins();
    let catalog = state.registry.catalog();
    let items = entries.iter().map(|entry| item(entry, catalog, &*state.environment));
    items.collect()
}

/// One plugin.
pub(super) async fn get(
    State(state): State<AdminState>,
    Path(name): Path<String>,
) -> Result<Json<PluginView>, AdminError> {
    let entry = known(&state.registry, &name)?;
    let view = item(&entry, state.registry.catalog(), &*state.environment);
    Ok(Json(with_problems(view)))
}

/// The same, with what is wrong in words, which others make of the [remarks] themselves.
fn with_problems(view: PluginView) -> PluginView {
    PluginView {
        problems: remarks(&view).iter().map(Remark::with_details).collect(),
        ..view
    }
}

/// The last hour of a plugin.
pub(super) async fn series(
    State(state): State<AdminState>,
    Path(name): Path<String>,
) -> Result<Json<serde_json::Value>, AdminError> {
    known(&state.registry, &name)?;
    let series = state.registry.history().of_plugin(&name);
    let series = series.ok_or_else(|| {
        let message = format!("nothing of the last hour of plugin {name} is kept yet; try again in 10 s");
        AdminError::new(Code::NotReady, message)
    })?;
    Ok(Json(super::stream::series_json(&series)))
}

/// The plugin named `name`, in whatever phase.
pub(super) fn known(registry: &StatusRegistry, name: &str) -> Result<Arc<PluginEntry>, AdminError> {
    registry.plugin(name).ok_or_else(|| {
        let entries = registry.plugins();
        let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let help = informant_spec::suggest::did_you_mean(name, &names, "plugins");
        AdminError::new(Code::UnknownPlugin, format!("no plugin named \"{name}\"; {help}"))
    })
}

/// The plugin named `name`, if it is loaded.
pub(super) fn loaded(registry: &StatusRegistry, name: &str) -> Result<Plugin, AdminError> {
    match known(registry, name)?.phase() {
        PluginPhase::Running(plugin) => Ok(plugin),
        PluginPhase::Loading(_) => Err(AdminError::new(
            Code::NotReady,
            format!("plugin {name} is being loaded"),
        )),
        PluginPhase::Refused { reason } => Err(AdminError::new(
            Code::NotReady,
            format!("plugin {name} is refused: {reason}"),
        )),
        PluginPhase::Stopped => Err(AdminError::new(Code::NotReady, format!("plugin {name} was stopped"))),
    }
}

/// What to answer if the plugin receives no object that a request is about: its first calls may wait for something.
/// `is_attached`: it receives objects of others.
pub(super) fn without_object(
    registry: &StatusRegistry,
    name: &str,
    is_attached: bool,
    otherwise: AdminError,
) -> AdminError {
    let awaited = registry.plugin(name).and_then(|entry| entry.awaited());
    match awaited {
        Some(awaited) if is_attached => {
            let message = format!("{}; some of its calls wait, because {awaited}", otherwise.message);
            AdminError::new(otherwise.code, message)
        }
        Some(awaited) => {
            let message = format!("plugin {name} is not called yet, because {awaited}: try again");
            AdminError::new(Code::NotReady, message)
        }
        None => otherwise,
    }
}

/// The state of a plugin whose first calls wait.
const NOT_READY: &str = "not-ready";

/// Where an object is from; both are empty for a source that is gone.
struct Origin {
    cluster: String,
    resource: String,
}

impl Origin {
    fn of(catalog: &Catalog, source: SourceId) -> Origin {
        let info = catalog.info(source);
        let (cluster, resource) = info.map(|info| (info.cluster, info.resource)).unwrap_or_default();
        Origin { cluster, resource }
    }
}

fn item(entry: &PluginEntry, catalog: &Catalog, environment: &dyn Environment) -> PluginView {
    let origin = |source| Origin::of(catalog, source);
    let (state, because, loaded) = match entry.phase() {
        PluginPhase::Loading(host) => {
            let waits_for = host.compiling(&entry.section().spec.content);
            ("loading", waits_for.map(|of| compiling(&of, environment.now())), None)
        }
        PluginPhase::Refused { reason } => ("refused", Some(reason.to_string()), None),
        PluginPhase::Stopped => ("stopped", None, None),
        PluginPhase::Running(plugin) => {
            let status = plugin.status();
            let (listener, now) = (plugin.listener(), environment.now());
            let mut loaded = of_plugin(&status, &listener.control().stats(), now);
            let last = listener.ledger().last_dead_letters(1).pop();
            loaded.last_dead_letter = last.map(|letter| dead_letter(&letter, origin(letter.source), now));
            let (_, oldest) = listener.ledger().retried_keys(RETRIES_SHOWN_MAX);
            loaded.retries = oldest.iter().map(|key| retry(key, origin(key.source), now)).collect();
            let (_, slowed) = listener.ledger().slowed_keys(SLOWED_SHOWN_MAX);
            let slowed = slowed.iter().map(|key| slowed_object(key, origin(key.source), now));
            loaded.slowed_objects = slowed.collect();
            (loaded.suspects, loaded.suspect_namespaces) = listener.ledger().suspects(SUSPECTS_SHOWN_MAX);
            let (spaced, keys) = plugin.spaced_keys(SLOWED_SHOWN_MAX);
            loaded.writes_spaced = spaced;
            let keys = keys.iter().map(|key| writing_key(key, origin(key.source)));
            loaded.writes_spaced_keys = keys.collect();
            let stuck_on = status.stuck_on.as_ref();
            loaded.stuck_on = stuck_on.map(|call| stuck(call, origin(call.source), now));
            loaded.compiling = plugin.compiling().map(|of| compiling(&of, now));
            match entry.missing().filter(|_| status.state == PluginState::Running) {
                Some(missing) => (NOT_READY, Some(missing.to_string()), Some(loaded)),
                None => (status.state.as_str(), status.because, Some(loaded)),
            }
        }
    };
    let section = entry.section();
    let informers = section.informers().map(|(informer, _)| informer.to_owned());
    let code = match state {
        NOT_READY => Some(runbooks::PLUGIN_NOT_READY),
        _ => runbook(&entry.phase()),
    };
    PluginView {
        name: entry.name.clone(),
        component: section.spec.content.to_string(),
        informers: informers.collect(),
        state: state.to_owned(),
        because,
        problems: Vec::new(),
        code: code.map(|runbook| runbook.code.to_owned()),
        loaded,
    }
}

/// What is being compiled, or waits for that, since when.
fn compiling(compiling: &Compiling, now: Moment) -> String {
    let Compiling {
        what,
        since,
        waits_for_bytes,
    } = compiling;
    let seconds = age_ms(now, *since) / 1_000;
    match waits_for_bytes {
        None => format!("compiling {what}, {seconds} s so far"),
        Some(bytes) => {
            let mib = bytes.div_ceil(1 << 20);
            format!("waiting for {mib} MiB of compile-memory to compile {what}, {seconds} s so far")
        }
    }
}

/// The runbook for a plugin that is not called, or fails on everything.
pub(super) fn runbook(phase: &PluginPhase) -> Option<Runbook> {
    match phase {
        PluginPhase::Refused { .. } => Some(runbooks::PLUGIN_REFUSED),
        PluginPhase::Running(plugin) if plugin.status().state == PluginState::Quarantined => {
            Some(runbooks::PLUGIN_QUARANTINED)
        }
        PluginPhase::Running(plugin) if plugin.status().state == PluginState::Failing => Some(runbooks::PLUGIN_FAILING),
        _ => None,
    }
}

fn of_plugin(status: &PluginStatus, listener: &ListenerStats, now: Moment) -> LoadedView {
    LoadedView {
        manifest_name: status.manifest.0.clone(),
        manifest_version: status.manifest.1.clone(),
        roles: status.roles.to_string(),
        sha256: status.digest.to_string(),
        previous_sha256: status.previous_digest.map(|digest| digest.to_string()),
        runner: status.runner.as_deref().map(runner),
        memory_bytes: status.memory_bytes,
        cpu_ms: millis(status.cost.cpu),
        kube_requests: status.cost.kube.requests,
        kube_sent_bytes: status.cost.kube.sent_bytes,
        kube_received_bytes: status.cost.kube.received_bytes,
        effects: status.cost.effects,
        instances: status.instances,
        restarts: status.restarts,
        reloads: status.reloads,
        last_reload: status.last_reload.as_ref().map(|reload| ReloadView {
            result: if reload.refused.is_none() { "ok" } else { "refused" }.to_owned(),
            error: reload.refused.clone(),
            age_ms: age_ms(now, reload.at),
        }),
        reload_history: status
            .reloads_so_far
            .iter()
            .map(|reload| past_reload(reload, now))
            .collect(),
        compiling: None,
        pending: listener.pending,
        oldest_pending_ms: listener.oldest_pending.map(|read| age_ms(now, read)),
        in_flight: listener.in_flight,
        failing: listener.failing,
        retries: Vec::new(),
        spaced: listener.spaced,
        waiting: listener.waiting,
        suspect: listener.suspect,
        suspects: 0,
        suspect_namespaces: Vec::new(),
        rate_held: listener.held_by_rate,
        requeues: listener.requeues,
        slowed: listener.slowed,
        slowed_objects: Vec::new(),
        writes_waiting: status.writes.waiting,
        writes_waiting_events: status.writes.events,
        writes_spaced: 0,
        writes_spaced_keys: Vec::new(),
        writes_paused_ms: status
            .writes
            .paused_until
            .filter(|until| *until > now)
            .map(|until| u64::try_from((until - now).as_millis()).unwrap_or(u64::MAX)),
        kv: status.kv.map(|KvUsage { keys, bytes }| KvView { keys, bytes }),
        closed_hosts: status.closed_hosts.iter().map(closed_host).collect(),
        timers: status.timers.iter().map(timer).collect(),
        paused: status.paused,
        dry_run: status.is_dry_run,
        keyed: listener.keyed,
        dead_letters: listener.dead_letters,
        last_dead_letter: None,
        delivered: listener.counters.delivered,
        coalesced: listener.counters.coalesced,
        last_error: status.last_error.as_ref().map(|(when, message)| AgedText {
            message: message.clone(),
            age_ms: age_ms(now, *when),
        }),
        stuck_on: None,
    }
}

fn past_reload(reload: &Reload, now: Moment) -> PastReloadView {
    let ago = SignedDuration::try_from(now - reload.at).unwrap_or_default();
    let at = Timestamp::now().checked_sub(ago).unwrap_or(Timestamp::UNIX_EPOCH);
    PastReloadView {
        time: format!("{at:.0}"),
        result: if reload.refused.is_none() { "ok" } else { "refused" }.to_owned(),
        version: reload.version.clone(),
        sha256: reload.digest.to_string(),
        error: reload.refused.clone(),
    }
}

fn writing_key(key: &WritingKey, Origin { cluster, resource }: Origin) -> WritingKeyView {
    WritingKeyView {
        object: key.key.to_string(),
        cluster,
        resource,
        target: key.target.clone(),
        wait_ms: u64::try_from(key.wait.as_millis()).unwrap_or(u64::MAX),
    }
}

fn runner(runner: &RunnerStatus) -> RunnerView {
    RunnerView {
        language: runner.language.clone(),
        version: runner.version.clone(),
        sha256: runner.digest.to_string(),
    }
}

fn closed_host(closed: &ClosedHost) -> ClosedHostView {
    ClosedHostView {
        host: closed.host.clone(),
        left_ms: millis(closed.left),
    }
}

fn timer(timer: &TimerStatus) -> TimerView {
    TimerView {
        name: timer.name.clone(),
        schedule: timer.schedule.clone(),
        last: timer.ended.map(|run| run.scheduled.to_string()),
        last_succeeded: timer.ended.map(|run| run.accepted),
        next: timer.next.map(|next| next.to_string()),
    }
}

fn dead_letter(letter: &DeadLetter, Origin { cluster, resource }: Origin, now: Moment) -> DeadLetterView {
    DeadLetterView {
        object: letter.key.to_string(),
        cluster,
        resource,
        event: letter.event.to_owned(),
        error: letter.error.clone(),
        age_ms: millis(letter.age(now)),
    }
}

fn retry(key: &RetriedKey, Origin { cluster, resource }: Origin, now: Moment) -> RetryView {
    RetryView {
        object: key.key.as_ref().map(ToString::to_string),
        timer: key.timer.as_ref().map(ToString::to_string),
        cluster,
        resource,
        event: key.event.to_owned(),
        attempts: key.attempts,
        error: key.error.clone(),
        age_ms: age_ms(now, key.since),
        next_ms: millis(key.next - now),
    }
}

fn slowed_object(key: &SlowedKey, Origin { cluster, resource }: Origin, now: Moment) -> SlowedView {
    SlowedView {
        object: key.key.to_string(),
        cluster,
        resource,
        requeues: key.requeues,
        next_ms: millis(key.next - now),
    }
}

fn stuck(call: &StuckOn, Origin { cluster, resource }: Origin, now: Moment) -> StuckView {
    StuckView {
        source: call.source.0,
        object: call.key.as_ref().map(ToString::to_string),
        cluster,
        resource,
        event: call.event.to_owned(),
        for_ms: age_ms(now, call.since),
    }
}

/// How long ago `when` was.
pub(super) fn age_ms(now: Moment, when: Moment) -> u64 {
    millis(now - when)
}

/// The plugin that computes an index of an informer, if it is in quarantine.
pub(super) fn quarantined_behind(registry: &StatusRegistry, informer: &str, index: &str) -> Option<String> {
    let entries = registry.plugins();
    let behind = entries.iter().find(|entry| {
        let PluginPhase::Running(plugin) = entry.phase() else {
            return false;
        };
        let computes = |feed: IndexFeedHandle| feed.names().iter().any(|name| **name == *index);
        entry.section().informers().any(|(name, _)| name == informer)
            && plugin.status().state == PluginState::Quarantined
            && plugin.index_feed().is_some_and(computes)
    });
    behind.map(|entry| entry.name.clone())
}

/// A plugin that is being loaded and may compute an index of an informer.
pub(super) fn loading_behind(registry: &StatusRegistry, informer: &str) -> Option<String> {
    let entries = registry.plugins();
    let loading = entries.iter().find(|entry| {
        let names_it = entry.section().informers().any(|(name, _)| name == informer);
        names_it && matches!(entry.phase(), PluginPhase::Loading(_))
    });
    loading.map(|entry| entry.name.clone())
}
