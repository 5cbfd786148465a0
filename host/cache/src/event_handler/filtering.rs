//! A handler that hears of some objects only.

use std::collections::BTreeSet;
use std::fmt;

use informant_object::{Key, KeyRef, Object, SourceId};

use super::{EventContext, EventHandler, HandlerError};

type Filter = Box<dyn FnMut(&Object) -> bool + Send>;

/// Lets through what its filter accepts: to the handler within, an object that comes to pass is added, and one that
/// ceases to is deleted.
///
/// | before | now | the handler within |
/// |---|---|---|
/// | passes | passes | `on_update` |
/// | does not, or was not there | passes | `on_add` |
/// | passes | does not, or is deleted | `on_delete` |
/// | does not | does not | nothing |
///
/// *Before* is what the handler was called with, not what `old` says: it remembers the keys of the objects it let
/// through (some ten bytes each beside the name). client-go asks its filter about `old`; here events fold while a
/// handler is slow, and the delete of an object that changed just before it would be withheld from a handler that knows
/// the object.
///
/// Source: client-go `FilteringResourceEventHandler`.
///
/// ```
/// use informant_cache::{EventHandlerFuncs, FilteringEventHandler};
/// let print = EventHandlerFuncs::new().on_add(|object, _| {
///     println!("{} runs", object.name());
///     Ok(())
/// });
/// let handler = FilteringEventHandler::new(|pod| pod.label("app").as_deref() == Some("web"), print);
/// ```
pub struct FilteringEventHandler<H> {
    filter: Filter,
    handler: H,
    /// What the handler was called with and not told to be gone.
    shown: BTreeSet<(SourceId, Key)>,
}

impl<H: EventHandler> FilteringEventHandler<H> {
    /// Has `handler` hear of objects that `filter` accepts. The filter should look at nothing but the object: it is
    /// asked when the object changes.
    pub fn new(filter: impl FnMut(&Object) -> bool + Send + 'static, handler: H) -> Self {
        Self {
            filter: Box::new(filter),
            handler,
            shown: BTreeSet::new(),
        }
    }

    /// How many objects the handler within knows.
    #[must_use]
    pub fn shown(&self) -> usize {
        self.shown.len()
    }

    fn forget_after(
        &mut self,
        key: KeyRef<'_>,
        last: Option<&Object>,
        final_state_unknown: bool,
        context: &EventContext,
    ) -> Result<(), HandlerError> {
        let known = (context.source, key.to_key());
        if !self.shown.contains(&known) {
            return Ok(());
        }
        // Forgotten once it was accepted: what failed comes again.
        self.handler.on_delete(key, last, final_state_unknown, context)?;
        self.shown.remove(&known);
        Ok(())
    }
}

impl<H: EventHandler> EventHandler for FilteringEventHandler<H> {
    fn on_add(&mut self, object: &Object, context: &EventContext) -> Result<(), HandlerError> {
        if !(self.filter)(object) {
            return self.forget_after(object.key(), None, false, context);
        }
        self.shown.insert((context.source, object.key().to_key()));
        self.handler.on_add(object, context)
    }

    fn on_update(&mut self, old: Option<&Object>, new: &Object, context: &EventContext) -> Result<(), HandlerError> {
        if !(self.filter)(new) {
            return self.forget_after(new.key(), old, false, context);
        }
        if self.shown.insert((context.source, new.key().to_key())) {
            self.handler.on_add(new, context)
        } else {
            self.handler.on_update(old, new, context)
        }
    }

    fn on_delete(
        &mut self,
        key: KeyRef<'_>,
        last: Option<&Object>,
        final_state_unknown: bool,
        context: &EventContext,
    ) -> Result<(), HandlerError> {
        self.forget_after(key, last, final_state_unknown, context)
    }

    fn on_synced(&mut self, context: &EventContext) -> Result<(), HandlerError> {
        self.handler.on_synced(context)
    }
}

