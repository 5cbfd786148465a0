//! One durable source, as the recorder knows it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use informant_cache::{ListenerHandle, Moment, Snapshot};
use informant_object::{Key, SourceId};

use crate::handler::Handler;
use crate::metrics::SourceNumbers;
use crate::queue::Inbox;
use crate::row::{Keep, OpenRow, SourceRow};
use crate::seal::Sealer;

/// What a source is called from one process to the next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceIdentity {
    /// The informer's name.
    pub informer: String,
    /// The cluster's name; empty where there is only one.
    pub cluster: String,
    /// Where its API server is: at another place there is another cluster, whose versions and objects are others.
    pub server: String,
    /// What is watched, for example `apps/v1/deployments`.
    pub resource: String,
    /// `None` is all of them.
    pub namespace: Option<String>,
}

impl SourceIdentity {
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

    /// What the rows of an informer in a cluster begin with.
    pub(crate) fn cluster_prefix(informer: &str, cluster: &str) -> Vec<u8> {
        format!("{informer}\0{cluster}\0").into_bytes()
    }
}

/// How a source is kept.
#[derive(Clone, Debug)]
pub struct SourceOptions {
    /// Which.
    pub identity: SourceIdentity,
    /// How much of an object.
    pub keep: Keep,
    /// In what form objects come: what is cut from them. Where it is another than before, one version may mean two
    /// states, and everything is shown.
    pub form: String,
    /// Enciphers what is kept of objects, but for their names.
    pub sealer: Option<Sealer>,
    /// Handlers that are expected; what was kept of others is forgotten.
    pub handlers: BTreeSet<String>,
}

/// What a handler that an earlier process told of a source is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStart {
    /// What vanished meanwhile as deletes, and everything that is there as adds.
    #[default]
    Replay,
    /// What vanished meanwhile as deletes, and as adds what it has not acknowledged in the state it is in.
    Continue,
}

/// Which listeners are handlers with a name that survives the process.
pub(crate) type Names = Vec<(ListenerHandle, String, OnStart)>;

pub(crate) struct Recorded {
    pub(crate) number: u32,
    pub(crate) options: SourceOptions,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) numbers: Arc<SourceNumbers>,
    /// Its number in this process; none before the first list.
    pub(crate) id: Option<SourceId>,
    /// What was handed on.
    pub(crate) current: Snapshot,
    /// When something was handed on last.
    pub(crate) now: Moment,
    /// Whether the database is known to say what was recorded; else it is to be read and compared.
    pub(crate) is_known: bool,
    /// Everything is to be open: versions do not compare with what was kept.
    pub(crate) distrusted: bool,
    pub(crate) handlers: BTreeMap<String, Handler>,
    /// Listeners without a name.
    pub(crate) others: Vec<ListenerHandle>,
    /// The row, as the database has it.
    pub(crate) row_kept: Option<SourceRow>,
    /// Handlers that left, and whose rows may be there still.
    pub(crate) left: BTreeSet<String>,
    /// What was told to be gone while it could not be kept: the database may never have known of it.
    pub(crate) unkept_gone: BTreeMap<Key, OpenRow>,
    /// Nothing is kept of it any more; what it shows is handed on all the same.
    pub(crate) is_forgotten: bool,
    /// What was kept of it is forgotten once it is over.
    pub(crate) forget_at_end: bool,
}

impl Recorded {
    pub(crate) fn new(options: SourceOptions, inbox: Arc<Inbox>, numbers: Arc<SourceNumbers>) -> Self {
        Self {
            number: 0,
            options,
            inbox,
            numbers,
            id: None,
            current: Snapshot::default(),
            now: Moment::ZERO,
            is_known: false,
            distrusted: false,
            handlers: BTreeMap::new(),
            others: Vec::new(),
            row_kept: None,
            left: BTreeSet::new(),
            unkept_gone: BTreeMap::new(),
            is_forgotten: false,
            forget_at_end: false,
        }
    }

    /// Has what the database says compared, and mended, before anything more is written of it.
    pub(crate) fn doubt(&mut self) {
        self.is_known = false;
        self.row_kept = None;
    }

    /// Keeps nothing any more, but goes on handing on.
    pub(crate) fn be_forgotten(&mut self) {
        self.is_forgotten = true;
        self.is_known = false;
        self.unkept_gone.clear();
        self.handlers.values_mut().for_each(|handler| handler.numbers = None);
    }

    /// Every listener that is attached.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = &ListenerHandle> {
        let named = self.handlers.values().filter_map(|handler| handler.listener.as_ref());
        named.chain(&self.others)
    }

    /// Whether what was handed on was not kept.
    pub(crate) fn must_catch_up(&self) -> bool {
        self.id.is_some() && !self.is_known && !self.is_forgotten
    }

    /// Whether more was seen than is kept.
    pub(crate) fn has_seen_more(&self) -> bool {
        let kept = self.row_kept.as_ref().and_then(|row| row.high_water);
        self.is_known && self.inbox.high_water() != kept
    }

    /// Whether somebody may acknowledge something.
    pub(crate) fn awaits_acknowledgements(&self) -> bool {
        let awaits = |handler: &Handler| handler.listener.is_some() && (handler.all_open || !handler.open.is_empty());
        !self.is_forgotten && self.handlers.values().any(awaits)
    }

    /// Notes whose `listener` is. None if it has no name: it is told all the same.
    ///
    /// Of two that say they are the same handler the newer one is believed, as one that was told nothing; the other is
    /// told on as one without a name.
    pub(crate) fn claim(&mut self, listener: &ListenerHandle, names: &Names) -> Option<(String, OnStart)> {
        let Some((_, name, on_start)) = names.iter().find(|(known, ..)| known.ptr_eq(listener)) else {
            self.others.push(listener.clone());
            return None;
        };
        let is_another = |before: &&ListenerHandle| !before.ptr_eq(listener);
        let before = self.handlers.get(name).and_then(|handler| handler.listener.as_ref());
        if let Some(before) = before.filter(is_another).cloned() {
            let informer = &self.options.identity.informer;
            tracing::warn!(%informer, handler = %name, "two handlers have one name: what the first one acknowledges is kept no more");
            self.others.push(before);
            self.handlers.remove(name);
        }
        Some((name.clone(), *on_start))
    }

    /// Forgets the listener.
    pub(crate) fn lose(&mut self, listener: &ListenerHandle) -> Option<String> {
        self.others.retain(|other| !other.ptr_eq(listener));
        let mut handlers = self.handlers.iter();
        let is_it = |handler: &Handler| handler.listener.as_ref().is_some_and(|own| own.ptr_eq(listener));
        let name = handlers
            .find(|(_, handler)| is_it(handler))
            .map(|(name, _)| name.clone());
        name.inspect(|name| {
            self.handlers.remove(name);
            self.left.insert(name.clone());
        })
    }
}
