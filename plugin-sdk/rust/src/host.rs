//! Every call from a plugin to Informant goes through this module: in a component to the contract's imports, in a
//! native test to the test kit.

#[cfg(target_arch = "wasm32")]
pub(crate) use crate::bindings::imports::informant::plugin::{
    kube::{
        create as kube_create, defer_children as kube_defer_children, defer_create as kube_defer_create,
        defer_delete as kube_defer_delete, defer_patch as kube_defer_patch, defer_update as kube_defer_update,
        delete as kube_delete, get as kube_get, list as kube_list, patch as kube_patch, update as kube_update,
    },
    kv::{delete as kv_delete, get as kv_get, list as kv_list, set as kv_set, set_if_absent as kv_set_if_absent},
    log::log,
    metrics::{add as metrics_add, observe as metrics_observe, replace as metrics_replace, set as metrics_set},
    recorder::event as recorder_event,
    store::{by_index, find, get, index_keys, index_values, list, source, sources, version},
};
#[cfg(target_arch = "wasm32")]
pub(crate) use crate::http::wasi::send as http_send;

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crate::testing::children::set as kube_defer_children;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crate::testing::cluster::{
    create as kube_create, delete as kube_delete, get as kube_get, list as kube_list, patch as kube_patch,
    update as kube_update,
};
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crate::testing::deferred::{
    create as kube_defer_create, delete as kube_defer_delete, patch as kube_defer_patch, update as kube_defer_update,
};
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crate::testing::events::event as recorder_event;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crate::testing::host::{
    by_index, find, get, index_keys, index_values, list, log, source, sources, version,
};
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crate::testing::http::send as http_send;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crate::testing::keys::{
    delete as kv_delete, get as kv_get, list as kv_list, set as kv_set, set_if_absent as kv_set_if_absent,
};
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crate::testing::metrics::{
    add as metrics_add, observe as metrics_observe, replace as metrics_replace, set as metrics_set,
};
