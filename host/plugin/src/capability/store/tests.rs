mod clusters;
mod fuzz;
mod heads;

use informant_cache::{SourceInfo, SourceState, StoreWriter};
use informant_object::{Pointer, ResourceVersion, Shape};

use super::page::POINTERS_MAX;
use super::*;
use crate::bindings::informant::plugin::store::Host as _;
use crate::testing::{TokioTime, call_about};

/// The time of a call of at most 10 s.
fn call_time() -> CallTime {
    CallTime::new(Arc::new(TokioTime), std::time::Duration::from_secs(10))
}

/// An informer called `pods` with one source, and a plugin that calls it `main`.
struct Cache {
    catalog: Catalog,
    source: u32,
    writer: StoreWriter,
}

fn pod(namespace: &str, name: &str, version: u64, rest: &str) -> Object {
    let json = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"namespace":"{namespace}","name":"{name}","resourceVersion":"{version}","labels":{{"app":"{name}"}}}},"spec":{{"nodeName":"n1","pad":"{rest}"}}}}"#
    );
    Object::parse(json.as_bytes(), &Shape::of("v1", "Pod")).unwrap()
}

fn add_source(catalog: &Catalog, informer: &str) -> (u32, StoreWriter) {
    let info = SourceInfo {
        informer: informer.to_owned(),
        cluster: String::new(),
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        resource: "v1/pods".to_owned(),
        namespace: None,
        namespaced: true,
        partial: false,
    };
    let id = catalog.add_source(info);
    let mut writer = StoreWriter::publishing_to(catalog, id).unwrap();
    let node = informant_cache::PointerIndex::new("node", Pointer::parse("/spec/nodeName").unwrap());
    writer.add_indexers(vec![Box::new(node)]).unwrap();
    writer.publish();
    (id.0, writer)
}

fn synced(catalog: &Catalog, source: u32) {
    let source = catalog.source(SourceId(source)).unwrap();
    source.set_state(SourceState::Live);
    source.set_synced();
}

impl Cache {
    fn new() -> Cache {
        let catalog = Catalog::new();
        let (source, writer) = add_source(&catalog, "pods");
        synced(&catalog, source);
        Cache {
            catalog,
            source,
            writer,
        }
    }

    fn with(mut self, objects: impl IntoIterator<Item = Object>) -> Cache {
        let objects: Vec<Object> = objects.into_iter().collect();
        self.writer.replace(objects, ResourceVersion::new("100"), 0);
        self.writer.publish();
        self
    }

    fn reader(&self) -> StoreReader {
        let informers = [("main".to_owned(), "pods".to_owned())];
        let grants = InformerGrants::new("greeter", &informers);
        StoreReader::new(&self.catalog, &Arc::new(Current::new(grants)), call_time())
    }
}

fn query() -> Query {
    Query {
        sources: Vec::new(),
        namespace: None,
        label_selector: String::new(),
        pointers: Vec::new(),
        limit: 0,
        cursor: String::new(),
        options: Vec::new(),
    }
}

fn names(page: &Page) -> Vec<String> {
    let name = |item: &store::Item| {
        let object: serde_json::Value = serde_json::from_slice(&item.object).unwrap();
        format!("{}/{}", object["metadata"]["namespace"], object["metadata"]["name"]).replace('"', "")
    };
    page.items.iter().map(name).collect()
}

fn message(answer: Answer<impl std::fmt::Debug>) -> String {
    let error = answer.unwrap_err();
    format!("{:?}: {}", error.code, error.message)
}

async fn list(reader: &mut StoreReader, query: Query) -> Answer<Page> {
    reader.list("main".to_owned(), query).await.unwrap()
}

#[tokio::test]
async fn pages_follow_each_other_without_gaps_whatever_their_size() {
    let all: Vec<Object> = (0..50)
        .map(|number| pod(if number % 2 == 0 { "a" } else { "b" }, &format!("p{number:02}"), 1, ""))
        .collect();
    let cache = Cache::new().with(all);
    let mut reader = cache.reader();
    let everything = names(&list(&mut reader, query()).await.unwrap());
    assert_eq!(everything.len(), 50);
    assert!(everything.is_sorted());
    for limit in [1, 2, 7, 49, 50, 51] {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = list(
                &mut reader,
                Query {
                    limit,
                    cursor,
                    ..query()
                },
            )
            .await
            .unwrap();
            assert!(page.items.len() <= limit as usize && !page.items.is_empty());
            found.extend(names(&page));
            cursor = page.cursor;
            if cursor.is_empty() {
                break;
            }
        }
        assert_eq!(found, everything, "{limit}");
    }
}

