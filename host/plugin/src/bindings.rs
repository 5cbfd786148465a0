//! The host's side of the contract, generated from `wit/informant.wit`.
//!
//! The world is `full`, so that one set of bindings has every role; `component::roles` finds those of a
//! component. Exports take borrowed arguments: on its way into a guest an event is copied once and allocates nothing.

/// The contract version that this Informant supports: that of the package in `wit/informant.wit`.
pub const CONTRACT: &str = version_in(include_str!("../../../wit/informant.wit"));

pub(crate) const PACKAGE: &str = "informant:plugin";

/// What the line `package informant:plugin@VERSION;` of the contract says.
const fn version_in(wit: &str) -> &str {
    const BEFORE: &[u8] = b"\npackage informant:plugin@";
    let bytes = wit.as_bytes();
    let (mut at, mut matched) = (0, 0);
    while matched < BEFORE.len() {
        matched = if bytes[at] == BEFORE[matched] { matched + 1 } else { 0 };
        at += 1;
    }
    let mut length = 0;
    while bytes[at + length] != b';' {
        length += 1;
    }
    wit.split_at(at).1.split_at(length).0
}

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "full",
    // Only functions that may read many objects or wait for a cluster or the disk are async; all others return at once,
    // which is cheaper. `store` waits where the cache has only the head of an object.
    imports: {
        "informant:plugin/store.get": async | trappable,
        "informant:plugin/store.find": async | trappable,
        "informant:plugin/store.list": async | trappable,
        "informant:plugin/store.by-index": async | trappable,
        "informant:plugin/store.index-keys": async | trappable,
        "informant:plugin/store.index-values": async | trappable,
        "informant:plugin/kube.get": async | trappable,
        "informant:plugin/kube.list": async | trappable,
        "informant:plugin/kube.create": async | trappable,
        "informant:plugin/kube.update": async | trappable,
        "informant:plugin/kube.patch": async | trappable,
        "informant:plugin/kube.delete": async | trappable,
        "informant:plugin/kube.defer-children": async | trappable,
        "informant:plugin/kv.get": async | trappable,
        "informant:plugin/kv.set": async | trappable,
        "informant:plugin/kv.set-if-absent": async | trappable,
        "informant:plugin/kv.delete": async | trappable,
        "informant:plugin/kv.list": async | trappable,
        default: trappable,
    },
    exports: { default: async },
    ownership: Borrowing { duplicate_if_necessary: true },
});

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// What refers to the contract's version outside of `wit/informant.wit`.
    const PLACES: [&str; 16] = [
        "README.md",
        "SECURITY.md",
        "plugin-sdk/c/informant.c",
        "plugin-sdk/go/informanttest/plugin.go",
        "plugin-sdk/javascript/testing/driver.js",
        "plugin-sdk/python/README.md",
        "plugin-sdk/python/informant/host.py",
        "plugin-sdk/python/tests/component_host.py",
        "plugin-sdk/rust/src/bindings.rs",
        "plugin-sdk/rust/src/lib.rs",
        "plugin-sdk/script-runner/src/bindings.rs",
        "plugin-sdk/script-runner/src/runner_section.rs",
        "plugin-sdk/script-runner/src/sdk_section.rs",
        "wit/draft/roles.wit",
        "xtask/go-bindings/src/component.rs",
        "xtask/src/c_plugins.rs",
    ];

    /// The versions of the contract in a text: those of 0.y.z in lines about it, besides that of an SDK.
    fn versions(text: &str) -> Vec<&str> {
        let about = text.lines().filter(|line| {
            let folded = line.to_lowercase();
            folded.contains("informant:plugin") || folded.contains("contract") || line.trim_start().starts_with("\"0.")
        });
        let words = about.flat_map(|line| line.split(|letter: char| !letter.is_ascii_digit() && letter != '.'));
        words
            .filter(|word| word.split('.').filter(|part| !part.is_empty()).count() == 3 && word.starts_with("0."))
            .filter(|word| *word != env!("CARGO_PKG_VERSION"))
            .collect()
    }

    #[test]
    fn every_place_has_the_version_of_the_contract() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for place in PLACES {
            let text = std::fs::read_to_string(root.join(place)).unwrap();
            let found = versions(&text);
            let others: Vec<_> = found.iter().filter(|version| **version != CONTRACT).collect();
            assert!(!found.is_empty() && others.is_empty(), "{place}: {found:?}");
        }
    }
}
