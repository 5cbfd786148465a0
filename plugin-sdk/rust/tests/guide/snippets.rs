//! The shorter code blocks of the guide, in a context in which they compile.

use std::collections::BTreeMap;
use std::time::Duration;

use informant_plugin_sdk::prelude::*;
use serde::Deserialize;

#[derive(Default, Deserialize, Projection)]
struct Metadata {
    name: String,
}

#[derive(Deserialize, Projection)]
#[projection(api_version = "v1", kind = "Node")]
struct Node {
    metadata: Metadata,
}

#[derive(Deserialize, Projection)]
#[projection(api_version = "v1", kind = "Pod")]
struct Pod {
    /// Absent where a manifest asks only for images.
    #[serde(default)]
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize, Projection)]
struct Spec {
    containers: Vec<Container>,
}

#[derive(Deserialize, Projection)]
struct Container {
    image: String,
}

struct Modest;

impl Plugin for Modest {
    fn describe(_: Describe) -> Result<Manifest> {
        Ok(Manifest::new()
            .events(
                Events::of("v1", "Pod")
                    .fields(["/status/phase", "/metadata/labels"])
                    .changed_only(),
            )
            .events(Events::of("apps/v1", "*").metadata()))
    }

    fn init(_: Init) -> Result<Self> {
        Ok(Self)
    }
}

impl EventHandler<Raw> for Modest {
    fn on_upsert(&mut self, _: &Event, _: Raw) -> Result<Action> {
        for pod in store::list("pods")
            .namespace("web")
            .labels("app in (a, b)")
            .objects::<Pod>()
        {
            info!("there is {}", pod?.object.metadata.name);
        }
        let nginx = store::index_keys("pods", "image", "nginx:1.25").keys()?;
        info!("{} pods run nginx", nginx.len());
        let name = "node-1";
        if let Some(node) = store::get::<Node>("nodes", "", name)? {
            info!("there is {}", node.metadata.name);
        }
        let everywhere = store::list("pods").all_clusters().objects::<Pod>().count();
        info!("{everywhere} pods in all clusters");
        Ok(Action::done())
    }
}

informant_plugin_sdk::export!(Modest: events);

struct Marker;

impl Plugin for Marker {
    fn describe(_: Describe) -> Result<Manifest> {
        Ok(Manifest::new().needs(Need::kube([Verb::Patch], "v1/pods")))
    }

    fn init(_: Init) -> Result<Self> {
        Ok(Self)
    }
}

impl EventHandler<Raw> for Marker {
    fn on_upsert(&mut self, event: &Event, _: Raw) -> Result<Action> {
        let label = json!({ "metadata": { "uid": event.uid, "labels": { "seen": "yes" } } });
        match kube::patch(&kube::of(event)).merge(&label) {
            Ok(_) => Ok(Action::done()),
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(Action::done()),
            Err(error) => Err(error)?,
        }
    }
}

informant_plugin_sdk::export!(Marker: events);

/// As [`Marker`], without waiting.
struct Deferrer;

impl Plugin for Deferrer {
    fn init(_: Init) -> Result<Self> {
        Ok(Self)
    }
}

impl EventHandler<Raw> for Deferrer {
    fn on_upsert(&mut self, event: &Event, _: Raw) -> Result<Action> {
        let label = json!({ "metadata": { "labels": { "seen": "yes" } } });
        kube::defer_patch(&kube::of(event)).merge(&label)?;
        Ok(Action::done())
    }
}

informant_plugin_sdk::export!(Deferrer: events);

/// One object for each pod.
struct Owner;

impl Plugin for Owner {
    fn init(_: Init) -> Result<Self> {
        Ok(Self)
    }
}

impl EventHandler for Owner {
    fn on_upsert(&mut self, event: &Event, pod: Value) -> Result<Action> {
        let name = format!("{}-phase", event.name);
        let document = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": name, "ownerReferences": [OwnerReference::owner(event)?] },
            "data": { "phase": pod["status"]["phase"] },
        });
        kube::defer_patch(&kube::object("v1/configmaps", &event.namespace, &name)).apply(&document)?;
        Ok(Action::done())
    }
}

informant_plugin_sdk::export!(Owner: events);

struct ByImage;

