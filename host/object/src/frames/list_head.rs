//! The members of a list other than its items, and the errors of reading a list.

use serde::Deserialize;

use crate::error::ObjectError;
use crate::scanner::JsonCursor;
use crate::version::ResourceVersion;

/// Longest member of a list other than `items`, in bytes: `metadata` holds a continue token of a few KB at most. A
/// longer one is an error, because a member is read as a whole.
pub const LIST_MEMBER_BYTES_MAX: usize = 1 << 20;

/// The members of a list other than its items.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ListHead {
    /// apiVersion of the list, usually that of its items. Empty if absent.
    pub api_version: String,
    /// Kind of the list: `PodList`. Empty if absent.
    pub kind: String,
    /// The version of the list: where a watch begins.
    pub version: ResourceVersion,
    /// The token that requests the next page; empty on the last one.
    pub continue_token: String,
    /// Number of items on later pages, if the server reports it.
    pub remaining_item_count: Option<u64>,
}

/// Why a body is not a list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// A web page.
    #[error("the server responded to a list with HTML, not JSON: {0:?}; is a proxy or a login page in between?")]
    Html(String),
    /// Anything else that is not a JSON object.
    #[error("the server responded to a list with something that is not a JSON object: {0:?}")]
    NotJson(String),
    /// Malformed JSON; the offset counts from the beginning of the body.
    #[error("the list is malformed: {0}")]
    Malformed(ObjectError),
    /// A table.
    #[error(
        "the server responded with a Table instead of a list; the request must accept application/json without `as=Table`"
    )]
    Table,
    /// A JSON object that has no `items`.
    #[error("the server responded with {kind:?} instead of a list: it has no items; it begins {beginning:?}")]
    NotAList {
        /// Its kind; empty if absent.
        kind: String,
        /// The first characters of the body.
        beginning: String,
    },
    /// `apiVersion`, `kind` or `metadata` is not what it should be.
    #[error("byte {at} of the list: {problem}")]
    Member {
        /// Offset of the member into the body, in bytes.
        at: usize,
        /// serde_json's error for its value.
        problem: String,
    },
    /// `items` is neither an array of objects nor null, or occurs twice.
    #[error("byte {at} of the list: items must be one array of objects")]
    Items {
        /// Offset into the body, in bytes.
        at: usize,
    },
    /// A member other than `items` beyond [`LIST_MEMBER_BYTES_MAX`].
    #[error("byte {at} of the list: a member other than items is longer than {LIST_MEMBER_BYTES_MAX} bytes")]
    MemberTooLong {
        /// Offset into the body, in bytes.
        at: usize,
    },
    /// The body ended before the list did.
    #[error("the list was cut short: the body ended after {bytes} bytes")]
    Truncated {
        /// Length of the body.
        bytes: usize,
    },
}

/// `metadata` of a list, as it is written.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct ListMeta {
    #[serde(rename = "resourceVersion")]
    version: Option<String>,
    #[serde(rename = "continue")]
    continue_token: Option<String>,
    #[serde(rename = "remainingItemCount")]
    remaining_item_count: Option<u64>,
}

impl ListHead {
    pub(super) fn set_metadata(&mut self, metadata: Option<ListMeta>) {
        let metadata = metadata.unwrap_or_default();
        self.version = ResourceVersion::new(&metadata.version.unwrap_or_default());
        self.continue_token = metadata.continue_token.unwrap_or_default();
        self.remaining_item_count = metadata.remaining_item_count;
    }
}

/// What a member of a list is.
pub(super) enum Member {
    /// `items`, not null: the first byte of its value, where the cursor is.
    Items(Option<u8>),
    /// `items`, null: Go's empty slice.
    NoItems,
    Other,
}

/// Why a member could not be read.
pub(super) enum MemberError {
    Syntax(ObjectError),
    Value(String),
}

impl From<ObjectError> for MemberError {
    fn from(error: ObjectError) -> MemberError {
        MemberError::Syntax(error)
    }
}

impl From<serde_json::Error> for MemberError {
    fn from(error: serde_json::Error) -> MemberError {
        MemberError::Value(error.to_string())
    }
}

/// Reads the member at the cursor into `head`.
///
/// # Errors
/// [`ObjectError::Truncated`] until it is complete and followed by another byte: a number could continue.
pub(super) fn read_member(cursor: &mut JsonCursor<'_>, head: &mut ListHead) -> Result<Member, MemberError> {
    let text = cursor.text();
    let name = cursor.member_name()?;
    let begin = cursor.at();
    let first = cursor.peek();
    let is_items = name.is(text, "items");
    if is_items && first.is_some_and(|byte| byte != b'n') {
        return Ok(Member::Items(first));
    }
    cursor.skip_value()?;
    if cursor.peek().is_none() {
        return Err(MemberError::Syntax(ObjectError::Truncated {
            at: cursor.at(),
            within: "an object",
        }));
    }
    let value = &text[begin..cursor.at()];
    if is_items {
        return Ok(Member::NoItems);
    } else if name.is(text, "apiVersion") {
        head.api_version = serde_json::from_slice::<Option<String>>(value)?.unwrap_or_default();
    } else if name.is(text, "kind") {
        head.kind = serde_json::from_slice::<Option<String>>(value)?.unwrap_or_default();
    } else if name.is(text, "metadata") {
        head.set_metadata(serde_json::from_slice(value)?);
    }
    Ok(Member::Other)
}
