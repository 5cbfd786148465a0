//! What direct calls have changed, so that a handler that writes again and again is spaced as one that defers its
//! writes.

use super::api::{KubeAction, KubeAddress};
use super::gate::{self, version_of};
use super::plugin::KubePlugin;
use super::writes::{Target, Written};

/// Objects changed by direct calls of one call into a guest that are counted: 100, as many as writes can be deferred.
const DIRECT_WRITES_MAX: usize = 100;

/// The objects that the direct calls of one call into a guest have changed; one that was changed twice is in it twice.
#[derive(Debug, Default)]
pub(super) struct DirectWrites {
    changed: Vec<Target>,
    /// What the cache has to see of them, if the event waits for that.
    awaited: Vec<Written>,
}

/// The object that a direct call is about to change.
pub(super) struct Before {
    target: Target,
    address: KubeAddress,
    /// The uid of an object that is to be deleted.
    deleted: Option<String>,
    /// Its versions in the cache and after the plugin's last write: a response with another one is a change.
    versions: [Option<Box<str>>; 2],
}

impl Before {
    /// None for a call that changes no object, or one whose name is not known.
    pub(super) fn of(plugin: &KubePlugin, address: &KubeAddress, action: &KubeAction) -> Option<Before> {
        if plugin.dry_run.is_dry_run() || !action.is_write() {
            return None;
        }
        let made = gate::name_made(address, action).ok()?;
        let name = if made.is_empty() { address.name.clone() } else { made };
        if name.is_empty() {
            return None;
        }
        let cluster = gate::api(plugin).ok()?.cluster(&address.cluster).ok()?;
        let address = KubeAddress {
            cluster,
            name,
            ..address.clone()
        };
        let target = Target::new(&address, &address.name);
        let versions = [plugin.cache.version(&address), plugin.own.version(&target)];
        let deleted = match action {
            KubeAction::Delete(options) => Some(options.uid.clone()),
            _ => None,
        };
        Some(Before {
            target,
            address,
            deleted,
            versions,
        })
    }
}

impl DirectWrites {
    pub(super) fn clear(&mut self) {
        self.changed.clear();
        self.awaited.clear();
    }

    /// A call has returned `body`. Whether the event waits until the cache has seen it: `is_awaited`.
    pub(super) fn note(&mut self, before: Before, body: &[u8], is_awaited: bool) {
        let version = version_of(body);
        let is_change = version.is_some() && !before.versions.contains(&version);
        if !is_change || self.changed.len() == DIRECT_WRITES_MAX {
            return;
        }
        if is_awaited {
            self.awaited.push(Written::of(before.address, before.deleted, version));
        }
        self.changed.push(before.target);
    }

    pub(super) fn take(&mut self) -> (Vec<Target>, Vec<Written>) {
        (std::mem::take(&mut self.changed), std::mem::take(&mut self.awaited))
    }
}
