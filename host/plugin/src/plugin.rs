//! A loaded plugin: the handle to start, observe, reload and stop it.

mod rollback;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use informant_cache::{IndexFeedHandle, ListenerHandle, Moment};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::actor::config::PluginConfig;
use crate::actor::events::EventActor;
use crate::actor::index::IndexActor;
use crate::actor::mailbox::{ActorCommand, CandidateInstance, CommandSender, mailbox};
use crate::actor::restart::InitFailures;
use crate::actor::slot::{FirstInstance, InstanceSlot};
use crate::actor::{ActorKind, PausedBy, PluginContext};
use crate::component::LoadedVersion;
use crate::component::context::{PreviousVersion, StartCause};
use crate::component::file::PluginFile;
use crate::component::manifest::Manifest;
use crate::error::{LoadError, LoadProblem};
use crate::host;
use crate::instance::Instance;
use crate::spec::PluginSpec;
use crate::status::{PluginState, PluginStatus, Reload};
use crate::writes::{self, WRITES_LAST};
use crate::{Digest, Roles, WritingKey};

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

/// Why another version is swapped in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SwapKind {
    /// A reload: the new version receives the old one's state and is on probation.
    Reload,
    /// A rollback: the new version failed, and an older one was good.
    RollBack,
}

/// A change of the component or the section that was prepared next to the running version.
pub struct PreparedChange(Prepared);

enum Prepared {
    /// The running instances can serve the section.
    InPlace(Box<PluginSpec>),
    Version(Box<PreparedVersion>),
}

/// A version with its instances.
struct PreparedVersion {
    /// The configuration that it was prepared next to.
    base: Arc<PluginConfig>,
    config: Arc<PluginConfig>,
    path: PathBuf,
    version: LoadedVersion,
    instances: Instances,
}

/// How long a swap tries an `init` that asks to be tried again: 60 s. The running version continues meanwhile.
pub const INIT_RETRY_AT_SWAP: Duration = Duration::from_secs(60);

/// An instance for each actor that needs one.
type Instances = [Option<Instance>; 2];

