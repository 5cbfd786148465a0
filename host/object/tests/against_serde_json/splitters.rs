//! Splitters: lines and items do not depend on where the frames are cut.

use informant_object::frames::{
    Line, LineSplitter, ListError, ListHead, ListObject, ListPart, ListSplitter, TooLong, WatchEventType, WatchLine,
};
use informant_object::{Key, Object, Shape};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use crate::document::{Doc, Writer, object, style, value};

/// Cuts `bytes` into frames at these places.
fn frames<'b>(bytes: &'b [u8], cuts: &[prop::sample::Index]) -> Vec<&'b [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

fn cuts() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    prop_oneof![
        vec(any::<prop::sample::Index>(), 0..8),
        vec(any::<prop::sample::Index>(), 0..200)
    ]
}

/// A line or item, or the report of one that is too long.
pub(crate) type Piece = Result<Vec<u8>, TooLong>;

pub(crate) fn lines(stream: &[&[u8]], limit: usize) -> Vec<Piece> {
    let mut splitter = LineSplitter::new(limit);
    let mut found = Vec::new();
    let mut keep = |line: Line<'_>| {
        found.push(match line {
            Line::Json(line) => Ok(line.to_vec()),
            Line::TooLong(line) => Err(line),
        });
    };
    for frame in stream {
        let mut lines = splitter.feed(frame);
        while let Some(line) = lines.next_line() {
            keep(line);
        }
        assert!(splitter.carried_bytes() <= limit);
    }
    splitter.finish().into_iter().for_each(keep);
    found
}

pub(crate) fn list(body: &[&[u8]], limit: usize) -> (Vec<Piece>, Result<ListHead, ListError>) {
    let mut splitter = ListSplitter::new(limit);
    let mut found = Vec::new();
    for frame in body {
        splitter.push(frame.to_vec().into());
        while let Ok(Some(part)) = splitter.next_part() {
            found.push(match part {
                ListPart::Item(item) => Ok(item.to_vec()),
                ListPart::TooLong(item) => Err(item),
            });
        }
    }
    (found, splitter.finish())
}

/// A list's body: its members in any order, `items` of any length.
fn body() -> impl Strategy<Value = (String, Vec<Doc>)> {
    let metadata = prop_oneof![
        Just(Doc::Object(vec![
            ("resourceVersion".into(), Doc::Text("12".into())),
            ("continue".into(), Doc::Text("to\"ken".into()))
        ])),
        Just(Doc::Object(vec![
            ("remainingItemCount".into(), Doc::Literal("0")),
            ("selfLink".into(), Doc::Literal("null"))
        ])),
        Just(Doc::Literal("null")),
    ];
    let members = (
        prop::option::of(metadata),
        prop::option::of(Just("v1")),
        prop::option::of(Just("PodList")),
        value(),
    );
    (members, vec(object(), 0..5), style(), any::<prop::sample::Index>()).prop_map(
        |((metadata, api_version, kind, other), items, style, at)| {
            let mut members = vec![("other".to_owned(), other)];
            members.extend(metadata.map(|metadata| ("metadata".to_owned(), metadata)));
            members.extend(api_version.map(|text| ("apiVersion".to_owned(), Doc::Text(text.to_owned()))));
            members.extend(kind.map(|text| ("kind".to_owned(), Doc::Text(text.to_owned()))));
            members.insert(
                at.index(members.len() + 1),
                ("items".to_owned(), Doc::Array(items.clone())),
            );
            let mut writer = Writer::new(&style);
            writer.space();
            writer.value(&Doc::Object(members));
            writer.space();
            (writer.text, items)
        },
    )
}

