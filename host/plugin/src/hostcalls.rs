//! The interfaces that plugins import from Informant: `store` reads the cache, `kube` acts on the cluster.
//!
//! Each call is checked against what config.toml grants: [`store`] against the plugin's `informers`, [`kube`] against
//! `allow.kube` ([`grant`]). A call that is not granted returns `denied` and the line of config.toml that grants it.
//! [`kube_api`] is the trait behind `kube`, so that this crate needs no Kubernetes client.

pub(crate) mod grant;
pub(crate) mod kube;
pub(crate) mod kube_api;
pub(crate) mod store;
