//! A unix socket for processes of this user, in a folder that only this user may write to.
//!
//! ```text
//! PATH       mode 0600, bound again by each process: a file that a dead process left is replaced
//! PATH.lock  locked while its process lives; contains its id
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use socket2::{Domain, SockAddr, Socket, Type};
use thiserror::Error;

/// How many connections the kernel holds until they are accepted.
const BACKLOG_CONNECTIONS: i32 = 128;

/// The bits of a mode that let others than the owner write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Why there is no socket.
#[derive(Debug, Error)]
pub(crate) enum SocketProblem {
    #[error("{} is in use by another Informant{}: stop it, or set another `socket` in [admin]", path.display(), process(*pid))]
    InUse { path: PathBuf, pid: Option<u32> },
    #[error("{} {reason}: {SAFE_FOLDER}", path.display())]
    Unsafe { path: PathBuf, reason: &'static str },
    #[error("cannot create {}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
}

const SAFE_FOLDER: &str = "the socket needs a folder that belongs to this user and that no other user can write to";

fn process(pid: Option<u32>) -> String {
    pid.map(|pid| format!(", process {pid}")).unwrap_or_default()
}

/// A bound socket. Dropping it removes its file.
#[derive(Debug)]
pub(crate) struct LocalSocket {
    listener: UnixListener,
    file: SocketFile,
}

/// The file of a socket, and the lock that tells that its process lives.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    _lock: File,
}

impl LocalSocket {
    /// Listens on `path`, whose folder is created if the one above exists.
    pub(crate) fn bind(path: &Path) -> Result<Self, SocketProblem> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        check_folder(folder.unwrap_or(Path::new(".")))?;
        let lock = lock(path)?;
        remove_stale(path)?;
        let listener = listen(path).map_err(|error| io_problem(path, error))?;
        let file = SocketFile {
            path: path.to_owned(),
            _lock: lock,
        };
        Ok(Self { listener, file })
    }

    pub(super) fn into_parts(self) -> (UnixListener, SocketFile) {
        (self.listener, self.file)
    }
}

impl SocketFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // What remains is replaced by the next process.
        let _ = fs::remove_file(&self.path);
    }
}

fn io_problem(path: &Path, error: io::Error) -> SocketProblem {
    let path = path.to_owned();
    SocketProblem::Io { path, error }
}

fn unsafe_path(path: &Path, reason: &'static str) -> SocketProblem {
    let path = path.to_owned();
    SocketProblem::Unsafe { path, reason }
}

/// Creates the folder, or checks that no other user can replace what is in it.
fn check_folder(folder: &Path) -> Result<(), SocketProblem> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(io_problem(folder, error)),
        Ok(()) | Err(_) => {}
    }
    let found = fs::symlink_metadata(folder).map_err(|error| io_problem(folder, error))?;
    let reason = if found.is_symlink() {
        "is a symbolic link"
    } else if !found.is_dir() {
        "is not a folder"
    } else if found.uid() != geteuid().as_raw() {
        "belongs to another user"
    } else if found.mode() & WRITABLE_BY_OTHERS != 0 {
        "can be written to by other users"
    } else {
        return Ok(());
    };
    Err(unsafe_path(folder, reason))
}

/// Locks the socket for this process. The system releases the lock when the process ends, however it ends.
fn lock(path: &Path) -> Result<File, SocketProblem> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let lock = PathBuf::from(name);
    let problem = |error| io_problem(&lock, error);
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(&lock).map_err(problem)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::Error(error)) => return Err(problem(error)),
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            // The id is a help only: the process may be writing it.
            let _ = file.read_to_string(&mut pid);
            return Err(SocketProblem::InUse {
                path: path.to_owned(),
                pid: pid.trim().parse().ok(),
            });
        }
    }
    file.set_len(0).map_err(problem)?;
    writeln!(file, "{}", std::process::id()).map_err(problem)?;
    Ok(file)
}

/// Removes the socket of a process that has ended; anything else is left alone.
fn remove_stale(path: &Path) -> Result<(), SocketProblem> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io_problem(path, error)),
        Ok(found) if found.is_symlink() => Err(unsafe_path(path, "is a symbolic link")),
        Ok(found) if !found.file_type().is_socket() => Err(unsafe_path(path, "exists and is not a socket")),
        Ok(_) => fs::remove_file(path).map_err(|error| io_problem(path, error)),
    }
}

/// The mode is set before anybody can connect.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    socket.listen(BACKLOG_CONNECTIONS)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn refused(path: &Path) -> String {
        LocalSocket::bind(path).expect_err("it is refused").to_string()
    }

    #[test]
    fn socket_and_its_folder_are_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/admin.sock");
        let socket = LocalSocket::bind(&path).unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        drop(socket);
        assert!(!path.exists(), "it ends with its process");
    }

    #[test]
    fn socket_of_a_dead_process_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        LocalSocket::bind(&path).unwrap();
    }

    #[test]
    fn socket_of_a_live_process_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let first = LocalSocket::bind(&path).unwrap();
        let error = refused(&path);
        let process = format!(
            "{} is in use by another Informant, process {}",
            path.display(),
            std::process::id()
        );
        assert!(error.starts_with(&process), "{error}");
        std::os::unix::net::UnixStream::connect(&path).unwrap();
        drop(first);
        LocalSocket::bind(&path).unwrap();
    }

    #[test]
    fn links_and_folders_of_others_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let (folder, link) = (root.path().join("folder"), root.path().join("link"));
        fs::create_dir(&folder).unwrap();
        symlink(&folder, &link).unwrap();
        assert!(refused(&link.join("admin.sock")).contains("link is a symbolic link"));
        fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        let path = folder.join("admin.sock");
        symlink(root.path().join("elsewhere"), &path).unwrap();
        assert!(refused(&path).contains("admin.sock is a symbolic link"));
        fs::remove_file(&path).unwrap();
        fs::write(&path, "kept").unwrap();
        assert!(refused(&path).contains("is not a socket"));
        assert_eq!(fs::read(&path).unwrap(), b"kept");
        fs::remove_file(&path).unwrap();
        for shared in [0o770, 0o707, 0o1777] {
            fs::set_permissions(&folder, Permissions::from_mode(shared)).unwrap();
            assert!(
                refused(&path).contains("can be written to by other users"),
                "{shared:o}"
            );
        }
    }

    #[test]
    fn missing_parent_folder_is_not_created() {
        let root = tempfile::tempdir().unwrap();
        let error = refused(&root.path().join("missing/folder/admin.sock"));
        assert!(error.starts_with("cannot create"), "{error}");
        assert!(!root.path().join("missing").exists());
    }
}
