//! Changes an informer while it runs, including its namespaces and resources.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use informant_cache::{IndexConflict, SourceState};
use informant_object::SourceId;
use tokio_util::sync::CancellationToken;

use super::{InformerSpec, NamedInformer, Parts, SourceScope};
use crate::cluster_client::RETURN_MAX;
use crate::informer_loop::SourceHandoff;
use crate::reflector::ReflectorOptions;
use crate::shared_informer::{InformerStopped, ReconfigureError, SharedInformer, Visibility, validate_identity};
use crate::source_name::log;
use crate::spec::SourceSpec;

/// How long the deletes of a removed source may take to be delivered, including retries and pauses: 15 minutes. The
/// remaining ones are dropped and counted (`stop_undelivered`, and by the listener), because a handler may fail on them
/// without end.
pub(crate) const DRAIN_MAX: Duration = Duration::from_secs(900);

/// How long new sources may take to catch up with the quiesced ones that they replace: 10 s at first. Nothing is
/// delivered meanwhile. They had caught up just before, unless those had just read something that was not published
/// yet, and the new ones read from a replica that lags, or are so quiet that only a bookmark tells how far they are.
/// Then the old ones continue, and it is tried again with twice the time.
const CATCH_UP_FIRST_MAX: Duration = Duration::from_secs(10);

/// See [`CATCH_UP_FIRST_MAX`]: 5 min, the time between several bookmarks.
const CATCH_UP_MAX: Duration = Duration::from_secs(300);

/// How long outgoing sources may take to return from an outage before they are replaced: as long as failures after it
/// count as its own.
const OUTGOING_RETURN_MAX: Duration = RETURN_MAX;

/// How often to check whether they have caught up.
const CATCH_UP_STEP: Duration = Duration::from_millis(50);

type Sources = BTreeMap<SourceScope, Arc<SharedInformer>>;

/// The epoch of each source: see [`Snapshot::epoch`](informant_cache::Snapshot::epoch).
type Epochs = BTreeMap<SourceScope, u64>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum HandoffEnd {
    /// Done, or not wanted any more.
    Over,
    Postponed,
}

/// Whether new sources have what the quiesced ones have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CaughtUp {
    Yes,
    /// They never will: the cluster was rolled back at this very moment.
    RolledBack,
    NotInTime,
}

/// Sources that are still being built.
pub(super) struct PendingSources {
    pub(super) sources: Sources,
    cancel: CancellationToken,
}

impl Drop for PendingSources {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl NamedInformer {
    /// Changes everything but name, cluster and (unless it has several) resource, while handlers stay registered and
    /// events flow. Returns once the change is accepted; it is applied in the background, and
    /// [`statuses`](Self::statuses) and [`sources`](Self::sources) show the progress.
    ///
    /// - Sources whose resource and namespace stay change as in [`SharedInformer::reconfigure`]: handlers receive the
    ///   difference with reason `reconfigured`; while the new request is refused or the cluster unreachable, the old
    ///   one stays in use. Sources without changes are not touched.
    /// - Sources of new namespaces and resources start, and handlers receive their objects as an initial list. Removed
    ///   sources end, and handlers receive deletes for their objects, with reason `reconfigured` and the last state.
    /// - From all namespaces to some, or back, the new sources are built next to the old ones, without delivering
    ///   anything, until all have synced; the old ones stay in use until then. Objects that a new source has too (same
    ///   namespace, name and uid) are neither deleted nor redelivered; their queued events continue under the new
    ///   source's number. Handlers receive deletes for the others.
    ///   If the cluster is rolled back meanwhile, they are built again: what they have read may be lost history.
    ///
    /// A later change replaces one that is in progress.
    ///
    /// # Errors
    /// [`ReconfigureError`]; nothing has changed then.
    pub async fn reconfigure(&self, spec: InformerSpec) -> Result<(), ReconfigureError> {
        let _guard = self.0.reconfigure_lock.lock().await;
        self.reconfigure_locked(spec).await
    }

