//! The file of config.toml: reading it, and why that fails.

use std::path::Path;
use std::time::Duration;

use informant_config::{Config, Problem, Problems, SourceFile};

use crate::files::{ReadFileError, read_regular_file};

/// The longest configuration file, in bytes: as much as a ConfigMap holds. Longer files are refused before parsing.
pub const CONFIG_BYTES_MAX: usize = 1024 * 1024;

/// Why a configuration file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    #[error("failed to read: {0}")]
    Io(#[from] std::io::Error),
    #[error("is {found}, not a regular file")]
    NotRegular {
        /// What it is, with an article.
        found: &'static str,
    },
    #[error("failed to read: its file system has not answered within {} s", within.as_secs())]
    Timeout { within: Duration },
    #[error("is longer than {CONFIG_BYTES_MAX} bytes")]
    TooLong,
    #[error("byte {offset} is not UTF-8")]
    NotUtf8 {
        /// The first invalid byte, counted from zero.
        offset: usize,
    },
}

/// Reads and validates a file.
pub fn load(path: &Path) -> Result<Config, Problems> {
    let file = read(path).map_err(|error| unreadable(path, &error))?;
    Config::parse(&file)
}

/// Reads a file. Blocks for as long as the file system takes.
/// Errors: [`ReadError`] when it is missing, too long or not UTF-8.
pub(crate) fn read(path: &Path) -> Result<SourceFile, ReadError> {
    let bytes = read_regular_file(path, CONFIG_BYTES_MAX).map_err(|error| match error {
        ReadFileError::NotRegular { found } => ReadError::NotRegular { found },
        ReadFileError::TooLarge { .. } => ReadError::TooLong,
        ReadFileError::Io(error) => ReadError::Io(error),
    })?;
    let text = String::from_utf8(bytes).map_err(|error| ReadError::NotUtf8 {
        offset: error.utf8_error().valid_up_to(),
    })?;
    Ok(SourceFile::new(path, text))
}

/// The problem of a file that cannot be read.
pub(crate) fn unreadable(path: &Path, error: &ReadError) -> Problems {
    let problem = Problem::of_file(path, error.to_string());
    let problem = match error {
        ReadError::Io(error) if error.kind() == std::io::ErrorKind::NotFound => {
            problem.help("name the configuration with -c FILE; the default is config.toml in the current folder")
        }
        ReadError::NotUtf8 { .. } => problem.help("save the file as UTF-8"),
        _ => problem,
    };
    Problems(vec![problem])
}

pub(crate) fn log_warning(problem: &Problem) {
    tracing::warn!(config = %problem.path.display(), warning = problem.one_line(), "configuration warning");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_file_error_says_how_to_pass_one() {
        insta::assert_snapshot!(load(Path::new("no/such/config.toml")).unwrap_err(), @"
        error: no/such/config.toml: failed to read: No such file or directory (os error 2)
          help: name the configuration with -c FILE; the default is config.toml in the current folder
        ");
    }

    #[test]
    fn overlong_and_non_utf8_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("long.toml");
        std::fs::write(&long, vec![b'#'; CONFIG_BYTES_MAX + 1]).unwrap();
        assert!(matches!(read(&long), Err(ReadError::TooLong)));
        std::fs::write(&long, vec![b'#'; CONFIG_BYTES_MAX]).unwrap();
        assert!(read(&long).is_ok());
        std::fs::write(&long, b"a = \"\xff\"").unwrap();
        assert!(matches!(read(&long), Err(ReadError::NotUtf8 { offset: 5 })));
    }
}
