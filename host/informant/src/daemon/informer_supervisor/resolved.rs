//! A section's `resource` after discovery, and the informer spec that results from it.

use std::fmt;

use informant_cache::listener::HeldShards;
use informant_cache::{ShardBy, ShardFilter};
use informant_config::{InformerSection, ShardKey};
use informant_informer::{Discovered, InformerSpec, ReflectorOptions, ServedResources, SourceSpec};
use informant_spec::GroupVersionResource;

use crate::daemon::status_registry::{RunningInformer, StatusHandle};

/// A section's `resource` after discovery.
#[derive(Debug)]
pub(crate) enum ResolvedResource {
    One(Discovered),
    Several(ServedResources),
}

impl ResolvedResource {
    pub(super) fn one(self) -> Option<Discovered> {
        match self {
            Self::One(discovered) => Some(discovered),
            Self::Several(_) => None,
        }
    }

    /// The resources of a running informer, without those that `section` excludes.
    pub(super) fn of(running: &RunningInformer, section: &InformerSection) -> Self {
        match &running.discovered {
            Some(discovered) => Self::One(discovered.clone()),
            None => {
                let mut resources = running.shared.spec().resources.unwrap_or_default();
                resources.retain(|_, found| !section.exclude.covers(&found.gvr));
                Self::Several(ServedResources {
                    resources,
                    ..ServedResources::default()
                })
            }
        }
    }
}

impl fmt::Display for ResolvedResource {
    /// `v1/pods (Pod)`, `12 resources`
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(found) => write!(out, "{} ({})", found.gvr, found.kind),
            Self::Several(served) => write!(out, "{} resources", served.resources.len()),
        }
    }
}

/// The spec of an informer for `section` with a discovered resource, without persistence.
pub(crate) fn spec(status: &StatusHandle, section: &InformerSection, found: &ResolvedResource) -> InformerSpec {
    let (one, resources) = match found {
        ResolvedResource::One(discovered) => (discovered.clone(), None),
        // With a pattern, `resources` describes each resource.
        ResolvedResource::Several(served) => {
            let none = Discovered {
                gvr: GroupVersionResource::new("", "", ""),
                kind: String::new(),
                namespaced: true,
                other_names: Vec::new(),
            };
            (none, Some(served.resources.clone()))
        }
    };
    let source = SourceSpec {
        informer: status.name().to_owned(),
        cluster: status.cluster.clone(),
        resource: one.gvr,
        kind: one.kind,
        of_pattern: resources.is_some(),
        namespaced: one.namespaced,
        namespace: None,
        label_selector: section.label_selector.clone(),
        field_selector: section.field_selector.clone(),
        shards: shards(status, section),
        drop: section.drop.clone(),
        digest: section.digest.clone(),
        keep_managed_fields: section.keep_managed_fields,
        metadata_only: section.metadata_only,
        indexes: section.indexes.clone(),
        relist_notify_unchanged: section.relist_notify_unchanged,
        resync: section.resync,
    };
    InformerSpec {
        source,
        resources,
        namespaces: section.namespaces.iter().cloned().collect(),
        reflector: ReflectorOptions {
            watch_list: section.watch_list,
            ..ReflectorOptions::default()
        },
        durable: None,
        cache_bytes_max: section.cache_bytes_max,
    }
}

/// What of the objects this replica reads; none: all.
fn shards(status: &StatusHandle, section: &InformerSection) -> Option<ShardFilter> {
    let by = match section.shard_by? {
        // Where the objects are that it contains.
        ShardKey::Namespace if section.resource.value.is_namespaces() => ShardBy::Name,
        ShardKey::Namespace => ShardBy::Namespace,
        ShardKey::Name => ShardBy::NamespaceAndName,
    };
    let HeldShards { division, shards } = *status.read_shards().borrow();
    Some(ShardFilter { division, by, shards })
}
