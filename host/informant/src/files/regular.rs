//! Reading a file that may be anything: a pipe, a device, a huge file.

use std::fs::{self, File, FileType};
use std::io::{self, Read as _};
use std::path::Path;

/// Why [`read_regular_file`] returns nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadFileError {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is a pipe, a device, a socket or a directory.
    #[error("{found}, not a regular file")]
    NotRegular {
        /// What it is, with an article.
        found: &'static str,
    },
    /// It exceeds the limit.
    #[error("too large: {bytes} bytes")]
    TooLarge {
        /// Its length in bytes, or how many bytes were read before giving up.
        bytes: usize,
    },
}

/// Reads a regular file of at most `max` bytes. Follows symbolic links. A pipe, a device, a socket or a directory is
/// neither read nor waited for. Blocks only for as long as the file system takes.
pub(crate) fn read_regular_file(path: &Path, max: usize) -> Result<Vec<u8>, ReadFileError> {
    // Opening a device can have an effect, so its type is looked at before, too.
    check_is_regular(fs::metadata(path)?.file_type())?;
    let file = open(path)?;
    let about = file.metadata()?;
    check_is_regular(about.file_type())?;
    let length = usize::try_from(about.len()).unwrap_or(usize::MAX);
    if length > max {
        return Err(ReadFileError::TooLarge { bytes: length });
    }
    let mut bytes = Vec::with_capacity(length);
    // A file can grow while it is read.
    file.take(max as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > max {
        return Err(ReadFileError::TooLarge { bytes: bytes.len() });
    }
    Ok(bytes)
}

/// Opens a file without waiting for the other end, in case it became a pipe a moment ago.
#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;

    use rustix::fs::OFlags;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

fn check_is_regular(file_type: FileType) -> Result<(), ReadFileError> {
    match file_type.is_file() {
        true => Ok(()),
        false => Err(ReadFileError::NotRegular {
            found: kind_of(file_type),
        }),
    }
}

fn kind_of(file_type: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        if file_type.is_fifo() {
            return "a named pipe";
        }
        if file_type.is_socket() {
            return "a socket";
        }
        if file_type.is_char_device() || file_type.is_block_device() {
            return "a device";
        }
    }
    match file_type.is_dir() {
        true => "a directory",
        false => "something else",
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn only_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        fs::write(at("file"), "text").unwrap();
        for name in ["pipe", "file"] {
            symlink(name, at(&format!("link-to-{name}"))).unwrap();
        }
        let read = |path: &Path| match read_regular_file(path, 4) {
            Ok(bytes) => String::from_utf8(bytes).unwrap(),
            Err(error) => error.to_string(),
        };
        assert_eq!(
            (read(&at("file")), read(&at("link-to-file"))),
            ("text".into(), "text".into())
        );
        for (path, expected) in [
            (at("pipe"), "a named pipe, not a regular file"),
            (at("link-to-pipe"), "a named pipe, not a regular file"),
            (at("socket"), "a socket, not a regular file"),
            (PathBuf::from("/dev/zero"), "a device, not a regular file"),
            (folder.path().to_owned(), "a directory, not a regular file"),
        ] {
            assert_eq!(read(&path), expected, "{}", path.display());
        }
        fs::write(at("file"), "texts").unwrap();
        assert_eq!(read(&at("file")), "too large: 5 bytes");
    }

    #[test]
    fn opening_a_pipe_does_not_wait_for_a_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let file = open(&path).unwrap();
        assert!(check_is_regular(file.metadata().unwrap().file_type()).is_err());
    }
}
