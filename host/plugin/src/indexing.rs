//! The actor that computes index values.
//!
//! ```text
//! feed ──next_batch──▶ one call after the other into one instance ──complete──▶ feed
//! ```
//!
//! Has an instance of its own: no memory is shared with the one that handles events. An object that the guest fails or
//! traps on is that object's failure. An instance that is lost too often leaves the index detached until the plugin is
//! resumed or swapped; no informer waits for it meanwhile.

use std::collections::VecDeque;
use std::time::Duration;

use informant_cache::IndexFeedHandle;
use informant_cache::index_feed::{IndexJob, IndexResult, NamedValues};

use crate::TrapKind;
use crate::deliver::{reference, written};
use crate::metrics::IndexCounters;
use crate::noting::noting;
use crate::orders::{Inbox, Order, Successor, Woken};
use crate::place::{Filled, Place};
use crate::shared::truncated;
use crate::status::{PluginState, StuckOn};

/// Objects taken from the feed at once.
const BATCH_OBJECTS_MAX: usize = 64;

/// How long values may wait for others to be handed in with them (an informer may be waiting), and the actor go on
/// without letting others run.
const TURN_MAX: Duration = Duration::from_millis(1);

/// Computes the index values of one plugin.
pub(crate) struct Indexing {
    place: Place,
    inbox: Inbox,
    /// None: the version that runs has no indexes.
    feed: Option<IndexFeedHandle>,
    counters: IndexCounters,
    /// Taken, and yet to be computed.
    jobs: VecDeque<IndexJob>,
    taken: Vec<IndexJob>,
    results: Vec<IndexResult>,
    document: Vec<u8>,
    started: bool,
    /// The feed was told that there is somebody to compute.
    loaded: bool,
}

/// Whether the actor goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Go {
    On,
    End,
}

impl Indexing {
    pub(crate) fn new(place: Place, inbox: Inbox, feed: Option<IndexFeedHandle>) -> Indexing {
        let counters = place.shared.counters.index();
        let mut indexing = Indexing {
            place,
            inbox,
            feed: None,
            counters,
            jobs: VecDeque::new(),
            taken: Vec::new(),
            results: Vec::new(),
            document: Vec::new(),
            started: false,
            loaded: false,
        };
        indexing.attach(feed);
        indexing
    }

    /// Works until it is told to end.
    pub(crate) async fn run(mut self) {
        while self.turn().await == Go::On {}
        if let Some(feed) = &self.feed {
            feed.failed("the plugin is stopped");
        }
        self.place.end();
    }

    async fn turn(&mut self) -> Go {
        while let Some(order) = self.inbox.order() {
            if self.obey(order) == Go::End {
                return Go::End;
            }
        }
        if self.inbox.is_over() {
            return Go::End;
        }
        let feed = match &self.feed {
            Some(feed) if self.started => feed.clone(),
            _ => return self.wait().await,
        };
        if self.place.is_empty() {
            return self.refill(&feed).await;
        }
        if !std::mem::replace(&mut self.loaded, true) {
            feed.loaded();
        }
        if self.jobs.is_empty() {
            feed.next_batch(BATCH_OBJECTS_MAX, &mut self.taken);
            self.jobs.extend(self.taken.drain(..));
        }
        if self.jobs.is_empty() {
            return self.wait().await;
        }
        self.work(&feed).await;
        Go::On
    }

    async fn wait(&mut self) -> Go {
        match self.inbox.wait(None).await {
            Woken::Order(order) => self.obey(order),
            Woken::Work | Woken::Time => Go::On,
            Woken::End => Go::End,
        }
    }

