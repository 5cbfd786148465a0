//! The state database of durable informers and of plugins' keys: opened when the first informer needs it, or at the
//! start if the configuration has a section `[state]`, with the names of its handlers.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use informant_cache::{Environment, Journal, ListenerHandle};
use informant_config::{Config, InformerSection, KeyStore};
use informant_informer::{DurableSource, DurableSources, InformerSpec, SourceSpec};
use informant_object::Pointer;
use informant_spec::{ReplayPolicy, StoredContent};
use informant_state::{Cipher, OnStart, OpenError, SourceIdentity, SourceOptions, StateDatabase, StateMetrics};

use crate::activities::Activities;
use crate::files::Turn;
use crate::key_file;
use crate::sync::lock;

/// How long the start waits to learn whether another process has the database, if no informer needs it. A lock is seen
/// at once, a disk that hangs is not waited for.
const LOCK_ANSWER_MAX: Duration = Duration::from_secs(2);

/// How long a state database that cannot be opened is left alone before the next attempt.
pub(crate) const STATE_OPEN_RETRY: Duration = Duration::from_secs(5);

/// The daemon's state database. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct DurableState(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// The configuration, if the file must not be another one's.
    owner: Option<String>,
    metrics: StateMetrics,
    shared: Mutex<Shared>,
    /// Locked while the file is being opened, which takes as long as the disk does. Only blocking threads may lock it.
    opening: Mutex<()>,
}

/// Locked only briefly.
#[derive(Debug, Default)]
struct Shared {
    state: Option<StateDatabase>,
    closed: bool,
    names: Vec<(ListenerHandle, String, OnStart)>,
    /// By informer, the plugins that the configuration attaches to it.
    plugins: BTreeMap<String, BTreeSet<String>>,
    /// All plugins of the configuration. The keys of others are deleted when the file is opened.
    all_plugins: BTreeSet<String>,
    /// The durable informers, each with its cluster.
    durable: BTreeSet<(String, String)>,
    has_replicas: bool,
}

/// Persists the sources of one informer.
#[derive(Debug)]
struct Persistence {
    state: StateDatabase,
    durables: DurableState,
    section: Arc<InformerSection>,
    /// The API server's URL: the same cluster name may later stand for another cluster with other objects.
    url: String,
    content: StoredContent,
    cipher: Option<Cipher>,
}

impl DurableState {
    pub(super) fn new(path: PathBuf, owner: Option<String>, metrics: StateMetrics) -> Self {
        Self(Arc::new(Inner {
            path,
            owner,
            metrics,
            shared: Mutex::default(),
            opening: Mutex::default(),
        }))
    }

