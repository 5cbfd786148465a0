//! Default locations of files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use informant_config::Config;

/// The folder for compiled components: `$XDG_CACHE_HOME/informant`, `~/.cache/informant`, or else one in the temporary
/// folder.
#[must_use]
pub(crate) fn cache() -> PathBuf {
    cache_in(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))
}

/// The state file of a configuration; the default one is next to it if there is no other place.
#[must_use]
pub(crate) fn state_path(config: &Config) -> PathBuf {
    let path = config.state.path.clone().or_else(state_file);
    path.unwrap_or_else(|| config.path.with_file_name("state.redb"))
}

/// The state file: `$XDG_STATE_HOME/informant/state.redb`, `~/.local/state/informant/state.redb`. Never in a folder
/// that other users may write to, or that a reboot empties.
#[must_use]
fn state_file() -> Option<PathBuf> {
    state_file_in(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"))
}

fn state_file_in(xdg: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let base = absolute(xdg).or_else(|| absolute(home).map(|home| home.join(".local/state")));
    base.map(|base| base.join("informant/state.redb"))
}

/// `file` with the real path of its folder. A link in place of the file is not followed: in a ConfigMap it changes.
#[must_use]
pub(crate) fn real_folder_of(file: &Path) -> PathBuf {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
        return file.to_owned();
    };
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    std::fs::canonicalize(folder).map_or_else(|_| file.to_owned(), |folder| folder.join(name))
}

/// The XDG specification says to ignore relative paths; a container may have HOME=/.
fn absolute(path: Option<OsString>) -> Option<PathBuf> {
    path.map(PathBuf::from).filter(|path| path.is_absolute())
}

fn cache_in(xdg: Option<OsString>, home: Option<OsString>) -> PathBuf {
    let base = absolute(xdg).or_else(|| absolute(home).map(|home| home.join(".cache")));
    base.unwrap_or_else(std::env::temp_dir).join("informant")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_has_one_path() {
        let folder = tempfile::tempdir().unwrap();
        let (x, y) = (folder.path().join("x"), folder.path().join("y"));
        std::fs::create_dir(&x).unwrap();
        std::os::unix::fs::symlink(&x, &y).unwrap();
        let real = std::fs::canonicalize(&x).unwrap().join("config.toml");
        for file in [x.join("config.toml"), x.join("../y/config.toml"), y.join("config.toml")] {
            assert_eq!(real_folder_of(&file), real, "{}", file.display());
        }
        assert!(real_folder_of(Path::new("config.toml")).is_absolute());
    }

    #[test]
    fn cache_and_state_follow_the_xdg_specification() {
        assert_eq!(
            cache_in(Some("/x".into()), Some("/home/a".into())),
            PathBuf::from("/x/informant")
        );
        assert_eq!(
            cache_in(None, Some("/home/a".into())),
            PathBuf::from("/home/a/.cache/informant")
        );
        assert_eq!(
            cache_in(Some("x".into()), Some("/home/a".into())),
            PathBuf::from("/home/a/.cache/informant")
        );
        assert_eq!(
            state_file_in(Some("/x".into()), None),
            Some(PathBuf::from("/x/informant/state.redb"))
        );
        assert_eq!(
            state_file_in(Some("x".into()), Some("/home/a".into())),
            Some(PathBuf::from("/home/a/.local/state/informant/state.redb"))
        );
        assert_eq!(state_file_in(None, None), None);
        assert_eq!(cache_in(None, None), std::env::temp_dir().join("informant"));
    }
}
