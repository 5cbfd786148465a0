//! How an informer ends: in order, within a deadline, or at once when it is dropped.

use std::time::Duration;

use informant_cache::{ListenerHandle, Moment};
use tokio::sync::oneshot;

use super::SharedInformer;
use crate::handler::Registration;
use crate::informer_loop::Control;
use crate::source_name::log;
use crate::status::ReflectorState;

/// How long it is waited, at first, before a listener that somebody else pulls from is asked again whether it is empty.
const DRAINED_POLL: Duration = Duration::from_millis(10);

/// It is asked ever more rarely, down to this: what waits long is in back-off.
const DRAINED_POLL_MAX: Duration = Duration::from_millis(500);

/// How long what was acknowledged last may take to be kept at the end.
const FINAL_FLUSH_MAX: Duration = Duration::from_secs(1);

/// What an orderly stop could not bring to its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[must_use = "what was not delivered should be told to somebody"]
pub struct StopReport {
    /// Events that had been accepted and were not handled when the deadline passed.
    pub undelivered: u64,
    /// Native handlers whose last call still ran at the deadline.
    pub still_running: usize,
    /// The loop had not processed all it had been handed.
    pub loop_unfinished: bool,
}

impl StopReport {
    /// Whether everything that was accepted was handled.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }

    /// Both together.
    pub fn and(self, other: Self) -> Self {
        Self {
            undelivered: self.undelivered + other.undelivered,
            still_running: self.still_running + other.still_running,
            loop_unfinished: self.loop_unfinished || other.loop_unfinished,
        }
    }
}

impl SharedInformer {
    /// Stops in order, within `deadline` from now: nothing new is read, what was read is stored, what was accepted is
    /// delivered; what is left then is dropped and counted. Afterwards the source is gone from the catalog and its
    /// memory given back. A second call finds nothing to do.
    ///
    /// Source: client-go drops what is buffered; here it is delivered or counted.
    pub async fn stop(&self, deadline: Duration) -> StopReport {
        let until = self.environment.0.now() + deadline;
        self.cancel.cancel();
        let (handlers, listeners) = self.take_members();
        let mut report = StopReport {
            loop_unfinished: !self.finish_loop(until).await,
            ..StopReport::default()
        };
        // What was shown is kept and told first; at the end, what was acknowledged of it.
        self.flush_journal(until).await;
        self.deletes_queued.send_replace(true);
        for handler in &handlers {
            handler.listener().close();
        }
        for mut handler in handlers {
            report = report.and(self.finish_handler(&mut handler, until).await);
        }
        for listener in &listeners {
            report.undelivered += self.finish_listener(listener, until).await;
        }
        self.metrics.stop_undelivered.inc_by(report.undelivered);
        if !report.is_clean() {
            log!(
                warn,
                self.name,
                undelivered = report.undelivered,
                still_running = report.still_running,
                loop_unfinished = report.loop_unfinished,
                deadline_seconds = deadline.as_secs_f64(),
                "informer stopped before everything was delivered"
            );
        }
        self.leave_catalog();
        report
    }

    /// Whether it was stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.members().stopped
    }

    /// Waits until what is to be kept is kept, and told.
    pub(super) async fn journal_flushed(&self) {
        let Some(durable) = &self.durable else { return };
        let (done, flushed) = oneshot::channel();
        durable.journal.flush(Box::new(move || {
            // Whoever waited may have given up.
            let _ = done.send(());
        }));
        // A journal that is over answers by dropping it.
        let _ = flushed.await;
    }

    async fn flush_journal(&self, until: Moment) {
        self.before(until, self.journal_flushed()).await;
    }

    fn take_members(&self) -> (Vec<Registration>, Vec<ListenerHandle>) {
        let mut members = self.members();
        members.stopped = true;
        (
            std::mem::take(&mut members.handlers),
            std::mem::take(&mut members.listeners),
        )
    }

    /// Lets the loop process what it was handed; whether it came to an end in time.
    async fn finish_loop(&self, until: Moment) -> bool {
        let (done, finished) = oneshot::channel();
        if self.send_command(Control::Stop(done)).is_err() {
            return true;
        }
        self.before(until, finished).await.is_some()
    }

    async fn finish_handler(&self, handler: &mut Registration, until: Moment) -> StopReport {
        let ended = self.before(until, handler.ended()).await.is_some();
        StopReport {
            undelivered: handler.listener().abandon(),
            still_running: usize::from(!ended),
            loop_unfinished: false,
        }
    }

    /// Waits until a listener that others pull from, and may go on pulling from for other sources, is empty. One in
    /// quarantine is not waited for: nobody pulls from it. Returns what it had to drop.
    async fn finish_listener(&self, listener: &ListenerHandle, until: Moment) -> u64 {
        let mut pause = DRAINED_POLL;
        let waits = || listener.busy_keys(self.source()) > 0 && !listener.is_quarantined();
        while waits() && self.environment.0.now() < until {
            let left = until - self.environment.0.now();
            self.environment.0.sleep(pause.min(left)).await;
            pause = (pause * 2).min(DRAINED_POLL_MAX);
        }
        self.flush_journal(until.max(self.environment.0.now() + FINAL_FLUSH_MAX))
            .await;
        let discarded = || listener.stats().counters.discarded;
        let before = discarded();
        listener.detach(self.source());
        discarded() - before
    }

    /// What `future` comes to, unless the moment passes first.
    async fn before<T>(&self, until: Moment, future: impl Future<Output = T>) -> Option<T> {
        let left = until - self.environment.0.now();
        tokio::select! {
            biased;
            value = future => Some(value),
            () = self.environment.0.sleep(left) => None,
        }
    }

    fn leave_catalog(&self) {
        self.status.set_reflector_state(ReflectorState::Stopped);
        if let Some(garbage) = self.catalog.remove_source(self.source()) {
            self.dropper.drop_later(garbage);
        }
        self.metrics.retire();
    }
}

/// Ends everything at once; what waits for native handlers is dropped and counted by their listeners.
impl Drop for SharedInformer {
    fn drop(&mut self) {
        self.cancel.cancel();
        let (handlers, listeners) = self.take_members();
        for handler in handlers {
            handler.listener().abandon();
        }
        for listener in listeners {
            listener.detach(self.source());
        }
        self.leave_catalog();
    }
}
