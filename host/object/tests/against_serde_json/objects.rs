//! Objects: head, cuts, splice, pointers, projections, labels.

use informant_object::{Object, ObjectError, Payload, Pointer, Projection, Shape, first_head, head};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use crate::document::{Written, name, object, object_with_doubles, written};
use crate::model;

pub(crate) fn pointer() -> impl Strategy<Value = Pointer> {
    let token = prop_oneof![3 => name(), 2 => Just("*".to_owned()), 2 => Just("metadata".to_owned()), 1 => Just("labels".to_owned())];
    let token = token.prop_map(|name| name.replace('~', "~0").replace('/', "~1"));
    vec(token, 1..5).prop_map(|tokens| Pointer::parse(&format!("/{}", tokens.join("/"))).expect("escaped"))
}

fn shape() -> impl Strategy<Value = Shape> {
    let type_meta = prop_oneof![
        Just(("apps/v1", "Deployment")),
        Just(("", "")),
        Just(("v\"\\1", "Ki\nnd"))
    ];
    let pointers = || vec(pointer(), 0..4);
    (type_meta, pointers(), pointers(), any::<bool>()).prop_map(|((api_version, kind), drop, digest, keep)| {
        let droppable = |pointer: &Pointer| Shape::new("", "", vec![pointer.clone()], false).is_ok();
        let drop = drop.into_iter().filter(droppable).collect();
        let digestible = |pointer: &Pointer| Shape::verbatim().with_digest(vec![pointer.clone()]).is_ok();
        let digest = digest.into_iter().filter(digestible).collect();
        let shape = Shape::new(api_version, kind, drop, keep).expect("droppable");
        shape.with_digest(digest).expect("digestible")
    })
}

fn value(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap_or_else(|error| panic!("{error} in {}", String::from_utf8_lossy(text)))
}

/// Checks that hold for every object, parsed from `text` with any shape.
pub(crate) fn check_object(text: &str, shape: &Shape, doubled: bool) -> Result<(), TestCaseError> {
    let whole = value(text.as_bytes());
    let parsed = Object::parse(text.as_bytes(), shape);
    if doubled && matches!(parsed, Err(ObjectError::NotAString { .. })) {
        // A wrong type is refused where it occurs, even if a later member of that name would count.
        return Ok(());
    }
    let Some(expected) = model::head(&whole) else {
        prop_assert!(parsed.is_err(), "{parsed:?}");
        return Ok(());
    };
    let object = parsed.map_err(|error| TestCaseError::fail(error.to_string()))?;
    let own = model::Head {
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        uid: object.uid().to_owned(),
        version: object.version().as_str().to_owned(),
    };
    prop_assert_eq!(&own, &expected);
    prop_assert_eq!(
        object.version().number(),
        informant_object::VersionRef::new(&expected.version).number()
    );

    let shaped = model::shaped(
        &model::digested(&whole, &shape.digest),
        &shape.api_version,
        &shape.kind,
        &shape.drop,
        shape.keep_managed_fields,
    );
    prop_assert_eq!(&model::without_hashes(value(object.json())), &shaped);
    for (own, name) in [(object.api_version(), "apiVersion"), (object.kind(), "kind")] {
        prop_assert_eq!(own, shaped[name].as_str().unwrap_or_default());
    }
    let metadata = value(object.metadata().as_bytes());
    prop_assert_eq!(&model::without_hashes(metadata), &shaped["metadata"]);

    let head = head(text.as_bytes()).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(head.key(), object.key());
    prop_assert_eq!((&*head.uid, head.version()), (object.uid(), object.version()));
    // Of two members with one name the first counts there: here is one.
    let once = whole.to_string();
    let first = first_head(once.as_bytes()).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(&first, &head);
    Ok(())
}

/// Checks that hold for the values at any pointer.
pub(crate) fn check_pointers(object: &Object, pointers: &[Pointer]) -> Result<(), TestCaseError> {
    let whole = value(object.json());
    for pointer in pointers {
        let mut expected = Vec::new();
        model::values(&whole, pointer.tokens(), &mut expected);
        let found = object.pointer(pointer);
        let as_expected = |found: &str, value: &Value| match value {
            Value::String(text) => text == found,
            other => serde_json::from_str::<Value>(found).is_ok_and(|found| found == *other),
        };
        prop_assert_eq!(found.len(), expected.len(), "{}", pointer);
        // The model's members are sorted: under `*` the order differs.
        for value in &expected {
            prop_assert!(
                found.iter().any(|found| as_expected(found, value)),
                "{} {}",
                pointer,
                value
            );
        }
        if !pointer.as_str().contains('*') {
            prop_assert!(
                found
                    .iter()
                    .zip(expected)
                    .all(|(found, value)| as_expected(found, value))
            );
        }
    }
    Ok(())
}

