//! The semantics of `resourceVersion` and `resourceVersionMatch` for lists and watches, which both API servers share;
//! and reading your own writes.
//!
//! Source: Kubernetes' API concepts, "Resource versions".

use anyhow::{Context, Result, ensure};
use futures::AsyncBufReadExt;
use http::{Request, header};
use informant_informer::NotFresh;
use informant_object::{KeyRef, ResourceVersion};
use informant_tests::chaos::Mode;
use informant_tests::cluster::Cluster;
use informant_tests::conformance::{ARRIVES_WITHIN, Setting, Testbed};
use informant_tests::objects::version_of;
use serde_json::Value;

use crate::label;

/// A version that no test cluster reaches.
const FAR: u64 = 1_000_000;

pub(crate) async fn list_resource_versions_follow_the_api_conventions(cluster: &Cluster, name: &str) -> Result<()> {
    let testbed = Testbed::prepare(cluster, &label(name), 1).await?;
    let first = version_of(&testbed.create("a", "old").await?);
    let second = version_of(&testbed.change("a", "new").await?);
    let future = second.parse::<u64>()? + FAR;
    let mut wrong = Vec::new();
    // The first list is consistent: every cache that answers later has seen the second version.
    for (query, expected) in [
        (String::new(), "new"),
        ("limit=1".to_owned(), "new"),
        ("resourceVersion=0".to_owned(), "new"),
        ("resourceVersion=0&resourceVersionMatch=NotOlderThan".to_owned(), "new"),
        (format!("resourceVersion={first}"), "new"),
        (
            format!("resourceVersion={first}&resourceVersionMatch=NotOlderThan"),
            "new",
        ),
        (
            format!("resourceVersion={first}&resourceVersionMatch=NotOlderThan&limit=1"),
            "new",
        ),
        (format!("resourceVersion={first}&resourceVersionMatch=Exact"), "old"),
        (
            format!("resourceVersion={first}&resourceVersionMatch=Exact&limit=1"),
            "old",
        ),
        (format!("resourceVersion={first}&limit=1"), "old"),
        (format!("resourceVersion={second}&resourceVersionMatch=Exact"), "new"),
        (
            format!("resourceVersion={future}&resourceVersionMatch=NotOlderThan"),
            "504",
        ),
        ("resourceVersion=abc".to_owned(), "400"),
        ("resourceVersionMatch=Exact".to_owned(), "422"),
        ("resourceVersion=0&resourceVersionMatch=Exact".to_owned(), "422"),
        (format!("resourceVersion={first}&resourceVersionMatch=Newer"), "422"),
        ("sendInitialEvents=true".to_owned(), "422"),
    ] {
        let found = list(&testbed, &query).await?;
        if found != expected {
            wrong.push(format!("list ?{query}: {found}, not {expected}"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

pub(crate) async fn watch_resource_versions_follow_the_api_conventions(cluster: &Cluster, name: &str) -> Result<()> {
    let testbed = Testbed::prepare(cluster, &label(name), 1).await?;
    let first = version_of(&testbed.create("a", "old").await?);
    testbed.change("a", "new").await?;
    // A consistent list: after it, the watch cache has seen the second version.
    list(&testbed, "").await?;
    let mut wrong = Vec::new();
    for (query, expected) in [
        (String::new(), "ADDED new"),
        ("resourceVersion=0".to_owned(), "ADDED new"),
        (format!("resourceVersion={first}"), "MODIFIED new"),
        (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true".to_owned(),
            "ADDED new",
        ),
        (
            format!(
                "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion={first}"
            ),
            "ADDED new",
        ),
        (
            format!("resourceVersion={first}&resourceVersionMatch=NotOlderThan"),
            "422",
        ),
        ("sendInitialEvents=true".to_owned(), "422"),
        ("sendInitialEvents=true&resourceVersionMatch=Exact".to_owned(), "422"),
    ] {
        let found = first_event(&testbed, &query).await?;
        if found != expected {
            wrong.push(format!("watch ?{query}: {found}, not {expected}"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

pub(crate) async fn wait_for_version_reads_own_writes(cluster: &Cluster, name: &str) -> Result<()> {
    let testbed = Testbed::prepare(cluster, &label(name), 1).await?;
    testbed.proxy.set_new(Mode::Slice { bytes_max: 50 });
    let setting = Setting::config_maps(&testbed.namespace);
    let speed = setting.speed;
    let observed = testbed.observe(setting).await?;
    let mut newest = ResourceVersion::default();
    for round in 0..30 {
        let name = format!("own-{}", round % 3);
        let written = match round {
            0..3 => testbed.create(&name, "0").await?,
            _ => testbed.change(&name, &round.to_string()).await?,
        };
        newest = ResourceVersion::new(&version_of(&written));
        let snapshot = observed
            .informer()
            .wait_for_version(&newest, None, ARRIVES_WITHIN * speed)
            .await?;
        let key = KeyRef {
            namespace: &testbed.namespace,
            name: &name,
        };
        let kept = snapshot.get(key).with_context(|| format!("{name} is missing"))?;
        let seen = kept.version().number();
        ensure!(
            seen == newest.number(),
            "{name}: {seen:?} is cached, {newest} was written"
        );
    }
    let number = newest.number().unwrap_or_default();
    let far = ResourceVersion::new(&(number + FAR).to_string());
    let waited = observed
        .informer()
        .wait_for_version(&far, None, speed * ARRIVES_WITHIN / 1_000)
        .await;
    ensure!(matches!(waited, Err(NotFresh::Timeout { .. })), "{waited:?}");
    observed.settle(&testbed.direct).await
}

/// The state of the only object, or the HTTP status of a refusal.
async fn list(testbed: &Testbed, query: &str) -> Result<String> {
    let list = match testbed
        .direct
        .get(&format!("{}?{query}", testbed.config_maps("")))
        .await
    {
        Ok(list) => list,
        Err(error) => return refusal(error),
    };
    let value = list.pointer("/items/0/data/value").and_then(Value::as_str);
    Ok(value.unwrap_or("nothing").to_owned())
}

/// Type and value of the first event of a watch, or the HTTP status of a refusal.
async fn first_event(testbed: &Testbed, query: &str) -> Result<String> {
    let path = format!("{}?watch=true&timeoutSeconds=5&{query}", testbed.config_maps(""));
    let request = Request::get(path)
        .header(header::ACCEPT_ENCODING, "identity")
        .body(Vec::new())?;
    let stream = match testbed.direct.kube().request_stream(request).await {
        Ok(stream) => stream,
        Err(error) => return refusal(error.into()),
    };
    let mut line = String::new();
    std::pin::pin!(stream).read_line(&mut line).await?;
    let event: Value = serde_json::from_str(&line).with_context(|| format!("{line:?}"))?;
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    Ok(format!("{} {}", text("/type"), text("/object/data/value")))
}

fn refusal(error: anyhow::Error) -> Result<String> {
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => Ok(status.code.to_string()),
        _ => Err(error),
    }
}
