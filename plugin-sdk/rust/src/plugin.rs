//! The traits that a plugin implements: [`Plugin`], and one for each role it plays.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::action::Action;
use crate::context::{Describe, Init};
use crate::event::{Deleted, Event, ObjectRef, Request, Synced, Tick};
#[cfg(doc)]
use crate::failure::Failure;
use crate::failure::Result;
use crate::index_values::IndexValues;
use crate::manifest::Manifest;
use crate::payload::Payload;

/// Every plugin implements this trait: it describes the plugin and starts it.
pub trait Plugin: Sized + 'static {
    /// Returns the manifest. By default a handler receives every object, whole. The manifest may depend on the config.
    /// Called first, in a separate instance, and again before `init` in each instance for index functions. Every host
    /// call except logging is denied.
    ///
    /// # Errors
    /// If it fails, Informant refuses the plugin and reports the message.
    fn describe(describe: Describe) -> Result<Manifest> {
        let _ = describe;
        Ok(Manifest::new())
    }

    /// Creates the plugin. Called once in each instance, before `restore`, handlers and index functions. After a trap,
    /// it is called in a new instance. Every host call except logging is denied: read the cache in handlers.
    ///
    /// # Errors
    /// Informant tries again after a retryable failure. A permanent one rejects the plugin, with its message: use
    /// [`Failure::permanent`] for an invalid config, as [`Describe::config`] does.
    fn init(init: Init) -> Result<Self>;
}

/// The role `events`: handles each change.
///
/// An event reports what the cache saw, so most handlers treat an add and an update alike: the object now has this
/// state. Such handlers implement [`on_upsert`](Self::on_upsert), to which `on_add` and `on_update` forward by default.
/// The other defaults do nothing.
///
/// `T` is the type that objects are decoded to: see [`Payload`]. A plugin for objects of several kinds implements the
/// trait for a type of each [`Kind`](crate::Kind) and lists the types in [`export!`](crate::export!):
/// `export!(Watcher: events(Pod, Node))`.
pub trait EventHandler<T: Payload = Value>: Plugin {
    /// Called when an object was added or updated. The [`Action`] says whether Informant calls again later without a
    /// change.
    ///
    /// # Errors
    /// A [`Failure`] tells Informant whether and when to retry.
    fn on_upsert(&mut self, event: &Event, object: T) -> Result<Action> {
        let _ = (event, object);
        Ok(Action::done())
    }

    /// Called when an object was added. Forwards to [`on_upsert`](Self::on_upsert) by default.
    ///
    /// # Errors
    /// As [`on_upsert`](Self::on_upsert).
    fn on_add(&mut self, event: &Event, object: T) -> Result<Action> {
        self.on_upsert(event, object)
    }

    /// Called when an object was updated. `old` is present only if the manifest requests it and Informant still knows
    /// the previous state. Forwards to [`on_upsert`](Self::on_upsert) by default.
    ///
    /// # Errors
    /// As [`on_upsert`](Self::on_upsert).
    fn on_update(&mut self, event: &Event, old: Option<T>, object: T) -> Result<Action> {
        let _ = old;
        self.on_upsert(event, object)
    }

    /// Called when an object was deleted.
    ///
    /// # Errors
    /// As [`on_upsert`](Self::on_upsert).
    fn on_delete(&mut self, event: &Event, object: Deleted<T>) -> Result<Action> {
        let _ = (event, object);
        Ok(Action::done())
    }
}

/// The role `reconciler`: brings what belongs to an object to its wanted state. A plugin has this role or `events`.
///
/// The [`Manifest`] names the objects and what leads to them, with [`Manifest::reconciles`].
///
/// ```
/// # use informant_plugin_sdk::prelude::*;
/// # use serde::Deserialize;
/// # #[derive(Deserialize)] struct Website {}
/// # struct Websites;
/// impl Plugin for Websites {
///     fn describe(_: Describe) -> Result<Manifest> {
///         let websites = Reconciles::of("example.com/v1", "Website").owns(Related::of("apps/v1", "Deployment"));
///         Ok(Manifest::new().reconciles(websites))
///     }
/// #   fn init(_: Init) -> Result<Self> { Ok(Websites) }
/// }
///
/// impl Reconciler for Websites {
///     type Object = Website;
///
///     fn reconcile(&mut self, request: &Request, website: Option<Website>) -> Result<Action> {
///         let Some(website) = website else {
///             info!("{request} is gone");
///             return Ok(Action::done());
///         };
///         // Whatever was there: now exactly these belong to the website.
///         let done = kube::children(request).fields([deployment(&website)]).set()?;
///         kube::set_status(request, &json!({ "conditions": done.conditions() }))?;
///         Ok(Action::done())
///     }
/// }
/// # fn deployment(_: &Website) -> Value { Value::Null }
///
/// export!(Websites: reconciler);
/// ```
pub trait Reconciler: Plugin {
    /// The type that objects are decoded to: see [`Payload`].
    type Object: Payload;