#[tokio::test]
async fn a_page_is_limited_to_one_mebibyte_or_one_object() {
    let pad = |bytes: usize| "x".repeat(bytes);
    let cache = Cache::new().with([
        pod("a", "1-small", 1, &pad(600_000)),
        pod("a", "2-small", 1, &pad(300_000)),
        pod("a", "3-large", 1, &pad(3_000_000)),
        pod("a", "4-small", 1, ""),
    ]);
    let mut reader = cache.reader();
    let mut pages = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = list(&mut reader, Query { cursor, ..query() }).await.unwrap();
        pages.push(names(&page));
        cursor = page.cursor;
        if cursor.is_empty() {
            break;
        }
    }
    assert_eq!(
        pages,
        [vec!["a/1-small", "a/2-small"], vec!["a/3-large"], vec!["a/4-small"]]
    );
}

#[tokio::test]
async fn namespaces_selectors_and_pointers_narrow_a_page() {
    let cache = Cache::new().with([
        pod("a", "x", 1, ""),
        pod("a", "y", 1, ""),
        pod("ab", "x", 1, ""),
        pod("b", "x", 1, ""),
    ]);
    let mut reader = cache.reader();
    let of = |namespace: &str| Query {
        namespace: Some(namespace.to_owned()),
        ..query()
    };
    assert_eq!(names(&list(&mut reader, of("a")).await.unwrap()), ["a/x", "a/y"]);
    assert_eq!(names(&list(&mut reader, of("c")).await.unwrap()), [""; 0]);
    let selected = Query {
        label_selector: "app in (x)".to_owned(),
        ..of("a")
    };
    assert_eq!(names(&list(&mut reader, selected).await.unwrap()), ["a/x"]);
    let pointers = Query {
        pointers: vec!["/metadata/name".to_owned()],
        ..of("b")
    };
    let page = list(&mut reader, pointers).await.unwrap();
    insta::assert_snapshot!(String::from_utf8_lossy(&page.items[0].object), @r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}"#);
    let by_index = |namespace: Option<&str>, cursor: &str| Query {
        namespace: namespace.map(str::to_owned),
        cursor: cursor.to_owned(),
        limit: 2,
        ..query()
    };
    let first = reader
        .by_index("main".into(), "node".into(), "n1".into(), by_index(None, ""))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(names(&first), ["a/x", "a/y"]);
    let second = by_index(None, &first.cursor);
    let second = reader
        .by_index("main".into(), "node".into(), "n1".into(), second)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (names(&second), second.cursor.as_str()),
        (vec!["ab/x".to_owned(), "b/x".to_owned()], "")
    );
    let in_b = reader
        .by_index("main".into(), "node".into(), "n1".into(), by_index(Some("b"), ""))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(names(&in_b), ["b/x"]);
}

#[tokio::test]
async fn several_sources_of_an_informer_are_one_list() {
    let cache = Cache::new().with([pod("a", "x", 1, ""), pod("b", "x", 1, "")]);
    let (second, mut writer) = add_source(&cache.catalog, "pods");
    writer.replace(
        vec![pod("a", "x", 2, ""), pod("a", "z", 2, "")],
        ResourceVersion::new("7"),
        0,
    );
    writer.publish();
    let mut reader = cache.reader();
    assert!(message(list(&mut reader, query()).await).starts_with("ErrorCode::NotReady"));
    synced(&cache.catalog, second);
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = list(
            &mut reader,
            Query {
                limit: 1,
                cursor,
                ..query()
            },
        )
        .await
        .unwrap();
        seen.push((page.items[0].source, names(&page).remove(0)));
        cursor = page.cursor;
        if cursor.is_empty() {
            break;
        }
    }
    let expected = [
        (cache.source, "a/x"),
        (cache.source, "b/x"),
        (second, "a/x"),
        (second, "a/z"),
    ];
    assert_eq!(seen, expected.map(|(source, name)| (source, name.to_owned())));
}

