//! What an index function returns.

use crate::failure::{Failure, Result};

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

    /// The values for each of the manifest's index names.
    pub(crate) fn by_position(self, names: &[String]) -> Result<Vec<Vec<String>>> {
        let mut positions = vec![Vec::new(); names.len()];
        for (index, values) in self.0 {
            match names.iter().position(|name| *name == index) {
                Some(position) => positions[position] = values,
                None => {
                    return Err(Failure::permanent(format_args!(
                        "the manifest does not declare the index {index:?}"
                    )));
                }
            }
        }
        Ok(positions)
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
        assert_eq!(values.names().count(), 2);
    }

    #[test]
    fn an_index_that_is_left_out_has_no_values() {
        assert!(IndexValues::new().values("image").is_empty());
    }

    #[test]
    fn values_follow_the_order_of_the_manifest() {
        let names = ["node", "team", "image"].map(str::to_owned);
        let values = IndexValues::new().with("image", ["a", "b"]).with("node", ["n"]);
        let expected = vec![vec!["n".to_owned()], vec![], vec!["a".to_owned(), "b".to_owned()]];
        assert_eq!(values.clone().by_position(&names), Ok(expected));
        assert_eq!(
            values.by_position(&names[..2]),
            Err(Failure::permanent("the manifest does not declare the index \"image\""))
        );
    }
}
