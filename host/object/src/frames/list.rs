//! List bodies to items, as the frames arrive.

use bytes::Bytes;

use super::beginning::{beginning, is_html};
use super::input::Input;
use super::list_head::{LIST_MEMBER_BYTES_MAX, ListError, ListHead};
use super::list_member::{Member, MemberError, read_member};
use super::list_object::ListObject;
use super::watch::salvage_key;
use super::{TooLong, list_object};
use crate::error::{Found, ObjectError};
use crate::head::ObjectHead;
use crate::scanner::{Cursor, DEPTH_MAX, EndFinder};
use crate::shape::Shape;

/// Cuts the frames of a list's body into items. Never holds more than one item, one frame, and the list's own few
/// members.
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
    input: Input,
    /// How much of it was handed out as an item and is to be used up.
    spent: usize,
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
    /// Between the members of the list.
    Members(Next),
    /// Between items.
    Items(Next),
    /// Within an item, of which the first `scanned` bytes do not hold the end.
    Item {
        finder: EndFinder,
        scanned: usize,
    },
    /// Within an item that is too long and was reported.
    Skip(EndFinder),
    /// After the list.
    End,
    Failed(ListError),
}

/// What may come next in an object or array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The first item, or the end.
    FirstOrEnd,
    /// A comma, or the end.
    CommaOrEnd,
    /// An item, for a comma came.
    Item,
}

