//! The key file of a durable informer (`durable-key-file`).

use std::path::{Path, PathBuf};

use informant_state::Cipher;

use crate::files::{ReadFileError, read_regular_file};

/// The largest key file: 1 KiB. A key in base64 has 44 bytes.
pub(crate) const KEY_FILE_BYTES_MAX: usize = 1_024;

#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyFileError {
    #[error("cannot read the key file {path}: {source}; check the path and its permissions")]
    Read { path: PathBuf, source: ReadFileError },
    #[error(
        "{path} does not contain a key of 32 bytes, raw or in base64; create one with `head -c 32 /dev/urandom | base64 > {path}`"
    )]
    NoKey { path: PathBuf },
}

/// Creates a cipher from the key in a file: 32 bytes, raw or in base64. Blocks for as long as the file system takes.
pub(crate) fn read(path: &Path) -> Result<Cipher, KeyFileError> {
    let bytes = read_regular_file(path, KEY_FILE_BYTES_MAX).map_err(|source| KeyFileError::Read {
        path: path.to_owned(),
        source,
    })?;
    Cipher::parse(&bytes).ok_or_else(|| KeyFileError::NoKey { path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_file_that_never_ends_is_refused() {
        let error = |path: &Path| read(path).unwrap_err().to_string();
        let device = error(Path::new("/dev/zero"));
        assert!(device.contains("/dev/zero: a device, not a regular file"), "{device}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, vec![9; KEY_FILE_BYTES_MAX + 1]).unwrap();
        assert!(error(&path).contains("too large"));
        std::fs::write(&path, [9; 31]).unwrap();
        assert!(error(&path).contains("32 bytes"));
        std::fs::write(&path, [9; 32]).unwrap();
        assert!(read(&path).is_ok());
    }
}
