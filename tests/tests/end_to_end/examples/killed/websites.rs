//! The objects of website, while Websites come and go.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use informant_tests::chaos::Rng;
use informant_tests::client::Client;
use informant_tests::cluster::Kind;
use informant_tests::{guests, readme};
use serde_json::{Value, json};

use super::{World, items, killed, missing, pick, recorded, unless_gone};
use crate::deploy::{kubectl, run};
use crate::examples::website::{apply, folder};
use crate::examples::workloads;

const WEBSITES: &str = "/apis/example.com/v1/namespaces/default/websites";

/// The children by kind, without a Service of kube-apiserver's own.
const CHILDREN: [(&str, &str); 3] = [
    ("Deployment", "/apis/apps/v1/namespaces/default/deployments"),
    (
        "Service",
        "/api/v1/namespaces/default/services?labelSelector=app.kubernetes.io%2Fname",
    ),
    ("Ingress", "/apis/networking.k8s.io/v1/namespaces/default/ingresses"),
];

/// How many Websites there are at a time, at most.
const SITES_MAX: usize = 6;

#[derive(Clone)]
struct Website {
    image: String,
    replicas: u64,
    host: Option<String>,
}

struct Websites {
    client: Client,
    sites: BTreeMap<String, Website>,
    /// How many Websites were created. Each has a name of its own.
    created: u64,
}

impl Website {
    fn new(image: &str, replicas: u64, host: Option<&str>) -> Self {
        Self {
            image: image.to_owned(),
            replicas,
            host: host.map(str::to_owned),
        }
    }

    fn spec(&self) -> Value {
        json!({ "image": self.image, "replicas": self.replicas, "host": self.host })
    }

    fn manifest(&self, name: &str) -> Value {
        let mut spec = self.spec();
        if let (None, Some(spec)) = (&self.host, spec.as_object_mut()) {
            spec.remove("host");
        }
        let metadata = json!({ "name": name, "namespace": "default" });
        json!({ "apiVersion": "example.com/v1", "kind": "Website", "metadata": metadata, "spec": spec })
    }
}

fn path(name: &str) -> String {
    format!("{WEBSITES}/{name}")
}

impl Websites {
    async fn create(&mut self, rng: &mut Rng) -> Result<()> {
        if self.sites.len() >= SITES_MAX {
            return Ok(());
        }
        self.created += 1;
        let name = format!("site-{}", self.created);
        let host = pick(rng, [None, Some("a.example.com")]).flatten();
        let site = Website::new("shop:0", rng.below(4), host);
        let manifest = site.manifest(&name);
        self.sites.insert(name, site);
        self.client.post(WEBSITES, &manifest).await.map(drop)
    }

    /// Somebody edits or deletes a child.
    async fn disturb(&self, child: &Value, by_edit: bool) -> Result<()> {
        unless_gone(match by_edit && child["kind"] == "Deployment" {
            true => {
                self.client
                    .merge(&path_of(child), &json!({ "spec": { "replicas": 9 } }))
                    .await
            }
            false => self.client.delete(&path_of(child)).await,
        })
    }

    /// The children, each with its kind.
    async fn children(&self) -> Result<Vec<Value>> {
        let mut children = Vec::new();
        for (kind, path) in CHILDREN {
            for mut child in items(&self.client, path).await? {
                child["kind"] = kind.into();
                children.push(child);
            }
        }
        Ok(children)
    }
}

