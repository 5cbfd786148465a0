//! Splits list bodies into items, as the frames arrive.

use bytes::Bytes;

use super::input::Input;
use super::list_head::{LIST_MEMBER_BYTES_MAX, ListError, ListHead, Member, MemberError, read_member};
use super::{RecoveredHead, TooLong, beginning, is_html};
use crate::error::{FoundByte, KINDS_DEPTH_MAX, ObjectError};
use crate::head::ObjectHead;
use crate::object::{Object, PrefixObject, parse_prefix};
use crate::scanner::{EndFinder, JsonCursor};
use crate::shape::Shape;

/// Splits the frames of a list's body into items. Never holds more than one item, one frame, and the few members of the
/// list itself.
///
/// ```text
/// splitter.push(frame);
/// while let Some(part) = splitter.next_part()? { … }
/// …
/// let head = splitter.finish()?;
/// ```
#[derive(Debug)]
pub struct ListSplitter {
    /// The received, unconsumed bytes.
    input: Input,
    /// Length of the item that was returned last and is to be consumed.
    spent: usize,
    state: ListState,
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
    /// An item longer than the limit, reported once, as soon as it exceeds it; the rest of the item is skipped.
    TooLong(TooLong),
}

#[derive(Debug)]
enum ListState {
    /// Only white space has arrived.
    Start,
    /// Between the members of the list.
    Members(Expected),
    /// Between items.
    Items(Expected),
    /// Inside an item whose end is not in the first `scanned` bytes.
    Item {
        finder: EndFinder,
        scanned: usize,
    },
    /// Inside an item that is too long and was reported.
    Skip(EndFinder),
    /// After the list.
    End,
    Failed(ListError),
}

/// What may come next in an object or array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The first item, or the end.
    FirstOrEnd,
    /// A comma, or the end.
    CommaOrEnd,
    /// An item, because a comma preceded.
    Item,
}

/// The result of one step of the splitter.
enum SplitStep {
    /// More can be done.
    Continue,
    /// The next frame is needed.
    Wait,
    /// An item: this many bytes at the position, now spent.
    Item(usize),
    TooLong(TooLong),
}

impl ListSplitter {
    /// A splitter that takes items of up to `item_bytes_max` bytes; see
    /// [`WATCH_LINE_BYTES_MAX`](super::WATCH_LINE_BYTES_MAX).
    #[must_use]
    pub fn new(item_bytes_max: usize) -> ListSplitter {
        ListSplitter {
            input: Input::default(),
            spent: 0,
            state: ListState::Start,
            head: ListHead::default(),
            beginning: String::new(),
            saw_items: false,
            item_bytes_max,
        }
    }

    /// Adds the next frame of the body. Call [`next_part`](Self::next_part) until it is `None` before the next one:
    /// unconsumed bytes are kept.
    pub fn push(&mut self, frame: Bytes) {
        self.use_up_spent();
        let joined = match &self.state {
            // Only the item's end is copied from the frame.
            ListState::Item { finder, scanned } if *scanned == self.input.waiting() => {
                finder.clone().feed(&frame).ok().flatten().unwrap_or(frame.len())
            }
            _ => frame.len(),
        };
        self.input.push(frame, joined);
        if self.beginning.is_empty() {
            self.beginning = beginning(self.input.rest());
        }
    }