proptest! {
    #[test]
    fn lines_are_the_same_wherever_frames_are_cut(
        texts in vec("[a-z{} ]{0,30}", 0..20), cuts in cuts(), ends in any::<bool>(), limit in prop_oneof![Just(10usize), Just(1000)],
    ) {
        let mut stream = texts.join("\n").into_bytes();
        if ends {
            stream.push(b'\n');
        }
        let expected = stream.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty() || line.len() > limit);
        let expected: Vec<_> = expected.map(|line| if line.len() > limit { None } else { Some(line.to_vec()) }).collect();
        let found: Vec<_> = lines(&frames(&stream, &cuts), limit).into_iter().map(Result::ok).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_watch_yields_its_objects_in_any_style_and_frames(objects in vec((object(), style()), 1..6), cuts in cuts()) {
        let mut stream = String::new();
        let mut expected = Vec::new();
        for (number, (doc, style)) in objects.iter().enumerate() {
            let mut object = Writer::new(&[0]);
            object.value(doc);
            expected.push(serde_json::from_str::<Value>(&object.text).expect("a document"));
            let mut envelope = vec![("type".to_owned(), Doc::Text("MODIFIED".into())), ("object".to_owned(), doc.clone())];
            if number % 3 == 1 {
                envelope.reverse();
            }
            if number % 3 == 2 {
                envelope.push(("more".to_owned(), Doc::Object(Vec::new())));
            }
            let mut line = Writer::new(style);
            line.value(&Doc::Object(envelope));
            stream.push_str(&line.text.replace('\n', " "));
            stream.push('\n');
        }
        let lines = lines(&frames(stream.as_bytes(), &cuts), 1 << 20);
        prop_assert_eq!(lines.len(), expected.len());
        for (line, expected) in lines.iter().zip(expected) {
            let line = line.as_ref().expect("short enough");
            let event = WatchLine::parse(line).map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(event.event_type, WatchEventType::Modified);
            match (event.object(&Shape::verbatim()), crate::model::head(&expected)) {
                (Ok(object), Some(_)) => prop_assert_eq!(serde_json::from_slice::<Value>(object.json()).expect("JSON"), expected),
                (Err(_), None) => {}
                (object, head) => prop_assert!(false, "{:?} {:?}", object, head),
            }
        }
    }

    #[test]
    fn a_list_yields_its_items_wherever_frames_are_cut((body, items) in body(), cuts in cuts()) {
        let whole: Value = serde_json::from_str(&body).expect("a document");
        let (found, head) = list(&frames(body.as_bytes(), &cuts), 1 << 20);
        prop_assert_eq!(found.len(), items.len());
        for (item, expected) in found.iter().zip(whole["items"].as_array().expect("items")) {
            let item = item.as_ref().expect("short enough");
            prop_assert_eq!(&serde_json::from_slice::<Value>(item).expect("an item"), expected);
        }
        let head = head.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(head.api_version, whole["apiVersion"].as_str().unwrap_or_default());
        prop_assert_eq!(head.kind, whole["kind"].as_str().unwrap_or_default());
        let metadata = &whole["metadata"];
        prop_assert_eq!(head.version.as_str(), metadata["resourceVersion"].as_str().unwrap_or_default());
        prop_assert_eq!(head.continue_token, metadata["continue"].as_str().unwrap_or_default());
        prop_assert_eq!(head.remaining_item_count, metadata["remainingItemCount"].as_u64());
    }

    #[test]
    fn one_scan_reads_the_same_items_as_one_by_one((body, _) in body(), cuts in cuts(), limit in prop_oneof![Just(60usize), Just(1 << 20)]) {
        let shape = Shape::of("v1", "Pod");
        let frames = frames(body.as_bytes(), &cuts);
        // Depends only on the name, so that it does not matter how often it is called.
        let wanted = |name: &str| name.len().is_multiple_of(2);
        let (items, head) = list(&frames, limit);
        let expected: Vec<_> = items.into_iter().map(|item| match item {
            Err(too_long) => format!("{too_long:?}"),
            Ok(item) => match Object::parse(&item, &shape) {
                Ok(object) if wanted(object.name()) => object.text().to_owned(),
                Ok(_) => "unwanted".to_owned(),
                Err(error) => error.to_string(),
            },
        }).collect();
        let mut splitter = ListSplitter::new(limit);
        let mut found = Vec::new();
        for frame in &frames {
            splitter.push(frame.to_vec().into());
            while let Ok(Some(object)) = splitter.next_object(&shape, |head| wanted(&head.name)) {
                found.push(match object {
                    ListObject::Object(object) => object.text().to_owned(),
                    ListObject::Unwanted => "unwanted".to_owned(),
                    ListObject::Invalid { error, .. } => error.to_string(),
                    ListObject::TooLong(too_long) => format!("{too_long:?}"),
                });
            }
        }
        prop_assert_eq!(found, expected);
        prop_assert_eq!(splitter.finish(), head);
    }

    #[test]
    fn a_truncated_list_is_refused_at_its_end((body, _) in body(), at in any::<prop::sample::Index>(), cuts in cuts()) {
        let body = body.trim_end();
        let part = &body.as_bytes()[..at.index(body.len())];
        let (_, head) = list(&frames(part, &cuts), 1 << 20);
        prop_assert!(head.is_err());
    }
}

