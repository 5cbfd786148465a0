//! What plugins have done, for `informant why`: each write, HTTP request and Kubernetes Event, with the call that had
//! it and what led to that call. Kept in memory; documents and values are not kept.
//!
//! ```text
//! plugins ──had_effect──▶ EffectRecorder ──▶ EffectLog (ring) ──▶ admin API
//!                              └──▶ another observer, if there is one
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use informant_plugin_host::{
    CallCause, CauseObject, CauseSubject, Effect, EffectKind, EffectObject, KubernetesEvent, ObservedCall,
    ObservedDelivery, PluginObserver,
};
use jiff::Timestamp;

use crate::escape;
use crate::sync::lock;

/// Bytes of the record of effects: 16 MiB, some 25,000 of them. Above it the oldest of the plugin with most of them are
/// dropped, and counted.
pub(crate) const EFFECT_LOG_BYTES_MAX: usize = 16 << 20;

/// The longest error that is kept: 512 bytes; the rest is cut.
const ERROR_BYTES_MAX: usize = 512;

/// Records that are looked at under one lock: 512. Plugins that have effects wait for it.
const LOCKED_RECORDS_MAX: usize = 512;

/// Something that a plugin did.
#[derive(Debug)]
pub(crate) struct EffectRecord {
    /// Each process counts from 0.
    pub(crate) number: u64,
    pub(crate) at: Timestamp,
    pub(crate) plugin: Box<str>,
    pub(crate) kind: EffectKind,
    /// `patch`, `POST`; of a Kubernetes Event its type and reason.
    pub(crate) verb: String,
    pub(crate) cluster: String,
    /// What was written, or what an Event is about.
    pub(crate) object: Option<EffectObject>,
    /// The URL of an HTTP request, without its query; empty for others.
    pub(crate) url: String,
    /// `ok`, or the code of the error.
    pub(crate) result: &'static str,
    pub(crate) error: Option<String>,
    pub(crate) grant: String,
    pub(crate) identity: Option<Arc<str>>,
    pub(crate) cause: Option<Arc<CallCause>>,
}

/// The effects of all plugins of this process. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct EffectLog(Arc<Mutex<Log>>);

#[derive(Default)]
struct Log {
    rings: BTreeMap<Box<str>, Ring>,
    bytes: usize,
    /// The number of the next record.
    next: u64,
    dropped: u64,
}

/// The effects of one plugin, oldest first.
#[derive(Default)]
struct Ring {
    records: VecDeque<Arc<EffectRecord>>,
    bytes: usize,
}

/// A part of the record.
#[derive(Debug, Default)]
pub(crate) struct SelectedEffects {
    /// The number of the effect that follows.
    pub(crate) next: u64,
    /// Whether there were more than requested; these are the newest.
    pub(crate) has_more: bool,
    /// Oldest first.
    pub(crate) effects: Vec<Arc<EffectRecord>>,
}

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EffectLogUsage {
    pub(crate) bytes: usize,
    pub(crate) records: usize,
    /// Records that made room for others.
    pub(crate) dropped: u64,
}

impl EffectLog {
    /// Keeps an effect that was not withheld.
    fn add(&self, plugin: &str, effect: &Effect, at: Timestamp) {
        let mut record = EffectRecord::new(plugin, effect, at);
        let mut log = lock(&self.0);
        record.number = log.next;
        log.next += 1;
        log.bytes += record.size_bytes();
        if !log.rings.contains_key(plugin) {
            log.rings.insert(plugin.into(), Ring::default());
        }
        if let Some(ring) = log.rings.get_mut(plugin) {
            ring.bytes += record.size_bytes();
            ring.records.push_back(Arc::new(record));
        }
        while log.bytes > EFFECT_LOG_BYTES_MAX && log.drop_one() {}
    }

    pub(crate) fn usage(&self) -> EffectLogUsage {
        let log = lock(&self.0);
        EffectLogUsage {
            bytes: log.bytes,
            records: log.rings.values().map(|ring| ring.records.len()).sum(),
            dropped: log.dropped,
        }
    }

    /// The newest `max` effects from number `from` on that are meant, of one plugin or of all. A number of an earlier
    /// process may be larger than any here, and means all.
    pub(crate) fn select(
        &self,
        plugin: Option<&str>,
        (from, max): (u64, usize),
        mut is_meant: impl FnMut(&EffectRecord) -> bool,
    ) -> SelectedEffects {
        let (next, plugins) = {
            let log = lock(&self.0);
            let names: Vec<Box<str>> = match plugin {
                Some(name) => vec![name.into()],
                None => log.rings.keys().cloned().collect(),
            };
            (log.next, names)
        };
        let from = if from > next { 0 } else { from };
        let mut effects = Vec::new();
        for plugin in plugins {
            // One more shows that there are more.
            self.select_of(&plugin, from..next, max.saturating_add(1), &mut is_meant, &mut effects);
        }
        effects.sort_unstable_by_key(|record| record.number);
        let more = effects.len().saturating_sub(max);
        effects.drain(..more);
        SelectedEffects {
            next,
            has_more: more > 0,
            effects,
        }
    }

