//! What of informers outlives the process: the state database, opened when the first informer wants it, and who is who
//! in it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informant_cache::{Journal, ListenerHandle};
use informant_informer::{Durable, InformerSpec, KeepsSources, SourceSpec};
use informant_plugin_host::Continuation;
use informant_state::{Keep, OnStart, OpenError, Sealer, SourceIdentity, SourceOptions, State, StateMetrics};

use crate::config::{Config, InformerSection};

/// The state database of the daemon. A clone is the same.
#[derive(Clone, Debug)]
pub(super) struct Durables(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    metrics: StateMetrics,
    held: Mutex<Held>,
    /// Locked while the file is opened, which takes as long as the disk likes. By threads that may wait alone.
    opening: Mutex<()>,
}

/// Locked for moments only.
#[derive(Debug, Default)]
struct Held {
    state: Option<State>,
    closed: bool,
    names: Vec<(ListenerHandle, String, OnStart)>,
    /// By informer, the plugins that the configuration hangs on it.
    plugins: BTreeMap<String, BTreeSet<String>>,
    /// Informers that are durable, each with its cluster.
    durable: BTreeSet<(String, String)>,
}

/// Keeps the sources of one informer.
#[derive(Debug)]
struct Keeper {
    state: State,
    durables: Durables,
    section: Arc<InformerSection>,
    /// Of the API server: under the same name another cluster may come one day, whose objects are others.
    url: String,
    keep: Keep,
    sealer: Option<Sealer>,
}

impl Durables {
    pub(super) fn new(path: PathBuf, metrics: StateMetrics) -> Self {
        Self(Arc::new(Inner {
            path,
            metrics,
            held: Mutex::default(),
            opening: Mutex::default(),
        }))
    }

