//! List bodies to items, as the frames arrive.

use super::beginning::{beginning, is_html};
use super::list_head::{LIST_MEMBER_BYTES_MAX, ListError, ListHead, ListMeta};
use super::watch::salvage_key;
use super::{TooLong, empty};
use crate::error::ObjectError;
use crate::scanner::{Cursor, DEPTH_MAX, EndFinder, Walk};

/// Cuts the frames of a list's body into items. Never holds more than one item, one frame, and the list's own few members.
///
/// ```text
/// splitter.push(frame);
/// while let Some(part) = splitter.next_part()? { … }
/// …
/// let head = splitter.finish()?;
/// ```
#[derive(Debug)]
pub struct ListSplitter {
    /// What has arrived and is not used up.
    buffer: Vec<u8>,
    /// Where in `buffer` the next token begins; before it all is used up.
    at: usize,
    /// How many bytes of the body came before `buffer`.
    passed: u64,
    state: State,
    head: ListHead,
    /// The first characters, for messages.
    beginning: String,
    saw_items: bool,
    item_bytes_max: usize,
}

/// A piece of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListPart<'a> {
    /// The text of one item: a JSON object, not looked at beyond brackets and strings.
    Item(&'a [u8]),
    /// An item beyond the limit, reported once, as soon as it is; its remainder is skipped.
    TooLong(TooLong),
}

#[derive(Debug)]
enum State {
    /// Nothing but white space came.
    Start,
    /// Before a member of the list, or its end.
    Members(Walk),
    /// Before an item, or the end of the items.
    Items {
        list: Walk,
        items: Walk,
    },
    /// Within an item: `scanned` bytes of it are known not to end it.
    Item {
        list: Walk,
        items: Walk,
        finder: EndFinder,
        scanned: usize,
        skip: bool,
    },
    /// After the list.
    End,
    Failed(ListError),
}

impl ListSplitter {
    /// A splitter that takes items of up to `item_bytes_max` bytes; see [`WATCH_LINE_BYTES_MAX`](super::WATCH_LINE_BYTES_MAX).
    #[must_use]
    pub fn new(item_bytes_max: usize) -> ListSplitter {
        ListSplitter {
            buffer: Vec::new(),
            at: 0,
            passed: 0,
            state: State::Start,
            head: ListHead::default(),
            beginning: String::new(),
            saw_items: false,
            item_bytes_max,
        }
    }

    /// Takes the next frame of the body. Call [`next_part`](Self::next_part) until it is `None` before the next one.
    pub fn push(&mut self, frame: &[u8]) {
        let _ = frame;
    }

    /// The next item, if one is complete.
    ///
    /// # Errors
    /// [`ListError`] when the body turns out not to be a list; from then on always the same.
    pub fn next_part(&mut self) -> Result<Option<ListPart<'_>>, ListError> {
        Ok(None)
    }

    /// What is known of the list so far; whole after [`finish`](Self::finish).
    #[must_use]
    pub fn head(&self) -> &ListHead {
        &self.head
    }

    /// The body has ended: what the list says besides its items.
    ///
    /// # Errors
    /// [`ListError`] when the body was no list, or was cut short.
    pub fn finish(self) -> Result<ListHead, ListError> {
        Ok(self.head)
    }
}