    /// Adds the newest `max` effects of one plugin that are meant.
    fn select_of(
        &self,
        plugin: &str,
        mut numbers: Range<u64>,
        max: usize,
        is_meant: &mut impl FnMut(&EffectRecord) -> bool,
        selected: &mut Vec<Arc<EffectRecord>>,
    ) {
        let end = selected.len().saturating_add(max);
        while !numbers.is_empty() {
            let log = lock(&self.0);
            let Some(ring) = log.rings.get(plugin) else { return };
            let older = ring.records.partition_point(|record| record.number < numbers.end);
            let looked_at = ring.records.range(..older).rev().take(LOCKED_RECORDS_MAX);
            let mut oldest = None;
            for record in looked_at.take_while(|record| numbers.contains(&record.number)) {
                oldest = Some(record.number);
                if selected.len() < end && is_meant(record) {
                    selected.push(Arc::clone(record));
                }
            }
            match oldest {
                Some(number) if selected.len() < end => numbers.end = number,
                _ => return,
            }
        }
    }

    /// An observer that adds what it is told, and passes it on.
    pub(crate) fn recorder(&self, next: Option<Arc<dyn PluginObserver>>) -> Arc<dyn PluginObserver> {
        Arc::new(EffectRecorder {
            log: self.clone(),
            next,
        })
    }
}

impl Log {
    /// Drops the oldest record of the plugin with most bytes, so that one with many does not displace those of others.
    fn drop_one(&mut self) -> bool {
        let largest = self.rings.iter_mut().max_by_key(|(_, ring)| ring.bytes);
        let Some((name, ring)) = largest else { return false };
        let dropped = ring.records.pop_front();
        let bytes = dropped.map_or(0, |record| record.size_bytes());
        ring.bytes -= bytes;
        self.bytes -= bytes;
        self.dropped += 1;
        if ring.records.is_empty() {
            let name = name.clone();
            self.rings.remove(&name);
        }
        bytes > 0
    }
}

impl EffectRecord {
    fn new(plugin: &str, effect: &Effect, at: Timestamp) -> EffectRecord {
        let cut = |error: &String| escape::cut(error, ERROR_BYTES_MAX).into_owned();
        EffectRecord {
            number: 0,
            at,
            plugin: plugin.into(),
            kind: effect.kind,
            verb: effect.action.clone(),
            cluster: effect.cluster.clone(),
            object: effect.object.clone(),
            url: match effect.kind {
                EffectKind::Http => effect.target.clone(),
                _ => String::new(),
            },
            result: effect.result,
            error: effect.error.as_ref().map(cut),
            grant: effect.grant.clone(),
            identity: effect.identity.clone(),
            cause: effect.cause.clone(),
        }
    }

    /// What it takes in memory. The cause, which the effects of one call share, counts for each.
    fn size_bytes(&self) -> usize {
        let texts = [&self.verb, &self.cluster, &self.url, &self.grant];
        let texts: usize = texts.iter().map(|text| text.len()).sum();
        let object = self.object.as_ref().map_or(0, |object| {
            let EffectObject {
                resource,
                namespace,
                name,
                subresource,
                version,
            } = object;
            resource.len() + namespace.len() + name.len() + subresource.len() + version.len()
        });
        let own = size_of::<EffectRecord>() + self.plugin.len() + self.error.as_ref().map_or(0, String::len);
        own + texts + object + self.cause.as_deref().map_or(0, cause_bytes)
    }
}

fn cause_bytes(cause: &CallCause) -> usize {
    let object_bytes = |object: &CauseObject| {
        let CauseObject {
            informer,
            cluster,
            resource,
            namespace,
            name,
            uid,
            version,
        } = object;
        let texts = [informer, cluster, resource, namespace, name, uid, version];
        texts.iter().map(|text| text.len()).sum::<usize>()
    };
    let subject = match &cause.subject {
        CauseSubject::Object(object) | CauseSubject::Source(object) => object_bytes(object),
        CauseSubject::Timer(name) => name.len(),
    };
    let related = cause.related.as_ref().map_or(0, |(object, _)| object_bytes(object));
    size_of::<CallCause>() + cause.version.len() + subject + related
}

impl fmt::Debug for EffectLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EffectLog").field(&self.usage()).finish()
    }
}

/// Adds effects to the log.
#[derive(Debug)]
struct EffectRecorder {
    log: EffectLog,
    next: Option<Arc<dyn PluginObserver>>,
}

impl PluginObserver for EffectRecorder {
    fn wants_calls(&self) -> bool {
        self.next.as_ref().is_some_and(|next| next.wants_calls())
    }

    fn called(&self, plugin: &str, call: ObservedCall) {
        if let Some(next) = &self.next {
            next.called(plugin, call);
        }
    }

    fn delivered(&self, delivery: &ObservedDelivery<'_>) {
        if let Some(next) = &self.next {
            next.delivered(delivery);
        }
    }

    fn had_effect(&self, plugin: &str, effect: &Effect, is_withheld: bool) {
        if !is_withheld && effect.is_noticeable() {
            self.log.add(plugin, effect, Timestamp::now());
        }
        if let Some(next) = &self.next {
            next.had_effect(plugin, effect, is_withheld);
        }
    }

    fn recorded(&self, plugin: &str, event: &KubernetesEvent) {
        if let Some(next) = &self.next {
            next.recorded(plugin, event);
        }
    }
}

#[cfg(test)]
mod tests;
