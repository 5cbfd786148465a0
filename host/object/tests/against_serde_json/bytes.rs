//! Arbitrary and damaged bytes: nothing panics, and valid JSON is accepted.

use informant_object::frames::{Bookmark, Line, LineSplitter, ListSplitter, WatchLine};
use informant_object::{
    FieldSelector, Key, LabelSelector, Object, Payload, Pointer, Projection, Shape, first_head, head,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::document::{Written, object, written};

/// Runs everything that reads bytes.
fn read_everything(bytes: &[u8]) {
    let drop = ["/spec/*", "/metadata/labels/a", "/*/*/b"]
        .map(|text| Pointer::parse(text).expect("a pointer"))
        .to_vec();
    let shape = Shape::new("v1", "Pod", drop, false).expect("droppable");
    let _ = (head(bytes), first_head(bytes));
    if let Ok(object) = Object::parse(bytes, &shape) {
        let pointer = Pointer::parse("/*/*/*").expect("a pointer");
        let _ = (object.pointer(&pointer), object.labels().count(), format!("{object:?}"));
        let mut out = Vec::new();
        object.project(&Projection::new(&[pointer]), &mut out);
        Payload::Metadata.write(&object, &mut out);
    }
    let _ = Bookmark::parse(bytes);
    if let Ok(line) = WatchLine::parse(bytes) {
        let _ = line.object(&shape);
    }
    for limit in [8, 1 << 20] {
        let mut lines = LineSplitter::new(limit);
        for frame in bytes.chunks(7) {
            let mut lines = lines.feed(frame);
            while let Some(line) = lines.next_line() {
                assert!(!matches!(line, Line::Json(line) if line.len() > limit));
            }
        }
        lines.finish();
        let mut list = ListSplitter::new(limit);
        for frame in bytes.chunks(7) {
            list.push(frame.to_vec().into());
            while let Ok(Some(_)) = list.next_part() {}
        }
        let _ = list.finish();
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..300)) {
        read_everything(&bytes);
    }

    #[test]
    fn bytes_that_look_like_json_never_panic(bytes in vec(prop::sample::select(&b"{}[]\",:\\ null1-tmetadataname/\n<\xff"[..]), 0..300)) {
        read_everything(&bytes);
    }

    #[test]
    fn damaged_objects_never_panic(Written { text } in written(object()), damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut bytes = text.into_bytes();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        read_everything(&bytes);
        read_everything(format!("{{\"type\":\"ADDED\",\"object\":{}}}", String::from_utf8_lossy(&bytes)).as_bytes());
        read_everything(format!("{{\"items\":[{}]}}", String::from_utf8_lossy(&bytes)).as_bytes());
    }

    #[test]
    fn arbitrary_texts_never_panic_as_pointers_selectors_and_keys(text in prop_oneof!["[a-z=!(),<> ./~*\\\\]{0,40}", any::<String>()]) {
        if let Ok(pointer) = Pointer::parse(&text) {
            prop_assert_eq!(Pointer::parse(&pointer.to_string()), Ok(pointer));
        }
        if let Ok(selector) = LabelSelector::parse(&text) {
            prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
        }
        if let Ok(selector) = FieldSelector::parse(&text) {
            prop_assert_eq!(FieldSelector::parse(&selector.to_string()), Ok(selector));
        }
        if let Ok(key) = Key::parse(&text) {
            prop_assert_eq!(Key::parse(key.as_str()), Ok(key));
        }
    }
}

#[test]
fn kept_text_must_be_utf8_but_cut_text_need_not() {
    let object = |managed: &[u8], label: &[u8]| {
        let begin = br#"{"metadata":{"managedFields":[{"manager":""#;
        [begin, managed, br#""}],"name":"a","labels":{"b":""#, label, br#""}}}"#].concat()
    };
    let shape = Shape::of("v1", "Pod");
    let kept = Object::parse(&object(b"\xff", "é".as_bytes()), &shape).expect("a pod");
    assert!(kept.text().contains(r#""labels":{"b":"é"}"#), "{}", kept.text());
    let bytes = object(b"", b"\xe2\x82");
    let at = bytes.iter().position(|byte| *byte == 0xe2).expect("there");
    let error = Object::parse(&bytes, &shape).expect_err("refused").to_string();
    assert!(error.starts_with(&format!("byte {at}: not UTF-8")), "{error}");
}
