//! The path to a file: every directory on it, and the name that is looked up in each.
//! If anything on that path is replaced, the file may be another one: the file itself, a symlink (a ConfigMap swaps
//! `..data`), a directory. Directories are stored without symlinks in their names, so that each has one name.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

/// How many symlinks are followed for one file; as many as Linux follows.
const LINKS_MAX: usize = 40;

/// Directories below a watched one that are watched, too: 1,000. What changes in further ones is noticed by polling.
const TREE_DIRECTORIES_MAX: usize = 1_000;

/// The watched directories.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WatchedPaths {
    /// Those on the path, each with the names that are looked up in it.
    on_path: BTreeMap<PathBuf, BTreeSet<OsString>>,
    /// Those in which every name counts.
    whole: BTreeSet<PathBuf>,
}

/// Whether a directory of this name is left out of a tree.
pub(crate) type IsLeftOut = fn(&OsStr) -> bool;

impl WatchedPaths {
    /// The path to a file as it is now; of what does not exist yet, as far as it can be known.
    pub(super) fn resolve(file: &Path) -> Self {
        let mut paths = Self::default();
        // Without a current directory a relative path cannot be resolved.
        if let Ok(file) = std::path::absolute(file) {
            paths.follow(&file, LINKS_MAX);
        }
        paths
    }

    /// The path to a folder as it is now, and the folders in it.
    pub(super) fn resolve_tree(folder: &Path, is_left_out: IsLeftOut) -> Self {
        let mut paths = Self::resolve(folder);
        let mut folders: Vec<PathBuf> = folder.canonicalize().into_iter().collect();
        while let Some(folder) = folders.pop() {
            if paths.whole.len() >= TREE_DIRECTORIES_MAX {
                break;
            }
            // What vanishes meanwhile is noticed in its parent.
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) && !is_left_out(&entry.file_name()) {
                    folders.push(entry.path());
                }
            }
            paths.whole.insert(folder);
        }
        paths
    }

    /// The directories, parents before their children.
    pub(super) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.on_path.keys().chain(&self.whole).map(PathBuf::as_path)
    }

    pub(super) fn has_directory(&self, directory: &Path) -> bool {
        self.on_path.contains_key(directory) || self.whole.contains(directory)
    }

    /// Whether an event at `path` can concern a file.
    pub(super) fn contains(&self, path: &Path) -> bool {
        let is_on = |parent: &Path, name| {
            self.whole.contains(parent) || self.on_path.get(parent).is_some_and(|names| names.contains(name))
        };
        self.has_directory(path)
            || matches!((path.parent(), path.file_name()), (Some(parent), Some(name)) if is_on(parent, name))
    }

    fn follow(&mut self, path: &Path, links_left: usize) {
        let mut directory = PathBuf::new();
        let mut components = path.components();
        while let Some(component) = components.next() {
            let name = match component {
                Component::Normal(name) => name,
                // It contains no symlinks, so its parent is what precedes it.
                Component::ParentDir => {
                    directory.pop();
                    continue;
                }
                Component::CurDir => continue,
                Component::RootDir | Component::Prefix(_) => {
                    directory.push(component);
                    continue;
                }
            };
            self.on_path
                .entry(directory.clone())
                .or_default()
                .insert(name.to_owned());
            let here = directory.join(name);
            match std::fs::read_link(&here) {
                Ok(target) if links_left > 0 => {
                    let rest = components.as_path();
                    return self.follow(&directory.join(target).join(rest), links_left - 1);
                }
                _ => directory = here,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// The paths below `root`, one a line.
    fn show(paths: &WatchedPaths, root: &Path) -> String {
        let below = paths.on_path.iter().filter_map(|(directory, names)| {
            let directory = directory.strip_prefix(root).ok()?;
            let names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
            Some(format!("{}: {}", directory.display(), names.join(" ")))
        });
        below.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn symlinks_and_directories_on_the_path_are_watched() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("v1")).unwrap();
        std::fs::write(root.join("v1/config.toml"), "").unwrap();
        symlink("v1", root.join("..data")).unwrap();
        symlink("..data/config.toml", root.join("config.toml")).unwrap();
        let paths = WatchedPaths::resolve(&root.join("x/../config.toml"));
        insta::assert_snapshot!(show(&paths, &root), @"
        : ..data config.toml v1 x
        v1: config.toml
        ");
        assert!(
            paths.contains(&root.join("..data"))
                && paths.contains(&root.join("v1"))
                && paths.contains(&root.join("v1/config.toml"))
        );
        assert!(!paths.contains(&root.join("other")) && !paths.contains(&root.join("v1/other")));
        assert!(
            paths.has_directory(root.parent().unwrap()),
            "the directory itself may be replaced"
        );
    }

    #[test]
    fn every_name_below_a_watched_folder_counts() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for folder in ["src/deep", "target/debug"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        symlink(&root, root.join("src/loop")).unwrap();
        let paths = WatchedPaths::resolve_tree(&root, |name| name == "target");
        for name in ["new.rs", "src/lib.rs", "src/deep/a.rs", "target"] {
            assert!(paths.contains(&root.join(name)), "{name}");
        }
        assert!(!paths.contains(&root.join("target/debug/a.wasm")));
        assert!(paths.has_directory(&root) && !paths.has_directory(&root.join("target")));
    }

    #[test]
    fn symlink_cycle_ends() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        symlink("b", root.join("a")).unwrap();
        symlink("a", root.join("b")).unwrap();
        let paths = WatchedPaths::resolve(&root.join("a"));
        assert_eq!(show(&paths, &root), ": a b");
    }
}