#[test]
fn a_too_long_line_is_reported_once_with_its_key() {
    let pod = |name: &str, bytes: usize| {
        let filler = "x".repeat(bytes);
        format!(
            r#"{{"type":"MODIFIED","object":{{"kind":"Pod","metadata":{{"name":"{name}","namespace":"default"}},"spec":"{filler}"}}}}"#
        ) + "\n"
    };
    let stream = [pod("a", 10), pod("big", 5000), pod("b", 10)].concat();
    for frame_bytes in [1, 64, 1000, 100_000] {
        let frames: Vec<&[u8]> = stream.as_bytes().chunks(frame_bytes).collect();
        let found = lines(&frames, 300);
        assert_eq!(found.len(), 3);
        let too_long = found[1].as_ref().expect_err("too long");
        assert_eq!(
            too_long.head.as_ref().map(|head| head.key.clone()),
            Some(Key::new("default", "big")),
            "frames of {frame_bytes}"
        );
        assert_eq!(too_long.event_type, Some(WatchEventType::Modified));
        for (line, name) in [(&found[0], "a"), (&found[2], "b")] {
            let line = line.as_ref().expect("short");
            let object = WatchLine::parse(line)
                .expect("an event")
                .object(&Shape::of("v1", "Pod"))
                .expect("a pod");
            assert_eq!(object.name(), name);
        }
    }
}

