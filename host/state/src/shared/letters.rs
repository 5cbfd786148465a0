//! Dead letters as rows of shared state.

use std::sync::Arc;

use informant_cache::listener::DeadLetter;
use informant_object::Key;
use informant_spec::StoredContent;

use crate::letters::{decode, encode};

/// The last object of a delete that is stored in whole with its dead letter. Of a larger one the metadata is stored, or
/// nothing if that is larger, too: the delete is then delivered again without an object.
pub const LETTER_OBJECT_BYTES_MAX: usize = 16 << 10;

/// The value of the row of a dead letter. `content` is what may be stored of its object: of a Secret, its metadata.
#[must_use]
pub fn encode_letter(letter: &DeadLetter, content: StoredContent) -> Arc<[u8]> {
    let row = |content| encode(letter, &[], content, None);
    let without_object = || {
        let mut letter = letter.clone();
        let delete = letter.delete.as_mut();
        delete.into_iter().for_each(|delete| delete.last = None);
        encode(&letter, &[], StoredContent::Metadata, None)
    };
    let without = without_object();
    let fits = |row: &Vec<u8>| row.len() <= without.len() + LETTER_OBJECT_BYTES_MAX;
    let contents = [content, StoredContent::Metadata];
    let fitting = contents.into_iter().map(row).find(fits);
    fitting.unwrap_or(without).into()
}

/// The dead letter in a row; none if it cannot be read: its event is delivered again.
#[must_use]
pub fn decode_letter(key: &Key, row: &[u8]) -> Option<DeadLetter> {
    decode(key, row, &[], None).ok()
}
