//! How an informer changes while it runs, its namespaces and resources included.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use informant_cache::IndexConflict;
use tokio_util::sync::CancellationToken;

use super::{InformerSpec, NamedInformer, Parts, SourceScope, Visibility};
use crate::informer_loop::SourceHandoff;
use crate::shared_informer::{InformerStopped, ReconfigureError, SharedInformer, validate_identity};
use crate::source_name::log;
use crate::spec::SourceSpec;

/// How long the deletes of a source that left may take to be delivered, retries included; what is left then is dropped
/// and counted (`stop_undelivered`). A handler's usual ten attempts take about ten minutes.
pub(crate) const DRAIN_MAX: Duration = Duration::from_secs(900);

/// How long sources that come may take to have seen as much as those that they take over from, while nothing is told.
/// They had caught up just before; only a watch that fell silent at that very moment needs as long, and it is opened
/// anew before.
pub(crate) const CATCH_UP_MAX: Duration = Duration::from_secs(300);

/// How often it is looked whether they have.
const CATCH_UP_STEP: Duration = Duration::from_millis(50);

type Sources = BTreeMap<SourceScope, Arc<SharedInformer>>;

/// Sources on their way in.
pub(super) struct PendingSources {
    pub(super) sources: Sources,
    cancelled: CancellationToken,
}

impl Drop for PendingSources {
    fn drop(&mut self) {
        self.cancelled.cancel();
    }
}

impl NamedInformer {
    /// Changes everything but name, cluster and (unless it has several) resource while handlers stay and events flow.
    /// Returns once the change is accepted; it takes scope in the background, and [`statuses`](Self::statuses) and
    /// [`sources`](Self::sources) show how far it is.
    ///
    /// - Sources whose resource and namespace stay change as [`SharedInformer::reconfigure`] says: the difference is
    ///   told, reason `reconfigured`; while the new request is refused or unreachable the old one goes on. A source for
    ///   which nothing changes is not touched.
    /// - Sources of namespaces and resources that are new start, and handlers are shown them as an initial list. Those
    ///   that are removed end, and what they held is told as deletes with reason `reconfigured` and the last state.
    /// - From all namespaces to some, or back, the new sources are built beside the old ones, told to nobody, until all
    ///   have synced; the old ones go on until then. Objects that a new source holds too (same namespace, name and uid)
    ///   are neither deleted nor told again; what waits for them goes on under the new source's number. The rest is
    ///   told as deletes.
    ///
    /// A further change takes the scope of one that is under way.
    ///
    /// # Errors
    /// [`ReconfigureError`]; nothing is changed then.
    pub async fn reconfigure(&self, spec: InformerSpec) -> Result<(), ReconfigureError> {
        let _turn = self.0.reconfigure_lock.lock().await;
        let before = {
            let members = self.0.members();
            members.running()?;
            members.spec.clone()
        };
        validate(&before, &spec)?;
        let wanted = spec.by_scope();
        // Sources that were on their way by the last change are built anew if they are still wanted.
        let present: Sources = {
            let mut members = self.0.members();
            members.pending = None;
            members.sources.clone()
        };
        let (kept, new) = partition(wanted, &present);
        for (source, spec_of_it) in &kept {
            source.reconfigure(spec_of_it.clone(), spec.reflector).await?;
        }
        let overlap = new
            .iter()
            .any(|(scope, _)| present.keys().any(|other| scope.overlaps(other)));
        let visibility = if overlap {
            Visibility::Staged
        } else {
            Visibility::Public
        };
        let mut started = Sources::new();
        for (scope, source) in new {
            started.insert(scope, self.0.start_source(source, &spec, visibility)?);
        }
        let stay = spec.by_scope();
        let removed: Vec<_> = present
            .keys()
            .filter(|scope| !stay.contains_key(*scope))
            .cloned()
            .collect();
        if overlap {
            self.start_handoff(spec, started, removed);
        } else {
            self.deliver_after_draining(&started).await;
            self.replace_sources(spec, started, &removed);
        }
        Ok(())
    }

    /// Ends the informer as a namespace ends that it names no more: what its sources held is told as deletes with
    /// reason `reconfigured` and the last state, in the background, for as long as [`left`](Self::left) takes. Nothing
    /// new comes from here on, and lookups find nothing. [`stop`](Self::stop) cuts it short.
    pub fn drain(&self) {
        let draining: Vec<_> = {
            let mut members = self.0.members();
            members.stopped = true;
            members.pending = None;
            let draining: Vec<_> = std::mem::take(&mut members.sources).into_values().collect();
            members.draining.extend(draining.iter().cloned());
            draining
        };
        let hidden: Vec<_> = draining.iter().map(|source| source.source()).collect();
        self.0.catalog.exchange(&hidden, &[]);
        for source in draining {
            self.start_draining(source, Vec::new());
        }
    }

