//! The metrics of shared state.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Declares the series, in the order of the exposition.
macro_rules! series {
    ($($field:ident: $metric:ty, $name:literal, $help:literal;)*) => {
        /// The metrics of shared state. Clones share the same counters.
        #[derive(Clone, Debug, Default)]
        pub struct SharedMetrics {
            $(pub(crate) $field: $metric,)*
            /// Why it cannot be read or written.
            failure: Arc<Mutex<Option<String>>>,
        }

        impl SharedMetrics {
            /// All of them in `registry`.
            pub fn register(registry: &mut Registry) -> Self {
                let metrics = Self::default();
                $(registry.register($name, $help, metrics.$field.clone());)*
                metrics
            }
        }
    };
}

series! {
    writes: Counter, "shared_state_writes", "Successful writes of Secrets with shared state";
    written_bytes: Counter, "shared_state_written_bytes", "Bytes of these writes";
    errors: Counter, "shared_state_errors", "Requests for shared state that failed";
    failing: Gauge, "shared_state_failing",
        "1 while shared state cannot be read or written; events whose calls changed it do not end";
    conflicts: Counter, "shared_state_conflicts",
        "Writes of shared state that found another version: an answer was lost, or somebody else wrote";
    rewrites: Counter, "shared_state_rewrites",
        "Secrets with shared state that were deleted or edited while Informant ran, and were written again";
    bytes: Gauge, "shared_state_bytes", "Bytes of rows in the Secrets with shared state";
    unwritten_seconds: Gauge<f64, AtomicU64>, "shared_state_unwritten_seconds",
        "Age of the oldest change of shared state that is not written";
    ends_dropped: Counter, "shared_state_ends_dropped",
        "Events that did not end because the lease was lost before their changes were written; the next holder delivers \
         them again";
    letters_dropped: Counter, "shared_state_letters_dropped",
        "Dead letters that were not stored, because those of all plugins take 4 MiB; a takeover loses them";
}

impl SharedMetrics {
    /// Why shared state cannot be read or written at present; none if it can, or is not used.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A dead letter does not fit.
    pub fn count_dropped_letter(&self) {
        self.letters_dropped.inc();
    }

    pub(crate) fn set_failure(&self, failure: Option<String>) {
        self.failing.set(failure.is_some().into());
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }
}
