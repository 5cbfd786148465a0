//! The reflector against the embedded API server, and against answers that no API server should give.

mod alive;
mod lists;
mod odd_answers;
mod watch_lists;
mod watches;
