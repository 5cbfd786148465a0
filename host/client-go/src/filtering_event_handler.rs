//! A handler that receives only some objects.

use std::collections::BTreeSet;
use std::fmt;

use informant_cache::{EventContext, EventHandler, HandlerError};
use informant_object::{Key, KeyRef, Object, SourceId};

type Filter = Box<dyn FnMut(&Object) -> bool + Send>;

/// Forwards objects that its filter accepts. The inner handler sees an add when an object starts to pass the filter,
/// and a delete when it stops.
///
/// | before | now | inner handler |
/// |---|---|---|
/// | passes | passes | `on_update` |
/// | does not pass, or absent | passes | `on_add` |
/// | passes | does not pass, or deleted | `on_delete` |
/// | does not pass | does not pass | no call |
///
/// *Before* means what the handler was called with, not `old`: it remembers the keys of the objects it forwarded (some
/// ten bytes each plus the name). client-go runs its filter on `old`; here events fold while a handler is slow, and a
/// delete that follows a change would not reach a handler that has seen the object.
///
/// Source: client-go `FilteringResourceEventHandler`.
///
/// ```
/// use informant_client_go::{EventHandlerFuncs, FilteringEventHandler};
/// let print = EventHandlerFuncs::new().on_add(|object, _| {
///     println!("{} runs", object.name());
///     Ok(())
/// });
/// let handler = FilteringEventHandler::new(|pod| pod.label("app").as_deref() == Some("web"), print);
/// ```
pub struct FilteringEventHandler<H> {
    filter: Filter,
    handler: H,
    /// The objects that the inner handler has seen and not seen deleted.
    shown: BTreeSet<(SourceId, Key)>,
}

impl<H: EventHandler> FilteringEventHandler<H> {
    /// Forwards objects that `filter` accepts to `handler`. The filter should depend only on the object: it runs when
    /// the object changes.
    pub fn new(filter: impl FnMut(&Object) -> bool + Send + 'static, handler: H) -> Self {
        Self {
            filter: Box::new(filter),
            handler,
            shown: BTreeSet::new(),
        }
    }

    /// How many objects the inner handler has seen.
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
        // Forget it only once it was accepted: a failed call is retried.
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

    use informant_cache::{Moment, Reason};

    use super::*;
    use crate::{EventHandlerFuncs, testing};

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

    /// Records the calls of the inner handler; the first `failures` calls fail.
    fn recorder(failures: usize) -> (FilteringEventHandler<EventHandlerFuncs>, Lines) {
        let lines = Lines::default();
        let left = Arc::new(Mutex::new(failures));
        let record = {
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
        let (add, update, delete) = (record.clone(), record.clone(), record);
        let handler = EventHandlerFuncs::new()
            .on_add(move |object, _| add(format!("add {}", version(object))))
            .on_update(move |old, new, _| update(format!("update {:?}->{}", old.map(version), version(new))))
            .on_delete(move |key, last, unknown, _| delete(format!("delete {key} {:?} {unknown}", last.map(version))));
        let passes = |object: &Object| std::str::from_utf8(object.json()).unwrap().contains("true");
        (FilteringEventHandler::new(passes, handler), lines)
    }

    fn calls(lines: &Lines) -> Vec<String> {
        std::mem::take(&mut lines.lock().unwrap())
    }

    /// client-go: TestFilteringResourceEventHandler's table, and the same with folding.
    #[test]
    fn filter_changes_become_adds_and_deletes() {
        let (mut handler, lines) = recorder(0);
        handler.on_add(&pod(1, false), &CONTEXT).unwrap();
        handler
            .on_update(Some(&pod(1, false)), &pod(2, false), &CONTEXT)
            .unwrap();
        assert_eq!(calls(&lines), [""; 0]);
        handler
            .on_update(Some(&pod(2, false)), &pod(3, true), &CONTEXT)
            .unwrap();
        handler.on_update(Some(&pod(3, true)), &pod(4, true), &CONTEXT).unwrap();
        assert_eq!(calls(&lines), ["add 3", r#"update Some("3")->4"#]);
        handler
            .on_update(Some(&pod(4, true)), &pod(5, false), &CONTEXT)
            .unwrap();
        assert_eq!(calls(&lines), [r#"delete default/a Some("4") false"#]);
        handler
            .on_delete(pod(5, false).key(), Some(&pod(5, false)), false, &CONTEXT)
            .unwrap();
        assert_eq!((calls(&lines).len(), handler.shown()), (0, 0));
    }

    #[test]
    fn delete_after_a_folded_filter_change_reaches_the_handler() {
        let (mut handler, lines) = recorder(0);
        handler.on_add(&pod(1, true), &CONTEXT).unwrap();
        // The update in between was folded into the delete.
        handler
            .on_delete(pod(2, false).key(), Some(&pod(2, false)), true, &CONTEXT)
            .unwrap();
        assert_eq!(calls(&lines), ["add 1", r#"delete default/a Some("2") true"#]);
        // The same for a replay into which a change was merged.
        handler.on_add(&pod(3, true), &CONTEXT).unwrap();
        handler.on_add(&pod(4, false), &CONTEXT).unwrap();
        assert_eq!(calls(&lines), ["add 3", "delete default/a None false"]);
    }

    #[test]
    fn failed_call_is_retried_unchanged() {
        let (mut handler, lines) = recorder(1);
        handler.on_add(&pod(1, true), &CONTEXT).unwrap_err();
        handler.on_add(&pod(1, true), &CONTEXT).unwrap();
        assert_eq!(calls(&lines), ["add 1", "add 1"]);
        let (mut handler, lines) = recorder(0);
        handler.on_add(&pod(1, true), &CONTEXT).unwrap();
        handler.handler =
            EventHandlerFuncs::new().on_delete(|_, _, _, _| Err(HandlerError::Retryable("not now".to_owned())));
        handler
            .on_delete(pod(1, true).key(), None, false, &CONTEXT)
            .unwrap_err();
        assert_eq!(
            (handler.shown(), calls(&lines).len()),
            (1, 1),
            "the delete is still pending"
        );
    }

    #[test]
    fn same_name_in_two_sources_is_filtered_separately() {
        let (mut handler, lines) = recorder(0);
        let other = EventContext {
            source: SourceId(2),
            ..CONTEXT
        };
        handler.on_add(&pod(1, true), &CONTEXT).unwrap();
        handler.on_delete(pod(1, true).key(), None, false, &other).unwrap();
        assert_eq!(calls(&lines), ["add 1"]);
    }
}
