//! Every script in the documentation runs, over one cluster and over two.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use informant_cache::PointerIndex;
use informant_object::Pointer;
use informant_plugin_host::{KubeAction, Plugin};
use informant_spec::{HttpGrant, PluginSpec, ReplayPolicy};
use serde_json::json;

use crate::fetch::Shared;
use crate::indexes::Loop;
use crate::kube::{Cluster, grants};
use crate::scripts::can_run;
use crate::world::{Pods, Reload, World, hello_log, idle};

/// For a script that handles nothing: it shows what it receives.
const HANDLER: &str = "\nexport const onUpdate = (pod, event) => console.log(`${event} has ${Object.keys(pod)}`);\n";

/// A script in the documentation.
struct Block {
    /// The page, and the heading above the script.
    place: String,
    text: String,
    /// Whether it has a function that is called for events or objects.
    handles: bool,
}

/// All pages: the README, the documentation, and those of SDKs and plugins.
fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = ["docs", "plugin-sdk", "plugins"].map(|name| root.join(name)).into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") && !path.ends_with("node_modules") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found.insert(0, root.join("README.md"));
    let read = |path: PathBuf| {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        (name, fs::read_to_string(path).unwrap())
    };
    found.into_iter().map(read).collect()
}

/// The scripts of a page, each as a reader would save it: a block that handles nothing continues the one before it if
/// it hands over that one's variables, and otherwise gets a handler.
fn blocks(page: &str, text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut heading, mut open) = ("", None);
    for line in text.lines() {
        match &mut open {
            None if line == "```js" || line == "```ts" => open = Some(String::new()),
            None if line.starts_with('#') => heading = line.trim_start_matches('#').trim(),
            None => {}
            Some(_) if line == "```" => {
                let mut text = open.take().unwrap();
                let handles = ["const on", "function on", "function index"]
                    .iter()
                    .any(|export| text.contains(&format!("export {export}")));
                if !handles && text.contains("export const save") {
                    text.insert_str(0, &blocks.last().unwrap().text);
                } else if !handles {
                    text += HANDLER;
                }
                let place = format!("{page}, {heading}");
                // Those of reconcilers run in tests of the daemon, with the informers that they name.
                if text.contains("export function reconcile") {
                    continue;
                }
                blocks.push(Block { place, text, handles });
            }
            Some(script) => writeln!(script, "{line}").unwrap(),
        }
    }
    blocks
}

/// The end of a pod's JSON.
fn state(phase: &str, restarts: u32) -> String {
    format!(
        r#"}},"spec":{{"nodeName":"node-1","containers":[{{"image":"nginx:1.25"}}]}},"status":{{"phase":"{phase}","containerStatuses":[{{"restartCount":{restarts}}}]"#
    )
}

/// One script in some clusters, each with a node and pods.
struct Run {
    api: Arc<Cluster>,
    world: World,
    plugin: Plugin,
    clusters: Vec<(Pods, Pods)>,
}

impl Run {
    async fn new(script: &str, clusters: &[&str]) -> Run {
        let api = Cluster::answering(Some(0));
        let world = World::for_scripts_with_http(Some(Arc::clone(&api) as _), Arc::new(Shared::default()));
        let file = world.cache.path().join(if script.contains("import { type ") {
            "handler.ts"
        } else {
            "handler.js"
        });
        fs::write(&file, script).unwrap();
        let mut spec = PluginSpec::new("hello", file);
        spec.informers = ["pods", "nodes"].map(|name| (name.into(), name.into())).into();
        spec.allow_kube = grants(json!([
            { "verbs": ["patch"], "resource": "v1/pods" },
            { "verbs": ["patch", "create"], "resource": "v1/configmaps" },
            { "verbs": ["patch"], "resource": "apps/v1/deployments" },
        ]));
        spec.allow_http = vec![HttpGrant::parse("https://hooks.example.com/services/T000/").unwrap()];
        spec.on_reload = ReplayPolicy::Continue;
        spec.retry.attempts = 1;
        let plugin = world.load(spec).await.unwrap();
        plugin.start().await;
        let in_cluster = |cluster: &&str| {
            let mut nodes = world.objects_of("nodes", cluster, "Node", "v1/nodes");
            let zone = r#","labels":{"topology.kubernetes.io/zone":"zone-a"}"#;
            nodes.apply_in("", "node-1", zone);
            // The section of such a script lists nodes, too.
            if script.contains("\"nodes\"") {
                nodes.attach(&plugin.listener());
            }
            let mut pods = world.pods_of("pods", cluster);
            let image = Pointer::parse("/spec/containers/*/image").unwrap();
            let index = PointerIndex::new("image", image);
            pods.writer.add_indexers(vec![Box::new(index)]).unwrap();
            pods.attach(&plugin.listener());
            (nodes, pods)
        };
        let clusters = clusters.iter().map(in_cluster).collect();
        Run {
            api,
            world,
            plugin,
            clusters,
        }
    }

    async fn apply(&mut self, at: usize, phase: &str, restarts: u32) {
        self.clusters[at].1.apply_with("web", &state(phase, restarts));
        idle(&self.world, &self.plugin).await;
    }

