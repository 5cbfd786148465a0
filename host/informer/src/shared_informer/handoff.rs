//! Handoff of a source: transfer in from other sources, and drain.

use std::pin::pin;
use std::time::Duration;

use informant_cache::{IndexFeedHandle, ListenerHandle};
use informant_object::SourceId;
use tokio::sync::oneshot;

use super::{InformerStopped, SharedInformer, StopReport};
use crate::informer_loop::{Control, SourceHandoff};
use crate::source_name::log;

impl SharedInformer {
    /// This source, for the others of a handoff.
    pub(crate) fn as_handoff(&self) -> SourceHandoff {
        SourceHandoff {
            source: self.source(),
            resource: self.spec().resource.clone(),
            namespace: self.spec().namespace.clone(),
            snapshot: self.snapshot(),
            is_lost: false,
        }
    }

    /// Reads nothing more, until [`resume_reading`](Self::resume_reading). The result contains everything that was read
    /// and has been delivered: what another source delivers afterwards comes after it.
    pub(crate) async fn quiesce(&self) -> Result<SourceHandoff, InformerStopped> {
        let (done, quiesced) = oneshot::channel();
        self.send_command(Control::Quiesce(done))?;
        let snapshot = quiesced.await.map_err(|_| InformerStopped)?;
        // The transfer is the difference to this snapshot; what a journal still holds would be delivered after it, and
        // be older.
        self.wait_for_disk(self.journal_flushed()).await;
        Ok(SourceHandoff {
            snapshot,
            ..self.as_handoff()
        })
    }

    /// Reads again after [`quiesce`](Self::quiesce): what arrived meanwhile, too.
    pub(crate) fn resume_reading(&self) {
        // A source that is over reads nothing.
        let _ = self.send_command(Control::ResumeReading);
    }

    /// Waits for `done`, which a journal completes once it reaches it, and reports a long wait. See
    /// [`HANDOFF_WAIT_SECONDS_MAX`](crate::HANDOFF_WAIT_SECONDS_MAX).
    pub(crate) async fn wait_for_disk<T>(&self, done: impl Future<Output = T>) -> T {
        let Some(durable) = &self.durable else {
            return done.await;
        };
        let environment = &self.environment;
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

    /// Delivers to `listeners` how this source differs from the sources `from` of its resource that it replaces; the
    /// receiver resolves afterwards. Later commands to this source come after it.
    pub(crate) fn transfer_in(
        &self,
        listeners: Vec<ListenerHandle>,
        from: &[SourceHandoff],
    ) -> Result<oneshot::Receiver<()>, InformerStopped> {
        let (done, taken) = oneshot::channel();
        self.members().listeners.extend(listeners.iter().cloned());
        self.send_command(Control::TransferIn(listeners, self.of_same_resource(from), done))?;
        Ok(taken)
    }

    /// Makes all listeners process the queued events of `sources` before those of this source, key by key. They had the
    /// same scope, were removed, and have queued their deletes. Must be called before anything of this source is
    /// delivered.
    pub(crate) fn deliver_after(&self, sources: Vec<SourceId>) {
        // A source that is over delivers nothing.
        let _ = self.send_command(Control::DeliverAfter(sources));
    }

    /// Waits until the deletes of this draining source are queued in its listeners.
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

    /// Maintains the indexes of a plugin, without waiting for the answer.
    pub(crate) fn send_index_feed(&self, feed: &IndexFeedHandle) {
        let (done, _) = oneshot::channel();
        // A source that is over has no indexes.
        let _ = self.send_command(Control::AddFeed(feed.clone(), done));
    }

    /// Delivers deletes for everything that no target of its resource covers, with reason `reconfigured`, and stops
    /// once they are handled, or after `deadline`.
    pub(crate) async fn drain(&self, targets: Vec<SourceHandoff>, deadline: Duration) -> StopReport {
        let (done, left) = oneshot::channel();
        let targets = self.of_same_resource(&targets);
        if self.send_command(Control::Drain(targets, done)).is_ok() {
            // An error means that it was stopped meanwhile, without deletes.
            let _ = left.await;
        }
        self.finish_removed(deadline).await
    }
}
