//! The way to a file: every folder that is passed, and the name that is looked up in it.
//!
//! Whatever on that way is replaced, the file may be another one: the file itself, a link (a ConfigMap swaps `..data`),
//! a folder. Folders are named without links in them, so that each has one name.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// How many links are followed on the way to one file; as many as Linux follows.
const LINKS_MAX: usize = 40;

/// Folders, each with the names that are looked up in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ways(BTreeMap<PathBuf, BTreeSet<OsString>>);

impl Ways {
    /// The ways to some files as they are now; of what does not exist yet, as far as it can be known.
    pub(super) fn to<'f>(files: impl IntoIterator<Item = &'f Path>) -> Self {
        let mut ways = Self::default();
        for file in files {
            // Without a current folder a relative path leads nowhere.
            if let Ok(file) = std::path::absolute(file) {
                ways.follow(&file, LINKS_MAX);
            }
        }
        ways
    }

    /// The folders, parents before their children.
    pub(super) fn folders(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }

    pub(super) fn has_folder(&self, folder: &Path) -> bool {
        self.0.contains_key(folder)
    }

    /// Whether what happens at `path` can concern a file.
    pub(super) fn pass(&self, path: &Path) -> bool {
        let is_on = |parent: &Path, name| self.0.get(parent).is_some_and(|names| names.contains(name));
        self.has_folder(path)
            || matches!((path.parent(), path.file_name()), (Some(parent), Some(name)) if is_on(parent, name))
    }

    fn follow(&mut self, path: &Path, links_left: usize) {
        let mut folder = PathBuf::new();
        let mut components = path.components();
        while let Some(component) = components.next() {
            let name = match component {
                Component::Normal(name) => name,
                // No links are in it, so that its parent is what stands before it.
                Component::ParentDir => {
                    folder.pop();
                    continue;
                }
                Component::CurDir => continue,
                Component::RootDir | Component::Prefix(_) => {
                    folder.push(component);
                    continue;
                }
            };
            self.0.entry(folder.clone()).or_default().insert(name.to_owned());
            let here = folder.join(name);
            match std::fs::read_link(&here) {
                Ok(target) if links_left > 0 => {
                    let rest = components.as_path();
                    return self.follow(&folder.join(target).join(rest), links_left - 1);
                }
                _ => folder = here,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// The ways below `root`, one a line.
    fn show(ways: &Ways, root: &Path) -> String {
        let below = ways.0.iter().filter_map(|(folder, names)| {
            let folder = folder.strip_prefix(root).ok()?;
            let names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
            Some(format!("{}: {}", folder.display(), names.join(" ")))
        });
        below.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn links_and_folders_on_the_way_are_passed_too() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("v1")).unwrap();
        std::fs::write(root.join("v1/config.toml"), "").unwrap();
        symlink("v1", root.join("..data")).unwrap();
        symlink("..data/config.toml", root.join("config.toml")).unwrap();
        let ways = Ways::to([root.join("x/../config.toml").as_path()]);
        insta::assert_snapshot!(show(&ways, &root), @"
        : ..data config.toml v1 x
        v1: config.toml
        ");
        assert!(
            ways.pass(&root.join("..data")) && ways.pass(&root.join("v1")) && ways.pass(&root.join("v1/config.toml"))
        );
        assert!(!ways.pass(&root.join("other")) && !ways.pass(&root.join("v1/other")));
        assert!(
            ways.has_folder(root.parent().unwrap()),
            "the folder itself may be replaced"
        );
    }

    #[test]
    fn links_that_lead_in_a_circle_end() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        symlink("b", root.join("a")).unwrap();
        symlink("a", root.join("b")).unwrap();
        let ways = Ways::to([root.join("a").as_path()]);
        assert_eq!(show(&ways, &root), ": a b");
    }
}
