//! Informers over several clusters and kinds.

use super::*;

/// The informer `pods` over two clusters, each with the pod `a/x` in another version.
struct TwoClusters {
    catalog: Catalog,
    east: u32,
    west: u32,
    _writers: [StoreWriter; 2],
}

fn info(cluster: &str, kind: &str, resource: &str) -> SourceInfo {
    SourceInfo {
        informer: "pods".to_owned(),
        cluster: cluster.to_owned(),
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        resource: resource.to_owned(),
        namespace: None,
        namespaced: true,
        partial: false,
    }
}

fn synced_source(catalog: &Catalog, info: SourceInfo, objects: Vec<Object>) -> (u32, StoreWriter) {
    let id = catalog.add_source(info);
    let mut writer = StoreWriter::publishing_to(catalog, id).unwrap();
    let node = informant_cache::PointerIndex::new("node", Pointer::parse("/spec/nodeName").unwrap());
    writer.add_indexers(vec![Box::new(node)]).unwrap();
    writer.replace(objects, ResourceVersion::new("100"), 0);
    writer.publish();
    synced(catalog, id.0);
    (id.0, writer)
}

fn two_clusters() -> TwoClusters {
    let catalog = Catalog::new();
    let source = |cluster, version| {
        let info = info(cluster, "Pod", "v1/pods");
        synced_source(&catalog, info, vec![pod("a", "x", version, "")])
    };
    let ((east, one), (west, two)) = (source("east", 1), source("west", 2));
    TwoClusters {
        catalog: catalog.clone(),
        east,
        west,
        _writers: [one, two],
    }
}

fn reader(catalog: &Catalog) -> StoreReader {
    let informers = [("main".to_owned(), "pods".to_owned())];
    let grants = InformerGrants::new("greeter", &informers);
    StoreReader::new(catalog, &Arc::new(Current::new(grants)), call_time())
}

async fn found(reader: &mut StoreReader, name: &str) -> Option<(u32, String)> {
    let item = reader.find("main".into(), "a".into(), name.into(), Vec::new()).await;
    item.unwrap().unwrap().map(|item| {
        let object: serde_json::Value = serde_json::from_slice(&item.object).unwrap();
        let version = object["metadata"]["resourceVersion"].as_str().unwrap();
        (item.source, version.to_owned())
    })
}

async fn refused(reader: &mut StoreReader) -> String {
    message(
        reader
            .find("main".into(), "a".into(), "x".into(), Vec::new())
            .await
            .unwrap(),
    )
}

#[tokio::test]
async fn find_reads_the_cluster_of_the_call() {
    let clusters = two_clusters();
    let mut reader = reader(&clusters.catalog);
    for (source, version) in [(clusters.east, "1"), (clusters.west, "2")] {
        reader.begin(call_about(Some(source), Ok(())));
        assert_eq!(found(&mut reader, "x").await, Some((source, version.to_owned())));
        assert_eq!(found(&mut reader, "missing").await, None);
    }
}

