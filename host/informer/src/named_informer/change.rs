//! How an informer changes while it runs, its namespaces and resources included.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use informant_cache::IndexConflict;
use tokio_util::sync::CancellationToken;

use super::{Among, InformerSpec, NamedInformer, Parts, Place};
use crate::informer_loop::Neighbor;
use crate::shared_informer::{InformerStopped, ReconfigureError, SharedInformer, judge_identity};
use crate::spec::SourceSpec;

/// How long the deletes of a source that left may take to be delivered, retries included; what is left then is dropped
/// and counted (`stop_undelivered`). A handler's usual ten attempts take about ten minutes.
pub(crate) const LEAVING_MAX: Duration = Duration::from_secs(900);

/// How long sources that come may take to have seen as much as those that they take over from, while nothing is told.
/// They had caught up just before; only a watch that fell silent at that very moment needs as long, and it is opened
/// anew before.
pub(crate) const CATCH_UP_MAX: Duration = Duration::from_secs(300);

/// How often it is looked whether they have.
const CATCH_UP_STEP: Duration = Duration::from_millis(50);

type Sources = BTreeMap<Place, Arc<SharedInformer>>;

/// Sources on their way in.
pub(super) struct Coming {
    pub(super) sources: Sources,
    called_off: CancellationToken,
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.called_off.cancel();
    }
}

impl NamedInformer {
    /// Changes everything but name, cluster and (unless it has several) resource while handlers stay and events flow.
    /// Returns once the change is accepted; it takes place in the background, and [`statuses`](Self::statuses) and
    /// [`sources`](Self::sources) show how far it is.
    ///
    /// - Sources whose resource and namespace stay change as [`SharedInformer::reconfigure`] says: the difference is
    ///   told, reason `reconfigured`; while the new request is refused or unreachable the old one goes on. A source for
    ///   which nothing changes is not touched.
    /// - Sources of namespaces and resources that are new start, and handlers are shown them as an initial list. Those
    ///   that are gone end, and what they held is told as deletes with reason `reconfigured` and the last state.
    /// - From all namespaces to some, or back, the new sources are built beside the old ones, told to nobody, until all
    ///   have synced; the old ones go on until then. Objects that a new source holds too (same namespace, name and uid)
    ///   are neither deleted nor told again; what waits for them goes on under the new source's number. The rest is
    ///   told as deletes.
    ///
    /// A further change takes the place of one that is under way.
    ///
    /// # Errors
    /// [`ReconfigureError`]; nothing is changed then.
    pub async fn reconfigure(&self, spec: InformerSpec) -> Result<(), ReconfigureError> {
        let _turn = self.0.change_turn.lock().await;
        let before = {
            let members = self.0.members();
            members.running()?;
            members.spec.clone()
        };
        judge(&before, &spec)?;
        let wanted = spec.by_place();
        // Sources that were on their way by the last change are built anew if they are still wanted.
        let present: Sources = {
            let mut members = self.0.members();
            members.coming = None;
            members.sources.clone()
        };
        let (kept, new) = split(wanted, &present);
        for (source, spec_of_it) in &kept {
            source.reconfigure(spec_of_it.clone(), spec.reflector).await?;
        }
        let overlap = new
            .iter()
            .any(|(place, _)| present.keys().any(|other| place.overlaps(other)));
        let among = if overlap { Among::Nobody } else { Among::Others };
        let mut started = Sources::new();
        for (place, source) in new {
            started.insert(place, self.0.start_source(source, &spec, among)?);
        }
        let stay = spec.by_place();
        let gone: Vec<_> = present
            .keys()
            .filter(|place| !stay.contains_key(*place))
            .cloned()
            .collect();
        if overlap {
            self.bring_in(spec, started, gone);
        } else {
            self.follow_leaving(&started).await;
            self.exchange(spec, started, &gone);
        }
        Ok(())
    }

    /// Ends the informer as a namespace ends that it names no more: what its sources held is told as deletes with
    /// reason `reconfigured` and the last state, in the background, for as long as [`left`](Self::left) takes. Nothing
    /// new comes from here on, and lookups find nothing. [`stop`](Self::stop) cuts it short.
    pub fn retire(&self) {
        let leaving: Vec<_> = {
            let mut members = self.0.members();
            members.stopped = true;
            members.coming = None;
            let leaving: Vec<_> = std::mem::take(&mut members.sources).into_values().collect();
            members.leaving.extend(leaving.iter().cloned());
            leaving
        };
        let hidden: Vec<_> = leaving.iter().map(|source| source.source()).collect();
        self.0.catalog.exchange(&hidden, &[]);
        for source in leaving {
            self.let_go(source, Vec::new());
        }
    }

