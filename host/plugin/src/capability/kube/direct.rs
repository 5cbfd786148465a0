//! What direct calls have changed, so that a handler that writes again and again is spaced as one that defers its
//! writes.

use super::api::{KubeAction, KubeAddress};
use super::gate::{self, version_of};
use super::plugin::KubePlugin;
use super::writes::Target;

/// Objects changed by direct calls of one call into a guest that are counted: 100, as many as writes can be deferred.
const DIRECT_WRITES_MAX: usize = 100;

/// The objects that the direct calls of one call into a guest have changed; one that was changed twice is in it twice.
#[derive(Debug, Default)]
pub(super) struct DirectWrites(Vec<Target>);

/// The object that a direct call is about to change.
pub(super) struct Before {
    target: Target,
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
        Some(Before { target, versions })
    }
}

impl DirectWrites {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// A call has returned `body`.
    pub(super) fn note(&mut self, before: Before, body: &[u8]) {
        let version = version_of(body);
        if version.is_some() && !before.versions.contains(&version) && self.0.len() < DIRECT_WRITES_MAX {
            self.0.push(before.target);
        }
    }

    pub(super) fn take(&mut self) -> Vec<Target> {
        std::mem::take(&mut self.0)
    }
}
