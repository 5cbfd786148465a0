//! Metrics of plugins: collectors over the plugins that live.
//!
//! ```text
//! plugin ──Arc──▶ its SeriesSet ◀──Weak── Live, the collector of all plugins ◀── scrape
//! ```
//!
//! A set has the series of one plugin, without its name. The last handle of a set that is dropped ends the series;
//! while a plugin is replaced by another of the same name, both have the same set. A family that no plugin has a series
//! of is not in the output.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Unit;

use crate::sync::lock;

/// The series of one plugin.
pub(crate) trait SeriesSet: Default + Send + Sync + 'static {
    /// Their families, in the order of the output.
    const FAMILIES: &'static [FamilyOf<Self>];
}

/// A family of series, and which of a set belong to it.
pub(crate) struct FamilyOf<S> {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) unit: Option<Unit>,
    pub(crate) series: fn(&S) -> &dyn Series,
}

/// What one plugin has of a family.
pub(crate) trait Series: Send + Sync {
    fn metric_type(&self) -> MetricType;

    fn is_empty(&self) -> bool {
        false
    }

    /// Writes the series of `plugin`.
    fn encode_of(&self, plugin: &str, family: &mut MetricEncoder<'_>) -> fmt::Result;
}

/// The sets of all live plugins. Cheap to clone.
pub(crate) struct Live<S>(Arc<Mutex<BTreeMap<Arc<str>, Weak<S>>>>);

/// A metric whose series begins when it is first used.
pub(crate) struct Lazy<M>(OnceLock<M>);

/// A metric with labels besides the plugin's name; each combination of values is a series that begins when it is first
/// used.
pub(crate) struct Labeled<const N: usize, M> {
    names: [&'static str; N],
    rows: Mutex<BTreeMap<[Cow<'static, str>; N], M>>,
}

impl<S> FamilyOf<S> {
    pub(crate) const fn new(name: &'static str, help: &'static str, series: fn(&S) -> &dyn Series) -> FamilyOf<S> {
        FamilyOf {
            name,
            help,
            unit: None,
            series,
        }
    }

    pub(crate) const fn with_unit(
        name: &'static str,
        help: &'static str,
        unit: Unit,
        series: fn(&S) -> &dyn Series,
    ) -> FamilyOf<S> {
        FamilyOf {
            name,
            help,
            unit: Some(unit),
            series,
        }
    }
}

impl<S> Live<S> {
    /// The set of `plugin`. `make` makes it if no plugin of that name has one.
    pub(crate) fn of_or_make(&self, plugin: &Arc<str>, make: impl FnOnce() -> S) -> Arc<S> {
        let mut sets = self.lock();
        if let Some(set) = sets.get(plugin).and_then(Weak::upgrade) {
            return set;
        }
        sets.retain(|_, set| set.strong_count() > 0);
        let set = Arc::new(make());
        sets.insert(Arc::clone(plugin), Arc::downgrade(&set));
        set
    }

    /// The live plugins and their sets, by name.
    pub(crate) fn all(&self) -> Vec<(Arc<str>, Arc<S>)> {
        let sets = self.lock();
        let live = sets
            .iter()
            .filter_map(|(plugin, set)| Some((Arc::clone(plugin), set.upgrade()?)));
        live.collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Weak<S>>> {
        // Changed by single inserts and removes: consistent after any panic.
        lock(&self.0)
    }
}

impl<S: SeriesSet> Live<S> {
    pub(crate) fn of(&self, plugin: &Arc<str>) -> Arc<S> {
        self.of_or_make(plugin, S::default)
    }
}

impl<S> Default for Live<S> {
    fn default() -> Live<S> {
        Live(Arc::default())
    }
}

impl<S> Clone for Live<S> {
    fn clone(&self) -> Live<S> {
        Live(Arc::clone(&self.0))
    }
}

impl<S> fmt::Debug for Live<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Live").finish_non_exhaustive()
    }
}

impl<S: SeriesSet> Collector for Live<S> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let plugins = self.all();
        for family in S::FAMILIES {
            let members = plugins.iter().filter(|(_, set)| !(family.series)(set).is_empty());
            let members: Vec<&(Arc<str>, Arc<S>)> = members.collect();
            let Some((_, first)) = members.first() else { continue };
            let kind = (family.series)(first).metric_type();
            let mut encoder = encoder.encode_descriptor(family.name, family.help, family.unit.as_ref(), kind)?;
            for (plugin, set) in members {
                (family.series)(set).encode_of(plugin, &mut encoder)?;
            }
        }
        Ok(())
    }
}

/// A single series.
macro_rules! single {
    ($($metric:ty),*) => {$(
        impl Series for $metric {
            fn metric_type(&self) -> MetricType {
                <$metric as TypedMetric>::TYPE
            }

            fn encode_of(&self, plugin: &str, family: &mut MetricEncoder<'_>) -> fmt::Result {
                self.encode(family.encode_family(&[("plugin", plugin)])?)
            }
        }
    )*};
}

single!(Counter, Gauge, Histogram);

impl<M: Series + Default> Lazy<M> {
    pub(crate) fn get(&self) -> &M {
        self.0.get_or_init(M::default)
    }
}

impl<M> Lazy<M> {
    pub(crate) fn get_or_make(&self, make: fn() -> M) -> &M {
        self.0.get_or_init(make)
    }
}

impl<M> Default for Lazy<M> {
    fn default() -> Lazy<M> {
        Lazy(OnceLock::new())
    }
}

impl<M: Series + TypedMetric> Series for Lazy<M> {
    fn metric_type(&self) -> MetricType {
        M::TYPE
    }

    fn is_empty(&self) -> bool {
        self.0.get().is_none()
    }

    fn encode_of(&self, plugin: &str, family: &mut MetricEncoder<'_>) -> fmt::Result {
        self.0.get().map_or(Ok(()), |metric| metric.encode_of(plugin, family))
    }
}

impl<const N: usize, M: Clone + Default> Labeled<N, M> {
    /// With these names of labels.
    pub(crate) fn new(names: [&'static str; N]) -> Labeled<N, M> {
        Labeled {
            names,
            rows: Mutex::default(),
        }
    }

    /// The series with these values of the labels.
    pub(crate) fn of(&self, values: [impl Into<Cow<'static, str>>; N]) -> M {
        let mut rows = self.lock();
        rows.entry(values.map(Into::into)).or_default().clone()
    }
}

impl<const N: usize> Labeled<N, Counter> {
    /// The sum of all series with these values of the first labels.
    pub(crate) fn sum(&self, first: &[&str]) -> u64 {
        let rows = self.lock();
        let is_meant = |values: &[Cow<'static, str>; N]| values.iter().zip(first).all(|(value, meant)| value == meant);
        rows.iter()
            .filter(|(values, _)| is_meant(values))
            .map(|(_, counter)| counter.get())
            .sum()
    }
}

impl<const N: usize, M> Labeled<N, M> {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<[Cow<'static, str>; N], M>> {
        // Changed by single inserts: consistent after any panic.
        lock(&self.rows)
    }
}

impl<const N: usize, M: EncodeMetric + TypedMetric + Send + Sync> Series for Labeled<N, M> {
    fn metric_type(&self) -> MetricType {
        M::TYPE
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn encode_of(&self, plugin: &str, family: &mut MetricEncoder<'_>) -> fmt::Result {
        for (values, metric) in &*self.lock() {
            let mut labels = vec![("plugin", plugin)];
            labels.extend(self.names.iter().copied().zip(values.iter().map(|value| &**value)));
            metric.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
