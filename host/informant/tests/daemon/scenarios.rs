//! `informant plugin test`: what passes, what is shown of a failure, what an update writes, and what is refused.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::world::artifacts;

/// Whether `cargo xtask test` leaves out what needs the script runner.
fn is_left_out() -> bool {
    std::env::var_os("INFORMANT_TESTS_WITHOUT_SCRIPTS").is_some()
}

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// Runs `informant plugin test`. Returns its exit code, and what it printed to both.
fn test(folder: &TempDir, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_informant"))
        .args(["plugin", "test"])
        .args(args)
        .current_dir(folder.path())
        .env("XDG_CACHE_HOME", artifacts())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    format!(
        "{}\n{}",
        output.status.code().unwrap(),
        String::from_utf8(text).unwrap()
    )
}

/// The first block in this language of a page.
fn block(page: &str, language: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once(&format!("\n```{language}\n")).unwrap();
    rest.split_once("```\n").unwrap().0.to_owned()
}

/// Counts the pods of each node, writes what it remembers, and fails on demand.
const SCRIPT: &str = r#"
import { Permanent, kube, kv, log, metrics } from "informant";

export const manifest = {
  name: "marker",
  events: [{ apiVersion: "v1", kind: "Pod" }],
  indexes: ["byNode"],
  metrics: [{ name: "seen", type: "counter", help: "Pods seen", labels: ["namespace"] }],
};

export const index = (pod) => ({ byNode: pod.spec?.nodeName ?? "none" });

export function onAdd(pod, event) {
  const wish = pod.metadata.annotations?.wish;
  if (wish === "permanent") throw new Permanent("it never works");
  if (wish === "again") return { requeueAfter: 30000 };
  metrics.add("seen", 1, { namespace: pod.metadata.namespace });
  kv.set("last", pod.metadata.name);
  log.warn(`marks ${event}`, { phase: pod.status?.phase ?? "none" });
  kube.defer.patch(event, { metadata: { labels: { marked: "yes" } } });
}

export const onUpdate = (pod, event) => log.info(`${event} at ${new Date().toISOString()}`);

export const onDelete = (pod, event) => log.info(`${event} is gone`);
"#;

const CONFIG: &str = "\
config:
  informer: { pods: { resource: v1/pods } }
  plugin:
    marker:
      script: marker.js
      informers: [pods]
      allow: { kube: [{ resource: v1/pods, verbs: [patch] }] }
";

fn marker(steps: &str) -> TempDir {
    folder(&[
        ("marker.js", SCRIPT),
        ("marker.scenario.yaml", &format!("{CONFIG}{steps}")),
    ])
}

/// A pod in one line of YAML.
fn pod(name: &str, rest: &str) -> String {
    format!("{{ apiVersion: v1, kind: Pod, metadata: {{ namespace: shop, name: {name}{rest} }} }}")
}

#[test]
fn the_example_of_the_reference_passes() {
    if is_left_out() {
        return;
    }
    let scenario = block("reference/scenarios.md", "yaml");
    let script = block("reference/scenarios.md", "javascript");
    let folder = folder(&[("pod-alarm.scenario.yaml", &scenario), ("pod-alarm.js", &script)]);
    insta::assert_snapshot!(test(&folder, &[]));
}

#[test]
fn the_example_of_the_guide_passes() {
    if is_left_out() {
        return;
    }
    let scenario = block("guides/test-a-plugin.md", "yaml");
    let script = block("guides/test-a-plugin.md", "javascript");
    let folder = folder(&[("greeter.scenario.yaml", &scenario), ("greeter.js", &script)]);
    insta::assert_snapshot!(test(&folder, &[]));
}

