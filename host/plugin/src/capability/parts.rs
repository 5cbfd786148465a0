//! What capabilities have in common: their three parts, and what these receive.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_cache::listener::DeliveryOutcome;
use informant_cache::{BoxFuture, Catalog, Environment, Moment, UnknownSource};
use informant_object::{Key, SourceId};
use informant_spec::PluginSpec;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use wasmtime::component::Linker;

use super::permission::MayUse;
use super::{HasCapabilities, Services};
use crate::capture::Tape;
use crate::clock::WallClock;
use crate::component::manifest::Manifest;
use crate::effects::Effects;
use crate::engine::wait::CallTime;
use crate::error::LoadProblem;
use crate::observed::CurrentCause;
use crate::output::Output;
use crate::series::{Live, SeriesSet};
use crate::sync::lock;

/// A capability; the type is its part of a plugin. Dropping the last handle ends its metrics.
pub(crate) trait Capability: Sized + Send + Sync + 'static {
    /// Its interface in the contract. None: it is one of WASI's.
    const INTERFACE: Option<&'static str>;

    /// Its part of the process.
    type Host: HostPart;

    /// What it uses of the grants of a section.
    type Grants: Send + Sync + 'static;

    /// Its part of an instance.
    type Call: CallPart;

    /// What `spec` grants.
    fn grants(spec: &PluginSpec) -> Self::Grants;

    fn new(host: &Self::Host, grants: &Arc<Current<Self::Grants>>, plugin: &PluginParts<'_>) -> Self;

    /// Applies a section, from `now` on.
    fn configure(&self, _spec: &PluginSpec, _grants: &Arc<Current<Self::Grants>>, _now: Moment) {}

    /// A version with this manifest is put to work.
    fn activate(&self, _manifest: &Manifest) {}

    /// Whether too much of what calls committed waits. When that is over, the event actor is [woken](ActorWaker).
    fn is_full(&self) -> bool {
        false
    }

    /// Ends what slows calls down. Returns whether there was anything.
    fn end_slow_downs(&self, _now: Moment) -> bool {
        false
    }

    /// Another replica acts, and no call runs: drops what has not taken effect, and what is known of the outside only
    /// while this one acts.
    fn stand_by(&self) {}

    /// Nothing more will be committed.
    fn close(&self) {}

    /// A task that runs until nothing more will be committed, or until `abort`.
    fn task(self: &Arc<Self>, _abort: &CancellationToken) -> Option<CapabilityTask> {
        None
    }

    /// Its part of a new instance.
    fn call(self: &Arc<Self>, grants: &Arc<Current<Self::Grants>>, instance: &InstanceParts<'_>) -> Self::Call;

    /// Whether the event of a successful call ends with its `effects`, later.
    fn delays(&self, _effects: &<Self::Call as CallPart>::Effects) -> bool {
        false
    }

    /// Commits what a successful call is to change, with the end of the event if this capability is the one that
    /// [delays](Self::delays) it.
    fn commit(self: &Arc<Self>, _effects: <Self::Call as CallPart>::Effects, _event: Option<HandledEvent>) {}

    /// As [`commit`](Self::commit) if another capability delays the end of `event`. What is to take effect with that
    /// end is added to the event that is returned.
    fn commit_with(self: &Arc<Self>, effects: <Self::Call as CallPart>::Effects, event: HandledEvent) -> HandledEvent {
        self.commit(effects, None);
        event
    }

    fn link<T: HasCapabilities>(linker: &mut Linker<T>) -> wasmtime::Result<()>;
}

/// A capability's part of the process: its metrics.
pub(crate) trait HostPart: Default {
    fn register(&self, _registry: &mut Registry) {}

    /// Rejects a version of `plugin` that the other plugins do not allow.
    fn check(&self, _plugin: &str, _manifest: &Manifest) -> Result<(), LoadProblem> {
        Ok(())
    }
}

/// A capability's part of an instance, for one call after the other.
pub(crate) trait CallPart {
    /// What a successful call is to change.
    type Effects: Default;

    /// A call begins. What the last one has left behind is dropped.
    fn begin(&mut self, call: CallStart);

    /// The call is over. Returns what it is to change, which is nothing if it failed.
    fn finish(&mut self, end: CallEnd) -> Self::Effects;
}

/// A task of a capability: its name, and the work.
pub(crate) type CapabilityTask = (&'static str, BoxFuture);

/// What a plugin's capabilities are made from.
pub(crate) struct PluginParts<'a> {
    pub(crate) plugin: &'a Arc<str>,
    pub(crate) spec: &'a PluginSpec,
    pub(crate) services: &'a Services,
    pub(crate) env: &'a Arc<dyn Environment>,
    pub(crate) wall: &'a WallClock,
    /// Whether it is in dry run, and what it would have done.
    pub(crate) dry_run: &'a Arc<Effects>,
    /// Wakes its event actor.
    pub(crate) waker: &'a Arc<ActorWaker>,
}

/// What an instance's capabilities are made from.
pub(crate) struct InstanceParts<'a> {
    pub(crate) manifest: &'a Arc<Manifest>,
    pub(crate) time: &'a CallTime,
    pub(crate) output: &'a Output,
    pub(crate) tape: &'a Tape,
    pub(crate) cause: &'a CurrentCause,
}

