//! The interfaces that plugins import from Informant: `store` reads the cache, `kube` acts on the cluster, `kv`
//! remembers, `metrics` counts.
//!
//! Each call is checked against what config.toml grants: [`store`] against the plugin's `informers`, [`kube`] against
//! `allow.kube` ([`grant`]). A call that is not granted returns `denied` and the line of config.toml that grants it.
//! [`kube_api`] is the trait behind `kube`, so that this crate needs no Kubernetes client, and [`key_value`] the one
//! behind `kv`, so that it needs no database.

pub(crate) mod grant;
pub(crate) mod key_value;
pub(crate) mod kube;
pub(crate) mod kube_api;
pub(crate) mod kv;
pub(crate) mod metrics;
pub(crate) mod store;

use informant_cache::Catalog;

use crate::hostcalls::kube::KubeAccess;
use crate::hostcalls::kv::KvAccess;
use crate::hostcalls::metrics::MetricsAccess;
use crate::hostcalls::store::{StoreAccess, StoreReader};
use crate::instance::bindings::informant::plugin::types::{ErrorCode, HostError};

/// Bytes of the message of an error that a guest receives: 4 KiB. A message may echo what the guest passed.
const ERROR_BYTES_MAX: usize = 4 << 10;

/// What an instance may call.
pub(crate) struct HostAccess {
    pub(crate) reader: StoreReader,
    pub(crate) kube: KubeAccess,
    pub(crate) kv: KvAccess,
    pub(crate) metrics: MetricsAccess,
}

impl HostAccess {
    /// Nothing, for this reason.
    pub(crate) fn denied(catalog: &Catalog, reason: &'static str) -> HostAccess {
        HostAccess {
            reader: StoreReader::new(catalog.clone(), StoreAccess::Denied(reason)),
            kube: KubeAccess::Denied(reason),
            kv: KvAccess::Denied(reason),
            metrics: MetricsAccess::Denied(reason),
        }
    }
}

/// An error for the guest, with a [bounded](bounded_message) message.
pub(crate) fn error(code: ErrorCode, message: impl Into<String>) -> HostError {
    HostError {
        code,
        message: bounded_message(message.into()),
    }
}

/// `message`, cut at [`ERROR_BYTES_MAX`].
pub(crate) fn bounded_message(mut message: String) -> String {
    if message.len() > ERROR_BYTES_MAX {
        message.truncate(message.floor_char_boundary(ERROR_BYTES_MAX));
        message.push('…');
    }
    message
}
