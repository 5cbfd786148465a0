//! What is in a file, told by its hash, so that a touched file is no changed one.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// How much of a file is read at once.
const READ_BYTES: usize = 64 * 1024;

/// The state of a file at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// It cannot be read: it is missing, or about to be replaced.
    Unreadable(io::ErrorKind),
    /// It has this SHA-256.
    Hash([u8; 32]),
}

impl Content {
    /// Reads and hashes a file, away from the tasks of the runtime.
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