impl Plugin for ByImage {
    fn describe(_: Describe) -> Result<Manifest> {
        Ok(Manifest::new()
            .index("image")
            .indexed(Objects::of("v1", "Pod").fields(["/spec/containers/*/image"])))
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

impl EventHandler<Raw> for Counter {
    fn on_upsert(&mut self, event: &Event, _: Raw) -> Result<Action> {
        *self.seen.entry(event.uid.clone()).or_default() += 1;
        Ok(Action::done())
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

struct Watcher;

impl Plugin for Watcher {
    fn describe(_: Describe) -> Result<Manifest> {
        Ok(Manifest::new()
            .events(Events::of_type::<Pod>())
            .events(Events::of_type::<Node>()))
    }

    fn init(_: Init) -> Result<Self> {
        Ok(Self)
    }
}

impl EventHandler<Pod> for Watcher {
    fn on_upsert(&mut self, event: &Event, pod: Pod) -> Result<Action> {
        info!("{event} has {} containers", pod.spec.containers.len());
        Ok(Action::done())
    }
}

impl EventHandler<Node> for Watcher {
    fn on_upsert(&mut self, event: &Event, _: Node) -> Result<Action> {
        info!("{event} is a node");
        Ok(Action::done())
    }
}

export!(Watcher: events(Pod, Node));

struct Patient;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Config {
    label: String,
}

impl Plugin for Patient {
    fn describe(describe: Describe) -> Result<Manifest> {
        let Config { label } = describe.config()?;
        let pods = Events::of("v1", "Pod").label_selector(format!("{label}=yes"));
        Ok(Manifest::new().events(pods))
    }

    fn init(init: Init) -> Result<Self> {
        init.config::<Config>()?;
        Ok(Self)
    }
}

impl EventHandler for Patient {
    fn on_upsert(&mut self, event: &Event, pod: Value) -> Result<Action> {
        if pod["status"]["phase"] == "Pending" {
            info!("{event} is still pending");
            return Ok(Action::requeue_after(Duration::from_secs(60)));
        }
        Ok(Action::done())
    }
}

informant_plugin_sdk::export!(Patient: events);

#[cfg(test)]
mod tests {
    use informant_plugin_sdk::__private::HandleEvents;
    use informant_plugin_sdk::testing::{Cache, Driver};

    use super::*;

    fn pod(name: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "namespace": "web", "name": name, "labels": { "app": "a", "watched": "yes" } },
            "spec": { "containers": [{ "image": "nginx:1.25" }] },
            "status": { "phase": "Pending" },
        })
    }

    fn node() -> Value {
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "node-1" } })
    }

    fn images(cache: &Cache) {
        cache.index("pods", "image", |pod| {
            let image = pod["spec"]["containers"][0]["image"].as_str();
            image.map(str::to_owned).into_iter().collect()
        });
    }

    /// Each snippet runs with one unnamed cluster and with two.
    const CLUSTERS: [&[&str]; 2] = [&[""], &["east", "west"]];

    #[test]
    fn the_cache_is_read_in_the_cluster_of_the_event() {
        for clusters in CLUSTERS {
            let mut driver = Driver::<Modest>::start(json!({})).unwrap();
            for cluster in clusters {
                driver.cache().source_in_cluster(cluster, "pods", "v1", "Pod");
                driver.cache().put_in_cluster(cluster, node());
            }
            images(driver.cache());
            for (number, cluster) in (1..).zip(clusters) {
                driver.put_in_cluster(cluster, pod("a")).unwrap();
                let everywhere = format!("info: {number} pods in all clusters");
                let expected = [
                    "info: there is a",
                    "info: 1 pods run nginx",
                    "info: there is node-1",
                    &everywhere,
                ];
                assert_eq!(driver.take_log(), expected);
            }
        }
    }

    #[test]
    fn objects_are_written_in_the_cluster_of_the_event() {
        for clusters in CLUSTERS {
            writes_in::<Marker>(clusters);
            writes_in::<Deferrer>(clusters);
            writes_in::<Owner>(clusters);
        }
    }

    fn writes_in<P: Plugin + HandleEvents>(clusters: &[&str]) {
        let mut driver = Driver::<P>::start(json!({})).unwrap();
        for cluster in clusters {
            driver.cache().source_in_cluster(cluster, "pods", "v1", "Pod");
        }
        for cluster in clusters {
            driver.put_in_cluster(cluster, pod("a")).unwrap();
            let writes = driver.cache().take_writes();
            assert_eq!((writes.len(), writes[0].cluster.as_str()), (1, *cluster));
        }
    }

    #[test]
    fn indexes_counts_and_requeues_work_in_every_cluster() {
        for clusters in CLUSTERS {
            let mut index = Driver::<ByImage>::start_index(json!({})).unwrap();
            assert_eq!(index.index(&pod("a")).unwrap().values("image"), ["nginx:1.25"]);
            drop(index);

            let mut counter = Driver::<Counter>::start(json!({})).unwrap();
            for cluster in clusters {
                counter.put_in_cluster(cluster, pod("a")).unwrap();
            }
            let state = counter.save().unwrap();
            counter.restore(&state).unwrap();
            assert_eq!(counter.plugin().seen.len(), clusters.len());
            drop(counter);

            let mut watcher = Driver::<Watcher>::start(json!({})).unwrap();
            for cluster in clusters {
                watcher.put_in_cluster(cluster, pod("a")).unwrap();
                watcher.put_in_cluster(cluster, node()).unwrap();
                let expected = ["info: web/a has 1 containers", "info: node-1 is a node"];
                assert_eq!(watcher.take_log(), expected);
            }
            drop(watcher);

            let mut patient = Driver::<Patient>::start(json!({ "label": "watched" })).unwrap();
            for cluster in clusters {
                patient.put_in_cluster(cluster, pod("a")).unwrap();
            }
            assert_eq!(patient.run_requeues(), Ok(clusters.len()));
        }
    }
}
