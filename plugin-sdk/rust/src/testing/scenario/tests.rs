use serde_json::json;

use super::expect::{fits, kv_difference};
use super::yaml::Node;

fn read(text: &str) -> Node {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Node::read(file.path()).unwrap()
}

#[test]
fn types_are_those_of_the_core_schema() {
    let text =
        "[08, 010, 0x10, 0o17, -3, +3, 1e3, .5, True, FALSE, Null, ~, yes, 1_0, 12:30, 2026-01-01, .inf, '1', !!str 2]";
    let expected = json!([
        8,
        10,
        16,
        15,
        -3,
        3,
        1000.0,
        0.5,
        true,
        false,
        null,
        null,
        "yes",
        "1_0",
        "12:30",
        "2026-01-01",
        ".inf",
        "1",
        "2",
    ]);
    assert_eq!(read(text).value, expected);
    assert_eq!(read("{ 08: &a [1], b: *a }").value, json!({ "08": [1], "b": [1] }));
}

#[test]
fn durations_are_those_of_config_toml() {
    for (text, ms) in [
        ("0s", 0),
        ("500ms", 500),
        ("1m 30s", 90_000),
        ("1m30s", 90_000),
        ("1d", 86_400_000),
    ] {
        assert_eq!(read(text).duration().unwrap().as_millis(), ms, "{text}");
    }
    for wrong in ["''", "5", "'5'", "1x", "-1s", "'1,5s'", "1H", "[]"] {
        let message = read(wrong).duration().unwrap_err();
        assert!(
            message.ends_with("is not a duration: write it as 30s or 5m"),
            "{message}"
        );
    }
}

#[test]
fn asterisks_stand_for_any_text() {
    for (pattern, text, expected) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("a*", "ab", true),
        ("*b", "ab", true),
        ("*", "", true),
        ("a*c*e", "abcde", true),
        ("a*a", "a", false),
        ("a\\*", "a*", true),
        ("a\\*", "ab", false),
        ("*answered 503", "hooks.example answered 503", true),
    ] {
        assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
    }
}

#[test]
fn a_value_of_kv_is_a_text_or_json() {
    let difference = |expected, found: &[u8]| kv_difference(&expected, Some(found));
    assert_eq!(difference(json!("web/a"), b"web/a"), None);
    assert_eq!(difference(json!("web/a"), b"\"web/a\""), None);
    assert_eq!(difference(json!({ "a": 1 }), b"{\"a\":1.0,\"b\":2}"), None);
    assert_eq!(
        difference(json!("b"), b"web/a").unwrap(),
        "expected \"b\", found \"web/a\""
    );
    assert_eq!(
        difference(json!({ "a": 1 }), b"\xff").unwrap(),
        "expected {\"a\":1}, found \"\u{fffd}\""
    );
    assert_eq!(kv_difference(&json!(null), None), None);
}