impl<H: fmt::Debug> fmt::Debug for FilteringEventHandler<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilteringEventHandler")
            .field("handler", &self.handler)
            .field("shown", &self.shown.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::{EventHandlerFuncs, Moment, Reason, testing};

    const CONTEXT: EventContext = EventContext {
        source: SourceId(1),
        reason: Reason::Watch,
        attempt: 0,
        received: Moment::ZERO,
    };

    /// A pod that passes if `on`.
    fn pod(version: u64, on: bool) -> Object {
        testing::pod_with("a", version, &format!(r#"{{"on":{on}}}"#))
    }

    type Lines = Arc<Mutex<Vec<String>>>;

    /// Writes down what the handler within is called with; fails as often as `failures` says.
    fn recorder(failures: usize) -> (FilteringEventHandler<EventHandlerFuncs>, Lines) {
        let lines = Lines::default();
        let left = Arc::new(Mutex::new(failures));
        let note = {
            let lines = Arc::clone(&lines);
            move |line: String| {
                lines.lock().unwrap().push(line);
                let mut left = left.lock().unwrap();
                if *left == 0 {
                    return Ok(());
                }
                *left -= 1;
                Err(HandlerError::Retryable("not now".to_owned()))
            }
        };
        let version = |object: &Object| object.version().to_string();
        let (add, update, delete) = (note.clone(), note.clone(), note);
        let handler = EventHandlerFuncs::new()
            .on_add(move |object, _| add(format!("add {}", version(object))))
            .on_update(move |old, new, _| update(format!("update {:?}->{}", old.map(version), version(new))))
            .on_delete(move |key, last, unknown, _| delete(format!("delete {key} {:?} {unknown}", last.map(version))));
        let passes = |object: &Object| std::str::from_utf8(object.json()).unwrap().contains("true");
        (FilteringEventHandler::new(passes, handler), lines)
    }

    fn told(lines: &Lines) -> Vec<String> {
        std::mem::take(&mut lines.lock().unwrap())
    }

    /// client-go: TestFilteringResourceEventHandler's table, and what a listener that folds makes of it.
    #[test]
    fn an_object_that_comes_to_pass_is_added_and_one_that_ceases_to_is_deleted() {
        let (mut handler, lines) = recorder(0);
        handler.on_add(&pod(1, false), &CONTEXT).unwrap();
        handler
            .on_update(Some(&pod(1, false)), &pod(2, false), &CONTEXT)
            .unwrap();
        assert_eq!(told(&lines), [""; 0]);
        handler
            .on_update(Some(&pod(2, false)), &pod(3, true), &CONTEXT)
            .unwrap();
        handler.on_update(Some(&pod(3, true)), &pod(4, true), &CONTEXT).unwrap();
        assert_eq!(told(&lines), ["add 3", r#"update Some("3")->4"#]);
        handler
            .on_update(Some(&pod(4, true)), &pod(5, false), &CONTEXT)
            .unwrap();
        assert_eq!(told(&lines), [r#"delete default/a Some("4") false"#]);
        handler
            .on_delete(pod(5, false).key(), Some(&pod(5, false)), false, &CONTEXT)
            .unwrap();
        assert_eq!((told(&lines).len(), handler.shown()), (0, 0));
    }

    #[test]
    fn the_delete_of_an_object_that_had_just_ceased_to_pass_is_told_to_a_handler_that_knows_it() {
        let (mut handler, lines) = recorder(0);
        handler.on_add(&pod(1, true), &CONTEXT).unwrap();
        // The update in between was folded into the delete.
        handler
            .on_delete(pod(2, false).key(), Some(&pod(2, false)), true, &CONTEXT)
            .unwrap();
        assert_eq!(told(&lines), ["add 1", r#"delete default/a Some("2") true"#]);
        // As is a replay, into which a change was merged.
        handler.on_add(&pod(3, true), &CONTEXT).unwrap();
        handler.on_add(&pod(4, false), &CONTEXT).unwrap();
        assert_eq!(told(&lines), ["add 3", "delete default/a None false"]);
    }

    #[test]
    fn a_call_that_failed_is_made_again_in_full() {
        let (mut handler, lines) = recorder(1);
        handler.on_add(&pod(1, true), &CONTEXT).unwrap_err();
        handler.on_add(&pod(1, true), &CONTEXT).unwrap();
        assert_eq!(told(&lines), ["add 1", "add 1"]);
        let (mut handler, lines) = recorder(0);
        handler.on_add(&pod(1, true), &CONTEXT).unwrap();
        handler.handler =
            EventHandlerFuncs::new().on_delete(|_, _, _, _| Err(HandlerError::Retryable("not now".to_owned())));
        handler
            .on_delete(pod(1, true).key(), None, false, &CONTEXT)
            .unwrap_err();
        assert_eq!((handler.shown(), told(&lines).len()), (1, 1), "it is still to be told");
    }

    #[test]
    fn objects_of_two_sources_do_not_stand_for_each_other() {
        let (mut handler, lines) = recorder(0);
        let other = EventContext {
            source: SourceId(2),
            ..CONTEXT
        };
        handler.on_add(&pod(1, true), &CONTEXT).unwrap();
        handler.on_delete(pod(1, true).key(), None, false, &other).unwrap();
        assert_eq!(told(&lines), ["add 1"]);
    }
}
