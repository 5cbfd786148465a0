//! The manifest's event rule for each source, and its counters.
//!
//! Resolved once per source, so that an event costs one comparison of numbers.

use std::sync::Arc;

use informant_cache::Catalog;
use informant_object::SourceId;

use crate::component::manifest::{EventRule, Manifest};
use crate::metrics::{EventCounters, PluginCounters};

/// Sources remembered. A recreated source has another number, so old ones must be dropped at some point.
const SOURCES_MAX: usize = 256;

/// The rules of the sources seen so far.
#[derive(Default)]
pub(crate) struct SourceRules {
    known: Vec<(SourceId, SourceRule)>,
    /// The position of the last one looked up: events come in runs.
    last: usize,
}

/// How events of one source are delivered.
#[derive(Clone)]
pub(crate) struct SourceRule {
    /// None: not delivered.
    pub(crate) event: Option<Arc<EventRule>>,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) counters: EventCounters,
}

impl SourceRules {
    /// The rule of `source`.
    pub(crate) fn of(
        &mut self,
        source: SourceId,
        manifest: &Manifest,
        catalog: &Catalog,
        counters: &PluginCounters,
    ) -> &SourceRule {
        if self.known.get(self.last).is_none_or(|(id, _)| *id != source) {
            self.last = self.find(source).unwrap_or_else(|| {
                if self.known.len() == SOURCES_MAX {
                    self.known.clear();
                }
                self.known
                    .push((source, SourceRule::new(source, manifest, catalog, counters)));
                self.known.len() - 1
            });
        }
        &self.known[self.last].1
    }

    /// Forgets all rules: the manifest has changed.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
    }

    fn find(&self, source: SourceId) -> Option<usize> {
        self.known.iter().position(|(id, _)| *id == source)
    }
}

impl SourceRule {
    fn new(source: SourceId, manifest: &Manifest, catalog: &Catalog, counters: &PluginCounters) -> SourceRule {
        // A removed source no longer has a type; its remaining events are delivered by the rule for any type.
        let info = catalog.source(source);
        let (informer, api_version, kind) = info.as_ref().map_or(("", "", ""), |source| {
            let info = source.info();
            (&info.informer, &info.api_version, &info.kind)
        });
        SourceRule {
            event: manifest.event_rule(api_version, kind).cloned().map(Arc::new),
            counters: counters.events_of(informer),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        }
    }
}
