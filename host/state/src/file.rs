//! The file: made with narrow rights, locked, and believed only if it is whole and ours.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::{Builder, Database, DatabaseError, ReadableTable as _, StorageError};

use crate::row;

/// Bytes of pages that the database keeps in memory.
const PAGE_CACHE_BYTES: usize = 16 * 1_024 * 1_024;

/// How many files that were set aside are kept; the last takes the place of one before it.
const SET_ASIDE_FILES_MAX: usize = 3;

/// Why there is no database.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error(
        "{path} is in use by another process: each Informant needs a file of its own; stop the other one, or name another file in [state] path"
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// It can be neither read nor made.
    #[error("{path}: {source}; name a file in a folder that can be written to in [state] path")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A database that is whole and ours.
pub(crate) struct Opened {
    pub(crate) database: Database,
    /// What was there before and is not believed, and where it is now.
    pub(crate) set_aside: Option<(PathBuf, String)>,
}

/// Opens the file, or makes it. What it finds that is torn, foreign or of another version it sets aside.
pub(crate) fn open(path: &Path) -> Result<Opened, OpenError> {
    let about = |source| OpenError::Io {
        path: path.to_owned(),
        source,
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    make_folder(folder).map_err(about)?;
    let opened = open_or_set_aside(path)?;
    // A name that a power cut takes back takes the file with it.
    sync_folder(folder).map_err(about)?;
    Ok(opened)
}

fn open_or_set_aside(path: &Path) -> Result<Opened, OpenError> {
    let about = |source| OpenError::Io {
        path: path.to_owned(),
        source,
    };
    match open_believed(path).map_err(|error| error.at(path))? {
        Ok(database) => Ok(Opened {
            database,
            set_aside: None,
        }),
        Err(reason) => {
            let aside = set_aside(path).map_err(about)?;
            match open_believed(path).map_err(|error| error.at(path))? {
                Ok(database) => Ok(Opened {
                    database,
                    set_aside: Some((aside, reason)),
                }),
                Err(reason) => Err(about(io::Error::new(ErrorKind::InvalidData, reason))),
            }
        }
    }
}

enum Trouble {
    InUse,
    Io(io::Error),
}

impl Trouble {
    fn at(self, path: &Path) -> OpenError {
        let path = path.to_owned();
        match self {
            Self::InUse => OpenError::InUse { path },
            Self::Io(source) => OpenError::Io { path, source },
        }
    }
}

/// The database; or, within, why what is there cannot be believed.
fn open_believed(path: &Path) -> Result<Result<Database, String>, Trouble> {
    let file = make_file(path).map_err(Trouble::Io)?;
    // What a torn page makes of the reader is a panic in the worst case.
    let opened = catch_unwind(AssertUnwindSafe(|| judged(builder().create_file(file)?)));
    match opened {
        Ok(Ok(database)) => Ok(Ok(database)),
        Ok(Err(error)) => judge(error),
        Err(_) => Ok(Err("it is damaged".to_owned())),
    }
}

fn builder() -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(PAGE_CACHE_BYTES);
    builder
}

/// The database, if it is whole and ours.
fn judged(mut database: Database) -> Result<Database, redb::Error> {
    // Every page is looked at: what a later read would stumble over is found now.
    database.check_integrity()?;
    let write = database.begin_write()?;
    let is_new = write.list_tables()?.next().is_none();
    {
        let mut meta = write.open_table(row::META)?;
        let format = meta.get("format")?.map(|value| value.value().to_vec());
        match format {
            Some(format) if format == row::FORMAT => {}
            None if is_new => drop(meta.insert("format", row::FORMAT)?),
            _ => {
                let reason = "it was written by another version of Informant, or by another program";
                return Err(redb::Error::Corrupted(reason.to_owned()));
            }
        }
    }
    write.open_table(row::SOURCES)?;
    write.open_table(row::OBJECTS)?;
    write.open_table(row::HANDLERS)?;
    write.open_table(row::OPEN)?;
    write.commit()?;
    Ok(database)
}

/// A database that is kept elsewhere than in a file.
#[cfg(test)]
pub(crate) fn open_on(backend: impl redb::StorageBackend) -> Result<Database, redb::Error> {
    judged(builder().create_with_backend(backend)?)
}

fn judge(error: redb::Error) -> Result<Result<Database, String>, Trouble> {
    match error {
        redb::Error::DatabaseAlreadyOpen => Err(Trouble::InUse),
        redb::Error::Io(error) if !is_about_content(&error) => Err(Trouble::Io(error)),
        redb::Error::Corrupted(reason) => Ok(Err(reason)),
        other => Ok(Err(other.to_string())),
    }
}

/// Whether an error says that the file is not what it should be, rather than that it cannot be had.
fn is_about_content(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof)
}

