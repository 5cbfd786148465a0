//! What an index function returns.

/// The values of a plugin's indexes for one object. An index that is left out has no values for this object.
///
/// ```
/// # use informant_plugin_sdk::IndexValues;
/// let values = IndexValues::new().with("image", ["nginx:1.25", "envoy:1.36"]).with("team", Some("web"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexValues(Vec<(String, Vec<String>)>);

impl IndexValues {
    /// No values in any index.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `values` to `index`. Values given earlier for the same index are kept. The order of values does not matter,
    /// and duplicates are ignored.
    #[must_use]
    pub fn with<V: Into<String>>(mut self, index: &str, values: impl IntoIterator<Item = V>) -> Self {
        let values = values.into_iter().map(Into::into);
        match self.0.iter_mut().find(|(name, _)| name == index) {
            Some((_, present)) => present.extend(values),
            None => self.0.push((index.to_owned(), values.collect())),
        }
        self
    }

    /// The values of `index`, as given.
    pub fn values(&self, index: &str) -> &[String] {
        self.0
            .iter()
            .find(|(name, _)| name == index)
            .map_or(&[], |(_, values)| values)
    }

    /// The names of the indexes.
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
    fn values_of_one_index_are_merged() {
        let values = IndexValues::new()
            .with("image", ["a"])
            .with("node", ["n"])
            .with("image", ["b"]);
        assert_eq!(values.values("image"), ["a", "b"]);
        assert_eq!(values.into_pairs().len(), 2);
    }

    #[test]
    fn an_index_that_is_left_out_has_no_values() {
        assert!(IndexValues::new().values("image").is_empty());
    }
}