    /// The next item, if one is complete.
    ///
    /// # Errors
    /// [`ListError`] when the body turns out not to be a list; later calls return the same error.
    pub fn next_part(&mut self) -> Result<Option<ListPart<'_>>, ListError> {
        loop {
            match self.step_or_fail()? {
                SplitStep::Continue => {}
                SplitStep::Wait => return Ok(None),
                SplitStep::Item(bytes) => return Ok(Some(ListPart::Item(&self.input.rest()[..bytes]))),
                SplitStep::TooLong(item) => return Ok(Some(ListPart::TooLong(item))),
            }
        }
    }

    /// The next item as an object, if one is complete: found, filtered, cut and copied in one scan.
    ///
    /// `wanted` is called with the head of each item. Items that it rejects are skipped without a copy. It may be
    /// called twice for the same item.
    ///
    /// # Errors
    /// As [`next_part`](Self::next_part). An item that is valid JSON but not an object is not an error of the list, see
    /// [`ListObject::Invalid`].
    pub fn next_object(
        &mut self,
        shape: &Shape,
        mut wanted: impl FnMut(&ObjectHead<'_>) -> bool,
    ) -> Result<Option<ListObject>, ListError> {
        self.use_up_spent();
        loop {
            // Try this before searching for the item's end: most items lie within one frame, and reading them finds the
            // end.
            if let ListState::Item { scanned: 0, .. } = self.state
                && let Some((object, bytes)) = read_prefix(self.input.rest(), shape, &mut wanted)
            {
                let too_long = bytes > self.item_bytes_max;
                let object = if too_long {
                    ListObject::TooLong(self.too_long(bytes))
                } else {
                    object
                };
                self.input.advance(bytes);
                self.state = ListState::Items(Expected::CommaOrEnd);
                return Ok(Some(object));
            }
            match self.step_or_fail()? {
                SplitStep::Continue => {}
                SplitStep::Wait => return Ok(None),
                SplitStep::Item(bytes) => {
                    let item = &self.input.rest()[..bytes];
                    return Ok(Some(read_item(item, shape, &mut wanted)));
                }
                SplitStep::TooLong(item) => return Ok(Some(ListObject::TooLong(item))),
            }
        }
    }

    /// The list members read so far. Lists of custom resources have their metadata after the items.
    #[must_use]
    pub fn head(&self) -> &ListHead {
        &self.head
    }

    /// Ends the body and returns the members of the list other than its items.
    ///
    /// # Errors
    /// [`ListError`] when the body was not a list, or was cut short.
    pub fn finish(self) -> Result<ListHead, ListError> {
        match self.state {
            ListState::End if self.saw_items => Ok(self.head),
            ListState::End => Err(ListError::NotAList {
                kind: self.head.kind,
                beginning: self.beginning,
            }),
            ListState::Failed(error) => Err(error),
            _ => Err(ListError::Truncated {
                bytes: self.input.passed() + self.input.waiting(),
            }),
        }
    }

    fn step_or_fail(&mut self) -> Result<SplitStep, ListError> {
        self.use_up_spent();
        let step = self.step();
        if let Err(error) = &step {
            self.state = ListState::Failed(error.clone());
        }
        step
    }

    fn step(&mut self) -> Result<SplitStep, ListError> {
        match &self.state {
            ListState::Failed(error) => Err(error.clone()),
            ListState::Start => self.start(),
            ListState::Members(next) => match self.boundary(*next, b'}')? {
                None => Ok(SplitStep::Wait),
                Some(false) => self.enter(ListState::End),
                Some(true) => self.member(),
            },
            ListState::Items(next) => match self.boundary(*next, b']')? {
                None => Ok(SplitStep::Wait),
                Some(false) => self.enter(ListState::Members(Expected::CommaOrEnd)),
                Some(true) => self.begin_item(),
            },
            ListState::Item { .. } => self.item(),
            ListState::Skip(_) => self.skip(),
            ListState::End => match self.peek() {
                None => Ok(SplitStep::Wait),
                Some(found) => self.malformed(ObjectError::Trailing {
                    at: 0,
                    found: FoundByte(found),
                }),
            },
        }
    }

    fn enter(&mut self, state: ListState) -> Result<SplitStep, ListError> {
        self.state = state;
        Ok(SplitStep::Continue)
    }

    fn start(&mut self) -> Result<SplitStep, ListError> {
        match self.peek() {
            None => Ok(SplitStep::Wait),
            Some(b'{') => {
                self.input.advance(1);
                self.enter(ListState::Members(Expected::FirstOrEnd))
            }
            Some(_) if is_html(self.input.rest()) => Err(ListError::Html(self.beginning.clone())),
            Some(_) => Err(ListError::NotJson(self.beginning.clone())),
        }
    }

    /// Moves to the next item and returns true, or past the closing bracket and returns false; `None` if neither has
    /// arrived.
    fn boundary(&mut self, next: Expected, close: u8) -> Result<Option<bool>, ListError> {
        match (self.peek(), next) {
            (None, _) => Ok(None),
            (Some(byte), Expected::FirstOrEnd | Expected::CommaOrEnd) if byte == close => {
                self.input.advance(1);
                Ok(Some(false))
            }
            (Some(_), Expected::FirstOrEnd | Expected::Item) => Ok(Some(true)),
            (Some(b','), Expected::CommaOrEnd) => {
                self.input.advance(1);
                let items = matches!(self.state, ListState::Items(_));
                self.state = if items {
                    ListState::Items(Expected::Item)
                } else {
                    ListState::Members(Expected::Item)
                };
                Ok(self.peek().map(|_| true))
            }
            (Some(found), Expected::CommaOrEnd) => {
                let expected = if close == b']' { "`,` or `]`" } else { "`,` or `}`" };
                self.malformed(ObjectError::Syntax {
                    at: 0,
                    expected,
                    found: FoundByte(found),
                })
            }
        }
    }

    /// Reads one member of the list, if it is complete; for `items`, the opening bracket is enough.
    fn member(&mut self) -> Result<SplitStep, ListError> {
        let mut cursor = JsonCursor::new(self.input.rest());
        let read = read_member(&mut cursor, &mut self.head);
        let (bytes, waiting) = (cursor.at(), cursor.text().len());
        match read {
            Err(MemberError::Syntax(ObjectError::Truncated { .. })) if waiting <= LIST_MEMBER_BYTES_MAX => {
                Ok(SplitStep::Wait)
            }
            Err(MemberError::Syntax(ObjectError::Truncated { .. })) => {
                Err(ListError::MemberTooLong { at: self.position() })
            }
            Err(MemberError::Syntax(problem)) => self.malformed(problem),
            Err(MemberError::Value(problem)) => Err(ListError::Member {
                at: self.position(),
                problem,
            }),
            Ok(Member::Other) if self.head.kind == "Table" => Err(ListError::Table),
            Ok(Member::Other) => {
                self.input.advance(bytes);
                self.enter(ListState::Members(Expected::CommaOrEnd))
            }
            Ok(Member::Items(Some(b'[' | b'n'))) if self.saw_items => Err(ListError::Items { at: self.position() }),
            Ok(Member::Items(Some(b'['))) => {
                self.saw_items = true;
                self.input.advance(bytes + 1);
                self.enter(ListState::Items(Expected::FirstOrEnd))
            }
            Ok(Member::Items(_)) => Err(ListError::Items { at: self.position() }),
            Ok(Member::NoItems) => {
                self.saw_items = true;
                self.input.advance(bytes);
                self.enter(ListState::Members(Expected::CommaOrEnd))
            }
        }
    }

    fn begin_item(&mut self) -> Result<SplitStep, ListError> {
        if self.peek() != Some(b'{') {
            return Err(ListError::Items { at: self.position() });
        }
        self.enter(ListState::Item {
            finder: EndFinder::new(KINDS_DEPTH_MAX),
            scanned: 0,
        })
    }

    fn item(&mut self) -> Result<SplitStep, ListError> {
        let ListState::Item { finder, scanned } = &mut self.state else {
            return Ok(SplitStep::Continue);
        };
        let base = *scanned;
        let rest = self.input.rest();
        let bytes = match finder.feed(&rest[base..]) {
            Err(unbalanced) => return self.malformed(unbalanced.from(base)),
            Ok(Some(bytes)) => base + bytes,
            Ok(None) => {
                *scanned = rest.len();
                if *scanned <= self.item_bytes_max {
                    return Ok(SplitStep::Wait);
                }
                let (finder, bytes) = (finder.clone(), rest.len());
                let too_long = self.too_long(bytes);
                self.input.advance(bytes);
                self.state = ListState::Skip(finder);
                return Ok(SplitStep::TooLong(too_long));
            }
        };
        self.state = ListState::Items(Expected::CommaOrEnd);
        self.spent = bytes;
        Ok(if bytes > self.item_bytes_max {
            SplitStep::TooLong(self.too_long(bytes))
        } else {
            SplitStep::Item(bytes)
        })
    }

    fn skip(&mut self) -> Result<SplitStep, ListError> {
        let ListState::Skip(finder) = &mut self.state else {
            return Ok(SplitStep::Continue);
        };
        let rest = self.input.rest();
        match finder.feed(rest) {
            Err(unbalanced) => self.malformed(unbalanced.from(0)),
            Ok(None) => {
                let bytes = rest.len();
                self.input.advance(bytes);
                Ok(SplitStep::Wait)
            }
            Ok(Some(bytes)) => {
                self.input.advance(bytes);
                self.enter(ListState::Items(Expected::CommaOrEnd))
            }
        }
    }

    /// Reports the item at the position, of which `bytes` are available.
    fn too_long(&self, bytes: usize) -> TooLong {
        TooLong {
            head: RecoveredHead::read(&self.input.rest()[..bytes]),
            event_type: None,
            bytes_max: self.item_bytes_max,
        }
    }

    /// Skips white space and returns the next byte, if it has arrived.
    fn peek(&mut self) -> Option<u8> {
        let mut cursor = JsonCursor::new(self.input.rest());
        cursor.skip_space();
        let (space, next) = (cursor.at(), cursor.peek());
        self.input.advance(space);
        next
    }

    fn use_up_spent(&mut self) {
        self.input.advance(std::mem::take(&mut self.spent));
    }

    /// Offset of the position in the body.
    fn position(&self) -> usize {
        self.input.passed()
    }

    fn malformed<T>(&self, problem: ObjectError) -> Result<T, ListError> {
        Err(ListError::Malformed(problem.moved(self.position())))
    }
}

