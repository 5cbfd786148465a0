//! The traits a plugin implements: [`Plugin`] always, and one for each role it plays.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bindings::imports::informant::plugin::types as contract;
use crate::event::{Deleted, Event, ObjectRef, SourceId};
use crate::failure::{Failure, Result};
use crate::index_values::IndexValues;
use crate::manifest::Manifest;
use crate::payload::Payload;

pub use contract::InstanceRole;

/// What every plugin is: something that describes itself and can be started.
pub trait Plugin: Sized + 'static {
    /// What the plugin wants to be told and what it offers; by default a handler is told about every object, whole.
    /// Asked for before anything else, in an instance of its own in which every host call but logging is denied.
    fn describe() -> Manifest {
        Manifest::new()
    }

    /// Makes the plugin. Called once in each instance, before any other call; after a trap, again in a new instance.
    ///
    /// # Errors
    /// A failure refuses the plugin, with its message: [`Failure::permanent`] for a config that makes no sense.
    fn init(init: Init) -> Result<Self>;
}

/// What a new instance is told.
#[derive(Debug, Clone)]
pub struct Init {
    /// What the instance is for. Index functions run in instances of their own, which share no memory with the
    /// handler's.
    pub role: InstanceRole,
    config: Vec<u8>,
}

impl Init {
    pub(crate) fn new(role: InstanceRole, config: Vec<u8>) -> Self {
        Self { role, config }
    }

    /// The `config` table of the plugin's section in config.toml.
    ///
    /// # Errors
    /// [`Failure::Permanent`] if it does not fit `T`, naming the field.
    pub fn config<T: DeserializeOwned>(&self) -> Result<T> {
        let json = if self.config.is_empty() {
            b"{}"
        } else {
            self.config.as_slice()
        };
        serde_json::from_slice(json).map_err(|error| {
            // Line and column are of a document that the reader of the message has never seen.
            let text = error.to_string();
            let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
            Failure::permanent(format_args!("config: {text}"))
        })
    }
}

/// The role of being told about each change.
///
/// Events say what the cache saw, so most handlers treat an add and an update alike, as "it is now like this": those
/// implement [`on_upsert`](Self::on_upsert), which both become unless they are implemented themselves. The defaults do
/// nothing.
pub trait EventHandler: Plugin {
    /// What objects are handed over as: see [`Payload`].
    type Object: Payload;

    /// The object is now like this.
    ///
    /// # Errors
    /// A [`Failure`] says whether and when Informant calls again.
    fn on_upsert(&mut self, event: &Event, object: Self::Object) -> Result {
        let _ = (event, object);
        Ok(())
    }

    /// The object is there. Becomes [`on_upsert`](Self::on_upsert) by default.
    ///
    /// # Errors
    /// As [`on_upsert`](Self::on_upsert).
    fn on_add(&mut self, event: &Event, object: Self::Object) -> Result {
        self.on_upsert(event, object)
    }

    /// The object is now like this. `old` only if the manifest asks for it and if it is still known. Becomes
    /// [`on_upsert`](Self::on_upsert) by default.
    ///
    /// # Errors
    /// As [`on_upsert`](Self::on_upsert).
    fn on_update(&mut self, event: &Event, old: Option<Self::Object>, object: Self::Object) -> Result {
        let _ = old;
        self.on_upsert(event, object)
    }

    /// The object is gone.
    ///
    /// # Errors
    /// As [`on_upsert`](Self::on_upsert).
    fn on_delete(&mut self, event: &Event, object: Deleted<Self::Object>) -> Result {
        let _ = (event, object);
        Ok(())
    }
}

/// The role of being told when a source has been shown completely.
pub trait SyncHandler: Plugin {
    /// Called after each initial list and each replay, once every object of it was attempted.
    ///
    /// # Errors
    /// A [`Failure`] says whether and when Informant calls again.
    fn on_synced(&mut self, source: SourceId) -> Result;
}

/// The role of handing over what the plugin remembers when another version of it is swapped in.
///
/// Without it a new version begins with nothing and is shown the cache again, or not, as `on-reload` says. After a trap
/// there is nothing to hand over: the new instance begins with nothing in any case.
///
/// ```
/// # use informant_plugin_sdk::prelude::*;
/// # use std::collections::BTreeMap;
/// # struct Counter { restarts: BTreeMap<String, u64> }
/// # impl Plugin for Counter {
/// #     fn init(_: Init) -> Result<Self> { Ok(Counter { restarts: BTreeMap::new() }) }
/// # }
/// # impl EventHandler for Counter { type Object = Value; }
/// impl Stateful for Counter {
///     type State = BTreeMap<String, u64>;
///
///     fn save(&self) -> Result<Self::State> {
///         Ok(self.restarts.clone())
///     }
///
///     fn restore(&mut self, restarts: Self::State) -> Result {
///         self.restarts = restarts;
///         Ok(())
///     }
/// }
///
/// export!(Counter: events, state);
/// ```
pub trait Stateful: Plugin {
    /// What is handed over, as JSON. The next version reads what this one wrote: give fields that come later
    /// `#[serde(default)]`, and do not rename old ones.
    type State: Serialize + DeserializeOwned;

    /// What the next version should know.
    ///
    /// # Errors
    /// A failure refuses the swap; this version runs on.
    fn save(&self) -> Result<Self::State>;

    /// Takes what the version before saved. Called after `init` and before the first event; not at all if there was
    /// none, or if it lost its memory.
    ///
    /// # Errors
    /// A failure refuses the swap; the version before runs on. So does a state that does not fit [`Stateful::State`].
    fn restore(&mut self, state: Self::State) -> Result;
}

/// The role of computing index values, by which objects can then be looked up.
pub trait IndexFuncs: Plugin {
    /// What objects are handed over as: see [`Payload`].
    type Object: Payload;

    /// The values of each of the plugin's indexes for one object. They must depend on the arguments alone; every host
    /// call but logging is denied.
    ///
    /// # Errors
    /// The object is then absent from the plugin's indexes, counted and listed with the failure's message.
    fn index(&mut self, of: &ObjectRef, object: Self::Object) -> Result<IndexValues>;
}
