//! Metrics of dry runs.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::EffectKind;
use crate::metrics::PluginLabels;

/// The series of all plugins. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct EffectFamilies {
    effects: Family<KindLabels, Counter>,
    dropped: Family<PluginLabels, Counter>,
    dry_run: Family<PluginLabels, Gauge>,
}

/// The series of one plugin. They begin with its first dry run.
pub(crate) struct EffectCounters {
    families: EffectFamilies,
    plugin: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    plugin: String,
    kind: &'static str,
}

impl EffectFamilies {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "plugin_effects_withheld",
            "Effects that plugins in dry run would have had, by kind",
            self.effects.clone(),
        );
        registry.register(
            "plugin_effects_dropped",
            "Withheld effects that are no longer listed, because there were more",
            self.dropped.clone(),
        );
        registry.register(
            "plugin_dry_run",
            "1 while a plugin is in dry run, 0 after it",
            self.dry_run.clone(),
        );
    }

    pub(crate) fn of(&self, plugin: &Arc<str>) -> EffectCounters {
        EffectCounters {
            families: self.clone(),
            plugin: Arc::clone(plugin),
        }
    }

    /// Removes the series of a plugin.
    pub(crate) fn forget(&self, plugin: &str) {
        let labels = PluginLabels::of(plugin);
        self.dropped.remove(&labels);
        self.dry_run.remove(&labels);
        for kind in EffectKind::ALL {
            let plugin = plugin.to_owned();
            let kind = kind.as_str();
            self.effects.remove(&KindLabels { plugin, kind });
        }
    }
}

impl EffectCounters {
    pub(super) fn count(&self, kind: EffectKind) {
        let (plugin, kind) = (self.plugin.to_string(), kind.as_str());
        self.families.effects.get_or_create(&KindLabels { plugin, kind }).inc();
    }

    pub(super) fn count_dropped(&self) {
        self.families
            .dropped
            .get_or_create(&PluginLabels::of(&self.plugin))
            .inc();
    }

    pub(super) fn show(&self, is_dry_run: bool) {
        let gauge = self
            .families
            .dry_run
            .get_or_create(&PluginLabels::of(&self.plugin))
            .clone();
        gauge.set(i64::from(is_dry_run));
    }
}
