//! Files in a tar archive whose bytes depend only on them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tar::{Builder, EntryType, Header};

/// Files and folders, in the order in which they are written.
#[derive(Default)]
pub(crate) struct Tree {
    entries: Vec<Entry>,
}

struct Entry {
    path: String,
    kind: EntryType,
    mode: u32,
    /// User and group.
    owner: u64,
    content: Vec<u8>,
}

impl Tree {
    /// Adds a folder.
    pub(crate) fn folder(&mut self, path: &str, mode: u32, owner: u64) {
        self.add(&format!("{path}/"), EntryType::Directory, mode, owner, Vec::new());
    }

    /// Adds a file of root.
    pub(crate) fn file(&mut self, path: &str, mode: u32, content: impl Into<Vec<u8>>) {
        self.add(path, EntryType::Regular, mode, 0, content.into());
    }

    fn add(&mut self, path: &str, kind: EntryType, mode: u32, owner: u64, content: Vec<u8>) {
        self.entries.push(Entry {
            path: path.to_owned(),
            kind,
            mode,
            owner,
            content,
        });
    }

    /// The archive. Every file has the time `epoch`, and its owner has no name.
    pub(crate) fn to_tar(&self, epoch: u64) -> Result<Vec<u8>> {
        let mut builder = Builder::new(Vec::new());
        for entry in &self.entries {
            let mut header = Header::new_ustar();
            header.set_entry_type(entry.kind);
            header.set_mode(entry.mode);
            header.set_uid(entry.owner);
            header.set_gid(entry.owner);
            header.set_mtime(epoch);
            header.set_size(u64::try_from(entry.content.len())?);
            builder
                .append_data(&mut header, &entry.path, entry.content.as_slice())
                .with_context(|| format!("failed to pack {}", entry.path))?;
        }
        Ok(builder.into_inner()?)
    }
}

/// The files in `root` and its folders, as paths below it, sorted.
pub(crate) fn files_below(root: &Path) -> Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        let path = root.join(&folder);
        let entries = std::fs::read_dir(&path).with_context(|| format!("failed to read {}", path.display()))?;
        for entry in entries {
            let entry = entry?;
            let found = if entry.file_type()?.is_dir() {
                &mut folders
            } else {
                &mut files
            };
            found.push(folder.join(entry.file_name()));
        }
    }
    files.sort();
    Ok(files)
}

/// `bytes`, compressed. The header names neither a file nor a time nor a system.
pub(crate) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut encoder, bytes)?;
    Ok(encoder.finish()?)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::{Tree, gzip};

    #[test]
    fn archive_holds_modes_owners_and_the_given_time() {
        let mut tree = Tree::default();
        tree.folder("cache", 0o700, 65532);
        tree.file("bin/informant", 0o755, "program");
        let packed = gzip(&tree.to_tar(7).unwrap()).unwrap();
        assert_eq!(packed, gzip(&tree.to_tar(7).unwrap()).unwrap());
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(packed.as_slice()));
        let mut found = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            let header = entry.header();
            found.push(format!(
                "{} {:o} {} {} {text:?}",
                entry.path().unwrap().display(),
                header.mode().unwrap(),
                header.uid().unwrap(),
                header.mtime().unwrap()
            ));
        }
        insta::assert_snapshot!(found.join("\n"), @r#"
        cache/ 700 65532 7 ""
        bin/informant 755 0 7 "program"
        "#);
    }
}
