//! The contract's exports, which Informant calls, implemented by the traits of a plugin.
//!
//! Each instance has one plugin, in a thread-local. By the contract, `init` is called once and first; a call before it
//! returns a failure and does not trap.

use std::any::Any;
use std::cell::RefCell;
use std::marker::PhantomData;

use crate::action::Action;
use crate::bindings::imports::informant::plugin::types as contract;
use crate::context::{Describe, Init, Role};
use crate::event::{Deleted, Event, ObjectRef, SourceId};
use crate::failure::{Failure, Result};
use crate::index_values::IndexValues;
use crate::manifest::{Manifest, Named};
use crate::payload::Payload;
use crate::plugin::{EventHandler, IndexFuncs, Plugin, Stateful, SyncHandler};
use crate::{bindings, call, log};

thread_local! {
    // `Any`, because the plugin's type is unknown to this crate.
    static PLUGIN: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
    /// The names of the indexes in the manifest's order, in an instance for index functions.
    static INDEX_NAMES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// The exports of the plugin `P`: implements the contract's trait for each role that `P` plays.
pub struct Exports<P>(PhantomData<P>);

/// Calls the plugin of this instance.
fn with_plugin<P: Plugin, T>(call: impl FnOnce(&mut P) -> Result<T>) -> Result<T> {
    PLUGIN.with_borrow_mut(
        |plugin| match plugin.as_mut().and_then(|plugin| plugin.downcast_mut::<P>()) {
            Some(plugin) => call(plugin),
            None => Err(Failure::permanent("the plugin was called before init")),
        },
    )
}

/// The manifest of a plugin, checked.
pub(crate) fn describe<P: Plugin>(describe: Describe) -> Result<Manifest> {
    let manifest = P::describe(describe)?;
    manifest.check()?;
    Ok(manifest)
}

pub(crate) fn on_add<P: EventHandler>(plugin: &mut P, event: &Event, object: Vec<u8>) -> Result<Action> {
    let object = P::Object::decode(object)?;
    call::about(event.source, || plugin.on_add(event, object))
}

pub(crate) fn on_update<P: EventHandler>(
    plugin: &mut P,
    event: &Event,
    old: Option<Vec<u8>>,
    object: Vec<u8>,
) -> Result<Action> {
    let old = old.map(P::Object::decode).transpose()?;
    let object = P::Object::decode(object)?;
    call::about(event.source, || plugin.on_update(event, old, object))
}

pub(crate) fn on_delete<P: EventHandler>(
    plugin: &mut P,
    event: &Event,
    last: Option<Vec<u8>>,
    final_state_unknown: bool,
) -> Result<Action> {
    let deleted = Deleted {
        last: last.map(P::Object::decode).transpose()?,
        final_state_unknown,
    };
    call::about(event.source, || plugin.on_delete(event, deleted))
}

pub(crate) fn on_synced<P: SyncHandler>(plugin: &mut P, source: SourceId) -> Result {
    call::about(source, || plugin.on_synced(source))
}

/// The values by position: for each of `names`.
pub(crate) fn index<P: IndexFuncs>(
    plugin: &mut P,
    names: &[String],
    of: &ObjectRef,
    object: Vec<u8>,
) -> Result<Vec<Vec<String>>> {
    let object = P::Object::decode(object)?;
    let values: IndexValues = call::about(of.source, || plugin.index(of, object))?;
    values.by_position(names)
}

impl<P: Plugin + Named> bindings::lifecycle::exports::informant::plugin::lifecycle::Guest for Exports<P> {
    fn describe(context: Vec<u8>) -> Result<Vec<u8>, String> {
        log::report_panics();
        let manifest = Describe::parse(&context).and_then(describe::<P>);
        manifest
            .map(|manifest| manifest.to_json::<P>())
            .map_err(|failure| failure.message().to_owned())
    }

    fn init(context: Vec<u8>) -> Result<(), contract::Failure> {
        log::report_panics();
        let init = Init::parse(&context)?;
        if init.role == Role::Index {
            // `describe` was called in another instance.
            INDEX_NAMES.set(describe::<P>(init.describe().clone())?.index_names().to_vec());
        }
        PLUGIN.set(Some(Box::new(P::init(init)?)));
        Ok(())
    }
}

impl<P: EventHandler> bindings::events::exports::informant::plugin::event_handler::Guest for Exports<P> {
    fn on_add(
        about: contract::ObjectRef,
        call: contract::Call,
        object: Vec<u8>,
    ) -> Result<Option<u32>, contract::Failure> {
        let action = with_plugin::<P, _>(|plugin| on_add(plugin, &Event::new(about, call), object))?;
        Ok(action.into_ms())
    }

    fn on_update(
        about: contract::ObjectRef,
        call: contract::Call,
        old: Option<Vec<u8>>,
        object: Vec<u8>,
    ) -> Result<Option<u32>, contract::Failure> {
        let action = with_plugin::<P, _>(|plugin| on_update(plugin, &Event::new(about, call), old, object))?;
        Ok(action.into_ms())
    }

    fn on_delete(
        about: contract::ObjectRef,
        call: contract::Call,
        last: Option<Vec<u8>>,
        final_state_unknown: bool,
    ) -> Result<Option<u32>, contract::Failure> {
        let event = Event::new(about, call);
        let action = with_plugin::<P, _>(|plugin| on_delete(plugin, &event, last, final_state_unknown))?;
        Ok(action.into_ms())
    }
}

impl<P: SyncHandler> bindings::sync::exports::informant::plugin::sync_handler::Guest for Exports<P> {
    fn on_synced(source: u32) -> Result<(), contract::Failure> {
        Ok(with_plugin::<P, _>(|plugin| on_synced(plugin, SourceId(source)))?)
    }
}

impl<P: IndexFuncs> bindings::index::exports::informant::plugin::index_funcs::Guest for Exports<P> {
    fn index(about: contract::ObjectRef, object: Vec<u8>) -> Result<Vec<Vec<String>>, String> {
        let values =
            INDEX_NAMES.with_borrow(|names| with_plugin::<P, _>(|plugin| index(plugin, names, &about.into(), object)));
        values.map_err(|failure| failure.message().to_owned())
    }
}

pub(crate) fn save<P: Stateful>(plugin: &P) -> Result<Vec<u8>> {
    let state = plugin.save()?;
    serde_json::to_vec(&state)
        .map_err(|error| Failure::permanent(format_args!("the state cannot be written as JSON: {error}")))
}

pub(crate) fn restore<P: Stateful>(plugin: &mut P, state: &[u8]) -> Result {
    let state = serde_json::from_slice(state).map_err(|error| {
        Failure::permanent(format_args!(
            "the state that the version before saved does not fit: {error}"
        ))
    })?;
    plugin.restore(state)
}

impl<P: Stateful> bindings::state::exports::informant::plugin::state::Guest for Exports<P> {
    fn save() -> Result<Vec<u8>, contract::Failure> {
        Ok(with_plugin::<P, _>(|plugin| save(plugin))?)
    }

    fn restore(state: Vec<u8>) -> Result<(), contract::Failure> {
        Ok(with_plugin::<P, _>(|plugin| restore(plugin, &state))?)
    }
}

/// Compiles only if `P` implements the trait of a role that `export!` lists.
pub fn plays_events<P: EventHandler>() {}

/// As [`plays_events`].
pub fn plays_sync<P: SyncHandler>() {}

/// As [`plays_events`].
pub fn plays_state<P: Stateful>() {}

/// As [`plays_events`].
pub fn plays_index<P: IndexFuncs>() {}
