//! Deferred writes: what a handler wants to change on the cluster, made after it succeeded.
//!
//! ```text
//! guest ─defer-*─▶ CallWrites ─success─▶ WriteQueue ─▶ Writer ─▶ gate ─▶ API server
//!                      │                     ▲                      │
//!                      └ failure: dropped    └──── next, or last ───┴─▶ listener: the event is done, or has failed
//! ```
//!
//! A success is a commitment. The event actor takes the writes of a successful call from the instance and passes them,
//! with the event, to the plugin's queue. From then on they depend on nothing but the plugin: not on the instance, its
//! version, a pause or a quarantine. They end with the grant, which is checked again when a write is sent, with the
//! plugin's removal, and at a stop, which starts no write in its last second.
//!
//! The listener learns the event's outcome when its last write has ended. Until then the event is in flight: the
//! handler is called for no other event of the key, so the writes of a key are in order, and a process that ends leaves
//! the event unacknowledged. Writes of one call are made one after the other, and writes to one object one at a time,
//! in the order of their calls. The first failure drops the rest of the call's writes and becomes the event's failure.
//! What failed permanently is a dead letter; everything else is retried by calling the handler again. A response that
//! asks to come back later (429 or 503 with Retry-After) pauses all writes of the plugin and is no attempt.
//!
//! While another replica acts, nothing is sent. When the plugin stands by, all writes are dropped, and their events go
//! back to the listener. Those that were sent already may still be made.
//!
//! Bounds: [`CALL_WRITES_MAX`] and [`CALL_WRITES_BYTES_MAX`] for each call; at [`WRITES_WAITING_MAX`] or
//! [`WRITES_WAITING_BYTES_MAX`] the plugin is not called until half of that is left. A call that is made below the
//! bound may exceed it by its own writes. [`Limits`](informant_spec::Limits) has the configurable ones: writes in
//! flight, and
//! writes per second, with bursts of [`WRITES_BURST`].
//!
//! A merge patch or an update that would change nothing is not sent ([`unchanged`]): if the object is in a live source
//! of the plugin's informers, which keeps all fields that the write touches, and if the cache has seen the plugin's own
//! writes to it ([`own`]). Nor is an apply, if the cache has what the same apply has made or found last. With
//! `writes: "seen"` in the manifest the event ends when the cache has seen its writes ([`seen`]), and so it does for a
//! reconciler: what had not been seen in time the next call of the key learns ([`behind`]). A key whose calls write to
//! one object again and again is spaced ([`spacing`]): the end of its event waits, and with it the next call. Direct
//! calls count like deferred ones.
//!
//! The queue is a state machine without a clock, tasks or I/O; the writer adds them.

mod behind;
mod buffer;
mod cached;
mod own;
mod queue;
mod result;
mod seen;
mod send;
mod spacing;
mod unchanged;
mod writer;

use std::time::Duration;

pub(crate) use self::buffer::{CallWrites, DeferredWrite, Target};
pub(crate) use self::cached::OwnCache;
pub(crate) use self::own::{OwnWrites, WriteInFlight};
pub use self::queue::WritesStatus;
pub(crate) use self::seen::Written;
use self::spacing::SPACING_WINDOW;
pub use self::spacing::WritingKey;
pub(crate) use self::writer::{Writes, commit, run};

/// What a successful call has left behind.
#[derive(Default)]
pub(crate) struct KubeEffects {
    /// What it has deferred.
    pub(crate) deferred: Vec<DeferredWrite>,
    /// The objects that its direct calls have changed.
    pub(crate) changed: Vec<Target>,
    /// What of these the cache has to see before the event ends.
    pub(crate) awaited: Vec<Written>,
}

/// Writes that one call may defer: 100. One more is `too-large`.
pub(crate) const CALL_WRITES_MAX: usize = 100;

/// Bytes of the writes that one call may defer: 16 MiB. More is `too-large`.
pub(crate) const CALL_WRITES_BYTES_MAX: usize = 16 << 20;

/// Deferred writes of one plugin that wait or are in flight: 1,000. Then its handler is not called until half is left.
pub(crate) const WRITES_WAITING_MAX: usize = 1_000;

/// Bytes of these writes: 16 MiB. Then its handler is not called until half is left.
pub(crate) const WRITES_WAITING_BYTES_MAX: usize = 16 << 20;

/// Writes that a plugin may make at once after a quiet time, above its rate: 100.
pub(crate) const WRITES_BURST: u32 = 100;

/// How long the writes of a plugin wait after one was refused because another replica acts: 1 s. They are dropped when
/// the plugin stands by.
pub(crate) const WRITES_REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// The end of a stop in which no write starts: 1 s. Writes in flight have this time to end.
pub(crate) const WRITES_LAST: Duration = Duration::from_secs(1);