#[test]
fn a_too_long_item_is_reported_once_with_its_key() {
    let filler = "x".repeat(5000);
    let deep = "[".repeat(5_000);
    let big = format!(
        r#"{{"metadata":{{"name":"big","namespace":"default"}},"spec":"{filler}","more":{deep}{}}}"#,
        deep.replace('[', "]")
    );
    let body = format!(
        r#"{{"kind":"PodList","items":[{{"metadata":{{"name":"a"}}}},{big},{{"metadata":{{"name":"b"}}}}],"metadata":{{"resourceVersion":"7"}}}}"#
    );
    for frame_bytes in [1, 64, 1000, 100_000] {
        let frames: Vec<&[u8]> = body.as_bytes().chunks(frame_bytes).collect();
        let (found, head) = list(&frames, 300);
        let keys: Vec<_> = found
            .iter()
            .map(|item| match item {
                Ok(item) => Object::parse(item, &Shape::of("v1", "Pod"))
                    .expect("a pod")
                    .name()
                    .to_owned(),
                Err(too_long) => format!("too long: {:?}", too_long.head.as_ref().map(|head| &head.key)),
            })
            .collect();
        assert_eq!(keys, ["a", r#"too long: Some("default/big")"#, "b"]);
        assert_eq!(head.expect("a list").version.as_str(), "7");
    }
}

#[test]
fn a_deep_item_is_an_item_like_any_other() {
    let shape = Shape::of("v1", "Pod");
    let names = |body: &str, frame_bytes: usize| {
        let mut splitter = ListSplitter::new(16 << 20);
        let mut names = Vec::new();
        for frame in body.as_bytes().chunks(frame_bytes) {
            splitter.push(frame.to_vec().into());
            while let Some(item) = splitter.next_object(&shape, |_| true).expect("a list") {
                let ListObject::Object(object) = item else {
                    panic!("{item:?}")
                };
                names.push(object.name().to_owned());
            }
        }
        splitter.finish().expect("a whole list");
        names
    };
    for depth in [125, 126, 127, 128, 129, 5_000] {
        let deep = "[{\"a\":".repeat(depth / 2) + "1" + &"}]".repeat(depth / 2);
        let body = format!(
            r#"{{"items":[{{"metadata":{{"name":"a"}}}},{{"metadata":{{"name":"deep"}},"data":{deep}}},{{"metadata":{{"name":"b"}}}}]}}"#
        );
        for frame_bytes in [1, 7, 64, 1_000, 1 << 20] {
            assert_eq!(
                names(&body, frame_bytes),
                ["a", "deep", "b"],
                "{depth} levels, frames of {frame_bytes}"
            );
        }
    }
}

#[test]
fn a_key_is_not_guessed_from_an_incomplete_beginning() {
    let line = format!(
        r#"{{"type":"ADDED","object":{{"metadata":{{"name":"a","annotations":{{"x":"{}"#,
        "x".repeat(500)
    );
    let found = lines(&[line.as_bytes()], 100);
    let too_long = found[0].as_ref().expect_err("too long");
    assert_eq!(
        (too_long.head.clone(), too_long.event_type),
        (None, Some(WatchEventType::Added))
    );
}

#[test]
fn responses_that_are_not_lists_are_described() {
    let answer = |body: &str| {
        let (items, head) = list(&[body.as_bytes()], 1000);
        format!("{} items, {}", items.len(), head.expect_err("no list"))
    };
    insta::assert_snapshot!(answer("<!DOCTYPE html>\n<html><head><title>Sign in</title>"), @r#"0 items, the server responded to a list with HTML, not JSON: "<!DOCTYPE html> <html><head><title>Sign in</title>"; is a proxy or a login page in between?"#);
    insta::assert_snapshot!(answer("upstream connect error"), @r#"0 items, the server responded to a list with something that is not a JSON object: "upstream connect error""#);
    insta::assert_snapshot!(answer(r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[]}"#), @"0 items, the server responded with a Table instead of a list; the request must accept application/json without `as=Table`");
    insta::assert_snapshot!(answer(r#"{"kind":"Status","status":"Failure","message":"no","code":500}"#), @r#"0 items, the server responded with "Status" instead of a list: it has no items; it begins "{\"kind\":\"Status\",\"status\":\"Failure\",\"message\":\"no\",\"code\":500}""#);
    insta::assert_snapshot!(answer(r#"{"kind":"PodList","items":[1]}"#), @"0 items, byte 27 of the list: items must be one array of objects");
    insta::assert_snapshot!(answer(r#"{"kind":"PodList","items":{}}"#), @"0 items, byte 18 of the list: items must be one array of objects");
    insta::assert_snapshot!(answer(r#"{"items":[],"items":[]}"#), @"0 items, byte 12 of the list: items must be one array of objects");
    insta::assert_snapshot!(answer(r#"{"items":[{"a":[}]}]}"#), @"0 items, the list is malformed: byte 16: expected `]`, found `}`");
    insta::assert_snapshot!(answer(r#"{"items":[{} {}]}"#), @"1 items, the list is malformed: byte 13: expected `,` or `]`, found `{`");
    insta::assert_snapshot!(answer(r#"{"items":[{},]}"#), @"1 items, byte 13 of the list: items must be one array of objects");
    insta::assert_snapshot!(answer(r#"{"items":[]} {}"#), @"0 items, the list is malformed: byte 13: expected nothing after the object, found `{`");
    insta::assert_snapshot!(answer(r#"{"metadata":{"resourceVersion":7},"items":[]}"#), @"0 items, byte 1 of the list: invalid type: integer `7`, expected a string at line 1 column 20");
    insta::assert_snapshot!(answer(r#"{"items":[{"#), @"0 items, the list was cut short: the body ended after 11 bytes");
    insta::assert_snapshot!(answer(""), @"0 items, the list was cut short: the body ended after 0 bytes");
}

#[test]
fn null_items_are_an_empty_list_as_go_writes_it() {
    let (items, head) = list(
        &[br#"{"kind":"PodList","items":null,"metadata":{"resourceVersion":"3"}}"#],
        1000,
    );
    assert!(items.is_empty());
    assert_eq!(head.expect("a list").version.as_str(), "3");
}

#[test]
fn lines_that_are_not_watch_events_are_described() {
    let line = |line: &str| WatchLine::parse(line.as_bytes()).expect_err("no event").to_string();
    insta::assert_snapshot!(line("<html>503 Service Unavailable</html>"), @r#"the server responded to a watch with HTML, not JSON: "<html>503 Service Unavailable</html>"; is a proxy or a login page in between?"#);
    insta::assert_snapshot!(line("proxy error"), @r#"not a watch event: byte 0: expected an object, found `p`; the line begins "proxy error""#);
    insta::assert_snapshot!(line(r#"{"kind":"Status","code":410}"#), @r#"not a watch event: it has no "type"; the line begins "{\"kind\":\"Status\",\"code\":410}""#);
    insta::assert_snapshot!(line(r#"{"type":"ADDED"}"#), @r#"not a watch event: it has no "object"; the line begins "{\"type\":\"ADDED\"}""#);
    insta::assert_snapshot!(line(r#"{"type":"MOVED","object":{}}"#), @r#"unknown type of watch event: "MOVED"; known are ADDED, MODIFIED, DELETED, BOOKMARK, ERROR"#);
    insta::assert_snapshot!(line(r#"{"type":"ADDED","object":{"a":"#), @r#"not a watch event: the JSON ends after 30 bytes within an object or array; the sender cut it short; the line begins "{\"type\":\"ADDED\",\"object\":{\"a\":""#);
}
