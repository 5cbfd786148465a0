//! What is wrong with an object that cannot be used, in the words of the counter `reflector_skipped_total`.

use informant_object::{Key, Object, ObjectError, Shape};
use serde::Deserialize;

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

/// Whose state `json` was to be, if that can be told although the whole cannot be used.
pub(super) fn salvaged_key(json: &[u8]) -> Option<Key> {
    #[derive(Deserialize)]
    struct Item {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        name: String,
        namespace: Option<String>,
    }
    let Item { metadata } = serde_json::from_slice(json).ok()?;
    (!metadata.name.is_empty()).then(|| Key::new(&metadata.namespace.unwrap_or_default(), &metadata.name))
}