    /// Waits until no source is left that still tells deletes.
    pub async fn drained(&self) {
        loop {
            let mut left = std::pin::pin!(self.0.drained.notified());
            // Before it is looked, so that nothing is missed between.
            left.as_mut().enable();
            if self.0.members().draining.is_empty() {
                return;
            }
            left.await;
        }
    }

    /// Adds and removes sources that have nothing in common.
    fn replace_sources(&self, spec: InformerSpec, started: Sources, removed: &[SourceScope]) {
        let mut members = self.0.members();
        members.spec = spec;
        for (scope, source) in started {
            members.feeds.iter().for_each(|feed| source.send_index_feed(feed));
            for listener in &members.listeners {
                // It has just started, and runs until it is told otherwise.
                let _ = source.add_listener(listener.clone());
            }
            members.sources.insert(scope, source);
        }
        let draining: Vec<_> = removed
            .iter()
            .filter_map(|scope| members.sources.remove(scope))
            .collect();
        let hidden: Vec<_> = draining.iter().map(|source| source.source()).collect();
        members.draining.extend(draining.iter().cloned());
        drop(members);
        self.0.catalog.exchange(&hidden, &[]);
        for source in draining {
            self.start_draining(source, Vec::new());
        }
    }

    /// Builds sources beside the ones that they take over from.
    fn start_handoff(&self, spec: InformerSpec, started: Sources, removed: Vec<SourceScope>) {
        let mut members = self.0.members();
        members.spec = spec;
        for source in started.values() {
            members.feeds.iter().for_each(|feed| source.send_index_feed(feed));
        }
        let cancelled = members.background.child_token();
        members.pending = Some(PendingSources {
            sources: started.clone(),
            cancelled: cancelled.clone(),
        });
        drop(members);
        let parts = Arc::downgrade(&self.0);
        let environment = Arc::clone(&self.0.environment);
        let task = async move {
            tokio::select! {
                biased;
                () = cancelled.cancelled() => return,
                () = all_synced(&started) => {}
            }
            let Some(outgoing) = Weak::upgrade(&parts).map(|parts| parts.handoffs(&removed)) else {
                return;
            };
            // What runs goes on meanwhile, however long that takes.
            while is_behind(&started, &outgoing) && !cancelled.is_cancelled() {
                environment.sleep(CATCH_UP_STEP).await;
                // The cluster may have removed back in time since: then what runs is the measure.
                let now = Weak::upgrade(&parts).map(|parts| parts.handoffs(&removed));
                if !is_behind(&started, now.as_deref().unwrap_or_default()) {
                    break;
                }
            }
            if let Some(parts) = Weak::upgrade(&parts) {
                // Not called off half-way: it takes milliseconds.
                NamedInformer(parts).finish_handoff(&cancelled, started, &removed).await;
            }
        };
        self.0.environment.spawn("informer-handoff", Box::pin(task));
    }

    /// The sources that came have synced: they take the scope of those that go.
    async fn finish_handoff(&self, cancelled: &CancellationToken, started: Sources, removed: &[SourceScope]) {
        let _turn = self.0.reconfigure_lock.lock().await;
        if cancelled.is_cancelled() {
            return;
        }
        let draining: Vec<_> = {
            let members = self.0.members();
            removed
                .iter()
                .filter_map(|scope| members.sources.get(scope).cloned())
                .collect()
        };
        let mut quiesced = Vec::with_capacity(draining.len());
        for source in &draining {
            // One that was stopped has told all it will.
            quiesced.extend(source.quiesce().await.ok());
        }
        self.catch_up(cancelled, &started, &quiesced).await;
        self.deliver_after_draining(&started).await;
        let Ok(transfers) = self.swap_in(&started, &draining, removed, &quiesced) else {
            return;
        };
        for (source, transfers) in started.values().zip(transfers) {
            // An error says that the source was stopped meanwhile.
            let _ = source.wait_for_disk(transfers).await;
        }
        let targets: Vec<SourceHandoff> = started.values().map(|source| source.as_handoff()).collect();
        for source in draining {
            self.start_draining(source, targets.clone());
        }
    }

    /// Puts what was left a while ago, and still has deletes to tell to somebody slow, before what comes in its scope.
    async fn deliver_after_draining(&self, started: &Sources) {
        for (scope, source) in started {
            let left: Vec<_> = {
                let members = self.0.members();
                let in_scope = |other: &&Arc<SharedInformer>| scope.overlaps(&SourceScope::of(&other.spec()));
                members.draining.iter().filter(in_scope).cloned().collect()
            };
            for other in &left {
                other.deletes_queued().await;
            }
            source.deliver_after(left.iter().map(|other| other.source()).collect());
        }
    }

