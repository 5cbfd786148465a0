//! The host's side of the contract, generated from `wit/informant.wit`.
//!
//! The world is `full`, so that one set of bindings has every role; `component::roles` finds those of a
//! component. Exports take borrowed arguments: on its way into a guest an event is copied once and allocates nothing.

/// The contract version that this Informant supports.
pub const CONTRACT: &str = "0.2.0";

pub(crate) const PACKAGE: &str = "informant:plugin";

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
