//! The labels of an object, parsed on demand.

use std::borrow::Cow;

use crate::scanner::{Cursor, Walk};

/// Iterates over the members of `metadata.labels`. See [`Object::labels`](crate::Object::labels).
#[derive(Clone, Debug)]
pub struct Labels<'o> {
    text: &'o str,
    walk: Option<(Cursor<'o>, Walk)>,
}

impl<'o> Labels<'o> {
    /// The labels in `text`: a JSON object, or nothing.
    pub(crate) fn new(text: &'o str) -> Labels<'o> {
        let mut cursor = Cursor::new(text.as_bytes());
        let walk = cursor.enter_object().ok().map(|walk| (cursor, walk));
        Labels { text, walk }
    }

    fn advance(&mut self) -> Option<Option<(Cow<'o, str>, Cow<'o, str>)>> {
        let (cursor, walk) = self.walk.as_mut()?;
        let name = cursor.next_member(walk).ok()??;
        if cursor.peek() != Some(b'"') {
            cursor.skip_value().ok()?;
            return Some(None);
        }
        let value = cursor.string("a string").ok()?;
        Some(name.decode_in(self.text).zip(value.decode_in(self.text)))
    }
}

impl<'o> Iterator for Labels<'o> {
    type Item = (Cow<'o, str>, Cow<'o, str>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(label) = self.advance() else {
                self.walk = None;
                return None;
            };
            if label.is_some() {
                return label;
            }
        }
    }
}
