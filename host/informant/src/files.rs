//! Files that may be anything, on file systems that may never answer.
//!
//! ```text
//! path ──▶ Turn: one call for a file at a time ──▶ read_regular_file: neither a pipe nor a device, and not too large
//! ```
//!
//! A network file system whose server is gone does not answer, and nothing can interrupt a call to it. A call waits on
//! a blocking thread until it returns; a file that hangs takes one thread, however often it is tried, and all files
//! together have at most `FILE_THREADS_MAX`. Everything that reads files while the daemon runs goes through here.

mod content;
mod regular;
mod turn;

pub(crate) use content::read_content;
pub(crate) use regular::{ReadFileError, read_regular_file};
pub(crate) use turn::{FILE_READ_MAX, NoAnswer, Turn};
