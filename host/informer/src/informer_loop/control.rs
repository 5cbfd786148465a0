//! Commands to the loop, handled between two batches.

use std::ops::ControlFlow;

use informant_cache::listener::{Beginning, ResumeState, Takeover};
use informant_cache::{
    IndexConflict, IndexFeedHandle, IndexFunc, ListenerHandle, OBJECTS_BETWEEN_YIELDS_MAX, Snapshot,
};
use informant_object::SourceId;
use tokio::sync::oneshot;

use super::{Candidate, InformerLoop, LoopParts, SourceHandoff};

pub(crate) enum Control {
    /// Deliver to this listener from now on; it begins with the stored objects.
    AddListener(ListenerHandle, Beginning),
    /// Stop delivering to this listener.
    RemoveListener(ListenerHandle),
    /// As `RemoveListener`: another process delivers to it.
    HandOver(ListenerHandle, oneshot::Sender<()>),
    /// Maintain the indexes of this plugin.
    AddFeed(IndexFeedHandle, oneshot::Sender<Result<(), IndexConflict>>),
    /// Stop maintaining them.
    RemoveFeed(IndexFeedHandle),
    /// Add these native indexes.
    AddIndexers(Vec<Box<dyn IndexFunc>>, oneshot::Sender<Result<(), IndexConflict>>),
    /// Replace native indexes.
    ChangeIndexers(IndexersChange, oneshot::Sender<Result<(), IndexConflict>>),
    /// Whether to notify listeners of objects that a relist shows unchanged.
    NotifyUnchanged(bool),
    /// Start a reflector with another request.
    StartCandidate(Candidate),
    /// The candidate is about to list: pause the updates of the current reflector. Answered once they are paused;
    /// dropped if the candidate is no longer wanted.
    Pause(u64, oneshot::Sender<()>),
    /// The candidate's list failed: resume.
    Resume(u64),
    /// Read nothing more; answered with everything that was read.
    Quiesce(oneshot::Sender<Snapshot>),
    /// Read again after a quiesce.
    ResumeReading,
    /// Deliver after the events of these removed sources with the same scope.
    DeliverAfter(Vec<SourceId>),
    /// Deliver to these listeners how this source differs from those that it replaces.
    TransferIn(Vec<ListenerHandle>, Vec<SourceHandoff>, oneshot::Sender<()>),
    /// Deliver deletes, except for what these other sources cover, then end.
    Drain(Vec<SourceHandoff>, oneshot::Sender<()>),
    /// Process what was accepted, then end.
    Stop(oneshot::Sender<()>),
}

/// Native indexes to remove and to add.
pub(crate) struct IndexersChange {
    pub(crate) removed: Vec<String>,
    pub(crate) added: Vec<Box<dyn IndexFunc>>,
}

