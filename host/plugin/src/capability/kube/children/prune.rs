//! Which objects belong to an owner and are no longer among its children.

use std::collections::BTreeSet;
use std::sync::Arc;

use informant_cache::{NAMESPACE_INDEX, Source, SourceState};
use informant_object::{Key, Object, SourceId};

use super::metadata::{OWNER_UID_LABEL, PLUGIN_LABEL, belongs_to, is_terminating};
use super::{OwnerObject, address};
use crate::bindings::informant::plugin::kube::Address;
use crate::capability::kube::KubeCaller;
use crate::capability::kube::api::{KubeAction, KubeDelete};
use crate::component::manifest::Manifest;

impl KubeCaller {
    /// The objects that are to be deleted, each with its source. Errors: why the cache may lack something.
    pub(super) fn prunable(
        &self,
        manifest: &Manifest,
        owner: &OwnerObject,
        wanted: &BTreeSet<(SourceId, Key)>,
    ) -> Result<Vec<(Arc<Source>, Object)>, String> {
        let (plugin, cluster) = (&self.plugin, &owner.source.info().cluster);
        if plugin.is_behind(owner.source.id(), owner.key.as_ref()) {
            return Err("the cache has not seen all earlier writes for this object".to_owned());
        }
        let mut unwanted = Vec::new();
        for rule in manifest.reconciler.iter().flat_map(|rules| &rules.owns) {
            let kind = format!("{} {}", rule.api_version, rule.kind);
            let sources = plugin.cache.sources_of_kind(cluster, &rule.api_version, &rule.kind);
            if sources.is_empty() {
                return Err(format!("no informer of the plugin reads {kind}"));
            }
            for source in sources {
                check(&source).map_err(|problem| format!("{kind}: {problem}"))?;
                let is_wanted = |object: &Object| wanted.contains(&(source.id(), object.key().to_key()));
                let found = labeled(&source, owner, &plugin.plugin);
                let found = found
                    .into_iter()
                    .filter(|object| !is_wanted(object) && !is_terminating(object));
                unwanted.extend(found.map(|object| (Arc::clone(&source), object)));
            }
        }
        Ok(unwanted)
    }
}

/// Whether the cache has all objects of a source, as they are.
fn check(source: &Source) -> Result<(), &'static str> {
    match source.state() {
        SourceState::Live if source.info().partial => Err("a selector leaves objects out"),
        SourceState::Live if source.snapshot().heads() > 0 => Err("the cache has only the heads of some objects"),
        SourceState::Live => Ok(()),
        _ => Err("the source is not live"),
    }
}

/// The objects of a source that the plugin has made for an owner.
fn labeled(source: &Source, owner: &OwnerObject, plugin: &str) -> Vec<Object> {
    let snapshot = source.snapshot();
    let is_its = |object: &&Object| {
        object.label(OWNER_UID_LABEL).is_some_and(|uid| *uid == *owner.uid)
            && object.label(PLUGIN_LABEL).is_some_and(|name| *name == *plugin)
            && belongs_to(object, &owner.uid)
    };
    // What is in a namespace owns nothing elsewhere.
    match owner.key.namespace() {
        "" => snapshot.iter().filter(is_its).cloned().collect(),
        namespace => {
            let objects = snapshot.by_index(NAMESPACE_INDEX, namespace);
            objects.into_iter().flatten().filter(is_its).cloned().collect()
        }
    }
}

/// Deletes exactly the state that was seen.
pub(super) fn delete(source: &Source, object: &Object) -> (Address, KubeAction) {
    let options = KubeDelete {
        uid: object.uid().to_owned(),
        resource_version: object.version().as_str().to_owned(),
        ..KubeDelete::default()
    };
    (address(source, object.key()), KubeAction::Delete(options))
}