/// Checks that hold for any projection.
pub(crate) fn check_projection(object: &Object, pointers: &[Pointer]) -> Result<(), TestCaseError> {
    let mut out = b"before".to_vec();
    object.project(&Projection::new(pointers), &mut out);
    prop_assert_eq!(&out[..6], b"before");
    prop_assert_eq!(value(&out[6..]), model::projected(&value(object.json()), pointers));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn head_cuts_and_splice_agree_with_the_model(Written { text } in written(object()), shape in shape()) {
        check_object(&text, &shape, false)?;
    }

    #[test]
    fn the_last_of_doubled_names_counts(Written { text } in written(object_with_doubles()), shape in shape()) {
        check_object(&text, &shape, true)?;
    }

    #[test]
    fn an_object_read_again_is_the_same(Written { text } in written(object()), shape in shape()) {
        if let Ok(object) = Object::parse(text.as_bytes(), &shape) {
            let again = Object::parse(object.json(), &Shape::verbatim()).expect("its own text");
            prop_assert_eq!(again.text(), object.text());
            prop_assert_eq!(again.key(), object.key());
        }
    }

    #[test]
    fn pointers_find_what_the_model_finds(Written { text } in written(object()), pointers in vec(pointer(), 6)) {
        if let Ok(object) = Object::parse(text.as_bytes(), &Shape::verbatim()) {
            check_pointers(&object, &pointers)?;
        }
    }

    #[test]
    fn projections_show_what_the_model_shows(Written { text } in written(object()), pointers in vec(pointer(), 0..5), shape in shape()) {
        if let Ok(object) = Object::parse(text.as_bytes(), &shape) {
            check_projection(&object, &pointers)?;
        }
    }

    #[test]
    fn the_metadata_payload_is_a_projection(Written { text } in written(object()), shape in shape()) {
        let Ok(object) = Object::parse(text.as_bytes(), &shape) else { return Ok(()) };
        let mut out = Vec::new();
        Payload::Metadata.write(&object, &mut out);
        let mut expected = model::projected(&value(object.json()), &[Pointer::parse("/metadata").expect("a pointer")]);
        // Null and empty values count as absent.
        expected.as_object_mut().expect("an object").retain(|_, value| !value.is_null() && value != "");
        prop_assert_eq!(value(&out), expected);
    }

    #[test]
    fn labels_are_those_of_the_model(Written { text } in written(object()), shape in shape()) {
        let Ok(object) = Object::parse(text.as_bytes(), &shape) else { return Ok(()) };
        let shaped = value(object.json());
        let labels = shaped["metadata"]["labels"].as_object().cloned().unwrap_or_default();
        let expected: Vec<_> = labels.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))).collect();
        let mut found: Vec<_> = object.labels().collect();
        found.sort();
        let found: Vec<_> = found.iter().map(|(name, value)| (&**name, &**value)).collect();
        prop_assert_eq!(&found, &expected);
        for (name, value) in expected {
            let label = object.label(name);
            prop_assert_eq!(label.as_deref(), Some(value));
        }
    }

    #[test]
    fn an_object_that_was_cut_short_is_refused(Written { text } in written(object()), at in any::<prop::sample::Index>()) {
        let text = text.trim_end();
        let part = &text.as_bytes()[..at.index(text.len())];
        prop_assert!(Object::parse(part, &Shape::of("v1", "Pod")).is_err());
        prop_assert!(head(part).is_err());
    }
}

#[test]
fn an_object_of_any_depth_is_kept_byte_for_byte() {
    let pod = Shape::of("v1", "Pod");
    let spec = Projection::new(&["/spec/small", "/status"].map(|text| Pointer::parse(text).expect("a pointer")));
    for depth in [4, 126, 127, 128, 129, 5_000, 1_000_000] {
        let deep = "[".repeat(depth - 2) + &"]".repeat(depth - 2);
        let text = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a","uid":"u"}},"spec":{{"deep":{deep},"small":"x"}},"status":{{"phase":"Running"}}}}"#
        );
        for shape in [&pod, &Shape::verbatim()] {
            let object = Object::parse(text.as_bytes(), shape).expect("an object");
            assert_eq!(object.text(), text);
            assert_eq!((object.name(), object.uid()), ("a", "u"));
            assert_eq!(
                object.pointer(&Pointer::parse("/spec/small").expect("a pointer")),
                ["x"]
            );
            let mut out = Vec::new();
            object.project(&spec, &mut out);
            assert_eq!(
                String::from_utf8(out).expect("text"),
                r#"{"apiVersion":"v1","kind":"Pod","spec":{"small":"x"},"status":{"phase":"Running"}}"#
            );
        }
        assert_eq!(head(text.as_bytes()).expect("a head").name, "a");
        let dropping = Shape::new(
            "v1",
            "Pod",
            vec![Pointer::parse("/spec/deep/*/*").expect("a pointer")],
            false,
        );
        let cut = Object::parse(text.as_bytes(), &dropping.expect("a shape")).expect("an object");
        assert!(cut.text().len() < 200, "{depth} levels");
        let metadata_only = Object::parse(text.as_bytes(), &pod.clone().metadata_only()).expect("an object");
        assert!(!metadata_only.text().contains("deep"));
        assert!(Object::parse(&text.as_bytes()[..text.len() - 30], &pod).is_err());
    }
}

