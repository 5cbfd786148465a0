//! Shared state as the daemon drives it (`daemon/shared_state.rs`): the journal of each term of a process.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_cache::Environment;
use informant_lease::Gate;
use informant_state::{KeySpace, RowKind, SharedJournal, SharedMetrics, SharedOptions, SharedStep};
use tokio::sync::Notify;

use super::super::world::locked;
use super::life::ProcessEnvironment;
use super::network::Network;

/// As in the daemon.
const GROUP_INTERVAL: Duration = Duration::from_millis(200);
const FLUSH_LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// How often it is looked whether the state was read.
const OPEN_LOOK_INTERVAL: Duration = Duration::from_millis(20);

pub(super) struct Shared {
    host: usize,
    network: Arc<Network>,
    environment: Arc<ProcessEnvironment>,
    running: Mutex<Option<Arc<Running>>>,
}

/// The journal of one term.
struct Running {
    journal: Mutex<Option<SharedJournal>>,
    gate: Gate,
    wake: Arc<Notify>,
}

impl Shared {
    pub(super) fn new(host: usize, network: &Arc<Network>, environment: &Arc<ProcessEnvironment>) -> Self {
        Self {
            host,
            network: Arc::clone(network),
            environment: Arc::clone(environment),
            running: Mutex::default(),
        }
    }

    /// The process begins to act.
    pub(super) fn begin(&self, identity: &str, epoch: u32, gate: Gate) {
        self.end();
        let options = SharedOptions {
            group: "informant".to_owned(),
            holder: identity.to_owned(),
            lease_transitions: epoch.into(),
            group_interval: GROUP_INTERVAL,
        };
        let journal = SharedJournal::new(options, SharedMetrics::default());
        let wake = Arc::new(Notify::new());
        let notify = Arc::clone(&wake);
        journal.set_waker(move || notify.notify_one());
        // That of the Lease starts again if the Lease was deleted.
        let term = self.network.next_term();
        let running = Arc::new(Running {
            journal: Mutex::new(Some(journal)),
            gate,
            wake,
        });
        *locked(&self.running) = Some(Arc::clone(&running));
        let run = running.run(
            (self.host, term),
            Arc::clone(&self.network),
            Arc::clone(&self.environment),
        );
        self.environment.spawn("shared state", Box::pin(run));
    }

    /// The process no longer acts: nothing more is written, and events whose changes were not written do not end.
    pub(super) fn end(&self) {
        if let Some(running) = locked(&self.running).take() {
            drop(locked(&running.journal).take());
            running.wake.notify_one();
        }
    }

    pub(super) fn hurry(&self) {
        if let Some(running) = &*locked(&self.running) {
            locked(&running.journal).iter_mut().for_each(SharedJournal::flush);
            running.wake.notify_one();
        }
    }

    /// Waits until everything is written, at most so long.
    pub(super) async fn flush(&self, at_most: Duration) {
        self.hurry();
        let until = self.environment.now() + at_most;
        let is_unwritten = || {
            let running = locked(&self.running).clone();
            let unwritten = |journal: &SharedJournal| journal.is_open() && !journal.is_written();
            running.is_some_and(|running| locked(&running.journal).as_ref().is_some_and(unwritten))
        };
        while is_unwritten() && self.environment.now() < until {
            self.environment.sleep(FLUSH_LOOK_INTERVAL).await;
        }
    }

    /// What a handler has kept, once it is read; none if the term ends before.
    pub(super) async fn keys(&self, handler: &str) -> Option<KeySpace> {
        let running = locked(&self.running).clone()?;
        loop {
            let keys = locked(&running.journal)
                .as_ref()
                .map(|journal| journal.is_open().then(|| journal.space(handler, RowKind::Key)));
            match keys {
                None => return None,
                Some(Some(keys)) => return Some(keys),
                Some(None) => self.environment.sleep(OPEN_LOOK_INTERVAL).await,
            }
        }
    }
}

impl Running {
    async fn run(
        self: Arc<Self>,
        (host, term): (usize, u32),
        network: Arc<Network>,
        environment: Arc<ProcessEnvironment>,
    ) {
        let mut sent = None;
        loop {
            let now = environment.now();
            let Some(step) = locked(&self.journal).as_mut().map(|journal| journal.step(now)) else {
                return;
            };
            let until = match step {
                SharedStep::Send(request) => {
                    sent = Some(Box::pin(Arc::clone(&network).send_secret(host, term, request)));
                    continue;
                }
                SharedStep::Wait(until) => until,
                SharedStep::Lost(_) => return self.gate.close(),
                SharedStep::Refused(error) => panic!("the state is damaged: {error}"),
            };
            let answered = async {
                match &mut sent {
                    Some(answered) => answered.await,
                    None => std::future::pending().await,
                }
            };
            let answer = tokio::select! {
                biased;
                answer = answered => Some(answer),
                () = self.wake.notified() => None,
                () = environment.sleep(until - now) => None,
            };
            if let Some(answer) = answer {
                sent = None;
                let now = environment.now();
                locked(&self.journal)
                    .iter_mut()
                    .for_each(|journal| journal.answer(now, answer.clone()));
            }
        }
    }
}
