//! What `check --offline` knows of resources: those that Kubernetes itself serves.

use std::collections::BTreeMap;
use std::iter;

use informant_apiserver::{Kind, built_in_kinds};
use informant_config::{Config, Resources};
use informant_informer::Discovered;
use informant_spec::GroupVersionResource;

/// The resource of each informer that watches a built-in one.
pub(super) fn resources(config: &Config) -> BTreeMap<String, Discovered> {
    let known: Vec<Discovered> = built_in_kinds().map(as_discovered).collect();
    let of_informers = config.informers.iter().filter_map(|(informer, section)| {
        let Resources::One(name) = &section.resource.value else {
            return None;
        };
        let found = known.iter().find(|known| known.is_meant_by(name))?;
        Some((informer.clone(), found.clone()))
    });
    of_informers.collect()
}

fn as_discovered(kind: Kind) -> Discovered {
    Discovered {
        gvr: GroupVersionResource::new(kind.group, kind.version, kind.plural),
        kind: kind.kind,
        namespaced: kind.namespaced,
        other_names: iter::once(kind.singular).chain(kind.short_names).collect(),
    }
}
