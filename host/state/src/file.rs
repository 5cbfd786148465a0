//! The database file: created with owner-only permissions, locked, and used only if it is valid.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::{Builder, Database, ReadableTable as _};

use crate::schema;
use crate::tables::{Tables, tables};

/// Bytes of pages that the database caches in memory.
const PAGE_CACHE_BYTES: usize = 16 * 1_024 * 1_024;

/// How many set-aside files are kept; the last one replaces the one before.
const SET_ASIDE_FILES_MAX: usize = 3;

/// Why there is no database.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses it.
    #[error(
        "{path} is in use by another process: each Informant needs its own file; stop the other process, or set another file in [state] path"
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// It was written by a newer Informant.
    #[error(
        "the state database {path} has format {found}, and this version of Informant reads formats up to {known}: use \
         the version that wrote it or a newer one; or move the file away to start with an empty one, which loses the \
         deletes that happened while Informant was down, what plugins have not acknowledged, and dead letters (with \
         on-start = \"continue\" plugins receive all objects once more)",
        known = schema::FORMAT
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// It is another configuration's.
    #[error(
        "the state database {path} belongs to the configuration {owner}: to keep both apart, set a file of its own in \
         [state] path; if that configuration was moved here, set path = {path:?}"
    )]
    Owned {
        /// The file.
        path: PathBuf,
        /// The other configuration.
        owner: String,
    },
    /// It can be neither read nor created.
    #[error("cannot open the state database {path}: {source}; set a file in a writable directory in [state] path")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A valid database.
pub(crate) struct OpenedDatabase {
    pub(crate) database: Database,
    /// The invalid file that was there before: its new path, and why it is invalid.
    pub(crate) set_aside: Option<(PathBuf, String)>,
}

/// Opens the file, or creates it. A file of an older format is migrated; one that is torn or foreign is set aside; one
/// of another owner is refused.
pub(crate) fn open(path: &Path, owner: Option<&str>) -> Result<OpenedDatabase, OpenError> {
    let about = |source| OpenError::Io {
        path: path.to_owned(),
        source,
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    create_directory(folder).map_err(about)?;
    let opened = open_or_set_aside(path, owner)?;
    // A power cut that loses the directory entry loses the file with it.
    sync_directory(folder).map_err(about)?;
    Ok(opened)
}

fn open_or_set_aside(path: &Path, owner: Option<&str>) -> Result<OpenedDatabase, OpenError> {
    let about = |source| OpenError::Io {
        path: path.to_owned(),
        source,
    };
    match open_checked(path, owner)? {
        Ok(database) => Ok(OpenedDatabase {
            database,
            set_aside: None,
        }),
        Err(reason) => {
            let aside = set_aside(path).map_err(about)?;
            match open_checked(path, owner)? {
                Ok(database) => Ok(OpenedDatabase {
                    database,
                    set_aside: Some((aside, reason)),
                }),
                Err(reason) => Err(about(io::Error::new(ErrorKind::InvalidData, reason))),
            }
        }
    }
}

/// A file that is a database of Informant, or why it is none.
pub(crate) enum Validated {
    Valid(Database),
    /// Its format is newer than [`schema::FORMAT`].
    Newer(u32),
    /// It is another owner's.
    Owned(String),
}

/// The database; or, in the inner result, why the file is invalid.
fn open_checked(path: &Path, owner: Option<&str>) -> Result<Result<Database, String>, OpenError> {
    let about = |source| OpenError::Io {
        path: path.to_owned(),
        source,
    };
    let file = create_file(path).map_err(about)?;
    // A torn page may make the reader panic.
    let opened = catch_unwind(AssertUnwindSafe(|| validate(builder().create_file(file)?, owner)));
    let path = path.to_owned();
    match opened {
        Ok(Ok(Validated::Valid(database))) => Ok(Ok(database)),
        Ok(Ok(Validated::Newer(found))) => Err(OpenError::Newer { path, found }),
        Ok(Ok(Validated::Owned(owner))) => Err(OpenError::Owned { path, owner }),
        Ok(Err(redb::Error::DatabaseAlreadyOpen)) => Err(OpenError::InUse { path }),
        Ok(Err(redb::Error::Io(source))) if !is_about_content(&source) => Err(OpenError::Io { path, source }),
        Ok(Err(redb::Error::Corrupted(reason))) => Ok(Err(reason)),
        Ok(Err(other)) => Ok(Err(other.to_string())),
        Err(_) => Ok(Err("it is damaged".to_owned())),
    }
}

fn builder() -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(PAGE_CACHE_BYTES);
    builder
}

