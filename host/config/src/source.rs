//! The text of a configuration file, and positions in it.
//!
//! Owns the text and its line starts. Knows nothing of TOML.

use std::fmt;
use std::path::{Path, PathBuf};

use informant_spec::Digest;

/// A position in a file, both counted from one, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilePosition {
    pub line: u32,
    /// The column, in characters.
    pub column: u32,
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A value and its position. Equality ignores the position: moving a line changes nothing.
#[derive(Debug, Clone)]
pub struct Located<T> {
    pub value: T,
    pub position: FilePosition,
}

impl<T: PartialEq> PartialEq for Located<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for Located<T> {}

/// A configuration file in memory.
#[derive(Debug)]
pub struct SourceFile {
    path: PathBuf,
    text: String,
    line_starts: Vec<usize>,
}

impl SourceFile {
    /// Wraps a text that was read already; messages refer to it as `path`.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        let text = text.into();
        let line_starts = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(at, _)| at + 1))
            .collect();
        Self {
            path: path.into(),
            text,
            line_starts,
        }
    }

    /// The file's name in messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    #[must_use]
    pub fn hash(&self) -> TextHash {
        TextHash::of(&self.text)
    }

    /// The position of the byte at `offset`. An offset past the end means the end.
    #[must_use]
    pub fn position(&self, offset: usize) -> FilePosition {
        let offset = offset.min(self.text.len());
        let line = self.line_starts.partition_point(|start| *start <= offset);
        let start = self.line_starts[line - 1];
        let column = self.text[start..]
            .char_indices()
            .take_while(|(at, _)| start + at < offset)
            .count()
            + 1;
        FilePosition {
            line: clamp(line),
            column: clamp(column),
        }
    }
}

/// The SHA-256 of a text, to detect changes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TextHash(Digest);

impl TextHash {
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self(Digest::of(text.as_bytes()))
    }
}

/// The first digits, enough to compare replicas.
impl fmt::Display for TextHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.short())
    }
}

impl fmt::Debug for TextHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The digits are of no use in debug output, and change with every edit.
        f.write_str("TextHash(…)")
    }
}

fn clamp(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_in_characters() {
        let file = SourceFile::new("c.toml", "a = 1\nü = 2\n");
        assert_eq!(file.position(0).to_string(), "1:1");
        assert_eq!(file.position(4).to_string(), "1:5");
        assert_eq!(file.position(6).to_string(), "2:1");
        // ü is two bytes and one column.
        assert_eq!(file.position(9).to_string(), "2:3");
        assert_eq!(file.position(10_000).to_string(), "3:1");
    }
}
