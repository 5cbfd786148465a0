//! From what somebody asks for to the sources that answer: the informer, its clusters, and whether their first lists are there.

use std::collections::BTreeSet;
use std::sync::Arc;

use informant_cache::{Source, SourceState};
use informant_object::SourceId;

use super::super::error::{ApiError, Code};
use crate::daemon::{Board, InformerEntry, InformerPhase};

/// The informer that is called `resource`, or else the only one that watches it.
pub(super) fn informer(board: &Board, resource: &str) -> Result<Arc<InformerEntry>, ApiError> {
    if let Some(entry) = board.informer(resource) {
        return Ok(entry);
    }
    let informers = board.informers();
    let watching: Vec<_> = informers.iter().filter(|entry| watches(entry, resource)).collect();
    match watching[..] {
        [entry] => Ok(Arc::clone(entry)),
        [] => {
            let names: Vec<_> = informers.iter().map(|entry| entry.name.as_str()).collect();
            let help = crate::config::did_you_mean(resource, &names, "informers");
            let message = format!("no informer is called or watches \"{resource}\"; {help}");
            Err(ApiError::new(Code::UnknownInformer, message))
        }
        _ => {
            let names: Vec<_> = watching.iter().map(|entry| format!("`{}`", entry.name)).collect();
            let message = format!(
                "several informers watch \"{resource}\": name one of {}",
                names.join(", ")
            );
            Err(ApiError::new(Code::Ambiguous, message))
        }
    }
}

/// Whether `resource` is what the configuration calls it, its plural or its kind.
fn watches(entry: &InformerEntry, resource: &str) -> bool {
    if entry.section().resource.value.to_string() == resource {
        return true;
    }
    let InformerPhase::Running(running) = entry.phase() else {
        return false;
    };
    let (gvr, kind) = (&running.discovered.gvr, &running.discovered.kind);
    let lower = resource.to_ascii_lowercase();
    let (name, group) = lower.split_once('.').unwrap_or((&lower, &gvr.group));
    group == gvr.group && (name == gvr.plural || name == kind.to_ascii_lowercase()) || resource == gvr.to_string()
}

/// The sources of an informer in some of its clusters (none named: in all), sorted by cluster and namespace; all of them synced.
pub(super) fn synced_sources(
    board: &Board,
    informer: &InformerEntry,
    clusters: &BTreeSet<String>,
) -> Result<Vec<Arc<Source>>, ApiError> {
    let refuse = |why: &str| {
        Err(ApiError::new(
            Code::NotSynced,
            format!("informer {} is not synced: {why}", informer.name),
        ))
    };
    let mut sources = board.sources(&informer.name);
    match informer.phase() {
        InformerPhase::Discovering { trouble: None } => return refuse("it is starting"),
        InformerPhase::Discovering { trouble: Some(trouble) } => return refuse(&trouble),
        InformerPhase::Refused { reason } => return refuse(&reason),
        InformerPhase::Stopped => return refuse("it was stopped"),
        InformerPhase::Running(_) if sources.is_empty() => return refuse("it is starting"),
        InformerPhase::Running(_) => {}
    }
    if let Some(cluster) = clusters.first() {
        let message = format!("informer {} is in one cluster, which has no name: leave \"{cluster}\" out", informer.name);
        return Err(ApiError::new(Code::UnknownCluster, message));
    }
    if let Some(source) = sources.iter().find(|source| !source.is_synced()) {
        return refuse(&why_not_synced(source));
    }
    sources.sort_by(|one, other| place_of(one).cmp(&place_of(other)));
    Ok(sources)
}

fn place_of(source: &Source) -> (&str, Option<&str>, SourceId) {
    let info = source.info();
    (&info.cluster, info.namespace.as_deref(), source.id())
}

fn why_not_synced(source: &Source) -> String {
    let status = source.status();
    let listing = status.state == SourceState::Syncing && status.trouble.is_none();
    let why = if listing {
        "its first list is not complete yet"
    } else {
        status.state.as_str()
    };
    match status.trouble {
        Some(trouble) => format!("{why}: {trouble}"),
        None => why.to_owned(),
    }
}
