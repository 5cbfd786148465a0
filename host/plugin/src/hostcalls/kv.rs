//! The interface `kv`: what a plugin remembers.
//!
//! ```text
//! guest ─set, delete─▶ CallChanges ─success─▶ KvSpace: applied at once ─▶ state database, with the event's end
//!                          └ failure: dropped
//! ```
//!
//! A call sees its own changes over those of all calls that have succeeded. The keys are opened at the first call of a
//! function, so a plugin that does not use them costs nothing.

mod changes;
mod metrics;
mod overlay;
mod rights;

use std::sync::Arc;

pub(crate) use self::changes::{CallChanges, InitChanges};
pub(crate) use self::metrics::{KvCounters, KvFamilies};
pub(crate) use self::rights::KvRights;
use crate::hostcalls::error;
use crate::hostcalls::wait::{CallTime, TooLate};
use crate::instance::bindings::informant::plugin::kv;
use crate::instance::bindings::informant::plugin::types::{ErrorCode, HostError};
use crate::instance::guest::GuestState;

/// Bytes of a key: 512. A longer one is `invalid`.
pub const KV_KEY_BYTES_MAX: usize = 512;

/// Bytes of a value: 256 KiB. A larger one is `too-large`.
pub const KV_VALUE_BYTES_MAX: usize = 256 << 10;

/// Bytes that a key takes in `limits.kv` besides itself and its value: 64. So the number of keys is limited, too.
pub const KV_KEY_COST_BYTES: usize = 64;

/// Keys in an answer of `list`: 1,000, which is also the default.
pub const KV_LIST_MAX: usize = 1_000;

/// Events of a plugin whose changes of keys wait for the disk: 1,000. Then its handler is not called until fewer
/// wait.
pub const KV_WAITING_MAX: usize = 1_000;

/// The reason every function returns `denied` where no success commits the changes.
const DENIED_OUTSIDE_HANDLERS: &str = "kv can be used in init, on-add, on-update, on-delete and on-synced only";

/// The error for keys that the disk does not deliver in time.
const OPENED_TOO_LATE: &str = "the state database did not deliver the plugin's keys in time (nine tenths of \
                               limits.call); retry, and check the disk";

type Answer<T> = Result<T, HostError>;

/// Whether an instance may use keys.
#[derive(Clone)]
pub(crate) enum KvAccess {
    /// Those of its plugin.
    Granted(Arc<KvRights>),
    /// Never, for this reason.
    Denied(&'static str),
}

/// The keys as one instance sees them.
pub(crate) struct KvCaller {
    access: KvAccess,
    time: CallTime,
    /// What the success of the current call does with its changes.
    at_success: AtSuccess,
    /// The keys, and the changes of the current call, once it has used them.
    used: Option<CallChanges>,
}

/// What the success of a call does with its changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AtSuccess {
    /// There are none.
    Nothing,
    Commit,
    /// They wait until the instance is put to work, with a section that is for a dry run or not.
    Keep {
        is_dry_run: bool,
    },
}

impl KvCaller {
    /// Waits are limited to the remaining `time`.
    pub(crate) fn new(access: KvAccess, time: CallTime) -> KvCaller {
        KvCaller {
            access,
            time,
            at_success: AtSuccess::Nothing,
            used: None,
        }
    }

    /// A call into the guest begins: what the last one changed and did not commit is dropped. `commits`: its success
    /// commits changes.
    pub(crate) fn begin_call(&mut self, commits: bool) {
        self.at_success = match commits {
            true => AtSuccess::Commit,
            false => AtSuccess::Nothing,
        };
        self.used = None;
    }

    /// A call of `init` begins, after those that have made these `changes`.
    pub(crate) fn begin_init(&mut self, changes: &mut InitChanges) {
        self.at_success = AtSuccess::Keep {
            is_dry_run: changes.is_dry_run,
        };
        self.used = changes.made.take();
    }

    /// `init` succeeded: adds its changes to those before.
    pub(crate) fn keep(&mut self, changes: &mut InitChanges) {
        changes.made = self.used.take();
    }

    /// The call succeeded: takes its changes, if there are any.
    pub(crate) fn take_changes(&mut self) -> Option<CallChanges> {
        self.used.take().filter(|changes| !changes.is_empty())
    }

    fn rights(&self) -> Answer<&Arc<KvRights>> {
        match &self.access {
            KvAccess::Denied(reason) => Err(error(ErrorCode::Denied, *reason)),
            KvAccess::Granted(_) if self.at_success == AtSuccess::Nothing => {
                Err(error(ErrorCode::Denied, DENIED_OUTSIDE_HANDLERS))
            }
            KvAccess::Granted(rights) => Ok(rights),
        }
    }
}

impl GuestState {
    /// Runs `function` on the keys, which the first call of a plugin opens.
    async fn with_keys<T>(
        &mut self,
        name: &'static str,
        function: impl FnOnce(&mut CallChanges) -> Answer<T>,
    ) -> Answer<T> {
        let rights = Arc::clone(self.kv.rights()?);
        let answer = match self.open(&rights).await {
            Ok(changes) => function(changes),
            Err(problem) => Err(problem),
        };
        rights.count(name, answer.as_ref().err());
        answer
    }

    async fn open(&mut self, rights: &Arc<KvRights>) -> Answer<&mut CallChanges> {
        if self.kv.used.is_none() {
            // The guest is to see an error before its own time is over.
            let opened = self.kv.time.bound(rights.open()).await;
            let stored = opened.unwrap_or_else(|TooLate| Err(error(ErrorCode::Unavailable, OPENED_TOO_LATE)))?;
            rights.show(stored.usage());
            let space = match self.kv.at_success {
                AtSuccess::Keep { is_dry_run: false } => stored,
                _ => rights.overlaid(&stored),
            };
            self.kv.used = Some(CallChanges::new(Arc::clone(rights), space));
        }
        self.kv
            .used
            .as_mut()
            .ok_or_else(|| error(ErrorCode::Other, "the call is over"))
    }
}

impl kv::Host for GuestState {
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
            Ok(keys.list(&prefix, &cursor, max))
        };
        Ok(self.with_keys("list", list).await)
    }
}

/// Checks a key.
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
