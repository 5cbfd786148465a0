//! Texts of values that were posted of late, so that a value that many objects have is not searched for each.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;

/// Texts that are remembered. A power of two; a text has one place, and the last one there counts.
const TEXTS_KEPT_MAX: usize = 256;

/// Longer texts are not remembered: hardly any two objects have the same.
const TEXT_BYTES_MAX: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct SharedTexts {
    /// Empty before the first use.
    places: Vec<Option<Arc<str>>>,
    hasher: FixedState,
}

impl SharedTexts {
    /// `value` as a text that is shared with earlier ones, `search`ed for if it is not remembered.
    pub(crate) fn shared(&mut self, value: &str, search: impl FnOnce() -> Arc<str>) -> Arc<str> {
        if value.len() > TEXT_BYTES_MAX {
            return search();
        }
        self.places.resize(TEXTS_KEPT_MAX, None);
        let place = &mut self.places[self.hasher.hash_one(value) as usize % TEXTS_KEPT_MAX];
        match place {
            Some(text) if **text == *value => text.clone(),
            _ => place.insert(search()).clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_searched_for_once_while_it_is_remembered() {
        let mut texts = SharedTexts::default();
        let mut searches = 0;
        for value in ["node-1", "node-1", "node-2", "node-1"] {
            let text = texts.shared(value, || {
                searches += 1;
                Arc::from(value)
            });
            assert_eq!(&*text, value);
        }
        assert!(searches <= 3, "{searches}");
        for number in 0..10_000 {
            let value = number.to_string();
            assert_eq!(*texts.shared(&value, || Arc::from(&*value)), *value);
        }
        assert_eq!(texts.places.len(), TEXTS_KEPT_MAX);
    }
}
