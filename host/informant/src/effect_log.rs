//! What plugins have done, for `informant why`: each write, HTTP request and Kubernetes Event, with the call that had
//! it and what led to that call. Kept in memory; documents and values are not kept.
//!
//! ```text
//! plugins ──had_effect──▶ EffectRecorder ──▶ EffectLog (ring) ──▶ admin API
//!                              └──▶ another observer, if there is one
//! ```

mod rings;

use std::fmt;
use std::sync::Arc;

use informant_plugin_host::{
    CallCause, CauseObject, CauseSubject, Effect, EffectKind, EffectObject, FailedCall, KubernetesEvent, ObservedCall,
    ObservedDelivery, PluginObserver,
};
use jiff::Timestamp;

use self::rings::{Record, Rings};
pub(crate) use self::rings::{RingsUsage, Selected};
use crate::escape;

/// Bytes of the record of effects: 16 MiB, some 25,000 of them. Above it the oldest of the plugin with most of them are
/// dropped, and counted.
pub(crate) const EFFECT_LOG_BYTES_MAX: usize = 16 << 20;

/// The longest error that is kept: 512 bytes; the rest is cut.
const ERROR_BYTES_MAX: usize = 512;

/// Bytes of the record of failed calls: 2 MiB, some 5,000 of them, with the same rule.
pub(crate) const FAILED_CALLS_BYTES_MAX: usize = 2 << 20;

/// Something that a plugin did.
#[derive(Debug)]
pub(crate) struct EffectRecord {
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

/// A call of a handler that failed.
#[derive(Debug)]
pub(crate) struct FailedCallRecord {
    pub(crate) at: Timestamp,
    pub(crate) plugin: Box<str>,
    pub(crate) call: FailedCall,
}

/// The effects and failed calls of all plugins of this process. Clones share them.
#[derive(Clone)]
pub(crate) struct EffectLog(Arc<Logs>);

struct Logs {
    effects: Rings<EffectRecord>,
    failed: Rings<FailedCallRecord>,
}

impl EffectLog {
    /// How much is kept of effects.
    pub(crate) fn usage(&self) -> RingsUsage {
        self.0.effects.usage()
    }

    /// The newest `max` effects from number `from` on that are meant, of one plugin or of all. See [`Rings::select`].
    pub(crate) fn select(
        &self,
        plugin: Option<&str>,
        from_max: (u64, usize),
        is_meant: impl FnMut(&EffectRecord) -> bool,
    ) -> Selected<EffectRecord> {
        self.0.effects.select(plugin, from_max, is_meant)
    }

    /// The newest `max` failed calls that are meant.
    pub(crate) fn failed(
        &self,
        max: usize,
        is_meant: impl FnMut(&FailedCallRecord) -> bool,
    ) -> Vec<Arc<FailedCallRecord>> {
        self.0.failed.select(None, (0, max), is_meant).records
    }

    /// An observer that adds what it receives, and passes it on.
    pub(crate) fn recorder(&self, next: Option<Arc<dyn PluginObserver>>) -> Arc<dyn PluginObserver> {
        Arc::new(EffectRecorder {
            log: self.clone(),
            next,
        })
    }
}

impl EffectRecord {
    fn new(plugin: &str, effect: &Effect, at: Timestamp) -> EffectRecord {
        let cut = |error: &String| escape::cut(error, ERROR_BYTES_MAX).into_owned();
        EffectRecord {
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
}

impl Record for EffectRecord {
    /// The cause, which the effects of one call share, counts for each.
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

impl Record for FailedCallRecord {
    fn size_bytes(&self) -> usize {
        let source = self.call.source.as_ref().map_or(0, |source| {
            source.informer.len() + source.cluster.len() + source.resource.len()
        });
        let key = self
            .call
            .key
            .as_ref()
            .map_or(0, |key| key.name().len() + key.namespace().len());
        let cause = self.call.cause.as_deref().map_or(0, cause_bytes);
        size_of::<FailedCallRecord>() + self.plugin.len() + self.call.error.len() + source + key + cause
    }
}

impl Default for EffectLog {
    fn default() -> EffectLog {
        EffectLog(Arc::new(Logs {
            effects: Rings::new(EFFECT_LOG_BYTES_MAX),
            failed: Rings::new(FAILED_CALLS_BYTES_MAX),
        }))
    }
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
            let record = EffectRecord::new(plugin, effect, Timestamp::now());
            self.log.0.effects.add(plugin, record);
        }
        if let Some(next) = &self.next {
            next.had_effect(plugin, effect, is_withheld);
        }
    }

    fn failed(&self, plugin: &str, call: &FailedCall) {
        let record = FailedCallRecord {
            at: Timestamp::now(),
            plugin: plugin.into(),
            call: FailedCall {
                error: escape::cut(&call.error, ERROR_BYTES_MAX).into_owned(),
                ..call.clone()
            },
        };
        self.log.0.failed.add(plugin, record);
        if let Some(next) = &self.next {
            next.failed(plugin, call);
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
