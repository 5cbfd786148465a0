//! JSON pointers (RFC 6901) in which `*` stands for every array element or every member.

use std::fmt;
use std::str::FromStr;

/// Maximum number of tokens in a pointer. Kubernetes' own fields are at most about 12 deep; the limit bounds recursion.
pub const POINTER_TOKENS_MAX: usize = 64;

/// A path into an object: `/spec/containers/*/image`.
///
/// Tokens are separated by `/`; in a token `~1` stands for `/` and `~0` for `~`. A token `*` matches every element of
/// an array and every member of an object (so a member named `*` cannot be selected alone). A token of digits names an
/// array element, counted from 0, or the member of that name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pointer {
    text: Box<str>,
    tokens: Box<[PointerToken]>,
}

/// One step of a [`Pointer`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PointerToken {
    /// `*`: every array element, every member.
    Any,
    /// A member of this name (unescaped) or, if the name is a decimal number, the array element at that index.
    Name(Box<str>),
}

/// Why a text is not a pointer, or not one that can be used here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PointerError {
    /// The text is empty: it would mean the whole document.
    #[error("an empty JSON pointer means the whole object; name a field, as in \"/spec/nodeName\"")]
    Empty,
    /// The text does not begin with a slash.
    #[error("JSON pointer {0:?} does not begin with \"/\"; write \"/spec/nodeName\", not \"spec.nodeName\"")]
    NoSlash(String),
    /// A tilde that is neither `~0` nor `~1`.
    #[error("JSON pointer {text:?}, byte {at}: \"~\" must be written \"~0\" and \"/\" within a name \"~1\"")]
    Tilde {
        /// The whole pointer.
        text: String,
        /// Offset of the tilde in bytes.
        at: usize,
    },
    /// More than [`POINTER_TOKENS_MAX`] tokens.
    #[error("JSON pointer {0:?} has more than {POINTER_TOKENS_MAX} parts")]
    TooLong(String),
    /// The pointer would cut a field that Informant needs.
    #[error("JSON pointer {text:?} cannot be dropped: it covers {field}, which every object must keep")]
    Needed {
        /// The whole pointer.
        text: String,
        /// The covered field, as `metadata.name`.
        field: &'static str,
    },
    /// The pointer would replace a value that Informant reads.
    #[error("JSON pointer {text:?} cannot be a digest: Informant reads {field}")]
    Read {
        /// The whole pointer.
        text: String,
        /// What it covers or is below of, as `metadata.labels`.
        field: &'static str,
    },
}

impl Pointer {
    /// Reads a pointer.
    ///
    /// # Errors
    /// [`PointerError`] when the text is empty, does not begin with a slash, has a stray tilde or too many parts.
    ///
    /// Source: RFC 6901, sections 3 and 4.
    pub fn parse(text: &str) -> Result<Pointer, PointerError> {
        if text.is_empty() {
            return Err(PointerError::Empty);
        }
        let Some(path) = text.strip_prefix('/') else {
            return Err(PointerError::NoSlash(text.to_owned()));
        };
        if let Some(at) = stray_tilde(text) {
            return Err(PointerError::Tilde {
                text: text.to_owned(),
                at,
            });
        }
        let tokens: Box<[PointerToken]> = path.split('/').map(PointerToken::parse).collect();
        if tokens.len() > POINTER_TOKENS_MAX {
            return Err(PointerError::TooLong(text.to_owned()));
        }
        Ok(Pointer {
            text: text.into(),
            tokens,
        })
    }

    /// The steps of the path, outermost first; never empty.
    #[must_use]
    pub fn tokens(&self) -> &[PointerToken] {
        &self.tokens
    }

    /// The pointer as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether this pointer names `path` or something that contains it.
    pub(crate) fn covers(&self, path: &[&str]) -> bool {
        self.tokens.len() <= path.len() && self.tokens.iter().zip(path).all(|(token, name)| token.matches(name))
    }
}

impl PointerToken {
    fn parse(text: &str) -> PointerToken {
        if text == "*" {
            return PointerToken::Any;
        }
        // In this order: "~01" is "~1", not "/".
        PointerToken::Name(text.replace("~1", "/").replace("~0", "~").into())
    }

    /// Whether the token matches a member named `name`.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        match self {
            PointerToken::Any => true,
            PointerToken::Name(own) => **own == *name,
        }
    }

    /// The array index of a name: decimal, without sign or leading zero.
    pub(crate) fn index(&self) -> Option<u32> {
        match self {
            PointerToken::Any => None,
            PointerToken::Name(name) => {
                let canonical = &**name == "0" || !name.starts_with('0');
                let digits = name.bytes().all(|byte| byte.is_ascii_digit());
                if canonical && digits { name.parse().ok() } else { None }
            }
        }
    }
}

fn stray_tilde(text: &str) -> Option<usize> {
    text.match_indices('~')
        .map(|(at, _)| at)
        .find(|at| !matches!(text.as_bytes().get(at + 1), Some(b'0' | b'1')))
}

impl FromStr for Pointer {
    type Err = PointerError;

    fn from_str(text: &str) -> Result<Pointer, PointerError> {
        Pointer::parse(text)
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> PointerToken {
        PointerToken::Name(text.into())
    }

    #[test]
    fn escapes_are_undone_in_the_order_of_the_rfc() {
        let pointer = Pointer::parse("/metadata/annotations/example.com~1a~01/*/").expect("pointer");
        let tokens = [
            name("metadata"),
            name("annotations"),
            name("example.com/a~1"),
            PointerToken::Any,
            name(""),
        ];
        assert_eq!(pointer.tokens(), tokens);
        assert_eq!(pointer.to_string(), "/metadata/annotations/example.com~1a~01/*/");
    }

    #[test]
    fn only_canonical_numbers_are_array_indices() {
        for (text, index) in [
            ("0", Some(0)),
            ("12", Some(12)),
            ("01", None),
            ("-1", None),
            ("", None),
            ("1e1", None),
        ] {
            assert_eq!(name(text).index(), index, "{text:?}");
        }
    }

    #[test]
    fn errors_of_invalid_pointers_say_what_to_write() {
        let error = |text: &str| Pointer::parse(text).expect_err("refused").to_string();
        insta::assert_snapshot!(error(""), @r#"an empty JSON pointer means the whole object; name a field, as in "/spec/nodeName""#);
        insta::assert_snapshot!(error("spec.nodeName"), @r#"JSON pointer "spec.nodeName" does not begin with "/"; write "/spec/nodeName", not "spec.nodeName""#);
        insta::assert_snapshot!(error("/a~b"), @r#"JSON pointer "/a~b", byte 2: "~" must be written "~0" and "/" within a name "~1""#);
        insta::assert_snapshot!(error(&"/a".repeat(65)).split(' ').skip(3).collect::<Vec<_>>().join(" "), @"has more than 64 parts");
    }
}