    /// Waits until no source is left that still tells deletes.
    pub async fn left(&self) {
        loop {
            let mut left = std::pin::pin!(self.0.left.notified());
            // Before it is looked, so that nothing is missed between.
            left.as_mut().enable();
            if self.0.members().leaving.is_empty() {
                return;
            }
            left.await;
        }
    }

    /// Adds and removes sources that have nothing in common.
    fn exchange(&self, spec: InformerSpec, started: Sources, gone: &[Place]) {
        let mut members = self.0.members();
        members.spec = spec;
        for (place, source) in started {
            members.feeds.iter().for_each(|feed| source.send_index_feed(feed));
            for listener in &members.listeners {
                // It has just started, and runs until it is told otherwise.
                let _ = source.add_listener(listener.clone());
            }
            members.sources.insert(place, source);
        }
        let leaving: Vec<_> = gone.iter().filter_map(|place| members.sources.remove(place)).collect();
        let hidden: Vec<_> = leaving.iter().map(|source| source.source()).collect();
        members.leaving.extend(leaving.iter().cloned());
        drop(members);
        self.0.catalog.exchange(&hidden, &[]);
        for source in leaving {
            self.let_go(source, Vec::new());
        }
    }

    /// Builds sources beside the ones that they take over from.
    fn bring_in(&self, spec: InformerSpec, started: Sources, gone: Vec<Place>) {
        let mut members = self.0.members();
        members.spec = spec;
        for source in started.values() {
            members.feeds.iter().for_each(|feed| source.send_index_feed(feed));
        }
        let called_off = members.background.child_token();
        members.coming = Some(Coming {
            sources: started.clone(),
            called_off: called_off.clone(),
        });
        drop(members);
        let parts = Arc::downgrade(&self.0);
        let environment = Arc::clone(&self.0.environment);
        let task = async move {
            tokio::select! {
                biased;
                () = called_off.cancelled() => return,
                () = all_synced(&started) => {}
            }
            let Some(going) = Weak::upgrade(&parts).map(|parts| parts.neighbors(&gone)) else {
                return;
            };
            // What runs goes on meanwhile, however long that takes.
            while is_behind(&started, &going) && !called_off.is_cancelled() {
                environment.sleep(CATCH_UP_STEP).await;
                // The cluster may have gone back in time since: then what runs is the measure.
                let now = Weak::upgrade(&parts).map(|parts| parts.neighbors(&gone));
                if !is_behind(&started, now.as_deref().unwrap_or_default()) {
                    break;
                }
            }
            if let Some(parts) = Weak::upgrade(&parts) {
                // Not called off half-way: it takes milliseconds.
                NamedInformer(parts).hand_over(&called_off, started, &gone).await;
            }
        };
        self.0.environment.spawn("informer-change", Box::pin(task));
    }

    /// The sources that came have synced: they take the place of those that go.
    async fn hand_over(&self, called_off: &CancellationToken, started: Sources, gone: &[Place]) {
        let _turn = self.0.change_turn.lock().await;
        if called_off.is_cancelled() {
            return;
        }
        let leaving: Vec<_> = {
            let members = self.0.members();
            gone.iter()
                .filter_map(|place| members.sources.get(place).cloned())
                .collect()
        };
        let mut resting = Vec::with_capacity(leaving.len());
        for source in &leaving {
            // One that was stopped has told all it will.
            resting.extend(source.rest().await.ok());
        }
        self.catch_up(called_off, &started, &resting).await;
        self.follow_leaving(&started).await;
        let Ok(taken) = self.seat(&started, &leaving, gone, &resting) else {
            return;
        };
        for (source, taken) in started.values().zip(taken) {
            // An error says that the source was stopped meanwhile.
            let _ = source.once_on_disk(taken).await;
        }
        let heirs: Vec<Neighbor> = started.values().map(|source| source.as_neighbor()).collect();
        for source in leaving {
            self.let_go(source, heirs.clone());
        }
    }

