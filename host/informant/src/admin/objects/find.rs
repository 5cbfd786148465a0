//! Resolves a requested resource to the sources that answer: the informer, its clusters, and whether their first lists
//! are complete.

use std::collections::BTreeSet;
use std::sync::Arc;

use informant_cache::{Source, SourceState};
use informant_informer::Discovered;
use informant_object::SourceId;

use super::super::error::{AdminError, Code};
use crate::daemon::{InformerEntry, InformerPhase, InformerStatus, InformerStatuses, RunningInformer, StatusRegistry};

/// The informer that a request is about.
pub(super) struct ResolvedInformer<'a> {
    pub(super) informer: Arc<InformerEntry>,
    /// Set if only one of the informer's several resources is requested.
    only: Option<&'a str>,
}

/// The informer named `resource`, or else the only one that watches it. An informer that watches nothing else takes
/// precedence over those that do.
pub(super) fn informer<'a>(registry: &StatusRegistry, resource: &'a str) -> Result<ResolvedInformer<'a>, AdminError> {
    if let Some(informer) = registry.informer(resource) {
        return Ok(ResolvedInformer { informer, only: None });
    }
    let informers = registry.informers();
    let named: Vec<_> = informers.iter().filter(|entry| watches(entry, resource)).collect();
    let (watching, only) = if named.is_empty() {
        let among = informers.iter().filter(|entry| watches_among_others(entry, resource));
        (among.collect(), Some(resource))
    } else {
        (named, None)
    };
    match watching[..] {
        [entry] => Ok(ResolvedInformer {
            informer: Arc::clone(entry),
            only,
        }),
        [] => {
            let names: Vec<_> = informers.iter().map(|entry| entry.name.as_str()).collect();
            let help = crate::config::did_you_mean(resource, &names, "informers");
            let message = format!("no informer named \"{resource}\" and none that watches it; {help}");
            Err(AdminError::new(Code::UnknownInformer, message))
        }
        _ => {
            let names: Vec<_> = watching.iter().map(|entry| format!("`{}`", entry.name)).collect();
            let message = format!(
                "several informers watch \"{resource}\": name one of {}",
                names.join(", ")
            );
            Err(AdminError::new(Code::Ambiguous, message))
        }
    }
}

/// Whether `resource` is the informer's resource as configured, its plural or its kind.
fn watches(entry: &InformerEntry, resource: &str) -> bool {
    entry.by_cluster().values().any(|status| {
        status.section.resource.value.text() == resource
            || matches!(&status.phase, InformerPhase::Running(running)
                if running.discovered.as_ref().is_some_and(|discovered| matches_resource(discovered, resource)))
    })
}

fn watches_among_others(entry: &InformerEntry, resource: &str) -> bool {
    entry.by_cluster().values().any(|status| {
        matches!(&status.phase, InformerPhase::Running(running)
            if !sources_of(running, resource).is_empty())
    })
}

/// The sources of one of an informer's several resources.
fn sources_of(running: &RunningInformer, resource: &str) -> Vec<SourceId> {
    let resources = running.shared.spec().resources.unwrap_or_default();
    let meant: Vec<_> = resources
        .values()
        .filter(|found| matches_resource(found, resource))
        .collect();
    let sources = running.shared.sources();
    let matching = sources
        .iter()
        .filter(|source| meant.iter().any(|found| found.gvr == source.spec().resource));
    matching.map(|source| source.source()).collect()
}

fn matches_resource(discovered: &Discovered, resource: &str) -> bool {
    let (gvr, kind) = (&discovered.gvr, &discovered.kind);
    let lower = resource.to_ascii_lowercase();
    let (name, group) = lower.split_once('.').unwrap_or((&lower, &gvr.group));
    group == gvr.group && (name == gvr.plural || name == kind.to_ascii_lowercase()) || resource == gvr.to_string()
}

