//! Shared state: what plugins remember, pauses and dead letters, in Secrets, for replicas of one group.
//!
//! ```text
//! KeySpace: rows in memory, ends of events ─▶ SharedJournal ─request─▶ caller ─▶ API server
//!                    ends are reported ◀─ after the answer ◀─answer──┘
//! ```
//!
//! - **One journal** holds what has changed since the last checkpoint, of all plugins. A write of it is one group: it
//!   has the changes of exactly those calls whose ends are reported afterwards, and of earlier ones. One request is in
//!   flight at a time, and the journal is written at most once per [`SharedOptions::group_interval`].
//! - **Chunks** hold the rest. Above [`JOURNAL_BYTES_MAX`] the changes are folded into them, between writes of the
//!   journal ([`layout`]).
//! - **The epoch is the fence.** A new holder first writes the journal with the next epoch, by the version that it has
//!   read. From then on each write of the former holder is a conflict; it reads the journal and reports
//!   [`SharedStep::Lost`]. Only the journal decides that: a chunk that somebody else wrote makes a holder look there.
//! - **No outcome is guessed.** After a conflict, a time-out or another failure the Secret is read. If it has the bytes
//!   of the write, the write took effect; otherwise the same bytes are sent again.
//! - **Memory is the truth** while this process holds the state: what was deleted or edited meanwhile is written again
//!   in whole. At the start it is the Secrets: what is damaged or does not belong together is refused.
//!
//! No I/O, no clock, no randomness: the caller sends requests, and says what time it is.

mod copy;
mod error;
mod format;
mod journal;
mod layout;
mod letters;
mod limits;
mod metrics;
mod opening;
mod request;
mod running;
mod task;
#[cfg(test)]
mod tests;

pub use copy::{CopyError, export_file, import_file};
pub use error::SharedStateError;
pub use journal::{SharedJournal, SharedLost, SharedOptions, SharedStep};
pub use letters::{LETTER_OBJECT_BYTES_MAX, decode_letter, encode_letter};
pub use limits::{CHECK_INTERVAL, CHUNK_BYTES_MAX, JOURNAL_BYTES_MAX, RETRY_PAUSE_MAX, WRITE_BYTES_MAX};
pub use metrics::SharedMetrics;
pub use request::{
    SECRET_DATA_KEY, SECRET_GROUP_LABEL, SecretAnswer, SecretFailure, SecretRequest, SecretVerb, SharedPart,
};
