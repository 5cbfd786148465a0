//! How a plugin is told about the objects of each source: the manifest's rule for the source's type, and its counters.
//!
//! Looked up once per source, so that an event costs a comparison of numbers.

use std::sync::Arc;

use informant_cache::Catalog;
use informant_object::SourceId;

use crate::manifest::{EventRule, Manifest};
use crate::metrics::{EventCounters, PluginCounters};

/// Sources remembered. A source that is rebuilt gets another number, so the old ones have to go some time.
const SOURCES_MAX: usize = 256;

/// What there is to know of the sources whose events came by.
#[derive(Default)]
pub(crate) struct Rules {
    known: Vec<(SourceId, SourceRule)>,
    /// Where the last one asked for is: events come in runs.
    last: usize,
}

/// How events of one source are told.
#[derive(Clone)]
pub(crate) struct SourceRule {
    /// None: not at all.
    pub(crate) event: Option<Arc<EventRule>>,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) counters: EventCounters,
}

impl Rules {
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

    /// Another manifest holds from now on.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
    }

    fn find(&self, source: SourceId) -> Option<usize> {
        self.known.iter().position(|(id, _)| *id == source)
    }
}

impl SourceRule {
    fn new(source: SourceId, manifest: &Manifest, catalog: &Catalog, counters: &PluginCounters) -> SourceRule {
        // A source that is gone has no type any more; what is left of its events is told as of any type.
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
