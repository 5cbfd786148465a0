//! How the program ends.

use std::process::ExitCode;

use crate::config::Problems;

/// What an exit code means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done. For `run`: stopped by one signal, in order.
    Done,
    /// Failed. For `get`: not found.
    Failed,
    /// The command line is wrong.
    Usage,
    /// The configuration is refused.
    Config,
    /// For `get`: the index is not attached. For others: not ready yet.
    NotReady,
    /// For `get`: the informer's first list is not in the cache.
    NotSynced,
}

impl Exit {
    /// The number.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Config => 3,
            Self::NotReady => 4,
            Self::NotSynced => 5,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// What an error means for the exit code.
pub(super) fn of(error: &anyhow::Error) -> Exit {
    if error.downcast_ref::<Problems>().is_some() {
        Exit::Config
    } else {
        Exit::Failed
    }
}
