//! [`Content`]: what a plugin is made of, and [`ContentSource`], where that comes from.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::digest::Digest;
use crate::language::{Language, Suffix};

/// Where the content of a plugin comes from, and what it is written in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentSource {
    /// A file.
    File(PathBuf, Language),
}

/// What a plugin is made of at one point in time: a component, or a script. Cheap to clone.
#[derive(Clone)]
pub struct Content {
    bytes: Arc<[u8]>,
    digest: Digest,
    origin: ContentSource,
}

impl ContentSource {
    /// The script in a file with this suffix, whether or not a runner is known for it.
    #[must_use]
    pub fn script(path: impl Into<PathBuf>, suffix: Suffix) -> ContentSource {
        ContentSource::File(path.into(), Language::Script(suffix))
    }

    /// What it contains.
    #[must_use]
    pub const fn language(&self) -> &Language {
        let ContentSource::File(_, language) = self;
        language
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        let ContentSource::File(path, _) = self;
        path
    }

    /// Another file with content in the same language.
    #[must_use]
    pub fn at(&self, path: impl Into<PathBuf>) -> ContentSource {
        ContentSource::File(path.into(), self.language().clone())
    }
}

impl<P: Into<PathBuf>> From<P> for ContentSource {
    fn from(path: P) -> ContentSource {
        let path = path.into();
        let language = Language::of(&path);
        ContentSource::File(path, language)
    }
}

impl fmt::Display for ContentSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path().display().fmt(f)
    }
}

impl Content {
    /// The `bytes` from `origin`, which says what they are.
    #[must_use]
    pub fn new(origin: impl Into<ContentSource>, bytes: impl Into<Arc<[u8]>>) -> Content {
        let (origin, bytes) = (origin.into(), bytes.into());
        Content {
            digest: Digest::of(&bytes),
            origin,
            bytes,
        }
    }

    /// The same content, in `bytes` that others hold, too. They must be equal.
    #[must_use]
    pub fn sharing(self, bytes: Arc<[u8]>) -> Content {
        debug_assert_eq!(Digest::of(&bytes), self.digest);
        Content { bytes, ..self }
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
    pub const fn language(&self) -> &Language {
        self.origin.language()
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
