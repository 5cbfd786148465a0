//! The store's rules one by one. Names in parentheses are client-go's tests of the same rule.

mod external;
mod indexes;
mod model;
mod readers;
mod shed;

use std::sync::Arc;

use informant_object::{KeyRef, LabelSelector, Object, Pointer};

use super::{GARBAGE_ROOTS_MAX, Snapshot, StoreWriter, stored_bytes};
use crate::testing::{object, pod, pod_in, version};
use crate::{Catalog, PointerIndex, SourceInfo, SourceState};

fn key(name: &str) -> KeyRef<'_> {
    KeyRef::new("default", name)
}

/// `a@1 b@2`
fn shown<'a>(objects: impl IntoIterator<Item = &'a Object>) -> String {
    let each: Vec<String> = objects
        .into_iter()
        .map(|object| format!("{}@{}", object.name(), object.version()))
        .collect();
    each.join(" ")
}

fn store(objects: impl IntoIterator<Item = Object>) -> StoreWriter {
    let mut store = StoreWriter::new();
    for object in objects {
        store.add(object);
    }
    store
}

#[test]
fn writes_return_the_previous_object() {
    let mut store = StoreWriter::new();
    assert!(store.add(pod("a", 1)).is_none());
    assert_eq!(store.add(pod("a", 2)).unwrap().version().as_str(), "1");
    assert_eq!(store.get_by_key(key("a")).unwrap().version().as_str(), "2");
    assert_eq!(store.delete(key("a")).unwrap().version().as_str(), "2");
    assert!(store.delete(key("a")).is_none(), "deleting what is absent is no error");
    assert!(store.get_by_key(key("a")).is_none());
    assert!(store.is_empty());
}

#[test]
fn objects_and_keys_are_listed_by_namespace_and_name() {
    let store = store([
        pod("b", 1),
        pod_in("a-b", "z", 2, "{}"),
        pod("a", 3),
        pod_in("a", "y", 4, "{}"),
        pod_in("", "node", 5, "{}"),
    ]);
    assert_eq!(shown(store.list()), "node@5 y@4 z@2 a@3 b@1");
    let keys: Vec<String> = store.list().map(|object| object.key().to_string()).collect();
    assert_eq!(keys, ["node", "a/y", "a-b/z", "default/a", "default/b"]);
}

