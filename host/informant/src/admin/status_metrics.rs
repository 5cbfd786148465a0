//! Metrics that are collected at scrape time from what listeners, sources and plugins know already, so that they cost
//! nothing otherwise.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use informant_cache::listener::ListenerStats;
use informant_cache::{Environment, Source, SourceState};
use informant_informer::ReflectorStatus;
use informant_spec::Required;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::replica_metrics;
use super::sources::{resource_or_section, running_in};
use crate::daemon::{CertificateStatus, InformerPhase, PluginPhase, StatusRegistry};
use crate::memory_limit::memory_limit_bytes;
use crate::metrics::DaemonMetrics;

pub(super) struct StatusCollector(
    pub(super) StatusRegistry,
    pub(super) DaemonMetrics,
    pub(super) Arc<dyn Environment>,
);

/// A statistic of one plugin's listener.
type Reading = fn(&ListenerStats) -> u64;

const GAUGES: [(&str, &str, Reading); 12] = [
    (
        "listener_pending",
        "Events waiting for the plugin, including those in back-off",
        |stats| stats.pending as u64,
    ),
    (
        "listener_failing",
        "Keys under retry: they failed, and will be delivered again",
        |stats| stats.failing as u64,
    ),
    (
        "listener_keyed",
        "1 while new events are coalesced into pending events of the same key",
        |stats| u64::from(stats.keyed),
    ),
    (
        "listener_bytes",
        "Bytes of object states that only this listener holds",
        |stats| stats.bytes as u64,
    ),
    (
        "listener_requeues",
        "Keys for which the handler asked for another call",
        |stats| stats.requeues as u64,
    ),
    (
        "listener_requeues_slowed",
        "Requeues that are spaced because the object does not change",
        |stats| stats.slowed as u64,
    ),
    (
        "listener_keys_spaced",
        "Keys with events that wait for min-interval",
        |stats| stats.spaced as u64,
    ),
    (
        "listener_waiting",
        "Keys whose last call found a source or an index not ready",
        |stats| stats.waiting as u64,
    ),
    (
        "listener_suspect",
        "Keys that wait because their namespace, which crashed the handler, has used up its share of time",
        |stats| stats.suspect as u64,
    ),
    ("listener_rate_held", "1 while deliveries wait for max-rate", |stats| {
        u64::from(stats.held_by_rate)
    }),
    ("dead_letters", "Dead letters that can be requeued", |stats| {
        stats.dead_letters as u64
    }),
    (
        "dead_letters_bytes",
        "Bytes of the last states of deletes among the dead letters",
        |stats| stats.dead_letters_bytes as u64,
    ),
];

const COUNTERS: [(&str, &str, Reading); 27] = [
    ("listener_accepted", "Changes accepted from informers", |stats| {
        stats.counters.accepted
    }),
    (
        "listener_shown",
        "Events created from the cache: initial adds, replays, resyncs",
        |stats| stats.counters.shown,
    ),
    (
        "listener_coalesced",
        "Events coalesced into an older event of the same key",
        |stats| stats.counters.coalesced,
    ),
    (
        "listener_vanished",
        "Objects deleted before their add was delivered",
        |stats| stats.counters.vanished,
    ),
    (
        "listener_skipped",
        "Failures skipped by on-failure = \"skip\"",
        |stats| stats.counters.skipped,
    ),
    (
        "listener_resync_ticks_skipped",
        "Resyncs skipped because one was still running",
        |stats| stats.counters.resync_ticks_skipped,
    ),
    (
        "listener_olds_dropped",
        "Old states dropped at the byte limit",
        |stats| stats.counters.olds_dropped,
    ),
    (
        "listener_bodies_dropped",
        "Objects reduced to metadata at the byte limit, because the cache does not have the rest",
        |stats| stats.counters.bodies_dropped,
    ),
    (
        "listener_deletes_cut",
        "Deletes reduced to metadata at the byte limit",
        |stats| stats.counters.deletes_cut,
    ),
    (
        "listener_discarded",
        "Events dropped with their source or at shutdown",
        |stats| stats.counters.discarded,
    ),
    (
        "listener_deletes_discarded",
        "Deletes among the events dropped with their source or at shutdown",
        |stats| stats.counters.deletes_discarded,
    ),
    (
        "listener_handed_over",
        "Events dropped because another process delivers them",
        |stats| stats.counters.handed_over,
    ),
    (
        "listener_retries_limited",
        "Retries delayed by the limit on retries per second",
        |stats| stats.counters.retries_limited,
    ),
    ("listener_spaced", "Events that waited for min-interval", |stats| {
        stats.counters.spaced
    }),
    (
        "listener_intervals_cut",
        "Intervals that ended early at the limit of remembered calls",
        |stats| stats.counters.intervals_cut,
    ),
    (
        "listener_suspects_held",
        "Events that waited because their namespace, which crashed the handler, had used up its share of time",
        |stats| stats.counters.suspects_held,
    ),
    (
        "listener_suspects_forgotten",
        "Namespaces that crashed the handler and were forgotten because there were too many",
        |stats| stats.counters.suspects_forgotten,
    ),
    (
        "listener_rate_holds",
        "Times that deliveries had to wait for max-rate",
        |stats| stats.counters.rate_holds,
    ),
    (
        "listener_left_to_cursor",
        "Changes of keys that a running initial list or replay had not delivered yet",
        |stats| stats.counters.left_to_cursor,
    ),
    (
        "listener_unattached",
        "Changes of sources before their initial list, which includes them",
        |stats| stats.counters.unattached,
    ),
    (
        "listener_related",
        "Calls that changes of related objects led to",
        |stats| stats.counters.related,
    ),
    (
        "listener_unrelated",
        "Changes of related objects that led to no call",
        |stats| stats.counters.unrelated,
    ),
    (
        "listener_related_to_all",
        "Times that all objects were called again, because which of them a change led to was unknown",
        |stats| stats.counters.related_to_all,
    ),
    (
        "listener_refused",
        "Changes that arrived after the plugin began to stop",
        |stats| stats.counters.refused,
    ),
    (
        "listener_late",
        "Results of calls whose source had been removed",
        |stats| stats.counters.late,
    ),
    (
        "listener_requeues_dropped",
        "Requeues dropped because the object is gone, or at the limit of those of deletes",
        |stats| stats.counters.requeues_dropped,
    ),
    (
        "dead_letters_evicted",
        "Dead letters dropped at the limit of their number",
        |stats| stats.counters.dead_letters_evicted,
    ),
];

