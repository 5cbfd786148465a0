//! What is left of a deleted object's last state when there is no room for all of it.

use informant_object::{Object, Payload, Shape};

/// The object with apiVersion, kind and metadata alone. The whole object should that not parse, which takes a malformed
/// metadata that the scanner let pass: better too much than nothing.
pub(super) fn metadata_only(object: &Object) -> Object {
    let mut json = Vec::with_capacity(object.metadata().len() + 128);
    Payload::Metadata.write(object, &mut json);
    Object::parse(&json, &Shape::verbatim()).unwrap_or_else(|_| object.clone())
}
