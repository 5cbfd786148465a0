//! A durable source as the recorder sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use informant_cache::{ListenerHandle, Moment, Snapshot};
use informant_object::SourceId;
use informant_spec::StoredContent;
use redb::ReadableTable as _;

use crate::cipher::Cipher;
use crate::handler_state::{HandlerState, OnStart, UnpersistedDeletes};
use crate::journal::SourceQueue;
use crate::metrics::DurableSourceMetrics;
use crate::schema::SourceRow;
use crate::tables::{Tables, damaged};

/// The identity of a source across processes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceIdentity {
    /// The informer's name.
    pub informer: String,
    /// The cluster's name; empty where there is only one.
    pub cluster: String,
    /// The URL of its API server: another URL is another cluster, with other versions and objects.
    pub server: String,
    /// The watched resource, for example `apps/v1/deployments`.
    pub resource: String,
    /// `None` for all namespaces.
    pub namespace: Option<String>,
}

impl SourceIdentity {
    /// The cluster as a log field; none if empty.
    pub(crate) fn log_cluster(&self) -> Option<&str> {
        Some(self.cluster.as_str()).filter(|cluster| !cluster.is_empty())
    }

    pub(crate) fn row_key(&self) -> Vec<u8> {
        let namespace = self.namespace.as_deref().unwrap_or("");
        let parts = [
            self.informer.as_str(),
            &self.cluster,
            &self.server,
            &self.resource,
            namespace,
        ];
        parts.join("\0").into_bytes()
    }

    /// The prefix of the rows of an informer in a cluster.
    pub(crate) fn cluster_prefix(informer: &str, cluster: &str) -> Vec<u8> {
        format!("{informer}\0{cluster}\0").into_bytes()
    }
}

/// How to persist a source.
#[derive(Clone, Debug)]
pub struct SourceOptions {
    /// Which source.
    pub identity: SourceIdentity,
    /// How much of each object to store.
    pub content: StoredContent,
    /// What is removed from objects before they reach the cache. If it changes, one version can denote two different
    /// states, and everything is delivered again.
    pub form: String,
    /// The selectors of the request. If they change, an object that is no longer listed may still exist: what is stored
    /// is deleted once the first list of the new request is there.
    pub request: String,
    /// Encrypts stored objects, except their names.
    pub cipher: Option<Cipher>,
    /// The expected handlers; the rows of others are deleted.
    pub handlers: BTreeSet<String>,
    /// Whether another process may call the handlers that are not attached.
    pub has_replicas: bool,
}

/// The listeners that are handlers with a name that is stable across processes.
pub(crate) type ListenerNames = Vec<(ListenerHandle, String, OnStart)>;

pub(crate) struct PersistedSource {
    pub(crate) number: u32,
    pub(crate) options: SourceOptions,
    pub(crate) queue: Arc<SourceQueue>,
    pub(crate) metrics: Arc<DurableSourceMetrics>,
    /// Its id in this process; none before the first list.
    pub(crate) id: Option<SourceId>,
    /// The snapshot that was delivered last.
    pub(crate) current: Snapshot,
    /// When something was delivered last, by the environment's clock and by this thread's.
    delivered: (Moment, Instant),
    /// Whether the stored rows are known to match; otherwise they must be read and compared first.
    pub(crate) is_verified: bool,
    /// Every key is to be opened: versions are not comparable with the stored ones.
    pub(crate) versions_incomparable: bool,
    pub(crate) handlers: BTreeMap<String, HandlerState>,
    /// Listeners without a name.
    pub(crate) others: Vec<ListenerHandle>,
    /// The row in the database.
    pub(crate) stored_row: Option<SourceRow>,
    /// Handlers that were detached and may still have rows.
    pub(crate) left: BTreeSet<String>,
    /// Deletes that were delivered while they could not be persisted: the database may never have had these objects.
    pub(crate) unpersisted_deletes: UnpersistedDeletes,
    /// The source is no longer persisted; it is still delivered.
    pub(crate) is_transient: bool,
    /// Its rows are deleted once it ends.
    pub(crate) forget_at_end: bool,
}

impl PersistedSource {
    pub(crate) fn new(options: SourceOptions, queue: Arc<SourceQueue>, metrics: Arc<DurableSourceMetrics>) -> Self {
        Self {
            number: 0,
            options,
            queue,
            metrics,
            id: None,
            current: Snapshot::default(),
            delivered: (Moment::ZERO, Instant::now()),
            is_verified: false,
            versions_incomparable: false,
            handlers: BTreeMap::new(),
            others: Vec::new(),
            stored_row: None,
            left: BTreeSet::new(),
            unpersisted_deletes: UnpersistedDeletes::default(),
            is_transient: false,
            forget_at_end: false,
        }
    }

    /// Something is delivered at `now`.
    pub(crate) fn delivered(&mut self, now: Moment) {
        self.delivered = (now, Instant::now());
    }

    /// The time now, by the clock of the environment. The recorder has no access to that clock: this is the time of the
    /// last delivery, plus what has passed since.
    pub(crate) fn now(&self) -> Moment {
        let (now, read) = self.delivered;
        now + read.elapsed()
    }

    /// Lets the database be compared and repaired before anything more is written.
    pub(crate) fn invalidate(&mut self) {
        self.is_verified = false;
        self.stored_row = None;
    }

    /// Stops persisting, but continues to deliver.
    pub(crate) fn stop_persisting(&mut self) {
        self.is_transient = true;
        self.is_verified = false;
        self.unpersisted_deletes.clear();
        self.handlers.values_mut().for_each(|handler| handler.metrics = None);
    }