impl InformerLoop {
    pub(super) async fn handle(&mut self, control: Control) -> ControlFlow<()> {
        match control {
            Control::AddListener(listener, beginning) => self.add_listener(listener, beginning),
            Control::RemoveListener(listener) => self.remove_listener(&listener),
            Control::HandOver(listener, done) => {
                self.hand_over(&listener);
                let _ = done.send(());
            }
            // A receiver that is gone does not need the answer.
            Control::AddFeed(feed, done) => drop(done.send(self.add_feed(feed))),
            Control::RemoveFeed(feed) => self.remove_feed(&feed),
            Control::AddIndexers(indexes, done) => drop(done.send(self.add_indexers(indexes).await)),
            Control::ChangeIndexers(change, done) => drop(done.send(self.change_indexers(change).await)),
            Control::NotifyUnchanged(notify) => self.parts.fifo.set_skip_unchanged(!notify),
            Control::StartCandidate(candidate) => self.start_candidate(candidate),
            Control::Pause(generation, done) => {
                if self.pause(generation).await {
                    let _ = done.send(());
                }
            }
            Control::Resume(generation) => self.resume(generation),
            Control::Quiesce(done) => {
                let snapshot = self.quiesce().await;
                let _ = done.send(snapshot);
            }
            Control::ResumeReading => {
                self.quiesced = false;
                self.restart_catch_up();
            }
            Control::DeliverAfter(sources) => self.predecessors = sources,
            Control::TransferIn(listeners, from, done) => {
                self.transfer_in(listeners, from).await;
                self.reply_once_delivered(done);
            }
            Control::Drain(targets, done) => {
                self.drain(&targets).await;
                let _ = done.send(());
                return ControlFlow::Break(());
            }
            Control::Stop(done) => {
                self.process_remaining().await;
                let _ = done.send(());
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Before the first list, a listener is only registered; all are attached once the list is published. Later ones
    /// receive the cache. Source: client-go `AddEventHandlerWithOptions`, without its lock over all deltas: between two
    /// batches nothing is in flight.
    fn add_listener(&mut self, listener: ListenerHandle, beginning: Beginning) {
        if self.listeners.iter().any(|known| known.ptr_eq(&listener)) {
            return;
        }
        match self.synced {
            true => self.attach(&listener, beginning),
            false => self.beginnings.push((listener.clone(), beginning)),
        }
        self.listeners.push(listener);
    }

    fn forget_listener(&mut self, listener: &ListenerHandle) {
        self.listeners.retain(|known| !known.ptr_eq(listener));
        self.beginnings.retain(|(known, _)| !known.ptr_eq(listener));
    }

    fn hand_over(&mut self, listener: &ListenerHandle) {
        self.forget_listener(listener);
        match &self.parts.durable {
            Some(durable) => durable.journal.hand_over(listener),
            None => listener.feed().hand_over(self.parts.source),
        }
    }

    fn remove_listener(&mut self, listener: &ListenerHandle) {
        self.forget_listener(listener);
        match &self.parts.durable {
            Some(durable) => durable.journal.detach(listener),
            None => listener.feed().detach(self.parts.source),
        }
    }

    /// Meanwhile events wait in their channel, and readers have the last snapshot, without the new indexes.
    async fn add_indexers(&mut self, indexes: Vec<Box<dyn IndexFunc>>) -> Result<(), IndexConflict> {
        let names: Vec<_> = indexes.iter().map(|index| (index.name().to_owned(), 0)).collect();
        let store = &mut self.parts.store;
        let mut filling = store.begin_indexers(indexes)?;
        while !store.fill_indexers(&mut filling, OBJECTS_BETWEEN_YIELDS_MAX) {
            tokio::task::yield_now().await;
        }
        for (name, _) in &names {
            self.parts.metrics.set_index_attached(name, true);
        }
        self.parts.native_indexes.extend(names);
        self.update_head_fields();
        self.publish();
        Ok(())
    }

    /// Rebuilds the store with other native indexes. Those of plugins start from scratch too: detached, then
    /// backfilled. Meanwhile events wait in their channel, and readers have the last snapshot, with the old indexes.
    async fn change_indexers(&mut self, change: IndexersChange) -> Result<(), IndexConflict> {
        let IndexersChange { removed, added } = change;
        let kept = self.parts.native_indexes.iter();
        let mut indexes: Vec<_> = kept.filter(|(name, _)| !removed.contains(name)).cloned().collect();
        indexes.extend(added.iter().map(|index| (index.name().to_owned(), 0)));
        let mut store = self.parts.store.with_indexers(&removed, added)?;
        while !store.copy_objects(&self.parts.store, OBJECTS_BETWEEN_YIELDS_MAX) {
            tokio::task::yield_now().await;
        }
        for name in self.feeds.names() {
            store.declare_index(&name)?;
        }
        let old = std::mem::replace(&mut self.parts.store, store);
        self.parts.dropper.drop_later(old.into_garbage());
        for name in &removed {
            self.parts.metrics.forget_index(name);
            self.index_warnings.forget(name);
        }
        for (name, _) in &indexes {
            self.parts.metrics.set_index_attached(name, true);
        }
        self.parts.native_indexes = indexes;
        self.update_head_fields();
        self.restart_feeds();
        self.publish();
        Ok(())
    }

    pub(super) fn attach_all(&mut self) {
        for (listener, beginning) in std::mem::take(&mut self.beginnings) {
            self.attach(&listener, beginning);
        }
    }

    fn attach(&self, listener: &ListenerHandle, beginning: Beginning) {
        let LoopParts {
            source,
            store,
            environment,
            durable,
            ..
        } = &self.parts;
        let now = environment.now();
        self.deliver_after_predecessors(listener);
        let takeover = match beginning {
            Beginning::Start => None,
            Beginning::Takeover(takeover, dead_letters) => Some(ResumeState {
                dead_letters,
                ..self.resume_of(takeover)
            }),
        };
        let (feed, snapshot) = (listener.feed(), store.published());
        match (durable, takeover) {
            (Some(durable), takeover) => durable.journal.attach(listener, takeover, now),
            (None, Some(takeover)) => feed.attach_resumed(*source, snapshot, takeover, now),
            (None, None) => feed.attach(*source, snapshot, now),
        }
    }

    /// What another process has left of this source.
    fn resume_of(&self, takeover: Takeover) -> ResumeState {
        // Its versions may be of the history before a rollback that this process has seen.
        let compares = self.guard.is_on() && self.guard.epoch() == 0;
        let takeover = Takeover {
            watermark: takeover.watermark.filter(|_| compares),
            ..takeover
        };
        ResumeState::of_takeover(takeover, self.parts.kept_deletes.of(self.parts.source))
    }

    /// Processes what the reflector sent before it was stopped.
    async fn process_remaining(&mut self) {
        self.drop_waiting_list();
        while let Ok(updates) = self.parts.updates.try_recv() {
            self.receive(updates).await;
        }
    }

    /// The source is over: frees its content in the background.
    pub(super) fn end(mut self) {
        self.remove_all_feeds();
        self.parts.kept_deletes.forget(self.parts.source);
        let parts = self.parts;
        parts.dropper.drop_later((parts.store.into_garbage(), self.batch));
    }
}
