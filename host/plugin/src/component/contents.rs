//! The contents of plugins that are being loaded: each is in memory once, however many plugins have it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use informant_spec::{Content, Digest};

use crate::sync::lock;

/// At a start, a thousand plugins may be loaded at a time, and few files be behind them.
#[derive(Default)]
pub(crate) struct LoadingContents {
    bytes: Mutex<BTreeMap<Digest, Weak<[u8]>>>,
}

impl LoadingContents {
    /// The same content. Its bytes are those of another plugin that has them, if there is one.
    pub(crate) fn share(&self, content: Content) -> Content {
        let mut known = lock(&self.bytes);
        if let Some(bytes) = known.get(&content.digest()).and_then(Weak::upgrade) {
            return content.sharing(bytes);
        }
        known.retain(|_, bytes| bytes.strong_count() > 0);
        known.insert(content.digest(), Arc::downgrade(content.bytes()));
        content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_files_are_in_memory_once() {
        let contents = LoadingContents::default();
        let load = |file: &str, bytes: &[u8]| contents.share(Content::new(file, bytes));
        let (first, second, other) = (load("a.wasm", b"a"), load("b.wasm", b"a"), load("c.wasm", b"c"));
        assert!(Arc::ptr_eq(first.bytes(), second.bytes()));
        assert_eq!(second.origin().path().to_str(), Some("b.wasm"));
        assert_eq!(&other.bytes()[..], b"c");
        drop((first, second, other));
        let _last = load("d.wasm", b"d");
        assert_eq!(lock(&contents.bytes).len(), 1);
    }
}
