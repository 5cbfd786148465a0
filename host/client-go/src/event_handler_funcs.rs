//! A handler made of closures.

use std::fmt;

use informant_cache::{EventContext, EventHandler, HandlerError};
use informant_object::{KeyRef, Object};

type OnAdd = Box<dyn FnMut(&Object, &EventContext) -> Result<(), HandlerError> + Send>;
type OnUpdate = Box<dyn FnMut(Option<&Object>, &Object, &EventContext) -> Result<(), HandlerError> + Send>;
type OnDelete = Box<dyn FnMut(KeyRef<'_>, Option<&Object>, bool, &EventContext) -> Result<(), HandlerError> + Send>;
type OnSynced = Box<dyn FnMut(&EventContext) -> Result<(), HandlerError> + Send>;

/// A handler made of optional closures. See [`EventHandler`] for their arguments.
///
/// Source: client-go `ResourceEventHandlerFuncs`, `ResourceEventHandlerDetailedFuncs`.
#[derive(Default)]
pub struct EventHandlerFuncs {
    on_add: Option<OnAdd>,
    on_update: Option<OnUpdate>,
    on_delete: Option<OnDelete>,
    on_synced: Option<OnSynced>,
}

impl EventHandlerFuncs {
    /// A handler without closures.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`EventHandler::on_add`].
    #[must_use]
    pub fn on_add(
        mut self,
        call: impl FnMut(&Object, &EventContext) -> Result<(), HandlerError> + Send + 'static,
    ) -> Self {
        self.on_add = Some(Box::new(call));
        self
    }

    /// Sets [`EventHandler::on_update`].
    #[must_use]
    pub fn on_update(
        mut self,
        call: impl FnMut(Option<&Object>, &Object, &EventContext) -> Result<(), HandlerError> + Send + 'static,
    ) -> Self {
        self.on_update = Some(Box::new(call));
        self
    }

    /// Sets [`EventHandler::on_delete`].
    #[must_use]
    pub fn on_delete(
        mut self,
        call: impl FnMut(KeyRef<'_>, Option<&Object>, bool, &EventContext) -> Result<(), HandlerError> + Send + 'static,
    ) -> Self {
        self.on_delete = Some(Box::new(call));
        self
    }

    /// Sets [`EventHandler::on_synced`].
    #[must_use]
    pub fn on_synced(mut self, call: impl FnMut(&EventContext) -> Result<(), HandlerError> + Send + 'static) -> Self {
        self.on_synced = Some(Box::new(call));
        self
    }
}

impl EventHandler for EventHandlerFuncs {
    fn on_add(&mut self, object: &Object, context: &EventContext) -> Result<(), HandlerError> {
        self.on_add.as_mut().map_or(Ok(()), |call| call(object, context))
    }

    fn on_update(&mut self, old: Option<&Object>, new: &Object, context: &EventContext) -> Result<(), HandlerError> {
        self.on_update.as_mut().map_or(Ok(()), |call| call(old, new, context))
    }

    fn on_delete(
        &mut self,
        key: KeyRef<'_>,
        last: Option<&Object>,
        final_state_unknown: bool,
        context: &EventContext,
    ) -> Result<(), HandlerError> {
        let call = self.on_delete.as_mut();
        call.map_or(Ok(()), |call| call(key, last, final_state_unknown, context))
    }

    fn on_synced(&mut self, context: &EventContext) -> Result<(), HandlerError> {
        self.on_synced.as_mut().map_or(Ok(()), |call| call(context))
    }
}

impl fmt::Debug for EventHandlerFuncs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventHandlerFuncs")
            .field("on_add", &self.on_add.is_some())
            .field("on_update", &self.on_update.is_some())
            .field("on_delete", &self.on_delete.is_some())
            .field("on_synced", &self.on_synced.is_some())
            .finish()
    }
}