/// The database, if it is valid; migrated if it has an older format.
fn validate(mut database: Database, owner: Option<&str>) -> Result<Validated, redb::Error> {
    // Checks every page, so that a later read does not hit a damaged one.
    database.check_integrity()?;
    let write = database.begin_write()?;
    let is_new = write.list_tables()?.next().is_none();
    {
        let mut meta = write.open_table(schema::META)?;
        let found = meta.get("format")?.map(|value| schema::format_of(value.value()));
        let mut tables = tables(&write)?;
        match found {
            Some(Some(schema::FORMAT)) => {}
            Some(Some(1)) => migrate_from_1(&mut tables)?,
            Some(Some(newer)) if newer > schema::FORMAT => return Ok(Validated::Newer(newer)),
            None if is_new => {}
            _ => {
                let reason = "it was written by another version of Informant, or by another program";
                return Err(redb::Error::Corrupted(reason.to_owned()));
            }
        }
        if let Some(owner) = owner {
            let found = meta
                .get("owner")?
                .map(|found| String::from_utf8_lossy(found.value()).into_owned());
            if let Some(other) = found.filter(|found| found != owner) {
                return Ok(Validated::Owned(other));
            }
            meta.insert("owner", owner.as_bytes())?;
        }
        meta.insert("format", &schema::format_row(schema::FORMAT)[..])?;
    }
    write.commit()?;
    Ok(Validated::Valid(database))
}

/// In format 1 a row in `open` was a key's only delete, too: tag 1, or 2 if it was not observed, and the last state.
fn migrate_from_1(tables: &mut Tables<'_>) -> Result<(), redb::Error> {
    let Tables { open, ended, .. } = tables;
    let mut deletes = Vec::new();
    for found in open.iter()? {
        let (key, value) = found?;
        if value.value() != schema::IS_OPEN {
            deletes.push(key.value().to_vec());
        }
    }
    for key in deletes {
        if let Some(delete) = open.remove(&key[..])? {
            ended.insert(&schema::incarnation_key(key, 0)[..], delete.value())?;
        }
    }
    Ok(())
}

/// A database on another backend than a file.
pub(crate) fn open_on(backend: impl redb::StorageBackend) -> Result<Database, redb::Error> {
    match validate(builder().create_with_backend(backend)?, None)? {
        Validated::Valid(database) => Ok(database),
        Validated::Newer(format) => Err(redb::Error::Corrupted(format!("format {format}"))),
        Validated::Owned(owner) => Err(redb::Error::Corrupted(format!("of {owner}"))),
    }
}

/// Whether an error is about the file's content, rather than about access to it.
fn is_about_content(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof)
}

/// Whether an error of an open database means that its file is damaged.
pub(crate) fn is_corruption(error: &redb::Error) -> bool {
    match error {
        redb::Error::Io(error) => is_about_content(error),
        redb::Error::Corrupted(_) => true,
        _ => false,
    }
}

