//! An index by JSON pointer: what `[informer.NAME.index]` in config.toml declares.

use informant_object::{Object, Pointer};

use super::{IndexFunc, IndexValues};

/// Indexes objects by the scalar values at a pointer, which may hold `*`. An object without them is in the index under
/// nothing.
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
}
