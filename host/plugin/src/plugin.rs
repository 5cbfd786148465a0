//! A loaded plugin: the handle to start, observe, reload and stop it.

mod instances;
mod rollback;
mod section;
mod swap;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_cache::listener::{HeldShards, Pause};
use informant_cache::{IndexFeedHandle, ListenerHandle, Moment};
use informant_object::{Key, SourceId};
use informant_spec::{Digest, PluginSpec};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

pub use self::section::PreparedChange;
pub use self::swap::Swapped;
use crate::actor::TimerTriggered;
use crate::actor::events::EventActor;
use crate::actor::index::IndexActor;
use crate::actor::mailbox::{ActorCommand, CommandSender, mailbox};
use crate::actor::replay::{Replay, ReplayedCall};
use crate::actor::slot::{FirstInstance, InstanceSlot};
use crate::actor::{ActorKind, InstanceId, PausedBy, PluginContext};
use crate::capability::kube::writes::WritingKey;
use crate::capture::{Capture, CaptureError};
use crate::component::manifest::Manifest;
use crate::component::roles::{Role, Roles};
use crate::component::runner::Compiling;
use crate::effects::EffectList;
use crate::effects::share::LimitShare;
use crate::error::LoadProblem;
use crate::instance::version::LoadedVersion;
use crate::plugin::instances::first_instances;
use crate::status::{PluginCost, PluginState, PluginStatus};
use crate::sync::lock;

/// A plugin. Clones are the same plugin.
///
/// Its listener exists from the start and outlives every instance. If [`Roles::wants_events`], attach it to the
/// informers whose events the plugin is to receive. When the last clone is dropped, the actors end; call
/// [`stop`](Self::stop) to let them finish first.
#[derive(Clone)]
pub struct Plugin(Arc<Inner>);

struct Inner {
    context: Arc<PluginContext>,
    actors: [CommandSender; 2],
    /// Tracks the running actors.
    running: TaskTracker,
    /// The feed of the indexes that the running version computes.
    feed: Mutex<Option<IndexFeedHandle>>,
    /// The running version.
    version: Mutex<LoadedVersion>,
    /// The version to roll back to.
    good: Mutex<Option<LoadedVersion>>,
    /// One swap at a time.
    swapping: tokio::sync::Mutex<()>,
}

/// How often a hand-over looks whether calls still run: 5 ms. Most calls take less.
const HAND_OVER_LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// The result of stopping a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Events that were accepted but not delivered, because the deadline passed or the plugin was quarantined.
    pub undelivered: u64,
}

impl Plugin {
    /// Creates the first instances of `version` and the actors, which wait for `start`.
    pub(crate) async fn new(
        context: Arc<PluginContext>,
        version: LoadedVersion,
        feed: Option<IndexFeedHandle>,
    ) -> Result<Plugin, LoadProblem> {
        let [events, index] = first_instances(&context, &version).await?;
        let channel = || mailbox(Arc::clone(&context.runtime.env));
        let ((events_commands, events_mailbox), (index_commands, index_mailbox)) = (channel(), channel());
        context.set_event_actor(events_commands.clone(), events_mailbox.waker());
        let slots = |instances: Vec<FirstInstance>, actor| -> Vec<InstanceSlot> {
            let slot = |(number, instance)| {
                let id = InstanceId { actor, number };
                InstanceSlot::new(Arc::clone(&context), version.clone(), instance, id)
            };
            (0..).zip(instances).map(slot).collect()
        };
        let index = slots(index, ActorKind::Index).pop().ok_or(LoadProblem::Stopping)?;
        let index = Box::new(IndexActor::new(index, index_mailbox, feed.clone()));
        let events = slots(events, ActorKind::Events);
        let events = Box::new(EventActor::new(events, events_mailbox, Arc::clone(&context)));
        let running = TaskTracker::new();
        context
            .runtime
            .env
            .spawn("plugin-events", Box::pin(running.track_future(events.run())));
        context
            .runtime
            .env
            .spawn("plugin-index", Box::pin(running.track_future(index.run())));
        for (name, task) in context.tasks() {
            let tracked = Box::pin(running.track_future(task));
            context.runtime.env.spawn(name, tracked);
        }
        running.close();
        Ok(Plugin(Arc::new(Inner {
            context,
            actors: [events_commands, index_commands],
            running,
            feed: Mutex::new(feed),
            version: Mutex::new(version),
            good: Mutex::default(),
            swapping: tokio::sync::Mutex::default(),
        })))
    }

