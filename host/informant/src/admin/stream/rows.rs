//! Rows of the dashboard's tables. They have no ages, so that a row changes only if something happens.

use std::collections::BTreeMap;
use std::time::Duration;

use informant_cache::{Source, SourceState};
use serde::{Deserialize, Serialize};

use crate::admin::AdminState;
use crate::admin::plugins::{self, LoadedView, PluginView};
use crate::admin::sources;
use crate::daemon::InformerPhase;
use crate::runbooks;

/// One plugin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PluginRow {
    pub(crate) name: String,
    pub(crate) state: String,
    /// Of its state, or its worst problem.
    pub(crate) because: Option<String>,
    pub(crate) code: Option<String>,
    pub(crate) version: String,
    pub(crate) sha256: String,
    pub(crate) informers: Vec<String>,
    pub(crate) instances: usize,
    pub(crate) delivered: u64,
    /// Events delivered in a second, since the rows before; null without any.
    pub(crate) per_second: Option<f64>,
    pub(crate) pending: usize,
    pub(crate) in_flight: usize,
    pub(crate) failing: usize,
    pub(crate) dead_letters: usize,
    /// In steps of 100 ms.
    pub(crate) lag_ms: u64,
    pub(crate) restarts: u64,
    pub(crate) reloads: u64,
    pub(crate) cpu_ms: u64,
    /// Cores that its calls used, since the rows before; null without any.
    pub(crate) cpu: Option<f64>,
    /// CPU time of each event so far, in milliseconds.
    pub(crate) cpu_per_event_ms: Option<f64>,
    pub(crate) memory_bytes: usize,
    pub(crate) kube_requests: u64,
    pub(crate) kube_sent_bytes: u64,
    pub(crate) kube_received_bytes: u64,
    pub(crate) effects: u64,
    /// Since the rows before; null without any.
    pub(crate) effects_per_second: Option<f64>,
    pub(crate) paused: bool,
    pub(crate) dry_run: bool,
}

/// One source, or an informer without one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SourceRow {
    pub(crate) id: Option<u32>,
    /// Unique among the rows.
    pub(crate) key: String,
    pub(crate) informer: String,
    pub(crate) cluster: String,
    pub(crate) resource: String,
    pub(crate) namespace: Option<String>,
    pub(crate) state: String,
    pub(crate) trouble: Option<String>,
    pub(crate) code: Option<String>,
    pub(crate) objects: usize,
    pub(crate) bytes: usize,
    pub(crate) heads: usize,
    pub(crate) indexes: Vec<String>,
    pub(crate) relists: u64,
    /// Changes that its watch read in a second, since the rows before.
    pub(crate) per_second: Option<f64>,
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

/// What a plugin or a source had counted when its last row was made.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rates {
    delivered: u64,
    cpu_ms: u64,
    effects: u64,
    /// Of a source alone.
    changes: u64,
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
            effects: loaded.effects,
            changes: 0,
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
    let rate = |now: u64, before: Option<u64>| rate(now, before, elapsed);
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
        effects_per_second: rate(loaded.effects, before.map(|before| before.effects)),
        paused: loaded.paused,
        dry_run: loaded.dry_run,
        ..row
    }
}

/// To three digits after the point: more would make rows differ that look alike.
fn round(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

/// In a second; none if it is not known.
fn rate(now: u64, before: Option<u64>, elapsed: Duration) -> Option<f64> {
    let difference = now.checked_sub(before?)?;
    Some(round(difference as f64 / elapsed.as_secs_f64()))
}

/// The rows of all sources with their rates; `elapsed` after those from which `before` is.
pub(super) fn source_rows_with_rates(
    state: &AdminState,
    before: &mut BTreeMap<String, Rates>,
    elapsed: Duration,
) -> Vec<SourceRow> {
    let mut rates = BTreeMap::new();
    let with_rate = |(row, changes): (SourceRow, u64)| {
        let was = before.get(&row.key).map(|before| before.changes);
        let counted = Rates {
            changes,
            ..Rates::default()
        };
        rates.insert(row.key.clone(), counted);
        SourceRow {
            per_second: rate(changes, was, elapsed),
            ..row
        }
    };
    let rows = counted_source_rows(state).into_iter().map(with_rate).collect();
    *before = rates;
    rows
}

/// The rows of all sources, without rates.
pub(super) fn source_rows(state: &AdminState) -> Vec<SourceRow> {
    counted_source_rows(state).into_iter().map(|(row, _)| row).collect()
}

/// Each with the number of changes that its watches have read.
fn counted_source_rows(state: &AdminState) -> Vec<(SourceRow, u64)> {
    let mut rows = Vec::new();
    for entry in state.registry.informers() {
        let all = state.registry.sources(&entry.name);
        for (cluster, status) in entry.by_cluster() {
            let in_cluster = all.iter().filter(|source| source.info().cluster == cluster);
            let before = rows.len();
            rows.extend(in_cluster.map(|source| {
                let reflector = sources::of_reflector(&status, source);
                let (relists, changes) = reflector.map_or((0, 0), |reflector| (reflector.relists, reflector.changes));
                (source_row(source, relists), changes)
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
                let row = SourceRow {
                    key: format!("{}/{cluster}", entry.name),
                    informer: entry.name.clone(),
                    cluster,
                    resource: status.section.resource.value.text(),
                    state: state.to_owned(),
                    trouble,
                    code: Some(runbooks::WATCH_NOT_LIVE.code.to_owned()),
                    ..SourceRow::default()
                };
                rows.push((row, 0));
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
        per_second: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_unknown_at_first_and_after_a_restart() {
        let second = Duration::from_secs(2);
        assert_eq!(rate(5, None, second), None);
        assert_eq!(rate(5, Some(9), second), None);
        assert_eq!(rate(15, Some(5), second), Some(5.0));
        assert_eq!(rate(1, Some(0), Duration::from_secs(3)), Some(0.333));
    }
}
