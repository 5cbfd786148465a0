//! What is wrong with a configuration, as people read it.

use std::fmt;
use std::path::{Path, PathBuf};

use super::source::Place;

/// Whether a problem keeps the configuration from being used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The configuration is refused.
    Error,
    /// The configuration is used; somebody should look at it.
    Warning,
}

/// One thing that is wrong: what, where and what to do.
#[derive(Debug, Clone)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// The file, as it was named to us.
    pub path: PathBuf,
    /// Where in the file; `None` when it is about the file as a whole.
    pub place: Option<Place>,
    /// What is wrong: a lowercase fragment.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Problem {
    /// An error about a whole file.
    #[must_use]
    pub fn of_file(path: &Path, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            path: path.into(),
            place: None,
            message: message.into(),
            help: None,
        }
    }

    /// An error at a place.
    #[must_use]
    pub fn at(path: &Path, place: Place, message: impl Into<String>) -> Self {
        Self {
            place: Some(place),
            ..Self::of_file(path, message)
        }
    }

    /// Adds what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Makes it a warning.
    #[must_use]
    pub fn warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{severity}: {}", self.path.display())?;
        if let Some(place) = self.place {
            write!(f, ":{place}")?;
        }
        write!(f, ": {}", self.message)?;
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

/// Everything that is wrong with one configuration, in the order of the file.
#[derive(Debug, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Whether any of them keeps the configuration from being used.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// Sorts by place; what concerns the whole file comes first.
    pub(crate) fn sort(&mut self) {
        self.0.sort_by_key(|problem| problem.place);
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.0.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}
