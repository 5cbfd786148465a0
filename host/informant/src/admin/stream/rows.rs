//! Rows of the dashboard's tables. They have no ages, so that a row changes only if something happens.

use std::collections::BTreeMap;
use std::time::Duration;

use informant_cache::{Source, SourceState};
use serde::Serialize;

use crate::admin::AdminState;
use crate::admin::plugins::{self, LoadedView, PluginView};
use crate::admin::sources;
use crate::daemon::InformerPhase;
use crate::runbooks;

/// One plugin.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PluginRow {
    pub(super) name: String,
    state: String,
    /// Of its state, or its worst problem.
    because: Option<String>,
    code: Option<String>,
    version: String,
    sha256: String,
    informers: Vec<String>,
    instances: usize,
    delivered: u64,
    /// Events delivered in a second, since the rows before; null without any.
    per_second: Option<f64>,
    pending: usize,
    in_flight: usize,
    failing: usize,
    dead_letters: usize,
    /// In steps of 100 ms.
    lag_ms: u64,
    restarts: u64,
    reloads: u64,
    cpu_ms: u64,
    /// Cores that its calls used, since the rows before; null without any.
    cpu: Option<f64>,
    /// CPU time of each event so far, in milliseconds.
    cpu_per_event_ms: Option<f64>,
    memory_bytes: usize,
    kube_requests: u64,
    kube_sent_bytes: u64,
    kube_received_bytes: u64,
    effects: u64,
    paused: bool,
    dry_run: bool,
}

/// One source, or an informer without one.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SourceRow {
    id: Option<u32>,
    /// Unique among the rows.
    pub(super) key: String,
    informer: String,
    cluster: String,
    resource: String,
    namespace: Option<String>,
    state: String,
    trouble: Option<String>,
    code: Option<String>,
    objects: usize,
    bytes: usize,
    heads: usize,
    indexes: Vec<String>,
    relists: u64,
}

impl SourceRow {
    /// What is wrong with it, the runbook, and its number.
    pub(super) fn problem(&self) -> Option<(String, Option<String>, Option<u32>)> {
        if self.state == SourceState::Live.as_str() {
            return None;
        }
        let within = self
            .namespace
            .as_ref()
            .map_or_else(String::new, |namespace| format!(" in {namespace}"));
        let trouble = self
            .trouble
            .as_ref()
            .map_or_else(String::new, |trouble| format!(": {trouble}"));
        let SourceRow {
            informer,
            resource,
            cluster,
            state,
            ..
        } = self;
        let of_cluster = if cluster.is_empty() {
            String::new()
        } else {
            format!(", cluster {cluster}")
        };
        let text = format!("informer {informer} ({resource}{within}{of_cluster}) is {state}{trouble}");
        Some((text, self.code.clone(), self.id))
    }

    pub(super) fn objects(&self) -> usize {
        self.objects
    }
}

/// What a plugin had counted when its last row was made.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rates {
    delivered: u64,
    cpu_ms: u64,
}

/// The rows of all plugins; `elapsed` after those from which `before` is.
pub(super) fn plugin_rows(
    state: &AdminState,
    before: &mut BTreeMap<String, Rates>,
    elapsed: Duration,
) -> Vec<PluginRow> {
    let mut rates = BTreeMap::new();
    let mut rows = Vec::new();
    for view in plugins::views(state) {
        let counted = view.loaded.as_ref().map(|loaded| Rates {
            delivered: loaded.delivered,
            cpu_ms: loaded.cpu_ms,
        });
        let was = before.get(&view.name).copied();
        rates.extend(counted.map(|counted| (view.name.clone(), counted)));
        rows.push(plugin_row(view, was, elapsed));
    }
    *before = rates;
    rows
}

fn plugin_row(view: PluginView, before: Option<Rates>, elapsed: Duration) -> PluginRow {
    let problem = || {
        let remark = plugins::remarks(&view).into_iter().find(|remark| remark.is_problem)?;
        let text = remark.text.strip_prefix(&*view.name).unwrap_or(&remark.text);
        Some(text.trim_start_matches([':', ' ']).to_owned())
    };
    let because = view.because.clone().or_else(problem);
    let row = PluginRow {
        name: view.name,
        state: view.state,
        because,
        code: view.code,
        informers: view.informers,
        ..PluginRow::default()
    };
    match view.loaded {
        Some(loaded) => with_loaded(row, loaded, before, elapsed),
        None => row,
    }
}

