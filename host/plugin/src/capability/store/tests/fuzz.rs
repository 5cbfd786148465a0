//! Queries against a naive search.

use std::collections::BTreeSet;

use informant_fuzz::{Document, corpus, documents, fuzz};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::*;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Asked {
    /// The value in the index `node`; none: all objects.
    node: Option<String>,
    namespace: Option<String>,
    label_selector: String,
    pointers: Vec<String>,
    limit: u32,
    cursor: String,
    options: Document,
}

/// Whether a selector matches the object with this name.
type Matches = fn(&str) -> bool;

/// The label `app` of an object is its name.
const SELECTORS: [(&str, Matches); 6] = [
    ("", |_| true),
    ("app=p1", |name| name == "p1"),
    ("app in (p1, p3)", |name| matches!(name, "p1" | "p3")),
    ("app notin (p1)", |name| name != "p1"),
    ("!app", |_| false),
    ("app,app!=p2", |name| name != "p2"),
];

fn asked() -> impl Strategy<Value = Asked> {
    let word = |known: &'static [&'static str]| prop_oneof![6 => select(known).prop_map(str::to_owned), 1 => ".{0,10}"];
    let selector = prop_oneof![
        6 => select(&SELECTORS[..]).prop_map(|(text, _)| text.to_owned()),
        1 => "[a-z!=, ()]{0,12}",
    ];
    let pointer = word(&[
        "/metadata/name",
        "/metadata",
        "/spec/*",
        "/spec/nodeName",
        "/none",
        "no pointer",
        "/a~2",
    ]);
    let options =
        prop_oneof![6 => Just(Document::Text(String::new())), 1 => documents(&["{}", r#"{"limit":1}"#, "[]"])];
    (
        option::of(word(&["n1", "n2"])),
        option::of(word(&["a", "b", "c", ""])),
        selector,
        vec(pointer, 0..3),
        prop_oneof![0_u32..5, Just(u32::MAX)],
        prop_oneof![3 => Just(String::new()), 1 => word(&["0/a/p1", "0/b/", "1/a/p1", "9/z/z", "0", "/", "-1/a/b"])],
        options,
    )
        .prop_map(
            |(node, namespace, label_selector, pointers, limit, cursor, options)| Asked {
                node,
                namespace,
                label_selector,
                pointers,
                limit,
                cursor,
                options,
            },
        )
}

fn objects() -> Vec<Object> {
    let keys = ["a", "ab", "b"]
        .into_iter()
        .flat_map(|namespace| (0..4).map(move |number| (namespace, number)));
    keys.map(|(namespace, number)| pod(namespace, &format!("p{number}"), 1, "x"))
        .collect()
}

/// The keys that a query finds. None if it is invalid.
fn expected(asked: &Asked, source: u32) -> Option<Vec<String>> {
    let options = asked.options.bytes();
    let has_no_options =
        options.is_empty() || serde_json::from_slice::<Value>(options).ok() == Some(Value::Object(<_>::default()));
    let position = match asked.cursor.as_str() {
        "" => None,
        cursor => {
            let (of, key) = cursor.split_once('/')?;
            key.split_once('/')?;
            Some((of.parse::<u32>().ok()?, key))
        }
    };
    let pointers: Result<Vec<_>, _> = asked.pointers.iter().map(|text| Pointer::parse(text)).collect();
    let is_known = SELECTORS.iter().find(|(text, _)| *text == asked.label_selector);
    let selector = LabelSelector::parse(&asked.label_selector).ok()?;
    if !has_no_options || pointers.is_err() {
        return None;
    }
    let found = objects().into_iter().filter(|object| {
        let key = (object.namespace(), object.name());
        let is_after = position.is_none_or(|(of, after)| {
            let after = after.split_once('/').unwrap();
            of < source || (of == source && key > after)
        });
        is_after
            && asked
                .namespace
                .as_deref()
                .is_none_or(|namespace| namespace == object.namespace())
            && asked.node.as_deref().is_none_or(|node| node == "n1")
            && is_known.map_or_else(|| selector.matches(object), |(_, matches)| matches(object.name()))
    });
    Some(
        found
            .map(|object| format!("{}/{}", object.namespace(), object.name()))
            .collect(),
    )
}

async fn answered(reader: &mut StoreReader, asked: &Asked, cursor: String) -> Answer<Page> {
    let query = Query {
        sources: Vec::new(),
        namespace: asked.namespace.clone(),
        label_selector: asked.label_selector.clone(),
        pointers: asked.pointers.clone(),
        limit: asked.limit,
        cursor,
        options: asked.options.bytes().to_vec(),
    };
    match asked.node.clone() {
        Some(node) => reader
            .by_index("main".to_owned(), "node".to_owned(), node, query)
            .await
            .unwrap(),
        None => reader.list("main".to_owned(), query).await.unwrap(),
    }
}

/// The keys on all pages from the query's cursor on.
async fn pages(reader: &mut StoreReader, asked: &Asked) -> Answer<Vec<Item>> {
    let (mut items, mut cursor) = (Vec::new(), asked.cursor.clone());
    loop {
        let page = answered(reader, asked, cursor).await?;
        assert!(asked.limit == 0 || page.items.len() <= asked.limit as usize);
        items.extend(page.items);
        cursor = page.cursor;
        if cursor.is_empty() {
            return Ok(items);
        }
    }
}

#[test]
fn pages_of_any_query_are_what_a_search_finds() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let cache = Cache::new().with(objects());
    fuzz(corpus!("store"), asked(), |asked| {
        let found = runtime.block_on(pages(&mut cache.reader(), asked));
        match (found, expected(asked, cache.source)) {
            (Ok(items), Some(keys)) => {
                prop_assert_eq!(items.len(), keys.len());
                for (item, key) in items.iter().zip(keys) {
                    let object: Value = serde_json::from_slice(&item.object).unwrap();
                    prop_assert_eq!(&object["kind"], "Pod");
                    let (_, name) = key.split_once('/').unwrap();
                    let has_name =
                        asked.pointers.is_empty() || asked.pointers.iter().any(|text| text == "/metadata/name");
                    prop_assert!(!has_name || object["metadata"]["name"] == name);
                }
            }
            (Err(error), None) => prop_assert!(error.code == ErrorCode::Invalid && !error.message.is_empty()),
            (found, expected) => {
                let found = found.map(|items| items.len()).map_err(|error| error.message);
                prop_assert!(false, "found {found:?}, expected {expected:?}");
            }
        }
        Ok(())
    });
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Key {
    informer: String,
    source: u32,
    namespace: String,
    name: String,
    index: String,
    value: String,
}

#[test]
fn only_what_exists_and_is_granted_is_found() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let cache = Cache::new().with(objects());
    let word = |known: &'static [&'static str]| prop_oneof![4 => select(known).prop_map(str::to_owned), 1 => ".{0,6}"];
    let keys = (
        (word(&["main", "pods"]), prop_oneof![Just(cache.source), any::<u32>()]),
        (word(&["a", "b", ""]), word(&["p0", "p9", ""])),
        (word(&["node", "none"]), word(&["n1", "n2"])),
    );
    let keys = keys.prop_map(|((informer, source), (namespace, name), (index, value))| Key {
        informer,
        source,
        namespace,
        name,
        index,
        value,
    });
    let existing: BTreeSet<_> = objects()
        .iter()
        .map(|object| (object.namespace().to_owned(), object.name().to_owned()))
        .collect();
    fuzz(corpus!("store-key"), keys, |key| {
        let Key {
            informer,
            source,
            namespace,
            name,
            index,
            value,
        } = key.clone();
        let exists = existing.contains(&(namespace.clone(), name.clone()));
        let mut reader = cache.reader();
        let got = runtime
            .block_on(reader.get(source, namespace.clone(), name.clone(), Vec::new()))
            .unwrap();
        prop_assert_eq!(got.is_ok(), source == cache.source);
        prop_assert_eq!(
            got.is_ok_and(|object| object.is_some()),
            exists && source == cache.source
        );
        let found = runtime
            .block_on(reader.find(informer.clone(), namespace, name, Vec::new()))
            .unwrap();
        prop_assert_eq!(found.is_ok(), informer == "main");
        prop_assert_eq!(found.is_ok_and(|item| item.is_some()), exists && informer == "main");
        let indexed = runtime
            .block_on(reader.index_keys(informer.clone(), vec![source], index.clone(), value.clone()))
            .unwrap();
        let is_valid = informer == "main" && source == cache.source && index == "node";
        prop_assert_eq!(indexed.is_ok(), is_valid);
        let count = indexed.map_or(0, |keys| keys.len());
        prop_assert_eq!(count, if is_valid && value == "n1" { existing.len() } else { 0 });
        let values = runtime
            .block_on(reader.index_values(informer, Vec::new(), index, value.clone(), 0))
            .unwrap();
        let is_rest = |values: &Vec<String>| values.iter().all(|found| found == "n1" && *found > value);
        prop_assert!(values.is_err() || values.is_ok_and(|values| is_rest(&values)));
        Ok(())
    });
}
