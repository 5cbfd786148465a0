//! Which informers a plugin is attached to, in each of their clusters, and with what: its listener, its index feed.
//!
//! A swap may bring a component with other roles or other indexes; what hangs on the informers is exchanged then. The
//! listener stays the plugin's, so events wait in it while components change. A changed section detaches and attaches
//! only what differs.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use informant_informer::NamedInformer;
use informant_plugin_host::{Plugin, Swapped};
use tokio::sync::watch;

use super::board::{Board, InformerPhase, Places, RunningInformer};

/// A plugin and the informers it hangs on.
pub(super) struct Wiring {
    pub(super) plugin: Plugin,
    board: Board,
    /// By name: those it is to hang on, by cluster as far as they run.
    informers: BTreeMap<String, BTreeMap<String, Arc<RunningInformer>>>,
    coming: FuturesUnordered<Pin<Box<dyn Future<Output = Option<Arrival>> + Send>>>,
}

/// An informer that has changed in some cluster.
pub(super) struct Arrival {
    name: String,
    places: watch::Receiver<Places>,
}

impl Wiring {
    /// Attached to nothing yet: see [`next`](Self::next).
    pub(super) fn new<'n>(plugin: Plugin, board: &Board, informers: impl Iterator<Item = &'n str>) -> Self {
        let mut wiring = Self {
            plugin,
            board: board.clone(),
            informers: BTreeMap::new(),
            coming: FuturesUnordered::new(),
        };
        informers.for_each(|name| wiring.expect(name));
        wiring
    }

    /// Waits until one of the informers has changed in some cluster. Loses nothing when it is dropped.
    pub(super) async fn next(&mut self) -> Arrival {
        loop {
            match self.coming.next().await {
                Some(Some(arrival)) => return arrival,
                // That informer was removed.
                Some(None) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Attaches the plugin to what runs of an informer and it does not hang on yet, in place of what ran before in that
    /// cluster.
    pub(super) async fn attach(&mut self, arrival: Arrival) {
        let Arrival { name, mut places } = arrival;
        let Some(known) = self.informers.get_mut(&name) else {
            return;
        };
        let now = places.borrow_and_update().clone();
        let mut new = Vec::new();
        for (cluster, place) in now {
            let InformerPhase::Running(running) = place.phase else {
                continue;
            };
            if known.get(&cluster).is_some_and(|known| Arc::ptr_eq(known, &running)) {
                continue;
            }
            let before = known.insert(cluster, Arc::clone(&running));
            new.push((before, running));
        }
        for (before, running) in new {
            // One that has ended, or is taking leave, has nothing to be taken off.
            if let Some(before) = before.filter(|before| !before.shared.is_stopped()) {
                self.detach(&before.shared);
            }
            // First the index, so that a handler that asks it while it is shown the initial list gets an answer the
            // sooner.
            add_feed(&self.plugin, &running.shared).await;
            if self.plugin.roles().wants_events() {
                self.add_listener(&running.shared);
            }
        }
        self.coming.push(Box::pin(async move {
            places.changed().await.ok()?;
            Some(Arrival { name, places })
        }));
    }

    /// Hangs it on these informers, and on no others.
    pub(super) fn set_informers<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        let mut before = std::mem::take(&mut self.informers);
        for name in names {
            match before.remove(name) {
                Some(known) => drop(self.informers.insert(name.to_owned(), known)),
                None => self.expect(name),
            }
        }
        for informer in before.into_values().flat_map(BTreeMap::into_values) {
            self.detach(&informer.shared);
        }
    }

    /// Exchanges what a swap has changed.
    pub(super) async fn refit(&mut self, swapped: &Swapped) {
        let feed_stays = match (&swapped.previous_feed, &self.plugin.index_feed()) {
            (Some(before), Some(now)) => before.ptr_eq(now),
            (None, None) => true,
            _ => false,
        };
        let (told_before, told_now) = (
            swapped.previous_roles.wants_events(),
            self.plugin.roles().wants_events(),
        );
        for informer in self.informers.values().flat_map(BTreeMap::values) {
            let shared = &informer.shared;
            if !feed_stays {
                if let Some(before) = &swapped.previous_feed {
                    shared.remove_index_feed(before);
                }
                add_feed(&self.plugin, shared).await;
            }
            match (told_before, told_now) {
                (false, true) => self.add_listener(shared),
                (true, false) => shared.remove_listener(&self.plugin.listener()),
                _ => {}
            }
        }
    }

    fn expect(&mut self, name: &str) {
        self.informers.insert(name.to_owned(), BTreeMap::new());
        if let Some(entry) = self.board.informer(name) {
            let (name, places) = (name.to_owned(), entry.watch());
            self.coming
                .push(Box::pin(async move { Some(Arrival { name, places }) }));
        }
    }

    /// Takes the plugin off an informer: it is told nothing more of it, deletes neither.
    fn detach(&self, informer: &NamedInformer) {
        informer.remove_listener(&self.plugin.listener());
        if let Some(feed) = self.plugin.index_feed() {
            informer.remove_index_feed(&feed);
        }
    }

    fn add_listener(&self, informer: &NamedInformer) {
        // An informer refuses only while it ends.
        if let Err(error) = informer.add_listener(self.plugin.listener()) {
            tracing::debug!(plugin = self.plugin.name(), informer = informer.name(), %error, "not attached");
        }
    }
}

async fn add_feed(plugin: &Plugin, informer: &NamedInformer) {
    let Some(feed) = plugin.index_feed() else {
        return;
    };
    if let Err(error) = informer.add_index_feed(feed).await {
        let (plugin, informer) = (plugin.name(), informer.name());
        tracing::error!(plugin, informer, %error, "the plugin's indexes are not attached");
    }
}