impl fmt::Debug for StatusCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatusCollector").finish_non_exhaustive()
    }
}

impl Collector for StatusCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let plugins = self.0.plugins();
        let running = plugins.iter().filter_map(|entry| match entry.phase() {
            PluginPhase::Running(plugin) => {
                let stats = plugin.listener().control().stats();
                let oldest = stats
                    .oldest_event
                    .map_or(0.0, |read| (plugin.now() - read).as_secs_f64());
                Some((entry.name.as_str(), stats, oldest))
            }
            _ => None,
        });
        let stats: Vec<_> = running.collect();
        let help = "Age of the oldest event that the plugin has not accepted; 0 without one";
        let oldest = "listener_oldest_pending_seconds";
        let mut family = encoder.encode_descriptor(oldest, help, None, MetricType::Gauge)?;
        for (plugin, _, age) in &stats {
            ConstGauge::new(*age).encode(family.encode_family(&[("plugin", *plugin)])?)?;
        }
        for (name, help, read) in GAUGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (plugin, stats, _) in &stats {
                gauge(read(stats)).encode(family.encode_family(&[("plugin", *plugin)])?)?;
            }
        }
        for (name, help, read) in COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (plugin, stats, _) in &stats {
                ConstCounter::new(read(stats)).encode(family.encode_family(&[("plugin", *plugin)])?)?;
            }
        }
        self.encode_not_ready(&mut encoder)?;
        self.encode_reloads(&mut encoder)?;
        self.encode_closed_hosts(&mut encoder)?;
        let help = "Sections of config.toml whose newest version is not running";
        let pending = encoder.encode_descriptor("config_pending_sections", help, None, MetricType::Gauge)?;
        gauge(self.0.configuration().waiting.len() as u64).encode(pending)?;
        let help = "Whether the newest config.toml is applied completely";
        let applied = encoder.encode_descriptor("config_last_reload_successful", help, None, MetricType::Gauge)?;
        gauge(self.0.configuration().is_applied().into()).encode(applied)?;
        self.encode_ages(&mut encoder)?;
        super::why::metrics::encode(self.0.effects(), &mut encoder)?;
        let of_plugins = stats.iter().map(|(_, stats, _)| stats.bytes + stats.dead_letters_bytes);
        self.encode_memory(&mut encoder, of_plugins.sum())?;
        self.encode_degraded(&mut encoder)?;
        self.encode_certificate(&mut encoder)?;
        self.encode_starting(&mut encoder)?;
        replica_metrics::encode(&self.0, &*self.2, &mut encoder)
    }
}

/// An age of a source; none before it starts.
type Age = fn(&ReflectorStatus) -> Option<Duration>;

/// Ages of sources: name, help and value.
const AGES: [(&str, &str, Age); 2] = [
    (
        "source_event_age_seconds",
        "Seconds since the watch last delivered an event or a bookmark; the maximum over the informer's sources",
        |status| status.last_event_age,
    ),
    (
        "source_bookmark_age_seconds",
        "Seconds since the last bookmark, which arrives about once a minute; the maximum over the informer's sources",
        |status| status.bookmark_age,
    ),
];

