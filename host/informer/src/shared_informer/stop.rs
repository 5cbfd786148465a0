//! Stops a source: in order, within a deadline, or at once on drop.

use std::time::Duration;

use informant_cache::{ListenerHandle, Moment};
use tokio::sync::oneshot;

use super::SharedInformer;
use crate::handler::Registration;
use crate::informer_loop::Control;
use crate::source_name::log;
use crate::status::ReflectorState;

/// First pause between two checks whether a listener that others pull from is empty.
const DRAINED_POLL: Duration = Duration::from_millis(10);

/// The pause grows up to this: what waits long is in back-off, or paused.
const DRAINED_POLL_MAX: Duration = Duration::from_millis(500);

/// How long persisting the last acknowledgements may take at the end.
const FINAL_FLUSH_MAX: Duration = Duration::from_secs(1);

/// How many keys that wait for a retry are named in the log.
const RETRYING_LOGGED_MAX: usize = 10;

/// What an orderly stop could not finish.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[must_use = "undelivered events should be reported"]
pub struct StopReport {
    /// Accepted events that were not handled before the deadline.
    pub undelivered: u64,
    /// Native handlers whose last call was still running at the deadline.
    pub still_running: usize,
    /// The loop had not processed all its input.
    pub loop_unfinished: bool,
    /// Keys of the undelivered events that waited for a retry, except those of native handlers. A stop does not wait
    /// for retries.
    pub retrying: u64,
}

impl StopReport {
    /// Whether everything accepted was handled.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }

    /// The sum of both.
    pub fn and(self, other: Self) -> Self {
        Self {
            undelivered: self.undelivered + other.undelivered,
            still_running: self.still_running + other.still_running,
            loop_unfinished: self.loop_unfinished || other.loop_unfinished,
            retrying: self.retrying + other.retrying,
        }
    }
}

/// Whether the end of a source waits for keys in back-off and for handlers that are paused or quarantined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Undeliverable {
    IsAwaited,
    IsDropped,
}

impl SharedInformer {
    /// Stops in order, within `deadline` from now: nothing new is read, what was read is stored, what was accepted is
    /// delivered; the rest is dropped and counted. Afterwards the source is removed from the catalog and its memory
    /// freed. A second call does nothing.
    ///
    /// Source: client-go drops buffered events; here they are delivered or counted.
    ///
    /// Does not wait for what cannot be delivered: keys in back-off, and handlers that are paused or quarantined.
    pub async fn stop(&self, deadline: Duration) -> StopReport {
        self.finish(deadline, Undeliverable::IsDropped).await
    }

    /// As [`stop`](Self::stop), for a source that was removed while the process continues: waits for what cannot be
    /// delivered, too, up to `deadline`.
    pub(super) async fn finish_removed(&self, deadline: Duration) -> StopReport {
        self.finish(deadline, Undeliverable::IsAwaited).await
    }

    async fn finish(&self, deadline: Duration, undeliverable: Undeliverable) -> StopReport {
        let until = self.environment.now() + deadline;
        self.cancel.cancel();
        let (handlers, listeners) = self.stop_members();
        let mut report = StopReport {
            loop_unfinished: !self.finish_loop(until).await,
            ..StopReport::default()
        };
        // Persist and deliver what was published first; at the end, what was acknowledged.
        self.flush_journal(until).await;
        self.deletes_queued.send_replace(true);
        // A handler's task drops what is left when it ends.
        let discarded = |listener: &ListenerHandle| listener.control().stats().counters.discarded;
        let before: u64 = handlers.iter().map(|handler| discarded(handler.listener())).sum();
        let of_handlers: Vec<_> = handlers.iter().map(|handler| handler.listener().clone()).collect();
        for handler in &handlers {
            handler.listener().control().close();
            if undeliverable == Undeliverable::IsDropped {
                handler.listener().control().end_retries();
            }
        }
        for mut handler in handlers {
            report.still_running += usize::from(!self.finish_handler(&mut handler, until).await);
        }
        report.undelivered += of_handlers.iter().map(discarded).sum::<u64>() - before;
        for listener in &listeners {
            let (undelivered, retrying) = self.finish_listener(listener, undeliverable, until).await;
            report.undelivered += undelivered;
            report.retrying += retrying;
        }
        self.metrics.stop_undelivered.inc_by(report.undelivered);
        if undeliverable == Undeliverable::IsAwaited && report.undelivered > 0 {
            log!(
                warn,
                self.name,
                undelivered = report.undelivered,
                waited_seconds = deadline.as_secs_f64(),
                "undelivered events of a removed source dropped"
            );
        } else if !report.is_clean() {
            log!(
                warn,
                self.name,
                undelivered = report.undelivered,
                still_running = report.still_running,
                loop_unfinished = report.loop_unfinished,
                retrying = report.retrying,
                deadline_seconds = deadline.as_secs_f64(),
                "informer stopped with undelivered events"
            );
        }
        self.remove_from_catalog();
        report
    }