/// What one step of the splitter came to.
enum Step {
    /// More can be done.
    Go,
    /// The next frame is needed.
    Wait,
    /// An item: so many bytes at the position, now spent.
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
            state: State::Start,
            head: ListHead::default(),
            beginning: String::new(),
            saw_items: false,
            item_bytes_max,
        }
    }

    /// Takes the next frame of the body. Call [`next_part`](Self::next_part) until it is `None` before the next one:
    /// what waits is kept.
    pub fn push(&mut self, frame: Bytes) {
        self.use_up_spent();
        let joined = match &self.state {
            // Of the frame only the item's end is copied.
            State::Item { finder, scanned } if *scanned == self.input.waiting() => {
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
    /// [`ListError`] when the body turns out not to be a list; from then on always the same.
    pub fn next_part(&mut self) -> Result<Option<ListPart<'_>>, ListError> {
        loop {
            match self.step_or_fail()? {
                Step::Go => {}
                Step::Wait => return Ok(None),
                Step::Item(bytes) => return Ok(Some(ListPart::Item(&self.input.rest()[..bytes]))),
                Step::TooLong(item) => return Ok(Some(ListPart::TooLong(item))),
            }
        }
    }

    /// The next item as an object, if one is complete: found, judged, cut and copied in one scan.
    ///
    /// `wanted` sees the head of each item; one that it does not want is passed over, and nothing of it is copied. It
    /// may see the same item twice.
    ///
    /// # Errors
    /// As [`next_part`](Self::next_part). An item that is JSON and no object is no error of the list, see
    /// [`ListObject::Invalid`].
    pub fn next_object(
        &mut self,
        shape: &Shape,
        mut wanted: impl FnMut(&ObjectHead<'_>) -> bool,
    ) -> Result<Option<ListObject>, ListError> {
        self.use_up_spent();
        loop {
            // Before anything looks for the item's end: most items lie within one frame, and reading them finds it.
            if let State::Item { scanned: 0, .. } = self.state
                && let Some((object, bytes)) = list_object::read_first(self.input.rest(), shape, &mut wanted)
            {
                let too_long = bytes > self.item_bytes_max;
                let object = if too_long {
                    ListObject::TooLong(self.too_long(bytes))
                } else {
                    object
                };
                self.input.advance(bytes);
                self.state = State::Items(Next::CommaOrEnd);
                return Ok(Some(object));
            }
            match self.step_or_fail()? {
                Step::Go => {}
                Step::Wait => return Ok(None),
                Step::Item(bytes) => {
                    let item = &self.input.rest()[..bytes];
                    return Ok(Some(list_object::read(item, shape, &mut wanted)));
                }
                Step::TooLong(item) => return Ok(Some(ListObject::TooLong(item))),
            }
        }
    }

    /// What is known of the list so far. A custom resource's list has its metadata after its items.
    #[must_use]
    pub fn head(&self) -> &ListHead {
        &self.head
    }

    /// The body has ended: what the list says besides its items.
    ///
    /// # Errors
    /// [`ListError`] when the body was no list, or was cut short.
    pub fn finish(self) -> Result<ListHead, ListError> {
        match self.state {
            State::End if self.saw_items => Ok(self.head),
            State::End => Err(ListError::NotAList {
                kind: self.head.kind,
                beginning: self.beginning,
            }),
            State::Failed(error) => Err(error),
            _ => Err(ListError::Truncated {
                bytes: self.input.passed() + self.input.waiting(),
            }),
        }
    }

    fn step_or_fail(&mut self) -> Result<Step, ListError> {
        self.use_up_spent();
        let step = self.step();
        if let Err(error) = &step {
            self.state = State::Failed(error.clone());
        }
        step
    }

    fn step(&mut self) -> Result<Step, ListError> {
        match &self.state {
            State::Failed(error) => Err(error.clone()),
            State::Start => self.start(),
            State::Members(next) => match self.boundary(*next, b'}')? {
                None => Ok(Step::Wait),
                Some(false) => self.turn(State::End),
                Some(true) => self.member(),
            },
            State::Items(next) => match self.boundary(*next, b']')? {
                None => Ok(Step::Wait),
                Some(false) => self.turn(State::Members(Next::CommaOrEnd)),
                Some(true) => self.begin_item(),
            },
            State::Item { .. } => self.item(),
            State::Skip(_) => self.skip(),
            State::End => match self.peek() {
                None => Ok(Step::Wait),
                Some(found) => self.malformed(ObjectError::Trailing {
                    at: 0,
                    found: Found(found),
                }),
            },
        }
    }

    fn turn(&mut self, state: State) -> Result<Step, ListError> {
        self.state = state;
        Ok(Step::Go)
    }

    fn start(&mut self) -> Result<Step, ListError> {
        match self.peek() {
            None => Ok(Step::Wait),
            Some(b'{') => {
                self.input.advance(1);
                self.turn(State::Members(Next::FirstOrEnd))
            }
            Some(_) if is_html(self.input.rest()) => Err(ListError::Html(self.beginning.clone())),
            Some(_) => Err(ListError::NotJson(self.beginning.clone())),
        }
    }

    /// Moves to the next item and returns true, or past the closing bracket and returns false; `None` if neither has
    /// come.
    fn boundary(&mut self, next: Next, close: u8) -> Result<Option<bool>, ListError> {
        match (self.peek(), next) {
            (None, _) => Ok(None),
            (Some(byte), Next::FirstOrEnd | Next::CommaOrEnd) if byte == close => {
                self.input.advance(1);
                Ok(Some(false))
            }
            (Some(_), Next::FirstOrEnd | Next::Item) => Ok(Some(true)),
            (Some(b','), Next::CommaOrEnd) => {
                self.input.advance(1);
                let items = matches!(self.state, State::Items(_));
                self.state = if items {
                    State::Items(Next::Item)
                } else {
                    State::Members(Next::Item)
                };
                Ok(self.peek().map(|_| true))
            }
            (Some(found), Next::CommaOrEnd) => {
                let expected = if close == b']' { "`,` or `]`" } else { "`,` or `}`" };
                self.malformed(ObjectError::Syntax {
                    at: 0,
                    expected,
                    found: Found(found),
                })
            }
        }
    }

    /// Reads one member of the list, if it is complete; of `items` the opening bracket is enough.
    fn member(&mut self) -> Result<Step, ListError> {
        let mut cursor = Cursor::new(self.input.rest());
        let read = read_member(&mut cursor, &mut self.head);
        let (bytes, waiting) = (cursor.at(), cursor.text().len());
        match read {
            Err(MemberError::Syntax(ObjectError::Truncated { .. })) if waiting <= LIST_MEMBER_BYTES_MAX => {
                Ok(Step::Wait)
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
                self.turn(State::Members(Next::CommaOrEnd))
            }
            Ok(Member::Items(Some(b'[' | b'n'))) if self.saw_items => Err(ListError::Items { at: self.position() }),
            Ok(Member::Items(Some(b'['))) => {
                self.saw_items = true;
                self.input.advance(bytes + 1);
                self.turn(State::Items(Next::FirstOrEnd))
            }
            Ok(Member::Items(_)) => Err(ListError::Items { at: self.position() }),
            Ok(Member::NoItems) => {
                self.saw_items = true;
                self.input.advance(bytes);
                self.turn(State::Members(Next::CommaOrEnd))
            }
        }
    }

    fn begin_item(&mut self) -> Result<Step, ListError> {
        if self.peek() != Some(b'{') {
            return Err(ListError::Items { at: self.position() });
        }
        self.turn(State::Item {
            finder: EndFinder::new(DEPTH_MAX),
            scanned: 0,
        })
    }

    fn item(&mut self) -> Result<Step, ListError> {
        let State::Item { finder, scanned } = &mut self.state else {
            return Ok(Step::Go);
        };
        let base = *scanned;
        let rest = self.input.rest();
        let bytes = match finder.feed(&rest[base..]) {
            Err(unbalanced) => return self.malformed(unbalanced.from(base)),
            Ok(Some(bytes)) => base + bytes,
            Ok(None) => {
                *scanned = rest.len();
                if *scanned <= self.item_bytes_max {
                    return Ok(Step::Wait);
                }
                let (finder, bytes) = (finder.clone(), rest.len());
                let too_long = self.too_long(bytes);
                self.input.advance(bytes);
                self.state = State::Skip(finder);
                return Ok(Step::TooLong(too_long));
            }
        };
        self.state = State::Items(Next::CommaOrEnd);
        self.spent = bytes;
        Ok(if bytes > self.item_bytes_max {
            Step::TooLong(self.too_long(bytes))
        } else {
            Step::Item(bytes)
        })
    }

    fn skip(&mut self) -> Result<Step, ListError> {
        let State::Skip(finder) = &mut self.state else {
            return Ok(Step::Go);
        };
        let rest = self.input.rest();
        match finder.feed(rest) {
            Err(unbalanced) => self.malformed(unbalanced.from(0)),
            Ok(None) => {
                let bytes = rest.len();
                self.input.advance(bytes);
                Ok(Step::Wait)
            }
            Ok(Some(bytes)) => {
                self.input.advance(bytes);
                self.turn(State::Items(Next::CommaOrEnd))
            }
        }
    }

    /// Reports the item that begins at the position and of which so many bytes are at hand.
    fn too_long(&self, bytes: usize) -> TooLong {
        TooLong {
            key: salvage_key(&self.input.rest()[..bytes]),
            event_type: None,
            bytes_max: self.item_bytes_max,
        }
    }

    /// Moves over white space and returns the byte that follows, if it has come.
    fn peek(&mut self) -> Option<u8> {
        let mut cursor = Cursor::new(self.input.rest());
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