fn with_loaded(row: PluginRow, loaded: LoadedView, before: Option<Rates>, elapsed: Duration) -> PluginRow {
    let seconds = elapsed.as_secs_f64();
    let rate = |now: u64, before: Option<u64>| {
        let difference = before.and_then(|before| now.checked_sub(before));
        difference.map(|difference| round(difference as f64 / seconds))
    };
    PluginRow {
        version: loaded.manifest_version,
        sha256: loaded.sha256,
        instances: loaded.instances,
        delivered: loaded.delivered,
        per_second: rate(loaded.delivered, before.map(|before| before.delivered)),
        pending: loaded.pending,
        in_flight: loaded.in_flight,
        failing: loaded.failing,
        dead_letters: loaded.dead_letters,
        lag_ms: loaded.oldest_pending_ms.unwrap_or(0) / 100 * 100,
        restarts: loaded.restarts,
        reloads: loaded.reloads,
        cpu_ms: loaded.cpu_ms,
        cpu: rate(loaded.cpu_ms, before.map(|before| before.cpu_ms)).map(|cpu| cpu / 1_000.0),
        cpu_per_event_ms: (loaded.delivered > 0).then(|| round(loaded.cpu_ms as f64 / loaded.delivered as f64)),
        memory_bytes: loaded.memory_bytes,
        kube_requests: loaded.kube_requests,
        kube_sent_bytes: loaded.kube_sent_bytes,
        kube_received_bytes: loaded.kube_received_bytes,
        effects: loaded.effects,
        paused: loaded.paused,
        dry_run: loaded.dry_run,
        ..row
    }
}

/// To three digits after the point: more would make rows differ that look alike.
fn round(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

pub(super) fn source_rows(state: &AdminState) -> Vec<SourceRow> {
    let mut rows = Vec::new();
    for entry in state.registry.informers() {
        let all = state.registry.sources(&entry.name);
        for (cluster, status) in entry.by_cluster() {
            let in_cluster = all.iter().filter(|source| source.info().cluster == cluster);
            let before = rows.len();
            rows.extend(in_cluster.map(|source| {
                let relists = sources::of_reflector(&status, source).map_or(0, |reflector| reflector.relists);
                source_row(source, relists)
            }));
            if rows.len() == before {
                let (state, trouble) = match &status.phase {
                    InformerPhase::Discovering { last_error } => {
                        ("Discovering", last_error.as_ref().map(ToString::to_string))
                    }
                    InformerPhase::Refused { reason } => ("Refused", Some(reason.to_string())),
                    InformerPhase::Running(_) => ("Syncing", None),
                    InformerPhase::Stopped => ("Stopped", None),
                };
                rows.push(SourceRow {
                    key: format!("{}/{cluster}", entry.name),
                    informer: entry.name.clone(),
                    cluster,
                    resource: status.section.resource.value.text(),
                    state: state.to_owned(),
                    trouble,
                    code: Some(runbooks::WATCH_NOT_LIVE.code.to_owned()),
                    ..SourceRow::default()
                });
            }
        }
    }
    rows
}

fn source_row(source: &Source, relists: u64) -> SourceRow {
    let (info, status) = (source.info(), source.status());
    let trouble = status.last_error.filter(|_| status.state != SourceState::Live);
    SourceRow {
        id: Some(source.id().0),
        key: source.id().0.to_string(),
        informer: info.informer.clone(),
        cluster: info.cluster.clone(),
        resource: info.resource.clone(),
        namespace: info.namespace.clone(),
        state: status.state.as_str().to_owned(),
        trouble: trouble.map(|error| error.to_string()),
        code: runbooks::of_source(status.state).map(|runbook| runbook.code.to_owned()),
        objects: status.snapshot.len(),
        bytes: status.snapshot.bytes(),
        heads: status.snapshot.heads(),
        indexes: status.snapshot.index_names(),
        relists,
    }
}
