//! What a reflector sends to its informer loop, and the channel between them.
//!
//! ```text
//! Reflector ── what is ready, up to 256 KiB ──▶ channel, bounded in bytes ──▶ informer loop ──▶ DeltaFIFO
//! ```
//!
//! Guarantees: order; at most [`CHANNEL_BYTES_MAX`] of objects in flight, plus one message if that alone is larger. A
//! reflector without capacity waits and does not read its socket meanwhile, which slows the API server down instead of
//! filling memory. A message is whatever was ready, not one event: a frame holds about ten events, and the channel's
//! lock and wake-up cost as much as the whole budget of an event.

use std::sync::Arc;

use informant_cache::{ListSource, ListVerdict, Moment};
use informant_object::frames::RecoveredHead;
use informant_object::{Object, Projection, ResourceVersion};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::metrics::{SourceMetrics, StagedBytes};

/// Bytes of objects between a reflector and its loop. A message is up to 256 KiB; 8 MiB are some 1,500 pods, or the few
/// milliseconds of work by which a socket may run ahead. At the limit the socket is not read; gauge
/// `reflector_channel_bytes`.
pub(crate) const CHANNEL_BYTES_MAX: usize = 8 * 1024 * 1024;

/// One update of a source.
#[derive(Debug)]
pub(crate) enum Update {
    /// An event of the watch.
    Event {
        /// The event's type.
        kind: EventKind,
        /// The object; for a delete, its last state.
        object: Object,
    },
    /// A delete whose object cannot be kept.
    DeletedUnread(RecoveredHead),
    /// The watch has sent everything up to this version.
    Bookmark(ResourceVersion),
    /// A complete list.
    Replace(StagedList),
}

impl Update {
    /// What precedes this version has been sent with it, or before.
    pub(crate) fn version(&self) -> Option<u64> {
        match self {
            Update::Event { object, .. } => object.version().number(),
            Update::Bookmark(version) => version.as_ref().number(),
            Update::Replace(list) => list.version.as_ref().number(),
            Update::DeletedUnread(head) => head.version.as_ref().number(),
        }
    }
}

/// The type of a watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    Added,
    Modified,
    Deleted,
}

/// A complete list, which the version guard checks before any of it is used.
#[derive(Debug)]
pub(crate) struct StagedList {
    /// In the order of the list. Objects that did not change since the store's last snapshot are the store's own.
    pub(crate) objects: Vec<Object>,
    /// Counts them until they are in the store.
    pub(crate) memory: StagedBytes,
    pub(crate) heads: ListHeads,
    pub(crate) version: ResourceVersion,
    /// How the list was requested.
    pub(crate) source: ListSource,
    /// Sent as soon as the list is checked; later updates wait in the channel.
    pub(crate) verdict: oneshot::Sender<ListVerdict>,
}

/// The heads in a list.
#[derive(Debug)]
pub(crate) struct ListHeads {
    /// Namespaces of which the list has only heads: the store sheds them.
    pub(crate) namespaces: Vec<Box<str>>,
    /// What the heads keep; none if there are none.
    pub(crate) fields: Option<Arc<Projection>>,
}

/// A message: the updates that were ready.
#[derive(Debug)]
pub(crate) struct Updates {
    pub(crate) updates: Vec<Update>,
    pub(crate) received: Moment,
    permit: ChannelPermit,
}

/// The capacity that a message occupies, returned on drop.
#[derive(Debug)]
struct ChannelPermit {
    bytes: usize,
    metrics: Arc<SourceMetrics>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for ChannelPermit {
    fn drop(&mut self) {
        self.metrics.channel_bytes.add(-signed(self.bytes));
    }
}

/// The reflector's end.
#[derive(Debug)]
pub(crate) struct UpdateSender {
    messages: mpsc::UnboundedSender<Updates>,
    capacity: Arc<Semaphore>,
    bytes_max: usize,
    metrics: Arc<SourceMetrics>,
}

/// The loop's end.
pub(crate) type UpdateReceiver = mpsc::UnboundedReceiver<Updates>;

/// The loop is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoopGone;

/// A channel that holds at most `bytes_max`.
pub(crate) fn channel(bytes_max: usize, metrics: Arc<SourceMetrics>) -> (UpdateSender, UpdateReceiver) {
    let bytes_max = bytes_max.clamp(1, u32::MAX as usize);
    let (messages, receiver) = mpsc::unbounded_channel();
    (
        UpdateSender {
            messages,
            capacity: Arc::new(Semaphore::new(bytes_max)),
            bytes_max,
            metrics,
        },
        receiver,
    )
}

impl UpdateSender {
    /// Sends `updates`, of `bytes` in all, once there is capacity. Returns whether it had to wait.
    pub(crate) async fn send(&self, updates: Vec<Update>, bytes: usize, received: Moment) -> Result<bool, LoopGone> {
        // A message larger than the channel waits until the channel is empty.
        let bytes = bytes.min(self.bytes_max);
        let permits = u32::try_from(bytes).expect("the channel holds less than 4 GiB");
        let (permit, waited) = match Arc::clone(&self.capacity).try_acquire_many_owned(permits) {
            Ok(permit) => (permit, false),
            Err(_) => {
                let permit = Arc::clone(&self.capacity).acquire_many_owned(permits).await;
                (permit.expect("the semaphore is never closed"), true)
            }
        };
        self.metrics.channel_bytes.add(signed(bytes));
        let permit = ChannelPermit {
            bytes,
            metrics: Arc::clone(&self.metrics),
            _permit: permit,
        };
        self.messages
            .send(Updates {
                updates,
                received,
                permit,
            })
            .map(|()| waited)
            .map_err(|_| LoopGone)
    }
}

impl Updates {
    /// Returns the message's capacity and its content.
    pub(crate) fn into_parts(self) -> (Vec<Update>, Moment) {
        drop(self.permit);
        (self.updates, self.received)
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::metrics::InformerMetrics;

    fn bookmark() -> Vec<Update> {
        vec![Update::Bookmark(ResourceVersion::new("1"))]
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_channel_makes_the_reflector_wait() {
        let (sender, mut receiver) = channel(100, Arc::new(InformerMetrics::default().source("pods", "")));
        assert_eq!(sender.send(bookmark(), 60, Moment::ZERO).await, Ok(false));
        let waiting = tokio::spawn(async move { sender.send(bookmark(), 60, Moment::ZERO).await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!waiting.is_finished());
        receiver.recv().await.unwrap().into_parts();
        assert_eq!(waiting.await.unwrap(), Ok(true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_larger_than_the_channel_passes_alone() {
        let (sender, mut receiver) = channel(100, Arc::new(InformerMetrics::default().source("pods", "")));
        assert_eq!(sender.send(bookmark(), 1_000_000, Moment::ZERO).await, Ok(false));
        receiver.recv().await.unwrap().into_parts();
        assert_eq!(sender.send(bookmark(), 1_000_000, Moment::ZERO).await, Ok(false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reflector_gets_an_error_when_its_loop_is_gone() {
        let (sender, receiver) = channel(100, Arc::new(InformerMetrics::default().source("pods", "")));
        drop(receiver);
        assert_eq!(sender.send(bookmark(), 1, Moment::ZERO).await, Err(LoopGone));
    }
}
