//! Answers: errors, and as much of an object as was asked for.

use informant_object::{Payload, Pointer, Projection};

use super::Answer;
use crate::bindings::informant::plugin::store::HostError;
use crate::bindings::informant::plugin::types::ErrorCode;

/// Pointers of one question.
pub const POINTERS_MAX: usize = 256;

pub(super) fn error(code: ErrorCode, message: impl Into<String>) -> HostError {
    HostError {
        code,
        message: message.into(),
    }
}

/// What the guest asked to see of objects. Guests ask the same again and again, so the last question is kept.
#[derive(Default)]
pub(super) struct Projected {
    last: Option<(Vec<String>, Payload)>,
}

impl Projected {
    /// What `pointers` show; nothing asked means everything.
    pub(super) fn of(&mut self, pointers: &[String]) -> Answer<Payload> {
        if pointers.is_empty() {
            return Ok(Payload::Whole);
        }
        if let Some((_, payload)) = self.last.as_ref().filter(|(asked, _)| asked == pointers) {
            return Ok(payload.clone());
        }
        if pointers.len() > POINTERS_MAX {
            return Err(error(
                ErrorCode::Invalid,
                format!("pointers: {} of them, {POINTERS_MAX} are allowed", pointers.len()),
            ));
        }
        let parsed: Result<Vec<Pointer>, _> = pointers.iter().map(|text| Pointer::parse(text)).collect();
        let parsed = parsed.map_err(|problem| error(ErrorCode::Invalid, format!("pointers: {problem}")))?;
        let payload = Payload::Fields(Projection::new(&parsed));
        self.last = Some((pointers.to_vec(), payload.clone()));
        Ok(payload)
    }
}