/// The result of a swap.
#[derive(Clone, Debug)]
pub struct Swapped {
    /// The version that ran before.
    pub previous: Digest,
    /// The version that runs now.
    pub digest: Digest,
    /// The previous roles. If the plugin wants events now and did not before, attach its listener.
    pub previous_roles: Roles,
    /// The previous feed. If [`Plugin::index_feed`] returns another one, replace it in the informers.
    pub previous_feed: Option<IndexFeedHandle>,
    /// Bytes of the transferred state; none if none was transferred.
    pub state_bytes: Option<usize>,
}

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
        let channel = || mailbox(Arc::clone(&context.host.env), context.abort.clone());
        let ((events_commands, events_mailbox), (index_commands, index_mailbox)) = (channel(), channel());
        context.listener.set_waker(events_mailbox.waker());
        context.writes.set_waker(events_mailbox.waker());
        let slot = |instance, actor| InstanceSlot::new(Arc::clone(&context), version.clone(), instance, actor);
        let events = EventActor::new(slot(events, ActorKind::Events), events_mailbox);
        let index = IndexActor::new(slot(index, ActorKind::Index), index_mailbox, feed.clone());
        let running = TaskTracker::new();
        context
            .host
            .env
            .spawn("plugin-events", Box::pin(running.track_future(events.run())));
        context
            .host
            .env
            .spawn("plugin-index", Box::pin(running.track_future(index.run())));
        let writer = writes::run(Arc::clone(&context), events_commands.clone());
        context
            .host
            .env
            .spawn("plugin-writer", Box::pin(running.track_future(writer)));
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
        let context = &self.0.context;
        context.writes.spaced_keys(context.now(), max)
    }

    /// Starts to call it.
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

    /// Makes the event actor look whether the plugin is paused before its next call.
    async fn interrupt_batch(&self) {
        let [events, _] = &self.0.actors;
        events.send(ActorCommand::Pause).await;
    }

    /// Its status.
    #[must_use]
    pub fn status(&self) -> PluginStatus {
        let stats = self.0.context.listener.stats();
        let status = self.0.context.status();
        PluginStatus {
            name: self.name().to_owned(),
            manifest: (status.manifest.name.clone(), status.manifest.version.clone()),
            state: status.state(),
            because: status.reason(),
            paused: status.paused.is_some(),
            roles: status.roles,
            digest: status.digest,
            previous_digest: status.previous_digest,
            memory_bytes: status.memory_bytes.iter().sum(),
            rolled_back: status.rolled_back.clone(),
            restarts: status.restarts,
            instances: status.memory_bytes.iter().filter(|bytes| **bytes > 0).count(),
            reloads: status.reloads,
            last_reload: status.last_reload.clone(),
            last_error: status.last_error.clone(),
            stuck_on: status.stuck_on.clone(),
            pending: stats.pending,
            dead_letters: stats.dead_letters,
            writes: self.0.context.writes.stats(),
        }
    }

    /// Reloads the component from the file `path`, which need not be the file it was loaded from.
    ///
    /// The new version is validated, compiled, described, instantiated and initialized while the old one runs, and is
    /// swapped in between two calls; the old version finishes its current call. If both have the role `state`, the old
    /// one's state is transferred first. Depending on `on-reload`, the new version continues where the old one stopped,
    /// or receives a replay of the cache. A quarantine ends. Indexes are computed again and attached when they are
    /// complete.
    ///
    /// # Errors
    /// [`LoadError`]. The old version keeps running unchanged.
    pub async fn swap(&self, path: &Path) -> Result<Swapped, LoadError> {
        let _one_at_a_time = self.0.swapping.lock().await;
        let config = self.0.context.config();
        let swapped = async {
            let file = self.0.context.host.read(path).await?;
            let (version, instances) = self.instantiate(&config, &file).await?;
            self.swap_in(config, version, instances, SwapKind::Reload).await
        };
        self.record_result(path, swapped.await)
    }

    /// Applies another section of config.toml, with as little disruption as possible: [in
    /// place](Self::reconfigure_in_place) if that is possible, or else with a new instance, which is swapped in as by
    /// [`swap`](Self::swap), with the new section's `on-reload`. None is returned if the instance was kept. The caller
    /// attaches the listener to its informers.
    ///
    /// # Errors
    /// [`LoadError`]. The old section stays in effect.
    pub async fn reconfigure(&self, spec: PluginSpec) -> Result<Option<Swapped>, LoadError> {
        if self.reconfigure_in_place(&spec).await? {
            return Ok(None);
        }
        let path = spec.component.clone();
        let read = self.0.context.host.read(&path).await;
        let file = read.map_err(|problem| self.refuse(LoadError::new(&path, problem)))?;
        let change = self.prepare_section(spec, file).await?;
        self.apply(change).await
    }

    /// Applies another section of config.toml if that needs neither its file nor a new instance: if component,
    /// `config`, the limits on memory and time, and the names of informers are the same. Otherwise returns false.
    ///
    /// # Errors
    /// [`LoadError`]. The old section stays in effect.
    pub async fn reconfigure_in_place(&self, spec: &PluginSpec) -> Result<bool, LoadError> {
        let _one_at_a_time = self.0.swapping.lock().await;
        let try_in_place = async {
            host::validate(spec)?;
            let config = self.0.context.config();
            let same_file = (&spec.component, spec.sha256) == (&config.spec.component, config.spec.sha256);
            if !same_file || !config.can_serve(spec) {
                return Ok(false);
            }
            self.apply_in_place(config.updated(spec.clone())).await;
            Ok(true)
        };
        let result: Result<bool, LoadProblem> = try_in_place.await;
        result.map_err(|problem| self.refuse(LoadError::new(&spec.component, problem)))
    }

    /// Prepares a [`swap`](Self::swap) to the version in `file`, next to the running one. The returned future may be
    /// dropped at any point.
    ///
    /// # Errors
    /// [`LoadError`].
    pub async fn prepare_version(&self, file: PluginFile) -> Result<PreparedChange, LoadError> {
        let config = self.0.context.config();
        let prepared = self.prepare(&config, Arc::clone(&config), &file).await;
        prepared.map_err(|problem| self.refuse(LoadError::new(file.path(), problem)))
    }

    /// Prepares to [`reconfigure`](Self::reconfigure) with the content of the section's file, next to the running
    /// version. The returned future may be dropped at any point.
    ///
    /// # Errors
    /// [`LoadError`].
    pub async fn prepare_section(&self, spec: PluginSpec, file: PluginFile) -> Result<PreparedChange, LoadError> {
        let prepare = async {
            host::validate(&spec)?;
            let config = self.0.context.config();
            if config.can_serve(&spec) && file.digest() == self.digest() {
                let pinned = spec.sha256.filter(|pinned| *pinned != file.digest());
                return match pinned {
                    Some(pinned) => Err(LoadProblem::Pin {
                        found: file.digest(),
                        pinned,
                    }),
                    None => Ok(PreparedChange(Prepared::InPlace(Box::new(spec)))),
                };
            }
            self.prepare(&config, PluginConfig::new(spec), &file).await
        };
        let prepared = prepare.await;
        prepared.map_err(|problem| self.refuse(LoadError::new(file.path(), problem)))
    }

    /// Applies what was prepared. Run the returned future to its end: the old version may have ended when it is
    /// dropped.
    ///
    /// # Errors
    /// [`LoadError`]. The old version and section stay in effect.
    pub async fn apply(&self, change: PreparedChange) -> Result<Option<Swapped>, LoadError> {
        let _one_at_a_time = self.0.swapping.lock().await;
        let config = self.0.context.config();
        match change.0 {
            Prepared::InPlace(spec) => {
                self.apply_in_place(config.updated(*spec)).await;
                Ok(None)
            }
            Prepared::Version(prepared) => {
                let PreparedVersion {
                    base,
                    config: wanted,
                    path,
                    version,
                    instances,
                } = *prepared;
                let swapped = match Arc::ptr_eq(&base, &config) {
                    true => self.swap_in(wanted, version, instances, SwapKind::Reload).await,
                    false => Err(LoadProblem::Outdated),
                };
                self.record_result(&path, swapped).map(Some)
            }
        }
    }

    /// Records that a version was not loaded, for example because its file cannot be read. The running one continues.
    #[must_use]
    pub fn refuse(&self, error: LoadError) -> LoadError {
        let error = self.note(error);
        self.count(Some(&error));
        error
    }

    /// Clears the last [`refuse`](Self::refuse): the file has the content of the running version again.
    pub fn clear_refusal(&self) {
        let mut status = self.0.context.status();
        let Some(reload) = status.last_reload.take_if(|reload| reload.refused.is_some()) else {
            return;
        };
        status
            .last_error
            .take_if(|(_, error)| reload.refused.as_ref() == Some(error));
    }

    /// Records the result of a reload.
    fn count(&self, refused: Option<&LoadError>) {
        let context = &self.0.context;
        context
            .counters
            .reloaded(if refused.is_none() { "ok" } else { "refused" });
        let mut status = context.status();
        status.last_reload = Some(Reload {
            at: context.now(),
            refused: refused.map(ToString::to_string),
        });
        if refused.is_none() {
            // It belonged to another version.
            status.last_error = None;
        }
    }

    /// Applies a configuration to the running instances. Revoked grants take effect even if the manifest requires them.
    async fn apply_in_place(&self, config: Arc<PluginConfig>) {
        if let Err(problem) = self.manifest().check_grants(&config.spec) {
            let plugin = self.name();
            tracing::warn!(plugin, error = %problem, "plugin requirements no longer granted; its calls are denied");
        }
        self.apply_config(&config);
        self.send_to_all(|| ActorCommand::Reconfigure(Arc::clone(&config)))
            .await;
    }

    /// Makes `config` the plugin's configuration.
    fn apply_config(&self, config: &Arc<PluginConfig>) {
        let context = &self.0.context;
        let options = context.host.listener_options(&config.spec);
        context.listener.set_options(options, context.now());
        context.writes.set_limits(&config.spec.limits, context.now());
        let paused = config.spec.paused;
        if paused != context.config().spec.paused {
            context.set_paused(paused.then_some(PausedBy::Section));
        }
        context.set_config(Arc::clone(config));
    }

    async fn prepare(
        &self,
        base: &Arc<PluginConfig>,
        config: Arc<PluginConfig>,
        file: &PluginFile,
    ) -> Result<PreparedChange, LoadProblem> {
        let (version, instances) = self.instantiate(&config, file).await?;
        Ok(PreparedChange(Prepared::Version(Box::new(PreparedVersion {
            base: Arc::clone(base),
            config,
            path: file.path().to_owned(),
            version,
            instances,
        }))))
    }

    /// Loads the version in `file` and creates its instances.
    async fn instantiate(
        &self,
        config: &Arc<PluginConfig>,
        file: &PluginFile,
    ) -> Result<(LoadedVersion, Instances), LoadProblem> {
        let version = self.0.context.host.load_version(file, config).await?;
        let running = lock(&self.0.version).clone();
        let transfers = running.component.roles.state && version.component.roles.state;
        let previous = transfers.then(|| PreviousVersion {
            version: running.manifest.version.clone(),
            digest: running.component.digest,
        });
        let instances = self.new_instances(config, &version, previous).await?;
        Ok((version, instances))
    }

    async fn new_instances(
        &self,
        config: &Arc<PluginConfig>,
        version: &LoadedVersion,
        previous: Option<PreviousVersion>,
    ) -> Result<Instances, LoadProblem> {
        version.manifest.check_grants(&config.spec)?;
        instances(&self.0.context, config, version, previous).await
    }

    /// Records the result of a reload.
    fn record_result<T>(&self, path: &Path, result: Result<T, LoadProblem>) -> Result<T, LoadError> {
        match result {
            Ok(done) => {
                self.count(None);
                Ok(done)
            }
            Err(problem) => Err(self.refuse(LoadError::new(path, problem))),
        }
    }

    /// Records why a version was rejected.
    fn note(&self, error: LoadError) -> LoadError {
        let context = &self.0.context;
        let error = error.of_plugin(self.name());
        context.status().last_error = Some((context.now(), error.to_string()));
        error
    }

    /// Swaps in the instances of `version` with `config`.
    async fn swap_in(
        &self,
        config: Arc<PluginConfig>,
        version: LoadedVersion,
        instances: Instances,
        kind: SwapKind,
    ) -> Result<Swapped, LoadProblem> {
        let context = &self.0.context;
        let previous_feed = self.index_feed();
        let feed = match (&previous_feed, host::feed(&version)) {
            (Some(old), Some(new)) if old.names() == new.names() => Some(old.clone()),
            (_, new) => new,
        };
        let was_quarantined = context.status().state() == PluginState::Quarantined;
        let mut state_bytes = None;
        for (actor, instance) in self.0.actors.iter().zip(instances) {
            let (done, swapped_in) = oneshot::channel();
            let candidate = CandidateInstance {
                config: Arc::clone(&config),
                version: version.clone(),
                instance,
                feed: feed.clone(),
                kind,
                done,
            };
            actor.send(ActorCommand::Swap(Box::new(candidate))).await;
            // The event actor comes first, and it alone may reject the swap; nothing has changed in that case.
            let state = swapped_in.await.map_err(|_| LoadProblem::Stopping)??;
            state_bytes = state_bytes.or(state);
        }
        *lock(&self.0.feed) = feed;
        let before = std::mem::replace(&mut *lock(&self.0.version), version.clone());
        if kind == SwapKind::Reload && !was_quarantined {
            // A fallback until a version has passed its probation.
            lock(&self.0.good).get_or_insert(before);
        }
        self.apply_config(&config);
        if context.is_paused() {
            self.interrupt_batch().await;
        }
        let mut status = context.status();
        status.reloads += 1;
        status.rolled_back = None;
        status.manifest = Arc::clone(&version.manifest);
        let previous_roles = std::mem::replace(&mut status.roles, version.component.roles);
        let previous = std::mem::replace(&mut status.digest, version.component.digest);
        if previous != status.digest {
            status.previous_digest = Some(previous);
        }
        Ok(Swapped {
            previous,
            digest: version.component.digest,
            previous_roles,
            previous_feed,
            state_bytes,
        })
    }

    /// Stops it: closes the listener, delivers the accepted events, and ends. Does not wait for events in back-off, nor
    /// while it is paused or quarantined. Deferred writes are made until the last second. After `deadline` the rest is
    /// dropped and counted, including a running call.
    pub async fn stop(&self, deadline: Duration) -> Stopped {
        let context = &self.0.context;
        context.listener.close();
        context.listener.end_retries();
        self.end_writes(deadline);
        let over = context.host.env.sleep(deadline);
        self.send_to_all(|| ActorCommand::Drain).await;
        tokio::select! {
            biased;
            () = self.0.running.wait() => {}
            () = over => {
                context.abort.cancel();
                self.0.running.wait().await;
            }
        }
        let undelivered = context.listener.abandon();
        if undelivered > 0 {
            let plugin: &str = context.counters.plugin();
            tracing::warn!(plugin, undelivered, "plugin stopped with undelivered events");
        }
        Stopped { undelivered }
    }

    /// For a stop that ends after `deadline`: from [`WRITES_LAST`] before that on, no
    /// deferred write starts. What was not made leaves its event unacknowledged.
    pub fn end_writes(&self, deadline: Duration) {
        let context = &self.0.context;
        let left = deadline.saturating_sub(WRITES_LAST);
        context.writes.end_at(context.now() + left);
    }

    async fn send_to_all(&self, command: impl Fn() -> ActorCommand) {
        for actor in &self.0.actors {
            actor.send(command()).await;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Changed by single assignments: whole after any panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.context.abort.cancel();
    }
}

