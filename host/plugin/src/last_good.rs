//! The last version of each plugin that proved good, kept for when a later one does not.
//!
//! ```text
//! artifacts/DIGEST.wasm, DIGEST.js      components and scripts that were loaded
//! artifacts/last-good/NAME-HASH         the digest of the last good one of a plugin
//! ```
//!
//! Components lie beside what they were compiled to, under the same limit. They are judged again like any other file
//! before they run, and their names are their digests, so that one that was changed is not taken.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::Digest;
use crate::script::is_script;

/// Where the last good versions are found. Does nothing without a folder to write to.
#[derive(Clone, Debug)]
pub(crate) struct LastGood {
    folder: Option<PathBuf>,
}

impl LastGood {
    pub(crate) fn new(folder: Option<&Path>) -> LastGood {
        LastGood {
            folder: folder.map(Path::to_owned),
        }
    }

    /// Keeps a component, so that it can be gone back to. A failure costs that and nothing else.
    pub(crate) fn keep(&self, file: &Path, digest: Digest, component: &[u8]) {
        let Some(path) = self.component(file, digest) else {
            return;
        };
        if let Ok(file) = fs::File::open(&path) {
            // It is in use: others go first when the folder is full.
            let _ = file.set_modified(SystemTime::now());
            return;
        }
        if let Err(error) = write(&path, component) {
            tracing::warn!(file = %path.display(), %error, "a component cannot be kept: nothing goes back to it later");
        }
    }

    /// Notes that `digest` is the last good version of the plugin called `name` whose component is `file`.
    pub(crate) fn note(&self, name: &str, file: &Path, digest: Digest) {
        let Some(path) = self.pointer(name, file) else { return };
        let written = match path.parent() {
            Some(folder) => fs::create_dir_all(folder),
            None => Ok(()),
        };
        if let Err(error) = written.and_then(|()| write(&path, digest.to_string().as_bytes())) {
            tracing::warn!(plugin = name, file = %path.display(), %error, "it cannot be noted which version of a plugin is good");
        }
    }

    /// The last good version of that plugin: its digest, and where it is. None if none is known or it is not there any
    /// more.
    pub(crate) fn find(&self, name: &str, file: &Path) -> Option<(Digest, PathBuf)> {
        let digest: Digest = fs::read_to_string(self.pointer(name, file)?)
            .ok()?
            .trim()
            .parse()
            .ok()?;
        let component = self.component(file, digest)?;
        component.exists().then_some((digest, component))
    }

    /// The ending of the plugin's own file stays: it says whether this is a component or a script.
    fn component(&self, file: &Path, digest: Digest) -> Option<PathBuf> {
        let ending = if is_script(file) { "js" } else { "wasm" };
        Some(self.folder.as_ref()?.join(format!("{digest}.{ending}")))
    }

    /// The name stands there for people; the hash tells plugins of two configurations apart, and keeps a strange name
    /// harmless.
    fn pointer(&self, name: &str, file: &Path) -> Option<PathBuf> {
        let hash = Digest::of(format!("{name}\0{}", file.display()).as_bytes()).short();
        let harmless = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let shown: String = name.chars().take(63).map(harmless).collect();
        Some(self.folder.as_ref()?.join("last-good").join(format!("{shown}-{hash}")))
    }
}

/// Writes a file whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    file.write_all(bytes)?;
    file.persist(path).map_err(std::io::Error::from).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_found_for_that_plugin_and_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let good = LastGood::new(Some(folder.path()));
        let (a, b) = (Path::new("/a.wasm"), Path::new("/b.wasm"));
        assert_eq!(good.find("x", a), None);
        let digest = Digest::of(b"component");
        good.note("x", a, digest);
        assert_eq!(good.find("x", a), None, "noted, but not kept");
        good.keep(a, digest, b"component");
        assert_eq!(
            good.find("x", a),
            Some((digest, folder.path().join(format!("{digest}.wasm"))))
        );
        assert_eq!((good.find("y", a), good.find("x", b)), (None, None));
        good.note("../../etc/passwd", a, digest);
        assert!(good.find("../../etc/passwd", a).is_some());
        assert_eq!(fs::read_dir(folder.path().join("last-good")).unwrap().count(), 2);
    }

    #[test]
    fn without_a_folder_nothing_is_kept() {
        let good = LastGood::new(None);
        good.keep(Path::new("a"), Digest::of(b""), b"");
        good.note("x", Path::new("a"), Digest::of(b""));
        assert_eq!(good.find("x", Path::new("a")), None);
    }
}