impl StatusCollector {
    fn encode_ages(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut statuses: BTreeMap<(String, String), Vec<ReflectorStatus>> = BTreeMap::new();
        for entry in self.0.informers() {
            for (cluster, status) in entry.by_cluster() {
                let sources = running_in(&status).into_iter().map(|source| source.status());
                statuses.insert((entry.name.clone(), cluster), sources.collect());
            }
        }
        for (name, help, read) in AGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for ((informer, cluster), statuses) in &statuses {
                if let Some(age) = statuses.iter().filter_map(read).max() {
                    let labels = [("informer", informer.as_str()), ("cluster", cluster.as_str())];
                    ConstGauge::new(age.as_secs_f64()).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }

    fn encode_not_ready(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "1 while the plugin's first calls wait for sources or indexes, or began without them";
        let mut family = encoder.encode_descriptor("plugin_not_ready", help, None, MetricType::Gauge)?;
        for entry in self.0.plugins() {
            if let PluginPhase::Running(_) = entry.phase() {
                let value = gauge(entry.missing().is_some().into());
                value.encode(family.encode_family(&[("plugin", entry.name.as_str())])?)?;
            }
        }
        Ok(())
    }

    /// Memory of the caches, from the newest snapshots, and the sum with what is counted elsewhere. `of_plugins`: bytes
    /// of states that only plugins' listeners hold.
    fn encode_memory(&self, encoder: &mut DescriptorEncoder<'_>, of_plugins: usize) -> fmt::Result {
        let mut sum = of_plugins as u64 + self.1.all_answer_bytes();
        let mut sources: BTreeMap<(String, String), (usize, usize)> = BTreeMap::new();
        let mut limits = Vec::new();
        for entry in self.0.informers() {
            for (cluster, status) in entry.by_cluster() {
                if let InformerPhase::Running(running) = &status.phase
                    && let Some(bytes) = running.shared.spec().cache_bytes_max
                {
                    limits.push((entry.name.clone(), cluster.clone(), bytes));
                }
                let (index, held) = sources.entry((entry.name.clone(), cluster)).or_default();
                for source in running_in(&status) {
                    let (snapshot, status) = (source.snapshot(), source.status());
                    *index += snapshot.index_bytes();
                    *held += snapshot.held_bytes();
                    sum += (snapshot.bytes() + status.staged_bytes + status.channel_bytes) as u64;
                }
                sum += (*index + *held) as u64;
            }
        }
        let mut write = |name, help, read: fn(&(usize, usize)) -> usize| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for ((informer, cluster), bytes) in &sources {
                let labels = [("informer", informer.as_str()), ("cluster", cluster.as_str())];
                gauge(read(bytes) as u64).encode(family.encode_family(&labels)?)?;
            }
            Ok(())
        };
        let help = "Memory of the entries of indexes, without the texts of values";
        write("store_index_bytes", help, |(index, _)| *index)?;
        let help = "At most this much memory of objects that were replaced is held by readers of older snapshots";
        write("store_held_bytes", help, |(_, held)| *held)?;
        let help =
            "Memory of all caches, with lists and events on their way, states that wait for plugins, and answers";
        gauge(sum).encode(encoder.encode_descriptor("cache_bytes", help, None, MetricType::Gauge)?)?;
        if !limits.is_empty() {
            let help = "The budget of an informer's caches (max-bytes of its section)";
            let mut family = encoder.encode_descriptor("informer_cache_max_bytes", help, None, MetricType::Gauge)?;
            for (informer, cluster, bytes) in &limits {
                let labels = [("informer", informer.as_str()), ("cluster", cluster.as_str())];
                gauge(*bytes as u64).encode(family.encode_family(&labels)?)?;
            }
        }
        let budget = self.0.catalog().budget();
        if let Some(bytes) = budget.max_bytes() {
            let help = "The budget of all caches (max-bytes of [cache], or the default)";
            gauge(bytes as u64).encode(encoder.encode_descriptor(
                "cache_max_bytes",
                help,
                None,
                MetricType::Gauge,
            )?)?;
            let help =
                "What the budget counts: objects, indexes, older snapshots that are held, and lists on their way";
            let used = budget.used_bytes() as u64;
            gauge(used).encode(encoder.encode_descriptor("cache_used_bytes", help, None, MetricType::Gauge)?)?;
        }
        match memory_limit_bytes(Path::new("/")) {
            Some(bytes) => {
                let help = "The memory that the container may use, or that the machine has";
                gauge(bytes).encode(encoder.encode_descriptor("memory_limit_bytes", help, None, MetricType::Gauge)?)
            }
            None => Ok(()),
        }
    }

    fn encode_reloads(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "0 while the plugin's newest version was refused or rolled back and an older one runs";
        let name = "plugin_last_reload_successful";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for entry in self.0.plugins() {
            if let PluginPhase::Running(plugin) = entry.phase() {
                let status = plugin.status();
                let refused = status.last_reload.is_some_and(|reload| reload.refused.is_some());
                let successful = !refused && status.rolled_back.is_none();
                gauge(successful.into()).encode(family.encode_family(&[("plugin", entry.name.as_str())])?)?;
            }
        }
        Ok(())
    }

    fn encode_closed_hosts(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Seconds until a host that asked for a pause receives requests of the plugin again";
        let name = "plugin_http_closed_seconds";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for entry in self.0.plugins() {
            if let PluginPhase::Running(plugin) = entry.phase() {
                for closed in plugin.status().closed_hosts {
                    let labels = [("plugin", entry.name.as_str()), ("host", closed.host.as_str())];
                    ConstGauge::new(closed.left.as_secs_f64()).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }

    /// The sources that are in trouble, by name, so that an alert tells which, and informers that have none because of
    /// trouble. It is expected of an informer that need not be ready and waits for its resource, and of a kind of a
    /// pattern that cannot be read. Their number is bounded by the watches of an informer; a series ends with the
    /// trouble.
    fn encode_degraded(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "1 for each source whose watch is down, or that cannot be listed";
        let mut family = encoder.encode_descriptor("source_degraded", help, None, MetricType::Gauge)?;
        for entry in self.0.informers() {
            let statuses = entry.by_cluster();
            for (cluster, status) in &statuses {
                let state = match &status.phase {
                    InformerPhase::Discovering { last_error: Some(_) } => "Discovering",
                    InformerPhase::Refused { .. } => "Refused",
                    _ => continue,
                };
                let resource = status.section.resource.value.text();
                let is_expected = status.section.required == Required::No && state == "Discovering";
                let labels = [
                    ("informer", entry.name.as_str()),
                    ("cluster", cluster.as_str()),
                    ("resource", resource.as_str()),
                    ("namespace", ""),
                    ("state", state),
                    ("expected", word(is_expected)),
                ];
                gauge(1).encode(family.encode_family(&labels)?)?;
            }
            for source in self.0.sources(&entry.name).iter().filter(|source| is_degraded(source)) {
                let info = source.info();
                let Some(status) = statuses.get(&info.cluster) else {
                    continue;
                };
                let resource = resource_or_section(status, source);
                let is_awaited = source.state() == SourceState::WaitingForResource;
                let is_expected = source.is_left_out() || is_awaited && status.section.required == Required::No;
                let labels = [
                    ("informer", entry.name.as_str()),
                    ("cluster", info.cluster.as_str()),
                    ("resource", resource.as_str()),
                    ("namespace", info.namespace.as_deref().unwrap_or_default()),
                    ("state", source.state().as_str()),
                    ("expected", word(is_expected)),
                ];
                gauge(1).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn encode_certificate(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let status = self.0.configuration().certificate.clone();
        let Some(CertificateStatus { expires, problem }) = status else {
            return Ok(());
        };
        let help = "Whether the certificate of the admin server is the one in its files, and has not expired";
        let name = "admin_certificate_last_load_successful";
        let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        gauge(problem.is_none().into()).encode(family)?;
        let Some(expires) = expires else { return Ok(()) };
        let help = "When the certificate of the admin server expires, in seconds since 1970";
        let name = "admin_certificate_expiry_timestamp_seconds";
        let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(expires.as_second()).encode(family)
    }

    /// Informers and plugins that are not running, and so have no metrics of their own.
    fn encode_starting(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "1 while discovery of the informer's resource has not succeeded";
        let mut family = encoder.encode_descriptor("informer_discovering", help, None, MetricType::Gauge)?;
        for entry in self.0.informers() {
            for (cluster, status) in entry.by_cluster() {
                let discovering = matches!(status.phase, InformerPhase::Discovering { .. });
                let labels = [("informer", entry.name.as_str()), ("cluster", cluster.as_str())];
                gauge(u64::from(discovering)).encode(family.encode_family(&labels)?)?;
            }
        }
        let help = "1 while the plugin's component is refused and no older one is running";
        let mut family = encoder.encode_descriptor("plugin_refused", help, None, MetricType::Gauge)?;
        for entry in self.0.plugins() {
            let refused = matches!(entry.phase(), PluginPhase::Refused { .. });
            gauge(u64::from(refused)).encode(family.encode_family(&[("plugin", entry.name.as_str())])?)?;
        }
        Ok(())
    }
}

/// A first list in progress is no trouble yet.
fn is_degraded(source: &Source) -> bool {
    match source.state() {
        SourceState::Live => false,
        SourceState::Syncing => source.status().last_error.is_some(),
        _ => true,
    }
}

fn word(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

fn gauge(value: u64) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}
