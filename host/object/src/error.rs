//! Errors of reading an object.

use std::fmt;

use crate::pointer::POINTER_TOKENS_MAX;

/// Why bytes are not a Kubernetes object. Offsets count bytes from the beginning of the input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The text is empty or only white space.
    #[error("there is no JSON, only {bytes} bytes of white space; the sender sent nothing")]
    Empty {
        /// Length of the text.
        bytes: usize,
    },
    /// The text ends within a value.
    #[error("the JSON ends after {at} bytes within {within}; the sender cut it short")]
    Truncated {
        /// Length of the text.
        at: usize,
        /// What was open: "a string", "an object" …
        within: &'static str,
    },
    /// A byte that is not valid at its position.
    #[error("byte {at}: expected {expected}, found {found}")]
    Syntax {
        /// Offset of the byte.
        at: usize,
        /// What would have been valid there.
        expected: &'static str,
        /// The byte.
        found: FoundByte,
    },
    /// Bytes that are not UTF-8.
    #[error("byte {at}: not UTF-8; JSON texts are UTF-8 (RFC 8259)")]
    NotUtf8 {
        /// Offset of the first invalid byte.
        at: usize,
    },
    /// A member was looked for below [`KINDS_DEPTH_MAX`] levels. No [`Pointer`](crate::Pointer) leads there, and what
    /// none leads to is skipped at any depth.
    #[error("byte {at}: looked for a member below {KINDS_DEPTH_MAX} levels")]
    TooDeep {
        /// Offset of the first bracket beyond the limit.
        at: usize,
    },
    /// More bytes than an object may have.
    #[error("the object has {bytes} bytes, more than {OBJECT_BYTES_MAX}")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// A head field with more bytes than one may have.
    #[error("{field} has {bytes} bytes, more than {HEAD_FIELD_BYTES_MAX}")]
    FieldTooLong {
        /// The field, as `metadata.name`.
        field: &'static str,
        /// Its length.
        bytes: u32,
    },
    /// Something follows the object.
    #[error("byte {at}: expected nothing after the object, found {found}")]
    Trailing {
        /// Offset of what follows.
        at: usize,
        /// Its first byte.
        found: FoundByte,
    },
    /// `metadata.name` is absent, null or empty: the object has no key.
    #[error("the object has no metadata.name, so it cannot be stored; is it a list, a Status or a Table?")]
    NoName,
    /// A head field that is neither a string nor null.
    #[error("byte {at}: {field} must be a string, found {found}")]
    NotAString {
        /// Offset of the value.
        at: usize,
        /// The field, as `metadata.name`.
        field: &'static str,
        /// PrefixObject byte of the value.
        found: FoundByte,
    },
    /// A head field with an escape that JSON does not know, or a control character.
    #[error("byte {at}: {field} holds an escape or a control character that JSON does not allow")]
    BadEscape {
        /// Offset of the value.
        at: usize,
        /// The field, as `metadata.name`.
        field: &'static str,
    },
}

impl ObjectError {
    /// The same error, with offsets counted from `by` bytes earlier.
    pub(crate) fn moved(mut self, by: usize) -> ObjectError {
        match &mut self {
            ObjectError::Truncated { at, .. }
            | ObjectError::Syntax { at, .. }
            | ObjectError::NotUtf8 { at }
            | ObjectError::TooDeep { at }
            | ObjectError::Trailing { at, .. }
            | ObjectError::NotAString { at, .. }
            | ObjectError::BadEscape { at, .. } => *at += by,
            ObjectError::Empty { .. }
            | ObjectError::TooLarge { .. }
            | ObjectError::FieldTooLong { .. }
            | ObjectError::NoName => {}
        }
        self
    }
}

/// Longest object: positions are kept in 32 bits. The API server takes about 3 MiB, etcd 1.5 MiB.
pub const OBJECT_BYTES_MAX: usize = 1 << 30;

/// Longest apiVersion, kind, name, namespace, uid and version: their lengths are kept in 16 bits. API servers take
/// names of at most 253 bytes.
pub const HEAD_FIELD_BYTES_MAX: usize = u16::MAX as usize;

/// A byte as an error message shows it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FoundByte(pub u8);

impl fmt::Display for FoundByte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            byte @ b' '..=b'~' => write!(f, "`{}`", char::from(byte)),
            byte => write!(f, "0x{byte:02x}"),
        }
    }
}

impl fmt::Debug for FoundByte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// On this many levels of objects and arrays, the outermost ones, closing brackets must match opening ones by kind. An
/// object may be nested deeper; there brackets are only counted. The kinds are kept in 128 bits.
pub const KINDS_DEPTH_MAX: usize = 127;

const _: () = assert!(
    POINTER_TOKENS_MAX < KINDS_DEPTH_MAX,
    "the cursor follows pointers, and keeps the kind of each bracket around it"
);
