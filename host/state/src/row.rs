//! A row of shared state: what it is of, its key and its value.

use std::sync::Arc;

/// What a row is of. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RowKind {
    /// A key that a plugin remembers, or the runs of its timers.
    Key = 0,
    /// A pause of a plugin by command.
    Pause = 1,
    /// A dead letter of a plugin.
    Letter = 2,
}

/// The key of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// The plugin that it belongs to.
    pub plugin: Arc<str>,
    /// What it is of.
    pub kind: RowKind,
    /// Its key among the plugin's rows of this kind.
    pub key: Arc<str>,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its key.
    pub key: RowKey,
    /// Its value.
    pub value: Arc<[u8]>,
}

impl RowKind {
    /// All of them.
    pub const ALL: [RowKind; 3] = [RowKind::Key, RowKind::Pause, RowKind::Letter];

    /// The kind with this number.
    pub(crate) fn of(number: u8) -> Option<RowKind> {
        RowKind::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// How many bytes all rows of this kind may take in shared state, of all plugins together.
    ///
    /// 8 MiB of keys are 16 chunks, which a successor reads in half a second. The others are written by Informant, and
    /// are small. At the limit a plugin may not grow, see [`KeySpace::room`](crate::KeySpace::room), and a further dead
    /// letter is not stored, which is counted.
    #[must_use]
    pub const fn shared_bytes_max(self) -> usize {
        match self {
            RowKind::Key => 8 << 20,
            RowKind::Letter => 4 << 20,
            RowKind::Pause => 1 << 20,
        }
    }
}