#[test]
fn a_deep_object_cut_short_anywhere_is_refused() {
    for depth in 126..=129 {
        let deep = "{\"a\":".repeat(depth) + "1" + &"}".repeat(depth);
        let text = format!(r#"{{"metadata":{{"name":"a"}},"spec":{deep}}}"#);
        assert!(Object::parse(text.as_bytes(), &Shape::verbatim()).is_ok());
        for end in 0..text.len() {
            assert!(
                Object::parse(&text.as_bytes()[..end], &Shape::verbatim()).is_err(),
                "{depth} levels, {end} bytes"
            );
        }
    }
}

fn parsed(text: &str) -> Object {
    Object::parse(text.as_bytes(), &Shape::of("v1", "Pod")).expect("an object")
}

#[test]
fn the_first_kind_counts_that_is_not_empty() {
    for (text, kind) in [
        (r#"{"kind":null,"metadata":{"name":"a"}}"#, "Pod"),
        (r#"{"kind":"","kind":"Node","metadata":{"name":"a"}}"#, "Node"),
        (r#"{"kind":"Node","metadata":{"name":"a"},"kind":null}"#, "Node"),
        (r#"{"kind":"Node","metadata":{"name":"a"},"kind":"Pod"}"#, "Node"),
        (r#"{"kin\u0064":"N\u006fde","metadata":{"name":"a"}}"#, "Node"),
        (r#"{"kind":"N\u006fde","metadata":{"name":"a"}}"#, "Node"),
        (r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}"#, "Node"),
        (
            r#"{"kind":"","apiVersion":"","kind":"Node","metadata":{"name":"a"}}"#,
            "Node",
        ),
        (r#"{ "kind" : "Node" , "metadata":{"name":"a"}}"#, "Node"),
        (r#"{"metadata":{"name":"a","kind":"Not"},"kind":"Node"}"#, "Node"),
    ] {
        let object = parsed(text);
        assert_eq!(object.kind(), kind, "{text}");
        assert_eq!(value(object.json())["kind"], kind, "{text}");
    }
}

#[test]
fn pointer_finds_first_of_a_doubled_name_and_star_each() {
    let object = parsed(r#"{"metadata":{"name":"a"},"spec":{"node":"x","node":"y"}}"#);
    let find = |pointer: &str| object.pointer(&Pointer::parse(pointer).expect("a pointer"));
    assert_eq!(find("/spec/node"), ["x"]);
    assert_eq!(find("/spec/*"), ["x", "y"]);
}

#[test]
fn selectors_look_into_the_object_itself() {
    use informant_object::{FieldSelector, LabelSelector};
    let object = parsed(
        r#"{"metadata":{"name":"web-1","labels":{"app":"web","tier":"fr\u006fnt"}},"spec":{"nodeName":"n1","replicas":3},"status":{}}"#,
    );
    for (selector, matches) in [
        ("app=web,tier in (front)", true),
        ("app!=web", false),
        ("!missing", true),
        ("missing", false),
    ] {
        assert_eq!(
            LabelSelector::parse(selector).expect("a selector").matches(&object),
            matches,
            "{selector}"
        );
    }
    for (selector, matches) in [
        ("metadata.name=web-1,spec.nodeName=n1", true),
        ("status.phase=", true),
        ("status.phase!=Failed", true),
        ("spec.replicas=3", true),
        ("metadata.name!=web-1", false),
    ] {
        assert_eq!(
            FieldSelector::parse(selector).expect("a selector").matches(&object),
            matches,
            "{selector}"
        );
    }
}

#[test]
fn an_object_malformed_where_a_projection_leads_is_shown_whole() {
    let object = parsed(r#"{"metadata":{"name":"a"},"spec":{"a" "b"}}"#);
    let mut out = b"kept".to_vec();
    object.project(
        &Projection::new(&[Pointer::parse("/spec/c").expect("a pointer")]),
        &mut out,
    );
    assert_eq!(out, [b"kept", object.json()].concat());
}

#[test]
fn clones_share_an_allocation_whose_size_counts_head_and_text() {
    let object = parsed(r#"{"metadata":{"name":"a"}}"#);
    assert!(object.ptr_eq(&object.clone()) && !object.ptr_eq(&parsed(r#"{"metadata":{"name":"a"}}"#)));
    let around = object.size_bytes() - object.json().len();
    assert!((68..=72).contains(&around), "{around}");
}
