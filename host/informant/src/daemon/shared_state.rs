//! What plugins remember, in Secrets for all replicas: the journal of each term of this process.
//!
//! ```text
//! ha: begin ──▶ Running: SharedJournal ◀─step, answer─ task ◀──▶ SecretApi
//!                  │ open           │ lost: closes the gate, so that the process stands by
//!                  ▼                ▼
//!              PluginKeys         Gate
//! ha: flush, end ─▶ dropped: its key spaces change nothing any more
//! ```
//!
//! Plugins begin to act once it is open: see [`SharedTerm`].
//!
//! The rules are those of `informant-state`. This module sends the requests and passes time on. It asks the gate before
//! each request: without the Lease, a conflict would let this process claim the state of its successor.

use std::collections::BTreeSet;
use std::future::pending;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_cache::{Environment, Moment};
use informant_lease::Gate;
use informant_state::{
    KeySpace, RowKind, SecretAnswer, SharedJournal, SharedMetrics, SharedOptions, SharedStateError, SharedStep,
};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::shared_term::SharedTerm;
use crate::replicas::SecretApi;
use crate::sync::lock;
use crate::vital_task::vital;

/// How long state that cannot be used is left alone before it is read again: 30 s. Somebody has to repair it, and each
/// attempt writes the journal.
const REFUSED_RETRY: Duration = Duration::from_secs(30);

/// How often a hand-over looks whether everything is written: 10 ms.
const FLUSH_LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// The shared state of this process. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct SharedState(Arc<Inner>);

struct Inner {
    group_interval: Duration,
    metrics: SharedMetrics,
    environment: Arc<dyn Environment>,
    /// Where the Secrets are, once the process has joined its group.
    secrets: Mutex<Option<SecretApi>>,
    /// The present term.
    running: Mutex<Option<Arc<Running>>>,
    /// The state was read, or cannot be used.
    news: Arc<Notify>,
}

/// A term of this process.
pub(super) struct TermOf<'a> {
    /// The process in the Lease.
    pub(super) identity: &'a str,
    /// How often the Lease was acquired.
    pub(super) epoch: u32,
    /// Closed when the state is lost.
    pub(super) gate: Gate,
}

/// What is known of the state of the present term.
pub(super) enum Reading {
    Opening,
    Open(SharedTerm),
    /// It cannot be used until somebody repairs it.
    Refused,
}

/// The journal of one term, and the task that drives it.
pub(super) struct Running {
    options: SharedOptions,
    pub(super) metrics: SharedMetrics,
    environment: Arc<dyn Environment>,
    secrets: SecretApi,
    gate: Gate,
    /// The epoch in which the gate is open for this term.
    epoch: u32,
    /// None: the term is over.
    journal: Mutex<Option<SharedJournal>>,
    /// Something is pending.
    wake: Arc<Notify>,
    phase: watch::Sender<Phase>,
    news: Arc<Notify>,
    stop: CancellationToken,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Opening,
    Open,
    /// Why it cannot be used.
    Refused(String),
    Over,
}

type Answered = Pin<Box<dyn Future<Output = SecretAnswer> + Send>>;

impl SharedState {
    pub(super) fn new(group_interval: Duration, metrics: SharedMetrics, environment: Arc<dyn Environment>) -> Self {
        Self(Arc::new(Inner {
            group_interval,
            metrics,
            environment,
            secrets: Mutex::default(),
            running: Mutex::default(),
            news: Arc::default(),
        }))
    }

    /// The process joins its group: here are its Secrets.
    pub(super) fn connect(&self, secrets: SecretApi) {
        *lock(&self.0.secrets) = Some(secrets);
    }