/// Creates an instance of `version` for each actor that needs one, to be swapped in, on the guests' runtime. An `init`
/// that asks to be tried again is, for [`INIT_RETRY_AT_SWAP`].
async fn instances(
    context: &Arc<PluginContext>,
    config: &Arc<PluginConfig>,
    version: &LoadedVersion,
    previous: Option<PreviousVersion>,
) -> Result<Instances, LoadProblem> {
    let (parts, config, version) = (Arc::clone(context), Arc::clone(config), version.clone());
    let make = async move {
        let roles = version.component.roles;
        let until = parts.now() + INIT_RETRY_AT_SWAP;
        let mut made = [None, None];
        for (slot, actor) in made.iter_mut().zip([ActorKind::Events, ActorKind::Index]) {
            if !actor.is_needed(roles) {
                continue;
            }
            let mut failures = InitFailures::default();
            let previous = previous.clone().filter(|_| actor == ActorKind::Events);
            *slot = loop {
                let instance = parts.instance(&config, &version, actor, StartCause::Swap, previous.clone());
                match instance.await {
                    Ok(instance) => break Some(instance),
                    Err(problem @ LoadProblem::InitRetryable { .. }) if parts.now() < until => {
                        let wait = failures.wait(&problem).min(until - parts.now());
                        parts.log_init_failure(actor, &problem, wait);
                        parts.host.env.sleep(wait).await;
                    }
                    Err(LoadProblem::InitRetryable { role, message, .. }) => {
                        return Err(LoadProblem::InitGaveUp { role, message });
                    }
                    Err(problem) => return Err(problem),
                }
            };
        }
        Ok(made)
    };
    context.host.on_guests(make).await?
}

/// Creates the first instance of `version` for each actor that needs one. None in place of one whose `init` asks to be
/// tried again, with that problem.
async fn first_instances(
    context: &Arc<PluginContext>,
    version: &LoadedVersion,
) -> Result<[FirstInstance; 2], LoadProblem> {
    let (parts, version) = (Arc::clone(context), version.clone());
    let make = async move {
        let (roles, config) = (version.component.roles, parts.config());
        let mut made = [FirstInstance::NotNeeded, FirstInstance::NotNeeded];
        for (slot, actor) in made.iter_mut().zip([ActorKind::Events, ActorKind::Index]) {
            if !actor.is_needed(roles) {
                continue;
            }
            *slot = match parts.instance(&config, &version, actor, StartCause::Start, None).await {
                Ok(instance) => FirstInstance::Made(Box::new(instance)),
                Err(problem @ LoadProblem::InitRetryable { .. }) => FirstInstance::Later(problem),
                Err(problem) => return Err(problem),
            };
        }
        Ok(made)
    };
    context.host.on_guests(make).await?
}
