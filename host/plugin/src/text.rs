//! Bounded texts: what a guest or an API server says is kept and shown only in part.

/// Bytes of an error that is kept, or that a guest receives: 4 KiB. It may echo what the guest passed.
const ERROR_BYTES_MAX: usize = 4 << 10;

/// The text of an error, cut at [`ERROR_BYTES_MAX`].
pub(crate) fn truncated(text: impl Into<String>) -> String {
    truncated_at(text.into(), ERROR_BYTES_MAX)
}

/// `text`, cut at `bytes_max`.
pub(crate) fn truncated_at(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
        text.push('…');
    }
    text
}
