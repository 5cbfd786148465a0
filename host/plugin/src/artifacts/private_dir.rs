//! A directory that no other user can write into.

use std::fs;
use std::io;
use std::path::Path;

use crate::error::HostError;

/// Opens `path`, creating it with mode 0700 if it does not exist. Returns whether files can be written.
/// Errors: [`HostError::CacheDir`] if another user owns it or may write into it: its files are run as code.
pub(crate) fn open(path: &Path) -> Result<bool, HostError> {
    if let Err(error) = make(path) {
        return Ok(unusable(path, &error));
    }
    // A temporary file shows whether we can write, and our user.
    let probe = match tempfile::NamedTempFile::new_in(path) {
        Ok(probe) => probe,
        Err(error) => return Ok(unusable(path, &error)),
    };
    let about = |path: &Path| {
        fs::metadata(path).map_err(|error| HostError::CacheDir {
            path: path.to_owned(),
            problem: error.to_string(),
        })
    };
    match permission_problem(&about(path)?, &about(probe.path())?) {
        Some(problem) => Err(HostError::CacheDir {
            path: path.to_owned(),
            problem,
        }),
        None => Ok(true),
    }
}

fn unusable(path: &Path, error: &io::Error) -> bool {
    tracing::warn!(directory = %path.display(), %error, "artifact cache unavailable; plugins are compiled at each start");
    false
}

#[cfg(unix)]
fn make(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(unix)]
fn permission_problem(directory: &fs::Metadata, own_file: &fs::Metadata) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    const OTHERS_WRITE: u32 = 0o022;
    if directory.uid() != own_file.uid() {
        return Some(format!(
            "it belongs to user {}, and its files are run as code: choose another directory, or chown it",
            directory.uid()
        ));
    }
    (directory.mode() & OTHERS_WRITE != 0)
        .then(|| "others may write into it, and its files are run as code: run chmod go-w on it".to_owned())
}

#[cfg(not(unix))]
fn make(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

#[cfg(not(unix))]
fn permission_problem(_folder: &fs::Metadata, _own_file: &fs::Metadata) -> Option<String> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_directory_is_created_for_this_user_only() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        assert!(open(&path).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(open(&path).unwrap());
    }

    #[test]
    fn a_directory_that_others_may_write_into_is_rejected() {
        let parent = tempfile::tempdir().unwrap();
        fs::set_permissions(parent.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let error = open(parent.path()).unwrap_err().to_string();
        insta::assert_snapshot!(error.replace(&parent.path().display().to_string(), "FOLDER"), @"the directory for compiled plugins, FOLDER: others may write into it, and its files are run as code: run chmod go-w on it");
    }

    #[test]
    fn a_directory_that_cannot_be_created_is_not_required() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(!open(&file.join("below")).unwrap());
    }
}
