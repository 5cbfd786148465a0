//! The contract's `recorder` in a native test: keeps what a call records until the call ends.

use std::fmt;

use super::cache::{self, Cache};
use crate::bindings::imports::informant::plugin::recorder::EventType;
use crate::bindings::imports::informant::plugin::types::{ErrorCode, HostError};
use crate::event::fmt_key;

pub use crate::bindings::imports::informant::plugin::recorder::Regarding;

/// The most Events of one call, as in Informant.
const CALL_EVENTS_MAX: usize = 100;

/// As in Informant.
const WORD_BYTES_MAX: usize = 128;

/// Of a longer note the end is cut, as in Informant.
const NOTE_BYTES_MAX: usize = 1_024;

type Answer<T> = Result<T, HostError>;

/// An Event that the plugin has recorded. Displays as `Warning Crashing Pod web/a: 3 restarts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedEvent {
    /// `Normal` or `Warning`.
    pub event_type: &'static str,
    /// Why it was recorded.
    pub reason: String,
    /// What was done.
    pub action: String,
    /// The text for people.
    pub note: String,
    /// The object that it is about. Displays as `Pod web/a`.
    pub regarding: Regarding,
    /// Another object that it is about.
    pub related: Option<Regarding>,
}

impl fmt::Display for RecordedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {}: {}",
            self.event_type, self.reason, self.regarding, self.note
        )
    }
}

impl fmt::Display for Regarding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        fmt_key(f, &self.namespace, &self.name)
    }
}

/// What calls have recorded since the test has last taken it.
#[derive(Default)]
pub(super) struct Recorder {
    events: Vec<RecordedEvent>,
    /// How many of them are of calls that have ended.
    ended: usize,
    is_denied: bool,
    /// Why every Event is denied throughout.
    refusal: Option<String>,
}

impl Cache {
    /// The Events that were recorded since the last call, without those of handlers that have failed.
    pub fn take_events(&self) -> Vec<RecordedEvent> {
        cache::with(|state| {
            state.recorder.ended = 0;
            std::mem::take(&mut state.recorder.events)
        })
    }

    /// A call has ended: keeps its Events if it succeeded.
    pub(super) fn end_events(&self, has_succeeded: bool) {
        cache::with(|state| {
            let recorder = &mut state.recorder;
            match has_succeeded {
                true => recorder.ended = recorder.events.len(),
                false => recorder.events.truncate(recorder.ended),
            }
        });
    }

    /// Denies every Event, with this message.
    pub(super) fn refuse_events(&self, message: &str) {
        cache::with(|state| state.recorder.refusal = Some(message.to_owned()));
    }

    /// Denies every Event, or no longer.
    pub(super) fn deny_events(&self, is_denied: bool) {
        cache::with(|state| state.recorder.is_denied = is_denied);
    }
}

pub(crate) fn event(
    about: &Regarding,
    related: Option<&Regarding>,
    kind: EventType,
    reason: &str,
    action: &str,
    note: &str,
) -> Answer<()> {
    cache::with(|state| {
        let recorder = &mut state.recorder;
        if recorder.is_denied {
            let message = "Events can be recorded in handler calls only".to_owned();
            return Err(error(ErrorCode::NotHere, message));
        }
        if let Some(refusal) = &recorder.refusal {
            return Err(error(ErrorCode::Denied, refusal.clone()));
        }
        check_word("reason", reason)?;
        check_word("action", action)?;
        if recorder.events.len() - recorder.ended == CALL_EVENTS_MAX {
            let message = format!("a call can record at most {CALL_EVENTS_MAX} Events");
            return Err(error(ErrorCode::TooLarge, message));
        }
        recorder.events.push(RecordedEvent {
            event_type: match kind {
                EventType::Normal => "Normal",
                EventType::Warning => "Warning",
            },
            reason: reason.to_owned(),
            action: action.to_owned(),
            note: note[..note.floor_char_boundary(NOTE_BYTES_MAX)].to_owned(),
            regarding: about.clone(),
            related: related.cloned(),
        });
        Ok(())
    })
}

fn check_word(name: &str, word: &str) -> Answer<()> {
    let is_camel_case = word.starts_with(|first: char| first.is_ascii_uppercase())
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match is_camel_case && word.len() <= WORD_BYTES_MAX {
        true => Ok(()),
        false => Err(error(
            ErrorCode::Invalid,
            format!("the {name} {word:?} is not CamelCase of at most {WORD_BYTES_MAX} bytes"),
        )),
    }
}

fn error(code: ErrorCode, message: String) -> HostError {
    HostError { code, message }
}
