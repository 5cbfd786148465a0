//! The interfaces that plugins import from Informant: `store` reads the cache, `kube` acts on the cluster, `kv`
//! remembers, `metrics` counts; and wasi:http, which calls other services.
//!
//! Each call is checked against what config.toml grants: [`store`] against the plugin's `informers`, [`kube`] against
//! `allow.kube` ([`grant`]), [`http`] against `allow.http`. A call that is not granted returns `denied` and the line of
//! config.toml that grants it.
//! [`kube_api`] is the trait behind `kube`, so that this crate needs no Kubernetes client, [`key_value`] the one behind
//! `kv`, so that it needs no database, and [`http_client`] the one behind wasi:http ([`http`]), so that it opens no
//! connections.

pub(crate) mod http;
pub(crate) mod http_client;
pub(crate) mod key_value;
pub(crate) mod kube;
pub(crate) mod kube_api;
pub(crate) mod kv;
pub(crate) mod metrics;
pub(crate) mod store;
pub(crate) mod wait;

use informant_cache::Catalog;

use crate::hostcalls::http::HttpAccess;
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
    pub(crate) http: HttpAccess,
}

impl HostAccess {
    /// Nothing, for this reason.
    pub(crate) fn denied(catalog: &Catalog, reason: &'static str) -> HostAccess {
        HostAccess {
            reader: StoreReader::new(catalog.clone(), StoreAccess::Denied(reason)),
            kube: KubeAccess::Denied(reason),
            kv: KvAccess::Denied(reason),
            metrics: MetricsAccess::Denied(reason),
            http: HttpAccess::Denied(reason),
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
