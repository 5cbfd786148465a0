//! Transforms: they change objects before they enter the cache.

use informant_object::Object;

/// Changes each object once, before it is queued, stored or delivered; client-go's `TransformFunc`.
///
/// Must not change namespace, name, uid or version: the queue rejects such a result. Called for objects from the API
/// server, not for tombstones or objects from the store.
pub trait Transform: Send {
    /// Returns the object to store.
    ///
    /// # Errors
    /// A message for the author of the transform. The new version is then withheld and counted, and the known
    /// state stays: the transform may redact secrets.
    fn transform(&mut self, object: Object) -> Result<Object, String>;
}

/// Why a transformed object was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransformError {
    /// The transform failed.
    #[error("transform of {key} at version {version} failed: {message}")]
    Failed {
        /// The key of the object.
        key: String,
        /// Its version.
        version: String,
        /// The transform's message.
        message: String,
    },
    /// The transform changed the identity of the object.
    #[error(
        "transform of {key} at version {version} changed its {field}; leave namespace, name, uid and version alone"
    )]
    Identity {
        /// The key of the object.
        key: String,
        /// Its version.
        version: String,
        /// The field that changed.
        field: &'static str,
    },
}

/// Runs `transform` and checks that the result is still the same object at the same version.
pub(crate) fn apply(transform: &mut dyn Transform, object: Object) -> Result<Object, TransformError> {
    let before = object.clone();
    let (key, version) = (before.key(), before.version());
    let after = transform.transform(object).map_err(|message| TransformError::Failed {
        key: key.to_string(),
        version: version.to_string(),
        message,
    })?;
    match changed_identity(&before, &after) {
        None => Ok(after),
        Some(field) => Err(TransformError::Identity {
            key: key.to_string(),
            version: version.to_string(),
            field,
        }),
    }
}

fn changed_identity(before: &Object, after: &Object) -> Option<&'static str> {
    [
        ("namespace", before.namespace() == after.namespace()),
        ("name", before.name() == after.name()),
        ("uid", before.uid() == after.uid()),
        ("version", before.version() == after.version()),
    ]
    .into_iter()
    .find_map(|(field, same)| (!same).then_some(field))
}
