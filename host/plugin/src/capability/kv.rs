//! The interface `kv`: what a plugin remembers.
//!
//! ```text
//! guest ─set, delete─▶ CallChanges ─success─▶ KvSpace: applied at once ─▶ state database, with the event's end
//!                          └ failure: dropped            after the call, or after the writes that it deferred
//! ```
//!
//! A call sees its own changes over those of all calls that have succeeded. The keys are opened at the first call of a
//! function, so a plugin that does not use them costs nothing.

mod changes;
pub(crate) mod key_value;
mod metrics;
mod overlay;
mod plugin;
mod recorded;
mod runs;

use std::sync::Arc;

use informant_cache::Moment;
use informant_spec::PluginSpec;
use wasmtime::component::{HasSelf, Linker};

use self::changes::CallChanges;
pub(crate) use self::changes::InitChanges;
use self::metrics::KvSeries;
pub(crate) use self::plugin::KvPlugin;
use crate::bindings::informant::plugin::kv;
use crate::bindings::informant::plugin::types::{ErrorCode, HostError};
use crate::capability::parts::{
    CallEnd, CallPart, CallStart, Capability, Current, HandledEvent, InstanceParts, PluginParts,
};
use crate::capability::permission::MayUse;
use crate::capability::{HasCapabilities, error};
use crate::capture::Tape;
use crate::engine::wait::{CallTime, TooLate};
use crate::series::Live;

/// Bytes of a key: 512. A longer one is `invalid`.
pub(crate) const KV_KEY_BYTES_MAX: usize = 512;

/// Bytes of a value: 256 KiB. A larger one is `too-large`.
pub(crate) const KV_VALUE_BYTES_MAX: usize = 256 << 10;

/// Bytes that a key takes in `limits.kv` besides itself and its value: 64. So the number of keys is limited, too.
pub(crate) const KV_KEY_COST_BYTES: usize = 64;

/// Keys in an answer of `list`: 1,000, which is also the default.
pub(crate) const KV_LIST_MAX: usize = 1_000;

/// Events of a plugin whose changes of keys wait for the disk: 1,000. Then its handler is not called until fewer
/// wait.
pub(crate) const KV_WAITING_MAX: usize = 1_000;

/// Bytes of a plugin's changes that wait for deferred writes: 16 MiB. Then its handler is not called until fewer wait.
/// A call that is made below the bound may exceed it by its own changes.
pub(crate) const KV_HELD_BYTES_MAX: usize = 16 << 20;

/// The error for keys that are not read in time.
const OPENED_TOO_LATE: &str = "the plugin's keys were not read in time (nine tenths of limits.call); retry, and check the \
                               disk of the state database, or with shared state the API server";

type Answer<T> = Result<T, HostError>;

/// The keys as one instance sees them.
pub(crate) struct KvCaller {
    plugin: Arc<KvPlugin>,
    time: CallTime,
    may_use: MayUse,
    /// In `init`, whether the instance is for a dry run: its changes wait until it is put to work.
    init_is_dry_run: Option<bool>,
    /// The keys, and the changes of the current call, once it has used them.
    used: Option<CallChanges>,
    tape: Tape,
}

impl Capability for KvPlugin {
    const INTERFACE: Option<&'static str> = Some("kv");

    type Host = Live<KvSeries>;
    type Grants = ();
    type Call = KvCaller;

    fn grants(_spec: &PluginSpec) {}

    fn new(host: &Live<KvSeries>, _grants: &Arc<Current<()>>, plugin: &PluginParts<'_>) -> KvPlugin {
        KvPlugin::of(host.of(plugin.plugin), plugin)
    }

    fn configure(&self, spec: &PluginSpec, _grants: &Arc<Current<()>>, _now: Moment) {
        self.set_quota(spec.limits.kv_bytes);
    }

    fn is_full(&self) -> bool {
        self.has_too_many_waiting()
    }

    /// Another replica may change them: they are opened again when this one acts.
    fn stand_by(&self) {
        self.forget_keys();
    }

    fn call(self: &Arc<Self>, _grants: &Arc<Current<()>>, instance: &InstanceParts<'_>) -> KvCaller {
        KvCaller {
            plugin: Arc::clone(self),
            time: instance.time.clone(),
            may_use: Ok(()),
            init_is_dry_run: None,
            used: None,
            tape: instance.tape.clone(),
        }
    }

    fn delays(&self, effects: &Option<CallChanges>) -> bool {
        effects.is_some()
    }

    /// The event ends when the changes are about to be persisted.
    fn commit(self: &Arc<Self>, effects: Option<CallChanges>, event: Option<HandledEvent>) {
        if let Some(changes) = effects {
            changes.commit(event);
        }
    }

