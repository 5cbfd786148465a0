//! Handlers that are added, changed and removed.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Environment;
use informant_cache::listener::{ListenerOptions, Pause, RetryOptions};
use tokio::time::Instant;

use super::super::recorder::Script;
use super::super::watched::Watched;
use super::Schedule;
use super::barrier::WaitingHandler;

/// The interval of the handlers that have one.
const MIN_INTERVAL: Duration = Duration::from_secs(3);

/// The rate of the handlers that have one.
const CALLS_PER_SECOND_MAX: u32 = 3;

impl Schedule {
    /// Adds a handler to one of the informers.
    pub(super) fn add_handler(&mut self) {
        let informers = self.informers();
        let at = self.rng.below(informers.len() as u64) as usize;
        self.add_handler_to(&informers[at]);
    }

    pub(super) fn add_handler_to(&mut self, watched: &Arc<Watched>) {
        let id = self.handlers_ever;
        self.handlers_ever += 1;
        let script = Script {
            call_ms_max: self.rng.pick(&[0, 5, 500, 5_000]),
            fails_percent: self.rng.pick(&[0, 0, 20, 60]),
            refuses_percent: self.rng.pick(&[0, 0, 5]),
            // Not drawn: what a seed did before still happens.
            asks: id.is_multiple_of(3),
            ..Script::default()
        };
        let options = ListenerOptions {
            // Not drawn either.
            min_interval: (id % 5 == 4).then_some(MIN_INTERVAL),
            calls_per_second_max: (id % 4 == 1).then_some(CALLS_PER_SECOND_MAX),
            limits_suspects: id % 4 == 2,
            ..self.options()
        };
        let native =
            self.rng.percent(25) && !self.namespaces_may_change(watched) && watched.selection().namespaces.is_empty();
        self.world.note(format!(
            "handler {id} is added to informer {}: {script:?}, {} pending, native: {native}",
            watched.id, options.pending_events_max
        ));
        let handler = WaitingHandler {
            watched: Arc::clone(watched),
            id,
            script,
            options,
            native,
            rng: self.rng.split(),
            since: Instant::now(),
        };
        match WaitingHandler::waits(id) {
            true => self.hold(handler),
            false => self.handlers.push(handler.start(&self.world)),
        }
    }

    fn options(&mut self) -> ListenerOptions {
        ListenerOptions {
            pending_events_max: self.rng.pick(&[1, 2, 8, 1_024]),
            pending_bytes_max: self.rng.pick(&[500, 5_000, 64 << 20, 64 << 20]),
            resync: self
                .rng
                .pick(&[None, Some(Duration::from_secs(5)), Some(Duration::from_secs(90))]),
            retry: RetryOptions {
                attempts: 1_000,
                ..RetryOptions::default()
            },
            seed: 1 + self.rng.below(u64::MAX - 1),
            ..ListenerOptions::default()
        }
    }

    pub(super) fn remove_handler(&mut self) {
        if self.handlers.len() < 2 {
            return;
        }
        let at = self.rng.below(self.handlers.len() as u64) as usize;
        self.handlers.swap_remove(at).remove(&self.world);
    }

    /// What a reload, a trap or a user may do to a handler.
    pub(super) fn change_handler(&mut self) {
        if self.handlers.is_empty() {
            return;
        }
        let at = self.rng.below(self.handlers.len() as u64) as usize;
        let (drawn, now) = (self.rng.below(8), self.world.environment.now());
        let handler = &self.handlers[at];
        let listener = &handler.listener;
        let did = match drawn {
            // A handler that receives every state gets no replay or fold in their place. A replay ends all intervals.
            0 if !handler.receives_every_state && !handler.has_interval => {
                listener.control().replay(now);
                "is rebuilt and gets a replay"
            }
            1 if !handler.receives_every_state && !handler.has_interval => {
                listener.consumer().recover(0, now);
                "lost its state and recovers"
            }
            2 | 3 => {
                listener.control().pause(Pause::Swap);
                "is being swapped"
            }
            4 if !handler.receives_every_state => {
                listener.control().pause(Pause::Quarantine);
                "is quarantined"
            }
            5 => {
                let letters = listener.ledger().dead_letters();
                if let Some(letter) = letters.first() {
                    listener.control().requeue(letter.source, letter.key.as_ref(), now);
                }
                "has a dead letter requeued"
            }
            6 => {
                listener.control().retry_now();
                "retries at once"
            }
            _ => {
                handler.resume(&self.world);
                "is resumed"
            }
        };
        self.world.note(format!("handler {} {did}", handler.id));
    }
}
