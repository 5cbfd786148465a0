//! Objects as YAML, in kubectl's manner: keys sorted, lists not set in, long lines not folded.

use std::io::{self, Write};

use serde_json::Value;
use serde_saphyr::SerializerOptions;

/// A document of its own.
pub(super) fn document(out: &mut impl Write, object: &Value) -> io::Result<()> {
    out.write_all(text(object)?.as_bytes())
}

/// An item of a list that stands in the first column.
pub(super) fn item(out: &mut impl Write, object: &Value) -> io::Result<()> {
    for (number, line) in text(object)?.lines().enumerate() {
        match (number, line) {
            (0, line) => writeln!(out, "- {line}")?,
            // Of a text over several lines.
            (_, "") => writeln!(out)?,
            (_, line) => writeln!(out, "  {line}")?,
        }
    }
    Ok(())
}

fn text(object: &Value) -> io::Result<String> {
    let options: SerializerOptions = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    serde_saphyr::to_string_with_options(object, options).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_printed_reads_back_as_it_was() {
        let object = json!({
            "data": {
                "bool": "yes", "number": "1e3", "nothing": "null", "empty": "", "colon": "a: b", "dash": "- a", "hash": "a # b",
                "script": "#!/bin/sh\n  indented\n\nlast\n", "tab": "\ta", "trailing": "a \n", "long": "word ".repeat(60), "ü": "ß",
                "leading": "  a\n b\n", "star": "*a", "and": "&a", "at": "@a", "date": "2026-01-01", "octal": "0777", "blank": " ",
            },
            "list": [[], {}, null, 1.5, -3, true, ["a", ["b"]], { "a": [{ "b": 1, "c": [2] }] }],
        });
        let mut printed = b"items:\n".to_vec();
        item(&mut printed, &object).unwrap();
        item(&mut printed, &json!({ "a": 1 })).unwrap();
        let read: Value = serde_saphyr::from_str(std::str::from_utf8(&printed).unwrap()).unwrap();
        assert_eq!(
            read,
            json!({ "items": [object, { "a": 1 }] }),
            "{}",
            String::from_utf8_lossy(&printed)
        );
    }
}
