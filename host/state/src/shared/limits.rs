//! The limits of shared state.

use std::time::Duration;

/// Above this, the changes in the journal are folded into chunks. A busy group writes the journal five times a second:
/// that is 1.3 MB/s.
pub const JOURNAL_BYTES_MAX: usize = 256 << 10;

/// What one write may have. A Secret may have 1 MiB; the head of the journal takes less than 16 KiB. A plugin whose
/// changes do not fit waits for a fold; if they do not fit into an empty journal, they are written in parts, and the
/// ends of their events come with the last one.
pub const WRITE_BYTES_MAX: usize = (1 << 20) - (16 << 10);

/// Rows in one chunk. The largest row is a value of 256 KiB, so chunks are half full at least, but one.
pub const CHUNK_BYTES_MAX: usize = 512 << 10;

/// The longest pause before a failed request is repeated. There is no last attempt: the lease decides how long this
/// replica may try.
pub const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);

/// How often the Secrets are compared with memory while nothing is written: one in turn. One that was deleted or edited
/// is written again.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// The sizes at which the state is folded and split; smaller in tests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) journal_bytes_max: usize,
    pub(super) write_bytes_max: usize,
    pub(super) chunk_bytes_max: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            journal_bytes_max: JOURNAL_BYTES_MAX,
            write_bytes_max: WRITE_BYTES_MAX,
            chunk_bytes_max: CHUNK_BYTES_MAX,
        }
    }
}
