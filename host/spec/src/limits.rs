//! [`Limits`]: what one plugin may use, and how much of it unless its section says otherwise.

use std::time::Duration;

/// Memory of one instance: 64 MiB. A Rust or C plugin needs 2, JavaScript and Python 16.
const MEMORY_BYTES: usize = 64 * 1_024 * 1_024;

/// CPU time of one call: 1 s. Waiting in the host does not count.
const CPU: Duration = Duration::from_secs(1);

/// Total time of one call, including waiting in the host: 30 s.
const CALL: Duration = Duration::from_secs(30);

/// Instances that handle the events of one plugin: 1.
const INSTANCES: u32 = 1;

/// The most instances that may handle the events of one plugin: 64, as many as a listener has lanes.
pub const INSTANCES_MAX: u32 = 64;

/// Pending events of one plugin that are kept one by one: 1,024.
const PENDING_EVENTS: usize = 1_024;

/// Direct calls of one plugin to clusters at once: 8.
const KUBE_CALLS: usize = 8;

/// Deferred writes of one plugin in flight: 16.
const WRITES_IN_FLIGHT: usize = 16;

/// Deferred writes of one plugin in a second: 20, after a burst.
const WRITES_PER_SECOND: u32 = 20;

/// Keys and values of one plugin in `kv`: 1 MiB, with a fixed cost for each key.
const KV_BYTES: usize = 1 << 20;

/// HTTP requests of one plugin in flight: 16. Further ones wait, within their own time.
const HTTP_IN_FLIGHT: usize = 16;

/// HTTP requests of one plugin in a second: 50, after a burst. Further ones wait, within their own time.
const HTTP_PER_SECOND: u32 = 50;

/// Time of one HTTP request, from waiting for its turn to the end of the response: 10 s, or nine tenths of the call.
const HTTP_TIME: Duration = Duration::from_secs(10);

/// The body of an HTTP request: 1 MiB.
const HTTP_REQUEST_BYTES: usize = 1 << 20;

/// The body of an HTTP response: 8 MiB.
const HTTP_RESPONSE_BYTES: usize = 8 << 20;

/// The resource limits of one plugin. Each has a default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of linear memory of one instance. At the limit `memory.grow` fails, which most languages turn into a trap.
    pub memory_bytes: usize,
    /// CPU time of one call. At the limit the call is a timeout and the instance is rebuilt.
    pub cpu: Duration,
    /// Total time of one call, including waiting in the host. At the limit the call is a timeout and the instance is
    /// rebuilt.
    pub call: Duration,
    /// Pending events that are kept one by one; above it they are compressed per key.
    pub pending: usize,
    /// Instances that share the plugin's keys; more than 1 only if its manifest says `parallel`.
    pub instances: u32,
    /// Direct calls to clusters at once, of all instances; further ones wait.
    pub kube_calls: usize,
    /// Deferred writes that are in flight at once; further ones wait.
    pub writes_in_flight: usize,
    /// Deferred writes in a second, after a burst; further ones wait.
    pub writes_per_second: u32,
    /// Bytes of its keys and values in `kv`. At the limit a key is not set.
    pub kv_bytes: usize,
    /// HTTP requests in flight at once; further ones wait.
    pub http_in_flight: usize,
    /// HTTP requests in a second, after a burst; further ones wait.
    pub http_per_second: u32,
    /// Time of one HTTP request, with its response. At the limit it fails.
    pub http_time: Duration,
    /// Bytes of the body of an HTTP request. At the limit it fails.
    pub http_request_bytes: usize,
    /// Bytes of the body of an HTTP response. At the limit reading it fails.
    pub http_response_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            memory_bytes: MEMORY_BYTES,
            cpu: CPU,
            call: CALL,
            pending: PENDING_EVENTS,
            instances: INSTANCES,
            kube_calls: KUBE_CALLS,
            writes_in_flight: WRITES_IN_FLIGHT,
            writes_per_second: WRITES_PER_SECOND,
            kv_bytes: KV_BYTES,
            http_in_flight: HTTP_IN_FLIGHT,
            http_per_second: HTTP_PER_SECOND,
            http_time: HTTP_TIME,
            http_request_bytes: HTTP_REQUEST_BYTES,
            http_response_bytes: HTTP_RESPONSE_BYTES,
        }
    }
}
