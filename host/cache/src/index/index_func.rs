//! Index functions: they compute the values under which an object is found.

use std::ops::Range;

use informant_object::{Object, Pointer};

/// Values that one object may have in one index. Above it the object counts as failed in that index.
pub const INDEX_VALUES_MAX: usize = 1_024;

/// Bytes of all values of one object in one index. Above it the object counts as failed in that index.
pub const INDEX_VALUES_BYTES_MAX: usize = 64 * 1_024;

/// Computes the values under which an object is found; client-go's `IndexFunc` with its name.
///
/// Called once per object version, by the store's writer, never for the old version of an update. Must be a pure
/// function of the object: its values are stored.
pub trait IndexFunc: Send + Sync {
    /// The index's name, unique within a store.
    fn name(&self) -> &str;

    /// Pushes the object's values. None is fine; duplicates count once.
    ///
    /// # Errors
    /// A message for the author of the function. The object is stored, but absent from this index, and listed
    /// with the message (client-go panics).
    fn values(&self, object: &Object, values: &mut IndexValues) -> Result<(), String>;

    /// The fields that [`values`](Self::values) reads. None: any; then the store never keeps only heads of objects.
    fn fields(&self) -> Option<&[Pointer]> {
        None
    }
}

/// The values of one object in one index. A reusable buffer.
#[derive(Debug, Default)]
pub struct IndexValues {
    text: String,
    spans: Vec<Range<u32>>,
    overflowed: bool,
}

impl IndexValues {
    /// Adds one value.
    pub fn push(&mut self, value: &str) {
        let start = self.text.len();
        if self.spans.len() >= INDEX_VALUES_MAX || start + value.len() > INDEX_VALUES_BYTES_MAX {
            self.overflowed = true;
            return;
        }
        self.text.push_str(value);
        // Both fit: INDEX_VALUES_BYTES_MAX is far below 2^32.
        self.spans.push(start as u32..self.text.len() as u32);
    }

    /// The values; sorted and without duplicates after [`compute`](Self::compute) and [`take`](Self::take).
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.spans.iter().map(|span| slice(&self.text, span))
    }

    /// Whether `value` is among them. Only once they are sorted.
    pub(crate) fn contains(&self, value: &str) -> bool {
        self.spans
            .binary_search_by(|span| slice(&self.text, span).cmp(value))
            .is_ok()
    }

    /// Runs `index` on `object`, and leaves the values sorted and without duplicates; none after an error.
    pub(crate) fn compute(&mut self, index: &dyn IndexFunc, object: &Object) -> Result<(), String> {
        self.fill(|values| index.values(object, values))
    }

    /// Sets `given` values instead of running a function.
    pub(crate) fn take<'a>(&mut self, given: impl Iterator<Item = &'a str>) -> Result<(), String> {
        self.fill(|values| {
            given.for_each(|value| values.push(value));
            Ok(())
        })
    }

    /// Leaves no values, for this reason.
    pub(crate) fn fail(&mut self, reason: &str) -> Result<(), String> {
        self.clear();
        Err(reason.to_owned())
    }

    fn fill(&mut self, fill: impl FnOnce(&mut IndexValues) -> Result<(), String>) -> Result<(), String> {
        self.clear();
        let mut result = fill(self);
        if result.is_ok() && self.overflowed {
            result = Err(format!(
                "more than {INDEX_VALUES_MAX} values or {INDEX_VALUES_BYTES_MAX} bytes of them for one object; \
                 index a field with fewer values"
            ));
        }
        if result.is_err() {
            self.clear();
        }
        if self.spans.len() > 1 {
            let text = &self.text;
            self.spans.sort_unstable_by(|a, b| slice(text, a).cmp(slice(text, b)));
            self.spans.dedup_by(|a, b| slice(text, a) == slice(text, b));
        }
        result
    }

    fn clear(&mut self) {
        self.text.clear();
        self.spans.clear();
        self.overflowed = false;
    }
}

fn slice<'a>(text: &'a str, span: &Range<u32>) -> &'a str {
    &text[span.start as usize..span.end as usize]
}

/// Indexes objects by the scalar values at a JSON pointer, which may contain `*`; declared by `[informer.NAME.index]`
/// in config.toml. An object without such values is not in the index.
#[derive(Debug)]
pub struct PointerIndex {
    name: String,
    pointer: Pointer,
}

impl PointerIndex {
    /// An index called `name` by the values at `pointer`.
    #[must_use]
    pub fn new(name: impl Into<String>, pointer: Pointer) -> PointerIndex {
        PointerIndex {
            name: name.into(),
            pointer,
        }
    }
}

impl IndexFunc for PointerIndex {
    fn name(&self) -> &str {
        &self.name
    }

    fn values(&self, object: &Object, values: &mut IndexValues) -> Result<(), String> {
        object.visit_pointer(&self.pointer, |value| values.push(&value));
        Ok(())
    }

    fn fields(&self) -> Option<&[Pointer]> {
        Some(std::slice::from_ref(&self.pointer))
    }
}
