//! The replicas of secret-replicator, while Secrets and namespaces come and go.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use informant_tests::chaos::Rng;
use informant_tests::client::Client;
use informant_tests::cluster::Kind;
use informant_tests::{guests, readme};
use serde_json::{Value, json};

use super::{World, items, killed, missing, pick, recorded, unless_gone};
use crate::deploy::{kubectl, run};
use crate::examples::secret_replicator::{copy, folder, namespace, secret, with_runner};

const NAMESPACES: &str = "/api/v1/namespaces";
const REPLICAS: &str = "/api/v1/secrets?labelSelector=informant.dev%2Freplica-of";
const SOURCES: [&str; 5] = ["a", "b", "c", "d", "e"];
const TARGETS: [&str; 5] = ["team-0", "team-1", "team-2", "team-3", "team-4"];

/// What the annotation of a source may list, and which targets that are.
const LISTS: [(&str, &[usize]); 4] = [
    ("team-*", &[0, 1, 2, 3, 4]),
    ("team-0, team-1", &[0, 1]),
    ("team-2,team-4,billing", &[2, 4]),
    ("", &[]),
];

struct Source {
    list: usize,
    value: u64,
}

struct Secrets {
    client: Client,
    sources: BTreeMap<&'static str, Source>,
    targets: BTreeSet<&'static str>,
    /// The newest value of all.
    value: u64,
}

fn path(namespace: &str, name: &str) -> String {
    format!("{NAMESPACES}/{namespace}/secrets/{name}")
}

fn encoded(value: u64) -> String {
    BASE64_STANDARD.encode(value.to_string())
}

impl Secrets {
    /// Creates the namespaces, a source that never changes, and one whose replica is refused.
    async fn create(client: Client) -> Result<Self> {
        for name in ["shop", "steady"] {
            client.post(NAMESPACES, &namespace(name)).await?;
        }
        let foreign = secret(&json!({ "name": "taken" }), &encoded(0));
        client.post(&path("steady", ""), &foreign).await?;
        let secrets = Self {
            client,
            sources: BTreeMap::new(),
            targets: BTreeSet::new(),
            value: 0,
        };
        for name in ["steady", "taken"] {
            secrets.create_source(name, "steady", 1).await?;
        }
        Ok(secrets)
    }

    async fn create_source(&self, name: &str, list: &str, value: u64) -> Result<()> {
        let annotations = json!({ "informant.dev/replicate-to": list });
        let source = secret(&json!({ "name": name, "annotations": annotations }), &encoded(value));
        self.client.post(&path("shop", ""), &source).await.map(drop)
    }

    /// Creates the source, or changes its value or its list.
    async fn change_source(&mut self, name: &'static str, rng: &mut Rng) -> Result<()> {
        self.value += 1;
        let (value, list) = (self.value, rng.below(LISTS.len() as u64) as usize);
        let Some(source) = self.sources.get_mut(name) else {
            self.sources.insert(name, Source { list, value });
            return self.create_source(name, LISTS[list].0, value).await;
        };
        let patch = match rng.below(2) {
            0 => {
                source.value = value;
                json!({ "data": { "key": encoded(value) } })
            }
            _ => {
                source.list = list;
                json!({ "metadata": { "annotations": { "informant.dev/replicate-to": LISTS[list].0 } } })
            }
        };
        self.client.merge(&path("shop", name), &patch).await.map(drop)
    }

    /// Creates a target or removes it, as the controller of namespaces does.
    async fn toggle(&mut self, target: &'static str) -> Result<()> {
        if self.targets.insert(target) {
            return self.client.post(NAMESPACES, &namespace(target)).await.map(drop);
        }
        self.targets.remove(target);
        let (at, secrets) = (
            format!("{NAMESPACES}/{target}"),
            format!("{NAMESPACES}/{target}/secrets"),
        );
        self.client.delete(&at).await?;
        while !items(&self.client, &secrets).await?.is_empty() {
            self.client.delete(&secrets).await?;
        }
        let mut finalized = namespace(target);
        finalized["spec"] = json!({ "finalizers": [] });
        self.client.put(&format!("{at}/finalize"), &finalized).await.map(drop)
    }
}

impl World for Secrets {
    async fn change(&mut self, rng: &mut Rng) -> Result<()> {
        let (Some(name), Some(target)) = (pick(rng, SOURCES), pick(rng, TARGETS)) else {
            return Ok(());
        };
        match rng.below(10) {
            0..5 => self.change_source(name, rng).await,
            5 if self.sources.remove(name).is_some() => self.client.delete(&path("shop", name)).await.map(drop),
            5 | 6 => self.toggle(target).await,
            // Somebody deletes or edits a replica.
            7 => unless_gone(self.client.delete(&path(target, name)).await),
            _ => {
                let edit = json!({ "data": { "key": encoded(0), "other": encoded(0) } });
                unless_gone(self.client.merge(&path(target, name), &edit).await)
            }
        }
    }

    async fn control(&self) -> Result<()> {
        Ok(())
    }

    async fn objects(&self) -> Result<Vec<Value>> {
        let mut replicas = items(&self.client, REPLICAS).await?;
        for replica in &mut replicas {
            replica["kind"] = "Secret".into();
        }
        Ok(replicas)
    }

    fn summary(&self, object: &Value, _: &[Value]) -> Value {
        json!([
            object["data"],
            object["metadata"]["annotations"]["informant.dev/replica-of"]
        ])
    }

    fn wanted(&self) -> BTreeMap<String, Value> {
        let of = |name: &str, value: u64| json!([{ "key": encoded(value) }, format!("shop/{name}")]);
        let mut wanted = BTreeMap::from([("Secret steady/steady".to_owned(), of("steady", 1))]);
        for (name, source) in &self.sources {
            let listed = LISTS[source.list].1.iter().map(|target| TARGETS[*target]);
            for target in listed.filter(|target| self.targets.contains(target)) {
                wanted.insert(format!("Secret {target}/{name}"), of(name, source.value));
            }
        }
        wanted
    }

    async fn missing_events(&self) -> Result<Vec<String>> {
        missing(&self.client, "shop", &["taken: ReplicaRefused"]).await
    }
}

async fn follow_their_sources() -> Result<()> {
    let Some(runner) = guests::python_runner()? else {
        return Ok(());
    };
    let Some(cluster) = crate::cluster(Kind::Real).await else {
        return Ok(());
    };
    copy(&folder().join("secret_replicator.py"), cluster.folder(), |text| text)?;
    let page = readme::of("plugins/secret-replicator")?;
    let config = with_runner(&readme::first_block(&page, "toml")?, &runner);
    let mut secrets = Secrets::create(cluster.client().await?).await?;
    let (_daemon, kills) = killed(&cluster, &config, &mut secrets).await?;

    let foreign = secrets.client.get(&path("steady", "taken")).await?;
    ensure!(foreign["data"]["key"] == encoded(0), "{foreign}");
    // Each process records it once.
    let events = recorded(&secrets.client, "shop").await?;
    let refused = events.get("taken: ReplicaRefused").copied().unwrap_or_default();
    ensure!(refused <= u64::from(kills) + 1, "{events:?}");
    let shown = run(kubectl(&cluster).args(["events", "--namespace", "shop", "--for", "secret/taken"])).await?;
    ensure!(shown.contains("ReplicaRefused"), "{shown}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_follow_their_sources_while_informant_is_killed() {
    follow_their_sources().await.unwrap();
}