    /// Every listener that is attached.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = &ListenerHandle> {
        let named = self.handlers.values().filter_map(|handler| handler.listener.as_ref());
        named.chain(&self.others)
    }

    /// Whether something was delivered that is not persisted.
    pub(crate) fn needs_reconcile(&self) -> bool {
        self.id.is_some() && !self.is_verified && !self.is_transient
    }

    /// Whether a higher version was seen than is stored.
    pub(crate) fn high_water_advanced(&self) -> bool {
        let kept = self.stored_row.as_ref().and_then(|row| row.high_water);
        self.is_verified && self.queue.high_water() != kept
    }

    /// Whether any handler has something to acknowledge.
    pub(crate) fn awaits_acknowledgements(&self) -> bool {
        let awaits =
            |handler: &HandlerState| handler.listener.is_some() && (handler.all_open || !handler.open.is_empty());
        !self.is_transient && self.handlers.values().any(awaits)
    }

    /// Reports how many keys are stored as unacknowledged, once the transaction is committed: what the metric says
    /// survives a kill.
    pub(crate) fn report_open_keys(&mut self) {
        for (name, handler) in &mut self.handlers {
            let open = handler.open_len();
            let metrics = handler.metrics.get_or_insert_with(|| self.metrics.handler(name));
            metrics.open.set(open);
        }
    }

    /// Assigns `listener` to its handler. None if it has no name: it is delivered to nevertheless.
    ///
    /// If two listeners have the same name, the newer one is persisted, as one that has received nothing; the older one
    /// continues without a name.
    pub(crate) fn claim(&mut self, listener: &ListenerHandle, names: &ListenerNames) -> Option<(String, OnStart)> {
        let Some((_, name, on_start)) = names.iter().find(|(known, ..)| known.ptr_eq(listener)) else {
            self.others.push(listener.clone());
            return None;
        };
        let is_another = |before: &&ListenerHandle| !before.ptr_eq(listener);
        let before = self.handlers.get(name).and_then(|handler| handler.listener.as_ref());
        if let Some(before) = before.filter(is_another).cloned() {
            let identity = &self.options.identity;
            let informer = &identity.informer;
            tracing::warn!(%informer, cluster = identity.log_cluster(), handler = %name, "duplicate handler name; acknowledgements of the first handler are no longer persisted");
            self.others.push(before);
            self.handlers.remove(name);
        }
        Some((name.clone(), *on_start))
    }

    /// Another process calls the handler from now on. Its rows stay, and say that it may have received anything: if all
    /// processes end, this one may be the next that calls it.
    pub(crate) fn release_listener(&mut self, listener: &ListenerHandle) {
        self.others.retain(|other| !other.ptr_eq(listener));
        let is_it = |own: &ListenerHandle| own.ptr_eq(listener);
        for handler in self.handlers.values_mut() {
            if handler.listener.as_ref().is_some_and(is_it) {
                handler.release();
            }
        }
    }

    pub(crate) fn remove_listener(&mut self, listener: &ListenerHandle) -> Option<String> {
        self.others.retain(|other| !other.ptr_eq(listener));
        let mut handlers = self.handlers.iter();
        let is_it = |handler: &HandlerState| handler.listener.as_ref().is_some_and(|own| own.ptr_eq(listener));
        let name = handlers
            .find(|(_, handler)| is_it(handler))
            .map(|(name, _)| name.clone());
        name.inspect(|name| {
            self.handlers.remove(name);
            self.left.insert(name.clone());
        })
    }
}

/// Which rows to delete.
#[derive(Clone, Debug)]
pub(crate) enum Purge {
    /// All sources of an informer in a cluster.
    Informer(String, String),
    /// All sources of an informer in a cluster but these: those of another API server, of another resource or in other
    /// namespaces.
    OtherSources(String, String, BTreeSet<SourceIdentity>),
    /// All informers but these, each in a cluster.
    AllBut(BTreeSet<(String, String)>),
    /// One source.
    Source(SourceIdentity),
}

impl Purge {
    pub(crate) fn covers(&self, row_key: &[u8]) -> bool {
        let is_in =
            |informer: &str, cluster: &str| row_key.starts_with(&SourceIdentity::cluster_prefix(informer, cluster));
        match self {
            Self::Informer(informer, cluster) => is_in(informer, cluster),
            Self::OtherSources(informer, cluster, stay) => {
                is_in(informer, cluster) && !stay.iter().any(|identity| identity.row_key() == row_key)
            }
            Self::AllBut(stay) => !stay.iter().any(|(informer, cluster)| is_in(informer, cluster)),
            Self::Source(identity) => identity.row_key() == row_key,
        }
    }
}

/// The row of a source; with a new number if there is none.
pub(crate) fn source_row(tables: &mut Tables<'_>, options: &SourceOptions) -> Result<SourceRow, redb::Error> {
    let row_key = options.identity.row_key();
    if let Some(found) = tables.sources.get(&row_key[..])? {
        return SourceRow::decode(found.value()).map_err(damaged);
    }
    let mut highest = 0;
    for found in tables.sources.iter()? {
        let row = SourceRow::decode(found?.1.value()).map_err(damaged)?;
        highest = highest.max(row.number);
    }
    let row = SourceRow {
        number: highest + 1,
        high_water: None,
        form: options.form.clone(),
        request: Some(options.request.clone()),
    };
    tables.sources.insert(&row_key[..], &row.encode()[..])?;
    tables.clear(row.number)?;
    Ok(row)
}
