//! The contract's deferred writes: kept until the call ends, then made on the [`Cache`], or dropped.

use serde_json::Value;

use super::cache::{self, Cache, State};
use super::cluster::{self, Answer, cluster_of, document, refusal};
use super::options::{self, DeleteOptions, WriteOptions};
use crate::bindings::imports::informant::plugin::kube::{Address, ApiErrorCode, PatchKind};
use crate::kube;

/// The most writes that one call may defer, as in Informant.
const CALL_WRITES_MAX: usize = 100;

/// A write, to be made.
pub(super) type DeferredWrite = Box<dyn FnOnce() -> Answer<()>>;

impl Cache {
    /// Makes the writes that the plugin has deferred, as Informant does after a call that succeeded. A
    /// [`Driver`](super::Driver) does that by itself.
    ///
    /// # Errors
    /// The first error; the writes after it are dropped.
    pub fn make_deferred(&self) -> kube::Result<()> {
        let writes = cache::with(State::end_deferred);
        writes
            .into_iter()
            .try_for_each(|write| write())
            .map_err(kube::Error::from)
    }

    /// Drops the writes that the plugin has deferred, as Informant does after a call that failed.
    pub(super) fn drop_deferred(&self) {
        cache::with(State::end_deferred);
    }
}

impl State {
    /// The call has ended: returns the writes that it has deferred.
    fn end_deferred(&mut self) -> Vec<DeferredWrite> {
        self.owned.end();
        std::mem::take(&mut self.deferred)
    }

    /// Keeps a write to `address`, with the cluster of the present call.
    pub(super) fn defer(
        &mut self,
        address: &Address,
        write: impl FnOnce(&Address) -> Answer<()> + 'static,
    ) -> Answer<()> {
        let address = Address {
            cluster: cluster_of(self, address)?,
            ..address.clone()
        };
        self.deferred.push(Box::new(move || write(&address)));
        Ok(())
    }
}

pub(crate) fn create(address: &Address, object: &[u8], options: &[u8]) -> Answer<()> {
    options::parse::<WriteOptions>(options)?;
    let written = document(object)?;
    if address.subresource.is_empty() && written.pointer("/metadata/name").and_then(Value::as_str).is_none() {
        let message =
            "a deferred create needs metadata.name: with generateName, each attempt would create one more object";
        return Err(refusal(ApiErrorCode::Invalid, message));
    }
    let (object, options) = (object.to_owned(), options.to_owned());
    push(address, move |at| cluster::create(at, &object, &options).map(drop))
}

pub(crate) fn update(address: &Address, object: &[u8], options: &[u8]) -> Answer<()> {
    options::parse::<WriteOptions>(options)?;
    document(object)?;
    let (object, options) = (object.to_owned(), options.to_owned());
    push(address, move |at| cluster::update(at, &object, &options).map(drop))
}

pub(crate) fn patch(address: &Address, kind: PatchKind, patch: &[u8], options: &[u8]) -> Answer<()> {
    options::parse::<WriteOptions>(options)?;
    let (patch, options) = (patch.to_owned(), options.to_owned());
    push(address, move |at| cluster::patch(at, kind, &patch, &options).map(drop))
}

pub(crate) fn delete(address: &Address, options: &[u8]) -> Answer<()> {
    let parsed: DeleteOptions = options::parse(options)?;
    if parsed.preconditions.uid.is_empty() {
        let message = "a deferred delete needs preconditions.uid: the name may belong to another object by then";
        return Err(refusal(ApiErrorCode::Invalid, message));
    }
    let options = options.to_owned();
    let has_version = !parsed.preconditions.resource_version.is_empty();
    push(address, move |at| match cluster::delete(at, &options) {
        Err(error) if error.code == ApiErrorCode::NotFound => Ok(()),
        // Its name has another object.
        Err(error) if error.code == ApiErrorCode::Conflict && !has_version => Ok(()),
        done => done,
    })
}

/// Keeps a write that counts as one of the call.
fn push(address: &Address, write: impl FnOnce(&Address) -> Answer<()> + 'static) -> Answer<()> {
    cluster::ask(|state| {
        if state.deferred.len() - state.owned.writes() == CALL_WRITES_MAX {
            let message = format!("a call can defer at most {CALL_WRITES_MAX} writes");
            return Err(refusal(ApiErrorCode::TooLarge, message));
        }
        state.defer(address, write)
    })
}