    /// The plugin's name in config.toml.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.context.counters.plugin()
    }

    /// Its section of config.toml, as it is applied now.
    #[must_use]
    pub fn spec(&self) -> PluginSpec {
        self.0.context.config().spec.clone()
    }

    /// The manifest of the running version.
    #[must_use]
    pub fn manifest(&self) -> Arc<Manifest> {
        Arc::clone(&self.0.context.status().manifest)
    }

    /// The roles of the running version.
    #[must_use]
    pub fn roles(&self) -> Roles {
        self.0.context.status().roles
    }

    /// The digest of the running component.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.0.context.status().digest
    }

    /// What its next version waits for, if that is being compiled.
    #[must_use]
    pub fn compiling(&self) -> Option<Compiling> {
        let context = &self.0.context;
        context.runtime.compiling(&context.config().spec.content)
    }

    /// Its listener, which delivers its events and holds its dead letters.
    #[must_use]
    pub fn listener(&self) -> ListenerHandle {
        self.0.context.listener.clone()
    }

    /// The present on its clock, to which the moments in its status and its listener belong.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.0.context.now()
    }

    /// The feed of the indexes it computes; none if it computes none.
    #[must_use]
    pub fn index_feed(&self) -> Option<IndexFeedHandle> {
        lock(&self.0.feed).clone()
    }

    /// The first `max` keys whose calls are spaced because they write to one object again and again, by source and key,
    /// and how many there are.
    #[must_use]
    pub fn spaced_keys(&self, max: usize) -> (usize, Vec<WritingKey>) {
        self.0.context.capabilities.kube.spaced_keys(max)
    }

    /// What it would have done in the present or the last dry run.
    #[must_use]
    pub fn effects(&self) -> EffectList {
        self.0.context.effects.list()
    }

    pub async fn start(&self) {
        self.send_to_all(|| ActorCommand::Start).await;
    }

    /// Pauses its event handler until [`resume`](Self::resume): a running call ends as usual, further events wait,
    /// merged by key. Index functions continue. Holds over reloads of the component; a change of
    /// [`PluginSpec::paused`] overrides it. Returns false if it was paused already.
    pub async fn pause(&self) -> bool {
        let is_change = self.0.context.set_paused(Some(PausedBy::Command));
        if is_change {
            self.interrupt_batch().await;
        }
        is_change
    }

    /// Ends a pause, and a quarantine: the plugin gets an instance at once. It receives the changes of the meantime.
    /// Calls that were slowed down, because its handler wrote or asked for calls again and again, are made at once.
    /// Returns false if it was neither paused nor quarantined, and no call was slowed down.
    pub async fn resume(&self) -> bool {
        let was_quarantined = self.0.context.status().state() == PluginState::Quarantined;
        let was_paused = self.0.context.set_paused(None);
        let were_slowed = self.0.context.end_slow_downs();
        self.send_to_all(|| ActorCommand::Resume).await;
        was_quarantined || was_paused || were_slowed
    }

    /// Whether it is paused by [`pause`](Self::pause).
    #[must_use]
    pub fn is_paused_by_command(&self) -> bool {
        self.0.context.status().paused == Some(PausedBy::Command)
    }

    /// Before it acts: it is paused by command, or is not, as another replica has left it. A pause by its section
    /// stays.
    pub async fn set_paused_by_command(&self, is_paused: bool) {
        match is_paused {
            true => drop(self.pause().await),
            false if self.is_paused_by_command() => drop(self.0.context.set_paused(None)),
            false => {}
        }
    }

    /// Another replica acts from now on: aborts running calls, and drops the instances of its event handler, deferred
    /// writes that were not answered, and Kubernetes Events that were not sent. Their events go back to the listener,
    /// unacknowledged. Requests that were sent already may still take effect. Indexes, pauses, dead letters and options
    /// stay; a quarantine ends. Returns when all of that is done, at once for a plugin in standby. Of several calls of
    /// this function and of [`act`](Self::act), the last one counts.
    pub async fn stand_by(&self) {
        // At once: what the actor waits for ends with it.
        self.0.context.end_term();
        self.change_standing(ActorCommand::StandBy).await;
    }

    /// Aborts running calls and refuses all effects from now on, without waiting. Let it [stand by](Self::stand_by)
    /// next.
    pub fn end_term(&self) {
        self.0.context.end_term();
    }

    /// Another replica is about to act: makes no further call, waits until those that run have ended, with what they
    /// defer, and then [stands by](Self::stand_by). After `deadline` it does not wait longer.
    pub async fn hand_over(&self, deadline: Duration) {
        let context = &self.0.context;
        let until = context.now() + deadline;
        context.listener.control().pause(Pause::Standby);
        self.interrupt_batch().await;
        while context.listener.consumer().in_flight() > 0 && context.now() < until {
            context.runtime.env.sleep(HAND_OVER_LOOK_INTERVAL).await;
        }
        self.stand_by().await;
    }

    /// This replica acts from now on: instances are created as at a start, and then called. An `init` that fails is
    /// handled as that of a lost instance. Timers continue from the record of runs. Does nothing if it acts already.
    /// Does not wait for the instances.
    pub async fn act(&self) {
        self.change_standing(ActorCommand::Act).await;
    }

    /// Before it acts for these shards; none: for all objects. Of its limits on calls, deferred writes and HTTP
    /// requests in a second, it has as much as this process holds of the shards. What was taken from them stays taken.
    pub fn share_limits(&self, held: Option<HeldShards>) {
        self.0.context.share_limits(LimitShare::of_shards(held));
    }

    async fn change_standing(&self, command: impl FnOnce(oneshot::Sender<()>) -> ActorCommand) {
        let [events, _] = &self.0.actors;
        let (done, changed) = oneshot::channel();
        events.send(command(done)).await;
        // An error: the plugin was stopped.
        let _ = changed.await;
    }

    /// Whether another replica acts. At first, as the gate said when it was loaded.
    #[must_use]
    pub fn is_standby(&self) -> bool {
        self.0.context.is_standby()
    }

    /// Replaces its instances by new ones of the same version, after their running calls. What they remember in memory
    /// is lost; a quarantine ends, and objects under retry are called at once. A paused plugin gets its instances when
    /// it is resumed.
    pub async fn restart(&self) {
        self.0.context.end_slow_downs();
        self.send_to_all(|| ActorCommand::Restart).await;
    }

    /// Asks for a run of a timer now. The times at which it is due stay as they are.
    pub fn trigger_timer(&self, timer: &str) -> TimerTriggered {
        self.0.context.trigger_timer(timer)
    }

    /// Captures the next call of its handler about the object at `key` of `source`. Nothing is asked for: trigger it.
    ///
    /// # Errors
    /// [`CaptureError::Busy`].
    pub fn capture(&self, source: SourceId, key: Key) -> Result<Capture, CaptureError> {
        self.0.context.captures.arm(source, key)
    }

    /// Makes one call that no event asks for, and waits for its end, with that of its writes. For runs of scenarios.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub async fn replay(&self, call: ReplayedCall) -> Result<(), String> {
        let (done, ended) = oneshot::channel();
        let [events, _] = &self.0.actors;
        events.send(ActorCommand::Replay(Box::new(Replay { call, done }))).await;
        ended.await.unwrap_or_else(|_| Err("the plugin was stopped".to_owned()))
    }

    /// Makes the event actor look whether the plugin is paused before its next call.
    async fn interrupt_batch(&self) {
        let [events, _] = &self.0.actors;
        events.send(ActorCommand::Pause).await;
    }

    #[must_use]
    pub fn status(&self) -> PluginStatus {
        let stats = self.0.context.listener.control().stats();
        let status = self.0.context.status();
        PluginStatus {
            name: self.name().to_owned(),
            manifest: (status.manifest.name.clone(), status.manifest.version.clone()),
            state: status.state(),
            because: status.reason(),
            paused: status.paused.is_some(),
            is_dry_run: self.0.context.effects.is_dry_run(),
            roles: status.roles,
            digest: status.digest,
            previous_digest: status.previous_digest,
            runner: status.runner.clone(),
            memory_bytes: status.memory_bytes(),
            cost: PluginCost {
                cpu: self.0.context.counters.cpu.get(),
                kube: self.0.context.capabilities.kube.traffic(),
                effects: self.0.context.effects.made_so_far(),
            },
            rolled_back: status.rolled_back.clone(),
            restarts: status.restarts,
            instances: status.live(),
            reloads: status.reloads,
            last_reload: status.last_reload.clone(),
            reloads_so_far: status.reloads_so_far.iter().cloned().collect(),
            last_error: status.last_error.clone(),
            stuck_on: status.stuck_on().cloned(),
            pending: stats.pending,
            dead_letters: stats.dead_letters,
            writes: self.0.context.capabilities.kube.status(),
            kv: self.0.context.capabilities.kv.usage(),
            closed_hosts: self.0.context.capabilities.http.closed_hosts(),
            timers: self.0.context.timer_status(),
        }
    }

    /// Stops it: closes the listener, delivers the accepted events, and ends. Does not wait for events in back-off, nor
    /// while it is paused or quarantined. Deferred writes are made until the last second. After `deadline` the rest is
    /// dropped and counted, including a running call.
    pub async fn stop(&self, deadline: Duration) -> Stopped {
        let context = &self.0.context;
        context.listener.control().close();
        context.listener.control().end_retries();
        self.end_writes(deadline);
        let over = context.runtime.env.sleep(deadline);
        self.send_to_all(|| ActorCommand::Drain).await;
        tokio::select! {
            biased;
            () = self.0.running.wait() => {}
            () = over => {
                self.0.abort();
                self.0.running.wait().await;
            }
        }
        let undelivered = context.listener.control().abandon();
        if undelivered > 0 {
            let plugin: &str = context.counters.plugin();
            tracing::warn!(plugin, undelivered, "plugin stopped with undelivered events");
        }
        Stopped { undelivered }
    }

    /// For a stop that ends after `deadline`: from a second before that on, no deferred write starts. What was not made
    /// leaves its event unacknowledged.
    pub fn end_writes(&self, deadline: Duration) {
        self.0.context.capabilities.kube.end_writes(deadline);
    }

    async fn send_to_all(&self, command: impl Fn() -> ActorCommand) {
        for actor in &self.0.actors {
            actor.send(command()).await;
        }
    }
}

/// A feed for the indexes that `version` computes.
pub(crate) fn feed(version: &LoadedVersion) -> Option<IndexFeedHandle> {
    let names = version.manifest.index_names();
    let computes_indexes = version.component.roles.has(Role::IndexFuncs);
    computes_indexes.then(|| IndexFeedHandle::new(names.iter().cloned()))
}

impl Inner {
    /// Ends running calls and the actors.
    fn abort(&self) {
        // First, so that no actor replaces the instance that it loses with its call.
        self.actors.iter().for_each(CommandSender::end);
        self.context.abort.cancel();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.abort();
    }
}
