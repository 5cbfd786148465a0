//! A loaded plugin: the handle by which it is started, watched, swapped and stopped.

mod roll_back;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use informant_cache::{IndexFeedHandle, ListenerHandle};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::described::Described;
use crate::error::{LoadError, Problem};
use crate::events::Events;
use crate::host;
use crate::indexing::Indexing;
use crate::instance::Instance;
use crate::manifest::Manifest;
use crate::orders::{Order, OrderSender, Successor, orders};
use crate::place::Place;
use crate::shared::{Actor, Shared};
use crate::spec::PluginSpec;
use crate::status::{PluginState, PluginStatus, Reload};
use crate::terms::Terms;
use crate::{Digest, Roles, needs};

/// A plugin. Clones are the same plugin.
///
/// Its listener is there from the beginning and outlives every instance: it belongs to the plugin. Attach it to the
/// informers whose events the plugin is to be told if [`Roles::wants_events`]. When the last clone is dropped, its
/// actors end; call [`stop`](Self::stop) to let them finish first.
#[derive(Clone)]
pub struct Plugin(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    actors: [OrderSender; 2],
    /// Counts the actors that run.
    running: TaskTracker,
    /// Where the indexes go that the running version computes.
    feed: Mutex<Option<IndexFeedHandle>>,
    /// The version that runs.
    version: Mutex<Described>,
    /// The version to go back to.
    good: Mutex<Option<Described>>,
    /// One swap at a time.
    swapping: tokio::sync::Mutex<()>,
}

/// How another version takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takeover {
    /// The operator wants it: it gets the old one's state, and is on trial.
    Swap,
    /// It was good before, and what came after it was not.
    RollBack,
}

/// A swap that was made.
#[derive(Clone, Debug)]
pub struct Swapped {
    /// What ran before.
    pub previous: Digest,
    /// What runs now.
    pub digest: Digest,
    /// The roles before. If they wanted no events and now do, the listener is to be attached.
    pub previous_roles: Roles,
    /// The feed before. If [`Plugin::index_feed`] is another one, the informers' have to be exchanged: the indexes have
    /// other names.
    pub previous_feed: Option<IndexFeedHandle>,
    /// Bytes of the state that was handed over; none if there was none to hand over.
    pub state_bytes: Option<usize>,
}

/// A plugin that was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Events that were accepted and not delivered: the time was over, or the plugin was in quarantine.
    pub undelivered: u64,
}

