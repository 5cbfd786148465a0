//! JSON documents become values, unless they are nested deeper than the stack holds.

use rquickjs::{Ctx, Result, Value};

use super::throw;

/// Levels of a document that a script reads: 1,000. QuickJS parses by recursion, and its stack holds some 2,500.
const LEVELS_MAX: usize = 1_000;

/// The code of the error for a document with more levels. It follows from the object, so it is permanent.
const TOO_DEEP: &str = "too-deep";

/// The value of the JSON document of an object.
pub(crate) fn parse<'js>(ctx: &Ctx<'js>, document: Vec<u8>) -> Result<Value<'js>> {
    parse_or(ctx, document, "; name the fields that you need in manifest.events")
}

/// The value of any JSON document, for the prelude.
pub(super) fn parse_text<'js>(ctx: Ctx<'js>, document: String) -> Result<Value<'js>> {
    parse_or(&ctx, document.into_bytes(), "")
}

fn parse_or<'js>(ctx: &Ctx<'js>, document: Vec<u8>, remedy: &str) -> Result<Value<'js>> {
    if is_deeper(&document, LEVELS_MAX) {
        let message = format!("the document has more than {LEVELS_MAX} levels{remedy}");
        return Err(throw(ctx, TOO_DEEP, &message, |_| Ok(())));
    }
    ctx.json_parse(document)
}

/// Whether the document has more than `levels` levels.
fn is_deeper(document: &[u8], levels: usize) -> bool {
    // Each level has two brackets. Most documents need no look, or only a fast one.
    let is_bracket = |byte: &&u8| **byte | 0x20 == b'{';
    if document.len() <= 2 * levels || document.iter().filter(is_bracket).count() <= levels {
        return false;
    }
    let (mut depth, mut is_text, mut bytes) = (0_usize, false, document.iter());
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if is_text => drop(bytes.next()),
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => depth += 1,
            b'}' | b']' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > levels {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> String {
        format!("{}1{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[test]
    fn levels_of_a_document_are_counted() {
        assert!(!is_deeper(nested(10).as_bytes(), 10));
        assert!(is_deeper(nested(11).as_bytes(), 10));
        assert!(is_deeper(format!("{{\"a\": {}}}", nested(10)).as_bytes(), 10));
    }

    #[test]
    fn brackets_in_texts_and_in_a_row_are_no_levels() {
        let text = format!("{{\"a\": \"\\\"{}\"}}", "[".repeat(30));
        assert!(!is_deeper(text.as_bytes(), 10));
        let row = format!("[{}[]]", "[],".repeat(30));
        assert!(!is_deeper(row.as_bytes(), 10));
    }
}
