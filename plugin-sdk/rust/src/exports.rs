//! The contract's exports, which Informant calls, implemented by the traits of a plugin.
//!
//! Each instance has one plugin, in a thread-local. By the contract, `init` is called once and first; a call before it
//! returns a failure and does not trap.

use std::any::Any;
use std::cell::RefCell;
use std::marker::PhantomData;

use crate::bindings;
use crate::bindings::imports::informant::plugin::types as contract;
use crate::event::{Deleted, Event, ObjectRef, SourceId};
use crate::failure::{Failure, Result};
use crate::index_values::IndexValues;
use crate::log;
use crate::manifest::Named;
use crate::payload::Payload;
use crate::plugin::{EventHandler, IndexFuncs, Init, Plugin, Stateful, SyncHandler};

thread_local! {
    // `Any`, because the plugin's type is unknown to this crate.
    static PLUGIN: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
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

pub(crate) fn on_add<P: EventHandler>(plugin: &mut P, event: &Event, object: Vec<u8>) -> Result {
    plugin.on_add(event, P::Object::decode(object)?)
}

pub(crate) fn on_update<P: EventHandler>(
    plugin: &mut P,
    event: &Event,
    old: Option<Vec<u8>>,
    object: Vec<u8>,
) -> Result {
    let old = old.map(P::Object::decode).transpose()?;
    plugin.on_update(event, old, P::Object::decode(object)?)
}

pub(crate) fn on_delete<P: EventHandler>(
    plugin: &mut P,
    event: &Event,
    last: Vec<u8>,
    final_state_unknown: bool,
) -> Result {
    // The document is empty if the cache knows only the key of a deleted object.
    let last = (!last.is_empty()).then(|| P::Object::decode(last)).transpose()?;
    plugin.on_delete(
        event,
        Deleted {
            last,
            final_state_unknown,
        },
    )
}

pub(crate) fn index<P: IndexFuncs>(plugin: &mut P, of: &ObjectRef, object: Vec<u8>) -> Result<IndexValues> {
    plugin.index(of, P::Object::decode(object)?)
}

impl<P: Plugin + Named> bindings::lifecycle::exports::informant::plugin::lifecycle::Guest for Exports<P> {
    fn describe() -> Vec<u8> {
        log::report_panics();
        P::describe().to_json::<P>()
    }

    fn init(role: contract::InstanceRole, config: Vec<u8>) -> Result<(), contract::Failure> {
        log::report_panics();
        let plugin = P::init(Init::new(role, config))?;
        PLUGIN.set(Some(Box::new(plugin)));
        Ok(())
    }
}

impl<P: EventHandler> bindings::events::exports::informant::plugin::event_handler::Guest for Exports<P> {
    fn on_add(o: contract::ObjectRef, c: contract::Call, object: Vec<u8>) -> Result<(), contract::Failure> {
        Ok(with_plugin::<P, _>(|plugin| on_add(plugin, &Event::new(o, c), object))?)
    }

    fn on_update(
        o: contract::ObjectRef,
        c: contract::Call,
        old: Option<Vec<u8>>,
        object: Vec<u8>,
    ) -> Result<(), contract::Failure> {
        Ok(with_plugin::<P, _>(|plugin| {
            on_update(plugin, &Event::new(o, c), old, object)
        })?)
    }

    fn on_delete(
        o: contract::ObjectRef,
        c: contract::Call,
        last: Vec<u8>,
        final_state_unknown: bool,
    ) -> Result<(), contract::Failure> {
        Ok(with_plugin::<P, _>(|plugin| {
            on_delete(plugin, &Event::new(o, c), last, final_state_unknown)
        })?)
    }
}

impl<P: SyncHandler> bindings::sync::exports::informant::plugin::sync_handler::Guest for Exports<P> {
    fn on_synced(source: u32) -> Result<(), contract::Failure> {
        Ok(with_plugin::<P, _>(|plugin| plugin.on_synced(SourceId(source)))?)
    }
}

impl<P: IndexFuncs> bindings::index::exports::informant::plugin::index_funcs::Guest for Exports<P> {
    fn index(o: contract::ObjectRef, object: Vec<u8>) -> Result<Vec<(String, Vec<String>)>, String> {
        let answer = with_plugin::<P, _>(|plugin| index(plugin, &o.into(), object));
        answer
            .map(IndexValues::into_pairs)
            .map_err(|failure| failure.message().to_owned())
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
