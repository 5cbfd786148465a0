//! Problems of a configuration, as they are printed.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::source::FilePosition;

/// Whether a problem makes the configuration invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The configuration is invalid.
    Error,
    /// The configuration is valid, but probably not what was meant.
    Warning,
    /// The configuration is valid, and perhaps what was meant.
    Note,
}

/// One problem: what is wrong, where, and what to do.
#[derive(Debug, Clone)]
pub struct Problem {
    pub severity: Severity,
    /// The file, as passed to Informant.
    pub path: PathBuf,
    /// The position in the file; `None` for a problem of the whole file.
    pub position: Option<FilePosition>,
    /// What is wrong: a lowercase fragment.
    pub message: String,
    pub help: Option<String>,
}

impl Problem {
    #[must_use]
    pub fn of_file(path: &Path, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            path: path.into(),
            position: None,
            message: message.into(),
            help: None,
        }
    }

    #[must_use]
    pub fn at(path: &Path, position: FilePosition, message: impl Into<String>) -> Self {
        Self {
            position: Some(position),
            ..Self::of_file(path, message)
        }
    }

    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    #[must_use]
    pub fn warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }

    #[must_use]
    pub fn note(mut self) -> Self {
        self.severity = Severity::Note;
        self
    }

    /// The position, message and help on one line, for the log.
    #[must_use]
    pub fn one_line(&self) -> String {
        let position = self
            .position
            .map_or_else(String::new, |position| format!("{position}: "));
        let help = self.help.as_ref().map_or_else(String::new, |help| format!("; {help}"));
        format!("{position}{}{help}", self.message).replace('\n', " ")
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        write!(f, "{severity}: {}", self.path.display())?;
        if let Some(position) = self.position {
            write!(f, ":{position}")?;
        }
        write!(f, ": {}", self.message)?;
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

/// All problems of one configuration, in the order of the file.
#[derive(Debug, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// All problems on one line, for the log.
    #[must_use]
    pub fn one_line(&self) -> String {
        let lines: Vec<_> = self.0.iter().map(Problem::one_line).collect();
        lines.join("; ")
    }

    /// Sorts by position; problems of the whole file come first.
    pub fn sort(&mut self) {
        self.0.sort_by_key(|problem| problem.position);
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
