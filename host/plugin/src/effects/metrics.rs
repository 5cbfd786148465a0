//! Metrics of effects that were withheld in dry run, or refused because another replica acts.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use crate::observed::EffectKind;
use crate::series::{FamilyOf, Labeled, Lazy, SeriesSet};

pub(crate) struct EffectSeries {
    made: Labeled<2, Counter>,
    effects: Labeled<1, Counter>,
    dropped: Lazy<Counter>,
    refused: Labeled<1, Counter>,
    dry_run: Lazy<Gauge>,
}

impl Default for EffectSeries {
    fn default() -> EffectSeries {
        EffectSeries {
            made: Labeled::new(["kind", "result"]),
            effects: Labeled::new(["kind"]),
            dropped: Lazy::default(),
            refused: Labeled::new(["kind"]),
            dry_run: Lazy::default(),
        }
    }
}

impl SeriesSet for EffectSeries {
    const FAMILIES: &'static [FamilyOf<EffectSeries>] = &[
        FamilyOf::new(
            "plugin_effects",
            "Effects of plugins that others may notice, by kind and whether they succeeded",
            |of| &of.made,
        ),
        FamilyOf::new(
            "plugin_effects_withheld",
            "Effects that plugins in dry run would have had, by kind",
            |of| &of.effects,
        ),
        FamilyOf::new(
            "plugin_effects_dropped",
            "Withheld effects that are no longer listed, because there were more",
            |of| &of.dropped,
        ),
        FamilyOf::new(
            "plugin_effects_refused",
            "Effects of plugins that were refused because another replica acts, by kind",
            |of| &of.refused,
        ),
        FamilyOf::new("plugin_dry_run", "1 while a plugin is in dry run, 0 after it", |of| {
            &of.dry_run
        }),
    ];
}

impl EffectSeries {
    pub(super) fn count_made(&self, kind: EffectKind, is_ok: bool) {
        self.made.of([kind.as_str(), if is_ok { "ok" } else { "error" }]).inc();
    }

    /// Effects so far.
    pub(super) fn made_so_far(&self) -> u64 {
        self.made.sum(&[])
    }

    pub(super) fn count(&self, kind: EffectKind) {
        self.effects.of([kind.as_str()]).inc();
    }

    pub(super) fn count_dropped(&self) {
        self.dropped.get().inc();
    }

    pub(super) fn count_refused(&self, kind: &'static str) {
        self.refused.of([kind]).inc();
    }

    pub(super) fn show(&self, is_dry_run: bool) {
        self.dry_run.get().set(i64::from(is_dry_run));
    }
}
