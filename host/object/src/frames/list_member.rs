//! The members of a list other than its items.

use super::list_head::ListHead;
use crate::error::ObjectError;
use crate::scanner::Cursor;

/// What a member of a list turned out to be.
pub(super) enum Member {
    /// `items`, not null: the first byte of its value. The cursor stands there.
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

/// Reads the member the cursor stands on into `head`.
///
/// # Errors
/// [`ObjectError::Truncated`] until it is complete and something follows it: a number might go on.
pub(super) fn read_member(cursor: &mut Cursor<'_>, head: &mut ListHead) -> Result<Member, MemberError> {
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
