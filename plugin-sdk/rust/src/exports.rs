//! The contract's exports, which Informant calls, implemented by the traits of a plugin.
//!
//! Each instance has one plugin, in a thread-local. By the contract, `init` is called once and first; a call before it
//! returns a failure and does not trap.

use std::any::Any;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;

use crate::action::Action;
use crate::bindings::imports::informant::plugin::types as contract;
use crate::context::{Describe, Init, Role};
use crate::event::{Deleted, Event, ObjectRef, Request, SourceId, Synced, Tick};
use crate::failure::{Failure, Result};
use crate::index_values::IndexValues;
use crate::manifest::{Manifest, Named};
use crate::payload::Payload;
use crate::plugin::{EventHandler, IndexFuncs, Plugin, Reconciler, Stateful, SyncHandler, TimerHandler};
use crate::projection::Kind;
use crate::store::SourceInfo;
use crate::{bindings, call, context, log, store};

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

/// Starts the plugin of an instance.
pub(crate) fn init<P: Plugin>(init: Init) -> Result<P> {
    context::set_plugin_name(&init.plugin);
    P::init(init)
}

/// A change of an object, as it arrives.
#[derive(Debug)]
pub enum Change {
    /// For `on_add`.
    Add(Vec<u8>),
    /// For `on_update`: the old state, if there is one, and the new one.
    Update(Option<Vec<u8>>, Vec<u8>),
    /// For `on_delete`.
    Delete(Deleted<Vec<u8>>),
}

/// Passes a change to the plugin's handler for objects of that kind. Implemented by `export!`.
pub trait HandleEvents: Plugin {
    /// # Errors
    /// The failure of the handler, or a permanent failure if the object does not match its type.
    fn handle(&mut self, event: &Event, change: Change) -> Result<Action>;
}

/// Calls a handler. `T` is inferred if the plugin has only one.
///
/// # Errors
/// As [`HandleEvents::handle`].
pub fn handle<P: EventHandler<T>, T: Payload>(plugin: &mut P, event: &Event, change: Change) -> Result<Action> {
    match change {
        Change::Add(object) => {
            let object = T::decode(object)?;
            call::about(event.source, || plugin.on_add(event, object))
        }
        Change::Update(old, object) => {
            let old = old.map(T::decode).transpose()?;
            let object = T::decode(object)?;
            call::about(event.source, || plugin.on_update(event, old, object))
        }
        Change::Delete(Deleted {
            last,
            final_state_unknown,
        }) => {
            let last = last.map(T::decode).transpose()?;
            let deleted = Deleted {
                last,
                final_state_unknown,
            };
            call::about(event.source, || plugin.on_delete(event, deleted))
        }
    }
}

/// Whether objects of this source are of the kind `T`.
pub fn is_of<T: Kind>(source: &SourceInfo) -> bool {
    let matches = |pattern, text: &str| pattern == "*" || pattern == text;
    matches(T::API_VERSION, &source.api_version) && matches(T::KIND, &source.kind)
}

/// The source of an event.
///
/// # Errors
/// That of Informant.
pub fn source_of(event: &Event) -> Result<Rc<SourceInfo>> {
    Ok(store::constant(event.source)?)
}

/// The failure for an event of a kind that `export!` does not list.
///
/// # Errors
/// Always.
pub fn no_handler(source: &SourceInfo) -> Result<Action> {
    let SourceInfo { api_version, kind, .. } = source;
    Err(Failure::permanent(format_args!(
        "no handler for {api_version} {kind}: add its type to `events(…)` in export!, or remove its rule from the manifest"
    )))
}

pub(crate) fn reconcile<P: Reconciler>(plugin: &mut P, request: &Request, object: Option<Vec<u8>>) -> Result<Action> {
    let object = object.map(P::Object::decode).transpose()?;
    call::about(request.source, || plugin.reconcile(request, object))
}

pub(crate) fn on_timer<P: TimerHandler>(plugin: &mut P, tick: &Tick) -> Result {
    call::about_no_source(|| plugin.on_timer(tick))
}

pub(crate) fn on_synced<P: SyncHandler>(plugin: &mut P, synced: &Synced) -> Result {
    call::about(synced.source, || plugin.on_synced(synced))
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
        PLUGIN.set(Some(Box::new(self::init::<P>(init)?)));
        Ok(())
    }
}

impl<P: HandleEvents> bindings::events::exports::informant::plugin::event_handler::Guest for Exports<P> {
    fn on_add(
        about: contract::ObjectRef,
        call: contract::Call,
        object: Vec<u8>,
    ) -> Result<Option<u32>, contract::Failure> {
        handle_event::<P>(about, call, Change::Add(object))
    }

    fn on_update(
        about: contract::ObjectRef,
        call: contract::Call,
        old: Option<Vec<u8>>,
        object: Vec<u8>,
    ) -> Result<Option<u32>, contract::Failure> {
        handle_event::<P>(about, call, Change::Update(old, object))
    }

    fn on_delete(
        about: contract::ObjectRef,
        call: contract::Call,
        last: Option<Vec<u8>>,
        final_state_unknown: bool,
    ) -> Result<Option<u32>, contract::Failure> {
        let deleted = Deleted {
            last,
            final_state_unknown,
        };
        handle_event::<P>(about, call, Change::Delete(deleted))
    }
}

fn handle_event<P: HandleEvents>(
    about: contract::ObjectRef,
    call: contract::Call,
    change: Change,
) -> Result<Option<u32>, contract::Failure> {
    let action = with_plugin::<P, _>(|plugin| plugin.handle(&Event::new(about, call), change))?;
    Ok(action.into_ms())
}

impl<P: Reconciler> bindings::reconciler::exports::informant::plugin::reconciler::Guest for Exports<P> {
    fn reconcile(
        about: contract::ObjectRef,
        request: bindings::reconciler::exports::informant::plugin::reconciler::Request,
        object: Option<Vec<u8>>,
    ) -> Result<Option<u32>, contract::Failure> {
        let call = contract::Call {
            reason: request.reason,
            attempt: request.attempt,
        };
        let request = Request::new(Event::new(about, call), request.cache_is_behind);
        let action = with_plugin::<P, _>(|plugin| reconcile(plugin, &request, object))?;
        Ok(action.into_ms())
    }
}

impl<P: TimerHandler> bindings::timers::exports::informant::plugin::timer_handler::Guest for Exports<P> {
    fn on_timer(
        tick: bindings::timers::exports::informant::plugin::timer_handler::Tick,
    ) -> Result<(), contract::Failure> {
        let tick = Tick {
            name: tick.name,
            scheduled: tick.scheduled,
            missed: tick.missed,
            attempt: tick.attempt,
        };
        Ok(with_plugin::<P, _>(|plugin| on_timer(plugin, &tick))?)
    }
}

impl<P: SyncHandler> bindings::sync::exports::informant::plugin::sync_handler::Guest for Exports<P> {
    fn on_synced(source: u32, call: contract::Call) -> Result<(), contract::Failure> {
        let synced = Synced::new(SourceId(source), call);
        Ok(with_plugin::<P, _>(|plugin| on_synced(plugin, &synced))?)
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
pub fn plays_events<P: HandleEvents>() {}

/// As [`plays_events`].
pub fn plays_reconciler<P: Reconciler>() {}

/// As [`plays_events`].
pub fn plays_timers<P: TimerHandler>() {}

/// As [`plays_events`].
pub fn plays_sync<P: SyncHandler>() {}

/// As [`plays_events`].
pub fn plays_state<P: Stateful>() {}

/// As [`plays_events`].
pub fn plays_index<P: IndexFuncs>() {}