    /// The process begins to act: claims the state and reads it.
    pub(super) fn begin(&self, term: TermOf<'_>) {
        self.end();
        let Some(secrets) = lock(&self.0.secrets).clone() else {
            return;
        };
        let options = SharedOptions {
            group: secrets.group().to_owned(),
            holder: term.identity.to_owned(),
            lease_transitions: term.epoch.into(),
            group_interval: self.0.group_interval,
        };
        let running = Arc::new(Running {
            options,
            metrics: self.0.metrics.clone(),
            environment: Arc::clone(&self.0.environment),
            secrets,
            gate: term.gate,
            epoch: term.epoch,
            journal: Mutex::default(),
            wake: Arc::default(),
            phase: watch::Sender::new(Phase::Opening),
            news: Arc::clone(&self.0.news),
            stop: CancellationToken::new(),
        });
        running.start_over();
        *lock(&self.0.running) = Some(Arc::clone(&running));
        let run = async move {
            let stop = running.stop.clone();
            stop.run_until_cancelled(running.run()).await;
        };
        self.0
            .environment
            .spawn("shared-state", Box::pin(vital("shared-state", run)));
    }

    /// The process no longer acts: nothing more is written, and events whose changes were not written do not end.
    pub(super) fn end(&self) {
        if let Some(running) = lock(&self.0.running).take() {
            running.stop.cancel();
            running.phase.send_replace(Phase::Over);
            drop(lock(&running.journal).take());
        }
    }

    /// What is known of the state of the present term.
    pub(super) fn reading(&self) -> Reading {
        let Some(running) = self.running() else {
            return Reading::Opening;
        };
        let phase = running.phase.borrow().clone();
        match phase {
            Phase::Opening | Phase::Over => Reading::Opening,
            Phase::Open => Reading::Open(SharedTerm::of(running)),
            Phase::Refused(_) => Reading::Refused,
        }
    }

    /// Waits until [`reading`](Self::reading) has changed.
    pub(super) async fn news(&self) {
        self.0.news.notified().await;
    }

    /// Writes what is pending at once, from now on.
    pub(super) fn hurry(&self) {
        if let Some(running) = self.running() {
            running.with(SharedJournal::flush);
            running.wake.notify_one();
        }
    }

    /// Waits until everything is written, at most so long. Returns whether it is.
    pub(super) async fn flush(&self, at_most: Duration) -> bool {
        self.hurry();
        let environment = &self.0.environment;
        let until = environment.now() + at_most;
        // What is not open was not changed.
        let is_unwritten = || {
            let unwritten = |running: Arc<Running>| running.with(|journal| journal.is_open() && !journal.is_written());
            self.running().and_then(unwritten) == Some(true)
        };
        while is_unwritten() && environment.now() < until {
            environment.sleep(FLUSH_LOOK_INTERVAL).await;
        }
        !is_unwritten()
    }

    /// Deletes the rows of all plugins but these.
    pub(super) fn keep_only_plugins(&self, plugins: &BTreeSet<String>) {
        if let Some(running) = self.running() {
            running.with(|journal| {
                if journal.is_open() {
                    journal.keep_only_plugins(plugins);
                }
            });
        }
    }

    /// The keys of a plugin, once the state of this term is read.
    /// Errors: why it cannot be.
    pub(super) async fn keys(&self, plugin: &str) -> Result<KeySpace, String> {
        let not_acting = || "this replica does not act, so what plugins remember is not read".to_owned();
        let running = self.running().ok_or_else(not_acting)?;
        let mut phases = running.phase.subscribe();
        loop {
            match &*phases.borrow_and_update() {
                Phase::Opening => {}
                Phase::Open => break,
                Phase::Refused(reason) => return Err(format!("shared state cannot be used: {reason}")),
                Phase::Over => return Err(not_acting()),
            }
            phases.changed().await.map_err(|_| not_acting())?;
        }
        running.space(plugin, RowKind::Key).ok_or_else(not_acting)
    }

    /// Why changes cannot be written at present.
    pub(super) fn failure(&self) -> String {
        let failure = self.0.metrics.failure();
        failure.unwrap_or_else(|| "another replica of Informant acts now".to_owned())
    }