/// A call that begins.
#[derive(Clone, Copy)]
pub(crate) struct CallStart {
    /// The source that it is about, or whose object.
    pub(crate) source: Option<SourceId>,
    pub(crate) may_use: MayUse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallEnd {
    Succeeded,
    Failed,
    /// The guest asks to be called again after this time.
    RetryAfter(std::time::Duration),
}

pub(crate) struct CallSubject {
    catalog: Catalog,
    source: Option<SourceId>,
}

/// Something that may change while instances run: a call uses what there is when it is made.
pub(crate) struct Current<T>(Mutex<Arc<T>>);

/// Wakes a plugin's event actor, once there is one.
#[derive(Default)]
pub(crate) struct ActorWaker(Mutex<Option<Arc<dyn Fn() + Send + Sync>>>);

/// An event whose handler succeeded, and that ends with what the call committed.
pub(crate) struct HandledEvent {
    pub(crate) source: SourceId,
    /// None: the event is that the source is synced.
    pub(crate) key: Option<Key>,
    /// What the handler answered.
    pub(crate) outcome: DeliveryOutcome,
    pub(crate) end: Box<dyn FnOnce(DeliveryOutcome) + Send>,
}

/// What an event is about: an object of a source, or the source.
pub(crate) type SourceKey = (SourceId, Option<Key>);

impl HostPart for () {}

impl<S: SeriesSet> HostPart for Live<S> {
    fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.clone()));
    }
}

impl CallEnd {
    pub(crate) fn is_success(self) -> bool {
        self == CallEnd::Succeeded
    }
}

impl CallSubject {
    pub(crate) fn new(catalog: &Catalog) -> CallSubject {
        CallSubject {
            catalog: catalog.clone(),
            source: None,
        }
    }

    pub(crate) fn set(&mut self, source: Option<SourceId>) {
        self.source = source;
    }

    /// The source of the object that the call is about.
    pub(crate) fn source(&self) -> Option<SourceId> {
        self.source
    }

    /// The cluster of the object that the call is about. None: it is about no object.
    /// Errors: its source was removed, maybe with its cluster: the only one that is left may be another one.
    pub(crate) fn cluster(&self) -> Result<Option<String>, UnknownSource> {
        let Some(source) = self.source else { return Ok(None) };
        match self.catalog.info(source) {
            Some(info) => Ok(Some(info.cluster)),
            None => Err(UnknownSource(source)),
        }
    }
}

impl<T> Current<T> {
    pub(crate) fn new(value: T) -> Current<T> {
        Current(Mutex::new(Arc::new(value)))
    }

    pub(crate) fn set(&self, value: T) {
        *lock(&self.0) = Arc::new(value);
    }

    pub(crate) fn get(&self) -> Arc<T> {
        Arc::clone(&lock(&self.0))
    }
}

impl ActorWaker {
    pub(crate) fn set(&self, wake: Arc<dyn Fn() + Send + Sync>) {
        *lock(&self.0) = Some(wake);
    }

    /// The plugin may be called again.
    pub(crate) fn wake(&self) {
        let wake = lock(&self.0).clone();
        if let Some(wake) = wake {
            wake();
        }
    }
}

impl HandledEvent {
    /// Calls `then` when it has ended.
    pub(crate) fn then(self, then: Option<impl FnOnce() + Send + 'static>) -> HandledEvent {
        let Some(then) = then else { return self };
        let end = self.end;
        HandledEvent {
            end: Box::new(move |outcome| {
                end(outcome);
                then();
            }),
            ..self
        }
    }

    /// If it ends as it is, the handler is called again after this time, or sooner if it asked for that.
    pub(crate) fn again_after(mut self, after: Option<Duration>) -> HandledEvent {
        let Some(after) = after else { return self };
        self.outcome = match self.outcome {
            DeliveryOutcome::Ok => DeliveryOutcome::RequeueAfter(after),
            DeliveryOutcome::RequeueAfter(asked) => DeliveryOutcome::RequeueAfter(asked.min(after)),
            other => other,
        };
        self
    }

    pub(crate) fn source_key(&self) -> SourceKey {
        (self.source, self.key.clone())
    }

    /// Ends the event. `failure` is what became of it after the handler's success, if it failed.
    pub(crate) fn end(self, failure: Option<DeliveryOutcome>) {
        (self.end)(failure.unwrap_or(self.outcome));
    }
}
