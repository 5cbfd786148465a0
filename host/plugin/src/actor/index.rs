//! The actor that computes index values.
//!
//! ```text
//! feed ──next_batch──▶ one call after the other into one instance ──complete──▶ feed
//! ```
//!
//! Has an instance of its own, which shares no memory with those that handle events. There is one, however many
//! instances handle events: values are computed in batches, never wait, and are limited to the index budget. If the
//! guest fails or traps on an object, only that object has no values. An object that cannot be read is not left out:
//! its source waits for it. An instance that is lost too often leaves the index detached until the plugin is resumed or
//! reloaded; meanwhile no informer waits for it.

mod jobs;

use std::pin::pin;
use std::time::Duration;

use informant_cache::index_feed::{IndexJob, IndexResult, ValuesByIndex};
use informant_cache::{IndexFeedHandle, Moment};

use self::jobs::IndexJobs;
use crate::actor::deliver::{object_ref, render};
use crate::actor::live_status::track_stuck_call;
use crate::actor::mailbox::{ActorCommand, CandidateInstance, Mailbox, Step};
use crate::actor::restart::LossSubject;
use crate::actor::slot::InstanceSlot;
use crate::component::manifest::Manifest;
use crate::engine::trap::TrapKind;
use crate::metrics::IndexCounters;
use crate::status::{PluginState, StuckOn};
use crate::text::truncated;

/// How long values may wait to be handed in as one batch (an informer may be waiting), and how long the actor runs
/// without yielding: 1 ms.
const FLUSH_MAX: Duration = Duration::from_millis(1);

/// Computes the index values of one plugin.
pub(crate) struct IndexActor {
    slot: InstanceSlot,
    mailbox: Mailbox,
    /// None: the running version has no indexes.
    feed: Option<IndexFeedHandle>,
    counters: IndexCounters,
    /// Taken from the feed and not computed yet.
    jobs: IndexJobs,
    results: Vec<IndexResult>,
    document: Vec<u8>,
    started: bool,
    /// The feed knows that the actor computes values.
    loaded: bool,
}

impl IndexActor {
    pub(crate) fn new(slot: InstanceSlot, mailbox: Mailbox, feed: Option<IndexFeedHandle>) -> IndexActor {
        let counters = slot.context.counters.index();
        let mut actor = IndexActor {
            slot,
            mailbox,
            feed: None,
            counters,
            jobs: IndexJobs::default(),
            results: Vec::new(),
            document: Vec::new(),
            started: false,
            loaded: false,
        };
        actor.attach(feed);
        actor
    }

    /// Runs until the plugin is stopped or dropped.
    ///
    /// In a box, because a future has two copies of what it takes by value.
    pub(crate) async fn run(mut self: Box<Self>) {
        while self.step().await == Step::Continue {}
        if let Some(feed) = &self.feed {
            feed.failed("the plugin is stopped");
        }
        self.slot.end();
    }

    async fn step(&mut self) -> Step {
        if self.mailbox.is_over() {
            return Step::Stop;
        }
        while let Some(command) = self.mailbox.try_next() {
            if self.handle_command(command) == Step::Stop {
                return Step::Stop;
            }
        }
        let feed = match &self.feed {
            Some(feed) if self.started => feed.clone(),
            _ => return self.wait(None).await,
        };
        if self.slot.is_empty() {
            return self.refill(&feed).await;
        }
        if !std::mem::replace(&mut self.loaded, true) {
            feed.loaded();
        }
        self.jobs.refill(&feed, self.slot.context.now());
        if self.jobs.is_empty() {
            return self.wait(self.jobs.next_end()).await;
        }
        // In a box, without which each plugin keeps room for a call, also those that compute no indexes.
        Box::pin(self.work(&feed)).await;
        Step::Continue
    }

    async fn wait(&mut self, until: Option<Moment>) -> Step {
        self.mailbox.wait(until).await;
        Step::Continue
    }

    /// Computes the taken jobs until they are done, a command is queued or the instance is lost.
    async fn work(&mut self, feed: &IndexFeedHandle) {
        let _running = self.slot.context.runtime.ticker.clock().run_guests();
        let mut handed_in = self.slot.context.now();
        self.slot.context.overruns.expire(handed_in);
        while let Some(job) = self.jobs.pop() {
            let Some(job) = self.with_body(job, feed) else { continue };
            let values = self.compute(&job).await;
            self.results.push(job.answer(values));
            let now = self.slot.context.now();
            if now - handed_in > FLUSH_MAX || self.jobs.is_empty() {
                feed.complete(self.results.drain(..));
                // Calls that return at once never yield to other tasks.
                tokio::task::yield_now().await;
                handed_in = self.slot.context.now();
            }
            if self.slot.is_empty() || self.mailbox.has_command() {
                break;
            }
        }
        feed.complete(self.results.drain(..));
        self.slot.update_memory();
    }

