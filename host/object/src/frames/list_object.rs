//! Items of a list, as objects.

use super::TooLong;
use super::watch::salvage_key;
use crate::error::ObjectError;
use crate::head::ObjectHead;
use crate::key::Key;
use crate::object::{First, Object, first};
use crate::shape::Shape;

/// An item of a list, read by [`ListSplitter::next_object`](super::ListSplitter::next_object).
#[derive(Clone, Debug)]
pub enum ListObject {
    /// An object that was wanted.
    Object(Object),
    /// One that was not; its head was seen.
    Unwanted,
    /// An item that is no object; the list goes on behind it.
    Invalid {
        /// Why. Offsets count from the beginning of the item.
        error: ObjectError,
        /// Its key, if that could be read.
        key: Option<Key>,
    },
    /// An item beyond the limit, reported once, as soon as it is; its remainder is skipped.
    TooLong(TooLong),
}

impl From<First> for ListObject {
    fn from(first: First) -> ListObject {
        match first {
            First::Object(object) => ListObject::Object(object),
            First::Unwanted => ListObject::Unwanted,
        }
    }
}

/// The item that begins `text`, and its length; `None` if it is not whole or not an object.
pub(super) fn read_first(
    text: &[u8],
    shape: &Shape,
    wanted: &mut impl FnMut(&ObjectHead<'_>) -> bool,
) -> Option<(ListObject, usize)> {
    let (object, bytes) = first(text, shape, wanted).ok()?;
    Some((object.into(), bytes))
}

/// The item that `item` holds, which is whole.
pub(super) fn read(item: &[u8], shape: &Shape, wanted: &mut impl FnMut(&ObjectHead<'_>) -> bool) -> ListObject {
    match first(item, shape, wanted) {
        Ok((object, _)) => object.into(),
        Err(error) => ListObject::Invalid {
            error,
            key: salvage_key(item),
        },
    }
}
