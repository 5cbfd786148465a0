//! The corpus in `corpus/`: what API servers send, rare cases, and what must be refused.
//!
//! Add a document that was once misread there, not here.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use informant_object::{Object, Pointer, Projection, Shape, head};
use serde_json::Value;

use crate::model;
use crate::objects::{check_object, check_pointers, check_projection};
use crate::splitters::{lines, list};

/// The files of one folder of the corpus, by name.
fn files(folder: &str) -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(folder);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("the corpus is next to the crate's sources")
        .map(|entry| entry.expect("readable").path())
        .map(|path| {
            (
                path.file_name().expect("a file").to_string_lossy().into_owned(),
                fs::read(&path).expect("readable"),
            )
        })
        .collect();
    files.sort();
    files
}

fn pointers(texts: &[&str]) -> Vec<Pointer> {
    texts
        .iter()
        .map(|text| Pointer::parse(text).expect("a pointer"))
        .collect()
}

fn shapes() -> [Shape; 4] {
    let drop = [
        "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
        "/metadata/labels/app",
        "/spec/containers/*/env",
        "/spec/volumes",
        "/status/conditions/1",
        "/data/*",
        "/items",
    ];
    [
        Shape::verbatim(),
        Shape::of("v1", "Pod"),
        Shape::new("v1", "Pod", pointers(&drop), false).expect("droppable"),
        Shape::new("v1", "Pod", pointers(&["/spec", "/*/annotations", "/*/*/*/name"]), true).expect("droppable"),
    ]
}

#[test]
fn accepted_documents_are_read_as_serde_json_reads_them() {
    let asked = [
        "/metadata/labels/app",
        "/metadata/labels/*",
        "/spec/nodeName",
        "/spec/containers/*/image",
        "/spec/containers/0/image",
        "/status/containerStatuses/*/restartCount",
        "/status/containerStatuses/*/lastState/terminated/reason",
        "/data/.key~1with~0odd*characters",
        "/*/name",
        "/kind",
        "/metadata/ownerReferences/*/uid",
        "/spec/ratio",
        "/*/*",
        "/absent/*/at/all",
    ];
    let asked = pointers(&asked);
    for (name, bytes) in files("accepted") {
        let text = std::str::from_utf8(&bytes).expect("UTF-8");
        for shape in shapes() {
            check_object(text, &shape, false).unwrap_or_else(|error| panic!("{name}: {error}"));
            let object = Object::parse(&bytes, &shape).unwrap_or_else(|error| panic!("{name}: {error}"));
            check_pointers(&object, &asked).unwrap_or_else(|error| panic!("{name}: {error}"));
            for some in asked.windows(3) {
                check_projection(&object, some).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
        }
    }
}

#[test]
fn refused_documents_have_an_exact_error() {
    let mut report = String::new();
    for (name, bytes) in files("refused") {
        let by_the_model = serde_json::from_slice::<Value>(&bytes)
            .ok()
            .and_then(|value| model::head(&value));
        assert_eq!(by_the_model, None, "{name}");
        let error = Object::parse(&bytes, &Shape::of("v1", "Pod")).expect_err(&name);
        writeln!(report, "{}: {error}", name.trim_end_matches(".json")).expect("a String takes it");
    }
    insta::assert_snapshot!(report, @r#"
    array: byte 0: expected an object, found `[`
    backslash-outside: byte 37: expected a value, `,` or a bracket, found `\`
    bad-escape-in-name: byte 21: metadata.name holds an escape or a control character that JSON does not allow
    blank: there is no JSON, only 3 bytes of white space; the sender sent nothing
    boolean-kind: byte 8: kind must be a string, found `t`
    bracket-too-many: byte 25: expected nothing after the object, found `}`
    brackets-crossed: byte 38: expected `]`, found `}`
    byte-order-mark: byte 0: expected an object, found 0xef
    control-character-in-name: byte 21: metadata.name holds an escape or a control character that JSON does not allow
    cut-after-backslash: the JSON ends after 23 bytes within a string; the sender cut it short
    cut-before-end: the JSON ends after 24 bytes within an object; the sender cut it short
    cut-in-object: the JSON ends after 41 bytes within an object or array; the sender cut it short
    cut-in-string: the JSON ends after 35 bytes within a string; the sender cut it short
    empty-name: the object has no metadata.name, so it cannot be stored; is it a list, a Status or a Table?
    empty: there is no JSON, only 0 bytes of white space; the sender sent nothing
    half-surrogate-in-name: byte 21: metadata.name holds an escape or a control character that JSON does not allow
    html: byte 0: expected an object, found `<`
    latin-1: byte 35: not UTF-8; JSON texts are UTF-8 (RFC 8259)
    list: the object has no metadata.name, so it cannot be stored; is it a list, a Status or a Table?
    lone-continuation-byte: byte 22: not UTF-8; JSON texts are UTF-8 (RFC 8259)
    metadata-is-array: the object has no metadata.name, so it cannot be stored; is it a list, a Status or a Table?
    metadata-is-text: the object has no metadata.name, so it cannot be stored; is it a list, a Status or a Table?
    missing-colon: byte 12: expected `:`, found `{`
    missing-comma: byte 25: expected `,` or a closing bracket, found `"`
    no-metadata: the object has no metadata.name, so it cannot be stored; is it a list, a Status or a Table?
    no-name: the object has no metadata.name, so it cannot be stored; is it a list, a Status or a Table?
    no-value: byte 12: expected a value, found `}`
    null-name: the object has no metadata.name, so it cannot be stored; is it a list, a Status or a Table?
    null: byte 0: expected an object, found `n`
    number-name: byte 20: metadata.name must be a string, found `7`
    number-version: byte 42: metadata.resourceVersion must be a string, found `1`
    object-uid: byte 30: metadata.uid must be a string, found `{`
    overlong-encoding: byte 30: not UTF-8; JSON texts are UTF-8 (RFC 8259)
    second-metadata-has-no-name: the object has no metadata.name, so it cannot be stored; is it a list, a Status or a Table?
    single-quotes: byte 1: expected a member name, found `'`
    status: the object has no metadata.name, so it cannot be stored; is it a list, a Status or a Table?
    text: byte 0: expected an object, found `"`
    trailing-comma: byte 25: expected a member name, found `}`
    two-objects: byte 25: expected nothing after the object, found `{`
    unquoted-name: byte 1: expected a member name, found `m`
    utf-16: byte 1: expected a member name, found 0x00
    "#);
}

