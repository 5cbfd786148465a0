//! Test guest: the conformance kit in Rust. `tests/guests/README.md` describes what it does.

use std::time::Duration;

use informant_plugin_sdk::ErrorCode;
use informant_plugin_sdk::prelude::*;
use serde::Deserialize;
use serde_json::json;

/// Longer texts are not logged, in bytes.
const SHOWN_MAX: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    payload: String,
    old: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            payload: "whole".to_owned(),
            old: "no".to_owned(),
        }
    }
}

/// What a pod of the kit has. Each part may be left out of the payload.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Pod {
    metadata: Option<Metadata>,
    spec: Option<Spec>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    annotations: Annotations,
}

#[derive(Deserialize, Default)]
struct Annotations {
    #[serde(default)]
    r#do: String,
}

#[derive(Deserialize)]
struct Spec {
    text: Option<String>,
}

impl Pod {
    fn text(&self) -> &str {
        let text = self.spec.as_ref().and_then(|spec| spec.text.as_deref());
        text.unwrap_or("-")
    }

    fn action(&self) -> &str {
        self.metadata.as_ref().map_or("", |metadata| &metadata.annotations.r#do)
    }

    fn parts(&self) -> &'static str {
        match (&self.metadata, &self.spec) {
            (Some(_), Some(_)) => "metadata+spec",
            (Some(_), None) => "metadata",
            (None, Some(_)) => "spec",
            (None, None) => "nothing",
        }
    }
}

struct Conformance {
    calls: u64,
}

impl Plugin for Conformance {
    fn describe(describe: Describe) -> Result<Manifest> {
        let Config { payload, old } = describe.config()?;
        let rule = Events::all();
        let rule = match payload.as_str() {
            "metadata" => rule.metadata(),
            "none" => rule.payload_none(),
            pointer if pointer.starts_with('/') => rule.fields([pointer]),
            _ => rule,
        };
        let rule = if old == "yes" { rule.with_old() } else { rule };
        Ok(Manifest::new()
            .parallel()
            .events(rule)
            .index("text")
            .metric(Metric::counter("seen", "Seen texts").labels(["text"]))
            .metric(Metric::gauge("bytes", "Bytes of the last text"))
            .metric(Metric::histogram("sizes", "Bytes of texts").buckets([2.0, 4.0]))
            .metric(Metric::gauge("last", "The last object").labels(["name"])))
    }

    fn init(_: Init) -> Result<Self> {
        Ok(Self { calls: 0 })
    }
}

impl Conformance {
    fn handle(&mut self, call: &str, event: &Event, old: Option<&Pod>, pod: &Pod) -> Result<Action> {
        self.calls += 1;
        info!(
            "{} {call} {event} {} {} old={} sees={} text={}",
            self.calls,
            event.reason,
            event.attempt,
            shown(old.map_or("-", Pod::text)),
            pod.parts(),
            shown(pod.text()),
        );
        act(event, pod)
    }
}

fn shown(text: &str) -> String {
    if text.len() > SHOWN_MAX {
        return text.len().to_string();
    }
    text.to_owned()
}

fn act(event: &Event, pod: &Pod) -> Result<Action> {
    let is_first = event.attempt == 0;
    let action = pod.action();
    let after = action.strip_prefix("defer-");
    if after.is_some() {
        defer(event);
    }
    match after.unwrap_or(action) {
        "retryable" if is_first => return Err(Failure::retryable(pod.text())),
        "retry-after" if is_first => return Err(Failure::retry_after(pod.text(), Duration::from_millis(50))),
        "permanent" => return Err(Failure::permanent(pod.text())),
        "trap" if is_first => panic!("asked to trap"),
        "requeue" if event.reason != Reason::RequeueAfter => {
            return Ok(Action::requeue_after(Duration::from_millis(100)));
        }
        "read" => read()?,
        "patch" => patch(event),
        "call" => call(event, pod)?,
        "remember" => remember(event, pod)?,
        "measure" => measure(event, pod)?,
        "defer" => defer(event),
        _ => {}
    }
    Ok(Action::done())
}

fn read() -> Result {
    let peer = store::get::<Pod>("pods", "default", "peer")?;
    let listed = texts(store::list("pods"))?;
    let keys = store::index_keys("pods", "namespace", "default").keys()?.len();
    let everywhere = texts(store::list("pods").all_clusters())?;
    let found = peer.as_ref().map_or("-", Pod::text);
    info!("found={found} listed={listed} keys={keys} everywhere={everywhere}");
    Ok(())
}

fn texts(query: store::Query<'_>) -> Result<String> {
    let texts = query.objects::<Pod>().map(|pod| Ok(pod?.object.text().to_owned()));
    Ok(texts.collect::<Result<Vec<_>>>()?.join(","))
}