    fn running(&self) -> Option<Arc<Running>> {
        lock(&self.0.running).clone()
    }
}

impl Running {
    /// The rows of one kind of a plugin; none: the term is over.
    pub(super) fn space(&self, plugin: &str, kind: RowKind) -> Option<KeySpace> {
        self.with(|journal| journal.is_open().then(|| journal.space(plugin, kind)))?
    }

    /// What `function` does with the journal; none: the term is over.
    fn with<T>(&self, function: impl FnOnce(&mut SharedJournal) -> T) -> Option<T> {
        // A panic in a report of an end leaves the journal as it was before the answer or after it.
        lock(&self.journal).as_mut().map(function)
    }

    /// Reads the state from its beginning.
    fn start_over(&self) {
        let journal = SharedJournal::new(self.options.clone(), self.metrics.clone());
        let wake = Arc::clone(&self.wake);
        journal.set_waker(move || wake.notify_one());
        *lock(&self.journal) = Some(journal);
    }

    fn set_phase(&self, phase: Phase) {
        let has_changed = self.phase.send_if_modified(|now| {
            // The end comes last.
            let differs = *now != phase && *now != Phase::Over;
            if differs {
                *now = phase;
            }
            differs
        });
        if has_changed {
            self.news.notify_one();
        }
    }

    /// Runs until the term is over, or the state is lost.
    async fn run(&self) {
        let mut sent: Option<Answered> = None;
        let mut logged = None;
        loop {
            let now = self.environment.now();
            let Some((step, is_open)) = self.with(|journal| (journal.step(now), journal.is_open())) else {
                return;
            };
            if is_open {
                self.set_phase(Phase::Open);
            }
            let until = match step {
                SharedStep::Send(request) => {
                    // The Lease is lost, and not yet known to be.
                    let Some(at_most) = self.remaining() else {
                        self.set_phase(Phase::Over);
                        return;
                    };
                    let secrets = self.secrets.clone();
                    sent = Some(Box::pin(async move { secrets.send(request, at_most).await }));
                    continue;
                }
                SharedStep::Wait(until) => until,
                SharedStep::Lost(lost) => {
                    tracing::error!(reason = %lost, "shared state is lost to another replica; this one stops acting");
                    self.gate.close();
                    self.set_phase(Phase::Over);
                    return;
                }
                SharedStep::Refused(error) => {
                    self.report(&error, &mut logged);
                    self.environment.sleep(REFUSED_RETRY).await;
                    // The term may have ended just now.
                    if self.stop.is_cancelled() {
                        return;
                    }
                    self.start_over();
                    continue;
                }
            };
            self.wait(until, &mut sent).await;
        }
    }

    /// How long a request of this term may take; none: it is over.
    fn remaining(&self) -> Option<Duration> {
        let now = self.environment.boot_now();
        let permit = self.gate.permit(now).filter(|permit| permit.epoch == self.epoch)?;
        Some(permit.remaining(now))
    }

    /// Waits until then, for an answer, or until something is pending.
    async fn wait(&self, until: Moment, sent: &mut Option<Answered>) {
        let answered = async {
            match sent {
                Some(answered) => answered.await,
                None => pending().await,
            }
        };
        let answer = tokio::select! {
            biased;
            answer = answered => Some(answer),
            () = self.wake.notified() => None,
            () = self.environment.sleep(until - self.environment.now()) => None,
        };
        if let Some(answer) = answer {
            *sent = None;
            let now = self.environment.now();
            self.with(|journal| journal.answer(now, answer));
        }
    }

    /// Says once what is wrong.
    fn report(&self, error: &SharedStateError, logged: &mut Option<SharedStateError>) {
        self.set_phase(Phase::Refused(error.to_string()));
        if logged.as_ref() != Some(error) {
            tracing::error!(%error, code = "state-failing", "shared state cannot be used; retrying, and plugins cannot use kv");
            *logged = Some(error.clone());
        }
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SharedState")
            .field("group_interval", &self.group_interval)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
