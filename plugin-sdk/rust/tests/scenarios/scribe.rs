//! The plugin of `plugin-sdk/scenarios`, whose README describes what it does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use informant_plugin_sdk::prelude::*;
use serde::Deserialize;

const FIELDS: [&str; 3] = ["/metadata/annotations", "/metadata/labels", "/status/phase"];

pub(crate) struct Scribe {
    handled: u64,
    seen: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Pod {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
struct Status {
    phase: Option<String>,
}

impl Pod {
    fn wanted(&self) -> &str {
        self.metadata.annotations.get("do").map_or("", String::as_str)
    }
}

fn phase_of(pod: Option<&Pod>) -> &str {
    pod.and_then(|pod| pod.status.phase.as_deref()).unwrap_or("-")
}

impl Plugin for Scribe {
    fn describe(_: Describe) -> Result<Manifest> {
        let pods = Events::of("v1", "Pod").fields(FIELDS).with_old().changed_only();
        Ok(Manifest::new()
            .events(pods)
            .index("node")
            .indexed(Objects::of("v1", "Pod").fields(["/spec/nodeName"]))
            .metric(Metric::counter("handled", "Calls.").labels(["call"])))
    }

    fn init(_: Init) -> Result<Self> {
        let (handled, seen) = (0, BTreeSet::new());
        Ok(Self { handled, seen })
    }
}

impl EventHandler<Pod> for Scribe {
    fn on_add(&mut self, event: &Event, pod: Pod) -> Result<Action> {
        self.begin("add", event, phase_of(Some(&pod)))?;
        self.act(event, &pod)
    }

    fn on_update(&mut self, event: &Event, old: Option<Pod>, pod: Pod) -> Result<Action> {
        let phases = format!("{} to {}", phase_of(old.as_ref()), phase_of(Some(&pod)));
        self.begin("update", event, &phases)?;
        self.act(event, &pod)
    }

    fn on_delete(&mut self, event: &Event, pod: Deleted<Pod>) -> Result<Action> {
        self.begin("delete", event, phase_of(pod.last.as_ref()))?;
        match pod.last.as_ref().map_or("", Pod::wanted) {
            "never-delete" if event.reason != Reason::Requeue => Err(Failure::permanent("never")),
            "fail-delete" if event.attempt == 0 => Err(Failure::retryable("not yet")),
            _ => Ok(Action::done()),
        }
    }
}

impl SyncHandler for Scribe {
    fn on_synced(&mut self, _: &Synced) -> Result {
        info!("synced with {} pods", store::list("pods").objects::<Value>().count());
        match kv::get_json("never")? {
            Some(true) => Err(Failure::permanent("never")),
            _ => Ok(()),
        }
    }
}

impl IndexFuncs for Scribe {
    type Object = Value;

    fn index(&mut self, _: &ObjectRef, pod: Value) -> Result<IndexValues> {
        Ok(IndexValues::new().with("node", pod["spec"]["nodeName"].as_str()))
    }
}

impl Stateful for Scribe {
    type State = u64;

    fn save(&self) -> Result<u64> {
        Ok(self.handled)
    }

    fn restore(&mut self, handled: u64) -> Result {
        self.handled = handled;
        Ok(())
    }
}

informant_plugin_sdk::export!(Scribe: events, sync, index, state);

impl Scribe {
    fn begin(&mut self, call: &str, event: &Event, phases: &str) -> Result {
        self.handled += 1;
        info!(handled = self.handled; "{call} {event} {phases}");
        kv::set_json("last", &event.to_string())?;
        Ok(metrics::add("handled", 1.0, &[("call", call)])?)
    }

    fn act(&mut self, event: &Event, pod: &Pod) -> Result<Action> {
        let wanted = pod.wanted();
        let is_labeled = pod.metadata.labels.get("seen").is_some_and(|seen| seen == "yes");
        match wanted {
            "fail" if event.attempt < 2 => return Err(Failure::retryable("not yet")),
            "later" if self.seen.insert(event.name.clone()) => {
                return Err(Failure::retry_after("later", Duration::from_secs(30)));
            }
            "never" => return Err(Failure::permanent("never")),
            "label" | "label-fail" if !is_labeled => {
                kube::defer_patch(&kube::of(event)).merge(&json!({ "metadata": { "labels": { "seen": "yes" } } }))?;
                if wanted == "label-fail" && event.attempt == 0 {
                    return Err(Failure::retryable("not yet"));
                }
            }
            "create" => create(event)?,
            "again" if event.reason != Reason::RequeueAfter => {
                return Ok(Action::requeue_after(Duration::from_secs(60)));
            }
            "post" => post(event, pod)?,
            "nodes" => neighbors()?,
            _ => {}
        }
        Ok(Action::done())
    }
}

fn create(event: &Event) -> Result {
    let maps = kube::collection("v1/configmaps", &event.namespace);
    let document = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": event.name } });
    match kube::create(&maps).object(&document) {
        Err(error) if error.code == kube::ErrorCode::AlreadyExists => info!("exists"),
        created => drop(created?),
    }
    Ok(())
}

fn post(event: &Event, pod: &Pod) -> Result {
    let url = format!("https://example.com/{}", event.name);
    let body = json!({ "phase": phase_of(Some(pod)) });
    match http::post(url).json(&body).send()?.status() {
        200 => Ok(()),
        status => Err(Failure::retryable(format_args!("answered {status}"))),
    }
}

fn neighbors() -> Result {
    let mut names = Vec::new();
    for pod in store::by_index("pods", "node", "n1")
        .fields(["/metadata/name"])
        .objects::<Value>()
    {
        names.push(pod?.object["metadata"]["name"].as_str().unwrap_or_default().to_owned());
    }
    names.sort_unstable();
    info!("neighbors {}", names.join(","));
    Ok(())
}
