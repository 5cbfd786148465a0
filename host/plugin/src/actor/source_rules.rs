//! The event rule for each source, by the manifest and the plugin's section, and its counters.
//!
//! Resolved once per source, so that an event costs one comparison of numbers.

use std::sync::Arc;

use informant_cache::Catalog;
use informant_cache::listener::{ChangedSelection, Selected};
use informant_object::{Object, SourceId};
use informant_spec::EventSelection;

use crate::component::manifest::{EventRule, Manifest};
use crate::metrics::{EventCounters, PluginCounters};

/// Sources remembered. A recreated source has another number, so old ones must be dropped at some point.
const SOURCES_MAX: usize = 256;

/// Earlier selections remembered, so that what their events left behind is deleted. Above it the oldest is forgotten.
const EARLIER_SELECTIONS_MAX: usize = 16;

#[derive(Clone)]
pub(crate) struct SourceRules {
    known: Vec<(SourceId, SourceRule)>,
    /// The position of the last one looked up: events come in runs.
    last: usize,
    section: Arc<SectionSelection>,
}

/// How events of one source are delivered.
#[derive(Clone)]
pub(crate) struct SourceRule {
    /// None: not delivered.
    pub(crate) event: Option<Arc<EventRule>>,
    pub(crate) objects: SelectedObjects,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) counters: EventCounters,
}

/// The objects of one source that the handler is called for: those that both its manifest and its section select.
#[derive(Clone, Debug, Default)]
pub(crate) struct SelectedObjects {
    manifest: EventSelection,
    section: Arc<SectionSelection>,
}

/// What the plugin's section of config.toml selects, and what it selected before.
#[derive(Clone, Debug, Default)]
struct SectionSelection {
    now: EventSelection,
    /// Oldest first.
    earlier: Vec<EventSelection>,
}

impl SourceRules {
    pub(crate) fn new(selection: EventSelection) -> SourceRules {
        SourceRules {
            known: Vec::new(),
            last: 0,
            section: Arc::new(SectionSelection {
                now: selection,
                earlier: Vec::new(),
            }),
        }
    }

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
                let rule = SourceRule::new(source, manifest, &self.section, catalog, counters);
                self.known.push((source, rule));
                self.known.len() - 1
            });
        }
        &self.known[self.last].1
    }

    /// Forgets all rules: the manifest has changed.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
    }

    /// Applies the selection of the plugin's section. Returns whether that is another one.
    pub(crate) fn select(&mut self, selection: &EventSelection) -> bool {
        if *selection == self.section.now {
            return false;
        }
        let SectionSelection { now, mut earlier } = SectionSelection::clone(&self.section);
        earlier.retain(|one| *one != now);
        earlier.push(now);
        let excess = earlier.len().saturating_sub(EARLIER_SELECTIONS_MAX);
        earlier.drain(..excess);
        self.section = Arc::new(SectionSelection {
            now: selection.clone(),
            earlier,
        });
        self.forget();
        true
    }

    fn find(&self, source: SourceId) -> Option<usize> {
        self.known.iter().position(|(id, _)| *id == source)
    }
}

impl SourceRule {
    fn new(
        source: SourceId,
        manifest: &Manifest,
        section: &Arc<SectionSelection>,
        catalog: &Catalog,
        counters: &PluginCounters,
    ) -> SourceRule {
        // A removed source no longer has a type; its remaining events are delivered by the rule for any type.
        let info = catalog.source(source);
        let (informer, api_version, kind) = info.as_ref().map_or(("", "", ""), |source| {
            let info = source.info();
            (&info.informer, &info.api_version, &info.kind)
        });
        let event = manifest.event_rule(api_version, kind);
        SourceRule {
            objects: SelectedObjects {
                manifest: event.map(EventRule::selection).unwrap_or_default(),
                section: Arc::clone(section),
            },
            event: event.cloned().map(Arc::new),
            counters: counters.events_of(informer),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        }
    }
}

impl SelectedObjects {
    /// Whether the handler is called for `object`.
    pub(crate) fn contain(&self, object: &Object) -> bool {
        self.manifest_selects(object) && self.section.now.selects(object)
    }

    /// Whether it would be, but for the plugin's section.
    pub(crate) fn manifest_selects(&self, object: &Object) -> bool {
        self.manifest.selects(object)
    }

    /// Whether the handler may have been called for an object in `namespace`.
    pub(crate) fn may_have_contained(&self, namespace: &str) -> bool {
        let selects = |selection: &EventSelection| selection.selects_namespace(namespace);
        selects(&self.manifest) && (selects(&self.section.now) || self.section.earlier.iter().any(selects))
    }
}

impl ChangedSelection for SelectedObjects {
    fn selects(&self, object: &Object) -> Selected {
        let SectionSelection { now, earlier } = &*self.section;
        let in_manifest = self.manifest_selects(object);
        let of_section = |selection: &EventSelection| in_manifest && selection.selects(object);
        Selected {
            before: earlier.last().is_some_and(of_section),
            ever: earlier.iter().any(of_section),
            now: of_section(now),
        }
    }
}
