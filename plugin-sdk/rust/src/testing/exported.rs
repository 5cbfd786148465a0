//! The roles of a plugin that `export!` names, as values: a scenario calls those that there are.

use crate::action::Action;
use crate::context::{Describe, Init};
use crate::event::{Event, ObjectRef, Synced, Tick};
use crate::exports::{self, Change, HandleEvents};
use crate::failure::Result;
use crate::index_values::IndexValues;
use crate::manifest::Manifest;
use crate::payload::{Payload, Raw};
use crate::plugin::{IndexFuncs, Plugin, Reconciler, Stateful, SyncHandler, TimerHandler};

/// A plugin that [`export!`](crate::export!) or [`#[informant::handler]`](crate::handler) exports. They implement it.
pub trait Exported: Plugin {
    #[doc(hidden)]
    fn roles() -> Roles<Self>;
}

type Handle<P> = fn(&mut P, &Event, Change) -> Result<Action>;
type Index<P> = fn(&mut P, &ObjectRef, Vec<u8>) -> Result<IndexValues>;
type Save<P> = fn(&P) -> Result<Vec<u8>>;

/// The functions of the roles that a plugin plays.
#[doc(hidden)]
#[derive(Debug)]
pub struct Roles<P> {
    pub(super) events: Option<Handle<P>>,
    pub(super) reconciles: bool,
    pub(super) timers: Option<fn(&mut P, &Tick) -> Result>,
    pub(super) sync: Option<fn(&mut P, &Synced) -> Result>,
    pub(super) index: Option<Index<P>>,
    pub(super) save: Option<Save<P>>,
    pub(super) restore: Option<fn(&mut P, &[u8]) -> Result>,
}

#[doc(hidden)]
impl<P> Roles<P> {
    pub fn none() -> Self {
        Self {
            events: None,
            reconciles: false,
            timers: None,
            sync: None,
            index: None,
            save: None,
            restore: None,
        }
    }
}

// Named as in `export!`.

#[doc(hidden)]
impl<P: HandleEvents> Roles<P> {
    #[must_use]
    pub fn events(mut self) -> Self {
        self.events = Some(P::handle);
        self
    }
}

#[doc(hidden)]
impl<P: Reconciler> Roles<P> {
    #[must_use]
    pub fn reconciler(mut self) -> Self {
        self.reconciles = true;
        self
    }
}

#[doc(hidden)]
impl<P: TimerHandler> Roles<P> {
    #[must_use]
    pub fn timers(mut self) -> Self {
        self.timers = Some(P::on_timer);
        self
    }
}

#[doc(hidden)]
impl<P: SyncHandler> Roles<P> {
    #[must_use]
    pub fn sync(mut self) -> Self {
        self.sync = Some(P::on_synced);
        self
    }
}

#[doc(hidden)]
impl<P: IndexFuncs> Roles<P> {
    #[must_use]
    pub fn index(mut self) -> Self {
        self.index = Some(|plugin, of, object| plugin.index(of, P::Object::decode(object)?));
        self
    }
}

#[doc(hidden)]
impl<P: Stateful> Roles<P> {
    #[must_use]
    pub fn state(mut self) -> Self {
        self.save = Some(exports::save::<P>);
        self.restore = Some(exports::restore::<P>);
        self
    }
}

/// Plays every role for a [`Driver`](super::Driver), and calls the plugin for those that it plays.
#[derive(Debug)]
pub(super) struct AnyRole<P> {
    pub(super) plugin: P,
    /// The instance for index functions.
    pub(super) indexer: Option<P>,
}

impl<P: Exported> Plugin for AnyRole<P> {
    fn describe(describe: Describe) -> Result<Manifest> {
        P::describe(describe)
    }

    fn init(init: Init) -> Result<Self> {
        let plugin = P::init(init)?;
        Ok(Self { plugin, indexer: None })
    }
}

impl<P: Exported> HandleEvents for AnyRole<P> {
    fn handle(&mut self, event: &Event, change: Change) -> Result<Action> {
        let handle = P::roles().events;
        handle.map_or(Ok(Action::done()), |handle| handle(&mut self.plugin, event, change))
    }
}

impl<P: Exported> TimerHandler for AnyRole<P> {
    fn on_timer(&mut self, tick: &Tick) -> Result {
        let on_timer = P::roles().timers;
        on_timer.map_or(Ok(()), |on_timer| on_timer(&mut self.plugin, tick))
    }
}

impl<P: Exported> SyncHandler for AnyRole<P> {
    fn on_synced(&mut self, synced: &Synced) -> Result {
        let on_synced = P::roles().sync;
        on_synced.map_or(Ok(()), |on_synced| on_synced(&mut self.plugin, synced))
    }
}

impl<P: Exported> IndexFuncs for AnyRole<P> {
    type Object = Raw;

    fn index(&mut self, of: &ObjectRef, object: Raw) -> Result<IndexValues> {
        match (P::roles().index, &mut self.indexer) {
            (Some(index), Some(indexer)) => index(indexer, of, object.0),
            _ => Ok(IndexValues::new()),
        }
    }
}
