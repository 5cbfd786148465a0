//! The last good version of each plugin, kept for rollbacks.
//!
//! ```text
//! artifacts/DIGEST.wasm, DIGEST.js, …   components and scripts that were loaded
//! artifacts/last-good/NAME-HASH         the digest of the last good one of a plugin
//! ```
//!
//! Components are stored next to their artifacts, within the same limit. Before they run they are validated like any
//! other file, and their names are their digests, so that a changed file is not used.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use informant_spec::{Content, ContentSource, Digest, Language};

use super::shrink;

/// The store of last good versions. Does nothing without a writable directory.
#[derive(Clone, Debug)]
pub(crate) struct LastGood {
    directory: Option<PathBuf>,
}

impl LastGood {
    pub(crate) fn new(directory: Option<&Path>) -> LastGood {
        LastGood {
            directory: directory.map(Path::to_owned),
        }
    }

    /// Keeps `content` for a later rollback. A failure is only logged.
    pub(crate) fn keep(&self, content: &Content) {
        let Some(path) = self.kept(content.language(), content.digest()) else {
            return;
        };
        if let Ok(file) = fs::File::open(&path) {
            // It is in use: others are removed first when the directory is full.
            let _ = file.set_modified(SystemTime::now());
            return;
        }
        match write(&path, content.bytes()) {
            Ok(()) => path.parent().into_iter().for_each(shrink),
            Err(error) => {
                tracing::warn!(
                    file = %path.display(),
                    %error,
                    "component not stored; rollback to it is impossible after a restart"
                )
            }
        }
    }

    /// Records that `digest` is the last good version of the plugin `name` with this source.
    pub(crate) fn record(&self, name: &str, source: &ContentSource, digest: Digest) {
        let Some(path) = self.pointer(name, source) else { return };
        let written = match path.parent() {
            Some(directory) => fs::create_dir_all(directory),
            None => Ok(()),
        };
        if let Err(error) = written.and_then(|()| write(&path, digest.to_string().as_bytes())) {
            tracing::warn!(plugin = name, file = %path.display(), %error, "last good version not recorded");
        }
    }

    /// The last good version of that plugin: None if none is known, or if what is kept is not what was recorded.
    pub(crate) fn find(&self, name: &str, source: &ContentSource) -> Option<Content> {
        let digest: Digest = fs::read_to_string(self.pointer(name, source)?)
            .ok()?
            .trim()
            .parse()
            .ok()?;
        let kept = self.kept(source.language(), digest)?;
        let bytes = fs::read(&kept).ok()?;
        let content = Content::new(source.at(kept), bytes);
        (content.digest() == digest).then_some(content)
    }

    /// The suffix tells a component from a script.
    fn kept(&self, language: &Language, digest: Digest) -> Option<PathBuf> {
        let suffix = language.suffix();
        Some(self.directory.as_ref()?.join(format!("{digest}.{suffix}")))
    }

    /// The name is for people; the hash distinguishes plugins of two configurations and makes unusual names safe.
    fn pointer(&self, name: &str, source: &ContentSource) -> Option<PathBuf> {
        let hash = Digest::of(format!("{name}\0{source}").as_bytes()).short();
        let harmless = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let shown: String = name.chars().take(63).map(harmless).collect();
        Some(
            self.directory
                .as_ref()?
                .join("last-good")
                .join(format!("{shown}-{hash}")),
        )
    }
}

/// Writes a file atomically.
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    file.write_all(bytes)?;
    file.persist(path).map_err(std::io::Error::from).map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::artifacts::ARTIFACTS_BYTES_MAX;

    #[test]
    fn a_record_is_found_for_its_plugin_and_file_only() {
        let directory = tempfile::tempdir().unwrap();
        let good = LastGood::new(Some(directory.path()));
        let (a, b) = (ContentSource::from("/a.wasm"), ContentSource::from("/b.wasm"));
        assert!(good.find("x", &a).is_none());
        let digest = Digest::of(b"component");
        good.record("x", &a, digest);
        assert!(good.find("x", &a).is_none(), "recorded, but not kept");
        good.keep(&Content::new("/a.wasm", *b"component"));
        let found = good.find("x", &a).unwrap();
        assert_eq!((found.digest(), &found.bytes()[..]), (digest, &b"component"[..]));
        assert!(good.find("y", &a).is_none() && good.find("x", &b).is_none());
        good.record("../../etc/passwd", &a, digest);
        assert!(good.find("../../etc/passwd", &a).is_some());
        assert_eq!(fs::read_dir(directory.path().join("last-good")).unwrap().count(), 2);
    }

    #[test]
    fn kept_scripts_are_pruned_like_artifacts() {
        let directory = tempfile::tempdir().unwrap();
        let good = LastGood::new(Some(directory.path()));
        let [old, recent, new] = [&b"old"[..], b"recent", b"new"].map(Digest::of);
        let kept = |digest: Digest| directory.path().join(format!("{digest}.js"));
        // The first fills the directory; it does not take that much of the disk.
        for (digest, bytes, age_s) in [(old, ARTIFACTS_BYTES_MAX, 60), (recent, 1, 30)] {
            let file = fs::File::create(kept(digest)).unwrap();
            file.set_len(bytes).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age_s))
                .unwrap();
        }
        good.keep(&Content::new("/handler.js", *b"new"));
        let left = [old, recent, new].map(|digest| kept(digest).exists());
        assert_eq!(left, [false, true, true]);
    }

    #[test]
    fn nothing_is_kept_without_a_directory() {
        let good = LastGood::new(None);
        let source = ContentSource::from("a");
        good.keep(&Content::new("a", *b""));
        good.record("x", &source, Digest::of(b""));
        assert!(good.find("x", &source).is_none());
    }
}
