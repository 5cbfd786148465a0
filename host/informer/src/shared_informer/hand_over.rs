//! How one source takes over from others, and leaves.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::{IndexFeedHandle, ListenerHandle};
use informant_object::SourceId;
use tokio::sync::oneshot;

use super::{InformerStopped, SharedInformer, StopReport};
use crate::informer_loop::{Control, Neighbour, TakeOver};

impl SharedInformer {
    /// This source as its neighbours see it.
    pub(crate) fn as_neighbour(&self) -> Neighbour {
        Neighbour {
            source: self.source(),
            resource: self.spec().resource.clone(),
            namespace: self.spec().namespace.clone(),
            snapshot: self.snapshot(),
        }
    }

    /// Reads nothing any more. Everything that was read is in the answer, and was told: what another source tells from then on comes after it.
    pub(crate) async fn rest(&self) -> Result<Neighbour, InformerStopped> {
        let (done, rested) = oneshot::channel();
        self.tell(Control::Rest(done))?;
        let snapshot = rested.await.map_err(|_| InformerStopped)?;
        // What listeners inherit is the difference to this snapshot; what a journal still held would come after it, and be older.
        self.journal_flushed().await;
        Ok(Neighbour {
            snapshot,
            ..self.as_neighbour()
        })
    }

    /// Has `listeners` told how this source differs from what they heard `from` others of its resource; answered once they were. What is ordered of this
    /// source afterwards comes after it.
    pub(crate) fn take_over(
        &self,
        listeners: Vec<ListenerHandle>,
        from: &[Neighbour],
    ) -> Result<oneshot::Receiver<()>, InformerStopped> {
        let (done, taken) = oneshot::channel();
        let namespace = self.spec().namespace.clone();
        let from = Arc::new(self.of_this_resource(from));
        self.members().listeners.extend(listeners.iter().cloned());
        let order = TakeOver {
            listeners,
            namespace,
            from,
        };
        self.tell(Control::TakeOver(order, done))?;
        Ok(taken)
    }

    /// Has everybody who is told of this source finish with `olds` first, key by key. They left its place, and have told their deletes; to be said
    /// before anybody is told of this one.
    pub(crate) fn follow(&self, olds: Vec<SourceId>) {
        // A source that is over tells nobody anything.
        let _ = self.tell(Control::Follow(olds));
    }

    /// Waits until the deletes of this source, which is leaving, wait in its listeners.
    pub(crate) async fn deletes_told(&self) {
        let mut told = self.deletes_told.subscribe();
        // An error is impossible: this source holds the sender.
        let _ = told.wait_for(|told| *told).await;
    }

    fn of_this_resource(&self, neighbours: &[Neighbour]) -> Vec<Neighbour> {
        let own = self.spec();
        let siblings = neighbours.iter().filter(|other| other.resource == own.resource);
        siblings.cloned().collect()
    }

    /// Keeps the indexes of a plugin, without waiting for the answer.
    pub(crate) fn send_index_feed(&self, feed: &IndexFeedHandle) {
        let (done, _) = oneshot::channel();
        // A source that is over keeps nothing.
        let _ = self.tell(Control::AddFeed(feed.clone(), done));
    }

    /// Tells deletes of all that no heir of its resource tells of, reason `reconfigured`, and stops once they were delivered, or after `deadline`.
    pub(crate) async fn leave(&self, heirs: Vec<Neighbour>, deadline: Duration) -> StopReport {
        let (done, left) = oneshot::channel();
        let heirs = self.of_this_resource(&heirs);
        if self.tell(Control::Leave(heirs, done)).is_ok() {
            // An error says that it was stopped meanwhile, without a word.
            let _ = left.await;
        }
        self.stop(deadline).await
    }
}
