//! The conformance kit: one list of behaviors, and two plugins in every language, which `tests/guests/README.md`
//! describes. All of them write the same log. What each language passes is a table of the documentation.

mod behaviors;
mod http;
mod languages;
mod load;
mod manifests;
mod reconcilers;
mod soak;
mod table;
mod timers;
mod writes;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use informant_plugin_host::Plugin;
use informant_spec::{PluginSpec, ReplayPolicy};
use serde_json::{Value, json};

use self::behaviors::BEHAVIORS;
pub(crate) use self::languages::guests;
use self::languages::{every_language, every_reconciler};
use crate::indexes::Loop;
use crate::kube::{Cluster, grants};
use crate::world::{Pods, Reload, World};

/// Something that happens to an informer. Each pod has an action and a text.
enum Step {
    /// A pod is added or updated: its cluster, name, action and text.
    Put(&'static str, &'static str, &'static str, &'static str),
    /// A pod with a text of this many bytes.
    PutLarge(&'static str, usize),
    /// The pod is gone from the cluster `""`, and its final state is known or not.
    Delete(&'static str, bool),
    /// The pod is gone from the cluster `""`, and no state of it is known.
    Forget(&'static str),
    /// The plugin is replaced by itself.
    Swap,
}
use Step::{Delete, Forget, Put, PutLarge, Swap};

struct Behavior {
    name: &'static str,
    config: &'static str,
    steps: &'static [Step],
    /// What the plugin logs, without the lines of lists that end in the only cluster.
    lines: &'static [&'static str],
    /// Part of what Informant logs about it.
    reports: &'static str,
    /// The plugin's own metrics in the end, in any order.
    metrics: &'static [&'static str],
    /// Dead letters, and instances that were lost.
    ends_with: (usize, u64),
}

/// A plugin and its informer, with one source for each cluster.
struct Run {
    world: World,
    plugin: Plugin,
    clusters: Vec<(&'static str, Pods)>,
}

impl Run {
    async fn new(guest: &Path, config: &str, clusters: &[&'static str], api: Arc<Cluster>, granted: Value) -> Run {
        let world = World::for_conformance(api);
        Run::adjusted(world, guest, clusters, |spec| {
            spec.config = serde_json::from_str(config).unwrap();
            spec.allow_kube = grants(granted);
        })
        .await
    }

    async fn adjusted(
        world: World,
        guest: &Path,
        clusters: &[&'static str],
        adjust: impl FnOnce(&mut PluginSpec),
    ) -> Run {
        let mut run = Run::unattached(world, guest, clusters, adjust).await;
        for at in 0..clusters.len() {
            run.clusters[at].1.attach(&run.plugin.listener());
            run.idle().await;
        }
        run
    }

    /// With informers that the plugin does not receive yet.
    async fn unattached(
        world: World,
        guest: &Path,
        clusters: &[&'static str],
        adjust: impl FnOnce(&mut PluginSpec),
    ) -> Run {
        let mut spec = PluginSpec::new("conformance", guest);
        spec.informers = vec![("pods".into(), "pods".into())];
        adjust(&mut spec);
        spec.on_reload = ReplayPolicy::Continue;
        spec.limits.cpu = Duration::from_millis(500);
        let plugin = world.load(spec).await.unwrap();
        plugin.start().await;
        Run {
            plugin,
            clusters: clusters
                .iter()
                .map(|name| (*name, world.pods_of("pods", name)))
                .collect(),
            world,
        }
    }

    async fn idle(&self) {
        crate::world::idle(&self.world, &self.plugin).await;
    }

    fn pods(&mut self, cluster: &str) -> &mut Pods {
        let of_cluster = self.clusters.iter_mut().find(|(name, _)| *name == cluster);
        &mut of_cluster.unwrap().1
    }

    async fn perform(&mut self, step: &Step) {
        match step {
            Put(cluster, name, action, text) => self.pods(cluster).apply_with(name, &rest(action, text)),
            PutLarge(name, bytes) => self.pods("").apply_with(name, &rest("", &"x".repeat(*bytes))),
            Delete(name, final_state_unknown) => {
                let remove = if *final_state_unknown {
                    Pods::vanish
                } else {
                    Pods::delete
                };
                remove(self.pods(""), name);
            }
            Forget(name) => self.pods("").forget(name),
            Swap => {
                self.plugin.swap(self.plugin.spec().content.path()).await.unwrap();
            }
        }
        self.idle().await;
    }

    /// What the plugin has logged, without the messages of panics and exceptions, which not every language has.
    fn lines(&self) -> Vec<String> {
        let lines = self.world.log.lines().into_iter();
        let ours = lines.filter(|line| line.is_of_guest("conformance"));
        let ours = ours.filter(|line| line.level == "INFO");
        // Those of clusters without a name.
        let is_expected = |line: &String| !line.starts_with("synced pods  ");
        let with_fields = ours.map(|line| match line.fields.split_once(" fields=") {
            Some((_, fields)) => format!("{} {}", line.message, fields.trim_matches('"').replace('\\', "")),
            None => line.message,
        });
        with_fields.filter(is_expected).collect()
    }

    /// The plugin's own metrics, without their prefix.
    fn own_metrics(&self) -> Vec<String> {
        const PREFIX: &str = "informant_plugin_custom_";
        let metrics = self.world.metrics(PREFIX);
        metrics.lines().map(|line| line[PREFIX.len()..].to_owned()).collect()
    }

    /// What Informant has logged about the plugin.
    fn reported(&self) -> String {
        let lines = self.world.log.lines().into_iter();
        let others = lines.filter(|line| !line.fields.contains("stream="));
        others
            .map(|line| format!("{}{}\n", line.message, line.fields))
            .collect()
    }
}

/// What follows the resource version of a pod.
fn rest(action: &str, text: &str) -> String {
    format!(r#","annotations":{{"do":"{action}"}}}},"spec":{{"text":"{text}""#)
}

/// The clusters that the steps name.
fn clusters_of(steps: &[Step]) -> Vec<&'static str> {
    let mut clusters = Vec::new();
    for step in steps {
        let cluster = match step {
            Put(cluster, ..) => cluster,
            _ => "",
        };
        if !clusters.contains(&cluster) {
            clusters.push(cluster);
        }
    }
    clusters
}

#[tokio::test(start_paused = true)]
async fn every_language_behaves_alike() {
    for behavior in BEHAVIORS {
        every_language(behavior.name, async |guest| {
            let what = format!("{}: {}", guest.display(), behavior.name);
            let clusters = clusters_of(behavior.steps);
            let api = Cluster::answering(Some(0));
            let mut run = Run::new(guest, behavior.config, &clusters, api, json!([])).await;
            for step in behavior.steps {
                run.perform(step).await;
            }
            let all = || run.lines().len() >= behavior.lines.len();
            run.world.until(&what, all).await;
            run.idle().await;
            assert_eq!(run.lines(), behavior.lines, "{what}");
            let status = run.plugin.status();
            let lost = (status.dead_letters, status.restarts);
            assert_eq!(lost, behavior.ends_with, "{what}: {:?}", status.last_error);
            assert_eq!(run.own_metrics(), behavior.metrics, "{what}");
            let reported = run.reported();
            assert!(reported.contains(behavior.reports), "{what}: {reported}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_language_computes_indexes_and_leaves_out_failures() {
    every_language(table::INDEXES, async |guest| {
        let world = World::for_conformance(Cluster::answering(Some(0)));
        let mut spec = PluginSpec::new("conformance", guest);
        spec.informers = vec![("pods".into(), "pods".into())];
        let plugin = world.load(spec).await.unwrap();
        plugin.start().await;
        let mut informer = Loop::new(&world, &plugin);
        for (name, action, text) in [
            ("a", "", "one"),
            ("b", "", "aä€😀"),
            ("c", "no-index", "one"),
            ("d", "", "one"),
        ] {
            informer.apply(name, &rest(action, text));
        }
        informer.attach().await;
        assert_eq!(informer.under("text", "one"), ["a", "d"]);
        assert_eq!(informer.under("text", "aä€😀"), ["b"]);
    })
    .await;
}
