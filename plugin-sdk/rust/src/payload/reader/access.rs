//! Members of objects and elements of arrays, one after the other.

use serde::de::{DeserializeSeed, MapAccess, SeqAccess};

use super::key::Key;
use super::{Reader, Result, Unfit};

/// What is left of an object or array.
pub(super) struct Items<'r, 'de> {
    reader: &'r mut Reader<'de>,
    first: bool,
}

impl<'r, 'de> Items<'r, 'de> {
    pub(super) fn new(reader: &'r mut Reader<'de>) -> Items<'r, 'de> {
        Items { reader, first: true }
    }

    /// The first byte of the next item; none before the bracket `close`.
    #[inline]
    fn next(&mut self, close: u8) -> Result<Option<u8>> {
        let token = self.reader.next_token();
        let first = std::mem::replace(&mut self.first, false);
        match token {
            Some(byte) if byte == close => Ok(None),
            token if first => Ok(token),
            Some(b',') => {
                self.reader.at += 1;
                Ok(self.reader.next_token())
            }
            _ => Err(Unfit),
        }
    }
}

impl<'de> MapAccess<'de> for Items<'_, 'de> {
    type Error = Unfit;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        match self.next(b'}')? {
            None => Ok(None),
            Some(b'"') => {
                let name = self.reader.string()?;
                let key = match name.plain(self.reader.text) {
                    Some(text) => seed.deserialize(Key::Plain(text)),
                    None => seed.deserialize(Key::Unescaped(name.unescaped(self.reader.text)?)),
                };
                key.map(Some)
            }
            Some(_) => Err(Unfit),
        }
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        self.reader.expect(b':')?;
        seed.deserialize(&mut *self.reader)
    }
}

impl<'de> SeqAccess<'de> for Items<'_, 'de> {
    type Error = Unfit;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        match self.next(b']')? {
            None => Ok(None),
            Some(_) => seed.deserialize(&mut *self.reader).map(Some),
        }
    }
}
