//! Who watches what plugins do while they do it: a program for people that write plugins.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use informant_cache::SourceInfo;
use informant_cache::listener::DeliveryOutcome;
use informant_object::KeyRef;

use super::Effect;

/// Receives what plugins do. Called on the threads of the guests, so it must return soon.
pub trait PluginObserver: fmt::Debug + Send + Sync {
    /// A call of a handler has ended.
    fn called(&self, call: &ObservedCall<'_>);

    /// A plugin had an effect, or would have had it without dry run (`is_withheld`).
    fn had_effect(&self, plugin: &str, effect: &Effect, is_withheld: bool);
}

/// A call of a handler.
#[derive(Debug)]
pub struct ObservedCall<'a> {
    pub plugin: &'a str,
    /// Whose object the call was about. None: it was removed meanwhile.
    pub source: Option<SourceInfo>,
    /// None: the source is synced.
    pub key: Option<KeyRef<'a>>,
    /// `add`, `update`, `delete`, `sync`.
    pub event: &'static str,
    /// 0 for the first call for an event; each retry adds 1.
    pub attempt: u32,
    pub took: Duration,
    pub outcome: &'a DeliveryOutcome,
}

/// The observer of one plugin, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Observed(Option<(Arc<str>, Arc<dyn PluginObserver>)>);

impl Observed {
    pub(crate) fn new(plugin: &Arc<str>, observer: Option<&Arc<dyn PluginObserver>>) -> Observed {
        Observed(observer.map(|observer| (Arc::clone(plugin), Arc::clone(observer))))
    }

    pub(super) fn is_there(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn had_effect(&self, effect: &Effect, is_withheld: bool) {
        if let Some((plugin, observer)) = &self.0 {
            observer.had_effect(plugin, effect, is_withheld);
        }
    }
}
