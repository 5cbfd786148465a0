//! Attaches a plugin to its informers in each of their clusters, with its listener and its index feed.
//!
//! A swap may bring a component with other roles or other indexes; then the attachments are exchanged. The listener
//! stays the plugin's, so events wait in it while components change. A changed section detaches and attaches only what
//! differs.
//!
//! A listener is attached when the [barrier](super::call_barrier) lets it: then the plugin's first calls begin.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use informant_cache::listener::GainedShard;
use informant_cache::{ExpectedIndexes, Source};
use informant_informer::NamedInformer;
use informant_plugin_host::{Plugin, Swapped};
use tokio::sync::watch;

use super::acting::{Acting, ShardMoves, ShardTerms, Term};
use super::call_barrier::{Needed, PluginBarrier};
use super::status_registry::{InformerPhase, InformerStatuses, PluginEntry, RunningInformer, StatusRegistry};

/// A plugin and the informers it is attached to.
pub(super) struct PluginAttachments {
    pub(super) plugin: Plugin,
    entry: Arc<PluginEntry>,
    registry: StatusRegistry,
    barrier: PluginBarrier,
    /// None: the plugin stands by, and its listener is attached to nothing.
    term: Option<Arc<Term>>,
    /// The informers that its listener began in this term, each with its cluster: what is attached again starts.
    begun: BTreeSet<(String, String)>,
    /// The informers to which its indexes are yet to be added for the first time.
    expected: BTreeMap<String, ExpectedIndexes>,
    /// The plugin's informers by name, and by cluster as far as they run.
    informers: BTreeMap<String, BTreeMap<String, Arc<RunningInformer>>>,
    changes: FuturesUnordered<Pin<Box<dyn Future<Output = Option<InformerChange>> + Send>>>,
}

/// Why attachments are to be updated.
pub(super) enum AttachmentNews {
    /// An informer changed in some cluster.
    Informer(InformerChange),
    /// Something that the first calls wait for may be ready.
    Readiness,
}

/// An informer that changed in some cluster.
pub(super) struct InformerChange {
    name: String,
    statuses: watch::Receiver<InformerStatuses>,
}