impl Plugin {
    /// Makes the first instances of `version` and the actors, which wait to be started.
    pub(crate) async fn new(
        shared: Arc<Shared>,
        version: Described,
        feed: Option<IndexFeedHandle>,
    ) -> Result<Plugin, Problem> {
        let [events, index] = instances(&shared, &shared.terms(), &version).await?;
        let channel = || orders(Arc::clone(&shared.host.env), shared.abort.clone());
        let ((events_orders, events_inbox), (index_orders, index_inbox)) = (channel(), channel());
        shared.listener.set_waker(events_inbox.bell());
        let place = |instance, actor| Place::new(Arc::clone(&shared), version.clone(), instance, actor);
        let events = Events::new(place(events, Actor::Events), events_inbox);
        let indexing = Indexing::new(place(index, Actor::Index), index_inbox, feed.clone());
        let running = TaskTracker::new();
        shared
            .host
            .env
            .spawn("plugin-events", Box::pin(running.track_future(events.run())));
        shared
            .host
            .env
            .spawn("plugin-index", Box::pin(running.track_future(indexing.run())));
        running.close();
        Ok(Plugin(Arc::new(Inner {
            shared,
            actors: [events_orders, index_orders],
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
        self.0.shared.counters.plugin()
    }

    /// What it runs as.
    #[must_use]
    pub fn spec(&self) -> PluginSpec {
        self.0.shared.terms().spec.clone()
    }

    /// The manifest of the version that runs.
    #[must_use]
    pub fn manifest(&self) -> Arc<Manifest> {
        Arc::clone(&self.0.shared.fares().manifest)
    }

    /// The roles of the version that runs.
    #[must_use]
    pub fn roles(&self) -> Roles {
        self.0.shared.fares().roles
    }

    /// The component that runs.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.0.shared.fares().digest
    }

    /// Its listener: what it is told comes through here, what it failed on is listed here.
    #[must_use]
    pub fn listener(&self) -> ListenerHandle {
        self.0.shared.listener.clone()
    }

    /// Where the indexes come from that it computes; none if it computes none.
    #[must_use]
    pub fn index_feed(&self) -> Option<IndexFeedHandle> {
        lock(&self.0.feed).clone()
    }

    /// Begins to call it.
    pub async fn start(&self) {
        self.order(|| Order::Start).await;
    }

    /// Ends a quarantine: it gets an instance at once and is told what changed meanwhile. Does nothing otherwise.
    pub async fn resume(&self) {
        self.order(|| Order::Resume).await;
    }

    /// How it fares.
    #[must_use]
    pub fn status(&self) -> PluginStatus {
        let stats = self.0.shared.listener.stats();
        let fares = self.0.shared.fares();
        PluginStatus {
            name: self.name().to_owned(),
            manifest: (fares.manifest.name.clone(), fares.manifest.version.clone()),
            state: fares.state(),
            because: fares.because.clone(),
            roles: fares.roles,
            digest: fares.digest,
            previous_digest: fares.previous_digest,
            memory_bytes: fares.memory_bytes.iter().sum(),
            rolled_back: fares.rolled_back.clone(),
            restarts: fares.restarts,
            instances: fares.memory_bytes.iter().filter(|bytes| **bytes > 0).count(),
            reloads: fares.reloads,
            last_reload: fares.last_reload.clone(),
            last_error: fares.last_error.clone(),
            stuck_on: fares.stuck_on.clone(),
            pending: stats.pending,
            dead_letters: stats.dead_letters,
        }
    }

    /// Swaps in the component that is in the file `path` now, which need not be the one it was loaded from.
    ///
    /// The new version is judged, compiled, described, instantiated and initialized beside the old one, then takes over
    /// between two calls; the call under way is finished by the old one. If both have the role `state`, what the old
    /// one remembers is handed over first. By `on-reload` it goes on where the old one stopped, or is shown the cache
    /// again. A quarantine ends. Indexes are computed again and attached when they are whole.
    ///
    /// # Errors
    /// [`LoadError`]. The old version runs on as if nothing had been.
    pub async fn swap(&self, path: &Path) -> Result<Swapped, LoadError> {
        let _one_at_a_time = self.0.swapping.lock().await;
        let terms = self.0.shared.terms();
        let swapped = async {
            let version = self.describe(path, &terms.spec).await?;
            self.exchange(terms, version, Takeover::Swap).await
        };
        let swapped = self.or_say_why(path, swapped.await);
        self.count(swapped.as_ref().err());
        swapped
    }

    /// Has it run by another section from now on, with the least disturbance that does.
    ///
    /// What an instance is made of (the component, `config`, the limits on memory and time, the names that informers go
    /// by) takes a new instance, as [`swap`](Self::swap) makes it: by the new section's `on-reload`. Everything else
    /// holds at once, and none is returned then. To which informers the listener is attached is the caller's.
    ///
    /// # Errors
    /// [`LoadError`]. The old section holds on as if nothing had been.
    pub async fn reconfigure(&self, spec: PluginSpec) -> Result<Option<Swapped>, LoadError> {
        let _one_at_a_time = self.0.swapping.lock().await;
        let path = spec.component.clone();
        let done = self.or_say_why(&path, self.try_reconfigure(spec).await);
        if !matches!(done, Ok(None)) {
            self.count(done.as_ref().err());
        }
        done
    }

    /// Notes how a try to have something else run ended.
    fn count(&self, refused: Option<&LoadError>) {
        let shared = &self.0.shared;
        shared
            .counters
            .reloaded(if refused.is_none() { "ok" } else { "refused" });
        let mut fares = shared.fares();
        fares.last_reload = Some(Reload {
            at: shared.now(),
            refused: refused.map(ToString::to_string),
        });
        if refused.is_none() {
            // It was another version's.
            fares.last_error = None;
        }
    }

    async fn try_reconfigure(&self, spec: PluginSpec) -> Result<Option<Swapped>, Problem> {
        host::judge(&spec)?;
        let terms = self.0.shared.terms();
        let serves = terms.serve(&spec);
        if serves && (&spec.component, spec.sha256) == (&terms.spec.component, terms.spec.sha256) {
            self.amend(terms.amended(spec)?).await;
            return Ok(None);
        }
        let version = self.describe(&spec.component, &spec).await?;
        if serves && version.component.digest == self.digest() {
            self.amend(terms.amended(spec)?).await;
            return Ok(None);
        }
        self.exchange(Terms::new(spec)?, version, Takeover::Swap)
            .await
            .map(Some)
    }

    /// Lets other terms hold for the instances that run. Rights that are taken away are gone, whatever the plugin
    /// needs.
    async fn amend(&self, terms: Arc<Terms>) {
        if let Err(problem) = needs::judge(&self.manifest(), &terms.spec) {
            let plugin = self.name();
            tracing::warn!(plugin, %problem, "a plugin runs on without what it needs: its calls are denied");
        }
        self.hold(&terms);
        self.order(|| Order::Amend(Arc::clone(&terms))).await;
    }

    /// Notes the terms that hold from now on.
    fn hold(&self, terms: &Arc<Terms>) {
        let shared = &self.0.shared;
        let options = shared.host.listener_options(&terms.spec);
        shared.listener.set_options(options, shared.now());
        shared.set_terms(Arc::clone(terms));
    }

    async fn describe(&self, path: &Path, spec: &PluginSpec) -> Result<Described, Problem> {
        let shared = &self.0.shared;
        shared.host.version(path.to_owned(), spec).await
    }

    /// Notes why a version was not taken.
    fn or_say_why<T>(&self, path: &Path, result: Result<T, Problem>) -> Result<T, LoadError> {
        result.map_err(|problem| {
            let shared = &self.0.shared;
            let error = LoadError::new(path, problem).of_plugin(self.name());
            shared.fares().last_error = Some((shared.now(), error.to_string()));
            error
        })
    }

    /// Makes instances of `version` under `terms` and lets them take over.
    async fn exchange(&self, terms: Arc<Terms>, version: Described, how: Takeover) -> Result<Swapped, Problem> {
        needs::judge(&version.manifest, &terms.spec)?;
        let shared = &self.0.shared;
        let instances = instances(shared, &terms, &version).await?;
        let previous_feed = self.index_feed();
        let feed = match (&previous_feed, host::feed(&version)) {
            (Some(old), Some(new)) if old.names() == new.names() => Some(old.clone()),
            (_, new) => new,
        };
        let was_quarantined = shared.fares().state() == PluginState::Quarantined;
        let mut state_bytes = None;
        for (actor, instance) in self.0.actors.iter().zip(instances) {
            let (done, taken_over) = oneshot::channel();
            let successor = Successor {
                terms: Arc::clone(&terms),
                version: version.clone(),
                instance,
                feed: feed.clone(),
                how,
                done,
            };
            actor.send(Order::Swap(Box::new(successor))).await;
            // The actor of events comes first, and it alone may refuse: nothing has changed then.
            let handed_over = taken_over.await.map_err(|_| Problem::Stopping)??;
            state_bytes = state_bytes.or(handed_over);
        }
        *lock(&self.0.feed) = feed;
        let before = std::mem::replace(&mut *lock(&self.0.version), version.clone());
        if how == Takeover::Swap && !was_quarantined {
            // Better than nothing, until one has proved good.
            lock(&self.0.good).get_or_insert(before);
        }
        self.hold(&terms);
        let mut fares = shared.fares();
        fares.reloads += 1;
        fares.rolled_back = None;
        fares.manifest = Arc::clone(&version.manifest);
        let previous_roles = std::mem::replace(&mut fares.roles, version.component.roles);
        let previous = std::mem::replace(&mut fares.digest, version.component.digest);
        if previous != fares.digest {
            fares.previous_digest = Some(previous);
        }
        Ok(Swapped {
            previous,
            digest: version.component.digest,
            previous_roles,
            previous_feed,
            state_bytes,
        })
    }

    /// Stops it: it takes no more events, is told what it had accepted, and ends; after `deadline` the rest is dropped
    /// and counted, a call under way included.
    pub async fn stop(&self, deadline: Duration) -> Stopped {
        let shared = &self.0.shared;
        shared.listener.close();
        let over = shared.host.env.sleep(deadline);
        self.order(|| Order::Drain).await;
        tokio::select! {
            biased;
            () = self.0.running.wait() => {}
            () = over => {
                shared.abort.cancel();
                self.0.running.wait().await;
            }
        }
        let undelivered = shared.listener.abandon();
        if undelivered > 0 {
            let plugin: &str = shared.counters.plugin();
            tracing::warn!(
                plugin,
                undelivered,
                "a plugin was stopped before it was told everything"
            );
        }
        Stopped { undelivered }
    }

    async fn order(&self, order: impl Fn() -> Order) {
        for actor in &self.0.actors {
            actor.send(order()).await;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Changed by single assignments: whole after any panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.abort.cancel();
    }
}

/// Makes an instance of `version` for each actor that needs one, where guests run.
async fn instances(
    shared: &Arc<Shared>,
    terms: &Arc<Terms>,
    version: &Described,
) -> Result<[Option<Instance>; 2], Problem> {
    let (parts, terms, version) = (Arc::clone(shared), Arc::clone(terms), version.clone());
    let make = async move {
        let roles = version.component.roles;
        let mut made = [None, None];
        for (place, actor) in made.iter_mut().zip([Actor::Events, Actor::Index]) {
            if actor.is_needed(roles) {
                *place = Some(parts.instance(&terms, &version, actor).await?);
            }
        }
        Ok(made)
    };
    shared.host.on_guests(make).await?
}
