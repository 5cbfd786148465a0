//! Attaches a plugin to its informers in each of their clusters, with its listener and its index feed.
//!
//! A swap may bring a component with other roles or other indexes; then the attachments are exchanged. The listener
//! stays the plugin's, so events wait in it while components change. A changed section detaches and attaches only what
//! differs.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use informant_informer::NamedInformer;
use informant_plugin_host::{Plugin, Swapped};
use tokio::sync::watch;

use super::status_registry::{InformerPhase, InformerStatuses, RunningInformer, StatusRegistry};

/// A plugin and the informers it is attached to.
pub(super) struct PluginAttachments {
    pub(super) plugin: Plugin,
    registry: StatusRegistry,
    /// The plugin's informers by name, and by cluster as far as they run.
    informers: BTreeMap<String, BTreeMap<String, Arc<RunningInformer>>>,
    changes: FuturesUnordered<Pin<Box<dyn Future<Output = Option<InformerChange>> + Send>>>,
}

/// An informer that changed in some cluster.
pub(super) struct InformerChange {
    name: String,
    statuses: watch::Receiver<InformerStatuses>,
}

impl PluginAttachments {
    /// Not attached yet: see [`next`](Self::next).
    pub(super) fn new<'n>(plugin: Plugin, registry: &StatusRegistry, informers: impl Iterator<Item = &'n str>) -> Self {
        let mut attachments = Self {
            plugin,
            registry: registry.clone(),
            informers: BTreeMap::new(),
            changes: FuturesUnordered::new(),
        };
        informers.for_each(|name| attachments.watch(name));
        attachments
    }

    /// Waits until one of the informers changes in some cluster. Cancel safe.
    pub(super) async fn next(&mut self) -> InformerChange {
        loop {
            match self.changes.next().await {
                Some(Some(change)) => return change,
                // That informer was removed.
                Some(None) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Attaches the plugin to the running informers that it is not attached to yet, and detaches what they replace.
    pub(super) async fn attach(&mut self, change: InformerChange) {
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
            let before = known.insert(cluster, Arc::clone(&running));
            new.push((before, running));
        }
        for (before, running) in new {
            // An informer that has ended or is retiring needs no detaching.
            if let Some(before) = before.filter(|before| !before.shared.is_stopped()) {
                self.detach(&before.shared);
            }
            // First the index, so that a handler that queries it during the initial list gets an answer sooner.
            add_feed(&self.plugin, &running.shared).await;
            if self.plugin.roles().wants_events() {
                self.add_listener(&running.shared);
            }
        }
        self.changes.push(Box::pin(async move {
            statuses.changed().await.ok()?;
            Some(InformerChange { name, statuses })
        }));
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
        for informer in before.into_values().flat_map(BTreeMap::into_values) {
            self.detach(&informer.shared);
        }
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
        for informer in self.informers.values().flat_map(BTreeMap::values) {
            let shared = &informer.shared;
            if !same_feed {
                if let Some(before) = &swapped.previous_feed {
                    shared.remove_index_feed(before);
                }
                add_feed(&self.plugin, shared).await;
            }
            match (events_before, events_now) {
                (false, true) => self.add_listener(shared),
                (true, false) => shared.remove_listener(&self.plugin.listener()),
                _ => {}
            }
        }
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

    fn add_listener(&self, informer: &NamedInformer) {
        // An informer refuses only while it ends.
        if let Err(error) = informer.add_listener(self.plugin.listener()) {
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