    /// Computes what was taken, until it is done, an order waits or the instance is lost.
    async fn work(&mut self, feed: &IndexFeedHandle) {
        let _running = self.place.shared.host.ticker.clock().run_guests();
        let mut handed_in = self.place.shared.now();
        self.place.shared.conduct.review(handed_in);
        while let Some(job) = self.jobs.pop_front() {
            let values = self.compute(&job).await;
            self.results.push(job.answer(values));
            let now = self.place.shared.now();
            if now - handed_in > TURN_MAX || self.jobs.is_empty() {
                feed.complete(self.results.drain(..));
                // Calls that end at once never let other tasks run.
                tokio::task::yield_now().await;
                handed_in = self.place.shared.now();
            }
            if self.place.is_empty() || self.inbox.has_order() {
                break;
            }
        }
        feed.complete(self.results.drain(..));
        self.place.note_memory();
    }

    async fn compute(&mut self, job: &IndexJob) -> Result<NamedValues, String> {
        let Place {
            shared,
            version,
            instance,
            ..
        } = &mut self.place;
        let object = &job.object;
        let Some(rule) = version.manifest.index_rule(object.api_version(), object.kind()) else {
            return Ok(NamedValues::new());
        };
        let Some(instance) = instance else {
            return Err("the plugin has no instance".to_owned());
        };
        let document = written(&mut self.document, &rule.payload, object);
        let about = || StuckOn::of_index(job, shared.now());
        let called = noting(shared, about, instance.index(reference(job.source.0, object), document)).await;
        match called {
            None => Ok(NamedValues::new()),
            Some(Ok(Ok(values))) => {
                self.counters.ok.inc();
                Ok(values)
            }
            Some(Ok(Err(message))) => {
                self.counters.error.inc();
                Err(truncated(&message))
            }
            Some(Err(report)) => {
                let report = report.about(format_args!("{} {} {}", object.api_version(), object.kind(), job.key));
                match report.kind {
                    TrapKind::Timeout => self.counters.timeout.inc(),
                    TrapKind::Trap | TrapKind::Aborted => self.counters.trap.inc(),
                };
                let error = truncated(&report.to_string());
                self.place.lose(&report);
                Err(error)
            }
        }
    }

    /// Gets an instance for the empty place. While there is none for long, the feed is told that nobody computes.
    async fn refill(&mut self, feed: &IndexFeedHandle) -> Go {
        if self.place.is_quarantined() && std::mem::replace(&mut self.loaded, false) {
            feed.failed("the plugin trapped or overran too often and is in quarantine");
            self.jobs.clear();
        }
        match self.place.fill(&mut self.inbox).await {
            Filled::Rebuilt => Go::On,
            Filled::Order(order) => self.obey(order),
            Filled::End => Go::End,
        }
    }

    fn obey(&mut self, order: Order) -> Go {
        match order {
            Order::Start => {
                self.started = true;
                self.place.set_usual(PluginState::Running);
            }
            Order::Swap(successor) => self.swap(*successor),
            Order::Amend(terms) => self.place.terms = terms,
            Order::Resume => {
                if self.place.is_quarantined() {
                    self.place.forgive();
                }
            }
            // An index owes nobody anything.
            Order::Drain => return Go::End,
        }
        Go::On
    }

    /// Another version takes over. Its values may be others: everything is computed again, and attached when it is
    /// whole.
    fn swap(&mut self, successor: Successor) {
        let Successor {
            terms,
            version,
            instance,
            feed,
            how: _,
            done,
        } = successor;
        self.place.take_over(terms, version, instance);
        self.jobs.clear();
        self.results.clear();
        self.loaded = false;
        self.attach(feed);
        // Whoever asked for the swap may have gone.
        let _ = done.send(Ok(None));
    }

    fn attach(&mut self, feed: Option<IndexFeedHandle>) {
        let stays = match (&self.feed, &feed) {
            (Some(old), Some(new)) => old.ptr_eq(new),
            _ => false,
        };
        if let Some(old) = self.feed.take().filter(|_| !stays) {
            old.failed("another version of the plugin has other indexes");
        }
        if let Some(feed) = &feed {
            feed.set_worker_waker(self.inbox.bell());
        }
        self.feed = feed;
    }
}
