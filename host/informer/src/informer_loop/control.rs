//! What the loop is told from outside, between two batches.

use std::ops::ControlFlow;

use informant_cache::{IndexConflict, IndexFeedHandle, IndexFunc, ListenerHandle};
use tokio::sync::oneshot;

use super::InformerLoop;

/// An order to the loop.
pub(crate) enum Control {
    /// Tell this listener everything from now on; what is there already, it sees as its initial list.
    AddListener(ListenerHandle),
    /// Tell this listener nothing any more.
    RemoveListener(ListenerHandle),
    /// Keep the indexes of this plugin.
    AddFeed(IndexFeedHandle, oneshot::Sender<Result<(), IndexConflict>>),
    /// Keep them no more.
    RemoveFeed(IndexFeedHandle),
    /// Keep these indexes too.
    AddIndexers(Vec<Box<dyn IndexFunc>>, oneshot::Sender<Result<(), IndexConflict>>),
    /// Process what has been accepted, then end.
    Stop(oneshot::Sender<()>),
}

impl InformerLoop {
    pub(super) async fn obey(&mut self, control: Control) -> ControlFlow<()> {
        match control {
            Control::AddListener(listener) => self.add_listener(listener),
            Control::RemoveListener(listener) => self.remove_listener(&listener),
            // Who does not wait for the answer does not need it.
            Control::AddFeed(feed, done) => drop(done.send(self.add_feed(feed))),
            Control::RemoveFeed(feed) => self.remove_feed(&feed),
            Control::AddIndexers(indexes, done) => drop(done.send(self.add_indexers(indexes))),
            Control::Stop(done) => {
                self.drain().await;
                let _ = done.send(());
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Before the first list is there, a listener is only noted down; it is attached with all others once the list is published. Later ones
    /// get the cache. Source: client-go `AddEventHandlerWithOptions`, without its lock over all deltas: between two batches nothing is in the air.
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
        listener.detach(self.parts.source);
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

    pub(super) fn attach_all(&self) {
        for listener in &self.listeners {
            self.attach(listener);
        }
    }

    fn attach(&self, listener: &ListenerHandle) {
        let now = self.parts.environment.now();
        listener.attach(self.parts.source, self.parts.store.published(), now);
    }

    /// What the reflector had handed over before it was stopped is processed to the end.
    async fn drain(&mut self) {
        while let Ok(updates) = self.parts.updates.try_recv() {
            self.take(updates).await;
        }
    }

    /// The source is over: what it held is freed elsewhere.
    pub(super) fn end(mut self) {
        self.leave_feeds();
        let Self {
            parts,
            listeners,
            batch,
            ..
        } = self;
        parts.garbage.throw((parts.store.into_garbage(), batch));
        drop(listeners);
    }
}