    /// Opens the database if any informer is durable. If it is only for the keys of plugins, finds out whether another
    /// process has the file: two of them would act twice. Other problems are [retried](Self::open_for_keys). Without
    /// both, the file is left alone: it may belong to another instance.
    pub(super) async fn open_if_needed(&self, config: &Config) -> Result<(), OpenError> {
        self.apply(config);
        if !self.shared().durable.is_empty() {
            return self.state().await.map(drop);
        }
        if config.key_store() != KeyStore::File {
            return Ok(());
        }
        match tokio::time::timeout(LOCK_ANSWER_MAX, self.state()).await {
            Ok(Err(error @ OpenError::InUse { .. })) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Opens the database for the keys of plugins. Tries again while it cannot be opened: nothing else waits for it,
    /// and the disk may be repaired.
    pub(super) async fn open_for_keys(self, environment: Arc<dyn Environment>, activities: Activities) {
        let mut logged = String::new();
        loop {
            let opened = {
                let _activity = activities.begin("state database: open");
                self.state().await
            };
            let Err(error) = opened else { return };
            let error = error.to_string();
            if error != logged {
                tracing::error!(path = %self.0.path.display(), error, code = "state-failing", "state database cannot be opened; retrying");
                logged = error;
            }
            environment.sleep(STATE_OPEN_RETRY).await;
        }
    }

    pub(super) fn apply(&self, config: &Config) {
        let mut plugins: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, plugin) in &config.plugins {
            for (informer, _) in plugin.informers() {
                plugins.entry(informer.to_owned()).or_default().insert(name.clone());
            }
        }
        let mut durable = BTreeSet::new();
        for (name, section) in config.informers.iter().filter(|(_, section)| section.durable.is_some()) {
            let clusters = config.clusters_of(section);
            durable.extend(clusters.map(|cluster| (name.clone(), cluster.to_owned())));
        }
        let mut shared = self.shared();
        shared.plugins = plugins;
        shared.all_plugins = config.plugins.keys().cloned().collect();
        shared.durable = durable;
        shared.has_replicas = config.ha.is_some();
    }

    /// Checks that the sources of `section` can be persisted. Opens the database if they are to be.
    pub(super) async fn validate(&self, section: &InformerSection) -> Result<(), String> {
        let Some(durable) = &section.durable else {
            return Ok(());
        };
        cipher(durable.key_file.as_deref()).await?;
        self.state().await.map(drop).map_err(|error| error.to_string())
    }

    /// The persistence of an informer that is about to start; none if it is not durable. Persisted state from another
    /// URL than `url`, of another resource or of namespaces outside `sources` is deleted.
    /// Errors: why its sources cannot be persisted.
    pub(super) async fn persistence(
        &self,
        section: &Arc<InformerSection>,
        url: &str,
        sources: &InformerSpec,
    ) -> Result<Option<Arc<dyn DurableSources>>, String> {
        let Some(durable) = &section.durable else {
            return Ok(None);
        };
        let cipher = cipher(durable.key_file.as_deref()).await?;
        let state = self.state().await.map_err(|error| error.to_string())?;
        let (informer, cluster) = (&sources.source.informer, &sources.source.cluster);
        let identities = sources.sources().map(|source| identity(&source, url)).collect();
        state.keep_only_sources(informer, cluster, identities);
        Ok(Some(Arc::new(Persistence {
            state,
            durables: self.clone(),
            section: Arc::clone(section),
            url: url.to_owned(),
            content: durable.keep,
            cipher,
        })))
    }

    /// Names `listener` and sets how it starts after a restart. Call this before attaching it.
    pub(super) fn name(&self, listener: &ListenerHandle, plugin: &str, on_start: ReplayPolicy) {
        let on_start = match on_start {
            ReplayPolicy::Continue => OnStart::Continue,
            ReplayPolicy::Replay => OnStart::Replay,
        };
        let mut shared = self.shared();
        shared.names.retain(|(known, ..)| !known.ptr_eq(listener));
        shared.names.push((listener.clone(), plugin.to_owned(), on_start));
        if let Some(state) = &shared.state {
            state.name(listener, plugin, on_start);
        }
    }

    /// Forgets the name of a listener that was detached.
    pub(super) fn forget_name(&self, listener: &ListenerHandle) {
        let mut shared = self.shared();
        shared.names.retain(|(known, ..)| !known.ptr_eq(listener));
        if let Some(state) = &shared.state {
            state.forget_name(listener);
        }
    }

    /// Deletes an informer's state in a cluster once its handlers have received its deletes.
    pub(super) fn forget_at_end(&self, informer: &str, cluster: &str) {
        if let Some(state) = &self.shared().state {
            state.forget_at_end(informer, cluster);
        }
    }

    /// Deletes the state of an informer that was removed from a cluster or is no longer durable.
    pub(super) fn forget(&self, informer: &str, cluster: &str) {
        if let Some(state) = &self.shared().state {
            state.forget(informer, cluster);
        }
    }

    /// Writes everything that is pending and closes the database.
    pub(super) fn close(&self) {
        let state = {
            let mut shared = self.shared();
            shared.closed = true;
            shared.state.take()
        };
        if let Some(state) = state {
            state.close();
        }
    }

    /// The database, opened if it is not.
    pub(super) async fn state(&self) -> Result<StateDatabase, OpenError> {
        if let Some(state) = &self.shared().state {
            return Ok(state.clone());
        }
        let durables = self.clone();
        let opened = tokio::task::spawn_blocking(move || durables.open()).await;
        opened.unwrap_or_else(|error| {
            Err(OpenError::Io {
                path: self.0.path.clone(),
                source: std::io::Error::other(error),
            })
        })
    }

    /// Opens the file and deletes the state of informers that are not durable in this configuration, and the keys of
    /// plugins that are not in it. Waits for the disk.
    fn open(&self) -> Result<StateDatabase, OpenError> {
        let _turn = lock(&self.0.opening);
        if let Some(state) = &self.shared().state {
            return Ok(state.clone());
        }
        let state = StateDatabase::open(self.0.path.clone(), self.0.owner.clone(), self.0.metrics.clone())?;
        tracing::info!(path = %self.0.path.display(), "state database opened");
        let mut shared = self.shared();
        for (listener, plugin, on_start) in &shared.names {
            state.name(listener, plugin, *on_start);
        }
        state.keep_only(shared.durable.clone());
        state.keep_only_plugins(shared.all_plugins.clone());
        if !shared.closed {
            shared.state = Some(state.clone());
        }
        Ok(state)
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        lock(&self.0.shared)
    }
}

impl DurableSources for Persistence {
    fn open(&self, spec: &SourceSpec) -> Result<Option<DurableSource>, Box<dyn Error + Send + Sync>> {
        let (informer, resource) = (&spec.informer, &spec.resource);
        let durable = self.section.durable.as_ref();
        if !durable.is_some_and(|durable| durable.may_keep(&resource.plural)) {
            tracing::warn!(%informer, %resource, "secrets not persisted; set `durable-secrets = true` and `durable-key-file` to persist them");
            return Ok(None);
        }
        let (handlers, has_replicas) = {
            let shared = self.durables.shared();
            (
                shared.plugins.get(informer).cloned().unwrap_or_default(),
                shared.has_replicas,
            )
        };
        let options = SourceOptions {
            identity: identity(spec, &self.url),
            content: self.content,
            form: form(spec, self.content),
            request: request(spec),
            cipher: self.cipher.clone(),
            handlers,
            has_replicas,
        };
        // Waits for the disk, without blocking other tasks of this thread.
        let source = tokio::task::block_in_place(|| self.state.source(options))?;
        let high_water = source.high_water();
        let journal: Arc<dyn Journal> = Arc::new(source);
        Ok(Some(DurableSource::new(journal, high_water)))
    }
}

async fn cipher(key_file: Option<&Path>) -> Result<Option<Cipher>, String> {
    let Some(path) = key_file else { return Ok(None) };
    let file = path.to_owned();
    let cipher = Turn::of(path).run(move || key_file::read(&file)).await;
    let cipher = cipher.map_err(|error| error.to_string())?;
    cipher.map(Some).map_err(|error| format!("`durable-key-file`: {error}"))
}

/// The identity of a source across processes.
fn identity(spec: &SourceSpec, url: &str) -> SourceIdentity {
    SourceIdentity {
        informer: spec.informer.clone(),
        cluster: spec.cluster.clone(),
        server: url.to_owned(),
        resource: spec.resource.to_string(),
        namespace: spec.namespace.clone(),
    }
}

/// The selectors of a source's request, which determine the objects that it lists.
fn request(spec: &SourceSpec) -> String {
    let labels = spec.label_selector.as_ref().map(ToString::to_string);
    let fields = spec.field_selector.as_ref().map(ToString::to_string);
    format!("{labels:?} {fields:?}")
}

/// The settings that determine the content of an object at a given resource version.
fn form(spec: &SourceSpec, content: StoredContent) -> String {
    let texts = |pointers: &[Pointer]| pointers.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (managed_fields, metadata_only) = (spec.keep_managed_fields, spec.metadata_only);
    let form = format!("{content:?} {managed_fields} {metadata_only} {:?}", texts(&spec.drop));
    match &*spec.digest {
        // As it was stored before there were digests.
        [] => form,
        digest => format!("{form} {:?}", texts(digest)),
    }
}
