//! The newest version that the source has shown to the queue.

use informant_object::{ResourceVersion, VersionRef};

/// A version, as a number where it is one: notes come with every event and must not allocate.
#[derive(Debug, Default)]
pub(super) struct Newest {
    /// 0 if it is no number.
    number: u64,
    /// As a text, if it is no number.
    text: Option<ResourceVersion>,
}

impl Newest {
    /// What `version` says; nothing if it is empty.
    pub(super) fn of(version: VersionRef<'_>) -> Option<Newest> {
        match version.number() {
            Some(number) => Some(Newest { number, text: None }),
            None if version.is_empty() => None,
            None => Some(Newest {
                number: 0,
                text: Some(version.to_version()),
            }),
        }
    }

    /// The number, 0 if it is none.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn version(&self) -> Option<ResourceVersion> {
        self.text.clone().or_else(|| version_of(self.number))
    }
}

/// The version of a number that [`Newest::number`] gave.
pub(super) fn version_of(number: u64) -> Option<ResourceVersion> {
    (number > 0).then(|| ResourceVersion::new(&number.to_string()))
}
