//! Metrics of `kv`.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit;

use super::key_value::KvUsage;
use crate::bindings::informant::plugin::types::ErrorCode;
use crate::series::{FamilyOf, Labeled, Lazy, SeriesSet};

/// The series of one plugin. They begin with its first call, so that a plugin without keys has none.
pub(crate) struct KvSeries {
    calls: Labeled<2, Counter>,
    keys: Lazy<Gauge>,
    bytes: Lazy<Gauge>,
    held_bytes: Lazy<Gauge>,
}

impl Default for KvSeries {
    fn default() -> KvSeries {
        KvSeries {
            calls: Labeled::new(["function", "result"]),
            keys: Lazy::default(),
            bytes: Lazy::default(),
            held_bytes: Lazy::default(),
        }
    }
}

impl SeriesSet for KvSeries {
    const FAMILIES: &'static [FamilyOf<KvSeries>] = &[
        FamilyOf::new(
            "plugin_kv_calls",
            "Calls of plugins to kv, by function and result",
            |of| &of.calls,
        ),
        FamilyOf::new("plugin_kv_keys", "Keys of a plugin in kv", |of| &of.keys),
        FamilyOf::with_unit("plugin_kv", "Keys and values of a plugin in kv", Unit::Bytes, |of| {
            &of.bytes
        }),
        FamilyOf::with_unit(
            "plugin_kv_held",
            "Changes of a plugin's keys that are stored once the writes of their calls are sent",
            Unit::Bytes,
            |of| &of.held_bytes,
        ),
    ];
}

impl KvSeries {
    pub(super) fn count(&self, function: &'static str, error: Option<ErrorCode>) {
        let result = match error {
            None => "ok",
            Some(ErrorCode::Denied) => "denied",
            Some(ErrorCode::NotHere) => "not-here",
            Some(ErrorCode::Conflict) => "conflict",
            Some(ErrorCode::Exhausted) => "exhausted",
            Some(ErrorCode::Invalid) => "invalid",
            Some(ErrorCode::TooLarge) => "too-large",
            Some(ErrorCode::Unavailable) => "unavailable",
            Some(_) => "other",
        };
        self.calls.of([function, result]).inc();
    }

    pub(super) fn show_held(&self, bytes: usize) {
        self.held_bytes.get().set(gauge(bytes));
    }

    pub(super) fn show(&self, usage: KvUsage) {
        self.keys.get().set(gauge(usage.keys));
        self.bytes.get().set(gauge(usage.bytes));
    }
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