impl PluginAttachments {
    /// Not attached yet: see [`next`](Self::next).
    pub(super) fn new<'n>(
        plugin: Plugin,
        entry: &Arc<PluginEntry>,
        registry: &StatusRegistry,
        informers: impl Iterator<Item = &'n str>,
        expected: BTreeMap<String, ExpectedIndexes>,
    ) -> Self {
        let mut attachments = Self {
            plugin,
            entry: Arc::clone(entry),
            barrier: PluginBarrier::new(registry.catalog()),
            term: None,
            begun: BTreeSet::new(),
            registry: registry.clone(),
            expected,
            informers: BTreeMap::new(),
            changes: FuturesUnordered::new(),
        };
        informers.for_each(|name| attachments.watch(name));
        // Until the first one is looked at: that takes as long as its indexes over it are being filled.
        if !attachments.changes.is_empty() {
            let attaching = "it is being attached to its informers".to_owned();
            attachments.entry.set_missing(Some(attaching), true);
        }
        attachments
    }

    /// Waits until one of the informers changes in some cluster, or something may be ready. Cancel safe.
    pub(super) async fn next(&mut self) -> AttachmentNews {
        let Self { changes, barrier, .. } = self;
        loop {
            tokio::select! {
                biased;
                // Without a change: that informer was removed.
                change = changes.next(), if !changes.is_empty() => if let Some(Some(change)) = change {
                    return AttachmentNews::Informer(change);
                },
                () = barrier.news() => return AttachmentNews::Readiness,
            }
        }
    }

    pub(super) async fn update(&mut self, news: AttachmentNews) {
        match news {
            AttachmentNews::Informer(change) => self.attach(change).await,
            AttachmentNews::Readiness => {}
        }
        self.release();
    }

    /// Attaches the plugin to the running informers that it is not attached to yet, and detaches what they replace.
    async fn attach(&mut self, change: InformerChange) {
        let InformerChange { name, mut statuses } = change;
        let Some(known) = self.informers.get_mut(&name) else {
            return;
        };
        let now = statuses.borrow_and_update().clone();
        let mut new = Vec::new();
        for (cluster, status) in now {
            let InformerPhase::Running(running) = status.phase else {
                continue;
            };
            if known.get(&cluster).is_some_and(|known| Arc::ptr_eq(known, &running)) {
                continue;
            }
            let before = known.insert(cluster.clone(), Arc::clone(&running));
            new.push((cluster, before, running));
        }
        for (cluster, before, running) in new {
            let was_held = before
                .as_ref()
                .is_some_and(|before| self.barrier.forget(&cluster, before));
            let is_replaced = before.is_some() && !was_held;
            // An informer that has ended or is retiring needs no detaching.
            if let Some(before) = before.filter(|before| !before.shared.is_stopped()) {
                self.detach(&before.shared);
            }
            // First the index, so that a handler that queries it during the initial list gets an answer sooner.
            add_feed(&self.plugin, &running.shared).await;
            if !self.plugin.roles().wants_events() {
                continue;
            }
            match is_replaced {
                true => self.add_listener(&running.shared),
                false if self.term.is_some() => self.barrier.hold(&cluster, running),
                false => {}
            }
        }
        // From now on the informer has them.
        self.expected.remove(&name);
        self.changes.push(Box::pin(async move {
            statuses.changed().await.ok()?;
            Some(InformerChange { name, statuses })
        }));
    }

    /// Lets a plugin act, or stand by, that was loaded just now: its loading began in the term `before`, and the Lease
    /// may have changed hands meanwhile.
    pub(super) async fn begin(&mut self, before: Option<&Arc<Term>>) {
        let term = self.acting().borrow().term().cloned();
        if term.as_ref() != before {
            // What it has is of that term.
            self.plugin.stand_by().await;
        }
        match term {
            Some(term) => self.act(term).await,
            None => self.plugin.stand_by().await,
        }
    }

    /// Whether this process acts, for a plugin as this one.
    fn acting(&self) -> watch::Receiver<Acting> {
        self.registry.acting(self.plugin.spec().is_divided)
    }

    async fn act(&mut self, term: Arc<Term>) {
        match &term.shared {
            Some(shared) => shared.begin(&self.plugin).await,
            // One of an earlier term of this process: meanwhile another one has called the plugin.
            None if term.shards.is_none() => self.plugin.set_paused_by_command(false).await,
            None => {}
        }
        let held = term.shards.as_ref().map(ShardTerms::held);
        self.plugin.listener().control().set_shards(held);
        let shards = term.shards.iter().flat_map(|shards| shards.held.keys());
        let begun = shards.map(|shard| self.gained(&term, *shard)).collect();
        self.plugin.listener().control().begin_shards(begun);
        self.plugin.share_limits(held);
        self.plugin.act().await;
        // A hand-over that began meanwhile did not find it acting.
        if self.acting().borrow().term() == Some(&term) {
            self.term = Some(term);
        } else {
            self.plugin.stand_by().await;
        }
    }

    /// Lets the plugin act or stand by. In standby its listener is attached to nothing, so that nothing waits in it;
    /// its indexes are computed nevertheless.
    pub(super) async fn set_acting(&mut self, acting: &Acting) {
        let next = match acting {
            Acting::Ending => return,
            Acting::No => None,
            Acting::Yes(term) => Some(term),
        };
        if self.term.as_ref() == next {
            return;
        }
        let moves = self
            .term
            .as_ref()
            .zip(next)
            .and_then(|(before, next)| before.moves_to(next));
        if let (Some(moves), Some(next)) = (moves, next) {
            return self.move_shards(&moves, next);
        }
        self.stand_by().await;
        if let Some(term) = next {
            self.act(Arc::clone(term)).await;
        }
        if self.term.is_some() {
            self.hold_all();
            self.release();
        }
    }

    /// Other replicas call the plugin for some shards from now on, and this one for others.
    fn move_shards(&mut self, moves: &ShardMoves, next: &Arc<Term>) {
        let listener = self.plugin.listener();
        listener.control().lose_shards(moves.lost);
        self.plugin.share_limits(next.shards.as_ref().map(ShardTerms::held));
        let kept = self.registry.catalog().kept_deletes();
        for shard in &moves.gained {
            let gained = self.gained(next, *shard);
            listener.control().gain_shard(&gained, kept, self.plugin.now());
        }
        self.term = Some(Arc::clone(next));
    }

    /// How the plugin continues with a shard of a term.
    fn gained(&self, term: &Term, shard: u8) -> GainedShard {
        let spec = self.plugin.spec();
        let sources = self
            .informers
            .keys()
            .flat_map(|informer| self.registry.sources(informer));
        let takeover = |source: Arc<Source>| (source.id(), term.takeover(&spec, shard, &source));
        GainedShard {
            shard,
            takeovers: sources.map(takeover).collect(),
        }
    }

    async fn stand_by(&mut self) {
        self.term = None;
        self.begun.clear();
        self.plugin.stand_by().await;
        self.plugin.listener().control().hand_over_timers();
        self.barrier = PluginBarrier::new(self.registry.catalog());
        let (informers, listener) = (
            self.informers.values().flat_map(BTreeMap::values),
            self.plugin.listener(),
        );
        join_all(informers.map(|informer| informer.shared.hand_over(&listener))).await;
        self.entry.set_missing(None, false);
    }

    /// The first calls about the objects of each cluster wait until it is ready.
    fn hold_all(&mut self) {
        if !self.plugin.roles().wants_events() {
            return;
        }
        for (cluster, informer) in self.informers.values().flatten() {
            self.barrier.hold(cluster, Arc::clone(informer));
        }
    }

    /// Attaches the listener to the informers that the barrier no longer holds.
    fn release(&mut self) {
        let needed = Needed {
            plugin: &self.plugin,
            registry: &self.registry,
            informers: self.informers.keys().map(String::as_str).collect(),
        };
        let (released, missing) = self.barrier.release(&needed);
        for informer in released {
            self.add_listener(&informer.shared);
        }
        self.entry.set_missing(missing, self.barrier.holds());
    }

    /// Attaches it to these informers and detaches it from all others.
    pub(super) fn set_informers<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        let mut before = std::mem::take(&mut self.informers);
        for name in names {
            match before.remove(name) {
                Some(known) => drop(self.informers.insert(name.to_owned(), known)),
                None => self.watch(name),
            }
        }
        for (cluster, informer) in before.into_values().flatten() {
            self.barrier.forget(&cluster, &informer);
            self.detach(&informer.shared);
        }
        self.release();
    }

    /// Exchanges the attachments that a swap has changed.
    pub(super) async fn apply_swap(&mut self, swapped: &Swapped) {
        let same_feed = match (&swapped.previous_feed, &self.plugin.index_feed()) {
            (Some(before), Some(now)) => before.ptr_eq(now),
            (None, None) => true,
            _ => false,
        };
        let (events_before, events_now) = (
            swapped.previous_roles.wants_events(),
            self.plugin.roles().wants_events(),
        );
        let informers: Vec<_> = self.informers.values().flat_map(BTreeMap::values).cloned().collect();
        for informer in &informers {
            let shared = &informer.shared;
            if !same_feed {
                if let Some(before) = &swapped.previous_feed {
                    shared.remove_index_feed(before);
                }
                add_feed(&self.plugin, shared).await;
            }
            let is_exchanged = self.leads_otherwise(shared, swapped);
            if events_before && (!events_now || is_exchanged) {
                shared.remove_listener(&self.plugin.listener());
            }
            if events_now && (!events_before || is_exchanged) {
                self.add_listener(shared);
            }
        }
        if !events_now {
            self.barrier.release_all();
            self.release();
        }
    }

    /// Whether objects of the informer lead to others than before the swap. What waits for the others stays.
    fn leads_otherwise(&self, informer: &NamedInformer, swapped: &Swapped) -> bool {
        let catalog = self.registry.catalog();
        let mut infos = informer
            .sources()
            .into_iter()
            .filter_map(|source| catalog.info(source.source()));
        infos.any(|info| swapped.leads_otherwise(&info.api_version, &info.kind))
    }

    fn watch(&mut self, name: &str) {
        self.informers.insert(name.to_owned(), BTreeMap::new());
        if let Some(entry) = self.registry.informer(name) {
            let (name, statuses) = (name.to_owned(), entry.watch());
            self.changes
                .push(Box::pin(async move { Some(InformerChange { name, statuses }) }));
        }
    }

    /// Detaches the plugin from an informer: it receives nothing more from it, not even deletes.
    fn detach(&self, informer: &NamedInformer) {
        informer.remove_listener(&self.plugin.listener());
        if let Some(feed) = self.plugin.index_feed() {
            informer.remove_index_feed(&feed);
        }
    }

    fn add_listener(&mut self, informer: &NamedInformer) {
        let Some(term) = &self.term else { return };
        let (listener, spec) = (self.plugin.listener(), self.plugin.spec());
        let source = informer.spec().source;
        // An informer refuses only while it ends.
        let begun = match self.begun.insert((source.informer, source.cluster)) {
            true => informer.begin_listener(listener, term.beginning(&spec, informer)),
            false => informer.add_listener(listener),
        };
        if let Err(error) = begun {
            tracing::debug!(plugin = self.plugin.name(), informer = informer.name(), %error, "cannot attach plugin to informer");
        }
    }
}

async fn add_feed(plugin: &Plugin, informer: &NamedInformer) {
    let Some(feed) = plugin.index_feed() else {
        return;
    };
    if let Err(error) = informer.add_index_feed(feed).await {
        let (plugin, informer) = (plugin.name(), informer.name());
        tracing::error!(plugin, informer, %error, code = "index-not-ready", "cannot attach plugin indexes to informer");
    }
}