/// The path of a child.
fn path_of(child: &Value) -> String {
    let kind = CHILDREN.iter().find(|(kind, _)| child["kind"] == *kind);
    let path = kind.map_or("", |(_, path)| path);
    let (collection, _) = path.split_once('?').unwrap_or((path, ""));
    format!("{collection}/{}", name_of(child))
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn is_owned(child: &Value, owners: &[Value]) -> bool {
    let uid = &child["metadata"]["ownerReferences"][0]["uid"];
    owners.iter().any(|owner| owner["metadata"]["uid"] == *uid)
}

impl World for Websites {
    async fn change(&mut self, rng: &mut Rng) -> Result<()> {
        let names = self.sites.keys().filter(|name| *name != "steady").cloned();
        let Some((name, 2..)) = pick(rng, names).zip(Some(rng.below(9))) else {
            return self.create(rng).await;
        };
        let mut site = self.sites[&name].clone();
        let action = rng.below(7);
        match action {
            0 => {
                self.sites.remove(&name);
                return self.client.delete(&path(&name)).await.map(drop);
            }
            1 => site.image = format!("shop:{}", rng.below(1000)),
            2 => site.replicas = rng.below(4),
            3 => site.host = pick(rng, [None, Some("b.example.com".to_owned())]).flatten(),
            _ => {
                let children = self.children().await?.into_iter();
                return match pick(rng, children.filter(|child| name_of(child) == name)) {
                    Some(child) => self.disturb(&child, action == 4).await,
                    None => Ok(()),
                };
            }
        }
        let spec = json!({ "spec": site.spec() });
        self.sites.insert(name.clone(), site);
        self.client.merge(&path(&name), &spec).await.map(drop)
    }

    /// The garbage collector and the controller of Deployments.
    async fn control(&self) -> Result<()> {
        let children = self.children().await?;
        // A child that was read before has its owner here, unless that is gone.
        let sites = items(&self.client, WEBSITES).await?;
        for child in children {
            if !is_owned(&child, &sites) {
                unless_gone(self.client.delete(&path_of(&child)).await)?;
            } else if child["kind"] == "Deployment" {
                let replicas = &child["spec"]["replicas"];
                let status = json!({
                    "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas,
                    "observedGeneration": child["metadata"]["generation"],
                });
                let at = format!("{}/status", workloads("Deployment", name_of(&child)));
                unless_gone(self.client.merge(&at, &json!({ "status": status })).await)?;
            }
        }
        Ok(())
    }

    async fn objects(&self) -> Result<Vec<Value>> {
        let mut objects = self.children().await?;
        for mut site in items(&self.client, WEBSITES).await? {
            site["kind"] = "Website".into();
            objects.push(site);
        }
        Ok(objects)
    }

    fn summary(&self, object: &Value, all: &[Value]) -> Value {
        let spec = &object["spec"];
        let content = match object["kind"].as_str().unwrap_or_default() {
            "Deployment" => json!([spec["replicas"], spec["template"]["spec"]["containers"][0]["image"]]),
            "Service" => spec["ports"][0]["port"].clone(),
            "Ingress" => spec["rules"][0]["host"].clone(),
            _ => {
                let status = &object["status"];
                let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
                let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
                let is_current = status["observedGeneration"] == object["metadata"]["generation"];
                let ready = ready.map(|ready| ready["reason"].clone());
                return json!([
                    object["metadata"]["finalizers"],
                    is_current,
                    ready,
                    status["readyReplicas"]
                ]);
            }
        };
        json!([is_owned(object, all), content])
    }

    fn wanted(&self) -> BTreeMap<String, Value> {
        let mut wanted = BTreeMap::new();
        for (name, site) in &self.sites {
            let finalizers = ["informant.dev/website"];
            let mut want = |kind: &str, summary| wanted.insert(format!("{kind} default/{name}"), summary);
            want("Website", json!([finalizers, true, "Available", site.replicas]));
            want("Deployment", json!([true, [site.replicas, site.image]]));
            want("Service", json!([true, 80]));
            if let Some(host) = &site.host {
                want("Ingress", json!([true, host]));
            }
        }
        wanted
    }

    async fn missing_events(&self) -> Result<Vec<String>> {
        missing(&self.client, "default", &["steady: Available", "steady: Created"]).await
    }
}

async fn have_their_objects() -> Result<()> {
    let Some(component) = guests::in_go("website")? else {
        return Ok(());
    };
    let Some(cluster) = crate::cluster(Kind::Real).await else {
        return Ok(());
    };
    let page = readme::of("plugins/website")?;
    apply(&cluster, &folder().join("crd.yaml")).await?;
    let config = readme::first_block(&page, "toml")?.replace("\"website.wasm\"", &format!("{component:?}"));
    let manifest = cluster.folder().join("steady.yaml");
    let steady = Website::new("shop:1", 2, Some("steady.example.com"));
    std::fs::write(&manifest, steady.manifest("steady").to_string())?;
    apply(&cluster, &manifest).await?;
    let sites = BTreeMap::from([("steady".to_owned(), steady)]);
    let mut websites = Websites {
        client: cluster.client().await?,
        sites,
        created: 0,
    };
    let _daemon = killed(&cluster, &config, &mut websites).await?;

    let events = recorded(&websites.client, "default").await?;
    ensure!(events["steady: Available"] == 1, "{events:?}");
    // What a process has recorded, no later one records again. What it was about to send may be lost with it.
    for (id, count) in &events {
        let once = id.ends_with(": Created") || id.ends_with(": Deleted");
        ensure!(!once || *count == 1, "{id} {count} times: {events:?}");
    }
    let description = run(kubectl(&cluster).args(["describe", "website", "steady"])).await?;
    let (_, shown) = description.split_once("Events:").unwrap_or_default();
    for text in ["Created", "Available", "informant.dev/website"] {
        ensure!(shown.contains(text), "{text}: {description}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn websites_have_their_objects_while_informant_is_killed() {
    have_their_objects().await.unwrap();
}