    async fn reconfigure_locked(&self, spec: InformerSpec) -> Result<(), ReconfigureError> {
        let before = {
            let members = self.0.members();
            members.running()?;
            members.spec.clone()
        };
        validate(&before, &spec)?;
        let present: Sources = self.0.members().sources.clone();
        let (mut kept, mut new) = (Vec::new(), Vec::new());
        for (scope, source) in spec.by_scope() {
            match present.get(&scope) {
                Some(running) => kept.push((Arc::clone(running), source)),
                None => new.push((scope, source)),
            }
        }
        let overlap = new
            .iter()
            .any(|(scope, _)| present.keys().any(|other| scope.overlaps(other)));
        let visibility = if overlap {
            Visibility::Staged
        } else {
            Visibility::Public
        };
        // Before the new sources list: what they read is of these epochs or of later ones.
        let epochs = epochs(&present);
        let mut started = Sources::new();
        for (scope, source) in new {
            started.insert(scope, self.0.start_source(source, &spec, visibility)?);
        }
        reconfigure_all(&kept, spec.reflector, before.reflector).await?;
        self.0.budget.set_max_bytes(spec.cache_bytes_max);
        // Only now, because a change that is rejected must not cancel one that was accepted. Sources of that one are
        // built again if they are still wanted.
        self.0.members().pending = None;
        let stay = spec.by_scope();
        let removed: Vec<_> = present
            .keys()
            .filter(|scope| !stay.contains_key(*scope))
            .cloned()
            .collect();
        if overlap {
            self.start_handoff(spec, started, removed, epochs);
        } else {
            self.deliver_after_draining(&started).await;
            self.replace_sources(spec, started, &removed);
        }
        Ok(())
    }

    /// Removes the informer like a namespace that is removed from it: handlers receive deletes for all its objects,
    /// with reason `reconfigured` and the last state, in the background; [`drained`](Self::drained) waits for that.
    /// From now on there are no new events, and lookups find nothing. [`stop`](Self::stop) cuts it short.
    pub fn drain(&self) {
        let draining: Vec<_> = {
            let mut members = self.0.members();
            members.stopped = true;
            members.pending = None;
            let draining: Vec<_> = std::mem::take(&mut members.sources).into_values().collect();
            members.draining.extend(draining.iter().cloned());
            draining
        };
        self.hide_and_drain(draining);
    }

    fn hide_and_drain(&self, sources: Vec<Arc<SharedInformer>>) {
        self.0.catalog.swap_listed(&ids(&sources), &[]);
        for source in sources {
            self.start_draining(source, Vec::new());
        }
    }

    /// Waits until no source is delivering deletes.
    pub async fn drained(&self) {
        loop {
            let mut drained = std::pin::pin!(self.0.drained.notified());
            // Enabled before the check, so that no notification is missed in between.
            drained.as_mut().enable();
            if self.0.members().draining.is_empty() {
                return;
            }
            drained.await;
        }
    }

    /// Adds and removes sources with disjoint scopes.
    fn replace_sources(&self, spec: InformerSpec, started: Sources, removed: &[SourceScope]) {
        let mut members = self.0.members();
        members.spec = spec;
        for (scope, source) in started {
            members.feeds.iter().for_each(|feed| source.send_index_feed(feed));
            for listener in &members.listeners {
                // It has just started, and runs until it is stopped.
                let _ = source.add_listener(listener.clone());
            }
            members.sources.insert(scope, source);
        }
        let draining: Vec<_> = removed
            .iter()
            .filter_map(|scope| members.sources.remove(scope))
            .collect();
        members.draining.extend(draining.iter().cloned());
        drop(members);
        self.hide_and_drain(draining);
    }

