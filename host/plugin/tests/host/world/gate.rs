//! A gate that tests open and close.

use std::sync::Mutex;
use std::time::Duration;

use informant_object::{Key, SourceId};
use informant_plugin_host::{ActingGate, ActsFor};

/// Open at first.
pub(crate) struct TestGate(Mutex<State>);

struct State {
    remaining: Option<Duration>,
    /// It closes after so many questions.
    questions: Option<u32>,
    /// Objects for which it is closed.
    closed: Vec<(SourceId, Key)>,
}

impl TestGate {
    pub(crate) fn new() -> TestGate {
        TestGate(Mutex::new(State {
            remaining: Some(Duration::MAX),
            questions: None,
            closed: Vec::new(),
        }))
    }

    /// Requests may take so long from now on, about any object; none: it is closed.
    pub(crate) fn set(&self, remaining: Option<Duration>) {
        *self.0.lock().unwrap() = State {
            remaining,
            questions: None,
            closed: Vec::new(),
        };
    }

    /// Closes for this object of the namespace `default`.
    pub(crate) fn close_for(&self, source: SourceId, name: &str) {
        self.0.lock().unwrap().closed.push((source, Key::new("default", name)));
    }

    /// Closes after so many questions. One question comes before each batch of calls, one after each call, and one
    /// before each effect of a call.
    pub(crate) fn close_after(&self, questions: u32) {
        self.0.lock().unwrap().questions = Some(questions);
    }
}

impl ActingGate for TestGate {
    fn remaining(&self, acts_for: ActsFor<'_>) -> Option<Duration> {
        let mut state = self.0.lock().unwrap();
        match &mut state.questions {
            Some(0) => state.remaining = None,
            Some(left) => *left -= 1,
            None => {}
        }
        let is_closed = |(source, key): &(SourceId, Key)| acts_for == ActsFor::Object(*source, key.as_ref());
        state.remaining.filter(|_| !state.closed.iter().any(is_closed))
    }
}
