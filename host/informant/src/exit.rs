//! The exit codes of the program.

use std::process::ExitCode;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Success. For `run`: stopped cleanly by one signal.
    Done,
    /// Failure. For `get`: not found.
    Failed,
    /// Invalid command line.
    Usage,
    /// Invalid configuration.
    Config,
    /// For `get`: the index is not attached. For other commands: not ready yet.
    NotReady,
    /// For `get`: the informer's first list is not in the cache yet.
    NotSynced,
    /// For `run`: the stop hung, and the process was ended.
    Hung,
    /// Replicas that hold some shards did not answer: the output lacks their part, or the command has no effect there.
    Partial,
}

impl Exit {
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Config => 3,
            Self::NotReady => 4,
            Self::NotSynced => 5,
            Self::Hung => 6,
            Self::Partial => 7,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
