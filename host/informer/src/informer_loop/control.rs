//! What the loop is told from outside, between two batches.

use std::ops::ControlFlow;
use std::sync::Arc;

use informant_cache::{IndexConflict, IndexFeedHandle, IndexFunc, ListenerHandle, Snapshot};
use informant_object::SourceId;
use tokio::sync::{Notify, oneshot};

use super::{Candidate, InformerLoop, SourceHandoff, SourceTransfer};

/// An transfer to the loop.
pub(crate) enum Control {
    /// Tell this listener everything from now on; what is there already, it sees as its initial list.
    AddListener(ListenerHandle),
    /// As `AddListener`, and wait for it before each batch.
    AddBlockingListener(BlockingListener),
    /// Tell this listener nothing any more.
    RemoveListener(ListenerHandle),
    /// Keep the indexes of this plugin.
    AddFeed(IndexFeedHandle, oneshot::Sender<Result<(), IndexConflict>>),
    /// Keep them no more.
    RemoveFeed(IndexFeedHandle),
    /// Keep these indexes too.
    AddIndexers(Vec<Box<dyn IndexFunc>>, oneshot::Sender<Result<(), IndexConflict>>),
    /// Keep other native indexes.
    ChangeIndexers(IndexersChange, oneshot::Sender<Result<(), IndexConflict>>),
    /// Whether to tell of what a relist shows unchanged.
    NotifyUnchanged(bool),
    /// Let a reflector with another request try.
    StartCandidate(Candidate),
    /// The reflector on probation is about to list: what the other brings is to wait. Answered once it does; dropped if
    /// nobody wants the list any more.
    Pause(u64, oneshot::Sender<()>),
    /// The reflector on probation did not get its list.
    Resume(u64),
    /// Read nothing any more; answered with all that was read.
    Quiesce(oneshot::Sender<Snapshot>),
    /// Have listeners finish with these first, which left this source's place.
    DeliverAfter(Vec<SourceId>),
    /// Tell listeners how this source differs from those it takes over from.
    TransferIn(SourceTransfer, oneshot::Sender<()>),
    /// Tell listeners of deletes, but for what these others tell of, then end.
    Drain(Vec<SourceHandoff>, oneshot::Sender<()>),
    /// Process what has been accepted, then end.
    Stop(oneshot::Sender<()>),
}

/// A listener that is waited for while it has no room.
pub(crate) struct BlockingListener {
    pub(crate) listener: ListenerHandle,
    /// Told whenever there may be room again.
    pub(crate) capacity: Arc<Notify>,
}

/// Which native indexes go, and which come.
pub(crate) struct IndexersChange {
    pub(crate) removed: Vec<String>,
    pub(crate) added: Vec<Box<dyn IndexFunc>>,
}

impl InformerLoop {
    pub(super) async fn handle(&mut self, control: Control) -> ControlFlow<()> {
        match control {
            Control::AddListener(listener) => self.add_listener(listener),
            Control::AddBlockingListener(blocking) => {
                self.add_listener(blocking.listener.clone());
                self.blocking_listener = Some(blocking);
            }
            Control::RemoveListener(listener) => self.remove_listener(&listener),
            // Who does not wait for the answer does not need it.
            Control::AddFeed(feed, done) => drop(done.send(self.add_feed(feed))),
            Control::RemoveFeed(feed) => self.remove_feed(&feed),
            Control::AddIndexers(indexes, done) => drop(done.send(self.add_indexers(indexes))),
            Control::ChangeIndexers(change, done) => drop(done.send(self.change_indexers(change))),
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
            Control::DeliverAfter(sources) => self.predecessors = sources,
            Control::TransferIn(transfer, done) => {
                self.transfer_in(transfer).await;
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

    /// Before the first list is there, a listener is only noted down; it is attached with all others once the list is
    /// published. Later ones get the cache. Source: client-go `AddEventHandlerWithOptions`, without its lock over all
    /// deltas: between two batches nothing is in the air.
    fn add_listener(&mut self, listener: ListenerHandle) {
        if self.listeners.iter().any(|known| known.ptr_eq(&listener)) {
            return;
        }
        if self.synced {
            self.attach(&listener);
        }
        self.listeners.push(listener);
    }

    fn remove_listener(&mut self, listener: &ListenerHandle) {
        self.listeners.retain(|known| !known.ptr_eq(listener));
        match &self.parts.durable {
            Some(durable) => durable.journal.detach(listener),
            None => listener.detach(self.parts.source),
        }
    }

    fn add_indexers(&mut self, indexes: Vec<Box<dyn IndexFunc>>) -> Result<(), IndexConflict> {
        let names: Vec<_> = indexes.iter().map(|index| (index.name().to_owned(), 0)).collect();
        self.parts.store.add_indexers(indexes)?;
        for (name, _) in &names {
            self.parts.metrics.set_index_attached(name, true);
        }
        self.parts.native_indexes.extend(names);
        self.publish();
        Ok(())
    }

    /// Builds the store anew with other native indexes. Those of plugins begin anew too: detached, then filled.
    fn change_indexers(&mut self, change: IndexersChange) -> Result<(), IndexConflict> {
        let IndexersChange { removed, added } = change;
        let kept = self.parts.native_indexes.iter().map(|(name, _)| name);
        let mut names: Vec<_> = kept.filter(|name| !removed.contains(name)).cloned().collect();
        names.extend(added.iter().map(|index| index.name().to_owned()));
        let mut store = self.parts.store.with_indexers(&removed, added)?;
        for name in self.feeds.names() {
            store.declare_index(&name)?;
        }
        let old = std::mem::replace(&mut self.parts.store, store);
        self.parts.dropper.drop_later(old.into_garbage());
        for name in &removed {
            self.parts.metrics.forget_index(name);
            self.index_warnings.forget(name);
        }
        for name in &names {
            self.parts.metrics.set_index_attached(name, true);
        }
        self.parts.native_indexes = names.into_iter().map(|name| (name, 0)).collect();
        self.restart_feeds();
        self.publish();
        Ok(())
    }

    pub(super) fn attach_all(&self) {
        for listener in &self.listeners {
            self.attach(listener);
        }
    }

    fn attach(&self, listener: &ListenerHandle) {
        let now = self.parts.environment.now();
        self.deliver_after_predecessors(listener);
        match &self.parts.durable {
            Some(durable) => durable.journal.attach(listener, now),
            None => listener.attach(self.parts.source, self.parts.store.published(), now),
        }
    }

    /// What the reflector had handed over before it was stopped is processed to the end.
    async fn process_remaining(&mut self) {
        while let Ok(updates) = self.parts.updates.try_recv() {
            self.receive(updates).await;
        }
    }

    /// The source is over: what it held is freed elsewhere.
    pub(super) fn end(mut self) {
        self.remove_all_feeds();
        let Self {
            parts,
            listeners,
            batch,
            ..
        } = self;
        parts.dropper.drop_later((parts.store.into_garbage(), batch));
        drop(listeners);
    }
}
