//! The conformance kit: one list of behaviors, and one plugin in every language, which `tests/guests/README.md`
//! describes. All of them write the same log.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use informant_plugin_host::{KubeAddress, Plugin, PluginSpec, ReplayPolicy};
use serde_json::{Value, json};

use crate::indexes::Loop;
use crate::kube::{Cluster, grants};
use crate::world::{Pods, World, guest, is_built, javascript_source};

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

const PLAIN: Behavior = Behavior {
    name: "",
    config: "{}",
    steps: &[],
    lines: &[],
    reports: "",
    metrics: &[],
    ends_with: (0, 0),
};

const BEHAVIORS: &[Behavior] = &[
    Behavior {
        name: "handlers receive each change once and in order",
        steps: &[
            Put("", "a", "", "one"),
            Put("", "a", "", "two"),
            Delete("a", false),
            Put("", "b", "", "one"),
            Delete("b", true),
        ],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=one",
            "2 update default/a watch 0 old=- sees=metadata+spec text=two",
            "3 delete default/a watch 0 old=- sees=metadata+spec text=two",
            "4 add default/b watch 0 old=- sees=metadata+spec text=one",
            "5 vanish default/b watch 0 old=- sees=metadata+spec text=one",
        ],
        ..PLAIN
    },
    Behavior {
        name: "a delete may come without any state",
        steps: &[Put("", "a", "", "one"), Forget("a"), Put("", "a", "", "two")],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=one",
            "2 vanish default/a watch 0 old=- sees=nothing text=-",
            "3 add default/a watch 0 old=- sees=metadata+spec text=two",
        ],
        ..PLAIN
    },
    Behavior {
        name: "the old state comes with updates on request",
        config: r#"{ "old": "yes" }"#,
        steps: &[Put("", "a", "", "one"), Put("", "a", "", "two")],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=one",
            "2 update default/a watch 0 old=one sees=metadata+spec text=two",
        ],
        ..PLAIN
    },
    Behavior {
        name: "only metadata is sent on request",
        config: r#"{ "payload": "metadata" }"#,
        steps: &[Put("", "a", "", "one"), Delete("a", false)],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata text=-",
            "2 delete default/a watch 0 old=- sees=metadata text=-",
        ],
        ..PLAIN
    },
    Behavior {
        name: "only the named fields are sent on request",
        config: r#"{ "payload": "/spec/text", "old": "yes" }"#,
        steps: &[Put("", "a", "", "one"), Put("", "a", "", "two")],
        lines: &[
            "1 add default/a watch 0 old=- sees=spec text=one",
            "2 update default/a watch 0 old=one sees=spec text=two",
        ],
        ..PLAIN
    },
    Behavior {
        name: "without a payload a handler knows what changed",
        config: r#"{ "payload": "none" }"#,
        steps: &[
            Put("", "a", "", "one"),
            Put("", "a", "", "two"),
            Delete("a", false),
            Put("", "b", "", "one"),
            Delete("b", true),
        ],
        lines: &[
            "1 add default/a watch 0 old=- sees=nothing text=-",
            "2 update default/a watch 0 old=- sees=nothing text=-",
            "3 delete default/a watch 0 old=- sees=nothing text=-",
            "4 add default/b watch 0 old=- sees=nothing text=-",
            "5 vanish default/b watch 0 old=- sees=nothing text=-",
        ],
        ..PLAIN
    },
    Behavior {
        name: "every text arrives and is logged unchanged",
        steps: &[
            Put("", "a", "", "aä€😀"),
            Put("", "a", "", r#"a \"quote\", a \\, a \u00e4, \ud83d\ude00 and a \/"#),
            Put("", "a", "", ""),
        ],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=aä€😀",
            r#"2 update default/a watch 0 old=- sees=metadata+spec text=a "quote", a \, a ä, 😀 and a /"#,
            "3 update default/a watch 0 old=- sees=metadata+spec text=",
        ],
        ..PLAIN
    },
    Behavior {
        name: "large objects arrive whole, with the old state",
        config: r#"{ "old": "yes" }"#,
        steps: &[PutLarge("a", 1 << 20), Put("", "a", "", "one"), PutLarge("a", 1 << 20)],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=1048576",
            "2 update default/a watch 0 old=1048576 sees=metadata+spec text=one",
            "3 update default/a watch 0 old=one sees=metadata+spec text=1048576",
        ],
        ..PLAIN
    },
    Behavior {
        name: "a retryable failure is tried again",
        steps: &[Put("", "a", "retryable", "aä€😀")],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=aä€😀",
            "2 add default/a watch 1 old=- sees=metadata+spec text=aä€😀",
        ],
        reports: "aä€😀",
        ..PLAIN
    },
    Behavior {
        name: "a failure with a delay is tried again",
        steps: &[Put("", "a", "retry-after", "aä€😀")],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=aä€😀",
            "2 add default/a watch 1 old=- sees=metadata+spec text=aä€😀",
        ],
        reports: "aä€😀",
        ..PLAIN
    },
    Behavior {
        name: "a permanent failure is a dead letter",
        steps: &[Put("", "a", "permanent", "aä€😀"), Put("", "b", "", "one")],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=aä€😀",
            "2 add default/b watch 0 old=- sees=metadata+spec text=one",
        ],
        reports: "aä€😀",
        ends_with: (1, 0),
        ..PLAIN
    },
    Behavior {
        name: "a trap loses the memory, and the event is retried",
        steps: &[
            Put("", "a", "", "one"),
            Put("", "b", "trap", "two"),
            Put("", "c", "", "three"),
        ],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=one",
            "2 add default/b watch 0 old=- sees=metadata+spec text=two",
            "1 add default/b watch 1 old=- sees=metadata+spec text=two",
            "2 add default/c watch 0 old=- sees=metadata+spec text=three",
        ],
        ends_with: (0, 1),
        ..PLAIN
    },
    Behavior {
        name: "a requeue calls again without a change",
        config: r#"{ "old": "yes" }"#,
        steps: &[Put("", "a", "requeue", "one")],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=one",
            "2 update default/a requeue-after 0 old=- sees=metadata+spec text=one",
        ],
        ..PLAIN
    },
    Behavior {
        name: "a requeue after a delete is a delete",
        steps: &[
            Put("", "a", "", "one"),
            Put("", "a", "requeue", "two"),
            Delete("a", false),
        ],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=one",
            "2 update default/a watch 0 old=- sees=metadata+spec text=two",
            "3 delete default/a watch 0 old=- sees=metadata+spec text=two",
            "4 delete default/a requeue-after 0 old=- sees=metadata+spec text=two",
        ],
        ..PLAIN
    },
    Behavior {
        name: "the next version receives the state",
        steps: &[
            Put("", "a", "", "one"),
            Swap,
            Put("", "a", "", "two"),
            Swap,
            Put("", "a", "", "three"),
        ],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=one",
            "2 update default/a watch 0 old=- sees=metadata+spec text=two",
            "3 update default/a watch 0 old=- sees=metadata+spec text=three",
        ],
        ..PLAIN
    },
    Behavior {
        name: "a failed call remembers nothing",
        steps: &[
            Put("", "a", "remember", "fails"),
            Put("", "b", "remember", "one"),
            Put("", "b", "remember", "two"),
        ],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=fails",
            "remembered=1 new=true keys=seen/a",
            "2 add default/a watch 1 old=- sees=metadata+spec text=fails",
            "remembered=1 new=true keys=seen/a",
            "3 add default/b watch 0 old=- sees=metadata+spec text=one",
            "remembered=2 new=true keys=seen/a,seen/b",
            "4 update default/b watch 0 old=- sees=metadata+spec text=two",
            "remembered=3 new=false keys=seen/a,seen/b",
        ],
        ..PLAIN
    },
    Behavior {
        name: "a failed call changes no metrics",
        steps: &[
            Put("", "a", "measure", "fails"),
            Put("", "b", "measure", "one"),
            Put("", "b", "measure", "one"),
        ],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=fails",
            "undeclared=invalid",
            "2 add default/a watch 1 old=- sees=metadata+spec text=fails",
            "undeclared=invalid",
            "3 add default/b watch 0 old=- sees=metadata+spec text=one",
            "undeclared=invalid",
            "4 update default/b watch 0 old=- sees=metadata+spec text=one",
            "undeclared=invalid",
        ],
        metrics: &[
            r#"bytes{plugin="conformance"} 3.0"#,
            r#"last{plugin="conformance",name="b"} 1.0"#,
            r#"seen_total{plugin="conformance",text="fails"} 1.0"#,
            r#"seen_total{plugin="conformance",text="one"} 2.0"#,
            r#"sizes_bucket{le="+Inf",plugin="conformance"} 3"#,
            r#"sizes_bucket{le="2.0",plugin="conformance"} 0"#,
            r#"sizes_bucket{le="4.0",plugin="conformance"} 2"#,
            r#"sizes_count{plugin="conformance"} 3"#,
            r#"sizes_sum{plugin="conformance"} 11.0"#,
        ],
        ..PLAIN
    },
    Behavior {
        name: "an unnamed cluster is read without naming it",
        steps: &[Put("", "peer", "", "one"), Put("", "reader", "read", "two")],
        lines: &[
            "1 add default/peer watch 0 old=- sees=metadata+spec text=one",
            "2 add default/reader watch 0 old=- sees=metadata+spec text=two",
            "found=one listed=one,two keys=2 everywhere=one,two",
        ],
        ..PLAIN
    },
    Behavior {
        name: "reads default to the cluster of the event",
        steps: &[
            Put("east", "peer", "", "in east"),
            Put("west", "other", "", "in west"),
            Put("east", "reader", "read", "one"),
            Put("west", "reader", "read", "two"),
        ],
        lines: &[
            "synced pods east",
            "synced pods west",
            "1 add default/peer watch 0 old=- sees=metadata+spec text=in east",
            "2 add default/other watch 0 old=- sees=metadata+spec text=in west",
            "3 add default/reader watch 0 old=- sees=metadata+spec text=one",
            "found=in east listed=in east,one keys=2 everywhere=in east,one,in west",
            "4 add default/reader watch 0 old=- sees=metadata+spec text=two",
            "found=- listed=in west,two keys=2 everywhere=in east,one,in west,two",
        ],
        ..PLAIN
    },
];

