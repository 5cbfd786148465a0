//! What replaces a value of which only changes matter: a hash of its text.

use sha2::{Digest, Sha256};

/// How many bytes of the hash are kept: enough that no two values of one object ever have the same.
const HASH_BYTES: usize = 16;

/// The length of a hash in hexadecimal.
const HASH_CHARS: usize = 2 * HASH_BYTES;

const BEGINNING: &str = "\"sha256:";

/// The length of a digest as JSON: `"sha256:`, hexadecimal digits, `"`.
pub(crate) const DIGEST_BYTES: usize = BEGINNING.len() + HASH_CHARS + 1;

/// Appends the digest of the JSON text `value`, a JSON string of [`DIGEST_BYTES`].
pub(crate) fn push_digest(value: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push_str(BEGINNING);
    for byte in &Sha256::digest(value)[..HASH_BYTES] {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    out.push('"');
}
