//! Why shared state cannot be used.

use super::format::FORMAT;
use super::request::{SECRET_GROUP_LABEL, SharedPart};

/// Shared state that is refused at the start. Nothing of it is overwritten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SharedStateError {
    /// It was written by a newer Informant.
    #[error(
        "the Secret {secret} has format {found}, and this version of Informant reads formats up to {FORMAT}: use the \
         version that wrote it or a newer one{}",
        or_start_empty(group)
    )]
    Newer {
        /// Its name.
        secret: String,
        /// The group.
        group: String,
        /// Its format.
        found: u32,
    },
    /// It cannot be read.
    #[error("the Secret {secret} is damaged: {reason}; {}", restore(group))]
    Damaged {
        /// Its name.
        secret: String,
        /// The group.
        group: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// It is missing, and others of the group are there.
    #[error(
        "the Secret {secret} is missing, and others of the group are there: it was deleted; {}",
        restore(group)
    )]
    Missing {
        /// Its name.
        secret: String,
        /// The group.
        group: String,
    },
    /// It is of another time than the journal.
    #[error(
        "the Secret {secret} is of another time than the journal: they come from different backups; {}",
        restore(group)
    )]
    Mismatched {
        /// Its name.
        secret: String,
        /// The group.
        group: String,
    },
    /// It belongs to another group.
    #[error(
        "the Secret {secret} has the content of the group {owner:?}: it was copied; {}",
        restore(group)
    )]
    Foreign {
        /// Its name.
        secret: String,
        /// The group.
        group: String,
        /// The group in its content.
        owner: String,
    },
}

impl SharedStateError {
    pub(super) fn damaged(part: SharedPart, group: &str, reason: &'static str) -> Self {
        let (secret, group) = (part.secret_name(group), group.to_owned());
        Self::Damaged { secret, group, reason }
    }

    pub(super) fn missing(part: SharedPart, group: &str) -> Self {
        let (secret, group) = (part.secret_name(group), group.to_owned());
        Self::Missing { secret, group }
    }

    pub(super) fn mismatched(part: SharedPart, group: &str) -> Self {
        let (secret, group) = (part.secret_name(group), group.to_owned());
        Self::Mismatched { secret, group }
    }
}

fn restore(group: &str) -> String {
    format!(
        "restore all Secrets of the group from one backup{}",
        or_start_empty(group)
    )
}

fn or_start_empty(group: &str) -> String {
    format!(
        ", or start with empty state: kubectl delete secret -l {SECRET_GROUP_LABEL}={group}, which loses what plugins \
         remember, pauses and dead letters"
    )
}
