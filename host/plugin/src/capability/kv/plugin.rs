//! What all instances of a plugin share: its keys, its quota, and what running calls have claimed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use informant_object::{Key, SourceId};

use super::key_value::{KeyValue, KvChange, KvHandled, KvOpening, KvSpace, KvUsage};
use super::metrics::KvSeries;
use super::overlay::{self, Overlay};
use super::{Answer, KV_HELD_BYTES_MAX, KV_KEY_COST_BYTES, KV_WAITING_MAX};
use crate::bindings::informant::plugin::types::{ErrorCode, HostError};
use crate::capability::error;
use crate::capability::parts::{ActorWaker, PluginParts};
use crate::effects::Effects;
use crate::sync::lock;

/// The reason every function returns `denied` without a state database.
const DENIED_WITHOUT_STATE: &str = "kv needs the state database; add this line to config.toml: [state]";

/// The reason it is denied to a plugin that every replica calls.
const DENIED_TO_DIVIDED: &str = "kv is denied: the objects of the plugin are divided among the replicas, each of which \
                                 would have other keys; add this line to its section of config.toml: run-once = true";

/// The reason keys that are opened while the plugin begins to stand by cannot be used.
const STOOD_BY: &str = "another replica of Informant acts now, which may change the plugin's keys";

/// The beginning of the error for a key that another running call sets if absent.
pub(super) const OTHER_CALL_SETS: &str = "another call of the plugin that still runs sets the key";

pub(crate) struct KvPlugin {
    plugin: Arc<str>,
    /// None without a state database.
    api: Option<Arc<dyn KeyValue>>,
    stored: Mutex<StoredKeys>,
    /// The keys that are being opened, in this term. A call that can wait no longer leaves that to the next one.
    opening: tokio::sync::Mutex<Option<(u64, KvOpening)>>,
    pub(super) dry_run: Arc<Effects>,
    overlay: Mutex<Option<DryRunKeys>>,
    /// Bytes that all keys may take.
    quota_bytes: AtomicUsize,
    running: Mutex<RunningCalls>,
    /// Events whose changes wait for the disk.
    waiting: AtomicUsize,
    /// Bytes of changes that wait for deferred writes.
    held_bytes: AtomicUsize,
    /// Wakes the event actor when fewer wait.
    waker: Arc<ActorWaker>,
    series: Arc<KvSeries>,
}

/// The stored keys, once they were opened. Another replica may change them between two terms.
#[derive(Default)]
struct StoredKeys {
    /// Grows when the plugin stands by.
    term: u64,
    space: Option<Arc<dyn KvSpace>>,
}

/// The keys of a dry run.
struct DryRunKeys {
    run: u64,
    /// What they are over.
    stored: Arc<dyn KvSpace>,
    space: Arc<dyn KvSpace>,
}

/// An event whose changes wait, until it is reported or given up.
struct Waiting(Arc<KvPlugin>);

/// Changes that wait for deferred writes, while they do.
pub(super) struct HeldBytes {
    plugin: Arc<KvPlugin>,
    bytes: usize,
}

/// What running calls have claimed. A call that fails gives it up.
#[derive(Default)]
struct RunningCalls {
    keys: BTreeSet<String>,
    growth_bytes: i64,
}

impl KvPlugin {
    pub(super) fn of(series: Arc<KvSeries>, parts: &PluginParts<'_>) -> KvPlugin {
        KvPlugin {
            plugin: Arc::clone(parts.plugin),
            api: parts.services.key_value.clone(),
            stored: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            dry_run: Arc::clone(parts.dry_run),
            overlay: Mutex::default(),
            quota_bytes: AtomicUsize::new(parts.spec.limits.kv_bytes),
            running: Mutex::default(),
            waiting: AtomicUsize::new(0),
            held_bytes: AtomicUsize::new(0),
            waker: Arc::clone(parts.waker),
            series,
        }
    }

