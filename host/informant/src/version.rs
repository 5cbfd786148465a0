//! The output of `--version`.

/// The plugin contract, as in `wit/`.
pub(crate) const CONTRACT: &str = "informant:plugin@0.1.0";

/// The long form: the versions of the program, of the plugin contract and of the engine that runs guests.
pub(crate) const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncontract: informant:plugin@0.1.0\nwasmtime: ",
    env!("INFORMANT_WASMTIME_VERSION"),
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contract_matches_the_plugin_host() {
        assert_eq!(
            CONTRACT,
            format!("informant:plugin@{}", informant_plugin_host::CONTRACT)
        );
        assert!(LONG_VERSION.contains(CONTRACT));
    }
}
