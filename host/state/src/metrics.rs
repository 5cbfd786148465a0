//! The metrics of the state database.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Declares the series, in the order of the exposition.
macro_rules! series {
    ($($visible:vis $field:ident: $metric:ty, $name:literal, $help:literal;)*) => {
        /// The metrics of the state database. Clones share the same counters.
        #[derive(Clone, Debug, Default)]
        pub struct StateMetrics {
            $($visible $field: $metric,)*
            /// Which incarnations were dropped, by uid, if that is recorded.
            dropped: Option<DroppedUids>,
            /// How many sources use the series of a handler.
            users: Arc<Mutex<BTreeMap<HandlerLabel, usize>>>,
            /// When the transaction in progress began.
            writing: Arc<Mutex<Option<Instant>>>,
            /// Why the database cannot be opened or written.
            failure: Arc<Mutex<Option<String>>>,
        }

        impl StateMetrics {
            /// All of them in `registry`.
            pub fn register(registry: &mut Registry) -> Self {
                let metrics = Self::default();
                $(registry.register($name, $help, metrics.$field.clone());)*
                metrics
            }
        }
    };
}

series! {
    pub(crate) commits: Counter, "state_commits", "Transactions of the state database";
    pub(crate) commit_seconds: Counter<f64, AtomicU64>, "state_commit_seconds",
        "Time spent in transactions of the state database, including the flush";
    pub(crate) errors: Counter, "state_errors", "Failed transactions of the state database";
    pub(crate) failing: Gauge, "state_failing",
        "1 while the state database cannot be opened or written; events are delivered without being persisted";
    pub(crate) open_waits: Counter, "state_open_waits",
        "Durable sources whose opening was blocked on the disk for too long";
    pub(crate) set_aside: Counter, "state_set_aside",
        "Database files set aside because they were damaged, foreign or of another version";
    pub(crate) unreadable: Counter, "state_unreadable",
        "Stored states that could not be read, for example because of another key";
    pub(crate) file_bytes: Gauge, "state_file_bytes", "Size of the state database";
    queued: Family<InformerLabel, Gauge>, "state_queued", "Changes waiting to be persisted and delivered";
    behind: Family<InformerLabel, Counter>, "state_behind",
        "Changes dropped at the limit of waiting changes and replaced by a snapshot difference";
    unkept: Family<InformerLabel, Counter>, "state_unkept", "Changes delivered although they could not be persisted";
    untold: Family<InformerLabel, Counter>, "state_untold",
        "Changes that arrived after the state database was closed and were not delivered";
    void_deletes: Family<InformerLabel, Counter>, "state_void_deletes",
        "Stored deletes that were not delivered because the same object exists again";
    open: Family<HandlerLabel, Gauge>, "state_open_keys", "Keys that the plugin has not acknowledged";
    tombstones_dropped: Family<HandlerLabel, Counter>, "state_tombstones_dropped",
        "Deletes not stored for a plugin because of the limit";
    incarnations_dropped: Family<HandlerLabel, Counter>, "state_incarnations_dropped",
        "Deletes not stored for a plugin because of the limit for one name";
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InformerLabel {
    informer: String,
    cluster: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct HandlerLabel {
    informer: String,
    cluster: String,
    plugin: String,
}

impl HandlerLabel {
    fn new(informer: &str, cluster: &str, plugin: &str) -> Self {
        Self {
            informer: informer.to_owned(),
            cluster: cluster.to_owned(),
            plugin: plugin.to_owned(),
        }
    }
}

/// Uids, each with the handler for which its end was not stored.
type DroppedUids = Arc<Mutex<Vec<(HandlerLabel, String)>>>;

/// One source's share of a gauge that is the sum over several.
#[derive(Debug)]
pub(crate) struct GaugeShare {
    sum: Gauge,
    own: AtomicI64,
}

/// The metrics of one source.
#[derive(Debug)]
pub(crate) struct DurableSourceMetrics {
    of: InformerLabel,
    all: StateMetrics,
    /// Changes that wait to be persisted.
    pub(crate) queued: GaugeShare,
    /// Changes that were dropped at the limit of waiting changes.
    pub(crate) behind: Counter,
    /// Changes delivered although they could not be persisted.
    pub(crate) unkept: Counter,
    /// Changes that came after the database was closed.
    pub(crate) untold: Counter,
    /// Stored deletes of objects that exist again.
    pub(crate) void_deletes: Counter,
}

/// The metrics of one handler of one source.
#[derive(Debug)]
pub(crate) struct HandlerMetrics {
    of: HandlerLabel,
    all: StateMetrics,
    pub(crate) open: GaugeShare,
    pub(crate) tombstones_dropped: Counter,
    pub(crate) incarnations_dropped: Counter,
}

impl GaugeShare {
    fn of(sum: Gauge) -> Self {
        let own = AtomicI64::new(0);
        Self { sum, own }
    }

    pub(crate) fn set(&self, value: usize) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        let before = self.own.swap(value, Ordering::Relaxed);
        self.sum.inc_by(value - before);
    }
}

impl Drop for GaugeShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl StateMetrics {
    /// Records, without a limit, which incarnations are not stored.
    pub(crate) fn recording_dropped() -> Self {
        Self {
            dropped: Some(Arc::default()),
            ..Self::default()
        }
    }

    /// The uids of the ended incarnations that were not stored for a handler of an informer in the only cluster, if
    /// they are recorded.
    pub(crate) fn incarnations_dropped(&self, informer: &str, handler: &str) -> Vec<String> {
        let label = HandlerLabel::new(informer, "", handler);
        let Some(dropped) = &self.dropped else {
            return Vec::new();
        };
        let dropped = dropped.lock().unwrap_or_else(PoisonError::into_inner);
        let of_handler = dropped.iter().filter(|(of, _)| *of == label);
        of_handler.map(|(_, uid)| uid.clone()).collect()
    }

    /// For how long the transaction in progress has been running, including the flush; none if there is none.
    #[must_use]
    pub fn write_in_progress(&self) -> Option<Duration> {
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        writing.map(|began| began.elapsed())
    }

    /// Why the database cannot be opened or written at present; none if it can, or is not used.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_failure(&self, failure: Option<String>) {
        self.failing.set(failure.is_some().into());
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    pub(crate) fn set_writing(&self, began: Option<Instant>) {
        *self.writing.lock().unwrap_or_else(PoisonError::into_inner) = began;
    }

    pub(crate) fn source(&self, informer: &str, cluster: &str) -> DurableSourceMetrics {
        let label = InformerLabel {
            informer: informer.to_owned(),
            cluster: cluster.to_owned(),
        };
        DurableSourceMetrics {
            queued: GaugeShare::of(self.queued.get_or_create(&label).clone()),
            behind: self.behind.get_or_create(&label).clone(),
            unkept: self.unkept.get_or_create(&label).clone(),
            untold: self.untold.get_or_create(&label).clone(),
            void_deletes: self.void_deletes.get_or_create(&label).clone(),
            of: label,
            all: self.clone(),
        }
    }

    pub(crate) fn forget_informer(&self, informer: &str, cluster: &str) {
        let label = InformerLabel {
            informer: informer.to_owned(),
            cluster: cluster.to_owned(),
        };
        self.queued.remove(&label);
        self.behind.remove(&label);
        self.unkept.remove(&label);
        self.untold.remove(&label);
        self.void_deletes.remove(&label);
    }

    fn users(&self) -> MutexGuard<'_, BTreeMap<HandlerLabel, usize>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DurableSourceMetrics {
    /// The metrics of a handler. Its series are removed when the last of its sources drops them.
    pub(crate) fn handler(&self, name: &str) -> HandlerMetrics {
        let of = HandlerLabel::new(&self.of.informer, &self.of.cluster, name);
        let mut users = self.all.users();
        *users.entry(of.clone()).or_default() += 1;
        HandlerMetrics {
            open: GaugeShare::of(self.all.open.get_or_create(&of).clone()),
            tombstones_dropped: self.all.tombstones_dropped.get_or_create(&of).clone(),
            incarnations_dropped: self.all.incarnations_dropped.get_or_create(&of).clone(),
            of,
            all: self.all.clone(),
        }
    }

    pub(crate) fn unreadable(&self) {
        self.all.unreadable.inc();
    }
}

impl HandlerMetrics {
    /// Counts the end of an incarnation that is not stored.
    pub(crate) fn dropped(&self, limit: EndLimit, uid: Option<&str>) {
        match limit {
            EndLimit::OfKey => self.incarnations_dropped.inc(),
            EndLimit::OfHandler => self.tombstones_dropped.inc(),
        };
        if let (Some(dropped), Some(uid)) = (&self.all.dropped, uid) {
            let mut dropped = dropped.lock().unwrap_or_else(PoisonError::into_inner);
            dropped.push((self.of.clone(), uid.to_owned()));
        }
    }
}

impl Drop for HandlerMetrics {
    fn drop(&mut self) {
        let mut users = self.all.users();
        let Some(left) = users.get_mut(&self.of) else { return };
        *left -= 1;
        if *left == 0 {
            users.remove(&self.of);
            self.all.open.remove(&self.of);
            self.all.tombstones_dropped.remove(&self.of);
            self.all.incarnations_dropped.remove(&self.of);
        }
    }
}

impl StateMetrics {
    /// How many keys a plugin has not acknowledged; none if nothing is stored for it.
    #[must_use]
    pub fn open_keys_of(&self, informer: &str, cluster: &str, plugin: &str) -> Option<i64> {
        let open = self.open.get(&HandlerLabel::new(informer, cluster, plugin));
        open.map(|gauge| gauge.get())
    }
}

#[cfg(test)]
impl StateMetrics {
    pub(crate) fn queued_of(&self, informer: &str, cluster: &str) -> i64 {
        self.source(informer, cluster).queued.sum.get()
    }
}

/// The limit because of which the end of an incarnation is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndLimit {
    /// There are `INCARNATIONS_MAX` of its key.
    OfKey,
    /// There are `TOMBSTONES_MAX`.
    OfHandler,
}
