//! The shorter code blocks of the guide, in a context in which they compile.

use std::collections::BTreeMap;

use informant_plugin_sdk::prelude::*;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Deserialize)]
struct Node {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Pod {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    image: String,
}

struct Modest;

impl Plugin for Modest {
    fn describe() -> Manifest {
        Manifest::new()
            .events(
                Events::of("v1", "Pod")
                    .fields(["/status/phase", "/metadata/labels"])
                    .changed_only(),
            )
            .events(Events::of("apps/v1", "*").metadata())
    }

    fn init(_: Init) -> Result<Self> {
        Ok(Self)
    }
}

impl EventHandler for Modest {
    type Object = Raw;

    fn on_upsert(&mut self, event: &Event, _: Raw) -> Result {
        for pod in store::list("pods")
            .namespace("web")
            .labels("app in (a, b)")
            .objects::<Pod>()
        {
            info!("there is {}", pod?.object.metadata.name);
        }
        let nginx = store::index_keys("pods", "image", "nginx:1.25")?;
        let node = node(event, "node-1")?;
        info!(
            "on {}, with {} others",
            node.map(|node| node.metadata.name).unwrap_or_default(),
            nginx.len()
        );
        Ok(())
    }
}

fn node(event: &Event, name: &str) -> Result<Option<Node>> {
    let cluster = &event.source_info()?.cluster;
    for source in store::sources("nodes")? {
        if store::source(source)?.cluster == *cluster {
            return store::get(source, "", name);
        }
    }
    Ok(None)
}

informant_plugin_sdk::export!(Modest: events);

struct Marker;

impl Plugin for Marker {
    fn describe() -> Manifest {
        Manifest::new().needs(Need::kube([Verb::Patch], "v1/pods"))
    }

    fn init(_: Init) -> Result<Self> {
        Ok(Self)
    }
}

impl EventHandler for Marker {
    type Object = Raw;

    fn on_upsert(&mut self, event: &Event, _: Raw) -> Result {
        let cluster = event.source_info()?.cluster.clone();
        let pod = kube::object("v1/pods", &event.namespace, &event.name).in_cluster(cluster);
        let label = json!({ "metadata": { "uid": event.uid, "labels": { "seen": "yes" } } });
        match kube::patch(&pod).merge(&label) {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => Err(error)?,
        }
    }
}

informant_plugin_sdk::export!(Marker: events);

struct ByImage;

impl Plugin for ByImage {
    fn describe() -> Manifest {
        Manifest::new()
            .index("image")
            .indexed(Objects::of("v1", "Pod").fields(["/spec/containers/*/image"]))
    }

    fn init(_: Init) -> Result<Self> {
        Ok(Self)
    }
}

impl IndexFuncs for ByImage {
    type Object = Pod;

    fn index(&mut self, _: &ObjectRef, pod: Pod) -> Result<IndexValues> {
        Ok(IndexValues::new().with(
            "image",
            pod.spec.containers.into_iter().map(|container| container.image),
        ))
    }
}

informant_plugin_sdk::export!(ByImage: index);

struct Counter {
    seen: BTreeMap<String, u64>,
}

impl Plugin for Counter {
    fn init(_: Init) -> Result<Self> {
        Ok(Self { seen: BTreeMap::new() })
    }
}

impl EventHandler for Counter {
    type Object = Raw;

    fn on_upsert(&mut self, event: &Event, _: Raw) -> Result {
        *self.seen.entry(event.uid.clone()).or_default() += 1;
        Ok(())
    }
}

impl Stateful for Counter {
    type State = BTreeMap<String, u64>;

    fn save(&self) -> Result<Self::State> {
        Ok(self.seen.clone())
    }

    fn restore(&mut self, seen: Self::State) -> Result {
        self.seen = seen;
        Ok(())
    }
}

export!(Counter: events, state);