/// The sources of an informer in some of its clusters (in all if `clusters` is empty), sorted by cluster and namespace,
/// all of them synced. A cluster that is not ready is an error and never skipped silently.
pub(super) fn synced_sources(
    registry: &StatusRegistry,
    asked: &ResolvedInformer<'_>,
    clusters: &BTreeSet<String>,
) -> Result<Vec<Arc<Source>>, AdminError> {
    let informer = &asked.informer;
    let statuses = informer.by_cluster();
    check_clusters(informer, &statuses, clusters)?;
    let mut sources = registry.sources(&informer.name);
    if let Some(resource) = asked.only {
        let running = statuses.values().filter_map(|status| match &status.phase {
            InformerPhase::Running(running) => Some(running),
            _ => None,
        });
        let meant: BTreeSet<SourceId> = running.flat_map(|running| sources_of(running, resource)).collect();
        sources.retain(|source| meant.contains(&source.id()));
    }
    sources.retain(|source| clusters.is_empty() || clusters.contains(&source.info().cluster));
    let asked = statuses
        .iter()
        .filter(|(cluster, _)| clusters.is_empty() || clusters.contains(*cluster));
    let mut synced = Vec::new();
    let mut not_synced = None;
    for (cluster, status) in asked {
        match not_ready_reason(
            status,
            sources.iter().filter(|source| source.info().cluster == *cluster),
        ) {
            None => synced.push(cluster.as_str()),
            Some(why) => not_synced = not_synced.or(Some((cluster, why))),
        }
    }
    if let Some((cluster, why)) = not_synced {
        let message = if registry.is_stopping() {
            format!("informer {} was stopped: Informant is shutting down", informer.name)
        } else {
            not_synced_message(&informer.name, cluster, &why, &synced)
        };
        return Err(AdminError::new(Code::NotSynced, message));
    }
    sources.sort_by(|one, other| sort_key(one).cmp(&sort_key(other)));
    Ok(sources)
}

/// `informer pods is not synced in cluster west: it is starting; cluster east is synced and can be queried alone`
fn not_synced_message(informer: &str, cluster: &str, why: &str, synced: &[&str]) -> String {
    let status = match cluster {
        "" => String::new(),
        name => format!(" in cluster {name}"),
    };
    let others = match synced {
        [] => String::new(),
        [only] => format!("; cluster {only} is synced and can be queried alone"),
        several => format!(
            "; clusters {} are synced and can be queried without it",
            several.join(", ")
        ),
    };
    format!("informer {informer} is not synced{status}: {why}{others}")
}

fn check_clusters(
    informer: &InformerEntry,
    statuses: &InformerStatuses,
    clusters: &BTreeSet<String>,
) -> Result<(), AdminError> {
    let Some(unknown) = clusters.iter().find(|cluster| !statuses.contains_key(*cluster)) else {
        return Ok(());
    };
    let name = &informer.name;
    let message = if statuses.contains_key("") {
        format!("informer {name} has one unnamed cluster: remove \"{unknown}\"")
    } else {
        let known: Vec<&str> = statuses.keys().map(String::as_str).collect();
        let help = crate::config::did_you_mean(unknown, &known, "its clusters");
        format!("informer {name} has no cluster named \"{unknown}\"; {help}")
    };
    Err(AdminError::new(Code::UnknownCluster, message))
}

/// Why the sources of one cluster cannot answer, if they cannot.
fn not_ready_reason<'s>(status: &InformerStatus, mut sources: impl Iterator<Item = &'s Arc<Source>>) -> Option<String> {
    match &status.phase {
        InformerPhase::Discovering { last_error: None } => Some("it is starting".to_owned()),
        InformerPhase::Discovering {
            last_error: Some(error),
        } => Some(error.to_string()),
        InformerPhase::Refused { reason } => Some(reason.to_string()),
        InformerPhase::Stopped => Some("it was stopped".to_owned()),
        InformerPhase::Running(running) if running.discovered.is_some() && running.shared.sources().is_empty() => {
            Some("it is starting".to_owned())
        }
        InformerPhase::Running(_) => {
            let late = sources.find(|source| !source.is_synced())?;
            Some(not_synced_reason(late))
        }
    }
}

fn sort_key(source: &Source) -> (&str, Option<&str>, SourceId) {
    let info = source.info();
    (&info.cluster, info.namespace.as_deref(), source.id())
}

fn not_synced_reason(source: &Source) -> String {
    let status = source.status();
    let listing = status.state == SourceState::Syncing && status.last_error.is_none();
    let why = if listing {
        "its first list is not complete yet"
    } else {
        status.state.as_str()
    };
    match status.last_error {
        Some(error) => format!("{why}: {error}"),
        None => why.to_owned(),
    }
}
