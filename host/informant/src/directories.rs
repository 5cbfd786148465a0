//! Where files that nobody names go.

use std::ffi::OsString;
use std::path::PathBuf;

/// The folder of compiled components: `$XDG_CACHE_HOME/informant`, `~/.cache/informant`, or else one in the temporary folder.
#[must_use]
pub(crate) fn cache() -> PathBuf {
    cache_in(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))
}

fn cache_in(xdg: Option<OsString>, home: Option<OsString>) -> PathBuf {
    // The specification wants relative paths ignored; a container may have HOME=/.
    let absolute = |path: Option<OsString>| path.map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute(xdg).or_else(|| absolute(home).map(|home| home.join(".cache")));
    base.unwrap_or_else(std::env::temp_dir).join("informant")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_the_xdg_specification_wants_it() {
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
        assert_eq!(cache_in(None, None), std::env::temp_dir().join("informant"));
    }
}
