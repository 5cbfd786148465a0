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

/// Runs `informant plugin test`, which leaves no file behind. Returns its exit code, and what it printed to both.
fn test(folder: &TempDir, args: &[&str]) -> String {
    let temporary = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_informant"))
        .args(["plugin", "test"])
        .args(args)
        .current_dir(folder.path())
        .env("XDG_CACHE_HOME", artifacts())
        .env("TMPDIR", temporary.path())
        .output()
        .unwrap();
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
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

/// Those of the test kits. A swap for the same file is refused, which the kits do not know.
#[test]
fn scenarios_of_the_test_kits_pass_in_informant() {
    if is_left_out() {
        return;
    }
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugin-sdk/scenarios");
    let (empty, mut passed) = (folder(&[]), 0);
    for entry in fs::read_dir(shared).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if !name.ends_with(".scenario.yaml") || name == "swap.scenario.yaml" {
            continue;
        }
        let text = test(&empty, &["--scenario", path.to_str().unwrap()]);
        assert!(text.ends_with("1 passed, 0 failed\n"), "{name}: {text}");
        passed += 1;
    }
    assert_eq!(passed, 7);
}

#[test]
fn the_example_of_the_reference_passes() {
    if is_left_out() {
        return;
    }
    let scenario = block("reference/scenarios.md", "yaml");
    let script = block("reference/scenarios.md", "javascript");
    let folder = folder(&[("pod-alarm.scenario.yaml", &scenario), ("pod-alarm.js", &script)]);
    insta::assert_snapshot!(test(&folder, &[]), @r#"
    0
    ok      pod-alarm.scenario.yaml: reports failed pods to the team
    1 passed, 0 failed
    "#);
}

#[test]
fn the_example_of_the_guide_passes() {
    if is_left_out() {
        return;
    }
    let scenario = block("guides/test-a-plugin.md", "yaml");
    let script = block("guides/test-a-plugin.md", "javascript");
    let folder = folder(&[("greeter.scenario.yaml", &scenario), ("greeter.js", &script)]);
    insta::assert_snapshot!(test(&folder, &[]), @r#"
    0
    ok      greeter.scenario.yaml: greeter
    1 passed, 0 failed
    "#);
}

#[test]
fn the_examples_of_timers_and_events_pass() {
    if is_left_out() {
        return;
    }
    for (guide, name) in [
        ("guides/timers.md", "cleanup"),
        ("guides/kubernetes-events.md", "latest"),
    ] {
        let (scenario, script) = (block(guide, "yaml"), block(guide, "javascript"));
        let files = [
            (format!("{name}.scenario.yaml"), scenario),
            (format!("{name}.js"), script),
        ];
        let folder = folder(&files.each_ref().map(|(file, text)| (file.as_str(), text.as_str())));
        let passed = test(&folder, &[]);
        assert!(
            passed.starts_with("0\n") && passed.contains("1 passed, 0 failed"),
            "{guide}: {passed}"
        );
    }
}

#[test]
fn everything_a_plugin_does_can_be_expected() {
    if is_left_out() {
        return;
    }
    let steps = format!(
        "
objects: [{}]
kv: {{ last: '\"none\"' }}
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
kv: {{ last: '\"none\"' }}
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
    insta::assert_snapshot!(first, @r#"
    0
    ok      marker.scenario.yaml: marker
    1 passed, 0 failed
    "#);
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
    insta::assert_snapshot!(test(&folder, &["--junit", "results.xml"]), @r#"
    1
    FAILED  marker.scenario.yaml: marker
      marker.scenario.yaml:13:9: calls differ
        - on-add v1/pods shop/second
        + on-add v1/pods shop/first
        + on-update v1/pods shop/first
      marker.scenario.yaml:14:12: log differ
          { fields: { phase: Pending }, level: warn, message: marks shop/first }
        + shop/first at 2026-01-01T00:00:00.000Z
      marker.scenario.yaml:17:11: Pod first differs
        - metadata.labels.marked: "no"
        + metadata.labels.marked: "yes"
      marker.scenario.yaml:15:13: kv differ
        - last: b
        + last: first
    0 passed, 1 failed
    "#);
    let results = fs::read_to_string(folder.path().join("results.xml")).unwrap();
    assert!(results.contains("failures=\"1\""), "{results}");
    insta::assert_snapshot!(test(&folder, &["--update"]), @r#"
    0
    updated marker.scenario.yaml: marker (4 expectations)
    1 passed, 0 failed
    "#);
    let updated = fs::read_to_string(folder.path().join("marker.scenario.yaml")).unwrap();
    let steps = &updated[updated.find("steps:").unwrap()..];
    insta::assert_snapshot!(steps, @r#"
    steps: # what happens
      - apply: { apiVersion: v1, kind: Pod, metadata: { namespace: shop, name: first } } # a pod
        expect:
          calls: [on-add v1/pods shop/first, on-update v1/pods shop/first]
          log: ["marks *", shop/first at 2026-01-01T00:00:00.000Z] # a line
          kv: { last: first }
          objects: [{ apiVersion: v1, kind: Pod, metadata: { labels: { marked: "yes" }, name: first, namespace: shop } }]
    "#);
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
    insta::assert_snapshot!(test(&folder, &[]), @r#"
    1
    FAILED  marker.scenario.yaml: marker
      marker.scenario.yaml:17:5: marker.js has the content that runs already
    0 passed, 1 failed
    "#);
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
    insta::assert_snapshot!(test(&marker(steps), &[]), @r#"
    3
    INVALID marker.scenario.yaml: marker
    0 passed, 1 failed
    error: marker.scenario.yaml:9:11: `objects` has an object of v1/nodes, which no informer of the plugin watches
      help: add an informer for it, a grant in `allow.kube`, or remove the object; the plugin's informers: pods (`v1/pods`)
    error: marker.scenario.yaml:11:12: the API server of scenarios does not have the kind example.com/v1 Widget
      help: correct it, or add its CustomResourceDefinition to `objects`
    error: marker.scenario.yaml:12:13: the API server of scenarios does not have the resource v1/pod
      help: write it as in config.toml (v1/pods, apps/v1/deployments), or add its CustomResourceDefinition to `objects`
    error: marker.scenario.yaml:14:15: on-synced is never called: the plugin does not have the role sync-handler
      help: export the function, or correct the expectation
    error: marker.scenario.yaml:14:34: save is never called: the plugin does not have the role state
      help: export the function, or correct the expectation
    error: marker.scenario.yaml:14:40: the handler is never called for v1/nodes, which no informer of the plugin watches
      help: the plugin's informers: pods (`v1/pods`)
    error: marker.scenario.yaml:15:16: the plugin may not delete v1/pods, so that it is never sent
      help: grant it: allow.kube = [{ resource = "v1/pods", verbs = ["delete"] }]
    error: marker.scenario.yaml:16:14: the plugin may not send HTTP requests
      help: grant it: allow.http = ["https://hooks.example/"]
    error: marker.scenario.yaml:17:35: pods has no index byNod
      help: did you mean `byNode`?
    error: marker.scenario.yaml:17:65: the plugin has no informer nodes
      help: informers: `pods`
    error: marker.scenario.yaml:18:18: the plugin's manifest declares no metric sen
      help: did you mean `seen`?
    error: marker.scenario.yaml:18:34: seen_total{ is not a series
      help: write it as in a query: failures_total{namespace="shop"}
    "#);
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
    insta::assert_snapshot!(test(&folder, &[]), @r#"
    0
    ok      scenarios/a.scenario.yaml: a
    1 passed, 0 failed
    "#);
    let named = test(&folder, &["marker.js", "--scenario", "scenarios/a.scenario.yaml"]);
    assert!(named.starts_with("0\n"), "{named}");
    fs::write(folder.path().join("marker.js"), "export const onAdd = () => {};").unwrap();
    insta::assert_snapshot!(test(&folder, &[]), @r#"
    1
    INVALID scenarios/a.scenario.yaml: a
    0 passed, 1 failed
    error: scenarios/a.scenario.yaml: the plugin's manifest wants objects of every kind: name informers, as in `config: { informer: { pods: { resource: v1/pods } } }`
    "#);
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
    insta::assert_snapshot!(all.join("\n"), @r#"
    1
    error: none does not exist; name a scenario file, or the folder of a plugin

    1
    error: empty has no scenario: write one as empty/NAME.scenario.yaml, or name it with --scenario (docs/reference/scenarios.md)

    1
    error: marker.js is not a scenario, whose name ends in .scenario.yaml: name the scenario too, as in `informant plugin test marker.js --scenario NAME.scenario.yaml`

    3
    INVALID a/bad.scenario.yaml
    INVALID a/config.scenario.yaml: config
    INVALID a/keys.scenario.yaml: keys
    INVALID a/path.scenario.yaml: path
    0 passed, 4 failed
    error: a/bad.scenario.yaml:2:5: unknown member `aply` in a step
      help: did you mean `apply`?
    error: a/bad.scenario.yaml:3:12: an object in `apply` lacks `apiVersion`
      help: an object has at least apiVersion, kind and metadata.name, all of them texts
    error: a/none.toml: failed to read: No such file or directory (os error 2)
      help: name the configuration with -c FILE; the default is config.toml in the current folder
    error: a/keys.scenario.yaml:1:9: config: [informer.a] lacks `resource`
      help: set what to watch: resource = "v1/pods"
    error: a/keys.scenario.yaml:1:9: config: unknown key `resorce` in [informer.a]
      help: did you mean `resource`?
    error: a/path.scenario.yaml:1:7: `path`: a/nowhere does not exist
      help: correct the path, which is relative to the file that has it
    "#);
}

#[test]
fn what_a_scenario_names_wrongly_is_refused_with_its_place() {
    if is_left_out() {
        return;
    }
    let section = |script: &str| {
        format!(
            "config:\n  informer: {{ pods: {{ resource: v1/pods }} }}\n  plugin: {{ marker: {{ script: {script}, \
             informers: [pods] }} }}\n"
        )
    };
    let object = "objects:\n  - { apiVersion: v1, kind: Pod, metadata: { name: No_Name } }\n";
    let folder = folder(&[
        ("marker.js", SCRIPT),
        ("other.js", SCRIPT),
        ("a.scenario.yaml", &format!("{}steps: []\n", section("none.js"))),
        (
            "b.scenario.yaml",
            &format!("{}steps: [{{ swap: none.js }}]\n", section("marker.js")),
        ),
        (
            "c.scenario.yaml",
            &format!("{}path: other.js\nsteps: []\n", section("marker.js")),
        ),
        (
            "d.scenario.yaml",
            &format!("{}path: .\nsteps: []\n", section("marker.js")),
        ),
        (
            "e.scenario.yaml",
            &format!("{}{object}steps: []\n", section("marker.js")),
        ),
    ]);
    insta::assert_snapshot!(test(&folder, &[]), @r#"
    3
    INVALID a.scenario.yaml: a
    INVALID b.scenario.yaml: b
    INVALID c.scenario.yaml: c
    ok      d.scenario.yaml: d
    INVALID e.scenario.yaml: e
    1 passed, 4 failed
    error: a.scenario.yaml:2:3: `config`: none.js does not exist
      help: correct the path, which is relative to the file that has it
    error: b.scenario.yaml:4:9: `swap`: none.js does not exist
      help: correct the path, which is relative to the file that has it
    error: c.scenario.yaml:4:7: `path` names other.js, but the plugin's section names marker.js
      help: remove `path`, or `script` of the section
    error: e.scenario.yaml:5:5: `objects`: Pod No_Name: Pod "No_Name" is invalid: metadata.name: Invalid value: "No_Name": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
      help: correct it as the API server would have it
    "#);
}

#[test]
fn a_scenario_that_is_named_alone_finds_its_plugin() {
    if is_left_out() {
        return;
    }
    let scenario = "config: { informer: { pods: { resource: v1/pods } } }\nsteps: []\n";
    let folder = folder(&[
        ("it/marker.js", SCRIPT),
        ("it/a.scenario.yaml", scenario),
        ("it/scenarios/b.scenario.yaml", scenario),
        ("go/go.mod", "module example.com/go\n"),
        ("go/c.scenario.yaml", scenario),
    ]);
    let both = [
        "--scenario",
        "it/a.scenario.yaml",
        "--scenario",
        "it/scenarios/b.scenario.yaml",
    ];
    insta::assert_snapshot!(test(&folder, &both), @r#"
    0
    ok      it/a.scenario.yaml: a
    ok      it/scenarios/b.scenario.yaml: b
    2 passed, 0 failed
    "#);
    let unbuilt = Command::new(env!("CARGO_BIN_EXE_informant"))
        .args(["plugin", "test", "--no-build"])
        .current_dir(folder.path().join("go"))
        .output()
        .unwrap();
    let said = String::from_utf8(unbuilt.stderr).unwrap();
    assert!(
        said.contains("error: . has to be built: leave out --no-build"),
        "{said}"
    );
}

#[test]
fn a_call_that_waits_for_time_is_named() {
    if is_left_out() {
        return;
    }
    let script = "export const onAdd = async () => void (await fetch('https://hooks.example/'));";
    let scenario = format!(
        "\
config:
  informer: {{ pods: {{ resource: v1/pods }} }}
  plugin: {{ caller: {{ script: caller.js, informers: [pods], allow: {{ http: [https://hooks.example/] }} }} }}
http: [{{ url: https://hooks.example/, after: 5s }}]
steps:
  - apply: {}
    expect: {{ calls: [on-add v1/pods shop/first] }}
  - wait: 5s
    expect: {{ calls: [on-add v1/pods shop/first] }}
",
        pod("first", "")
    );
    let folder = folder(&[("caller.js", script), ("caller.scenario.yaml", &scenario)]);
    insta::assert_snapshot!(test(&folder, &[]), @r#"
    1
    FAILED  caller.scenario.yaml: caller
      caller.scenario.yaml:7:22: calls differ
        - on-add v1/pods shop/first
        call on-add v1/pods shop/first has not returned: it waits for time, which only `wait` moves
    0 passed, 1 failed
    "#);
}

#[test]
fn an_update_that_would_touch_an_anchor_writes_nothing() {
    if is_left_out() {
        return;
    }
    let steps = format!(
        "\nsteps:\n  - apply: {}\n    expect: &none {{ calls: [] }}\n  - wait: 1s\n    expect: *none\n",
        pod("first", "")
    );
    let folder = marker(&steps);
    let before = fs::read_to_string(folder.path().join("marker.scenario.yaml")).unwrap();
    insta::assert_snapshot!(test(&folder, &["--update"]), @r#"
    1
    FAILED  marker.scenario.yaml: marker
      marker.scenario.yaml:11:28: calls differ
        + on-add v1/pods shop/first
        + on-update v1/pods shop/first
        `calls` has an anchor or an alias: --update does not rewrite it
    0 passed, 1 failed
    "#);
    assert_eq!(
        fs::read_to_string(folder.path().join("marker.scenario.yaml")).unwrap(),
        before
    );
}
