//! [`Content`]: what a plugin is made of, and [`ContentSource`], where that comes from.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::digest::Digest;

/// Where the content of a plugin comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentSource {
    /// A file.
    File(PathBuf),
}

/// What a plugin is written in, as far as running it differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// A component, whatever it was compiled from.
    Wasm,
    /// A JavaScript module, which the script runner runs.
    JavaScript,
}

/// What a plugin is made of at one point in time: a component, or a script. Cheap to clone.
#[derive(Clone)]
pub struct Content {
    bytes: Arc<[u8]>,
    digest: Digest,
    language: Language,
    origin: ContentSource,
}

impl ContentSource {
    /// What it contains. A file's extension tells.
    #[must_use]
    pub fn language(&self) -> Language {
        let ContentSource::File(path) = self;
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("js" | "mjs") => Language::JavaScript,
            _ => Language::Wasm,
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        let ContentSource::File(path) = self;
        path
    }
}

impl<P: Into<PathBuf>> From<P> for ContentSource {
    fn from(path: P) -> ContentSource {
        ContentSource::File(path.into())
    }
}

impl fmt::Display for ContentSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path().display().fmt(f)
    }
}

impl Language {
    /// Whether it is run by a script runner.
    #[must_use]
    pub const fn is_script(self) -> bool {
        matches!(self, Language::JavaScript)
    }

    /// The extension of its files.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Language::Wasm => "wasm",
            Language::JavaScript => "js",
        }
    }
}

impl Content {
    /// The `bytes` from `origin`, which says what they are.
    #[must_use]
    pub fn new(origin: impl Into<ContentSource>, bytes: impl Into<Arc<[u8]>>) -> Content {
        let (origin, bytes) = (origin.into(), bytes.into());
        Content {
            digest: Digest::of(&bytes),
            language: origin.language(),
            origin,
            bytes,
        }
    }

    #[must_use]
    pub const fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    /// Their sha256.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// What they are.
    #[must_use]
    pub const fn language(&self) -> Language {
        self.language
    }

    /// Where they come from.
    #[must_use]
    pub const fn origin(&self) -> &ContentSource {
        &self.origin
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Content({}, {})", self.origin, self.digest.short())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_recognized_by_their_extension() {
        for (name, expected) in [
            ("handler.js", true),
            ("a/handler.mjs", true),
            ("handler.wasm", false),
            ("js", false),
            ("handler.js/plugin", false),
            ("handler.ts", false),
        ] {
            assert_eq!(ContentSource::from(name).language().is_script(), expected, "{name}");
        }
    }
}