    /// What the script has logged and written since it had logged `before` lines.
    fn done(&self, before: usize) -> Vec<String> {
        let mut lines = hello_log(&self.world).split_off(before);
        for call in self.api.take() {
            let KubeAction::Patch(_, document, _) = &call.action else {
                panic!("{call:?}")
            };
            let (address, document) = (&call.address, String::from_utf8_lossy(document));
            let cluster = if address.cluster.is_empty() { "" } else { " in " };
            lines.push(format!(
                "patches {} {}{cluster}{}: {document}",
                address.resource, address.name, address.cluster
            ));
        }
        lines
    }

    /// The life of a pod in each cluster, in which the script is saved again, and the end of all pods.
    async fn finish(mut self) -> Vec<Vec<String>> {
        let mut done = Vec::new();
        for at in 0..self.clusters.len() {
            let before = hello_log(&self.world).len();
            self.apply(at, "Running", 0).await;
            self.apply(at, "Failed", 1).await;
            self.plugin.swap(self.plugin.spec().content.path()).await.unwrap();
            self.apply(at, "Failed", 2).await;
            self.apply(at, "Pending", 2).await;
            tokio::time::sleep(Duration::from_secs(61)).await;
            idle(&self.world, &self.plugin).await;
            // No handler asks for more calls.
            self.apply(at, "Running", 2).await;
            done.push(self.done(before));
        }
        for (at, lines) in done.iter_mut().enumerate() {
            let before = hello_log(&self.world).len();
            self.clusters[at].1.delete("web");
            idle(&self.world, &self.plugin).await;
            lines.extend(self.done(before));
        }
        let (status, stats) = (self.plugin.status(), self.plugin.listener().control().stats());
        let failed = (stats.counters.dead_lettered, status.restarts, stats.counters.retried);
        assert_eq!(failed, (0, 0, 0), "{}", self.world.log.text());
        done
    }
}

/// The values of the script's indexes for a pod in a cluster.
async fn indexed(script: &str, cluster: &str) -> Vec<String> {
    let run = Run::new(script, &[]).await;
    let Run { world, plugin, .. } = &run;
    let mut informer = Loop::of(world, plugin, world.pods_of("pods", cluster));
    informer.apply("web", &state("Running", 0));
    informer.attach().await;
    let snapshot = informer.pods.snapshot();
    let values = |name: &String| format!("index {name}: {:?}", snapshot.index_values(name).unwrap());
    plugin.manifest().index_names().iter().map(values).collect()
}

/// What a script does in each cluster.
async fn run(script: &str, clusters: &[&str]) -> Vec<Vec<String>> {
    let mut done = Run::new(script, clusters).await.finish().await;
    if script.contains("export function index") {
        for (lines, cluster) in done.iter_mut().zip(clusters) {
            lines.extend(indexed(script, cluster).await);
        }
    }
    done
}

/// What the script does in the only cluster, with what differs where there are two; and how often in a row.
async fn compared(block: &Block) -> Vec<(String, usize)> {
    let alone = run(&block.text, &[""]).await.remove(0);
    let both = ["east", "west"];
    let results = run(&block.text, &both).await;
    let mut lines: Vec<(String, usize)> = Vec::new();
    for (at, line) in alone.iter().enumerate() {
        let mut line_in_all = line.clone();
        for (cluster, results) in both.iter().zip(&results) {
            assert_eq!(results.len(), alone.len(), "{} in {cluster}: {results:?}", block.place);
            if results[at] != *line {
                write!(line_in_all, "\n  in {cluster}: {}", results[at]).unwrap();
            }
        }
        match lines.last_mut() {
            Some((last, times)) if *last == line_in_all => *times += 1,
            _ => lines.push((line_in_all, 1)),
        }
    }
    lines
}

/// For each script of the documentation what it does in the only cluster, and what differs where there are two.
async fn shown() -> String {
    let mut shown = String::new();
    let mut readme = String::new();
    for (page, text) in pages() {
        for mut block in blocks(&page, &text) {
            if page == "README.md" {
                readme.clone_from(&block.text);
            }
            // That page continues the README's script.
            if page == "docs/start/first-script.md" {
                block.text.insert_str(0, &readme);
            }
            let mark = if block.handles { "" } else { " (a fragment)" };
            writeln!(shown, "## {}{mark}", block.place).unwrap();
            let lines = compared(&block).await;
            for (line, times) in lines {
                writeln!(shown, "{times}x {line}").unwrap();
            }
        }
    }
    shown
}

