//! How one source takes over from others, and leaves.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use informant_cache::{IndexFeedHandle, ListenerHandle};
use informant_object::SourceId;
use tokio::sync::oneshot;

use super::{InformerStopped, SharedInformer, StopReport};
use crate::informer_loop::{Control, SourceHandoff, SourceTransfer};
use crate::source_name::log;

/// After how many seconds a durable source that hands over to another one, or takes over, and waits for the disk, has
/// that reported: a warning, and one more in `hand_over_waits_total`. A disk that works takes milliseconds, one that is
/// overloaded a second or two.
///
/// The wait goes on. To give it up would lose or reorder what handlers are done: what the old source showed last waits
/// in its journal, and what the new one tells is the difference to it; done before it, the older state would come last,
/// and stay. Nor is there a quicker way round: to fill the new source anew goes through a journal too, to the same
/// disk. Meanwhile the informer's handlers are done nothing, readers see the old source as it was read last, and
/// further changes of the informer wait; a stop does not. A disk that fails instead of hanging keeps nobody waiting: a
/// journal hands on what it cannot keep.
pub const HANDOFF_WAIT_SECONDS_MAX: u64 = 10;

impl SharedInformer {
    /// This source as its handoffs see it.
    pub(crate) fn as_handoff(&self) -> SourceHandoff {
        SourceHandoff {
            source: self.source(),
            resource: self.spec().resource.clone(),
            namespace: self.spec().namespace.clone(),
            snapshot: self.snapshot(),
        }
    }

    /// Reads nothing any more. Everything that was read is in the answer, and was done: what another source tells from
    /// then on comes after it.
    pub(crate) async fn quiesce(&self) -> Result<SourceHandoff, InformerStopped> {
        let (done, quiesced) = oneshot::channel();
        self.send_command(Control::Quiesce(done))?;
        let snapshot = quiesced.await.map_err(|_| InformerStopped)?;
        // What listeners inherit is the difference to this snapshot; what a journal still held would come after it, and
        // be older.
        self.wait_for_disk(self.journal_flushed()).await;
        Ok(SourceHandoff {
            snapshot,
            ..self.as_handoff()
        })
    }

    /// Waits for `done`, which a journal answers once it has come to it, and reports it if that takes long. See
    /// [`HANDOFF_WAIT_SECONDS_MAX`].
    pub(crate) async fn wait_for_disk<T>(&self, done: impl Future<Output = T>) -> T {
        let Some(durable) = &self.durable else {
            return done.await;
        };
        let environment = &self.environment.0;
        let began = environment.now();
        let mut done = pin!(done);
        tokio::select! {
            biased;
            value = &mut done => return value,
            () = environment.sleep(Duration::from_secs(durable.handoff_wait_seconds_max)) => {}
        }
        self.metrics.hand_over_waits.inc();
        log!(
            warn,
            self.name,
            waited_seconds = durable.handoff_wait_seconds_max,
            "handoff blocked on disk: handlers receive nothing until it completes; check the volume"
        );
        let value = done.await;
        let waited = environment.now() - began;
        log!(
            info,
            self.name,
            waited_seconds = waited.as_secs_f64(),
            "handoff resumed: the disk responded"
        );
        value
    }

    /// Has `listeners` done how this source differs from what they heard `from` others of its resource; answered once
    /// they were. What is ordered of this source afterwards comes after it.
    pub(crate) fn transfer_in(
        &self,
        listeners: Vec<ListenerHandle>,
        from: &[SourceHandoff],
    ) -> Result<oneshot::Receiver<()>, InformerStopped> {
        let (done, taken) = oneshot::channel();
        let namespace = self.spec().namespace.clone();
        let from = Arc::new(self.of_same_resource(from));
        self.members().listeners.extend(listeners.iter().cloned());
        let transfer = SourceTransfer {
            listeners,
            namespace,
            from,
        };
        self.send_command(Control::TransferIn(transfer, done))?;
        Ok(taken)
    }

    /// Has everybody who is done of this source finish with `sources` first, key by key. They left its place, and have
    /// done their deletes; to be said before anybody is done of this one.
    pub(crate) fn deliver_after(&self, sources: Vec<SourceId>) {
        // A source that is over tells nobody anything.
        let _ = self.send_command(Control::DeliverAfter(sources));
    }

    /// Waits until the deletes of this source, which is leaving, wait in its listeners.
    pub(crate) async fn deletes_queued(&self) {
        let mut done = self.deletes_queued.subscribe();
        // An error is impossible: this source holds the sender.
        let _ = done.wait_for(|done| *done).await;
    }

    fn of_same_resource(&self, handoffs: &[SourceHandoff]) -> Vec<SourceHandoff> {
        let own = self.spec();
        let siblings = handoffs.iter().filter(|other| other.resource == own.resource);
        siblings.cloned().collect()
    }

    /// Keeps the indexes of a plugin, without waiting for the answer.
    pub(crate) fn send_index_feed(&self, feed: &IndexFeedHandle) {
        let (done, _) = oneshot::channel();
        // A source that is over keeps nothing.
        let _ = self.send_command(Control::AddFeed(feed.clone(), done));
    }

    /// Tells deletes of all that no target of its resource tells of, reason `reconfigured`, and stops once they were
    /// delivered, or after `deadline`.
    pub(crate) async fn drain(&self, targets: Vec<SourceHandoff>, deadline: Duration) -> StopReport {
        let (done, left) = oneshot::channel();
        let targets = self.of_same_resource(&targets);
        if self.send_command(Control::Drain(targets, done)).is_ok() {
            // An error says that it was stopped meanwhile, without a word.
            let _ = left.await;
        }
        self.stop(deadline).await
    }
}
