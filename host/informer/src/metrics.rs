//! The metrics of the informer crate: [`InformerMetrics`], registered once, and the handles of each source.
//!
//! Labels are resolved once, when a source starts ([`SourceMetrics`]); on the event path only atomics are touched.
//! Sources of one informer in one cluster share their series: counters add up, gauges are sums over these sources (so
//! each source remembers its share), and `informer_synced` is 1 only while all of them are synced. A stopped source
//! takes back its share of gauges; gauges without sources are removed. Counters continue when an informer starts again,
//! and are removed when it [is forgotten](InformerMetrics::forget_informer) and its last source has ended.

mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informant_cache::SourceState;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

pub(crate) use source::{EventCounts, SourceMetrics, StagedBytes};

/// All series of the informer crate. Cheap to clone; the registry adds the prefix (`informant_`).
#[derive(Debug, Clone, Default)]
pub struct InformerMetrics(Arc<Series>);

/// Which informer, in which cluster. To Prometheus an empty `cluster` is the same as no label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub(crate) struct InformerLabels {
    informer: String,
    cluster: String,
}

/// An informer's labels and one more.
type WordLabels = (InformerLabels, [(&'static str, String); 1]);

impl InformerLabels {
    fn new(informer: &str, cluster: &str) -> Self {
        Self {
            informer: informer.to_owned(),
            cluster: cluster.to_owned(),
        }
    }

    fn with(&self, name: &'static str, word: &str) -> WordLabels {
        (self.clone(), [(name, word.to_owned())])
    }
}

/// Declares all families, in the order of the exposition.
macro_rules! series {
    ($($field:ident: $labels:ty, $metric:ty, $name:literal, $help:literal;)*) => {
        #[derive(Debug, Default)]
        pub(crate) struct Series {
            $($field: Family<$labels, $metric>,)*
            /// How many sources share the series of an informer, and how many of them are synced.
            sharing: Mutex<BTreeMap<InformerLabels, Sharing>>,
        }

        impl Series {
            fn register(&self, registry: &mut Registry) {
                $(registry.register($name, $help, self.$field.clone());)*
            }
        }
    };
}

series! {
    lists: WordLabels, Counter, "reflector_lists", "LIST requests of reflectors, by result";
    watch_lists: WordLabels, Counter, "reflector_watch_lists",
        "WatchList requests of reflectors (watches that start with the current state), by result";
    watch_list_refused: InformerLabels, Gauge, "source_watch_list_refused",
        "Sources whose API server refused a WatchList or did not complete it, so that LIST is used";
    watches: WordLabels, Counter, "reflector_watches", "Watches opened or refused, by result";
    probes: WordLabels, Counter, "reflector_probes",
        "Requests for a sign of life, sent for all sources of a cluster that was silent or unreachable, by result";
    watch_events: WordLabels, Counter, "reflector_watch_events", "Events read from watches, by type";
    relists: WordLabels, Counter, "reflector_relists", "Lists after the first, by reason";
    skipped: WordLabels, Counter, "reflector_skipped", "Objects, lines and events skipped as invalid, by reason";
    other_shards: WordLabels, Counter, "reflector_other_shard_objects",
        "Objects of lists and events of watches that were left out, because another process reads their shard";
    list_waits: WordLabels, Counter, "source_list_waits",
        "Lists of divided sources that waited for the watch before, by how that ended";
    rejected: WordLabels, Counter, "reflector_rejected",
        "Lists and events rejected by the version guard because they are older than the known state";
    source_epochs: InformerLabels, Counter, "source_epochs",
        "Rollbacks of the cluster: a consistent list was older than the known state, as after a restored backup";
    outdated_keys: InformerLabels, Gauge, "source_outdated_keys",
        "Keys whose newest state was too large, so that the store has an older one";
    guard_off: InformerLabels, Gauge, "source_guard_off",
        "Sources whose versions are not integers, so that older states cannot be rejected";
    informer_synced: InformerLabels, Gauge, "informer_synced", "1 while all sources are synced";
    source_state: WordLabels, Gauge, "source_state", "Sources in each state";
    store_objects: InformerLabels, Gauge, "store_objects", "Objects in the store";
    store_bytes: InformerLabels, Gauge, "store_bytes", "Memory of the objects in the store";
    store_resource_version: InformerLabels, Gauge, "store_resource_version",
        "Last 15 digits of the version up to which the store has seen everything";
    delta_fifo_keys: InformerLabels, Gauge, "delta_fifo_keys", "Keys waiting in the DeltaFIFO";
    staged_bytes: InformerLabels, Gauge, "reflector_staged_bytes",
        "Bytes of lists that are being received or applied, without objects that did not change";
    channel_bytes: InformerLabels, Gauge, "reflector_channel_bytes",
        "Bytes between the reflector and the informer loop; reading stops at the limit";
    shed_namespaces: InformerLabels, Gauge, "shed_namespaces",
        "Namespaces of which the store keeps only heads of objects, because the budget of all caches was reached";
    sheds: InformerLabels, Counter, "shed", "Namespaces whose objects became heads";
    cache_returns: InformerLabels, Counter, "cache_returns", "Shed namespaces whose objects are whole again";
    body_reads: WordLabels, Counter, "body_reads",
        "Reads of objects of which the store has only the head, by result";
    index_attached: WordLabels, Gauge, "index_attached", "1 while the index is ready for queries";
    index_errors: WordLabels, Counter, "index_errors", "Objects missing from an index because its function failed";
    handler_panics: InformerLabels, Counter, "native_handler_panics",
        "Panics of native handlers, contained and retried";
    stop_undelivered: InformerLabels, Counter, "stop_undelivered",
        "Events not handled before the deadline of an orderly stop";
    hand_over_waits: InformerLabels, Counter, "hand_over_waits",
        "Handoffs between durable sources that were blocked on the disk for too long";
}

#[derive(Debug, Default)]
struct Sharing {
    sources: usize,
    synced: usize,
    /// The indexes that have series.
    indexes: BTreeSet<String>,
    /// The counters that have a series for a result, reason or type, with that word.
    counted: BTreeSet<(CounterFamily, &'static str)>,
    /// Whether the informer was removed, so that its last source takes the counters with it.
    forgotten: bool,
}

/// A counter by a word that is known only when something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CounterFamily {
    Lists,
    WatchLists,
    Watches,
    Probes,
    Relists,
    Skipped,
    Rejected,
    BodyReads,
    OtherShards,
    ListWaits,
}

/// Label values of the events of a watch.
const EVENT_TYPES: [&str; 5] = ["added", "modified", "deleted", "bookmark", "error"];

impl InformerMetrics {
    /// Registers every series of this crate with `registry`, which should have the prefix `informant`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        metrics.0.register(registry);
        metrics
    }

    /// Removes the counters of an informer that was removed from a cluster, once its last source has ended there.
    /// Sources that start later begin with new ones.
    pub fn forget_informer(&self, informer: &str, cluster: &str) {
        let labels = InformerLabels::new(informer, cluster);
        let mut all = self.0.sharing();
        let Some(sharing) = all.get_mut(&labels) else { return };
        sharing.forgotten = true;
        if sharing.sources == 0
            && let Some(last) = all.remove(&labels)
        {
            self.0.forget_counters(&labels, &last);
        }
    }

    /// The handles of one source, with all labels resolved.
    pub(crate) fn source(&self, informer: &str, cluster: &str) -> SourceMetrics {
        SourceMetrics::new(Arc::clone(&self.0), InformerLabels::new(informer, cluster))
    }
}

impl Series {
    fn sharing(&self) -> MutexGuard<'_, BTreeMap<InformerLabels, Sharing>> {
        // Changed by single inserts and removes: consistent after any panic.
        self.sharing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A source starts to use the series of `labels`.
    fn add_source(&self, labels: &InformerLabels) {
        let mut all = self.sharing();
        let sharing = all.entry(labels.clone()).or_default();
        sharing.sources += 1;
        sharing.forgotten = false;
        self.show_synced(labels, sharing);
    }

    fn set_synced(&self, labels: &InformerLabels, synced: bool) {
        self.while_used(labels, |sharing| {
            if synced {
                sharing.synced += 1;
            } else {
                sharing.synced = sharing.synced.saturating_sub(1);
            }
            self.show_synced(labels, sharing);
        });
    }

    /// Runs `change` if any source uses the series of `labels`: what comes later than the end of the last source must
    /// not create a series again, which would stay. Not for the path of an event.
    fn while_used(&self, labels: &InformerLabels, change: impl FnOnce(&mut Sharing)) {
        if let Some(sharing) = self.sharing().get_mut(labels).filter(|sharing| sharing.sources > 0) {
            change(sharing);
        }
    }

    fn count(&self, labels: &InformerLabels, family: CounterFamily, word: &'static str, amount: u64) {
        self.while_used(labels, |sharing| {
            sharing.counted.insert((family, word));
            let (counters, label) = self.counters(family);
            counters.get_or_create_owned(&labels.with(label, word)).inc_by(amount);
        });
    }

    /// The counters of `family`, and their label.
    fn counters(&self, family: CounterFamily) -> (&Family<WordLabels, Counter>, &'static str) {
        match family {
            CounterFamily::Lists => (&self.lists, "result"),
            CounterFamily::WatchLists => (&self.watch_lists, "result"),
            CounterFamily::Watches => (&self.watches, "result"),
            CounterFamily::Probes => (&self.probes, "result"),
            CounterFamily::Relists => (&self.relists, "reason"),
            CounterFamily::Skipped => (&self.skipped, "reason"),
            CounterFamily::Rejected => (&self.rejected, "type"),
            CounterFamily::BodyReads => (&self.body_reads, "result"),
            CounterFamily::OtherShards => (&self.other_shards, "request"),
            CounterFamily::ListWaits => (&self.list_waits, "end"),
        }
    }

    /// A source ends; with the last one the informer's gauges are removed.
    fn remove_source(&self, labels: &InformerLabels) {
        // Held to the end, so that a source that starts meanwhile does not lose its series.
        let mut all = self.sharing();
        let Some(sharing) = all.get_mut(labels) else { return };
        sharing.sources = sharing.sources.saturating_sub(1);
        if sharing.sources > 0 {
            self.show_synced(labels, sharing);
            return;
        }
        for family in [
            &self.watch_list_refused,
            &self.outdated_keys,
            &self.guard_off,
            &self.informer_synced,
            &self.store_objects,
            &self.store_bytes,
            &self.store_resource_version,
            &self.delta_fifo_keys,
            &self.staged_bytes,
            &self.channel_bytes,
            &self.shed_namespaces,
        ] {
            family.remove(labels);
        }
        for state in SourceState::ALL {
            self.source_state.remove(&labels.with("state", state.as_str()));
        }
        for index in &sharing.indexes {
            self.index_attached.remove(&labels.with("index", index));
        }
        if sharing.forgotten
            && let Some(last) = all.remove(labels)
        {
            self.forget_counters(labels, &last);
        }
    }

    fn forget_counters(&self, labels: &InformerLabels, last: &Sharing) {
        for family in [
            &self.source_epochs,
            &self.handler_panics,
            &self.stop_undelivered,
            &self.hand_over_waits,
            &self.sheds,
            &self.cache_returns,
        ] {
            family.remove(labels);
        }
        for kind in EVENT_TYPES {
            self.watch_events.remove(&labels.with("type", kind));
        }
        for (family, word) in &last.counted {
            let (counters, label) = self.counters(*family);
            counters.remove(&labels.with(label, word));
        }
        for index in &last.indexes {
            self.index_errors.remove(&labels.with("index", index));
        }
    }

    fn show_synced(&self, labels: &InformerLabels, sharing: &Sharing) {
        let all_synced = sharing.sources > 0 && sharing.synced == sharing.sources;
        self.informer_synced.get_or_create(labels).set(i64::from(all_synced));
    }
}