#[tokio::test(start_paused = true)]
async fn every_script_of_the_documentation_runs_in_each_cluster() {
    if !can_run() {
        return;
    }
    insta::assert_snapshot!(shown().await, @r#"
    ## README.md, Write your own
    5x INFO default/web has no team
    5x patches v1/pods web: {"metadata":{"labels":{"team":"unassigned"}}}
      in east: patches v1/pods web in east: {"metadata":{"labels":{"team":"unassigned"}}}
      in west: patches v1/pods web in west: {"metadata":{"labels":{"team":"unassigned"}}}
    ## docs/coming-from-client-go.md, A complete handler
    2x INFO default/web restarted
    ## docs/explanation/availability.md, config.toml
    1x INFO default/web (initial)
      in west: INFO default/web (watch)
    4x INFO default/web (watch)
    ## docs/guides/owners.md, In TypeScript
    ## docs/guides/scripts.md, Writing scripts
    1x INFO default/web is Running
    ## docs/guides/scripts.md, Handle events
    2x WARN default/web failed: no reason given
    ## docs/guides/scripts.md, Be called again
    1x WARN default/web is still pending
    ## docs/guides/scripts.md, Be called again
    2x patches v1/pods web: {"metadata":{"uid":"uid-web","labels":{"pending":"yes"}}}
      in east: patches v1/pods web in east: {"metadata":{"uid":"uid-web-east","labels":{"pending":"yes"}}}
      in west: patches v1/pods web in west: {"metadata":{"uid":"uid-web-west","labels":{"pending":"yes"}}}
    ## docs/guides/scripts.md, Be called again
    ## docs/guides/scripts.md, Keep variables
    2x WARN default/web failed
    ## docs/guides/scripts.md, Keep variables (a fragment)
    1x WARN default/web failed
    ## docs/guides/scripts.md, Remember over restarts
    1x WARN default/web failed
    ## docs/guides/scripts.md, Count
    ## docs/guides/scripts.md, Read the cache
    1x INFO default/web runs in zone-a, 1 pods run nginx:1.25
    ## docs/guides/scripts.md, Act on the cluster
    5x patches v1/pods web: {"metadata":{"uid":"uid-web","labels":{"seen":"yes"}}}
      in east: patches v1/pods web in east: {"metadata":{"uid":"uid-web-east","labels":{"seen":"yes"}}}
      in west: patches v1/pods web in west: {"metadata":{"uid":"uid-web-west","labels":{"seen":"yes"}}}
    ## docs/guides/scripts.md, Act on the cluster
    1x patches v1/configmaps web-phase: {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web-phase","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"web","uid":"uid-web"}]},"data":{"phase":"Running"}}
      in east: patches v1/configmaps web-phase in east: {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web-phase","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"web","uid":"uid-web-east"}]},"data":{"phase":"Running"}}
      in west: patches v1/configmaps web-phase in west: {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web-phase","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"web","uid":"uid-web-west"}]},"data":{"phase":"Running"}}
    2x patches v1/configmaps web-phase: {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web-phase","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"web","uid":"uid-web"}]},"data":{"phase":"Failed"}}
      in east: patches v1/configmaps web-phase in east: {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web-phase","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"web","uid":"uid-web-east"}]},"data":{"phase":"Failed"}}
      in west: patches v1/configmaps web-phase in west: {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web-phase","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"web","uid":"uid-web-west"}]},"data":{"phase":"Failed"}}
    1x patches v1/configmaps web-phase: {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web-phase","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"web","uid":"uid-web"}]},"data":{"phase":"Pending"}}
      in east: patches v1/configmaps web-phase in east: {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web-phase","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"web","uid":"uid-web-east"}]},"data":{"phase":"Pending"}}
      in west: patches v1/configmaps web-phase in west: {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web-phase","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"web","uid":"uid-web-west"}]},"data":{"phase":"Pending"}}
    1x patches v1/configmaps web-phase: {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web-phase","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"web","uid":"uid-web"}]},"data":{"phase":"Running"}}
      in east: patches v1/configmaps web-phase in east: {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web-phase","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"web","uid":"uid-web-east"}]},"data":{"phase":"Running"}}
      in west: patches v1/configmaps web-phase in west: {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web-phase","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"web","uid":"uid-web-west"}]},"data":{"phase":"Running"}}
    ## docs/guides/scripts.md, Call other services
    ## docs/guides/scripts.md, Define indexes
    1x index node: ["node-1"]
    1x index image: ["nginx:1.25"]
    ## docs/guides/scripts.md, Receive less (a fragment)
    3x INFO default/web has apiVersion,kind,status
    ## docs/guides/scripts.md, Several clusters
    1x INFO default/web: 1 pods in its namespace in , 1 in all
      in east: INFO default/web: 1 pods in its namespace in east, 1 in all
      in west: INFO default/web: 1 pods in its namespace in west, 2 in all
    ## docs/guides/scripts.md, TypeScript
    1x INFO default/web is Running
    ## docs/guides/scripts.md, TypeScript
    1x INFO default/web is Running
    ## docs/reference/script-api.md, Script API (a fragment)
    4x INFO default/web has apiVersion,kind,metadata,spec,status
    ## docs/reference/script-api.md, Timers
    ## docs/start/first-script.md, Define an index
    5x INFO default/web has no team
    5x patches v1/pods web: {"metadata":{"labels":{"team":"unassigned"}}}
      in east: patches v1/pods web in east: {"metadata":{"labels":{"team":"unassigned"}}}
      in west: patches v1/pods web in west: {"metadata":{"labels":{"team":"unassigned"}}}
    1x index image: ["nginx:1.25"]
    "#);
}