/// The plugin in each language; a script as a file, too. Missing where a compiler is missing, but never in CI.
pub(crate) fn guests() -> Vec<PathBuf> {
    let all = ["guest_conformance_rust", "guest_conformance_c", "guest_conformance_js"];
    let built: Vec<&str> = all.into_iter().filter(|name| is_built(name)).collect();
    let files = built.iter().filter_map(|name| javascript_source(name));
    built.iter().map(|name| guest(name)).chain(files).collect()
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
        let mut spec = PluginSpec::new("conformance", guest);
        spec.config = serde_json::from_str(config).unwrap();
        spec.informers = vec![("pods".into(), "pods".into())];
        spec.allow_kube = grants(granted);
        spec.on_reload = ReplayPolicy::Continue;
        spec.limits.cpu = Duration::from_millis(500);
        let plugin = world.host.load(spec).await.unwrap();
        plugin.start().await;
        let mut run = Run {
            plugin,
            clusters: clusters
                .iter()
                .map(|name| (*name, world.pods_of("pods", name)))
                .collect(),
            world,
        };
        for at in 0..clusters.len() {
            run.clusters[at].1.attach(&run.plugin.listener());
            run.idle().await;
        }
        run
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
                self.plugin.swap(&self.plugin.spec().component).await.unwrap();
            }
        }
        self.idle().await;
    }

    /// What the plugin has logged, without the messages of panics and exceptions, which not every language has.
    fn lines(&self) -> Vec<String> {
        let lines = self.world.log.lines().into_iter();
        let ours = lines.filter(|line| line.is_of_guest("conformance"));
        let ours = ours.filter(|line| line.level == "INFO");
        let is_expected = |line: &String| line != "synced pods ";
        ours.map(|line| line.message).filter(is_expected).collect()
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

fn shown(address: &KubeAddress) -> String {
    let KubeAddress {
        cluster,
        resource,
        namespace,
        name,
        subresource,
    } = address;
    format!("{cluster}: {resource} {namespace}/{name}{subresource}")
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
    for guest in guests() {
        for behavior in BEHAVIORS {
            let what = format!("{}: {}", guest.display(), behavior.name);
            let clusters = clusters_of(behavior.steps);
            let api = Cluster::answering(Some(0));
            let mut run = Run::new(&guest, behavior.config, &clusters, api, json!([])).await;
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
        }
    }
}

/// A write goes to the event's object, in its cluster, or is refused. The informer is a pattern: it has several kinds.
#[tokio::test(start_paused = true)]
async fn every_language_writes_to_the_object_of_the_event() {
    let granted = json!([
        { "verbs": ["patch"], "resource": "v1/pods" },
        { "verbs": ["patch"], "resource": "v1/configmaps" },
    ]);
    for guest in guests() {
        for (granted, outcome) in [(granted.clone(), "patched"), (json!([]), "denied")] {
            for clusters in [&[""][..], &["east", "west"]] {
                let api = Cluster::answering(Some(0));
                let mut run = Run::new(&guest, "{}", clusters, Arc::clone(&api), granted.clone()).await;
                for cluster in clusters {
                    run.perform(&Put(cluster, "a", "patch", "one")).await;
                    assert_eq!(run.lines().last().unwrap(), outcome, "{}", guest.display());
                    let mut maps = run.world.objects_of("pods", cluster, "ConfigMap", "v1/configmaps");
                    maps.attach(&run.plugin.listener());
                    maps.apply_with("a", &rest("patch", "one"));
                    run.idle().await;
                    let sent: Vec<String> = api.take().into_iter().map(|call| shown(&call.address)).collect();
                    let expected = match outcome {
                        "patched" => ["v1/pods", "v1/configmaps"]
                            .map(|of| format!("{cluster}: {of} default/a"))
                            .to_vec(),
                        _ => Vec::new(),
                    };
                    assert_eq!(sent, expected, "{}", guest.display());
                }
            }
        }
    }
}

/// What a pod wants, and the writes that follow: of the call that succeeds, in their order, and of no other call.
#[tokio::test(start_paused = true)]
async fn every_language_defers_writes_until_its_call_succeeds() {
    let granted = json!([
        { "verbs": ["create", "update"], "resource": "v1/configmaps" },
        { "verbs": ["patch", "delete"], "resource": "v1/pods" },
    ]);
    let in_order = [
        "create v1/configmaps default/",
        "update v1/configmaps default/a",
        "patch v1/pods default/a",
        "delete v1/pods default/a",
    ];
    for guest in guests() {
        for (action, calls, sent) in [
            ("defer", 1, &in_order[..]),
            ("defer-retryable", 2, &in_order),
            ("defer-trap", 2, &in_order),
            ("defer-permanent", 1, &[]),
        ] {
            for cluster in ["", "west"] {
                let what = format!("{}: {action} in {cluster:?}", guest.display());
                let (api, granted) = (Cluster::answering(Some(0)), granted.clone());
                let mut run = Run::new(&guest, "{}", &[cluster], Arc::clone(&api), granted).await;
                run.perform(&Put(cluster, "a", action, "one")).await;
                let deferred = "create=deferred update=deferred patch=deferred delete=deferred";
                let lines = run.lines();
                assert_eq!(
                    lines.iter().filter(|line| *line == deferred).count(),
                    calls,
                    "{what}: {lines:?}"
                );
                assert_eq!(writes(&api), of_cluster(cluster, sent), "{what}");
            }
        }
    }
}

/// Each write is authorized when it is deferred. The granted ones are made.
#[tokio::test(start_paused = true)]
async fn no_language_defers_writes_that_are_not_granted() {
    let maps = json!([{ "verbs": ["create", "update"], "resource": "v1/configmaps" }]);
    for guest in guests() {
        for (granted, outcomes, sent) in [
            (
                json!([]),
                "create=denied update=denied patch=denied delete=denied",
                &[][..],
            ),
            (
                maps.clone(),
                "create=deferred update=deferred patch=denied delete=denied",
                &["create v1/configmaps default/", "update v1/configmaps default/a"],
            ),
        ] {
            let api = Cluster::answering(Some(0));
            let mut run = Run::new(&guest, "{}", &[""], Arc::clone(&api), granted).await;
            run.perform(&Put("", "a", "defer", "one")).await;
            assert_eq!(run.lines().last().unwrap(), outcomes, "{}", guest.display());
            assert_eq!(writes(&api), of_cluster("", sent), "{}", guest.display());
        }
    }
}

/// What was sent, with the verbs.
fn writes(api: &Cluster) -> Vec<String> {
    let calls = api.take().into_iter();
    calls
        .map(|call| {
            let (address, verb) = (&call.address, call.action.verb());
            let KubeAddress {
                cluster,
                resource,
                namespace,
                name,
                ..
            } = address;
            format!("{cluster}: {} {resource} {namespace}/{name}", verb.as_str())
        })
        .collect()
}

fn of_cluster(cluster: &str, writes: &[&str]) -> Vec<String> {
    writes.iter().map(|write| format!("{cluster}: {write}")).collect()
}

#[tokio::test(start_paused = true)]
async fn every_language_computes_indexes_and_leaves_out_failures() {
    for guest in guests() {
        let what = guest.display().to_string();
        let world = World::for_conformance(Cluster::answering(Some(0)));
        let mut spec = PluginSpec::new("conformance", &guest);
        spec.informers = vec![("pods".into(), "pods".into())];
        let plugin = world.host.load(spec).await.unwrap();
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
        assert_eq!(informer.under("text", "one"), ["a", "d"], "{what}");
        assert_eq!(informer.under("text", "aä€😀"), ["b"], "{what}");
    }
}
