use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::*;

/// What kinds of fields plugins' structs have.
#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
struct Pod {
    kind: String,
    node: Option<String>,
    ready: bool,
    restart_count: u32,
    offset: i64,
    share: f64,
    phase: Option<Phase>,
    labels: BTreeMap<String, String>,
    ports: Vec<Port>,
    pair: Option<(u8, String)>,
    nested: Option<Box<Pod>>,
    by_number: BTreeMap<u16, Name>,
    other: Option<Value>,
    nothing: (),
    sign: Option<char>,
    port: Option<PortOrName>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Port {
    name: Name,
    port: u16,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Name(String);

#[derive(Debug, Deserialize, PartialEq)]
enum Phase {
    Running,
    Failed { code: i32 },
    Unknown(String),
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(untagged)]
enum PortOrName {
    Port(u16),
    Name(String),
}

#[derive(Deserialize)]
struct Kept {
    spec: Box<RawValue>,
}

/// Where this reader makes something of a text, serde_json makes the same of it.
fn check<T: DeserializeOwned + PartialEq + std::fmt::Debug>(text: &str) {
    if let Ok(value) = from_str::<T>(text) {
        let other: T = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(value, other, "{text}");
    }
}

fn fits<T: DeserializeOwned>(text: &str) -> bool {
    from_str::<T>(text).is_ok()
}

fn any_text() -> impl Strategy<Value = String> {
    let sign = prop_oneof![
        8 => proptest::char::range('a', 'z'),
        1 => any::<char>(),
        1 => prop::sample::select(&['"', '\\', '\n', '\u{7f}', 'é', '\u{1f600}'][..]),
    ];
    prop::collection::vec(sign, 0..24).prop_map(String::from_iter)
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1000i64..1000).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    let name = prop_oneof![
        prop::sample::select(
            &[
                "kind",
                "node",
                "ready",
                "restartCount",
                "offset",
                "share",
                "phase",
                "labels",
                "ports",
                "nested",
                "name",
                "port"
            ][..]
        )
        .prop_map(str::to_owned),
        any_text(),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..6).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn all_json_is_read_as_serde_json_reads_it(value in any_json(), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let text = text.expect("JSON");
        prop_assert_eq!(from_str::<Value>(&text).expect("it fits"), serde_json::from_str::<Value>(&text).expect("JSON"));
        check::<Pod>(&text);
        prop_assert!(fits::<de::IgnoredAny>(&text));
    }

    #[test]
    fn nothing_is_made_of_what_is_malformed(
        value in any_json(),
        at in any::<prop::sample::Index>(),
        sign in prop::sample::select(&["", "{", "}", "[", "]", "\"", "\\", ",", ":", "0", "-", ".", "e", "t", "\u{1}", " "][..]),
    ) {
        let mut text = value.to_string();
        let at = at.index(text.len());
        prop_assume!(text.is_char_boundary(at) && text.is_char_boundary(at + 1));
        text.replace_range(at..=at, sign);
        check::<Value>(&text);
        check::<Pod>(&text);
        let is_json = serde_json::from_str::<de::IgnoredAny>(&text).is_ok();
        prop_assert!(is_json || !fits::<de::IgnoredAny>(&text), "{}", text);
    }
}

#[test]
fn a_pod_with_all_kinds_of_fields_is_read() {
    let text = r#" { "kind":"Pod","node" : null,"ready":true,"restartCount":7,"offset":-3,"share":0.25,"phase":{"Failed":{"code":-1}},
        "labels":{"app":"shop","a\u0062c":"d\"e","":""},"ports":[{"name":"http","port":80},["dns",53]],"pair":[1,"x"],
        "nested":{"phase":"Running","share":3,"ignored":[{"a":[1.5e3,-0,true,false,null,"\\"]},{}],"other":[1,2,{"x":18446744073709551615}]},
        "byNumber":{"1":"one"},"nothing":null,"sign":"é","port":"http" } "#;
    assert!(!fits::<Pod>(text), "keys that are numbers are left to serde_json");
    let text = text.replace(r#""byNumber":{"1":"one"},"#, "");
    check::<Pod>(&text);
    assert!(fits::<Pod>(&text));
}

#[test]
fn text_is_kept_where_serde_json_keeps_it() {
    let text = r#"{"name":1,"spec": {"a": [1, 2]} }"#;
    let kept: Kept = from_str(text).expect("it fits");
    assert_eq!(kept.spec.get(), r#"{"a": [1, 2]}"#);
}

#[test]
fn nesting_is_as_deep_as_serde_json_allows() {
    for (depth, fit) in [(127, true), (128, false)] {
        let text = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(fits::<Value>(&text), fit);
        assert_eq!(serde_json::from_str::<Value>(&text).is_ok(), fit);
        assert_eq!(fits::<de::IgnoredAny>(&text), fit);
    }
}

#[test]
fn numbers_at_their_limits_are_what_they_are_to_serde_json() {
    for text in [
        "0",
        "-0",
        "00",
        "-",
        "-01",
        "1.",
        ".5",
        "1e5",
        "1E+2",
        "1.5",
        "999999999999999999",
        "1000000000000000000",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "1e400",
        "+1",
        "1 2",
    ] {
        let (quick, other) = (from_str::<Value>(text).ok(), serde_json::from_str::<Value>(text).ok());
        assert_eq!(quick, other, "{text}");
        check::<f64>(text);
        check::<i8>(text);
        check::<f32>(text);
        check::<u128>(text);
    }
}
