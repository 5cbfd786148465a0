//! Changing objects on their way in.

use informant_object::Object;

/// Changes each object once, before it is queued, stored or shown to anyone; client-go's `TransformFunc`.
///
/// Must not change namespace, name, uid or version: the queue refuses such a result. Called for what the API server
/// sent, not for tombstones, nor for what comes out of the store again.
pub trait Transform: Send {
    /// The object as everybody shall see it.
    ///
    /// # Errors
    /// A text for the person who wrote the transform. The new version is then withheld and counted, and what was known
    /// before stays: it may have been there to redact.
    fn transform(&mut self, object: Object) -> Result<Object, String>;
}

/// Why a transformed object was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransformError {
    /// The transform said so.
    #[error("transform of {key} at version {version} failed: {message}")]
    Failed {
        /// Which object.
        key: String,
        /// Which version of it.
        version: String,
        /// What the transform said.
        message: String,
    },
    /// The transform changed what it may not.
    #[error(
        "transform of {key} at version {version} changed its {field}; leave namespace, name, uid and version alone"
    )]
    Identity {
        /// Which object.
        key: String,
        /// Which version of it.
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
