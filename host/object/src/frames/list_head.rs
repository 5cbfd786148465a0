//! What a list says besides its items, and what can be wrong with one.

use serde::Deserialize;

use crate::error::ObjectError;
use crate::version::ResourceVersion;

/// Longest member of a list other than `items`, in bytes: `metadata` holds a continue token of a few KB at most. A
/// longer one is an error, for it can only be read whole.
pub const LIST_MEMBER_BYTES_MAX: usize = 1 << 20;

/// What a list says besides its items.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ListHead {
    /// apiVersion of the list, usually that of its items. Empty if absent.
    pub api_version: String,
    /// Kind of the list: `PodList`. Empty if absent.
    pub kind: String,
    /// The version of the list: where a watch begins.
    pub version: ResourceVersion,
    /// Asks for the next page; empty on the last one.
    pub continue_token: String,
    /// How many items later pages hold, if the server tells.
    pub remaining_item_count: Option<u64>,
}

/// Why a body is not a list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// A web page.
    #[error("the server answered a list with HTML, not JSON: {0:?}; is a proxy or a login page in between?")]
    Html(String),
    /// Something else that is no JSON object.
    #[error("the server answered a list with something that is not a JSON object: {0:?}")]
    NotJson(String),
    /// Malformed JSON; the offset counts from the beginning of the body.
    #[error("the list is malformed: {0}")]
    Malformed(ObjectError),
    /// A table.
    #[error(
        "the server answered with a Table instead of a list; the request must accept application/json without `as=Table`"
    )]
    Table,
    /// A JSON object that has no `items`.
    #[error("the server answered with {kind:?} instead of a list: it has no items; it begins {beginning:?}")]
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
        /// What serde_json says of its value.
        problem: String,
    },
    /// `items` is neither an array of objects nor null, or there twice.
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