    /// Called for one object at a time, whatever caused it: the object has changed, or one that leads to it; after a
    /// start, for each object. `object` is `None` if it is gone. What changes during a call leads to another one.
    ///
    /// # Errors
    /// A [`Failure`] tells Informant whether and when to retry.
    fn reconcile(&mut self, request: &Request, object: Option<Self::Object>) -> Result<Action>;
}

/// The role `timers`: called on a schedule, whether or not something has changed. A plugin may have no other role, or
/// handle events or reconcile objects, too.
///
/// The [`Manifest`] names the timers, with [`Manifest::timer`].
///
/// ```
/// # use informant_plugin_sdk::prelude::*;
/// # struct Report;
/// impl Plugin for Report {
///     fn describe(_: Describe) -> Result<Manifest> {
///         Ok(Manifest::new().timer(Timer::cron("report", "0 8 * * 1-5").zone("Europe/Berlin")))
///     }
/// #   fn init(_: Init) -> Result<Self> { Ok(Report) }
/// }
///
/// impl TimerHandler for Report {
///     fn on_timer(&mut self, tick: &Tick) -> Result {
///         let pods = store::list("pods").objects::<Value>().collect::<Result<Vec<_>>>()?;
///         info!("{tick} of {}: {} pods", tick.scheduled, pods.len());
///         Ok(())
///     }
/// }
///
/// export!(Report: timers);
/// ```
pub trait TimerHandler: Plugin {
    /// Called when a timer is due. Runs of one timer follow each other, all in the instance with the number 0. A run
    /// that has ended is not repeated after a restart of Informant.
    ///
    /// The call is about no object: in a plugin that runs in several clusters, name the cluster of what you read and
    /// write.
    ///
    /// # Errors
    /// A [`Failure`] tells Informant whether and when to retry. The next run that is due stands for one that has
    /// failed. A permanent failure ends the run.
    fn on_timer(&mut self, tick: &Tick) -> Result;
}

/// The role `sync`: called when the handler has received every object of a source.
pub trait SyncHandler: Plugin {
    /// Called after each initial list and each replay, once every object in it has been attempted.
    ///
    /// # Errors
    /// A [`Failure`] tells Informant whether and when to retry.
    fn on_synced(&mut self, synced: &Synced) -> Result;
}

/// The role `state`: transfers the plugin's state to the next version in a hot swap.
///
/// Without it, a new version starts with empty state; `on-reload` in config.toml decides whether it receives a replay
/// of the cache. After a trap there is no state to transfer, so the new instance starts empty.
///
/// ```
/// # use informant_plugin_sdk::prelude::*;
/// # use std::collections::BTreeMap;
/// # struct Counter { restarts: BTreeMap<String, u64> }
/// # impl Plugin for Counter {
/// #     fn init(_: Init) -> Result<Self> { Ok(Counter { restarts: BTreeMap::new() }) }
/// # }
/// # impl EventHandler for Counter {}
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
    /// The state, transferred as JSON. The next version reads what this one wrote: give new fields `#[serde(default)]`,
    /// and do not rename old ones.
    type State: Serialize + DeserializeOwned;

    /// Returns the state for the next version.
    ///
    /// # Errors
    /// A failure cancels the swap, and this version keeps running.
    fn save(&self) -> Result<Self::State>;

    /// Receives the state that the previous version saved. Called after `init` and before the first event. It is not
    /// called if there was no previous version or if that version lost its memory.
    ///
    /// # Errors
    /// A failure cancels the swap, and the previous version keeps running. The same happens if the state does not match
    /// [`Stateful::State`].
    fn restore(&mut self, state: Self::State) -> Result;
}

/// The role `index`: computes index values, by which objects can be looked up.
pub trait IndexFuncs: Plugin {
    /// The type that objects are decoded to: see [`Payload`].
    type Object: Payload;

    /// Returns the values of one object for each of the plugin's indexes. They must depend only on the arguments. Every
    /// host call except logging is denied.
    ///
    /// # Errors
    /// The plugin's indexes then lack the object. Informant counts it and reports it with the message of the failure.
    fn index(&mut self, of: &ObjectRef, object: Self::Object) -> Result<IndexValues>;
}
