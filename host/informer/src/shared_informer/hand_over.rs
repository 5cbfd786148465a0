//! How one source takes over from others, and leaves.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use informant_cache::{IndexFeedHandle, ListenerHandle};
use informant_object::SourceId;
use tokio::sync::oneshot;

use super::{InformerStopped, SharedInformer, StopReport};
use crate::informer_loop::{Control, Neighbor, TakeOver};

/// After how many seconds a durable source that hands over to another one, or takes over, and waits for the disk, has
/// that reported: a warning, and one more in `hand_over_waits_total`. A disk that works takes milliseconds, one that is
/// overloaded a second or two.
///
/// The wait goes on. To give it up would lose or reorder what handlers are told: what the old source showed last waits
/// in its journal, and what the new one tells is the difference to it; told before it, the older state would come last,
/// and stay. Nor is there a quicker way round: to fill the new source anew goes through a journal too, to the same
/// disk. Meanwhile the informer's handlers are told nothing, readers see the old source as it was read last, and
/// further changes of the informer wait; a stop does not. A disk that fails instead of hanging keeps nobody waiting: a
/// journal hands on what it cannot keep.
pub const HAND_OVER_WAIT_SECONDS_MAX: u64 = 10;

impl SharedInformer {
    /// This source as its neighbors see it.
    pub(crate) fn as_neighbor(&self) -> Neighbor {
        Neighbor {
            source: self.source(),
            resource: self.spec().resource.clone(),
            namespace: self.spec().namespace.clone(),
            snapshot: self.snapshot(),
        }
    }

    /// Reads nothing any more. Everything that was read is in the answer, and was told: what another source tells from
    /// then on comes after it.
    pub(crate) async fn rest(&self) -> Result<Neighbor, InformerStopped> {
        let (done, rested) = oneshot::channel();
        self.tell(Control::Rest(done))?;
        let snapshot = rested.await.map_err(|_| InformerStopped)?;
        // What listeners inherit is the difference to this snapshot; what a journal still held would come after it, and
        // be older.
        self.once_on_disk(self.journal_flushed()).await;
        Ok(Neighbor {
            snapshot,
            ..self.as_neighbor()
        })
    }

    /// Waits for `told`, which a journal answers once it has come to it, and reports it if that takes long. See
    /// [`HAND_OVER_WAIT_SECONDS_MAX`].
    pub(crate) async fn once_on_disk<T>(&self, told: impl Future<Output = T>) -> T {
        let Some(durable) = &self.durable else {
            return told.await;
        };
        let environment = &self.environment.0;
        let (name, began) = (&self.name, environment.now());
        let mut told = pin!(told);
        tokio::select! {
            biased;
            value = &mut told => return value,
            () = environment.sleep(Duration::from_secs(durable.hand_over_wait_seconds_max)) => {}
        }
        self.metrics.hand_over_waits.inc();
        tracing::warn!(
            "{name}: a hand-over to other sources still waits for the disk that its state is kept on, after {} s; handlers are told nothing until it \
             answers, and then everything in its order; look whether the disk hangs",
            durable.hand_over_wait_seconds_max
        );
        let value = told.await;
        let waited = environment.now() - began;
        tracing::info!(
            "{name}: the disk has answered after {:.1} s, the hand-over goes on",
            waited.as_secs_f64()
        );
        value
    }

    /// Has `listeners` told how this source differs from what they heard `from` others of its resource; answered once
    /// they were. What is ordered of this source afterwards comes after it.
    pub(crate) fn take_over(
        &self,
        listeners: Vec<ListenerHandle>,
        from: &[Neighbor],
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

    /// Has everybody who is told of this source finish with `olds` first, key by key. They left its place, and have
    /// told their deletes; to be said before anybody is told of this one.
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

    fn of_this_resource(&self, neighbors: &[Neighbor]) -> Vec<Neighbor> {
        let own = self.spec();
        let siblings = neighbors.iter().filter(|other| other.resource == own.resource);
        siblings.cloned().collect()
    }

    /// Keeps the indexes of a plugin, without waiting for the answer.
    pub(crate) fn send_index_feed(&self, feed: &IndexFeedHandle) {
        let (done, _) = oneshot::channel();
        // A source that is over keeps nothing.
        let _ = self.tell(Control::AddFeed(feed.clone(), done));
    }

    /// Tells deletes of all that no heir of its resource tells of, reason `reconfigured`, and stops once they were
    /// delivered, or after `deadline`.
    pub(crate) async fn leave(&self, heirs: Vec<Neighbor>, deadline: Duration) -> StopReport {
        let (done, left) = oneshot::channel();
        let heirs = self.of_this_resource(&heirs);
        if self.tell(Control::Leave(heirs, done)).is_ok() {
            // An error says that it was stopped meanwhile, without a word.
            let _ = left.await;
        }
        self.stop(deadline).await
    }
}
