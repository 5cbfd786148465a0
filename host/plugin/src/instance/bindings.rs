//! The host's side of the contract, generated from `wit/informant.wit`.
//!
//! The world is `full`, so that one set of bindings knows every role; which of them a component has is judged in
//! [`crate::component::roles`]. Exports take borrowed arguments: on its way into a guest an event is copied once and allocates
//! nothing.

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "full",
    // Only what may have to look at many objects, or waits for a cluster, can yield; everything else answers at once,
    // which is cheaper.
    imports: {
        "informant:plugin/store.list": async | trappable,
        "informant:plugin/store.by-index": async | trappable,
        "informant:plugin/kube.get": async | trappable,
        "informant:plugin/kube.list": async | trappable,
        "informant:plugin/kube.create": async | trappable,
        "informant:plugin/kube.update": async | trappable,
        "informant:plugin/kube.patch": async | trappable,
        "informant:plugin/kube.delete": async | trappable,
        default: trappable,
    },
    exports: { default: async },
    ownership: Borrowing { duplicate_if_necessary: true },
});
