//! A gate that tests open and close.

use std::sync::Mutex;
use std::time::Duration;

use informant_plugin_host::ActingGate;

/// Open at first.
pub(crate) struct TestGate(Mutex<State>);

struct State {
    remaining: Option<Duration>,
    /// It closes after so many questions.
    questions: Option<u32>,
}

impl TestGate {
    pub(crate) fn new() -> TestGate {
        TestGate(Mutex::new(State {
            remaining: Some(Duration::MAX),
            questions: None,
        }))
    }

    /// Requests may take so long from now on; none: it is closed.
    pub(crate) fn set(&self, remaining: Option<Duration>) {
        *self.0.lock().unwrap() = State {
            remaining,
            questions: None,
        };
    }

    /// Closes after so many questions. One question comes before each batch of calls, one after each call, and one
    /// before each effect of a call.
    pub(crate) fn close_after(&self, questions: u32) {
        self.0.lock().unwrap().questions = Some(questions);
    }
}

impl ActingGate for TestGate {
    fn remaining(&self) -> Option<Duration> {
        let mut state = self.0.lock().unwrap();
        match &mut state.questions {
            Some(0) => state.remaining = None,
            Some(left) => *left -= 1,
            None => {}
        }
        state.remaining
    }
}