    /// Whether it was stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.members().stopped
    }

    /// Waits until everything is persisted and delivered.
    pub(super) async fn journal_flushed(&self) {
        let Some(durable) = &self.durable else { return };
        let (done, flushed) = oneshot::channel();
        durable.journal.flush(Box::new(move || {
            // The receiver may have given up.
            let _ = done.send(());
        }));
        // A journal that is over drops the callback.
        let _ = flushed.await;
    }

    async fn flush_journal(&self, until: Moment) {
        self.before(until, self.journal_flushed()).await;
    }

    fn stop_members(&self) -> (Vec<Registration>, Vec<ListenerHandle>) {
        let mut members = self.members();
        members.stopped = true;
        (
            std::mem::take(&mut members.handlers),
            std::mem::take(&mut members.listeners),
        )
    }

    /// Lets the loop process its input; returns whether it finished in time.
    async fn finish_loop(&self, until: Moment) -> bool {
        let (done, finished) = oneshot::channel();
        if self.send_command(Control::Stop(done)).is_err() {
            return true;
        }
        self.before(until, finished).await.is_some()
    }

    /// Lets a native handler finish; returns whether it did in time.
    async fn finish_handler(&self, handler: &mut Registration, until: Moment) -> bool {
        let ended = self.before(until, handler.ended()).await.is_some();
        handler.listener().control().abandon();
        ended
    }

    /// Waits until a listener is empty that others pull from, possibly for other sources too. Returns how many events
    /// it had to drop, and how many keys waited for a retry.
    async fn finish_listener(
        &self,
        listener: &ListenerHandle,
        undeliverable: Undeliverable,
        until: Moment,
    ) -> (u64, u64) {
        if undeliverable == Undeliverable::IsDropped {
            listener.control().end_intervals();
        }
        let mut pause = DRAINED_POLL;
        let waits = || match undeliverable {
            Undeliverable::IsAwaited => listener.feed().busy_keys(self.source()) > 0,
            Undeliverable::IsDropped => listener.feed().deliverable_keys(self.source()) > 0,
        };
        while waits() && self.environment.now() < until {
            let left = until - self.environment.now();
            self.environment.sleep(pause.min(left)).await;
            pause = (pause * 2).min(DRAINED_POLL_MAX);
        }
        self.flush_journal(until.max(self.environment.now() + FINAL_FLUSH_MAX))
            .await;
        let (retrying, keys) = listener.feed().retrying_keys(self.source(), RETRYING_LOGGED_MAX);
        if retrying > 0 {
            let keys = keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            log!(
                warn,
                self.name,
                plugin = listener.name(),
                retrying,
                keys,
                "failing keys not retried because the informer stops"
            );
        }
        let discarded = || listener.control().stats().counters.discarded;
        let before = discarded();
        listener.feed().detach(self.source());
        (discarded() - before, retrying as u64)
    }

    /// The result of `future`, unless `until` passes first.
    async fn before<T>(&self, until: Moment, future: impl Future<Output = T>) -> Option<T> {
        let left = until - self.environment.now();
        tokio::select! {
            biased;
            value = future => Some(value),
            () = self.environment.sleep(left) => None,
        }
    }

    fn remove_from_catalog(&self) {
        self.status.set_reflector_state(ReflectorState::Stopped);
        if let Some(garbage) = self.catalog.remove_source(self.source()) {
            self.dropper.drop_later(garbage);
        }
        self.metrics.retire();
    }
}

/// Ends everything at once; listeners drop and count the queued events of native handlers.
impl Drop for SharedInformer {
    fn drop(&mut self) {
        self.cancel.cancel();
        let (handlers, listeners) = self.stop_members();
        for handler in handlers {
            handler.listener().control().abandon();
        }
        for listener in listeners {
            listener.feed().detach(self.source());
        }
        self.remove_from_catalog();
    }
}
