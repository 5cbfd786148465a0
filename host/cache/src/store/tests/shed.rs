//! Namespaces of which only heads are stored.

use proptest::prelude::*;

use informant_object::Shape;

use super::*;
use crate::{IndexFunc, IndexValues};

/// An index by a field that is not known.
struct AnyField;

impl IndexFunc for AnyField {
    fn name(&self) -> &str {
        "any"
    }

    fn values(&self, _object: &Object, _values: &mut IndexValues) -> Result<(), String> {
        Ok(())
    }
}

fn pod(namespace: &str, name: &str, version: u64, node: &str) -> Object {
    let json = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"namespace":"{namespace}","name":"{name}","uid":"{name}","resourceVersion":"{version}"}},"spec":{{"nodeName":"{node}","text":"{}"}}}}"#,
        "x".repeat(2_000)
    );
    Object::parse(json.as_bytes(), &Shape::verbatim()).unwrap()
}

fn by_node() -> Box<dyn IndexFunc> {
    Box::new(PointerIndex::new("node", Pointer::parse("/spec/nodeName").unwrap()))
}

fn indexed() -> StoreWriter {
    let mut writer = StoreWriter::new();
    writer.add_indexers(vec![by_node()]).unwrap();
    writer
}

fn on_node(snapshot: &Snapshot, node: &str) -> Vec<String> {
    let found = snapshot.index_keys("node", node).unwrap();
    found.map(|key| key.to_key().to_string()).collect()
}

fn heads(snapshot: &Snapshot) -> Vec<&str> {
    snapshot
        .iter()
        .filter(|object| object.is_head())
        .map(Object::name)
        .collect()
}

#[test]
fn a_shed_namespace_keeps_heads_and_its_index_values() {
    let mut writer = indexed();
    writer.add(pod("a", "x", 1, "n1"));
    writer.add(pod("b", "y", 1, "n1"));
    let before = writer.publish();
    let whole = before.bytes();
    assert_eq!(writer.largest_whole_namespace().unwrap().0.as_ref(), "a");
    writer.shed_namespace("a");
    assert!(writer.is_shed("a") && !writer.is_shed("b"));
    while writer.shed_some(1) {}
    writer.add(pod("a", "z", 2, "n2"));
    let shed = writer.publish();
    assert_eq!((heads(&shed), shed.heads()), (vec!["x", "z"], 2));
    assert_eq!(heads(&before), Vec::<&str>::new(), "older snapshots do not change");
    assert_eq!(
        (on_node(&shed, "n1"), on_node(&shed, "n2")),
        (vec!["a/x".to_owned(), "b/y".to_owned()], vec!["a/z".to_owned()])
    );
    assert!(shed.bytes() < whole, "{} of {whole}", shed.bytes());
    let [(namespace, bodies)] = &shed.shed_namespaces()[..] else {
        panic!("one namespace")
    };
    assert!(&**namespace == "a" && *bodies > 3_500, "{bodies}");
    assert_eq!(writer.largest_whole_namespace().unwrap().0.as_ref(), "b");
}

#[test]
fn bytes_held_by_readers_tell_states_from_forms() {
    let mut writer = indexed();
    writer.add(pod("a", "x", 1, "n1"));
    writer.add(pod("b", "y", 1, "n1"));
    let before = writer.publish();
    let whole = stored_bytes(before.get(KeyRef::new("a", "x")).unwrap());
    writer.shed_namespace("a");
    while writer.shed_some(9) {}
    let shed = writer.publish();
    assert_eq!((shed.held_bytes(), shed.held_states_bytes()), (whole, 0));
    writer.add(pod("b", "y", 2, "n1"));
    let changed = writer.publish();
    drop(shed);
    assert_eq!((changed.held_bytes(), changed.held_states_bytes()), (2 * whole, whole));
    drop((before, writer.take_garbage()));
    assert_eq!((changed.held_bytes(), changed.held_states_bytes()), (0, 0));
}

#[test]
fn a_body_returns_only_to_its_own_head() {
    let mut writer = indexed();
    writer.shed_namespace("a");
    writer.add(pod("a", "x", 2, "n1"));
    let whole = pod("a", "x", 2, "n1");
    writer.unshed_namespace("a");
    for other in [
        pod("a", "x", 1, "n1"),
        pod("a", "x", 3, "n1"),
        pod("a", "missing", 2, "n1"),
    ] {
        assert!(!writer.restore_body(other));
    }
    assert!(writer.restore_body(whole.clone()));
    let restored = writer.publish();
    assert_eq!(
        (restored.get(whole.key()).unwrap().json(), restored.heads()),
        (whole.json(), 0)
    );
    assert_eq!(restored.bytes(), stored_bytes(&whole));
    assert_eq!(on_node(&restored, "n1"), ["a/x"]);
    assert!(!writer.restore_body(whole), "it is whole already");
    assert_eq!(restored.shed_namespaces(), []);
}