    /// Opens the database if any informer is durable. A file that no informer of this configuration is kept in is left
    /// alone: it may be another one's.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(super) async fn begin(&self, config: &Config) -> Result<(), OpenError> {
        self.take(config);
        if self.held().durable.is_empty() {
            return Ok(());
        }
        self.state().await.map(drop)
    }

    /// The configuration is this one from now on.
    pub(super) fn take(&self, config: &Config) {
        let mut plugins: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, plugin) in &config.plugins {
            for (_, informer) in &plugin.informers {
                plugins.entry(informer.value.clone()).or_default().insert(name.clone());
            }
        }
        let mut durable = BTreeSet::new();
        for (name, section) in config.informers.iter().filter(|(_, section)| section.durable.is_some()) {
            let clusters = config.clusters_of(section);
            durable.extend(clusters.map(|cluster| (name.clone(), cluster.to_owned())));
        }
        let mut held = self.held();
        held.plugins = plugins;
        held.durable = durable;
    }

    /// What keeps the sources of an informer that is about to start; none if it is not durable. What was kept of it at
    /// another address than `url`, of another resource or in other namespaces than `sources` say is forgotten.
    ///
    /// # Errors
    /// Why its sources cannot be kept.
    pub(super) async fn keeper(
        &self,
        section: &Arc<InformerSection>,
        url: &str,
        sources: &InformerSpec,
    ) -> Result<Option<Arc<dyn KeepsSources>>, String> {
        let Some(durable) = &section.durable else {
            return Ok(None);
        };
        let key_file = durable.key_file.clone();
        let read = move || key_file.as_deref().map(Sealer::read).transpose();
        let sealer = tokio::task::spawn_blocking(read).await;
        let sealer = sealer.map_err(|error| error.to_string())?;
        let sealer = sealer.map_err(|error| format!("`durable-key-file`: {error}"))?;
        let state = self.state().await.map_err(|error| error.to_string())?;
        let (informer, cluster) = (&sources.source.informer, &sources.source.cluster);
        let identities = sources.sources().map(|source| identity(&source, url)).collect();
        state.keep_only_sources(informer, cluster, identities);
        Ok(Some(Arc::new(Keeper {
            state,
            durables: self.clone(),
            section: Arc::clone(section),
            url: url.to_owned(),
            keep: durable.keep,
            sealer,
        })))
    }

    /// Says whose `listener` is, and how it begins after a restart. Before it is attached.
    pub(super) fn name(&self, listener: &ListenerHandle, plugin: &str, on_start: Continuation) {
        let on_start = match on_start {
            Continuation::Continue => OnStart::Continue,
            Continuation::Replay => OnStart::Replay,
        };
        let mut held = self.held();
        held.names.retain(|(known, ..)| !known.ptr_eq(listener));
        held.names.push((listener.clone(), plugin.to_owned(), on_start));
        if let Some(state) = &held.state {
            state.name(listener, plugin, on_start);
        }
    }

    /// The listener is detached, and nobody's any more.
    pub(super) fn unname(&self, listener: &ListenerHandle) {
        let mut held = self.held();
        held.names.retain(|(known, ..)| !known.ptr_eq(listener));
        if let Some(state) = &held.state {
            state.unname(listener);
        }
    }

    /// An informer leaves a cluster, and is forgotten there once its handlers have been told of its deletes.
    pub(super) fn forget_at_end(&self, informer: &str, cluster: &str) {
        if let Some(state) = &self.held().state {
            state.forget_at_end(informer, cluster);
        }
    }

    /// An informer is gone from a cluster, or is not durable any more.
    pub(super) fn forget(&self, informer: &str, cluster: &str) {
        if let Some(state) = &self.held().state {
            state.forget(informer, cluster);
        }
    }

    /// Writes all that waits. Nothing is kept any more.
    pub(super) fn close(&self) {
        let state = {
            let mut held = self.held();
            held.closed = true;
            held.state.take()
        };
        if let Some(state) = state {
            state.close();
        }
    }

    async fn state(&self) -> Result<State, OpenError> {
        if let Some(state) = &self.held().state {
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

    /// Opens the file, and forgets in it what is not durable by this configuration. Waits for the disk.
    fn open(&self) -> Result<State, OpenError> {
        let _turn = self.0.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = &self.held().state {
            return Ok(state.clone());
        }
        let state = State::open(self.0.path.clone(), self.0.metrics.clone())?;
        tracing::info!(path = %self.0.path.display(), "state database opened");
        let mut held = self.held();
        for (listener, plugin, on_start) in &held.names {
            state.name(listener, plugin, *on_start);
        }
        state.keep_only(held.durable.clone());
        if !held.closed {
            held.state = Some(state.clone());
        }
        Ok(state)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeepsSources for Keeper {
    fn keep(&self, spec: &SourceSpec) -> Result<Option<Durable>, Box<dyn Error + Send + Sync>> {
        let (informer, resource) = (&spec.informer, &spec.resource);
        let durable = self.section.durable.as_ref();
        if !durable.is_some_and(|durable| durable.may_keep(&resource.plural)) {
            tracing::warn!(%informer, %resource, "not kept: secrets are durable with `durable-secrets = true` and a `durable-key-file` only");
            return Ok(None);
        }
        let options = SourceOptions {
            identity: identity(spec, &self.url),
            keep: self.keep,
            form: form(spec, self.keep),
            sealer: self.sealer.clone(),
            handlers: self.durables.held().plugins.get(informer).cloned().unwrap_or_default(),
        };
        // The disk is waited for, which no other task of this thread is to suffer from.
        let source = tokio::task::block_in_place(|| self.state.source(options))?;
        let high_water = source.high_water();
        let journal: Arc<dyn Journal> = Arc::new(source);
        Ok(Some(Durable::new(journal, high_water)))
    }
}

/// What a source is called from one process to the next.
fn identity(spec: &SourceSpec, url: &str) -> SourceIdentity {
    SourceIdentity {
        informer: spec.informer.clone(),
        cluster: spec.cluster.clone(),
        server: url.to_owned(),
        resource: spec.resource.to_string(),
        namespace: spec.namespace.clone(),
    }
}

/// What decides how an object of one version looks.
fn form(spec: &SourceSpec, keep: Keep) -> String {
    let drop: Vec<String> = spec.drop.iter().map(ToString::to_string).collect();
    let (managed_fields, metadata_only) = (spec.keep_managed_fields, spec.metadata_only);
    format!("{keep:?} {managed_fields} {metadata_only} {drop:?}")
}
