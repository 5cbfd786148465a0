//! External indexes.

use super::*;
use crate::{IndexContents, IndexError};

fn contents(values: &[(&str, &[&str])]) -> IndexContents {
    let mut contents = IndexContents::new();
    for (name, values) in values {
        contents.set(&key(name).to_key(), values.iter().copied()).unwrap();
    }
    contents
}

fn attached(objects: impl IntoIterator<Item = Object>, values: &[(&str, &[&str])]) -> StoreWriter {
    let mut store = store(objects);
    store.declare_index("image").unwrap();
    store.attach_index("image", contents(values)).unwrap();
    store.publish();
    store
}

fn by(store: &StoreWriter, value: &str) -> String {
    shown(store.published().by_index("image", value).unwrap())
}

#[test]
fn declared_index_is_not_ready_until_attached() {
    let mut store = store([pod("a", 1), pod("b", 2)]);
    store.declare_index("image").unwrap();
    let snapshot = store.publish();
    let error = snapshot.index_values("image").unwrap_err();
    assert_eq!(error, IndexError::NotReady { name: "image".into() });

    store
        .attach_index("image", contents(&[("a", &["x"]), ("b", &["x", "y"])]))
        .unwrap();
    assert!(snapshot.index_values("image").is_err(), "a snapshot never changes");
    store.publish();
    assert_eq!((by(&store, "x"), by(&store, "y")), ("a@1 b@2".into(), "b@2".into()));
    assert_eq!(store.published().index_values("image").unwrap().join(" "), "x y");
}

#[test]
fn contents_attached_before_the_publish_are_published() {
    let mut store = attached([pod("a", 1), pod("b", 2)], &[("a", &["x"]), ("b", &["x"])]);
    store.add(pod("a", 3));
    store.add(pod("c", 4));
    let contents = contents(&[("a", &["y", "y"]), ("b", &["x"]), ("c", &["x"])]);
    store.attach_index("image", contents).unwrap();
    assert_eq!(by(&store, "x"), "a@1 b@2", "as published");
    store.publish();
    assert_eq!((by(&store, "x"), by(&store, "y")), ("b@2 c@4".into(), "a@3".into()));
    assert_eq!(store.values_missing("image"), 0);
}

#[test]
fn object_without_new_values_leaves_the_index() {
    let mut store = attached([pod("a", 1), pod("b", 2)], &[("a", &["x"]), ("b", &["x"])]);
    store.add(pod("a", 3));
    store.publish();
    assert_eq!(by(&store, "x"), "b@2");
    assert_eq!(store.values_missing("image"), 1);
    store.publish();
    assert_eq!(store.values_missing("image"), 1);
    store.add(pod("b", 2));
    store.publish();
    assert_eq!(by(&store, "x"), "b@2", "the same version keeps its values");
}

#[test]
fn a_deleted_object_leaves_the_index() {
    let mut store = attached([pod("a", 1), pod("b", 2)], &[("a", &["x"]), ("b", &["x"])]);
    store.add(pod("a", 3));
    store.delete(key("a"));
    store.publish();
    assert_eq!(by(&store, "x"), "b@2");
    assert_eq!(store.values_missing("image"), 0, "nothing is awaited of it");
}

#[test]
fn detached_index_is_not_ready_and_can_be_reattached() {
    let mut store = attached([pod("a", 1)], &[("a", &["x"])]);
    store.detach_index("image").unwrap();
    store.add(pod("a", 2));
    store.publish();
    assert!(matches!(
        store.published().index_values("image"),
        Err(IndexError::NotReady { .. })
    ));
    assert_eq!(store.values_missing("image"), 0);
    store.attach_index("image", contents(&[("a", &["y"])])).unwrap();
    store.publish();
    assert_eq!(by(&store, "y"), "a@2");
}

#[test]
fn removed_index_frees_its_name() {
    let mut store = attached([pod("a", 1)], &[("a", &["x"])]);
    assert!(store.declare_index("image").is_err());
    store.remove_index("image").unwrap();
    store.publish();
    assert!(matches!(
        store.published().index_values("image"),
        Err(IndexError::UnknownIndex { .. })
    ));
    assert!(store.detach_index("image").is_err());
    store.declare_index("image").unwrap();
}

#[test]
fn too_many_values_leave_the_object_out() {
    let mut contents = contents(&[("a", &["x"])]);
    let many: Vec<String> = (0..=crate::INDEX_VALUES_MAX).map(|number| number.to_string()).collect();
    let message = contents
        .set(&key("a").to_key(), many.iter().map(String::as_str))
        .unwrap_err();
    assert!(message.contains("1024 values"), "{message}");
    assert!(contents.is_empty());
}

#[test]
fn index_contents_of_missing_objects_are_ignored() {
    let mut contents = contents(&[("a", &["x"]), ("gone", &["x"])]);
    assert_eq!(contents.len(), 2);
    let store = attached([pod("a", 1)], &[("a", &["x"]), ("gone", &["x"])]);
    assert_eq!(by(&store, "x"), "a@1");
    contents.remove(key("gone"));
    contents.set(&key("a").to_key(), []).unwrap();
    assert!(contents.is_empty());
}