#[test]
fn an_index_added_later_names_the_heads_that_it_lacks() {
    let mut writer = StoreWriter::new();
    writer.shed_namespace("a");
    writer.add(pod("a", "x", 1, "n1"));
    writer.add(pod("b", "y", 1, "n1"));
    writer.add_indexers(vec![by_node()]).unwrap();
    let snapshot = writer.publish();
    assert_eq!(on_node(&snapshot, "n1"), ["b/y"]);
    let failures = snapshot.index_failures("node").unwrap();
    let listed: Vec<_> = failures
        .listed()
        .map(|(key, message)| format!("{key}: {message}"))
        .collect();
    insta::assert_snapshot!(listed.join("\n"), @"a/x: the cache has only the metadata of the object, because its budget is reached; it is in the index from its next change on");
    writer.add(pod("a", "x", 2, "n1"));
    let snapshot = writer.publish();
    assert_eq!(on_node(&snapshot, "n1"), ["a/x", "b/y"]);
    assert!(snapshot.index_failures("node").is_none());
}

fn absent(snapshot: &Snapshot, index: &str) -> Vec<String> {
    let failures = snapshot.index_failures(index);
    let listed = failures.into_iter().flat_map(|failures| failures.listed());
    listed.map(|(key, _)| key.to_string()).collect()
}

#[test]
fn listed_heads_that_lack_an_indexed_field_are_named() {
    let mut writer = StoreWriter::new();
    let fields = writer.head_fields().unwrap().clone();
    writer.add_indexers(vec![by_node()]).unwrap();
    writer.expect_heads(&fields);
    writer.add(pod("a", "x", 1, "n1").to_head(&fields));
    assert_eq!(absent(&writer.publish(), "node"), ["a/x"]);
    let fields = writer.head_fields().unwrap().clone();
    writer.expect_heads(&fields);
    writer.add(pod("a", "x", 2, "n1").to_head(&fields));
    let snapshot = writer.publish();
    assert_eq!(
        (absent(&snapshot, "node"), on_node(&snapshot, "n1")),
        (vec![], vec!["a/x".to_owned()])
    );
}

#[test]
fn listed_heads_without_their_annotations_are_named() {
    let annotated = |name: &str, bytes: usize| {
        let (text, padding) = ("x".repeat(2_000), "y".repeat(bytes));
        let json = format!(
            r#"{{"metadata":{{"namespace":"a","name":"{name}","annotations":{{"team":"blue","y":"{padding}"}}}},"spec":"{text}"}}"#
        );
        Object::parse(json.as_bytes(), &Shape::verbatim()).unwrap()
    };
    let team = Pointer::parse("/metadata/annotations/team").unwrap();
    let mut writer = StoreWriter::new();
    writer
        .add_indexers(vec![Box::new(PointerIndex::new("team", team))])
        .unwrap();
    let fields = writer.head_fields().unwrap().clone();
    writer.expect_heads(&fields);
    writer.add(annotated("few", 10).to_head(&fields));
    writer.add(annotated("many", 10_000).to_head(&fields));
    let snapshot = writer.publish();
    assert_eq!(absent(&snapshot, "team"), ["a/many"]);
    assert_eq!(snapshot.by_index("team", "blue").unwrap().count(), 1);
}

