//! Policies: what happens to an event that fails, after a reload or a restart, what readiness waits for, and how much
//! of
//! an object is persisted.

use std::time::Duration;

/// What a new instance receives when it replaces another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplayPolicy {
    /// It continues where the old one stopped.
    #[default]
    Continue,
    /// It receives a replay of the whole cache.
    Replay,
}

/// What a plugin's first calls about the objects of a cluster wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitFor {
    /// All its sources in that cluster, and the indexes over them.
    #[default]
    All,
    /// The source of the object.
    Own,
}

/// What happens to an event that a plugin fails on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// It is retried with back-off, and dead-lettered once it is out of attempts.
    #[default]
    Retry,
    /// It is counted and dropped.
    Skip,
    /// As `Retry`, but a permanent failure, a trap or a timeout quarantines the plugin until it is resumed.
    Quarantine,
}

/// How events that a plugin fails on are retried: after `initial`, doubling up to `max`, with jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The wait after the first failure; jitter adds up to a quarter.
    pub initial: Duration,
    /// The longest wait, jitter included.
    pub max: Duration,
    /// Attempts per state before it becomes a dead letter; 0: retryable failures are retried without end, traps and
    /// timeouts a few times. A handler that asks for a retry after some time does not use up an attempt.
    pub attempts: u32,
}

/// Whether readiness depends on an informer or plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Required {
    /// Never.
    No,
    /// Until it was ready once; later problems show in `/readyz?verbose` and in metrics only.
    Once,
    /// Always: later problems make `/readyz` fail again.
    Always,
}

/// How much of an object of a durable informer is persisted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredContent {
    /// apiVersion, kind and metadata, without managed fields and without kubectl's copy of the whole object
    /// (`kubectl.kubernetes.io/last-applied-configuration`).
    Metadata,
    /// The object as the cache holds it.
    Whole,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            initial: Duration::from_secs(1),
            max: Duration::from_secs(5 * 60),
            attempts: 0,
        }
    }
}