#[test]
fn the_head_alone_refuses_the_same_but_for_utf8_elsewhere() {
    for (name, bytes) in files("refused") {
        let elsewhere = ["latin-1.json", "overlong-encoding.json"].contains(&name.as_str());
        assert_eq!(head(&bytes).is_ok(), elsewhere, "{name}");
    }
}

#[test]
fn lists_yield_the_same_items_wherever_a_frame_ends() {
    for (name, bytes) in files("lists") {
        let whole: Value = serde_json::from_slice(&bytes).expect(&name);
        let expected = list(&[&bytes], 1 << 20);
        let items: Vec<Value> = expected
            .0
            .iter()
            .map(|item| serde_json::from_slice(item.as_ref().expect("short")).expect("an item"))
            .collect();
        assert_eq!(
            items.as_slice(),
            whole["items"].as_array().map_or(&[][..], Vec::as_slice),
            "{name}"
        );
        let head = expected.1.as_ref().expect(&name);
        assert_eq!(head.kind, whole["kind"], "{name}");
        assert_eq!(head.version.as_str(), whole["metadata"]["resourceVersion"], "{name}");
        for at in (0..bytes.len()).step_by(1 + bytes.len() / 700) {
            let (first, second) = bytes.split_at(at);
            assert_eq!(list(&[first, second], 1 << 20), expected, "{name}, cut at {at}");
        }
    }
}

#[test]
fn watches_yield_the_same_events_wherever_a_frame_ends() {
    use informant_object::frames::WatchLine;
    for (name, bytes) in files("watches") {
        let expected = lines(&[&bytes], 1 << 20);
        for line in &expected {
            let line = line.as_ref().expect("short");
            let whole: Value = serde_json::from_slice(line).expect(&name);
            let event = WatchLine::parse(line).expect(&name);
            assert_eq!(event.event_type.as_str(), whole["type"], "{name}");
            let object = event.object(&Shape::verbatim()).expect(&name);
            assert_eq!(
                serde_json::from_slice::<Value>(object.json()).expect("JSON"),
                whole["object"],
                "{name}"
            );
        }
        for at in (0..bytes.len()).step_by(1 + bytes.len() / 700) {
            let (first, second) = bytes.split_at(at);
            assert_eq!(lines(&[first, second], 1 << 20), expected, "{name}, cut at {at}");
        }
    }
}

#[test]
fn a_pod_is_projected_in_its_own_shape() {
    let (_, bytes) = files("accepted")
        .into_iter()
        .find(|(name, _)| name == "pod-oom-killed.json")
        .expect("kept");
    let pod = Object::parse(&bytes, &Shape::of("v1", "Pod")).expect("a pod");
    let fields = [
        "/metadata/name",
        "/status/containerStatuses/*/restartCount",
        "/status/containerStatuses/1/name",
        "/spec/hostname",
        "/spec/containers/*/ports/0/name",
    ];
    let mut out = Vec::new();
    pod.project(&Projection::new(&pointers(&fields)), &mut out);
    insta::assert_snapshot!(String::from_utf8(out).expect("UTF-8"), @r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"checkout-7c9f8d6b54-q2w4e"},"spec":{"containers":[{"ports":[{"name":"http"},{}]},{}]},"status":{"containerStatuses":[{"restartCount":7},{"name":"proxy","restartCount":7}]}}"#);
}
