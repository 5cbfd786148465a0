//! Native indexes: queries, when functions run, and the effect of their errors.

use std::sync::atomic::{AtomicUsize, Ordering};

use informant_object::Pointer;
use insta::assert_snapshot;

use super::*;
use crate::testing::pod_with;
use crate::{INDEX_FAILURES_LISTED_MAX, IndexError, IndexFunc, IndexValues, PointerIndex};

/// An index called `values` by the characters of `/spec/values`; fails on `!`. Counts its calls.
#[derive(Clone, Default)]
struct Characters(Arc<AtomicUsize>);

impl IndexFunc for Characters {
    fn name(&self) -> &str {
        "values"
    }

    fn values(&self, object: &Object, values: &mut IndexValues) -> Result<(), String> {
        self.0.fetch_add(1, Ordering::Relaxed);
        for text in object.pointer(&Pointer::parse("/spec/values").unwrap()) {
            for character in text.chars() {
                values.push(&character.to_string());
            }
            if text.contains('!') {
                return Err(format!("{text:?} has an exclamation mark"));
            }
        }
        Ok(())
    }
}

fn with(name: &str, version: u64, values: &str) -> Object {
    pod_with(name, version, &format!(r#"{{"values":"{values}"}}"#))
}

fn indexed(objects: impl IntoIterator<Item = Object>) -> StoreWriter {
    let mut store = StoreWriter::new();
    store.add_indexers(vec![Box::new(Characters::default())]).unwrap();
    objects.into_iter().for_each(|object| drop(store.add(object)));
    store
}

fn by(store: &mut StoreWriter, value: &str) -> String {
    shown(store.publish().by_index("values", value).unwrap())
}

fn values(store: &mut StoreWriter) -> String {
    store.publish().index_values("values").unwrap().join(" ")
}

/// (`TestMultiIndexKeys`, `TestThreadSafeStoreIndexingFunctionsWithMultipleValues`)
#[test]
fn index_finds_objects_by_current_values_only() {
    let mut store = indexed([with("a", 1, "xyx"), with("b", 2, "y"), with("c", 3, "")]);
    assert_eq!(
        (by(&mut store, "x"), by(&mut store, "y"), by(&mut store, "z")),
        ("a@1".into(), "a@1 b@2".into(), String::new())
    );
    store.add(with("a", 4, "yz"));
    assert_eq!(
        (by(&mut store, "x"), by(&mut store, "y"), by(&mut store, "z")),
        (String::new(), "a@4 b@2".into(), "a@4".into())
    );
    let snapshot = store.publish();
    let keys = snapshot.index_keys("values", "y").unwrap();
    let keys: Vec<String> = keys.map(|key| key.to_string()).collect();
    assert_eq!(keys, ["default/a", "default/b"], "sorted");
}

/// (`TestThreadSafeStoreDeleteRemovesEmptySetsFromIndex`, `TestThreadSafeStoreAddKeepsNonEmptySetPostDelete`,
/// `TestGetIndexFuncValues`)
#[test]
fn unused_value_is_removed_from_the_index() {
    let mut store = indexed([with("a", 1, "xy"), with("b", 2, "y")]);
    assert_eq!(values(&mut store), "x y");
    store.delete(key("a"));
    assert_eq!(values(&mut store), "y");
    store.delete(key("b"));
    assert_eq!(values(&mut store), "");
}

#[test]
fn unknown_index_error_lists_available_indexes() {
    let mut store = indexed([]);
    let snapshot = store.publish();
    let error = snapshot.index_values("nodes").unwrap_err();
    assert_snapshot!(error, @"index with name nodes does not exist; available: namespace, values");
    assert_eq!(snapshot.index_keys("nodes", "n1").map(Iterator::count), Err(error));
    assert!(matches!(
        snapshot.by_index("nodes", "n1").map(Iterator::count),
        Err(IndexError::UnknownIndex { .. })
    ));
    assert_eq!(snapshot.index_names(), ["namespace", "values"]);
}

#[test]
fn every_store_has_the_namespace_index() {
    let mut store = store([
        pod_in("", "node", 1, "{}"),
        pod_in("a", "x", 2, "{}"),
        pod_in("a-b", "y", 3, "{}"),
        pod_in("a", "z", 4, "{}"),
    ]);
    let snapshot = store.publish();
    assert_eq!(shown(snapshot.by_index("namespace", "a").unwrap()), "x@2 z@4");
    assert_eq!(
        shown(snapshot.by_index("namespace", "").unwrap()),
        "node@1",
        "cluster-scoped objects are in no namespace"
    );
    assert_eq!(shown(snapshot.by_index("namespace", "b").unwrap()), "");
    assert_eq!(snapshot.index_values("namespace").unwrap().join(","), ",a,a-b");
    assert_eq!(shown(snapshot.by_index("namespace", "a-b").unwrap()), "y@3");
}

#[test]
fn index_function_runs_once_per_version() {
    let function = Characters::default();
    let calls = || function.0.swap(0, Ordering::Relaxed);
    let mut store = StoreWriter::new();
    store.add_indexers(vec![Box::new(function.clone())]).unwrap();
    let a = with("a", 1, "x");
    store.add(a.clone());
    assert_eq!(calls(), 1);
    store.add(with("a", 2, "y"));
    assert_eq!(calls(), 1, "client-go: 2");
    store.add(with("a", 2, "y"));
    assert_eq!(calls(), 0, "the same version, as a relist shows it");
    store.replace(vec![with("a", 2, "y"), with("b", 3, "z")], version(5), 0);
    assert_eq!(calls(), 1, "b alone");
    store.delete(key("a"));
    assert_eq!(calls(), 0);
    store
        .add_indexers(vec![Box::new(PointerIndex::new(
            "other",
            Pointer::parse("/spec/values").unwrap(),
        ))])
        .unwrap();
    assert_eq!(calls(), 0, "back-filling another index");
}

#[test]
fn same_name_and_version_with_another_uid_is_another_object() {
    let twin = object(
        r#"{"metadata":{"namespace":"default","name":"a","uid":"other","resourceVersion":"1"},"spec":{"values":"z"}}"#,
    );
    let mut store = indexed([with("a", 1, "x")]);
    store.add(twin);
    assert_eq!(values(&mut store), "z");
}

#[test]
fn late_indexes_are_backfilled() {
    let mut store = store([with("a", 1, "xy"), with("b", 2, "y")]);
    store.publish();
    store.add_indexers(vec![Box::new(Characters::default())]).unwrap();
    assert_eq!(by(&mut store, "y"), "a@1 b@2");
    let pointer = PointerIndex::new("whole", Pointer::parse("/spec/values").unwrap());
    store.add_indexers(vec![Box::new(pointer)]).unwrap();
    assert_eq!(shown(store.publish().by_index("whole", "xy").unwrap()), "a@1");
    assert_eq!(by(&mut store, "y"), "a@1 b@2");
    store.delete(key("a"));
    assert_eq!(
        (
            store.publish().index_values("whole").unwrap().join(" "),
            values(&mut store)
        ),
        ("y".into(), "y".into())
    );
}

#[test]
fn name_conflict_adds_none_of_the_indexes() {
    let pointer = |name: &str| -> Box<dyn IndexFunc> {
        Box::new(PointerIndex::new(name, Pointer::parse("/spec/values").unwrap()))
    };
    let mut store = indexed([]);
    let error = store
        .add_indexers(vec![pointer("new"), pointer("values"), pointer("namespace")])
        .unwrap_err();
    assert_snapshot!(error, @"indexer conflict: namespace, values; rename the new index");
    assert!(store.add_indexers(vec![pointer("twice"), pointer("twice")]).is_err());
    assert_eq!(store.publish().index_names(), ["namespace", "values"]);
}

/// (`TestCacheTransactionShouldIndexErrors`; client-go panics on the error)
#[test]
fn object_failing_one_index_is_absent_only_there() {
    let mut store = indexed([with("a", 1, "x"), with("b", 2, "y!"), with("c", 3, "y")]);
    assert_eq!(shown(store.list()), "a@1 b@2 c@3");
    assert_eq!(by(&mut store, "y"), "c@3");
    let failures = |store: &StoreWriter| -> Vec<String> {
        store
            .index_failures("values")
            .unwrap()
            .listed()
            .map(|(key, message)| format!("{key}: {message}"))
            .collect()
    };
    assert_eq!(failures(&store), [r#"default/b: "y!" has an exclamation mark"#]);
    store.add(with("a", 4, "x!"));
    assert_eq!(
        by(&mut store, "x"),
        "",
        "values of the version before are not left behind"
    );
    assert_eq!(store.index_failures("values").unwrap().total(), 2);
    store.add(with("b", 5, "y"));
    store.delete(key("a"));
    assert_eq!(by(&mut store, "y"), "b@5 c@3");
    assert!(failures(&store).is_empty());
    assert_eq!(store.index_failures("values").unwrap().total(), 2);
}

#[test]
fn failures_are_counted_beyond_the_listed_ones() {
    let many = INDEX_FAILURES_LISTED_MAX + 10;
    let mut store = indexed((0..many).map(|number| with(&format!("pod-{number}"), 1, "!")));
    let counts = |store: &StoreWriter| {
        let failures = store.index_failures("values").unwrap();
        (failures.listed().len(), failures.absent(), failures.total())
    };
    assert_eq!(counts(&store), (INDEX_FAILURES_LISTED_MAX, many, many as u64));
    let unlisted = {
        let failures = store.index_failures("values").unwrap();
        let is_listed = |name: &str| failures.listed().any(|(key, _)| key.name() == name);
        let names = (0..many).map(|number| format!("pod-{number}"));
        names.filter(|name| !is_listed(name)).collect::<Vec<_>>()
    };
    store.add(with(&unlisted[0], 2, "!"));
    assert_eq!(
        counts(&store),
        (INDEX_FAILURES_LISTED_MAX, many, many as u64 + 1),
        "one that fails again is one object still"
    );
    store.add(with(&unlisted[0], 3, "x"));
    store.delete(key(&unlisted[1]));
    assert_eq!(counts(&store), (INDEX_FAILURES_LISTED_MAX, many - 2, many as u64 + 1));
}

#[test]
fn snapshot_lists_its_index_failures() {
    let mut store = indexed([with("a", 1, "x"), with("b", 2, "y!")]);
    let before = store.published().clone();
    let absent = |snapshot: &Snapshot| {
        let failures = snapshot.index_failures("values");
        failures.map_or(Vec::new(), |failures| {
            let listed = failures.listed();
            listed.map(|(key, message)| format!("{key}: {message}")).collect()
        })
    };
    assert!(absent(&before).is_empty(), "it was published without them");
    let failing = store.publish();
    assert_eq!(absent(&failing), [r#"default/b: "y!" has an exclamation mark"#]);
    store.add(with("b", 3, "y"));
    assert_eq!(absent(&store.publish()), Vec::<String>::new());
    assert_eq!(absent(&failing).len(), 1, "what was published stays");
    assert!(failing.index_failures("namespace").is_none());
    assert!(failing.index_failures("none").is_none());
}

#[test]
fn an_object_with_too_many_values_counts_as_failed() {
    let many: String = ('\u{4e00}'..).take(crate::INDEX_VALUES_MAX + 1).collect();
    let mut store = indexed([with("a", 1, &many)]);
    assert!(values(&mut store).is_empty());
    assert_eq!(store.index_failures("values").unwrap().absent(), 1);
}

#[test]
fn pointer_with_wildcard_indexes_every_value() {
    let mut store = StoreWriter::new();
    let images = PointerIndex::new("image", Pointer::parse("/spec/containers/*/image").unwrap());
    store.add_indexers(vec![Box::new(images)]).unwrap();
    store.add(pod_with(
        "a",
        1,
        r#"{"containers":[{"image":"nginx:1.25"},{"image":"busy\u0062ox"}]}"#,
    ));
    store.add(pod_with("b", 2, r#"{"containers":[{"image":"nginx:1.25"}]}"#));
    let snapshot = store.publish();
    assert_eq!(shown(snapshot.by_index("image", "nginx:1.25").unwrap()), "a@1 b@2");
    assert_eq!(shown(snapshot.by_index("image", "busybox").unwrap()), "a@1");
    assert_eq!(snapshot.index_values("image").unwrap().join(" "), "busybox nginx:1.25");
}

#[test]
fn snapshot_index_is_immutable() {
    let mut store = indexed([with("a", 1, "x")]);
    let before = store.publish();
    store.add(with("a", 2, "y"));
    let after = store.publish();
    assert_eq!(shown(before.by_index("values", "x").unwrap()), "a@1");
    assert_eq!(before.by_index("values", "y").unwrap().count(), 0);
    assert_eq!(shown(after.by_index("values", "y").unwrap()), "a@2");
    let keys: Vec<String> = after
        .index_keys("values", "y")
        .unwrap()
        .map(|key| key.to_string())
        .collect();
    assert_eq!(keys, ["default/a"]);
}
