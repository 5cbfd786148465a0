//! What must outlive the process, in one embedded database: what each durable source held, what each handler had
//! acknowledged of it, and how new it was.
//!
//! ```text
//! informer loop ──begin, push, attach──▶ SourceState ──group──▶ recorder (a thread): 1. acknowledgements looked up in listeners
//!                                                                                     2. one transaction, on disk
//!                                                                                     3. handed on to listeners
//! ```
//!
//! What is written when, and why nothing is lost wherever the process is killed:
//!
//! - **Told only what is kept.** A change reaches listeners after the transaction that keeps it: the object's state,
//!   and for each handler that the key is *open*. So a handler that was told of an object is known to have been told,
//!   and of a delete its last state is kept until it is done with.
//! - **Closed only once acknowledged.** An open key is closed when its listener neither shows it, nor has it waiting,
//!   in flight or as a dead letter. That is looked up at the beginning of a group: written late, never early.
//! - **A handler that is shown all** has everything open, by one flag, until that is over.
//! - At the start the first list is compared with what was kept. What is gone is open as a delete, what differs is open
//!   as a state, for each handler; then
//!   [`ListenerHandle::attach_resumed`](informant_cache::ListenerHandle::attach_resumed).
//!
//! Nothing here is called by a guest or waits on the informer loop, and neither waits for the disk. What is waiting is
//! bounded ([`QUEUED_CHANGES_MAX`]): above it changes are dropped, counted, and the difference of two snapshots takes
//! their place. While the database fails, changes are handed on unkept, which is counted and said; what was missed is
//! made up for from the snapshot when it is well again. A handler that is shown everything again is shown it once that
//! is on the disk, so that the next process knows it is not done with anything. A database that does not answer is
//! waited for: nothing is told before what comes before it. Who waits for the beginning of a source says so after
//! [`OPEN_WAIT_SECONDS_MAX`].
//!
//! Every transaction is flushed to the disk before it counts (`fsync`). The recorder is a thread of its own because it
//! does nothing but wait for disks; it is no part of a simulation, and the only thing here that knows time passes.

mod catch_up;
mod file;
mod forgetting;
mod group;
mod hand_on;
mod handler;
mod metrics;
mod queue;
mod recorder;
mod row;
mod seal;
mod source;
mod state;
mod store;
#[cfg(test)]
mod tests;

pub use file::OpenError;
pub use handler::{OPEN_KEYS_ASKED_MAX, TOMBSTONES_MAX};
pub use metrics::StateMetrics;
pub use queue::{QUEUED_CHANGES_MAX, SourceState};
pub use recorder::{ACKNOWLEDGED_INTERVAL, COMMIT_INTERVAL, REOPEN_INTERVAL};
pub use row::Keep;
pub use seal::{KEY_BYTES, KeyFileError, Sealer};
pub use source::{OnStart, SourceIdentity, SourceOptions};
pub use state::{OPEN_WAIT_SECONDS_MAX, State, StateClosed};
