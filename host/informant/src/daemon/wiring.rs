//! Which informers a plugin is attached to, and with what: its listener, its index feed.
//!
//! A swap may bring a component with other roles or other indexes; what hangs on the informers is exchanged then. The listener
//! stays the plugin's, so events wait in it while components change.

use std::sync::Arc;

use informant_informer::SharedInformer;
use informant_plugin_host::{Plugin, Swapped};

use super::board::RunningInformer;

/// A plugin and the informers it hangs on.
pub(super) struct Wiring {
    pub(super) plugin: Plugin,
    informers: Vec<Arc<RunningInformer>>,
}

impl Wiring {
    pub(super) fn new(plugin: Plugin) -> Self {
        Self {
            plugin,
            informers: Vec::new(),
        }
    }

    /// Attaches the plugin to an informer that has started; nothing if it never will.
    pub(super) async fn add(&mut self, informer: Option<Arc<RunningInformer>>) {
        let Some(informer) = informer else {
            return;
        };
        // First the index, so that a handler that asks it while it is shown the initial list gets an answer the sooner.
        self.add_feed(&informer.shared).await;
        if self.plugin.roles().wants_events() {
            self.add_listener(&informer.shared);
        }
        self.informers.push(informer);
    }

    /// Exchanges what a swap has changed.
    pub(super) async fn refit(&self, swapped: &Swapped) {
        let feed_stays = match (&swapped.previous_feed, &self.plugin.index_feed()) {
            (Some(before), Some(now)) => before.ptr_eq(now),
            (None, None) => true,
            _ => false,
        };
        let (told_before, told_now) = (
            swapped.previous_roles.wants_events(),
            self.plugin.roles().wants_events(),
        );
        for informer in &self.informers {
            let shared = &informer.shared;
            if !feed_stays {
                if let Some(before) = &swapped.previous_feed {
                    shared.remove_index_feed(before);
                }
                self.add_feed(shared).await;
            }
            match (told_before, told_now) {
                (false, true) => self.add_listener(shared),
                (true, false) => shared.remove_listener(&self.plugin.listener()),
                _ => {}
            }
        }
    }

    async fn add_feed(&self, informer: &SharedInformer) {
        let Some(feed) = self.plugin.index_feed() else {
            return;
        };
        if let Err(error) = informer.add_index_feed(feed).await {
            let (plugin, informer) = (self.plugin.name(), informer.name());
            tracing::error!(plugin, informer, %error, "the plugin's indexes are not attached");
        }
    }

    fn add_listener(&self, informer: &SharedInformer) {
        // An informer refuses only while the daemon ends.
        if let Err(error) = informer.add_listener(self.plugin.listener()) {
            tracing::debug!(plugin = self.plugin.name(), informer = informer.name(), %error, "not attached");
        }
    }
}
