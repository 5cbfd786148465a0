//! The scalar values at one pointer.

use std::borrow::Cow;

use crate::error::ObjectError;
use crate::pointer::{Pointer, PointerToken};
use crate::scanner::{JsonCursor, KnownSpans, Walk};

/// Calls `visit` with the values at `pointer` in `text`, in text order. See
/// [`Object::pointer`](crate::Object::pointer).
pub(crate) fn visit<'o>(text: &'o str, known_spans: KnownSpans, pointer: &Pointer, visit: impl FnMut(Cow<'o, str>)) {
    let mut finder = Finder {
        text,
        cursor: JsonCursor::over_checked(text, known_spans),
        visit,
    };
    // Malformed text has no defined values; those visited before it stand.
    let _ = finder.value(pointer.tokens());
}

struct Finder<'o, V> {
    text: &'o str,
    cursor: JsonCursor<'o>,
    visit: V,
}

impl<'o, V: FnMut(Cow<'o, str>)> Finder<'o, V> {
    /// Searches the value at the cursor for what `tokens` name. Leaves the cursor after the value, or deeper inside it:
    /// once a name is found, the end of the rest may not be needed.
    fn value(&mut self, tokens: &[PointerToken]) -> Result<(), ObjectError> {
        let Some((token, below)) = tokens.split_first() else {
            return self.scalar();
        };
        match self.cursor.peek() {
            Some(b'{') => {
                let members = self.cursor.enter_object()?;
                self.object(members, token, below)
            }
            Some(b'[') => {
                let elements = self.cursor.enter_array()?;
                self.array(elements, token, below)
            }
            _ => self.cursor.skip_value(),
        }
    }

    fn object(&mut self, mut members: Walk, token: &PointerToken, below: &[PointerToken]) -> Result<(), ObjectError> {
        while let Some(name) = self.cursor.next_member(&mut members)? {
            match token {
                PointerToken::Any => self.whole_value(below)?,
                PointerToken::Name(own) if name.is(self.text.as_bytes(), own) => return self.value(below),
                PointerToken::Name(_) => self.cursor.skip_value()?,
            }
        }
        Ok(())
    }

    fn array(&mut self, mut elements: Walk, token: &PointerToken, below: &[PointerToken]) -> Result<(), ObjectError> {
        let wanted = token.index();
        let mut index = 0;
        while self.cursor.next_element(&mut elements)? {
            match wanted {
                _ if *token == PointerToken::Any => self.whole_value(below)?,
                Some(wanted) if wanted == index => return self.value(below),
                _ => self.cursor.skip_value()?,
            }
            index += 1;
        }
        Ok(())
    }

    /// As [`value`](Self::value), and moves after it.
    fn whole_value(&mut self, tokens: &[PointerToken]) -> Result<(), ObjectError> {
        let depth = self.cursor.depth();
        self.value(tokens)?;
        self.cursor.ascend(depth)
    }

    fn scalar(&mut self) -> Result<(), ObjectError> {
        let start = self.cursor.at();
        match self.cursor.peek() {
            Some(b'"') => {
                let string = self.cursor.string("a string")?;
                if let Some(value) = string.decode_in(self.text) {
                    (self.visit)(value);
                }
            }
            Some(b'-' | b'0'..=b'9' | b't' | b'f') => {
                self.cursor.skip_value()?;
                (self.visit)(Cow::Borrowed(&self.text[start..self.cursor.at()]));
            }
            _ => self.cursor.skip_value()?,
        }
        Ok(())
    }
}