    /// Builds sources next to the ones that they replace.
    fn start_handoff(&self, spec: InformerSpec, started: Sources, removed: Vec<SourceScope>, epochs: Epochs) {
        let mut members = self.0.members();
        members.spec = spec;
        for source in started.values() {
            members.feeds.iter().for_each(|feed| source.send_index_feed(feed));
        }
        let cancel = members.background.child_token();
        members.pending = Some(PendingSources {
            sources: started.clone(),
            cancel: cancel.clone(),
        });
        drop(members);
        let parts = Arc::downgrade(&self.0);
        let environment = Arc::clone(&self.0.environment);
        let task = async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                () = all_synced(&started) => {}
            }
            // All sources return from an outage at about the same time. An outgoing one may be about to find that the
            // cluster was rolled back, which new ones whose versions are still lower would not notice.
            let until = environment.now() + OUTGOING_RETURN_MAX;
            let is_stale = || Weak::upgrade(&parts).is_some_and(|parts| parts.has_stale(&removed));
            while is_stale() && environment.now() < until && !cancel.is_cancelled() {
                environment.sleep(CATCH_UP_STEP).await;
            }
            let mut at_most = CATCH_UP_FIRST_MAX;
            let handoffs = || Weak::upgrade(&parts).map(|parts| parts.handoffs(&removed));
            while let Some(outgoing) = handoffs() {
                // The old sources stay in use meanwhile, however long that takes. The cluster may have been rolled back
                // since: then the present state of the old sources counts.
                let are_behind =
                    || is_behind(&started, &outgoing) && is_behind(&started, &handoffs().unwrap_or_default());
                while are_behind() && !cancel.is_cancelled() {
                    environment.sleep(CATCH_UP_STEP).await;
                }
                let Some(parts) = Weak::upgrade(&parts) else { return };
                let informer = NamedInformer(parts);
                let end = informer
                    .finish_handoff(&cancel, &started, &removed, (&epochs, at_most))
                    .await;
                if end == HandoffEnd::Over {
                    return;
                }
                at_most = (at_most * 2).min(CATCH_UP_MAX);
            }
        };
        self.0.environment.spawn("informer-handoff", Box::pin(task));
    }

    /// The new sources have synced: they replace the old ones, unless it turns out that they lack what those have.
    async fn finish_handoff(
        &self,
        cancel: &CancellationToken,
        started: &Sources,
        removed: &[SourceScope],
        (began, at_most): (&Epochs, Duration),
    ) -> HandoffEnd {
        let _guard = self.0.reconfigure_lock.lock().await;
        if cancel.is_cancelled() {
            return HandoffEnd::Over;
        }
        let (draining, spec) = {
            let members = self.0.members();
            let leaving = removed.iter().filter_map(|scope| members.sources.get_key_value(scope));
            let draining: Sources = leaving
                .map(|(scope, source)| (scope.clone(), Arc::clone(source)))
                .collect();
            (draining, members.spec.clone())
        };
        let is_rolled_back = |(scope, epoch): (&SourceScope, &u64)| began.get(scope) != Some(epoch);
        // The new sources may hold objects of the lost history and not know it, if their versions had not gone beyond
        // the restored ones: they are built again. If that fails, late objects are better than none.
        if epochs(&draining).iter().any(is_rolled_back) && self.reconfigure_locked(spec).await.is_ok() {
            return HandoffEnd::Over;
        }
        let draining: Vec<_> = draining.into_values().collect();
        let mut quiesced = Vec::with_capacity(draining.len());
        for source in &draining {
            // A stopped source has delivered everything it will.
            quiesced.extend(source.quiesce().await.ok());
        }
        let caught_up = self.catch_up(cancel, started, &quiesced, at_most).await;
        if caught_up == CaughtUp::NotInTime {
            draining.iter().for_each(|source| source.resume_reading());
            return HandoffEnd::Postponed;
        }
        for handoff in &mut quiesced {
            handoff.is_lost = caught_up == CaughtUp::RolledBack;
        }
        self.deliver_after_draining(started).await;
        let Ok(transfers) = self.swap_in(started, &draining, removed, &quiesced) else {
            return HandoffEnd::Over;
        };
        for (source, transfers) in started.values().zip(transfers) {
            // An error means that the source was stopped meanwhile.
            let _ = source.wait_for_disk(transfers).await;
        }
        let targets: Vec<SourceHandoff> = started.values().map(|source| source.as_handoff()).collect();
        for source in draining {
            self.start_draining(source, targets.clone());
        }
        HandoffEnd::Over
    }

    /// Orders the remaining deletes of draining sources, queued in a slow handler, before the events of new sources
    /// with an overlapping scope.
    async fn deliver_after_draining(&self, started: &Sources) {
        for (scope, source) in started {
            let removed: Vec<_> = {
                let members = self.0.members();
                let in_scope = |other: &&Arc<SharedInformer>| scope.overlaps(&SourceScope::of(&other.spec()));
                members.draining.iter().filter(in_scope).cloned().collect()
            };
            for other in &removed {
                other.deletes_queued().await;
            }
            source.deliver_after(ids(&removed));
        }
    }

    /// Waits until the new sources have seen at least as much as the quiesced ones: the last events of those are on
    /// their way to the new ones too.
    async fn catch_up(
        &self,
        cancel: &CancellationToken,
        started: &Sources,
        quiesced: &[SourceHandoff],
        at_most: Duration,
    ) -> CaughtUp {
        let until = self.0.environment.now() + at_most;
        let began = epochs(started);
        while is_behind(started, quiesced) && !cancel.is_cancelled() {
            if epochs(started) != began {
                return CaughtUp::RolledBack;
            }
            if self.0.environment.now() > until {
                tracing::warn!(
                    informer = self.name(),
                    waited_seconds = at_most.as_secs(),
                    "new sources still behind the ones they replace; those stay in use until they are not"
                );
                return CaughtUp::NotInTime;
            }
            self.0.environment.sleep(CATCH_UP_STEP).await;
        }
        CaughtUp::Yes
    }

    /// Swaps the sources for all lookups from now on, and transfers the listeners to the new ones.
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
        self.0.catalog.swap_listed(&ids(draining), &ids(started.values()));
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

    /// Delivers a source's deletes and ends it, in the background.
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

