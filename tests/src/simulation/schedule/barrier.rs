//! Handlers whose first calls wait until all that they may read is there: all informers, and the scripted index.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Environment;
use informant_cache::listener::ListenerOptions;
use tokio::time::Instant;

use super::super::fed_index;
use super::super::handler::Handler;
use super::super::history::Entry;
use super::super::recorder::Script;
use super::super::rng::Rng;
use super::super::watched::Watched;
use super::super::world::{World, locked};
use super::Schedule;

/// How long first calls wait at most.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// How often they are looked at once all faults have ended.
const REST_STEP: Duration = Duration::from_secs(1);

/// A handler that is not registered yet.
pub(super) struct WaitingHandler {
    pub(super) watched: Arc<Watched>,
    pub(super) id: u32,
    pub(super) script: Script,
    pub(super) options: ListenerOptions,
    pub(super) native: bool,
    pub(super) rng: Rng,
    pub(super) since: Instant,
}

impl WaitingHandler {
    /// Whether a handler waits. Not drawn: what a seed did before still happens.
    pub(super) fn waits(id: u32) -> bool {
        id % 4 == 3
    }

    pub(super) fn start(self, world: &Arc<World>) -> Handler {
        let start = if self.native {
            Handler::start_native
        } else {
            Handler::start
        };
        start(world, &self.watched, self.id, self.script, self.options, self.rng)
    }
}

impl Schedule {
    /// Each handler is held as if its informers were in a cluster of its own.
    pub(super) fn hold(&mut self, handler: WaitingHandler) {
        let since = handler.since;
        self.barrier.hold(&handler.id.to_string(), handler, since);
        self.release_handlers();
    }

    /// Its handlers go with it.
    pub(super) fn forget_handlers_of(&mut self, watched: &Watched) {
        for id in 0..self.handlers_ever {
            self.barrier
                .forget(&id.to_string(), |handler| handler.watched.id == watched.id);
        }
    }

    /// Registers the handlers that have waited long enough.
    pub(super) fn release_handlers(&mut self) {
        let (now, informers) = (Instant::now(), self.informers());
        let world = &self.world;
        let not_ready = |watched: &Arc<Watched>| {
            let indexes = indexes(world, watched);
            let sources = watched.named.sources();
            sources
                .iter()
                .filter_map(|source| world.catalog.source(source.source()))
                .find_map(|source| source.not_ready(&indexes).into_iter().next())
        };
        let first_missing = |_: &str, _| informers.iter().find_map(not_ready);
        let released = self.barrier.release(now, Some(WAIT_MAX), first_missing);
        for handler in released.informers {
            let waited = now - handler.since;
            self.world.record(Entry::Released {
                handler: handler.id,
                waited_ms: waited.as_millis() as u64,
                wait_max_ms: WAIT_MAX.as_millis() as u64,
                missing: informers
                    .iter()
                    .flat_map(|watched| missing(&self.world, watched))
                    .collect(),
            });
            self.handlers.push(handler.start(&self.world));
        }
    }

    /// Waits for the handlers that are left.
    pub(super) async fn release_rest(&mut self) {
        let began = Instant::now();
        while !self.barrier.is_empty() {
            assert!(began.elapsed() <= WAIT_MAX + REST_STEP, "a handler waits for too long");
            self.world.environment.sleep(REST_STEP).await;
            self.release_handlers();
        }
    }
}

/// The indexes of the informer that are not its own.
fn indexes(world: &World, watched: &Watched) -> Vec<Arc<str>> {
    let is_indexed = locked(&world.indexed).contains(&watched.id);
    is_indexed.then(|| fed_index::INDEX.into()).into_iter().collect()
}

/// What a reader finds missing.
fn missing(world: &World, watched: &Watched) -> Option<String> {
    if !watched.named.has_synced() {
        return Some(format!("the objects of informer {}", watched.id));
    }
    let (_, is_indexed) = fed_index::contents(&watched.snapshots());
    let is_wanted = !indexes(world, watched).is_empty();
    (is_wanted && !is_indexed).then(|| format!("the index of informer {}", watched.id))
}