/// An item of a list, read by [`ListSplitter::next_object`](ListSplitter::next_object).
#[derive(Clone, Debug)]
pub enum ListObject {
    /// An object that was wanted.
    Object(Object),
    /// An object that was not wanted; only its head was read.
    Unwanted,
    /// An item that is not an object; the list continues after it.
    Invalid {
        /// Why. Offsets count from the beginning of the item.
        error: ObjectError,
        /// Its identity, if that could be read.
        head: Option<RecoveredHead>,
    },
    /// An item longer than the limit, reported once, as soon as it exceeds it; the rest of the item is skipped.
    TooLong(TooLong),
}

impl From<PrefixObject> for ListObject {
    fn from(item: PrefixObject) -> ListObject {
        match item {
            PrefixObject::Object(object) => ListObject::Object(object),
            PrefixObject::Unwanted => ListObject::Unwanted,
        }
    }
}

/// The item at the beginning of `text`, and its length; `None` if it is incomplete or not an object.
fn read_prefix(
    text: &[u8],
    shape: &Shape,
    wanted: &mut impl FnMut(&ObjectHead<'_>) -> bool,
) -> Option<(ListObject, usize)> {
    let (object, bytes) = parse_prefix(text, shape, wanted).ok()?;
    Some((object.into(), bytes))
}

/// Reads the complete item in `item`.
fn read_item(item: &[u8], shape: &Shape, wanted: &mut impl FnMut(&ObjectHead<'_>) -> bool) -> ListObject {
    match parse_prefix(item, shape, wanted) {
        Ok((object, _)) => object.into(),
        Err(error) => ListObject::Invalid {
            error,
            head: RecoveredHead::read(item),
        },
    }
}
