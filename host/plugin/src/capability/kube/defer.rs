//! Deferred writes: validated and authorized at once, made after the call succeeded.

use super::api::{KubeAction, KubeAddress, KubeError, KubeErrorCode};
use super::gate::{self, authorize};
use super::plugin::KubePlugin;
use super::writes::{DeferredWrite, Target};
use super::{Answer, KubeCaller};
use crate::bindings::informant::plugin::kube::{Address, ApiError};

impl KubeCaller {
    /// Adds a write to those of the current call.
    pub(super) fn defer(&mut self, mut address: Address, action: Result<KubeAction, KubeError>) -> Answer<()> {
        let action = self.complete(&mut address).and(action);
        self.write(address, action)
            .and_then(|write| self.deferred.push(write))
            .map_err(ApiError::from)
    }

    /// Adds a write of a child, which does not count among those that the call may defer.
    pub(super) fn defer_child(&mut self, address: Address, action: KubeAction) -> Result<(), KubeError> {
        let write = self.write(address, Ok(action))?;
        self.deferred.push_child(write)
    }

    fn write(&self, address: Address, action: Result<KubeAction, KubeError>) -> Result<DeferredWrite, KubeError> {
        self.check()?;
        let plugin = &self.plugin;
        let (mut address, action) = (KubeAddress::try_from(address)?, action?);
        authorize(plugin, &self.grants.get(), &address, &action)?;
        let made = gate::name_made(&address, &action)?;
        check_repeatable(&address, &action, &made)?;
        address.cluster = gate::api(plugin)?.cluster(&address.cluster)?;
        let name = if made.is_empty() { &address.name } else { &made };
        let name = name.clone();
        let is_awaited = self.awaits_writes;
        if is_awaited {
            check_cached(plugin, &address)?;
        }
        let target = Target::new(&address, &name);
        Ok(DeferredWrite {
            uid: self.known_uid(&address, &action, &target),
            target,
            name,
            address,
            action,
            is_awaited,
            recorder: self.tape.recorder(),
            cause: self.cause.get(),
        })
    }
}

/// Rejects a write that the cache will never see.
fn check_cached(plugin: &KubePlugin, address: &KubeAddress) -> Result<(), KubeError> {
    if plugin.cache.source(address).is_some() {
        return Ok(());
    }
    let message = format!(
        "the manifest has `writes: seen`, but no informer of the plugin reads {} in namespace {:?}: add one to \
         `informers` in config.toml, or remove `writes` from the manifest",
        address.resource, address.namespace
    );
    Err(KubeError::new(KubeErrorCode::Invalid, message))
}

/// Rejects writes that another attempt would make once more, on another object.
fn check_repeatable(address: &KubeAddress, action: &KubeAction, made: &str) -> Result<(), KubeError> {
    let problem = match action {
        KubeAction::Create(..) if address.subresource.is_empty() && made.is_empty() => {
            "a deferred create needs metadata.name: with generateName, each attempt would create one more object; derive \
             the name from the object that the call is about, or use the direct create"
        }
        KubeAction::Delete(options) if options.uid.is_empty() => {
            "a deferred delete needs preconditions.uid: the name may belong to another object by then; set the uid of \
             the object to delete"
        }
        _ => return Ok(()),
    };
    Err(KubeError::new(KubeErrorCode::Invalid, problem))
}