    /// The job, if its object can be computed now. Otherwise it waits for a body.
    fn with_body(&mut self, job: IndexJob, feed: &IndexFeedHandle) -> Option<IndexJob> {
        let job = self.jobs.queue_behind(job, feed)?;
        let InstanceSlot { context, version, .. } = &self.slot;
        let rule = version
            .manifest
            .index_rule(&job.object.api_version(), &job.object.kind());
        if rule.is_none_or(|rule| job.object.holds(&rule.payload)) {
            return Some(job);
        }
        let (catalog, waker) = (&context.runtime.services.catalog, self.mailbox.waker());
        self.jobs.read(job, feed, catalog, waker, context.now());
        None
    }

    async fn compute(&mut self, job: &IndexJob) -> Result<ValuesByIndex, String> {
        let InstanceSlot {
            context,
            version,
            instance,
            id,
            ..
        } = &mut self.slot;
        let object = &job.object;
        let Some(rule) = version.manifest.index_rule(&object.api_version(), &object.kind()) else {
            return Ok(no_values(&version.manifest));
        };
        let Some(instance) = instance else {
            return Err("the plugin has no instance".to_owned());
        };
        let document = render(&mut self.document, &rule.payload, object);
        let about = || StuckOn::of_index(job, context.now());
        let object = object_ref(job.source.0, object);
        let called = track_stuck_call(context, *id, about, pin!(instance.index(object, document))).await;
        match called {
            None => Ok(no_values(&version.manifest)),
            Some(Ok(Ok(values))) => {
                self.counters.ok.inc();
                Ok(values)
            }
            Some(Ok(Err(message))) => {
                self.counters.error.inc();
                Err(truncated(&message))
            }
            Some(Err(report)) => {
                let (version, kind) = (job.object.api_version(), job.object.kind());
                let report = report.about(format_args!("{version} {kind} {}", job.key));
                match report.kind {
                    TrapKind::Timeout => self.counters.timeout.inc(),
                    TrapKind::Trap | TrapKind::Memory | TrapKind::Aborted => self.counters.trap.inc(),
                };
                let error = truncated(report.to_string());
                let about = LossSubject::of(Some(job.key.as_ref()));
                self.slot.record_loss(&report, about);
                Err(error)
            }
        }
    }

    /// Gets an instance for the empty slot. In quarantine, marks the feed as failed.
    async fn refill(&mut self, feed: &IndexFeedHandle) -> Step {
        if self.slot.is_quarantined() && std::mem::replace(&mut self.loaded, false) {
            feed.failed("the plugin trapped or timed out too often and is quarantined");
            self.jobs.clear();
        }
        let until = self.slot.rebuild_at();
        if until.is_none_or(|until| self.slot.context.now() < until) {
            return self.wait(until).await;
        }
        Box::pin(self.slot.rebuild()).await;
        Step::Continue
    }

    fn handle_command(&mut self, command: ActorCommand) -> Step {
        match command {
            ActorCommand::Start => {
                self.started = true;
                self.slot.set_steady_state(PluginState::Running);
            }
            ActorCommand::Swap(candidate) => self.swap(*candidate),
            ActorCommand::Reconfigure(config) => self.slot.config = config,
            ActorCommand::Resume => {
                if self.slot.is_quarantined() {
                    self.slot.reset();
                }
            }
            ActorCommand::Restart => self.slot.restart(),
            // Only events are paused, and only handlers write.
            ActorCommand::Pause | ActorCommand::Quarantine { .. } | ActorCommand::Replay(_) => {}
            // Indexes are computed all the time.
            ActorCommand::StandBy(_) | ActorCommand::Act(_) => {}
            // Index values that are not computed yet need not be delivered.
            ActorCommand::Drain => return Step::Stop,
        }
        Step::Continue
    }

    /// Swaps in another version. Its values may differ: everything is computed again, and the index is attached when it
    /// is complete.
    fn swap(&mut self, candidate: CandidateInstance) {
        let CandidateInstance {
            config,
            version,
            mut instances,
            changes: _,
            term: _,
            feed,
            kind: _,
            done,
        } = candidate;
        let activation = self.slot.activation + 1;
        self.slot.activate(config, version, instances.pop(), activation);
        self.jobs.clear();
        self.results.clear();
        self.loaded = false;
        self.attach(feed);
        // The caller of the swap may be gone.
        let _ = done.send(Ok(None));
    }

    fn attach(&mut self, feed: Option<IndexFeedHandle>) {
        let stays = match (&self.feed, &feed) {
            (Some(old), Some(new)) => old.ptr_eq(new),
            _ => false,
        };
        if let Some(old) = self.feed.take().filter(|_| !stays) {
            old.failed("the new plugin version defines other indexes");
        }
        if let Some(feed) = &feed {
            feed.set_worker_waker(self.mailbox.waker());
        }
        self.feed = feed;
    }
}

/// No values in any index.
fn no_values(manifest: &Manifest) -> ValuesByIndex {
    vec![Vec::new(); manifest.index_names().len()]
}