/// Reconfigures all of `sources`, or none.
async fn reconfigure_all(
    sources: &[(Arc<SharedInformer>, SourceSpec)],
    reflector: ReflectorOptions,
    reflector_before: ReflectorOptions,
) -> Result<(), ReconfigureError> {
    let mut changed: Vec<(&Arc<SharedInformer>, Arc<SourceSpec>)> = Vec::new();
    for (source, spec) in sources {
        let before = source.spec();
        if let Err(error) = source.reconfigure(spec.clone(), reflector).await {
            for (source, before) in changed {
                // Fails only if the source is stopped.
                let _ = SharedInformer::reconfigure(source, SourceSpec::clone(&before), reflector_before).await;
            }
            return Err(error);
        }
        changed.push((source, before));
    }
    Ok(())
}

fn ids<'a>(sources: impl IntoIterator<Item = &'a Arc<SharedInformer>>) -> Vec<SourceId> {
    sources.into_iter().map(|source| source.source()).collect()
}

fn epochs(sources: &Sources) -> Epochs {
    let epoch = |source: &SharedInformer| source.snapshot().epoch();
    sources
        .iter()
        .map(|(scope, source)| (scope.clone(), epoch(source)))
        .collect()
}

/// Whether a new source may not have seen yet what an outgoing one has.
fn is_behind(started: &Sources, outgoing: &[SourceHandoff]) -> bool {
    let is_behind = |source: &Arc<SharedInformer>| {
        let target = source.as_handoff();
        !outgoing.iter().all(|old| target.has_caught_up_with(old))
    };
    started.values().any(is_behind)
}

impl Parts {
    /// The present state of the sources with these scopes.
    fn handoffs(&self, scopes: &[SourceScope]) -> Vec<SourceHandoff> {
        let members = self.members();
        let sources = scopes.iter().filter_map(|scope| members.sources.get(scope));
        sources.map(|source| source.as_handoff()).collect()
    }

    /// Whether the watch of one of these sources is down.
    fn has_stale(&self, scopes: &[SourceScope]) -> bool {
        let members = self.members();
        let mut sources = scopes.iter().filter_map(|scope| members.sources.get(scope));
        sources.any(|source| source.status().state == SourceState::Stale)
    }
}

async fn all_synced(sources: &Sources) {
    for source in sources.values() {
        if source.synced().await.is_err() {
            // Stopped: there is nothing to hand off.
            return std::future::pending().await;
        }
    }
}

/// Checks what can be checked without a request.
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
