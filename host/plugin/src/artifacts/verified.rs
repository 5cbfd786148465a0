//! Artifacts are loaded only if they have their checksum, and only what was verified is loaded.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use informant_spec::{Digest, DigestBuilder};

use super::{Unusable, checksum_of};

/// Bytes of an artifact that are read at a time to be verified: 256 KiB. Those of large runners have 100 MiB.
const PIECE_BYTES: usize = 256 << 10;

/// An artifact that has its checksum, and cannot be exchanged for another one any more.
pub(super) enum Verified {
    /// In an open file, whose pages are read when they are needed.
    Open {
        /// The path to what is open.
        path: PathBuf,
        _file: fs::File,
    },
    /// In memory, where open files have no path.
    Read(Vec<u8>),
}

/// The artifact in a file, if it has its checksum. The file is opened once: what is loaded then is what was verified,
/// whatever the path names by that time.
pub(super) fn verified(path: &Path) -> Result<Verified, Unusable> {
    let unread = |error: std::io::Error| Unusable::Unread(error.to_string());
    let checksum = String::from_utf8(fs::read(checksum_of(path)).map_err(unread)?).ok();
    let expected = checksum.and_then(|text| text.trim().parse::<Digest>().ok());
    let mut file = fs::File::open(path).map_err(unread)?;
    let (digest, verified) = match path_of_open(&file) {
        Some(path) => (
            digest_of(&mut file).map_err(unread)?,
            Verified::Open { path, _file: file },
        ),
        None => {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map_err(unread)?;
            (Digest::of(&bytes), Verified::Read(bytes))
        }
    };
    match expected == Some(digest) {
        true => Ok(verified),
        false => Err(Unusable::Broken("its checksum does not match".to_owned())),
    }
}

/// The digest of all that can be read, of which only [`PIECE_BYTES`] are in memory at a time.
fn digest_of(mut reader: impl Read) -> std::io::Result<Digest> {
    let (mut builder, mut piece) = (DigestBuilder::default(), vec![0; PIECE_BYTES]);
    loop {
        match reader.read(&mut piece) {
            Ok(0) => return Ok(builder.finish()),
            Ok(length) => builder.add(&piece[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// A path to a file that is open, which stays that file's when another one takes its place. None where the system has
/// no such paths: wasmtime opens what it maps by a path.
fn path_of_open(file: &fs::File) -> Option<PathBuf> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd as _;
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        path.exists().then_some(path)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifacts_are_hashed_in_pieces() {
        let bytes = vec![7; 2 * PIECE_BYTES + 1];
        assert_eq!(digest_of(&bytes[..]).unwrap(), Digest::of(&bytes));
    }
}
