//! Parts of sentences.

use std::fmt::Display;

/// ` in cluster east`; nothing for a single unnamed cluster.
pub(crate) fn in_cluster(name: &str) -> String {
    match name {
        "" => String::new(),
        name => format!(" in cluster {name}"),
    }
}

/// `1 object`, `2 objects`.
pub(crate) fn count<N: Display + From<u8> + PartialEq>(number: N, what: &str) -> String {
    let plural = if number == N::from(1) { "" } else { "s" };
    format!("{number} {what}{plural}")
}