#[test]
fn everything_a_plugin_does_can_be_expected() {
    if is_left_out() {
        return;
    }
    let steps = format!(
        "
objects: [{}]
kv: {{ last: '"none"' }}
steps:
  - expect:
      calls: [{{ call: on-add, object: v1/pods shop/first, reason: initial }}, {{ includes: on-update v1/pods shop/first }}]
",
        pod("first", "")
    );
    // A list has no member `includes`: the whole one has.
    let folder = marker(&steps);
    assert!(test(&folder, &[]).starts_with("3\n"));
    let steps = format!(
        "
objects: [{}]
kv: {{ last: '"none"' }}
steps:
  - expect:
      calls: {{ includes: [{{ call: on-add, object: v1/pods shop/first, reason: initial }}] }}
      log: [{{ level: warn, message: marks shop/first, fields: {{ phase: Pending }} }}, \"shop/first at 2025-12-31T23:59:50.*Z\"]
      writes: [{{ verb: patch, object: v1/pods shop/first, kind: merge, result: ok }}]
      indexes: {{ pods: {{ byNode: {{ none: [shop/first] }} }} }}
      kv: {{ last: first, other: null }}
      metrics: {{ 'seen_total{{namespace=\"shop\"}}': 1 }}
      objects: [{}]
  - apply: {}
    expect:
      calls: [{{ call: on-add, result: permanent, error: \"*never works*\" }}]
      deadLetters: [v1/pods shop/broken]
      writes: []
  - requeue: all
    expect: {{ calls: [{{ call: on-add, reason: requeue }}] }}
  - apply: {}
    expect: {{ calls: [{{ call: on-add, requeueAfter: 30s }}], deadLetters: [v1/pods shop/broken] }}
  - wait: 29s
    expect: {{ calls: [] }}
  - wait: 1s
    expect: {{ calls: [{{ object: v1/pods shop/later, reason: requeue-after }}] }}
  - trigger: v1/pods shop/first
    expect: {{ calls: [{{ call: on-update, reason: trigger }}], log: [\"shop/first at 2026-01-01T00:00:30.*Z\"] }}
  - delete: v1/pods shop/first
    expect: {{ log: [shop/first is gone], absent: [v1/pods shop/first] }}
",
        pod("first", ""),
        pod("first", ", labels: { marked: \"yes\" }"),
        pod("broken", ", annotations: { wish: permanent }"),
        pod("later", ", annotations: { wish: again }"),
    );
    let folder = marker(&steps);
    let first = test(&folder, &[]);
    insta::assert_snapshot!(first);
    assert_eq!(test(&folder, &[]), first, "the same scenario gives the same output");
}

#[test]
fn a_failure_shows_what_differs_and_an_update_corrects_it() {
    if is_left_out() {
        return;
    }
    let steps = format!(
        "
steps: # what happens
  - apply: {} # a pod
    expect:
      calls:
        - on-add v1/pods shop/second
      log: [marks *] # a line
      kv: {{ last: b }}
      objects:
        - {}
",
        pod("first", ""),
        pod("first", ", labels: { marked: \"no\" }"),
    );
    let folder = marker(&steps);
    insta::assert_snapshot!("failure", test(&folder, &["--junit", "results.xml"]));
    let results = fs::read_to_string(folder.path().join("results.xml")).unwrap();
    assert!(results.contains("failures=\"1\""), "{results}");
    insta::assert_snapshot!("update", test(&folder, &["--update"]));
    let updated = fs::read_to_string(folder.path().join("marker.scenario.yaml")).unwrap();
    insta::assert_snapshot!("updated", updated);
    let said = test(&folder, &["marker.scenario.yaml"]);
    assert!(said.starts_with("0\n"), "{said}");
}

#[test]
fn a_swap_replaces_the_plugin_or_is_refused() {
    if is_left_out() {
        return;
    }
    let steps = format!(
        "
steps:
  - swap: next.js
    expect: {{ calls: [] }}
  - apply: {}
    expect: {{ calls: [on-add v1/pods shop/first], log: [next sees shop/first] }}
  - swap: broken.js
    expect: {{ refused: \"*broken*\" }}
  - swap: marker.js
  - swap: marker.js
",
        pod("first", "")
    );
    let folder = marker(&steps);
    let next = "export const onAdd = (pod, event) => console.log(`next sees ${event}`);";
    fs::write(folder.path().join("next.js"), next).unwrap();
    fs::write(folder.path().join("broken.js"), "throw new Error('broken');").unwrap();
    insta::assert_snapshot!(test(&folder, &[]));
}

#[test]
fn what_can_never_happen_is_refused_before_anything_runs() {
    if is_left_out() {
        return;
    }
    let steps = "
objects: [{ apiVersion: v1, kind: Node, metadata: { name: node-1 } }]
steps:
  - apply: { apiVersion: example.com/v1, kind: Widget, metadata: { name: a } }
  - delete: v1/pod shop/first
  - expect:
      calls: [on-synced v1/pods, save, on-add v1/nodes node-1]
      writes: [{ verb: delete, object: v1/pods shop/first }]
      http: [{ url: https://hooks.example/ }]
      indexes: { pods: { byNod: { a: [] } }, nodes: { byNode: { a: [] } } }
      metrics: { 'sen_total': 1, 'seen_total{': 1 }
";
    insta::assert_snapshot!(test(&marker(steps), &[]));
}

#[test]
fn informers_and_section_follow_from_the_manifest() {
    if is_left_out() {
        return;
    }
    let scenario = format!(
        "steps:\n  - apply: {}\n    expect: {{ calls: [on-add v1/pods shop/first] }}\n",
        pod("first", ", annotations: { wish: again }")
    );
    let files = [("marker.js", SCRIPT), ("scenarios/a.scenario.yaml", &scenario)];
    let folder = folder(&files);
    insta::assert_snapshot!(test(&folder, &[]));
    let named = test(&folder, &["marker.js", "--scenario", "scenarios/a.scenario.yaml"]);
    assert!(named.starts_with("0\n"), "{named}");
    fs::write(folder.path().join("marker.js"), "export const onAdd = () => {};").unwrap();
    insta::assert_snapshot!("every_kind", test(&folder, &[]));
}

#[test]
fn what_is_no_scenario_is_named_with_the_remedy() {
    let invalid = "steps:\n  - aply: {}\n  - apply: { kind: Pod }\n";
    let folder = folder(&[
        ("marker.js", SCRIPT),
        ("empty/handler.js", ""),
        ("a/bad.scenario.yaml", invalid),
        ("a/config.scenario.yaml", "config: none.toml\nsteps: []\n"),
        (
            "a/keys.scenario.yaml",
            "config: { informer: { a: { resorce: v1/pods } } }\npath: ../marker.js\nsteps: []\n",
        ),
        ("a/path.scenario.yaml", "path: nowhere\nsteps: []\n"),
    ]);
    let all = [
        test(&folder, &["none"]),
        test(&folder, &["empty"]),
        test(&folder, &["marker.js"]),
        test(&folder, &["a"]),
    ];
    insta::assert_snapshot!(all.join("\n"));
}