#[tokio::test]
async fn unreadable_kinds_of_a_pattern_are_left_out() {
    let cache = Cache::new().with([pod("default", "web", 1, "")]);
    let (kind, _writer) = add_source(&cache.catalog, "pods");
    let source = cache.catalog.source(SourceId(kind)).unwrap();
    let listed = async || list(&mut cache.reader(), query()).await.map(|page| names(&page));

    // Not of a pattern: a namespace, for example.
    for state in [
        SourceState::Syncing,
        SourceState::Forbidden,
        SourceState::WaitingForResource,
    ] {
        source.set_state(state);
        assert!(
            message(listed().await).contains("its initial list is not complete"),
            "{state}"
        );
    }
    source.set_of_pattern();
    for state in [SourceState::Forbidden, SourceState::WaitingForResource] {
        source.set_state(state);
        assert_eq!(listed().await.unwrap(), ["default/web"], "{state}");
        let mut reader = cache.reader();
        assert_eq!(reader.keys("main", &[], "node", "n1").await.unwrap().len(), 1);
        assert_eq!(reader.values("main", &[], "node", "", 0).await.unwrap(), ["n1"]);
    }
    // A plugin that acts on absence must not act on half an answer.
    source.set_state(SourceState::Syncing);
    assert!(message(listed().await).contains("its initial list is not complete"));
}

#[tokio::test]
async fn pattern_without_any_readable_kind_is_not_ready() {
    let catalog = Catalog::new();
    let (kind, writer) = add_source(&catalog, "pods");
    let source = catalog.source(SourceId(kind)).unwrap();
    source.set_of_pattern();
    source.set_state(SourceState::Forbidden);
    let cache = Cache {
        catalog,
        source: kind,
        writer,
    };
    let refused = list(&mut cache.reader(), query()).await;
    assert!(message(refused).contains("is Forbidden"));
}

#[tokio::test]
async fn errors_echo_a_bounded_part_of_arguments() {
    let mut reader = Cache::new().reader();
    let long = "é".repeat(1 << 20);
    let by_index = reader.keys("main", &[], &long, "").await.map(|keys| keys.len());
    let mut errors = vec![
        message(by_index),
        message(reader.snapshots_of(&long, &[]).map(|found| found.len())),
    ];
    for query in [
        Query {
            label_selector: long.clone(),
            ..query()
        },
        Query {
            cursor: long.clone(),
            ..query()
        },
        Query {
            pointers: vec![long.clone()],
            ..query()
        },
    ] {
        errors.push(message(list(&mut reader, query).await.map(|page| names(&page))));
    }
    for error in errors {
        assert!(error.len() < 10_000, "{} bytes", error.len());
    }
}

