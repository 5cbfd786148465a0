//! The scalar values at one pointer.

use std::borrow::Cow;

use crate::error::ObjectError;
use crate::pointer::{Pointer, Token};
use crate::scanner::{Cursor, Walk};

/// The values at `pointer` in `text`, in its order. See [`Object::pointer`](crate::Object::pointer).
pub(crate) fn find<'o>(text: &'o str, pointer: &Pointer) -> Vec<Cow<'o, str>> {
    let mut finder = Finder {
        text,
        cursor: Cursor::new(text.as_bytes()),
        found: Vec::new(),
    };
    // What is malformed there holds no values that anybody could agree on; what was found before it stays.
    let _ = finder.value(pointer.tokens());
    finder.found
}

struct Finder<'o> {
    text: &'o str,
    cursor: Cursor<'o>,
    found: Vec<Cow<'o, str>>,
}

impl Finder<'_> {
    /// Moves over the value the cursor stands on, looking in it for what `tokens` name.
    fn value(&mut self, tokens: &[Token]) -> Result<(), ObjectError> {
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

    fn object(&mut self, mut members: Walk, token: &Token, below: &[Token]) -> Result<(), ObjectError> {
        let found_before = self.found.len();
        while let Some(name) = self.cursor.next_member(&mut members)? {
            match token {
                Token::Any => self.value(below)?,
                Token::Name(own) if name.is(self.text.as_bytes(), own) => {
                    // The last member of a name counts: forget what an earlier one held.
                    self.found.truncate(found_before);
                    self.value(below)?;
                }
                Token::Name(_) => self.cursor.skip_value()?,
            }
        }
        Ok(())
    }

    fn array(&mut self, mut elements: Walk, token: &Token, below: &[Token]) -> Result<(), ObjectError> {
        let wanted = token.index();
        let mut index = 0;
        while self.cursor.next_element(&mut elements)? {
            if *token == Token::Any || wanted == Some(index) {
                self.value(below)?;
            } else {
                self.cursor.skip_value()?;
            }
            index += 1;
        }
        Ok(())
    }

    fn scalar(&mut self) -> Result<(), ObjectError> {
        let start = self.cursor.at();
        match self.cursor.peek() {
            Some(b'"') => {
                let string = self.cursor.string("a string")?;
                self.found.extend(string.decode_in(self.text));
            }
            Some(b'-' | b'0'..=b'9' | b't' | b'f') => {
                self.cursor.skip_value()?;
                self.found.push(Cow::Borrowed(&self.text[start..self.cursor.at()]));
            }
            _ => self.cursor.skip_value()?,
        }
        Ok(())
    }
}
