//! The bytes in Secrets, and the rows of dead letters.

use informant_cache::Reason;
use informant_cache::listener::{DeadLetter, LastDelete};
use informant_object::{Key, Object, Shape};
use informant_spec::StoredContent;

use super::*;
use crate::shared::{LETTER_OBJECT_BYTES_MAX, decode_letter, encode_letter};

/// What format 1 wrote: a fold is under way, and one chunk of two is written.
const FORMAT_1: [(&str, &[u8]); 2] = [
    ("informant-state-journal", include_bytes!("journal-1.bin")),
    ("informant-state-chunk-0", include_bytes!("chunk-1.bin")),
];

/// Rows of all kinds; their plugins fill one chunk and need another.
fn written(server: &mut Server) {
    let mut replica = Replica::new("pod-0");
    replica.settle(server);
    for kind in RowKind::ALL {
        let space = replica.journal.space("greeter", kind);
        space.commit(change("key", &format!("{kind:?} {}", "x".repeat(90))), None);
    }
    for number in 0..3 {
        replica.set(&format!("key-{number}"), &"y".repeat(150));
    }
    // The journal with the plan, then the first chunk.
    step(&mut replica, server);
    step(&mut replica, server);
    replica.set("key-0", "z");
    let space = replica.journal.space("p", RowKind::Key);
    space.commit(vec![("key-1".to_owned(), None)], None);
    step(&mut replica, server);
}

/// Makes the next request.
fn step(replica: &mut Replica, server: &mut Server) {
    replica.now += Duration::from_millis(200);
    let SharedStep::Send(request) = replica.journal.step(replica.now) else {
        panic!("nothing is sent")
    };
    replica.journal.answer(replica.now, server.apply(&request));
}

#[test]
fn state_of_format_1_is_read() {
    let mut server = Server::default();
    for (name, data) in FORMAT_1 {
        server.last_version += 1;
        server
            .secrets
            .insert(name.to_owned(), (server.last_version, data.to_vec()));
    }
    let rows = texts(&stored(&server).unwrap());
    assert_eq!(
        rows.into_keys().collect::<Vec<_>>(),
        ["greeter/key", "p/key-0", "p/key-2"]
    );
    assert_eq!(stored(&server).unwrap().len(), RowKind::ALL.len() + 2);
}

/// If this fails, the format has changed: give it a new number, read the old one, and keep its files.
#[test]
fn state_is_written_in_format_1() {
    let mut server = Server::default();
    written(&mut server);
    let names: Vec<&str> = server.secrets.keys().map(String::as_str).collect();
    assert_eq!(names, ["informant-state-chunk-0", "informant-state-journal"]);
    for (name, data) in FORMAT_1 {
        assert_eq!(server.secrets[name].1, data, "{name}");
    }
}

fn letter(object: Option<String>) -> DeadLetter {
    let last = object.map(|json| Object::parse(json.as_bytes(), &Shape::verbatim()).unwrap());
    DeadLetter {
        source: SourceId(7),
        key: Key::new("default", "a"),
        event: "delete",
        resource_version: None,
        reason: Reason::Watch,
        error: "no".to_owned(),
        result: "permanent",
        attempts: 3,
        received: Moment::ZERO,
        given_up: Moment::ZERO,
        age_before: Duration::from_secs(90),
        delete: Some(LastDelete {
            last,
            final_state_unknown: true,
        }),
    }
}

#[test]
fn dead_letter_keeps_its_object_up_to_the_limit() {
    let object = |annotation: usize, spec: usize| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"namespace":"default","name":"a","uid":"u","resourceVersion":"1","annotations":{{"x":"{}"}}}},"spec":"{}"}}"#,
            "m".repeat(annotation),
            "s".repeat(spec)
        )
    };
    let large = 2 * LETTER_OBJECT_BYTES_MAX;
    for (annotation, spec, has_object, has_spec) in
        [(1, 1, true, true), (1, large, true, false), (large, 1, false, false)]
    {
        let row = encode_letter(&letter(Some(object(annotation, spec))), StoredContent::Whole);
        let read = decode_letter(&Key::new("default", "a"), &row).unwrap();
        assert_eq!((read.error.as_str(), read.attempts, read.event), ("no", 3, "delete"));
        assert!(read.age_before >= Duration::from_secs(89));
        let delete = read.delete.unwrap();
        assert!(delete.final_state_unknown);
        let json = delete
            .last
            .map(|last| String::from_utf8_lossy(last.json()).into_owned());
        assert_eq!(json.is_some(), has_object);
        assert_eq!(json.is_some_and(|json| json.contains("\"spec\"")), has_spec);
    }
    let row = encode_letter(&letter(None), StoredContent::Whole);
    let delete = decode_letter(&Key::new("default", "a"), &row).unwrap().delete;
    assert!(delete.unwrap().last.is_none());
    assert!(decode_letter(&Key::new("default", "a"), &row[..9]).is_none());
}
