//! What a section's `resource` turned out to be, and the informer that is made of it.

use std::fmt;

use informant_informer::{Discovered, GroupVersionResource, InformerSpec, ReflectorOptions, Served, SourceSpec};

use crate::config::InformerSection;
use crate::daemon::board::{OwnPlace, RunningInformer};

/// What a section's `resource` turned out to be.
#[derive(Debug)]
pub(crate) enum Found {
    One(Discovered),
    Several(Served),
}

impl Found {
    pub(super) fn one(self) -> Option<Discovered> {
        match self {
            Self::One(discovered) => Some(discovered),
            Self::Several(_) => None,
        }
    }

    /// What is known of a running informer's, less what `section` excludes.
    pub(super) fn of(running: &RunningInformer, section: &InformerSection) -> Self {
        match &running.discovered {
            Some(discovered) => Self::One(discovered.clone()),
            None => {
                let mut resources = running.shared.spec().resources.unwrap_or_default();
                resources.retain(|_, found| !section.exclude.covers(&found.gvr));
                Self::Several(Served {
                    resources,
                    ..Served::default()
                })
            }
        }
    }
}

impl fmt::Display for Found {
    /// `v1/pods (Pod)`, `12 resources`
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(found) => write!(out, "{} ({})", found.gvr, found.kind),
            Self::Several(served) => write!(out, "{} resources", served.resources.len()),
        }
    }
}

/// What an informer of `section` asks for, now that its resource is known; kept nowhere.
pub(crate) fn spec(place: &OwnPlace, section: &InformerSection, found: &Found) -> InformerSpec {
    let (one, resources) = match found {
        Found::One(discovered) => (discovered.clone(), None),
        // What each of several is stands with it.
        Found::Several(served) => {
            let none = Discovered {
                gvr: GroupVersionResource::new("", "", ""),
                kind: String::new(),
                namespaced: true,
            };
            (none, Some(served.resources.clone()))
        }
    };
    let source = SourceSpec {
        informer: place.name().to_owned(),
        cluster: place.cluster.clone(),
        resource: one.gvr,
        kind: one.kind,
        namespaced: one.namespaced,
        namespace: None,
        label_selector: section.label_selector.clone(),
        field_selector: section.field_selector.clone(),
        drop: section.drop.clone(),
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
    }
}
