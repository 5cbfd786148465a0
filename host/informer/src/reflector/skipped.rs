//! What is wrong with an object that cannot be used, in the words of the counter `reflector_skipped_total`.

use informant_object::{Object, ObjectError, Shape};

/// Whether `object` is what was asked for.
pub(super) fn is_of_shape(object: &Object, shape: &Shape) -> bool {
    object.kind() == shape.kind && object.api_version() == shape.api_version
}

pub(super) fn reason_of(error: &ObjectError) -> &'static str {
    match error {
        ObjectError::NoName => "no-name",
        ObjectError::TooLarge { .. } => "too-long",
        _ => "not-json",
    }
}