fn remember(event: &Event, pod: &Pod) -> Result {
    let count = kv::get_json("count")?.unwrap_or(0) + 1;
    kv::set_json("count", &count)?;
    let is_new = kv::set_if_absent(&format!("seen/{}", event.name), "true")?;
    let keys = kv::keys("seen/").collect::<Result<Vec<_>, _>>()?.join(",");
    info!("remembered={count} new={is_new} keys={keys}");
    match (event.attempt, pod.text()) {
        (0, "fails") => Err(Failure::retryable("fails")),
        _ => Ok(()),
    }
}

/// Changes a metric of each type, and one that the manifest lacks.
fn measure(event: &Event, pod: &Pod) -> Result {
    let bytes = pod.text().len() as f64;
    metrics::add("seen", 1.0, &[("text", pod.text())])?;
    metrics::set("bytes", bytes, &[])?;
    metrics::observe("sizes", bytes, &[])?;
    metrics::replace("last", [(1.0, [("name", event.name.as_str())])])?;
    if let Err(error) = metrics::add("undeclared", 1.0, &[]) {
        let code = match error.code {
            ErrorCode::Invalid => "invalid",
            _ => "other",
        };
        info!("undeclared={code}");
    }
    match (event.attempt, pod.text()) {
        (0, "fails") => Err(Failure::retryable("fails")),
        _ => Ok(()),
    }
}

fn call(event: &Event, pod: &Pod) -> Result {
    let request = http::post("http://a.svc/kit")
        .header("content-type", "text/plain")
        .header("x-id", &event.name);
    match request.body(pod.text()).send() {
        Ok(answer) => info!("answered={} {}", answer.status(), answer.text()?),
        Err(error) if error.is_denied() => info!("failed=denied"),
        Err(_) => info!("failed=other"),
    }
    Ok(())
}

fn labeled(event: &Event) -> Value {
    json!({ "metadata": { "uid": event.uid, "labels": { "seen": "yes" } } })
}

fn patch(event: &Event) {
    match kube::patch(&kube::of(event)).merge(&labeled(event)) {
        Ok(_) => info!("patched"),
        Err(error) => info!("{}", error.code),
    }
}

/// Defers a write of each kind.
fn defer(event: &Event) {
    let (pod, at) = (
        kube::of(event),
        kube::object("v1/configmaps", &event.namespace, &event.name),
    );
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": event.name } });
    let outcome = |result: kube::Result<()>| result.map_or_else(|error| error.code.to_string(), |()| "deferred".into());
    let maps = kube::collection("v1/configmaps", &event.namespace);
    let create = outcome(kube::defer_create(&maps).object(&map));
    let update = outcome(kube::defer_update(&at).object(&map));
    let patch = outcome(kube::defer_patch(&pod).merge(&labeled(event)));
    let delete = outcome(kube::defer_delete(&pod).send());
    info!("create={create} update={update} patch={patch} delete={delete}");
}

impl EventHandler<Option<Pod>> for Conformance {
    fn on_add(&mut self, event: &Event, pod: Option<Pod>) -> Result<Action> {
        self.handle("add", event, None, &pod.unwrap_or_default())
    }

    fn on_update(&mut self, event: &Event, old: Option<Option<Pod>>, pod: Option<Pod>) -> Result<Action> {
        self.handle("update", event, old.flatten().as_ref(), &pod.unwrap_or_default())
    }

    fn on_delete(&mut self, event: &Event, deleted: Deleted<Option<Pod>>) -> Result<Action> {
        let call = if deleted.final_state_unknown {
            "vanish"
        } else {
            "delete"
        };
        self.handle(call, event, None, &deleted.last.flatten().unwrap_or_default())
    }
}

impl SyncHandler for Conformance {
    fn on_synced(&mut self, synced: &Synced) -> Result {
        let source = store::source(synced.source)?;
        info!(
            reason = synced.reason.as_str(), attempt = synced.attempt;
            "synced {} {}", source.informer, source.cluster
        );
        Ok(())
    }
}

impl IndexFuncs for Conformance {
    type Object = Pod;

    fn index(&mut self, _: &ObjectRef, pod: Pod) -> Result<IndexValues> {
        if pod.action() == "no-index" {
            return Err(Failure::permanent(pod.text()));
        }
        Ok(IndexValues::new().with("text", [pod.text()]))
    }
}

impl Stateful for Conformance {
    type State = u64;

    fn save(&self) -> Result<u64> {
        Ok(self.calls)
    }

    fn restore(&mut self, calls: u64) -> Result {
        self.calls = calls;
        Ok(())
    }
}

export!(Conformance: events, sync, index, state);