    /// Waits until the sources that came have seen as much as those that rest: what these read last is on its way to
    /// the others too.
    async fn catch_up(&self, cancelled: &CancellationToken, started: &Sources, quiesced: &[SourceHandoff]) {
        let until = self.0.environment.now() + CATCH_UP_MAX;
        while is_behind(started, quiesced) && !cancelled.is_cancelled() {
            if self.0.environment.now() > until {
                return tracing::warn!(
                    informer = self.name(),
                    waited_seconds = CATCH_UP_MAX.as_secs(),
                    "new sources still behind the ones they replace; replacing them anyway"
                );
            }
            self.0.environment.sleep(CATCH_UP_STEP).await;
        }
    }

    /// Exchanges the sources for everybody who asks from now on, and orders the new ones to take the listeners over.
    fn swap_in(
        &self,
        started: &Sources,
        draining: &[Arc<SharedInformer>],
        removed: &[SourceScope],
        from: &[SourceHandoff],
    ) -> Result<Vec<tokio::sync::oneshot::Receiver<()>>, InformerStopped> {
        let mut members = self.0.members();
        members.running()?;
        members.pending = None;
        let ids = |sources: &mut dyn Iterator<Item = &Arc<SharedInformer>>| -> Vec<_> {
            sources.map(|source| source.source()).collect()
        };
        self.0
            .catalog
            .exchange(&ids(&mut draining.iter()), &ids(&mut started.values()));
        for scope in removed {
            members.sources.remove(scope);
        }
        members.draining.extend(draining.iter().cloned());
        members.sources.extend(started.clone());
        let listeners = &members.listeners;
        started
            .values()
            .map(|source| source.transfer_in(listeners.clone(), from))
            .collect()
    }

    /// Has a source tell its deletes and end, in the background.
    fn start_draining(&self, source: Arc<SharedInformer>, targets: Vec<SourceHandoff>) {
        let background = self.0.members().background.clone();
        let parts = Arc::downgrade(&self.0);
        let task = async move {
            tokio::select! {
                biased;
                () = background.cancelled() => {}
                report = source.drain(targets, DRAIN_MAX) => {
                    log!(info, source.source_name(), undelivered = report.undelivered, "source removed");
                }
            }
            if let Some(parts) = Weak::upgrade(&parts) {
                parts.members().draining.retain(|other| !Arc::ptr_eq(other, &source));
                parts.drained.notify_waiters();
            }
        };
        self.0.environment.spawn("informer-drain", Box::pin(task));
    }
}

/// Whether one of the sources that came may not know yet what those that go held.
fn is_behind(started: &Sources, outgoing: &[SourceHandoff]) -> bool {
    let is_behind = |source: &Arc<SharedInformer>| {
        let target = source.as_handoff();
        !outgoing.iter().all(|old| target.has_caught_up_with(old))
    };
    started.values().any(is_behind)
}

impl Parts {
    /// What the sources at these scopes hold now.
    fn handoffs(&self, scopes: &[SourceScope]) -> Vec<SourceHandoff> {
        let members = self.members();
        let sources = scopes.iter().filter_map(|scope| members.sources.get(scope));
        sources.map(|source| source.as_handoff()).collect()
    }
}

async fn all_synced(sources: &Sources) {
    for source in sources.values() {
        if source.synced().await.is_err() {
            // Stopped: there is nothing to hand over.
            return std::future::pending().await;
        }
    }
}

/// The sources that stay, with what they are to be from now on, and those that are to be started.
#[expect(clippy::type_complexity, reason = "two lists, named by the function")]
fn partition(
    wanted: BTreeMap<SourceScope, SourceSpec>,
    present: &Sources,
) -> (Vec<(Arc<SharedInformer>, SourceSpec)>, Vec<(SourceScope, SourceSpec)>) {
    let mut kept = Vec::new();
    let mut new = Vec::new();
    for (scope, source) in wanted {
        match present.get(&scope) {
            Some(running) => kept.push((Arc::clone(running), source)),
            None => new.push((scope, source)),
        }
    }
    (kept, new)
}

/// What can be told without asking anybody.
fn validate(before: &InformerSpec, spec: &InformerSpec) -> Result<(), ReconfigureError> {
    if before.resources.is_some() != spec.resources.is_some() {
        return Err(ReconfigureError::AnotherSource { what: "the resource" });
    }
    let nameless = |spec: &InformerSpec| SourceSpec {
        namespace: None,
        ..spec.source.clone()
    };
    validate_identity(&nameless(before), &nameless(spec))?;
    if !spec.namespaces.is_empty() && spec.resources.is_none() && !spec.source.namespaced {
        return Err(ReconfigureError::NotNamespaced {
            resource: spec.source.resource.to_string(),
        });
    }
    let mut names: Vec<&str> = spec.source.indexes.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        let names = vec![pair[0].to_owned()];
        return Err(ReconfigureError::Index(IndexConflict { names }));
    }
    Ok(spec.source.shape().map(drop)?)
}