    /// Puts what was left a while ago, and still has deletes to tell to somebody slow, before what comes in its place.
    async fn follow_leaving(&self, started: &Sources) {
        for (place, source) in started {
            let left: Vec<_> = {
                let members = self.0.members();
                let of_this_place = |other: &&Arc<SharedInformer>| place.overlaps(&Place::of(&other.spec()));
                members.leaving.iter().filter(of_this_place).cloned().collect()
            };
            for other in &left {
                other.deletes_told().await;
            }
            source.follow(left.iter().map(|other| other.source()).collect());
        }
    }

    /// Waits until the sources that came have seen as much as those that rest: what these read last is on its way to
    /// the others too.
    async fn catch_up(&self, called_off: &CancellationToken, started: &Sources, resting: &[Neighbor]) {
        let until = self.0.environment.now() + CATCH_UP_MAX;
        while is_behind(started, resting) && !called_off.is_cancelled() {
            if self.0.environment.now() > until {
                return tracing::warn!(
                    "informer {}: new sources are behind those that they take over from after {} s; they take over all the same",
                    self.name(),
                    CATCH_UP_MAX.as_secs()
                );
            }
            self.0.environment.sleep(CATCH_UP_STEP).await;
        }
    }

    /// Exchanges the sources for everybody who asks from now on, and orders the new ones to take the listeners over.
    fn seat(
        &self,
        started: &Sources,
        leaving: &[Arc<SharedInformer>],
        gone: &[Place],
        from: &[Neighbor],
    ) -> Result<Vec<tokio::sync::oneshot::Receiver<()>>, InformerStopped> {
        let mut members = self.0.members();
        members.running()?;
        members.coming = None;
        let ids = |sources: &mut dyn Iterator<Item = &Arc<SharedInformer>>| -> Vec<_> {
            sources.map(|source| source.source()).collect()
        };
        self.0
            .catalog
            .exchange(&ids(&mut leaving.iter()), &ids(&mut started.values()));
        for place in gone {
            members.sources.remove(place);
        }
        members.leaving.extend(leaving.iter().cloned());
        members.sources.extend(started.clone());
        let listeners = &members.listeners;
        started
            .values()
            .map(|source| source.take_over(listeners.clone(), from))
            .collect()
    }

    /// Has a source tell its deletes and end, in the background.
    fn let_go(&self, source: Arc<SharedInformer>, heirs: Vec<Neighbor>) {
        let background = self.0.members().background.clone();
        let parts = Arc::downgrade(&self.0);
        let task = async move {
            tokio::select! {
                biased;
                () = background.cancelled() => {}
                report = source.leave(heirs, LEAVING_MAX) => {
                    tracing::info!("{}: left, {} events undelivered", source.name(), report.undelivered);
                }
            }
            if let Some(parts) = Weak::upgrade(&parts) {
                parts.members().leaving.retain(|other| !Arc::ptr_eq(other, &source));
                parts.left.notify_waiters();
            }
        };
        self.0.environment.spawn("informer-leaving", Box::pin(task));
    }
}

/// Whether one of the sources that came may not know yet what those that go held.
fn is_behind(started: &Sources, going: &[Neighbor]) -> bool {
    let is_behind = |source: &Arc<SharedInformer>| {
        let heir = source.as_neighbor();
        !going.iter().all(|old| heir.has_seen(old))
    };
    started.values().any(is_behind)
}

impl Parts {
    /// What the sources at these places hold now.
    fn neighbors(&self, places: &[Place]) -> Vec<Neighbor> {
        let members = self.members();
        let sources = places.iter().filter_map(|place| members.sources.get(place));
        sources.map(|source| source.as_neighbor()).collect()
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
fn split(
    wanted: BTreeMap<Place, SourceSpec>,
    present: &Sources,
) -> (Vec<(Arc<SharedInformer>, SourceSpec)>, Vec<(Place, SourceSpec)>) {
    let mut kept = Vec::new();
    let mut new = Vec::new();
    for (place, source) in wanted {
        match present.get(&place) {
            Some(running) => kept.push((Arc::clone(running), source)),
            None => new.push((place, source)),
        }
    }
    (kept, new)
}

/// What can be told without asking anybody.
fn judge(before: &InformerSpec, spec: &InformerSpec) -> Result<(), ReconfigureError> {
    if before.resources.is_some() != spec.resources.is_some() {
        return Err(ReconfigureError::AnotherSource { what: "the resource" });
    }
    let nameless = |spec: &InformerSpec| SourceSpec {
        namespace: None,
        ..spec.source.clone()
    };
    judge_identity(&nameless(before), &nameless(spec))?;
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