    /// The changes must not be persisted before the writes that the same call deferred are sent: a handler that is
    /// called again after a kill would find them and leave the writes out.
    fn commit_with(self: &Arc<Self>, effects: Option<CallChanges>, event: HandledEvent) -> HandledEvent {
        match effects {
            Some(changes) => changes.hold(event),
            None => event,
        }
    }

    fn link<T: HasCapabilities>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
        kv::add_to_linker::<_, HasSelf<KvCaller>>(linker, |state: &mut T| &mut state.capabilities().kv)
    }
}

impl CallPart for KvCaller {
    type Effects = Option<CallChanges>;

    fn begin(&mut self, call: CallStart) {
        self.may_use = call.may_use;
        self.init_is_dry_run = None;
        self.used = None;
    }

    fn finish(&mut self, end: CallEnd) -> Option<CallChanges> {
        let used = self.used.take();
        used.filter(|changes| end.is_success() && !changes.is_empty())
    }
}

impl KvCaller {
    /// `init` is called next, after those that have made these `changes`.
    pub(super) fn continue_init(&mut self, changes: &mut InitChanges) {
        self.init_is_dry_run = Some(changes.is_dry_run);
        self.used = changes.made.take();
    }

    /// Runs `function` on the keys, which the first call of a plugin opens.
    async fn with_keys<T>(
        &mut self,
        name: &'static str,
        function: impl FnOnce(&mut CallChanges) -> Answer<T>,
    ) -> Answer<T> {
        self.may_use.map_err(|reason| error(ErrorCode::NotHere, reason))?;
        let answer = match self.open().await {
            Ok(changes) => function(changes),
            Err(problem) => Err(problem),
        };
        self.plugin.count(name, answer.as_ref().err());
        answer
    }

    async fn open(&mut self) -> Answer<&mut CallChanges> {
        if self.used.is_none() {
            // The guest is to see an error before its own time is over.
            let opened = self.time.bound(self.plugin.open()).await;
            let stored = opened.unwrap_or_else(|TooLate| Err(error(ErrorCode::Unavailable, OPENED_TOO_LATE)))?;
            self.plugin.show(stored.usage());
            let space = match self.init_is_dry_run {
                Some(false) => stored,
                _ => self.plugin.overlaid(&stored),
            };
            let space = recorded::recorded(space, &self.tape);
            self.used = Some(CallChanges::new(Arc::clone(&self.plugin), space));
        }
        self.used
            .as_mut()
            .ok_or_else(|| error(ErrorCode::Other, "the call is over"))
    }
}

impl kv::Host for KvCaller {
    async fn get(&mut self, key: String) -> wasmtime::Result<Answer<Option<Vec<u8>>>> {
        let get = |keys: &mut CallChanges| Ok(keys.get(&valid(key)?).map(|value| value.to_vec()));
        Ok(self.with_keys("get", get).await)
    }

    async fn set(&mut self, key: String, value: Vec<u8>) -> wasmtime::Result<Answer<()>> {
        let set = |keys: &mut CallChanges| keys.set(valid(key)?, value);
        Ok(self.with_keys("set", set).await)
    }

    async fn set_if_absent(&mut self, key: String, value: Vec<u8>) -> wasmtime::Result<Answer<bool>> {
        let set = |keys: &mut CallChanges| keys.set_if_absent(valid(key)?, value);
        Ok(self.with_keys("set-if-absent", set).await)
    }

    async fn delete(&mut self, key: String) -> wasmtime::Result<Answer<()>> {
        let delete = |keys: &mut CallChanges| keys.delete(&valid(key)?);
        Ok(self.with_keys("delete", delete).await)
    }

    async fn list(&mut self, prefix: String, cursor: String, limit: u32) -> wasmtime::Result<Answer<Vec<String>>> {
        let list = |keys: &mut CallChanges| {
            let max = match limit {
                0 => KV_LIST_MAX,
                limit => KV_LIST_MAX.min(limit as usize),
            };
            // What the host keeps there sorts first.
            let cursor = cursor.as_str().max(runs::FIRST_SEEN);
            Ok(keys.list(&prefix, cursor, max))
        };
        Ok(self.with_keys("list", list).await)
    }
}

fn valid(key: String) -> Answer<String> {
    let bytes = key.len();
    match key {
        key if key.is_empty() => Err(error(ErrorCode::Invalid, "the key is empty")),
        _ if bytes > KV_KEY_BYTES_MAX => {
            let message = format!("the key has {bytes} bytes, and may have {KV_KEY_BYTES_MAX}: shorten or hash it");
            Err(error(ErrorCode::Invalid, message))
        }
        key if key.contains('\0') => Err(error(ErrorCode::Invalid, format!("the key {key:?} contains NUL"))),
        key => Ok(key),
    }
}

#[cfg(test)]
mod tests;