/// Whether an error of a running database says that its file cannot be believed any more.
pub(crate) fn is_damage(error: &redb::Error) -> bool {
    match error {
        redb::Error::Io(error) => is_about_content(error),
        redb::Error::Corrupted(_) => true,
        _ => false,
    }
}

/// Renames the file, so that somebody may look at it.
pub(crate) fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let aside = |number: usize| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".broken-{number}"));
        PathBuf::from(name)
    };
    let free = (1..SET_ASIDE_FILES_MAX).map(aside).find(|aside| !aside.exists());
    let aside = free.unwrap_or_else(|| aside(SET_ASIDE_FILES_MAX));
    fs::rename(path, &aside)?;
    Ok(aside)
}

#[cfg(unix)]
fn make_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
fn make_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

fn make_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let file = options.open(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // One that was there may have been made by somebody with a wide umask.
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// The kinds of errors in one.
impl From<OpenError> for redb::Error {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::InUse { .. } => DatabaseError::DatabaseAlreadyOpen.into(),
            OpenError::Io { source, .. } => StorageError::Io(source).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a file with this content.
    fn opened(content: &[u8]) -> (tempfile::TempDir, Opened) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        fs::write(&path, content).unwrap();
        let opened = open(&path).unwrap();
        (folder, opened)
    }

    /// A file that was written and closed in order.
    fn good_file() -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        {
            let opened = open(&path).unwrap();
            let write = opened.database.begin_write().unwrap();
            {
                let mut objects = write.open_table(row::OBJECTS).unwrap();
                for number in 0..2_000u32 {
                    objects.insert(&number.to_be_bytes()[..], &[7u8; 100][..]).unwrap();
                }
            }
            write.commit().unwrap();
        }
        fs::read(&path).unwrap()
    }

    #[test]
    fn a_foreign_file_is_set_aside_and_kept() {
        for content in [&b"[cluster]\n"[..], &[0; 70_000], &[255; 5]] {
            let (folder, opened) = opened(content);
            let (aside, _) = opened.set_aside.expect("it was set aside");
            assert_eq!(aside, folder.path().join("state.redb.broken-1"));
            assert_eq!(fs::read(aside).unwrap(), content);
        }
    }

    #[test]
    fn a_torn_file_is_set_aside_and_never_fatal() {
        let good = good_file();
        for length in [100, 4_096, good.len() / 2, good.len() - 4_096, good.len() - 1] {
            let (_folder, opened) = opened(&good[..length]);
            assert!(opened.set_aside.is_some(), "cut to {length} of {}", good.len());
        }
    }

    #[test]
    fn a_file_with_bytes_that_changed_is_set_aside_or_says_what_it_said() {
        let good = good_file();
        let mut believed = 0;
        for place in (0..good.len()).step_by(good.len() / 97) {
            let mut bytes = good.clone();
            bytes[place] ^= 0x55;
            let (_folder, opened) = opened(&bytes);
            if opened.set_aside.is_some() {
                continue;
            }
            believed += 1;
            let read = redb::ReadableDatabase::begin_read(&opened.database).unwrap();
            let objects = read.open_table(row::OBJECTS).unwrap();
            let rows: Vec<_> = objects
                .range::<&[u8]>(..)
                .unwrap()
                .map(|row| row.unwrap().1.value().to_vec())
                .collect();
            assert!(
                rows.len() == 2_000 && rows.iter().all(|row| *row == [7; 100]),
                "at {place}"
            );
        }
        assert!(believed < 97, "no change was noticed");
    }

    #[test]
    fn a_file_of_another_version_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        {
            let opened = open(&path).unwrap();
            let write = opened.database.begin_write().unwrap();
            write
                .open_table(row::META)
                .unwrap()
                .insert("format", &b"informant-state 0"[..])
                .unwrap();
            write.commit().unwrap();
        }
        let (_, reason) = open(&path).unwrap().set_aside.unwrap();
        assert_eq!(
            reason,
            "it was written by another version of Informant, or by another program"
        );
        assert!(open(&path).unwrap().set_aside.is_none(), "the new one is ours");
    }

    #[test]
    fn only_so_many_files_are_kept_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        for number in 0..5 {
            fs::write(&path, format!("not a database {number}")).unwrap();
            open(&path).unwrap();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1 + SET_ASIDE_FILES_MAX);
    }

    #[test]
    fn a_file_in_use_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        let first = open(&path).unwrap();
        assert!(matches!(open(&path), Err(OpenError::InUse { .. })));
        drop(first);
        assert!(open(&path).unwrap().set_aside.is_none());
    }

    #[cfg(unix)]
    #[test]
    fn file_and_folder_are_for_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/state.redb");
        open(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        open(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
    }
}
