//! Compares a file's content by its hash, so that touching a file is not a change.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Bytes read at once.
const READ_BYTES: usize = 64 * 1024;

/// The content of a file at one point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentHash {
    /// It cannot be read: it is missing or being replaced.
    Unreadable(io::ErrorKind),
    /// The SHA-256 of its content.
    Hash([u8; 32]),
}

impl ContentHash {
    /// Reads and hashes a file on a blocking thread.
    pub(crate) async fn of(path: &Path) -> Self {
        let path: PathBuf = path.to_owned();
        let hashed = tokio::task::spawn_blocking(move || hash(&path)).await;
        match hashed {
            Ok(Ok(hash)) => Self::Hash(hash),
            Ok(Err(error)) => Self::Unreadable(error.kind()),
            // The runtime is shutting down.
            Err(_) => Self::Unreadable(io::ErrorKind::Interrupted),
        }
    }
}

fn hash(path: &Path) -> io::Result<[u8; 32]> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize().into()),
            read => hasher.update(&buffer[..read]),
        }
    }
}