/// Renames the file, so that it can be examined.
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
fn create_directory(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(unix)]
fn sync_directory(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_folder: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
fn create_directory(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

fn create_file(path: &Path) -> io::Result<File> {
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
        // An existing file may have been created with a wide umask.
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens a file with this content.
    fn opened(content: &[u8]) -> (tempfile::TempDir, OpenedDatabase) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        fs::write(&path, content).unwrap();
        let opened = open(&path, None).unwrap();
        (folder, opened)
    }

    /// The bytes of a file that was written and closed properly.
    fn good_file() -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        {
            let opened = open(&path, None).unwrap();
            let write = opened.database.begin_write().unwrap();
            {
                let mut objects = write.open_table(schema::OBJECTS).unwrap();
                for number in 0..2_000u32 {
                    objects.insert(&number.to_be_bytes()[..], &[7u8; 100][..]).unwrap();
                }
            }
            write.commit().unwrap();
        }
        fs::read(&path).unwrap()
    }

    #[test]
    fn foreign_file_is_set_aside() {
        for content in [&b"[cluster]\n"[..], &[0; 70_000], &[255; 5]] {
            let (folder, opened) = opened(content);
            let (aside, _) = opened.set_aside.expect("it was set aside");
            assert_eq!(aside, folder.path().join("state.redb.broken-1"));
            assert_eq!(fs::read(aside).unwrap(), content);
        }
    }

    #[test]
    fn torn_file_is_set_aside() {
        let good = good_file();
        for length in [100, 4_096, good.len() / 2, good.len() - 4_096, good.len() - 1] {
            let (_folder, opened) = opened(&good[..length]);
            assert!(opened.set_aside.is_some(), "cut to {length} of {}", good.len());
        }
    }

    #[test]
    fn corrupted_file_is_set_aside_or_reads_as_before() {
        let good = good_file();
        let mut accepted = 0;
        for place in (0..good.len()).step_by(good.len() / 97) {
            let mut bytes = good.clone();
            bytes[place] ^= 0x55;
            let (_folder, opened) = opened(&bytes);
            if opened.set_aside.is_some() {
                continue;
            }
            accepted += 1;
            let read = redb::ReadableDatabase::begin_read(&opened.database).unwrap();
            let objects = read.open_table(schema::OBJECTS).unwrap();
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
        assert!(accepted < 97, "no change was noticed");
    }

    /// Sets the format of a file.
    fn set_format(path: &Path, format: &[u8]) {
        let opened = open(path, None).unwrap();
        let write = opened.database.begin_write().unwrap();
        write
            .open_table(schema::META)
            .unwrap()
            .insert("format", format)
            .unwrap();
        write.commit().unwrap();
    }

    #[test]
    fn newer_format_is_refused_and_both_ways_out_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        set_format(&path, b"informant-state 3");
        let before = fs::read(&path).unwrap();
        let error = open(&path, None).err().expect("it is refused");
        assert!(matches!(error, OpenError::Newer { found: 3, .. }));
        let message = error.to_string();
        for part in [
            "format 3",
            "formats up to 2",
            "use the version that wrote it or a newer one",
            "or move the file away",
            "loses the deletes",
        ] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(fs::read(&path).unwrap().len(), before.len(), "it is left alone");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was set aside");
    }

    #[test]
    fn tables_that_a_file_lacks_are_created() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        let write = open(&path, None).unwrap().database.begin_write().unwrap();
        assert!(write.delete_table(schema::ENDED).unwrap());
        write.commit().unwrap();
        let opened = open(&path, None).unwrap();
        assert!(opened.set_aside.is_none());
        let read = redb::ReadableDatabase::begin_read(&opened.database).unwrap();
        read.open_table(schema::ENDED).unwrap();
    }

    #[test]
    fn file_of_another_version_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        set_format(&path, b"informant-state 0");
        let (_, reason) = open(&path, None).unwrap().set_aside.unwrap();
        assert_eq!(
            reason,
            "it was written by another version of Informant, or by another program"
        );
        assert!(open(&path, None).unwrap().set_aside.is_none(), "the new one is ours");
    }

    #[test]
    fn number_of_set_aside_files_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        for number in 0..5 {
            fs::write(&path, format!("not a database {number}")).unwrap();
            open(&path, None).unwrap();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1 + SET_ASIDE_FILES_MAX);
    }

    #[test]
    fn file_of_another_owner_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        // An older file has no owner.
        drop(open(&path, None).unwrap());
        drop(open(&path, Some("/a/config.toml")).unwrap());
        let error = open(&path, Some("/b/config.toml")).err().expect("it is refused");
        let message = error.to_string();
        assert!(
            message.contains("belongs to the configuration /a/config.toml"),
            "{message}"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was set aside");
        drop(open(&path, Some("/a/config.toml")).unwrap());
        // A path that is configured is meant.
        drop(open(&path, None).unwrap());
    }

    #[test]
    fn file_in_use_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        let first = open(&path, None).unwrap();
        assert!(matches!(open(&path, None), Err(OpenError::InUse { .. })));
        drop(first);
        assert!(open(&path, None).unwrap().set_aside.is_none());
    }

    #[cfg(unix)]
    #[test]
    fn file_and_directory_are_private_to_their_owner() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/state.redb");
        open(&path, None).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        open(&path, None).unwrap();
        assert_eq!(mode(&path), 0o600);
    }
}
