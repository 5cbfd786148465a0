//! The interfaces that plugins import from Informant: `store` reads the cache, `kube` acts on the cluster, `kv`
//! remembers.
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
pub(crate) mod store;

/// Bytes of the message of an error that a guest receives: 4 KiB. A message may echo what the guest passed.
const ERROR_BYTES_MAX: usize = 4 << 10;

/// `message`, cut at [`ERROR_BYTES_MAX`].
pub(crate) fn bounded_message(mut message: String) -> String {
    if message.len() > ERROR_BYTES_MAX {
        message.truncate(message.floor_char_boundary(ERROR_BYTES_MAX));
        message.push('…');
    }
    message
}
