//! The manifest of an invalid script: a JSON document with the reason.

#![cfg_attr(
    not(target_family = "wasm"),
    allow(dead_code, reason = "off WebAssembly this is only tested")
)]

use std::fmt::Write as _;

/// `{"refused": reason}`.
pub(crate) fn manifest(reason: &str) -> String {
    let mut json = String::from(r#"{"refused":""#);
    for character in reason.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            control if control < ' ' => {
                // Writing to a String does not fail.
                let _ = write!(json, "\\u{:04x}", u32::from(control));
            }
            other => json.push(other),
        }
    }
    json.push_str(r#""}"#);
    json
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_reason_is_escaped_as_json() {
        assert_eq!(
            super::manifest("a.js:1:2: \"x\\y\"\nno"),
            r#"{"refused":"a.js:1:2: \"x\\y\"\u000ano"}"#
        );
    }
}
