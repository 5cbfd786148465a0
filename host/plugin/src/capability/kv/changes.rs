//! The changes that one call has made so far, over the keys of its plugin.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::key_value::{KvChange, KvSpace};
use super::overlay::merged;
use super::plugin::{KvPlugin, OTHER_CALL_SETS};
use super::{Answer, KV_KEY_COST_BYTES, KV_VALUE_BYTES_MAX};
use crate::bindings::informant::plugin::types::ErrorCode;
use crate::capability::error;
use crate::capability::parts::HandledEvent;
use crate::observed::EffectKind;

/// The changes of one call, and what it sees. Dropping it gives up what it has claimed.
pub(crate) struct CallChanges {
    plugin: Arc<KvPlugin>,
    space: Arc<dyn KvSpace>,
    changes: BTreeMap<String, Option<Arc<[u8]>>>,
    /// Those of the keys it sets that no other call may set if absent. So the quota bounds them.
    claimed: BTreeSet<String>,
    /// Bytes that the keys take more once the changes are committed; negative: less.
    growth_bytes: i64,
}

/// What `init` of new instances has changed. It takes effect when they are put to work; dropping it gives it up.
///
/// The instances of a version share it: each sees what those before it have set, and sets no key twice.
#[derive(Default)]
pub(crate) struct InitChanges {
    /// Whether their section is for a dry run.
    pub(super) is_dry_run: bool,
    pub(super) made: Option<CallChanges>,
}

impl InitChanges {
    pub(crate) fn new(is_dry_run: bool) -> InitChanges {
        InitChanges { is_dry_run, made: None }
    }

    /// An `init` succeeded: adds what it changed to what those before it did.
    pub(in crate::capability) fn keep(&mut self, made: Option<CallChanges>) {
        self.made = made;
    }

    /// The instances are put to work: applies the changes, in dry run to its keys. While another replica acts, they are
    /// dropped: `init` is called again when this one does.
    pub(crate) fn commit(self) {
        let Some(mut made) = self.made.filter(|made| !made.is_empty()) else {
            return;
        };
        if made.plugin.dry_run.admit(EffectKind::Kv, None).is_err() {
            return;
        }
        if let Some(space) = made.plugin.current() {
            made.space = space;
        }
        made.commit(None);
    }
}

impl CallChanges {
    pub(super) fn new(plugin: Arc<KvPlugin>, space: Arc<dyn KvSpace>) -> CallChanges {
        CallChanges {
            plugin,
            space,
            changes: BTreeMap::new(),
            claimed: BTreeSet::new(),
            growth_bytes: 0,
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<Arc<[u8]>> {
        match self.changes.get(key) {
            Some(value) => value.clone(),
            None => self.space.get(key),
        }
    }

    pub(super) fn set(&mut self, key: String, value: Vec<u8>) -> Answer<()> {
        self.check_writable()?;
        let bytes = value.len();
        if bytes > KV_VALUE_BYTES_MAX {
            let message =
                format!("the value of {key:?} has {bytes} bytes, and a value may have {KV_VALUE_BYTES_MAX}: split it");
            return Err(error(ErrorCode::TooLarge, message));
        }
        let growth = self.growth_bytes + cost(&key, Some(bytes)) - self.cost_now(&key);
        self.reserve(growth)?;
        self.changes.insert(key, Some(value.into()));
        Ok(())
    }

    pub(super) fn set_if_absent(&mut self, key: String, value: Vec<u8>) -> Answer<bool> {
        if self.get(&key).is_some() {
            return Ok(false);
        }
        if !self.plugin.claim(&key) {
            return Err(error(ErrorCode::Conflict, format!("{OTHER_CALL_SETS}: {key:?}; retry")));
        }
        self.claimed.insert(key.clone());
        // It may have been set between the look and the claim.
        let answer = match self.get(&key) {
            Some(_) => Ok(false),
            None => self.set(key.clone(), value).map(|()| true),
        };
        if !matches!(answer, Ok(true)) {
            self.give_up(&key);
        }
        answer
    }

    pub(super) fn delete(&mut self, key: &str) -> Answer<()> {
        self.check_writable()?;
        let growth = self.growth_bytes - self.cost_now(key);
        match self.space.get(key) {
            Some(_) => drop(self.changes.insert(key.to_owned(), None)),
            None => drop(self.changes.remove(key)),
        }
        self.give_up(key);
        self.reserve(growth)
    }

    pub(super) fn list(&self, prefix: &str, cursor: &str, max: usize) -> Vec<String> {
        merged(&*self.space, &self.changes, prefix, cursor, max)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The call succeeded: applies its changes. `event` is the one that ends with them.
    pub(super) fn commit(mut self, event: Option<HandledEvent>) {
        let handled = event.map(|event| {
            let (source, key) = (event.source, event.key.clone());
            self.plugin.track(source, key, || event.end(None))
        });
        let changes: Vec<KvChange> = std::mem::take(&mut self.changes).into_iter().collect();
        self.plugin.show_changes(&changes);
        self.space.commit(changes, handled);
        self.plugin.show(self.space.usage());
        // Only now other calls may claim what this one has.
        drop(self);
    }

    /// The call succeeded, and its event ends later: applies its changes, and persists them with that end. Returns the
    /// event that ends so.
    pub(super) fn hold(mut self, event: HandledEvent) -> HandledEvent {
        let changes: Vec<KvChange> = std::mem::take(&mut self.changes).into_iter().collect();
        self.plugin.show_changes(&changes);
        let size = |(key, value): &KvChange| key.len() + value.as_ref().map_or(0, |value| value.len());
        let bytes = self.plugin.hold_bytes(changes.iter().map(size).sum());
        let persist = self.space.hold(changes);
        self.plugin.show(self.space.usage());
        let plugin = Arc::clone(&self.plugin);
        drop(self);
        let HandledEvent {
            source,
            key,
            outcome,
            end,
        } = event;
        let of_event = key.clone();
        let end_with = move |outcome| {
            persist(plugin.track(source, of_event, || end(outcome)));
            drop(bytes);
        };
        HandledEvent {
            source,
            key,
            outcome,
            end: Box::new(end_with),
        }
    }

    fn check_writable(&self) -> Answer<()> {
        match self.space.failure() {
            None => Ok(()),
            Some(failure) => Err(error(ErrorCode::Unavailable, failure)),
        }
    }

    /// Other calls may set a key again.
    fn give_up(&mut self, key: &str) {
        if self.claimed.remove(key) {
            self.plugin.give_up(key);
        }
    }

    fn cost_now(&self, key: &str) -> i64 {
        cost(key, self.get(key).map(|value| value.len()))
    }

    /// Sets the growth, if the quota allows it.
    fn reserve(&mut self, growth_bytes: i64) -> Answer<()> {
        self.plugin.reserve(&*self.space, self.growth_bytes, growth_bytes)?;
        self.growth_bytes = growth_bytes;
        Ok(())
    }
}

impl Drop for CallChanges {
    fn drop(&mut self) {
        self.plugin.release(&self.claimed, self.growth_bytes);
    }
}

/// Bytes that a key with a value of `value_bytes` takes.
fn cost(key: &str, value_bytes: Option<usize>) -> i64 {
    let bytes = value_bytes.map_or(0, |value| key.len() + value + KV_KEY_COST_BYTES);
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
