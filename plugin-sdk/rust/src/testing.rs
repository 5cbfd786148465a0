//! Stands in for Informant when a plugin is tested natively.
pub(crate) mod host;
