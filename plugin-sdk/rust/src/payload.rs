//! Decodes the bytes of an object for a plugin.

use serde::de::DeserializeOwned;

use crate::failure::Result;

/// A type that a plugin can receive objects as: anything that serde deserializes from JSON (your own structs,
/// `serde_json::Value`, the types of k8s-openapi), [`Raw`], the bytes, or `()` for
/// [`payload_none`](crate::Events::payload_none).
///
/// A payload has the shape of the object, whether it is whole or only some fields, so the same struct works for both.
pub trait Payload: Sized {
    /// # Errors
    /// [`Failure::Permanent`](crate::Failure::Permanent) if the document does not match the type.
    fn decode(json: Vec<u8>) -> Result<Self>;
}

impl<T: DeserializeOwned> Payload for T {
    fn decode(json: Vec<u8>) -> Result<Self> {
        // The document that the manifest did not want.
        if json.is_empty() {
            return Ok(serde_json::from_str("null")?);
        }
        // Validates UTF-8 once for the document; `from_slice` would validate each string.
        Ok(match str::from_utf8(&json) {
            Ok(text) => serde_json::from_str(text)?,
            Err(_) => serde_json::from_slice(&json)?,
        })
    }
}

/// The JSON document of an object as received, neither parsed nor copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw(pub Vec<u8>);

impl Payload for Raw {
    fn decode(json: Vec<u8>) -> Result<Self> {
        Ok(Self(json))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    #[test]
    fn the_unit_type_takes_only_an_empty_document() {
        assert_eq!(<()>::decode(Vec::new()), Ok(()));
        assert!(matches!(<()>::decode(b"{}".to_vec()), Err(Failure::Permanent(_))));
    }
}
