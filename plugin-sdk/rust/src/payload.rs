//! What an object's bytes become before a plugin sees them.

use serde::de::DeserializeOwned;

use crate::failure::Result;

/// What a plugin can be handed an object as: anything that serde reads from JSON (own structs, `serde_json::Value`, the
/// types of k8s-openapi), or [`Raw`], the bytes.
///
/// The payload that a manifest asks for has the object's own shape whether it is whole or projected, so one struct
/// serves both.
pub trait Payload: Sized {
    /// # Errors
    /// [`Failure::Permanent`](crate::Failure::Permanent) if the document does not fit the type.
    fn decode(json: Vec<u8>) -> Result<Self>;
}

impl<T: DeserializeOwned> Payload for T {
    fn decode(json: Vec<u8>) -> Result<Self> {
        // As text, which is looked at once: of bytes, each string would be.
        Ok(match str::from_utf8(&json) {
            Ok(text) => serde_json::from_str(text)?,
            Err(_) => serde_json::from_slice(&json)?,
        })
    }
}

/// The JSON document of an object as it arrived: nothing is parsed, nothing copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw(pub Vec<u8>);

impl Payload for Raw {
    fn decode(json: Vec<u8>) -> Result<Self> {
        Ok(Self(json))
    }
}
