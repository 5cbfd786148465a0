//! Which objects belong to an owner and are no longer among its children.

use std::collections::BTreeSet;
use std::sync::Arc;

use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_cache::{NAMESPACE_INDEX, Snapshot, Source, SourceState};
use informant_object::{Key, Object};

use super::metadata::{OWNER_UID_LABEL, PLUGIN_LABEL, belongs_to, is_terminating};
use super::{ChildId, OwnerObject, address};
use crate::bindings::informant::plugin::kube::Address;
use crate::capability::kube::KubeCaller;
use crate::capability::kube::api::{KubeAction, KubeDelete, KubePropagation};
use crate::component::manifest::Manifest;

/// Objects that are looked at before other calls get a turn: 1,024.
const OBJECTS_BETWEEN_YIELDS_MAX: usize = 1_024;

/// Why nothing is deleted: the cache may lack something.
pub(super) struct PruneSkipped {
    pub(super) reason: String,
    /// It will be over without a change of the configuration.
    pub(super) is_passing: bool,
}

impl KubeCaller {
    /// The objects that are to be deleted, each with its source.
    pub(super) async fn prunable(
        &self,
        manifest: &Manifest,
        owner: &OwnerObject,
        wanted: &BTreeSet<ChildId>,
    ) -> Result<Vec<(Arc<Source>, Object)>, PruneSkipped> {
        let (plugin, cluster) = (&self.plugin, &owner.source.info().cluster);
        let ignores_gaps = seeded_bug(SeededBug::PrunedByPartialView);
        if plugin.is_behind(owner.source.id(), owner.key.as_ref()) && !ignores_gaps {
            return Err(PruneSkipped {
                reason: "the cache has not seen all earlier writes for this object".to_owned(),
                is_passing: true,
            });
        }
        let (mut unwanted, mut seen) = (Vec::new(), wanted.clone());
        for rule in manifest.reconciler.iter().flat_map(|rules| &rules.owns) {
            let kind = format!("{} {}", rule.api_version, rule.kind);
            let mut sources = plugin.cache.sources_of_kind(cluster, &rule.api_version, &rule.kind);
            let of_owner = owner.key.namespace();
            sources.retain(|source| source.info().namespace.as_ref().is_none_or(|own| *own == *of_owner));
            if sources.is_empty() {
                return Err(PruneSkipped {
                    reason: format!("no informer of the plugin reads all {kind} that the object may own"),
                    is_passing: false,
                });
            }
            for source in sources {
                check(&source).map_err(|problem| PruneSkipped {
                    reason: format!("{kind}: {problem}"),
                    is_passing: !source.info().partial,
                })?;
                for object in labeled(&source.snapshot(), owner, &plugin.plugin).await {
                    let id = (rule.api_version.clone(), rule.kind.clone(), object.key().to_key());
                    if !is_terminating(&object) && seen.insert(id) {
                        unwanted.push((Arc::clone(&source), object));
                    }
                }
            }
        }
        Ok(unwanted)
    }
}

pub(super) fn is_live(source: &Source) -> bool {
    source.state() == SourceState::Live
}

/// Whether the cache has all objects of a source, as they are.
fn check(source: &Source) -> Result<(), &'static str> {
    match () {
        () if seeded_bug(SeededBug::PrunedByPartialView) => Ok(()),
        () if !is_live(source) => Err("the source is not live"),
        () if source.info().partial => Err("a selector leaves objects out"),
        () if source.snapshot().heads() > 0 => Err("the cache has only the heads of some objects"),
        () => Ok(()),
    }
}

/// The objects that the plugin has made for an owner.
async fn labeled(snapshot: &Snapshot, owner: &OwnerObject, plugin: &str) -> Vec<Object> {
    let is_its = |object: &&Object| {
        object.label(OWNER_UID_LABEL).is_some_and(|uid| *uid == *owner.uid)
            && object.label(PLUGIN_LABEL).is_some_and(|name| *name == *plugin)
            && belongs_to(object, &owner.uid)
    };
    let mut found = Vec::new();
    // What is in a namespace owns nothing elsewhere.
    if !owner.key.namespace().is_empty() {
        let objects = snapshot.by_index(NAMESPACE_INDEX, owner.key.namespace());
        found.extend(objects.into_iter().flatten().filter(is_its).cloned());
        return found;
    }
    let mut after: Option<Key> = None;
    loop {
        let chunk = snapshot
            .after(after.as_ref().map(Key::as_ref))
            .take(OBJECTS_BETWEEN_YIELDS_MAX);
        let mut last = None;
        let chunk = chunk.inspect(|object| last = Some(object.key().to_key()));
        found.extend(chunk.filter(is_its).cloned());
        let Some(last) = last else { return found };
        after = Some(last);
        tokio::task::yield_now().await;
    }
}

/// Deletes exactly the state that was seen, with what belongs to it.
pub(super) fn delete(source: &Source, object: &Object) -> (Address, KubeAction) {
    let options = KubeDelete {
        uid: object.uid().to_owned(),
        resource_version: object.version().as_str().to_owned(),
        // The default of Jobs leaves their pods behind.
        propagation: Some(KubePropagation::Background),
        ..KubeDelete::default()
    };
    (address(source, object.key()), KubeAction::Delete(options))
}
