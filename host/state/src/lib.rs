//! Persists what must outlive the process, in one embedded database: the objects of each durable source, what each
//! handler has acknowledged, the high water mark of the resource version, and what plugins remember ([`KeySpace`]).
//!
//! ```text
//! informer loop ─begin, push, attach─▶ SourceJournal ─batch─▶ recorder thread: 1. read acknowledgements from listeners
//!                                                                              2. one transaction, flushed to disk
//!                                                                              3. deliver to listeners
//! ```
//!
//! What is written, when, and why no kill of the process loses anything:
//!
//! - **Persisted before delivered.** A change reaches listeners after the transaction that persists the object's state
//!   and, for each handler, that the key is *open*. So every delivered object is known to be delivered, and the last
//!   state of a deleted object is kept until its delete is acknowledged.
//! - **Closed only after the acknowledgement.** An open key is closed when its listener does not have it in a replay,
//!   waiting, in flight or as a dead letter. Listeners are checked at the beginning of a batch: written late, never
//!   early.
//! - **Every incarnation counts.** Of an open key each incarnation is stored that was deleted and whose delete was not
//!   acknowledged: what was handed out decides which ends have to be reported, and acknowledgements are written late.
//!   What the listener merged away is forgotten. At most [`INCARNATIONS_MAX`] of a key are stored.
//! - **A replay opens every key** of its handler, by one flag, until the replay is over.
//! - At start the first list is compared with the database. Objects that are gone are open as deletes, objects that
//!   differ are open as changes, for each handler; then `Feed::attach_resumed`.
//!
//! No guest calls into this crate. It does not wait for the informer loop, and neither waits for the disk. Pending
//! changes are bounded by [`QUEUED_CHANGES_MAX`]: above it the difference of two snapshots takes their place, which
//! is counted. While the database fails, changes are delivered without being persisted, which is counted and logged;
//! what was missed is persisted from the snapshot once the database recovers. A replay starts only once it is persisted
//! that the handler receives one, so that the next process knows that nothing is acknowledged. If the database hangs,
//! delivery waits, to keep its order. Opening a source that waits for the disk is reported after
//! [`OPEN_WAIT_SECONDS_MAX`].
//!
//! In Secrets instead of the file: [`SharedJournal`] holds what plugins remember, and what else the next holder of a
//! lease must know. It does not use the recorder: its caller sends its requests.
//!
//! Every transaction is flushed to the disk (`fsync`) before it counts. The recorder is a thread of its own because it
//! does nothing but wait for the disk, and it is the only part of this crate that reads the clock. The simulation runs
//! the same recorder without the thread ([`stepped`]).
//!
//! Its modules, lowest layer first; none imports from a layer above its own:
//!
//! ```layers
//! cipher metrics row
//! schema
//! tables journal
//! file handler_state
//! table_store
//! source key_value
//! reconcile letters requeues
//! batch command shared
//! deliver
//! recorder
//! database stepped
//! ```

mod batch;
mod cipher;
mod command;
mod database;
mod deliver;
mod file;
mod handler_state;
mod journal;
mod key_value;
mod letters;
mod metrics;
mod reconcile;
mod recorder;
mod requeues;
mod row;
mod schema;
mod shared;
mod source;
pub mod stepped;
mod table_store;
mod tables;
#[cfg(test)]
mod tests;

pub use cipher::{Cipher, KEY_BYTES};
pub use command::{OpenKeysError, StateClosed};
pub use database::{OPEN_WAIT_SECONDS_MAX, StateDatabase};
pub use file::OpenError;
pub use handler_state::{INCARNATIONS_MAX, OPEN_KEYS_CHECKED_MAX, OnStart, TOMBSTONES_MAX};
pub use journal::{QUEUED_CHANGES_MAX, SourceJournal};
pub use key_value::{EventEnd, HeldChanges, KeyChange, KeySpace};
pub use metrics::StateMetrics;
pub use recorder::{ACKNOWLEDGED_INTERVAL, COMMIT_INTERVAL, REOPEN_INTERVAL};
pub use row::{Row, RowKey, RowKind};
pub use shared::{
    CHECK_INTERVAL, CHUNK_BYTES_MAX, CopyError, JOURNAL_BYTES_MAX, LETTER_OBJECT_BYTES_MAX, RETRY_PAUSE_MAX,
    SECRET_DATA_KEY, SECRET_GROUP_LABEL, SecretAnswer, SecretFailure, SecretRequest, SecretVerb, SharedJournal,
    SharedLost, SharedMetrics, SharedOptions, SharedPart, SharedStateError, SharedStep, WRITE_BYTES_MAX, decode_letter,
    encode_letter, export_file, import_file,
};
pub use source::{SourceIdentity, SourceOptions};