#[tokio::test]
async fn find_without_an_object_needs_one_cluster() {
    let clusters = two_clusters();
    let mut reader = reader(&clusters.catalog);
    reader.begin(call_about(None, Ok(())));
    insta::assert_snapshot!(refused(&mut reader).await, @r#"ErrorCode::Invalid: this call is about no object, and the informer "main" reads several clusters (east, west): choose a source and use get"#);
    clusters.catalog.remove_source(SourceId(clusters.west));
    assert_eq!(found(&mut reader, "x").await, Some((clusters.east, "1".to_owned())));
}

#[tokio::test]
async fn a_removed_cluster_is_not_taken_for_the_only_one() {
    let clusters = two_clusters();
    let mut reader = reader(&clusters.catalog);
    reader.begin(call_about(Some(clusters.west), Ok(())));
    clusters.catalog.remove_source(SourceId(clusters.west));
    insta::assert_snapshot!(refused(&mut reader).await, @"ErrorCode::NotFound: source 2 does not exist or was removed; look up the informer's sources again");
}

#[tokio::test]
async fn find_over_several_kinds_is_invalid() {
    let clusters = two_clusters();
    let nodes = info("east", "Node", "v1/nodes");
    let (_, _writer) = synced_source(&clusters.catalog, nodes, Vec::new());
    let mut reader = reader(&clusters.catalog);
    reader.begin(call_about(Some(clusters.east), Ok(())));
    insta::assert_snapshot!(refused(&mut reader).await, @r#"ErrorCode::Invalid: the informer "main" has several kinds (v1/pods, v1/nodes …): choose a source and use get"#);
    reader.begin(call_about(Some(clusters.west), Ok(())));
    assert!(
        found(&mut reader, "x").await.is_some(),
        "in this cluster there is one kind"
    );
}

#[tokio::test]
async fn a_query_reads_only_the_selected_sources() {
    let clusters = two_clusters();
    let mut reader = reader(&clusters.catalog);
    let of = |sources: Vec<u32>| Query { sources, ..query() };
    let page = list(&mut reader, of(Vec::new())).await.unwrap();
    assert_eq!(page.items.len(), 2);
    let page = list(&mut reader, of(vec![clusters.west])).await.unwrap();
    assert_eq!(
        page.items.iter().map(|item| item.source).collect::<Vec<_>>(),
        [clusters.west]
    );
    let keys = reader.keys("main", &[clusters.east], "node", "n1").await.unwrap();
    assert_eq!(keys.iter().map(|key| key.source).collect::<Vec<_>>(), [clusters.east]);
    let other = SourceInfo {
        informer: "nodes".to_owned(),
        ..info("east", "Node", "v1/nodes")
    };
    let other = clusters.catalog.add_source(other).0;
    let mut refused = Vec::new();
    for sources in [vec![99], vec![other], vec![clusters.east; 3]] {
        refused.push(message(list(&mut reader, of(sources)).await));
    }
    insta::assert_snapshot!(refused.join("\n"), @r#"
    ErrorCode::NotFound: sources: 99 is not a source of the informer "main"; call sources again
    ErrorCode::Invalid: sources: 3 is not a source of the informer "main"; call sources again
    ErrorCode::Invalid: sources: more than the 2 of the informer "main"; list each once
    "#);
}

#[tokio::test]
async fn a_source_that_was_removed_meanwhile_is_not_found() {
    let clusters = two_clusters();
    let mut reader = reader(&clusters.catalog);
    let both = vec![clusters.east, clusters.west];
    clusters.catalog.swap_listed(&[SourceId(clusters.west)], &[]);
    let query = || Query {
        sources: both.clone(),
        ..query()
    };
    let replaced = message(list(&mut reader, query()).await);
    clusters.catalog.remove_source(SourceId(clusters.west));
    let removed = message(list(&mut reader, query()).await);
    assert_eq!(replaced, removed);
    assert!(removed.starts_with("ErrorCode::NotFound: sources: 2"), "{removed}");
}

#[tokio::test]
async fn a_list_of_sources_without_end_is_refused_quickly() {
    let clusters = two_clusters();
    for _ in 0..1_000 {
        clusters.catalog.add_source(info("west", "Pod", "v1/pods"));
    }
    let mut reader = reader(&clusters.catalog);
    let query = Query {
        sources: vec![clusters.catalog.last_id().0; 4_000_000],
        ..query()
    };
    let began = std::time::Instant::now();
    let refused = message(list(&mut reader, query).await);
    assert!(refused.contains("list each once"), "{refused}");
    assert!(
        began.elapsed() < std::time::Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn sources_tell_their_state_and_address() {
    let clusters = two_clusters();
    clusters
        .catalog
        .source(SourceId(clusters.west))
        .unwrap()
        .set_state(SourceState::Stale);
    let mut reader = reader(&clusters.catalog);
    let sources = reader.sources("main".into()).unwrap().unwrap();
    insta::assert_debug_snapshot!(sources, @r#"
    [
        SourceInfo {
            id: 1,
            state: SourceState::Live,
            informer: "main",
            cluster: "east",
            api-version: "v1",
            kind: "Pod",
            resource: "v1/pods",
            namespace: None,
            namespaced: true,
            partial: false,
        },
        SourceInfo {
            id: 2,
            state: SourceState::Stale,
            informer: "main",
            cluster: "west",
            api-version: "v1",
            kind: "Pod",
            resource: "v1/pods",
            namespace: None,
            namespaced: true,
            partial: false,
        },
    ]
    "#);
}

#[tokio::test]
async fn init_denies_every_read() {
    let clusters = two_clusters();
    let mut reader = reader(&clusters.catalog);
    reader.begin(call_about(None, Err("not in init")));
    assert_eq!(refused(&mut reader).await, "ErrorCode::NotHere: not in init");
    reader.begin(call_about(Some(clusters.east), Ok(())));
    assert!(found(&mut reader, "x").await.is_some());
}