#[tokio::test]
async fn all_reads_of_one_call_see_one_snapshot() {
    let mut cache = Cache::new().with([pod("a", "x", 1, "")]);
    let mut reader = cache.reader();
    let version = async |reader: &mut StoreReader| {
        let pointers = vec!["/metadata/resourceVersion".into()];
        let object = reader.get(1, "a".into(), "x".into(), pointers).await.unwrap().unwrap();
        let object: serde_json::Value = serde_json::from_slice(&object.unwrap()).unwrap();
        object["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
    };
    assert_eq!(version(&mut reader).await, "1");
    cache.writer.replace(
        vec![pod("a", "x", 2, ""), pod("a", "y", 2, "")],
        ResourceVersion::new("200"),
        0,
    );
    cache.writer.publish();
    assert_eq!(version(&mut reader).await, "1");
    assert_eq!(reader.version(1).unwrap().unwrap().version, "100");
    assert_eq!(names(&list(&mut reader, query()).await.unwrap()), ["a/x"]);
    reader.finish(CallEnd::Succeeded);
    assert_eq!(version(&mut reader).await, "2");
    assert_eq!(reader.version(1).unwrap().unwrap().version, "200");
}

#[tokio::test]
async fn denied_informer_errors_show_the_line_to_add() {
    let cache = Cache::new().with([]);
    let (secret, _writer) = add_source(&cache.catalog, "secrets");
    synced(&cache.catalog, secret);
    let mut reader = cache.reader();
    insta::assert_snapshot!(message(reader.sources("secrets".into()).unwrap()), @r#"ErrorCode::Denied: the informer "secrets" is not granted; in config.toml, set in [plugin.greeter]: informers = { main = "pods", secrets = "secrets" }"#);
    insta::assert_snapshot!(message(reader.sources("pots".into()).unwrap()), @r#"ErrorCode::UnknownInformer: unknown informer "pots"; [plugin.greeter] in config.toml lists: main"#);
    // The informer's own name is not the plugin's name for it.
    insta::assert_snapshot!(message(reader.sources("pods".into()).unwrap()), @r#"ErrorCode::UnknownInformer: unknown informer "pods"; [plugin.greeter] in config.toml lists: main"#);
    insta::assert_snapshot!(message(reader.source(secret).unwrap()), @r#"ErrorCode::Denied: the informer "secrets" is not granted; in config.toml, set in [plugin.greeter]: informers = { main = "pods", secrets = "secrets" }"#);
    for answer in [
        reader
            .get(secret, "a".into(), "x".into(), vec![])
            .await
            .unwrap()
            .map(|_| ()),
        reader.version(secret).unwrap().map(|_| ()),
        reader.list("secrets".into(), query()).await.unwrap().map(|_| ()),
        reader
            .by_index("secrets".into(), "node".into(), "n1".into(), query())
            .await
            .unwrap()
            .map(|_| ()),
        reader
            .index_keys("secrets".into(), Vec::new(), "node".into(), "n1".into())
            .await
            .unwrap()
            .map(|_| ()),
        reader
            .index_values("secrets".into(), Vec::new(), "node".into(), String::new(), 0)
            .await
            .unwrap()
            .map(|_| ()),
    ] {
        assert_eq!(answer.unwrap_err().code, ErrorCode::Denied);
    }
    assert_eq!(reader.source(cache.source).unwrap().unwrap().informer, "main");
    let mut denied = cache.reader();
    denied.begin(call_about(None, Err("not here")));
    assert_eq!(
        message(denied.sources("main".into()).unwrap()),
        "ErrorCode::NotHere: not here"
    );
    assert_eq!(
        message(list(&mut denied, query()).await),
        "ErrorCode::NotHere: not here"
    );
}

#[tokio::test]
async fn malformed_queries_are_errors_and_missing_objects_are_none() {
    let cache = Cache::new().with([pod("a", "x", 1, "")]);
    let mut reader = cache.reader();
    let mut text = String::new();
    for query in [
        Query {
            label_selector: "app in".to_owned(),
            ..query()
        },
        Query {
            cursor: "nonsense".to_owned(),
            ..query()
        },
        Query {
            pointers: vec!["spec".to_owned()],
            ..query()
        },
        Query {
            pointers: vec!["/a".to_owned(); POINTERS_MAX + 1],
            ..query()
        },
    ] {
        text += &message(list(&mut reader, query).await);
        text.push('\n');
    }
    let missing = reader.get(cache.source, "a".into(), "missing".into(), vec![]).await;
    assert_eq!(missing.unwrap().unwrap(), None);
    text += &message(reader.get(99, "a".into(), "x".into(), vec![]).await.unwrap());
    text.push('\n');
    text += &message(
        reader
            .by_index("main".into(), "zone".into(), "z".into(), query())
            .await
            .unwrap(),
    );
    insta::assert_snapshot!(text, @r#"
    ErrorCode::Invalid: label-selector: label selector "app in", byte 6: found the end, expected "("
    ErrorCode::Invalid: cursor: "nonsense" was not returned with a page
    ErrorCode::Invalid: pointers: JSON pointer "spec" does not begin with "/"; write "/spec/nodeName", not "spec.nodeName"
    ErrorCode::Invalid: pointers: 257 were given, at most 256 are allowed
    ErrorCode::NotFound: source 99 does not exist or was removed; call sources again
    ErrorCode::UnknownIndex: index with name zone does not exist; available: namespace, node
    "#);
}

#[tokio::test]
async fn index_keys_and_values_are_sorted_and_bounded() {
    let objects = (0..2_500).map(|number| pod("a", &format!("p{number:04}"), 1, ""));
    let mut cache = Cache::new().with(objects);
    let name = informant_cache::PointerIndex::new("name", Pointer::parse("/metadata/name").unwrap());
    cache.writer.add_indexers(vec![Box::new(name)]).unwrap();
    cache.writer.publish();
    let mut reader = cache.reader();
    let keys = reader
        .index_keys("main".into(), Vec::new(), "node".into(), "n1".into())
        .await
        .unwrap()
        .unwrap();
    assert_eq!((keys.len(), keys[0].name.as_str()), (2_500, "p0000"));
    let (mut values, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = reader
            .index_values("main".into(), Vec::new(), "name".into(), cursor, 0)
            .await
            .unwrap()
            .unwrap();
        assert!(page.len() <= INDEX_VALUES_DEFAULT);
        let Some(last) = page.last().cloned() else { break };
        values.extend(page);
        cursor = last;
    }
    assert_eq!(values.len(), 2_500);
    assert!(values.is_sorted());
}

/// Polls a host call to its end; returns how often it yielded.
fn yields<T>(call: impl Future<Output = T>) -> (usize, T) {
    let mut call = std::pin::pin!(call);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut yields = 0;
    loop {
        match call.as_mut().poll(&mut context) {
            std::task::Poll::Ready(result) => return (yields, result),
            std::task::Poll::Pending => yields += 1,
        }
    }
}

#[test]
fn searches_yield_at_least_every_1024_objects() {
    const OBJECTS: usize = 5_000;
    let cache = Cache::new().with((0..OBJECTS).map(|number| pod("a", &format!("p{number:04}"), 1, "")));
    let mut reader = cache.reader();
    let unmatched = || Query {
        label_selector: "app=none".to_owned(),
        ..query()
    };
    let (listed, _) = yields(reader.list("main".to_owned(), unmatched()));
    let of = || ("main".to_owned(), "node".to_owned(), "n1".to_owned());
    let (informer, index, value) = of();
    let (found, _) = yields(reader.by_index(informer, index, value, unmatched()));
    let (informer, index, value) = of();
    let (keyed, keys) = yields(reader.index_keys(informer, Vec::new(), index, value));
    assert_eq!(keys.unwrap().unwrap().len(), OBJECTS);
    for count in [listed, found, keyed] {
        assert!(count >= OBJECTS / 1_024, "{count}");
    }
}

#[test]
fn index_values_yield_and_continue_after_the_cursor() {
    const NAMESPACES: usize = 5_000;
    let cache = Cache::new().with((0..NAMESPACES).map(|number| pod(&format!("n{number:04}"), "p", 1, "")));
    let mut reader = cache.reader();
    let mut page = |cursor: &str, limit| {
        let (informer, index) = ("main".to_owned(), "namespace".to_owned());
        let (yielded, values) = yields(reader.index_values(informer, Vec::new(), index, cursor.to_owned(), limit));
        (yielded, values.unwrap().unwrap())
    };
    let (yielded, all) = page("", 10_000);
    assert_eq!(all.len(), NAMESPACES);
    assert!(yielded >= NAMESPACES / 1_024, "{yielded}");
    let (yielded, last) = page("n4997", 10);
    assert_eq!(last, ["n4998", "n4999"]);
    assert_eq!(yielded, 0, "values before the cursor are not examined");
}

/// Compares pages within one run, so that the machine's speed does not matter.
#[test]
fn late_pages_of_an_index_cost_no_more() {
    const OBJECTS: usize = 20_000;
    let cache = Cache::new().with((0..OBJECTS).map(|number| pod("a", &format!("p{number:05}"), 1, "")));
    let mut reader = cache.reader();
    let mut pages = |first: usize| {
        let begin = std::time::Instant::now();
        for page in 0..200 {
            let q = Query {
                limit: 1,
                cursor: format!("{}/a/p{:05}", cache.source, first + page),
                ..query()
            };
            let (informer, index) = ("main".to_owned(), "node".to_owned());
            let (_, page) = yields(reader.by_index(informer, index, "n1".to_owned(), q));
            assert_eq!(page.unwrap().unwrap().items.len(), 1);
        }
        begin.elapsed()
    };
    let (early, late) = (pages(0), pages(OBJECTS - 300));
    assert!(late < early * 20, "{late:?} against {early:?}");
}

#[tokio::test]
async fn call_remembers_what_it_read_too_early() {
    let catalog = Catalog::new();
    let (source, writer) = add_source(&catalog, "pods");
    let mut cache = Cache {
        catalog,
        source,
        writer,
    };
    let id = SourceId(source);
    let mut reader = cache.reader();
    assert!(!reader.version(source).unwrap().unwrap().synced);
    assert_eq!(reader.awaited(), None, "an answer is no error");
    assert!(list(&mut reader, query()).await.is_err());
    assert_eq!(reader.awaited(), Some(Awaited::Source(id)));
    synced(&cache.catalog, source);
    cache.writer.declare_index("app").unwrap();
    cache.writer.publish();
    reader.begin(call_about(None, Ok(())));
    assert_eq!(reader.awaited(), None);
    assert!(reader.keys("main", &[], "app", "web").await.is_err());
    assert_eq!(reader.awaited(), Some(Awaited::Index(id)));
    reader.begin(call_about(None, Ok(())));
    let loading = cache.catalog.expect_indexes("pods");
    let answer = message(reader.keys("main", &[], "later", "web").await);
    assert_eq!(
        answer,
        "ErrorCode::NotReady: index later is not ready: a plugin, which may compute it, is being loaded"
    );
    assert_eq!(reader.awaited(), Some(Awaited::Index(id)));
    drop(loading);
    let answer = message(reader.keys("main", &[], "later", "web").await);
    assert!(answer.starts_with("ErrorCode::UnknownIndex"), "{answer}");
}