#[test]
fn bytes_are_those_of_the_objects_there_are() {
    let (small, large) = (
        pod("a", 1),
        pod_in("default", "a", 2, r#"{"nodeName":"a-rather-long-name-for-a-node"}"#),
    );
    let mut store = store([small.clone(), pod("b", 1)]);
    let b = stored_bytes(&pod("b", 1));
    assert_eq!(store.bytes(), stored_bytes(&small) + b);
    store.add(large.clone());
    assert_eq!(store.bytes(), stored_bytes(&large) + b);
    store.delete(key("a"));
    assert_eq!(store.publish().bytes(), b);
}

#[test]
fn largest_namespaces_are_named_with_their_bytes() {
    let mut store = store([
        pod_in("one", "a", 1, "{}"),
        pod_in("two", "a", 2, "{}"),
        pod_in("two", "b", 3, "{}"),
        pod_in("gone", "a", 4, "{}"),
    ]);
    let large = pod_in("one", "a", 5, r#"{"nodeName":"a-rather-long-name-for-a-node"}"#);
    store.add(large.clone());
    store.delete(KeyRef::new("gone", "a"));
    let two = 2 * stored_bytes(&pod_in("two", "a", 2, "{}"));
    let expected: [(Box<str>, usize); 2] = [("two".into(), two), ("one".into(), stored_bytes(&large))];
    let snapshot = store.publish();
    assert_eq!(snapshot.largest_namespaces(3), expected);
    assert_eq!(snapshot.largest_namespaces(1), expected[..1]);
    let sum: usize = expected.iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(sum, snapshot.bytes());
}

#[test]
fn bytes_held_by_readers_are_those_that_were_replaced() {
    let mut store = store([pod("a", 1), pod("b", 1)]);
    let (first, size) = (store.publish(), stored_bytes(&pod("a", 1)));
    drop(store.take_garbage());
    assert_eq!(store.publish().held_bytes(), 0);
    store.add(pod("a", 2));
    let second = store.publish();
    drop(store.take_garbage());
    assert_eq!(store.published().held_bytes(), size);
    for version in 3..20 {
        store.add(pod("a", version));
        store.publish();
        drop(store.take_garbage());
    }
    // The first snapshot has one state of a, and the second one another.
    assert_eq!(store.published().held_bytes(), 3 * size);
    drop(first);
    assert_eq!(store.published().held_bytes(), 2 * size, "no more than it has");
    drop(second);
    assert_eq!(store.published().held_bytes(), 0);
}

#[test]
fn other_indexes_change_neither_bytes_nor_namespaces() {
    let mut store = store([pod("a", 1), pod_in("two", "b", 2, r#"{"nodeName":"n"}"#)]);
    let reader = store.publish();
    store.add(pod("a", 3));
    store.publish();
    drop(store.take_garbage());
    let node = PointerIndex::new("node", Pointer::parse("/spec/nodeName").unwrap());
    let mut other = store.with_indexers(&[], vec![Box::new(node)]).unwrap();
    while !other.copy_objects(&store, 1) {}
    let (before, after) = (store.published().clone(), other.publish());
    drop((store, other.take_garbage()));
    assert_eq!(after.bytes(), before.bytes());
    assert_eq!(after.largest_namespaces(3), before.largest_namespaces(3));
    assert_eq!(before.index_bytes(), 0);
    assert!(after.index_bytes() > 0);
    drop(before);
    assert_eq!(after.held_bytes(), stored_bytes(&pod("a", 1)));
    drop(reader);
    assert_eq!(after.held_bytes(), 0);
}

#[test]
fn a_replace_leaves_exactly_the_listed_objects() {
    let mut store = store([pod("a", 1), pod("b", 2)]);
    store.replace(vec![pod("b", 3), pod("c", 4), pod("c", 5)], version(9), 0);
    assert_eq!(shown(store.list()), "b@3 c@5");
    assert_eq!(store.version().unwrap().as_str(), "9");
}

#[test]
fn readers_see_writes_atomically_when_published() {
    let mut store = store([pod("a", 1)]);
    let before = store.published().clone();
    assert!(before.is_empty());
    let first = store.publish();
    store.add(pod("a", 2));
    store.add(pod("b", 3));
    assert_eq!(shown(first.iter()), "a@1");
    assert_eq!(shown(store.published().iter()), "a@1");
    let second = store.publish();
    assert_eq!(shown(second.iter()), "a@2 b@3");
    assert_eq!(shown(first.iter()), "a@1", "a snapshot never changes");
    assert_eq!((first.generation(), second.generation()), (1, 2));
}

#[test]
fn a_publish_without_writes_is_the_same_snapshot() {
    let mut store = store([pod("a", 1)]);
    let first = store.publish();
    assert!(first.ptr_eq(&store.publish()));
    store.set_version(version(5), 0);
    let second = store.publish();
    assert!(!first.ptr_eq(&second));
    store.set_version(version(5), 0);
    assert!(second.ptr_eq(&store.publish()));
}

/// (`TestThreadSafeStoreRV`; client-go has no such check, and takes versions from the objects written)
#[test]
fn version_goes_back_only_with_a_new_epoch() {
    let mut store = store([pod("a", 7)]);
    assert!(store.version().is_none());
    store.set_version(version(10), 0);
    store.set_version(version(9), 0);
    assert_eq!(store.version().unwrap().as_str(), "10");
    store.begin_epoch(1);
    assert!(store.version().is_none());
    store.set_version(version(3), 1);
    let snapshot = store.publish();
    assert_eq!((snapshot.version().unwrap().as_str(), snapshot.epoch()), ("3", 1));
}

#[test]
fn dropped_garbage_frees_old_roots() {
    let mut store = store([pod("a", 1)]);
    store.publish();
    drop(store.take_garbage());
    let reader = store.published().clone();
    store.add(pod("a", 2));
    store.publish();
    let garbage = store.take_garbage();
    assert_eq!(garbage.len(), 1);
    assert!(store.take_garbage().is_empty());
    drop(garbage);
    assert_eq!(shown(reader.iter()), "a@1", "a reader keeps what it reads");
}

#[test]
fn untaken_garbage_is_bounded() {
    let mut store = StoreWriter::new();
    for version in 1..=GARBAGE_ROOTS_MAX as u64 + 10 {
        store.add(pod("a", version));
        store.publish();
    }
    assert_eq!(store.take_garbage().len(), GARBAGE_ROOTS_MAX);
    assert_eq!(store.garbage_freed_here(), 10);
}

#[test]
fn deleted_object_is_freed_with_its_last_snapshot() {
    // Inner nodes of the map keep keys of what was there once: they must not be the objects.
    let many: Vec<Object> = (0..500).map(|number| pod(&format!("pod-{number:03}"), 1)).collect();
    let mut store = store(many.iter().cloned());
    store.publish();
    for object in &many {
        store.delete(object.key());
    }
    store.publish();
    drop(store.take_garbage());
    assert_eq!(store.published().len(), 0);
    let handles: Vec<usize> = many.iter().map(Object::handles).collect();
    assert!(handles.iter().all(|&handles| handles == 1), "{handles:?}");
}

#[test]
fn into_garbage_returns_the_whole_store() {
    let a = pod("a", 1);
    let mut store = store([a.clone()]);
    store.publish();
    let garbage = store.into_garbage();
    assert!(a.handles() > 1);
    drop(garbage);
    assert_eq!(a.handles(), 1);
}

/// (`TestListAll`)
#[test]
fn lists_are_limited_by_namespace_and_labels() {
    let labeled = |namespace: &str, name: &str, app: &str| {
        object(&format!(
            r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","resourceVersion":"1","labels":{{"app":"{app}"}}}}}}"#
        ))
    };
    let mut store = store([
        labeled("x", "a", "web"),
        labeled("x", "b", "db"),
        labeled("y", "c", "web"),
    ]);
    let snapshot = store.publish();
    let list = |namespace, selector: &str| {
        let selector = LabelSelector::parse(selector).unwrap();
        shown(snapshot.list(namespace, &selector))
    };
    assert_eq!(list(None, ""), "a@1 b@1 c@1");
    assert_eq!(list(None, "app=web"), "a@1 c@1");
    assert_eq!(list(Some("x"), ""), "a@1 b@1");
    assert_eq!(list(Some("x"), "app=web"), "a@1");
    assert_eq!(list(Some("z"), ""), "");
    assert_eq!(list(Some(""), ""), "");
}

#[test]
fn page_starts_after_the_last_key() {
    let mut store = store(["a", "b", "d"].map(|name| pod(name, 1)));
    let snapshot = store.publish();
    assert_eq!(shown(snapshot.after(None)), "a@1 b@1 d@1");
    assert_eq!(shown(snapshot.after(Some(key("a")))), "b@1 d@1");
    assert_eq!(
        shown(snapshot.after(Some(key("c")))),
        "d@1",
        "the key itself may be gone"
    );
    assert_eq!(shown(snapshot.after(Some(key("d")))), "");
}

#[test]
fn cursor_iterates_its_snapshot_while_the_store_changes() {
    let names: Vec<String> = (0..200).map(|number| format!("pod-{number:03}")).collect();
    let mut store = store(names.iter().map(|name| pod(name, 1)));
    let mut cursor = store.publish().cursor();
    assert_eq!(cursor.len(), 200);
    assert!(!cursor.has_passed(key("a")));
    let mut walked = Vec::new();
    while let Some(object) = cursor.next() {
        assert!(cursor.has_passed(object.key()));
        assert_eq!(cursor.remaining(), 199 - walked.len());
        store.delete(object.key());
        walked.push(object.name().to_owned());
    }
    assert_eq!(walked, names);
    assert!(cursor.next().is_none());
    assert!(
        cursor.has_passed(key("pod-0505")) && !cursor.has_passed(key("pod-200")),
        "keys it never held too"
    );
}

fn info(informer: &str) -> SourceInfo {
    SourceInfo {
        informer: informer.to_owned(),
        cluster: String::new(),
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        resource: "v1/pods".to_owned(),
        namespace: None,
        namespaced: true,
        partial: false,
    }
}

#[test]
fn a_publish_is_seen_through_the_catalog() {
    let catalog = Catalog::new();
    let source = catalog.add_source(info("pods"));
    let mut store = StoreWriter::publishing_to(&catalog, source).unwrap();
    store.add(pod("a", 1));
    assert!(catalog.source(source).unwrap().snapshot().is_empty());
    let snapshot = store.publish();
    assert!(catalog.source(source).unwrap().snapshot().ptr_eq(&snapshot));
    assert_eq!(catalog.source(source).unwrap().status().snapshot.len(), 1);
}

#[test]
fn removed_source_frees_its_objects_despite_holders() {
    let catalog = Catalog::new();
    let source = catalog.add_source(info("pods"));
    let a = pod("a", 1);
    let mut store = StoreWriter::publishing_to(&catalog, source).unwrap();
    store.add(a.clone());
    store.publish();
    let held = catalog.source(source).unwrap();
    let garbage = catalog.remove_source(source).unwrap();
    assert_eq!((held.state(), held.snapshot().len()), (SourceState::Stopped, 0));
    store.add(pod("b", 2));
    store.publish();
    assert!(held.snapshot().is_empty(), "a writer that is late brings nothing back");
    drop((garbage, store.into_garbage()));
    assert_eq!(a.handles(), 1);
    assert!(StoreWriter::publishing_to(&catalog, source).is_err());
}

#[test]
fn writers_are_send_and_snapshots_are_sync() {
    fn moves<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    moves::<(StoreWriter, crate::DeltaFifo, crate::Garbage)>();
    is_shared::<(Snapshot, Catalog, crate::IndexContents)>();
}

#[test]
fn readers_and_the_writer_do_not_block_each_other() {
    let catalog = Catalog::new();
    let source = catalog.add_source(info("pods"));
    let mut store = StoreWriter::publishing_to(&catalog, source).unwrap();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut last = 0;
                    while last < 200 {
                        let snapshot: Snapshot = catalog.source(source).unwrap().snapshot();
                        let versions: Vec<Option<u64>> = snapshot.iter().map(|pod| pod.version().number()).collect();
                        assert!(
                            versions.windows(2).all(|pair| pair[0] == pair[1]),
                            "half of a batch: {versions:?}"
                        );
                        last = versions.first().copied().flatten().unwrap_or(0).max(last);
                    }
                })
            })
            .collect();
        for version in 1..=200 {
            for name in ["a", "b", "c"] {
                store.add(pod(name, version));
            }
            store.publish();
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    assert_eq!(
        Arc::strong_count(&catalog.source(source).unwrap()),
        3,
        "the catalog's, the writer's and this one"
    );
}