    /// Applies another quota. Keys above it stay, and only what takes less is accepted.
    pub(super) fn set_quota(&self, bytes: usize) {
        self.quota_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Whether too much waits for the disk or for deferred writes: the handler must not be called.
    pub(super) fn has_too_many_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire) >= KV_WAITING_MAX
            || self.held_bytes.load(Ordering::Acquire) >= KV_HELD_BYTES_MAX
    }

    /// Counts changes that wait for deferred writes, until what is returned is dropped.
    pub(super) fn hold_bytes(self: &Arc<KvPlugin>, bytes: usize) -> HeldBytes {
        let before = self.held_bytes.fetch_add(bytes, Ordering::AcqRel);
        self.series.show_held(before + bytes);
        HeldBytes {
            plugin: Arc::clone(self),
            bytes,
        }
    }

    /// Counts an event that waits for the disk, until it is reported: `end` ends it.
    pub(super) fn track(
        self: &Arc<KvPlugin>,
        source: SourceId,
        key: Option<Key>,
        end: impl FnOnce() + Send + 'static,
    ) -> KvHandled {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let waits = Waiting(Arc::clone(self));
        let report = move || {
            end();
            drop(waits);
        };
        KvHandled {
            source,
            key,
            report: Box::new(report),
        }
    }

    /// What its keys take, if it has used them since it was loaded.
    pub(crate) fn usage(&self) -> Option<KvUsage> {
        self.stored().map(|space| space.usage())
    }

    pub(super) fn show(&self, usage: KvUsage) {
        self.series.show(usage);
    }

    /// Tells an observer of changes that are about to be applied. Those of a dry run are recorded where they are kept.
    pub(super) fn show_changes(&self, changes: &[KvChange]) {
        if !self.dry_run.shows_keys() || self.dry_run.is_dry_run() {
            return;
        }
        for (key, value) in changes {
            self.dry_run.made(|| overlay::effect(key, value.as_deref()));
        }
    }

    /// Whether keys outlive the process.
    pub(super) fn is_persisted(&self) -> bool {
        self.api.as_ref().is_some_and(|api| api.denied().is_none())
    }

    /// The stored keys, if they were opened.
    pub(super) fn stored(&self) -> Option<Arc<dyn KvSpace>> {
        lock(&self.stored).space.clone()
    }

    /// The next call opens the keys again. What still waits for them, as `init` of a reload may, does not get those of
    /// the next term.
    pub(super) fn forget_keys(&self) {
        let mut stored = lock(&self.stored);
        stored.term += 1;
        stored.space = None;
        *lock(&self.overlay) = None;
    }

    /// The stored keys.
    pub(super) async fn open(&self) -> Answer<Arc<dyn KvSpace>> {
        let Some(api) = &self.api else {
            return Err(error(ErrorCode::Denied, DENIED_WITHOUT_STATE));
        };
        if let Some(reason) = api.denied() {
            return Err(error(ErrorCode::Denied, reason));
        }
        if self.dry_run.is_divided() {
            return Err(error(ErrorCode::Denied, DENIED_TO_DIVIDED));
        }
        if let Some(space) = self.stored() {
            return Ok(space);
        }
        let mut opening = self.opening.lock().await;
        // Another call may have opened them meanwhile.
        let term = match &*lock(&self.stored) {
            StoredKeys { space: Some(space), .. } => return Ok(Arc::clone(space)),
            StoredKeys { term, .. } => *term,
        };
        opening.take_if(|(of, _)| *of != term);
        let (_, opened) = opening.get_or_insert_with(|| (term, api.open(&self.plugin)));
        let opened = opened.await;
        *opening = None;
        let space = opened.map_err(|problem| error(ErrorCode::Unavailable, problem))?;
        let mut stored = lock(&self.stored);
        if stored.term != term {
            return Err(error(ErrorCode::Unavailable, STOOD_BY));
        }
        stored.space = Some(Arc::clone(&space));
        Ok(space)
    }

    /// The keys that a call uses: in dry run, those over the `stored` ones.
    pub(super) fn overlaid(&self, stored: &Arc<dyn KvSpace>) -> Arc<dyn KvSpace> {
        let run = self.dry_run.run();
        // Changed by single assignments: consistent after any panic.
        let mut overlay = lock(&self.overlay);
        if run == 0 {
            *overlay = None;
            return Arc::clone(stored);
        }
        let is_current = |keys: &&DryRunKeys| keys.run == run && Arc::ptr_eq(&keys.stored, stored);
        if let Some(keys) = overlay.as_ref().filter(is_current) {
            return Arc::clone(&keys.space);
        }
        let space: Arc<dyn KvSpace> = Arc::new(Overlay::new(Arc::clone(stored), Arc::clone(&self.dry_run)));
        *overlay = Some(DryRunKeys {
            run,
            stored: Arc::clone(stored),
            space: Arc::clone(&space),
        });
        space
    }

    /// The keys that a call uses now, if one has opened them.
    pub(super) fn current(&self) -> Option<Arc<dyn KvSpace>> {
        self.stored().map(|stored| self.overlaid(&stored))
    }

    pub(super) fn count(&self, function: &'static str, error: Option<&HostError>) {
        self.series.count(function, error.map(|error| error.code));
    }

    /// Claims a key for one running call. Returns whether no other one has it.
    pub(super) fn claim(&self, key: &str) -> bool {
        self.running().keys.insert(key.to_owned())
    }

    /// A running call no longer sets a key that it had claimed.
    pub(super) fn give_up(&self, key: &str) {
        self.running().keys.remove(key);
    }

    /// Changes how much a running call makes the keys grow, which are `space` without running calls.
    pub(super) fn reserve(&self, space: &dyn KvSpace, before: i64, after: i64) -> Answer<()> {
        let (usage, room) = (space.usage(), space.room());
        let mut running = self.running();
        let quota = self.quota_bytes.load(Ordering::Relaxed);
        let used = i64::try_from(usage.bytes + usage.keys * KV_KEY_COST_BYTES).unwrap_or(i64::MAX);
        // What a call frees counts when it has succeeded.
        let others = running.growth_bytes - before.max(0);
        let total = used + others + after;
        if after > before && total > i64::try_from(quota).unwrap_or(i64::MAX) {
            let message = format!(
                "the plugin's keys would take {total} bytes, and may take {quota}: delete keys, or raise `kv` in \
                 [plugin.{}.limits]",
                self.plugin
            );
            return Err(error(ErrorCode::Exhausted, message));
        }
        if after > before && after > i64::try_from(room).unwrap_or(i64::MAX) {
            let message = format!(
                "the keys of all plugins may grow by {room} bytes, and this call needs {after}: delete keys, of any plugin"
            );
            return Err(error(ErrorCode::Exhausted, message));
        }
        running.growth_bytes = others + after.max(0);
        Ok(())
    }

    /// A call is over.
    pub(super) fn release(&self, keys: &BTreeSet<String>, growth_bytes: i64) {
        if keys.is_empty() && growth_bytes <= 0 {
            return;
        }
        let mut running = self.running();
        running.keys.retain(|key| !keys.contains(key));
        running.growth_bytes -= growth_bytes.max(0);
    }

    fn running(&self) -> MutexGuard<'_, RunningCalls> {
        // Changed by single assignments: consistent after any panic.
        lock(&self.running)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Waiting(plugin) = self;
        if plugin.waiting.fetch_sub(1, Ordering::AcqRel) == KV_WAITING_MAX {
            plugin.waker.wake();
        }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        let Self { plugin, bytes } = self;
        let before = plugin.held_bytes.fetch_sub(*bytes, Ordering::AcqRel);
        plugin.series.show_held(before - *bytes);
        if before >= KV_HELD_BYTES_MAX && before - *bytes < KV_HELD_BYTES_MAX {
            plugin.waker.wake();
        }
    }
}
