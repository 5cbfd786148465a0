//! What a reflector tells its informer loop, and the channel in between.
//!
//! ```text
//! Reflector ──what was at hand, up to 256 KiB──▶ channel, bounded in bytes ──▶ informer loop ──▶ DeltaFIFO
//! ```
//!
//! Promises: order; at most [`CHANNEL_BYTES_MAX`] of objects on the way, and one message more if that alone is larger.
//! A reflector that finds no permit waits, does not read its socket meanwhile, and so slows the API server down instead
//! of filling memory. A message is what was at hand, not an event: a frame holds about ten, and a channel's lock and
//! wake-up cost as much as an event is allowed to.

use std::sync::Arc;

use informant_cache::{ListSource, ListVerdict, Moment};
use informant_object::{Object, ResourceVersion};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::metrics::SourceMetrics;

/// How many bytes of objects may be between a reflector and its loop. A message is up to 256 KiB; 8 MiB are some 1,500
/// pods, or the few milliseconds of work by which a socket may run ahead. At the limit the socket is not read; gauge
/// `reflector_channel_bytes`.
pub(crate) const CHANNEL_BYTES_MAX: usize = 8 * 1024 * 1024;

/// One thing that happened to a source.
#[derive(Debug)]
pub(crate) enum Update {
    /// The watch showed an object.
    Event {
        /// As what.
        kind: EventKind,
        /// In which state; for a delete, the last.
        object: Object,
    },
    /// The watch has shown everything up to this version.
    Bookmark(ResourceVersion),
    /// A list is complete: this is all there is.
    Replace(StagedList),
}

/// What a watch says happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    Added,
    Modified,
    Deleted,
}

/// A complete list, to be judged by the version guard before anything of it is used.
#[derive(Debug)]
pub(crate) struct StagedList {
    /// In the order of the list. What has not changed since the store's last snapshot is the store's own object.
    pub(crate) objects: Vec<Object>,
    pub(crate) version: ResourceVersion,
    /// How the API server was asked for it.
    pub(crate) source: ListSource,
    /// Told as soon as it is judged; what follows waits in the channel.
    pub(crate) verdict: oneshot::Sender<ListVerdict>,
}

/// A message: what was at hand.
#[derive(Debug)]
pub(crate) struct Updates {
    pub(crate) updates: Vec<Update>,
    pub(crate) received: Moment,
    permit: ChannelPermit,
}

/// The part of the channel's bytes that a message takes, given back when it is dropped.
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
    /// Sends `updates`, of `bytes` in all, once there is permit. Whether that had to be waited for.
    pub(crate) async fn send(&self, updates: Vec<Update>, bytes: usize, received: Moment) -> Result<bool, LoopGone> {
        // What is larger than the channel waits until it has it for itself.
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
    /// Gives the message's permit back and keeps what it brought.
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
    async fn a_full_channel_makes_the_reflector_wait_until_the_loop_has_taken_something() {
        let (sender, mut receiver) = channel(100, Arc::new(InformerMetrics::default().source("pods", "")));
        assert_eq!(sender.send(bookmark(), 60, Moment::ZERO).await, Ok(false));
        let waiting = tokio::spawn(async move { sender.send(bookmark(), 60, Moment::ZERO).await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!waiting.is_finished());
        receiver.recv().await.unwrap().into_parts();
        assert_eq!(waiting.await.unwrap(), Ok(true));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_larger_than_the_channel_passes_alone() {
        let (sender, mut receiver) = channel(100, Arc::new(InformerMetrics::default().source("pods", "")));
        assert_eq!(sender.send(bookmark(), 1_000_000, Moment::ZERO).await, Ok(false));
        receiver.recv().await.unwrap().into_parts();
        assert_eq!(sender.send(bookmark(), 1_000_000, Moment::ZERO).await, Ok(false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reflector_whose_loop_is_gone_is_told() {
        let (sender, receiver) = channel(100, Arc::new(InformerMetrics::default().source("pods", "")));
        drop(receiver);
        assert_eq!(sender.send(bookmark(), 1, Moment::ZERO).await, Err(LoopGone));
    }
}
