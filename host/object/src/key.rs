//! The name of an object within one source: namespace and name. And the number of a source, [`SourceId`].
//!
//! [`Key`] owns its text (one shared allocation, cheap to clone); [`KeyRef`] borrows. Both order by namespace, then
//! name, and hash equally, so that either can look up the other in an ordered or a hashed map (see [`AsKey`] and
//! `equivalent`).

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use equivalent::{Comparable, Equivalent};

/// Namespace and name of an object, owned. A cluster-scoped object has an empty namespace.
///
/// Formatted like client-go's `MetaNamespaceKeyFunc`: `namespace/name`, or `name` alone.
#[derive(Clone)]
pub struct Key {
    /// `namespace/name`, or `name` when there is no namespace.
    text: Arc<str>,
    /// Length of the namespace in bytes. Stored, because only the API server forbids a slash in a name.
    namespace_bytes: usize,
}

/// Namespace and name of an object, borrowed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyRef<'a> {
    /// Empty for a cluster-scoped object.
    pub namespace: &'a str,
    /// `metadata.name`; never empty in a parsed object.
    pub name: &'a str,
}

/// A namespace has at most 63 bytes, a name usually at most 253.
const SHORT_BYTES_MAX: usize = 320;

/// Why a text is not a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a key: {problem}; write \"namespace/name\", or \"name\" for a cluster-scoped object")]
pub struct KeyError {
    text: String,
    problem: &'static str,
}

impl Key {
    /// The key of `name` in `namespace`; an empty namespace means cluster-scoped.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Key {
        let text = if namespace.is_empty() {
            Arc::from(name)
        } else {
            joined(namespace, name)
        };
        Key {
            text,
            namespace_bytes: namespace.len(),
        }
    }

    /// Reads `namespace/name` or `name`.
    ///
    /// # Errors
    /// [`KeyError`] when there is more than one slash, or the name is empty.
    ///
    /// Source: client-go `SplitMetaNamespaceKey`.
    pub fn parse(text: &str) -> Result<Key, KeyError> {
        let refuse = |problem| {
            Err(KeyError {
                text: text.to_owned(),
                problem,
            })
        };
        match text.split_once('/') {
            Some((_, name)) if name.contains('/') => refuse("more than one slash"),
            Some((_, "")) | None if text.is_empty() || text.ends_with('/') => refuse("the name is empty"),
            Some((namespace, name)) => Ok(Key::new(namespace, name)),
            None => Ok(Key::new("", text)),
        }
    }

    /// The namespace; empty for a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.text[..self.namespace_bytes]
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        let slash = usize::from(self.namespace_bytes > 0);
        &self.text[self.namespace_bytes + slash..]
    }

    /// Borrows both parts.
    #[must_use]
    pub fn as_ref(&self) -> KeyRef<'_> {
        KeyRef {
            namespace: self.namespace(),
            name: self.name(),
        }
    }

    /// `namespace/name` or `name`, as [`fmt::Display`] writes it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// `namespace/name`, in one allocation if it has at most [`SHORT_BYTES_MAX`] bytes.
fn joined(namespace: &str, name: &str) -> Arc<str> {
    let mut buffer = [0; SHORT_BYTES_MAX];
    let slash = namespace.len();
    let bytes = slash + 1 + name.len();
    if bytes <= buffer.len() {
        buffer[..slash].copy_from_slice(namespace.as_bytes());
        buffer[slash] = b'/';
        buffer[slash + 1..bytes].copy_from_slice(name.as_bytes());
        if let Ok(text) = std::str::from_utf8(&buffer[..bytes]) {
            return Arc::from(text);
        }
    }
    format!("{namespace}/{name}").into()
}

impl<'a> KeyRef<'a> {
    /// Borrows both parts; an empty namespace means cluster-scoped.
    #[must_use]
    pub fn new(namespace: &'a str, name: &'a str) -> KeyRef<'a> {
        KeyRef { namespace, name }
    }

    /// Copies the key.
    #[must_use]
    pub fn to_key(self) -> Key {
        Key::new(self.namespace, self.name)
    }
}

impl fmt::Display for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            f.write_str(self.namespace)?;
            f.write_str("/")?;
        }
        f.write_str(self.name)
    }
}

impl fmt::Debug for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_ref(), f)
    }
}

