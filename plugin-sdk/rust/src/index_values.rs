//! What an index function answers.

/// The values of a plugin's indexes for one object. An index that is not named has no values for this object.
///
/// ```
/// # use informant_plugin_sdk::IndexValues;
/// let values = IndexValues::new().with("image", ["nginx:1.29", "envoy:1.36"]).with("team", Some("web"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexValues(Vec<(String, Vec<String>)>);

impl IndexValues {
    /// No values in any index.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with `values` in `index`. An index that was named before gets these besides. Order does not matter, and
    /// neither do duplicates.
    #[must_use]
    pub fn with<V: Into<String>>(mut self, index: &str, values: impl IntoIterator<Item = V>) -> Self {
        let values = values.into_iter().map(Into::into);
        match self.0.iter_mut().find(|(name, _)| name == index) {
            Some((_, present)) => present.extend(values),
            None => self.0.push((index.to_owned(), values.collect())),
        }
        self
    }

    /// The values in `index`, as given.
    pub fn values(&self, index: &str) -> &[String] {
        self.0
            .iter()
            .find(|(name, _)| name == index)
            .map_or(&[], |(_, values)| values)
    }

    /// The indexes that were named.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    pub(crate) fn into_pairs(self) -> Vec<(String, Vec<String>)> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_given_in_two_portions_stand_together() {
        let values = IndexValues::new()
            .with("image", ["a"])
            .with("node", ["n"])
            .with("image", ["b"]);
        assert_eq!(values.values("image"), ["a", "b"]);
        assert_eq!(values.into_pairs().len(), 2);
    }

    #[test]
    fn an_index_that_was_not_named_has_no_values() {
        assert!(IndexValues::new().values("image").is_empty());
    }
}