#[test]
fn changed_indexes_keep_what_heads_lack() {
    fn changed(writer: &StoreWriter, removed: &[&str], added: Vec<Box<dyn IndexFunc>>) -> StoreWriter {
        let removed: Vec<String> = removed.iter().map(|name| (*name).to_owned()).collect();
        let mut copy = writer.with_indexers(&removed, added).unwrap();
        while !copy.copy_objects(writer, 1) {}
        copy
    }
    let by_name =
        || -> Box<dyn IndexFunc> { Box::new(PointerIndex::new("name", Pointer::parse("/metadata/name").unwrap())) };
    let mut writer = StoreWriter::new();
    writer.add_indexers(vec![by_name()]).unwrap();
    writer.shed_namespace("a");
    writer.add(pod("a", "x", 1, "n1"));
    writer.add(pod("a", "y", 1, "n1"));
    writer.add_indexers(vec![by_node()]).unwrap();
    writer.add(pod("a", "y", 2, "n2"));
    assert_eq!(absent(&writer.publish(), "node"), ["a/x"]);
    let mut writer = changed(&writer, &["name"], vec![]);
    let mut writer = {
        assert_eq!(absent(&writer.publish(), "node"), ["a/x"]);
        changed(&writer, &[], vec![by_name()])
    };
    let snapshot = writer.publish();
    assert_eq!(absent(&snapshot, "node"), ["a/x"]);
    assert_eq!(on_node(&snapshot, "n2"), ["a/y"]);
    assert_eq!(snapshot.by_index("name", "x").unwrap().count(), 1, "heads have it");
}

#[test]
fn an_index_over_any_field_prevents_shedding() {
    let mut writer = StoreWriter::new();
    writer.add_indexers(vec![Box::new(AnyField)]).unwrap();
    assert!(writer.head_fields().is_none());
    writer.shed_namespace("a");
    writer.add(pod("a", "x", 1, "n1"));
    assert_eq!(writer.publish().heads(), 0);
}

/// What happens to a store.
#[derive(Clone, Debug)]
enum Step {
    Add(usize, usize, usize),
    Delete(usize, usize),
    Shed(usize),
    ShedSome,
    Unshed(usize),
    Restore(usize, usize),
    Publish,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3usize, 0..4usize, 0..3usize).prop_map(|(namespace, name, node)| Step::Add(namespace, name, node)),
        1 => (0..3usize, 0..4usize).prop_map(|(namespace, name)| Step::Delete(namespace, name)),
        1 => (0..3usize).prop_map(Step::Shed),
        2 => Just(Step::ShedSome),
        1 => (0..3usize).prop_map(Step::Unshed),
        2 => (0..3usize, 0..4usize).prop_map(|(namespace, name)| Step::Restore(namespace, name)),
        1 => Just(Step::Publish),
    ]
}

const NAMESPACES: [&str; 3] = ["a", "b", "c"];
const NAMES: [&str; 4] = ["w", "x", "y", "z"];
const NODES: [&str; 3] = ["n1", "n2", "n3"];

proptest! {
    #[test]
    fn a_shed_store_answers_as_one_of_whole_objects(steps in proptest::collection::vec(step(), 1..80)) {
        let (mut writer, mut model) = (indexed(), indexed());
        for (version, step) in steps.into_iter().enumerate() {
            match step {
                Step::Add(namespace, name, node) => {
                    let object = pod(NAMESPACES[namespace], NAMES[name], version as u64 + 1, NODES[node]);
                    writer.add(object.clone());
                    model.add(object);
                }
                Step::Delete(namespace, name) => {
                    let key = KeyRef::new(NAMESPACES[namespace], NAMES[name]);
                    prop_assert_eq!(writer.delete(key).is_some(), model.delete(key).is_some());
                }
                Step::Shed(namespace) => writer.shed_namespace(NAMESPACES[namespace]),
                Step::ShedSome => drop(writer.shed_some(2)),
                Step::Unshed(namespace) => writer.unshed_namespace(NAMESPACES[namespace]),
                Step::Restore(namespace, name) => {
                    let key = KeyRef::new(NAMESPACES[namespace], NAMES[name]);
                    if let Some(whole) = model.get_by_key(key).cloned() {
                        let was_head = writer.get_by_key(key).is_some_and(Object::is_head);
                        prop_assert_eq!(writer.restore_body(whole), was_head);
                    }
                }
                Step::Publish => drop(writer.publish()),
            }
            let (shed, whole) = (writer.publish(), model.publish());
            for node in NODES {
                prop_assert_eq!(on_node(&shed, node), on_node(&whole, node));
            }
            prop_assert!(shed.iter().map(Object::key).eq(whole.iter().map(Object::key)));
            prop_assert!(shed.iter().zip(whole.iter()).all(|(head, object)| head.has_same_content(object)));
            prop_assert_eq!(shed.bytes(), shed.iter().map(stored_bytes).sum::<usize>());
            prop_assert_eq!(shed.heads(), shed.iter().filter(|object| object.is_head()).count());
            let by_namespace: usize = shed.largest_namespaces(9).iter().map(|(_, bytes)| bytes).sum();
            prop_assert_eq!(by_namespace, shed.bytes());
        }
    }
}