impl From<KeyRef<'_>> for Key {
    fn from(key: KeyRef<'_>) -> Key {
        key.to_key()
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.namespace_bytes == other.namespace_bytes && self.text == other.text
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Key) -> Ordering {
        // If the namespaces have the same length, and especially if they are equal, the texts order as the keys do.
        if self.namespace_bytes == other.namespace_bytes {
            return self.text.as_bytes().cmp(other.text.as_bytes());
        }
        self.as_ref().cmp(&other.as_ref())
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_ref().hash(state);
    }
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        *self == key.as_ref()
    }
}

impl Comparable<Key> for KeyRef<'_> {
    fn compare(&self, key: &Key) -> Ordering {
        self.cmp(&key.as_ref())
    }
}

/// Anything with a key. Allows lookups in std's maps of [`Key`] with a borrowed key: `map.get(&key_ref as &dyn AsKey)`.
pub trait AsKey {
    /// The key, borrowed.
    fn as_key(&self) -> KeyRef<'_>;
}

impl AsKey for Key {
    fn as_key(&self) -> KeyRef<'_> {
        self.as_ref()
    }
}

impl AsKey for KeyRef<'_> {
    fn as_key(&self) -> KeyRef<'_> {
        *self
    }
}

impl PartialEq for dyn AsKey + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.as_key() == other.as_key()
    }
}

impl Eq for dyn AsKey + '_ {}

impl PartialOrd for dyn AsKey + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn AsKey + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_key().cmp(&other.as_key())
    }
}

impl Hash for dyn AsKey + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_key().hash(state);
    }
}

impl<'a> Borrow<dyn AsKey + 'a> for Key {
    fn borrow(&self) -> &(dyn AsKey + 'a) {
        self
    }
}

/// One (informer, cluster, resource, namespace or all). Never reused within a process: a rebuilt source gets a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u32);

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;

    #[test]
    fn a_key_reads_back_what_it_writes() {
        for (text, namespace, name) in [("a/b", "a", "b"), ("node-1", "", "node-1"), ("/b", "", "b")] {
            let key = Key::parse(text).expect(text);
            assert_eq!((key.namespace(), key.name()), (namespace, name));
            assert_eq!(Key::parse(key.as_str()).expect("own text"), key);
        }
    }

    #[test]
    fn texts_that_name_no_object_are_refused() {
        for text in ["", "a/", "/", "a/b/c"] {
            assert!(Key::parse(text).is_err(), "{text:?}");
        }
        insta::assert_snapshot!(
            Key::parse("a/b/c").expect_err("refused"),
            @r#""a/b/c" is not a key: more than one slash; write "namespace/name", or "name" for a cluster-scoped object"#
        );
    }

    #[test]
    fn namespaces_order_before_names_even_where_the_texts_would_not() {
        // As texts, "a-b/c" sorts before "a/z"; as keys, namespace "a" comes first.
        assert!(Key::new("a", "z") < Key::new("a-b", "c"));
        assert!(Key::new("", "z") < Key::new("a", "a"));
    }

    #[test]
    fn owned_keys_order_as_borrowed_ones() {
        let parts = ["", "a", "a-", "a/", "ab", "b", "b.c", "é"];
        let keys: Vec<Key> = parts
            .iter()
            .flat_map(|namespace| parts[1..].iter().map(|name| Key::new(namespace, name)))
            .collect();
        for a in &keys {
            for b in &keys {
                assert_eq!(a.cmp(b), a.as_ref().cmp(&b.as_ref()), "{a} {b}");
                assert_eq!(a.cmp(b).is_eq(), a == b, "{a} {b}");
            }
        }
    }

    #[test]
    fn borrowed_keys_find_owned_ones_in_ordered_and_hashed_maps() {
        let key = Key::new("default", "web");
        let ordered = BTreeMap::from([(key.clone(), 1)]);
        let hashed = HashMap::from([(key, 1)]);
        let asked = KeyRef::new("default", "web");
        assert_eq!(ordered.get(&asked as &dyn AsKey), Some(&1));
        assert_eq!(hashed.get(&asked as &dyn AsKey), Some(&1));
    }

    #[test]
    fn a_slash_in_a_name_does_not_make_a_namespace() {
        let odd = Key::new("", "a/b");
        assert_eq!((odd.namespace(), odd.name()), ("", "a/b"));
        assert_ne!(odd, Key::new("a", "b"));
    }
}
