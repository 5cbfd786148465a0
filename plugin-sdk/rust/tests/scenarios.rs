//! The test kit runs scenario files: those of all languages, and what it says about others.

#[path = "scenarios/scribe.rs"]
mod scribe;

use std::fs;
use std::panic;
use std::path::Path;

use informant_plugin_sdk::testing::{Exported, run_scenario};
use insta::assert_snapshot;

use self::scribe::Scribe;

const POD: &str = "{ apiVersion: v1, kind: Pod, metadata: { namespace: web, name: a, annotations: { do: never } } }";

#[test]
fn the_scenarios_of_all_languages_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let mut files = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().ends_with(".scenario.yaml") {
            run_scenario::<Scribe>(path);
            files += 1;
        }
    }
    assert!(files > 5, "{files} files");
}

/// What a scenario with this text reports, next to other files.
fn outcome_of<P: Exported>(text: &str, others: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in others.iter().chain([&("a.scenario.yaml", text)]) {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let run = || run_scenario::<P>(folder.path().join("a.scenario.yaml"));
    let Err(panicked) = panic::catch_unwind(run) else {
        return "passed".to_owned();
    };
    let message = panicked.downcast_ref::<String>().expect("a message");
    let message = message.replace(&format!("{}/", folder.path().display()), "");
    message.replacen("the scenario has failed:\n", "", 1)
}

fn outcome(text: &str) -> String {
    outcome_of::<Scribe>(&text.replace("POD", POD), &[])
}

#[test]
fn differences_are_listed_with_lines() {
    let text = "
steps:
  - apply: POD
    expect:
      calls: [on-synced, { call: on-add, result: ok }]
      log: []
      absent: [v1/pods web/a]
      kv: { last: a }
      metrics: { 'handled_total{call=\"add\"}': 1 }
      objects: [{ apiVersion: v1, kind: Pod, metadata: { namespace: web, name: a, labels: { x: y } } }]
";
    assert_snapshot!(outcome(text), @"");
}

#[test]
fn a_call_as_text_is_one_that_succeeded() {
    let with = |calls: &str| outcome(&format!("steps: [{{ apply: POD, expect: {{ calls: {calls} }} }}]"));
    assert_snapshot!(with("[on-synced, on-add v1/pods web/a]"), @"");
    assert_snapshot!(with("{ includes: [on-add] }"), @"");
}

#[test]
fn a_mapping_that_expects_nothing_matches_what_is_absent() {
    for (labels, passes) in [
        ("{ a: null, b: { c: null } }", true),
        ("{}", false),
        ("{ a: null, b: {} }", false),
        ("{ a: null, b: c }", false),
    ] {
        let object =
            format!("{{ apiVersion: v1, kind: Pod, metadata: {{ namespace: web, name: a, labels: {labels} }} }}");
        let expect = format!("{{ objects: [{object}], kv: {{ last: {labels} }} }}");
        let found = outcome(&format!("steps: [{{ apply: POD, expect: {expect} }}]"));
        let differs = found.contains("metadata.labels: expected ") && found.contains("but the key is not set");
        assert_eq!((found == "passed", differs), (passes, !passes), "{labels}: {found}");
    }
}

#[test]
fn indexes_of_informers_in_config_are_there() {
    let config =
        "config: { informer: { pods: { resource: v1/pods, index: { owner: POINTER } } }, plugin: { scribe: {} } }\n";
    let steps = "steps: [{ apply: { apiVersion: v1, kind: Pod, metadata: { namespace: web, name: a, ownerReferences: \
                 [{ uid: u1 }] } }, expect: { indexes: { pods: { owner: { u1: [web/a], u2: [] } } } } }]";
    let with = |pointer: &str| outcome(&format!("{}{steps}", config.replace("POINTER", pointer)));
    assert_eq!(with("/metadata/ownerReferences/*/uid"), "passed");
    assert_snapshot!(with("metadata.uid"), @"");
    assert_snapshot!(outcome(steps), @"");
}

#[test]
fn a_configuration_is_read_from_its_file() {
    let text =
        "config: config.toml\nsteps: [{ apply: POD, expect: { deadLetters: [v1/pods web/a] } }]".replace("POD", POD);
    let with = |config: &str| outcome_of::<Scribe>(&text, &[("config.toml", config)]);
    let config = "[informer.pods]\nresource = \"v1/pods\"\n[plugin.scribe]\ncomponent = \"scribe.wasm\"\ninformers = [\"pods\"]\n";
    assert_eq!(with(&format!("[state]\n[cluster]\n{config}")), "passed");
    // Its message is that of the database, not `never`.
    let denied = text.replace("[v1/pods web/a]", "[{ object: v1/pods web/a, error: never }]");
    assert_snapshot!(outcome_of::<Scribe>(&denied, &[("config.toml", config)]), @"");
    assert_snapshot!(with(&format!("{config}limits.cpu = \"1s\"\n")), @"");
    assert_snapshot!(with("a = "), @"");
    assert_snapshot!(outcome_of::<Scribe>(&text, &[]), @"");
}

#[test]
fn mistakes_in_a_file_have_a_line_and_a_remedy() {
    let texts = [
        "steps: [{ aply: 1 }]",
        "name: a",
        "steps: [{ apply: POD, wait: 1s }]",
        "steps:\n- wait: 10",
        "steps:\n- delete: web/a",
        "steps:\n- delete: v1/pods web/a",
        "steps: [{ requeue: v1/pods web/a }, { apply: POD }]",
        "steps:\n- apply: { kind: Pod }",
        "steps: 1",
        "objects: [{ apiVersion: v1, kind: Node, metadata: { name: a } }]\nsteps: []",
        "http: [{ url: x, method: 1 }]\nsteps: []",
        "http: [{ url: x, status: ok }]\nsteps: []",
        "http: [{ url: x, error: tls }]\nsteps: []",
        "http: [{ status: 200 }]\nsteps: []",
        "config: { plugin: { a: {}, b: {} } }\nsteps: []",
        "config: { plugin: { a: {} } }\nplugin: b\nsteps: []",
    ];
    assert_snapshot!(texts.map(outcome).join("\n"), @"");
}

#[test]
fn expectations_that_can_never_match_are_refused() {
    let texts = [
        "{ calls: [{ call: on-change }] }",
        "{ calls: [on-change v1/pods web/a] }",
        "{ calls: [{ call: on-add, result: done }] }",
        "{ calls: [{ attempt: first }] }",
        "{ calls: [on-add v1/nodes a] }",
        "{ log: [{ message: [a] }] }",
        "{ writes: [{ verb: patch }] }",
        "{ http: [{ method: GET }] }",
        "{ metrics: { seen: 1 } }",
        "{ metrics: { 'handled_total{call}': 1 } }",
        "{ indexes: { nodes: { node: { n1: [] } } } }",
        "{ absent: [web/a] }",
    ];
    let found = texts.map(|expect| outcome(&format!("steps: [{{ expect: {expect} }}]")));
    assert_snapshot!(found.join("\n"), @"");
}

#[test]
fn yaml_that_is_broken_has_a_line() {
    let texts = [
        "steps: [",
        "name: a\nname: b\nsteps: []",
        "{ [a]: b }",
        "steps:\n  - apply: |\n      kind: Pod\n      a: [}",
        "steps:\n  - apply: |\n      kind: Pod\n      kind: Node",
        "a: *b",
        "a: 1\n---\na: 1",
    ];
    assert_snapshot!(texts.map(outcome).join("\n"), @"");
}

#[test]
fn what_only_informant_can_do_is_refused() {
    let texts = [
        "config: { plugin: { scribe: { limits: { cpu: 1s } } } }\nsteps: []",
        "config: { informer: { all: { resource: apps/v1/* } } }\nsteps: []",
        "config: { informer: { nodes: { resource: v1/nodes } } }\nsteps: []",
        "config: { tracing: {} }\nsteps: []",
        "http: [{ url: x, after: 1s }]\nsteps: []",
        "steps: [{ replay: {} }]",
        "path: a.wasm\nsteps: [{ swap: b.wasm }]",
        "steps: [{ expect: { calls: [{ result: trap }] } }]",
        "time: 2026-11-28T11:21:16Z\nsteps: []",
    ];
    assert_snapshot!(texts.map(outcome).join("\n"), @"");
}

mod broken {
    use informant_plugin_sdk::prelude::*;

    /// Fails to start with `refuses`, and plays one role.
    pub(crate) struct Broken;

    impl Plugin for Broken {
        fn init(init: Init) -> Result<Self> {
            match init.plugin.as_str() {
                "refuses" => Err(Failure::permanent("config: it refuses")),
                _ => Ok(Self),
            }
        }
    }

    impl SyncHandler for Broken {
        fn on_synced(&mut self, _: &Synced) -> Result {
            Ok(())
        }
    }

    informant_plugin_sdk::export!(Broken: sync);
}

#[test]
fn a_refused_plugin_fails_the_scenario_unless_expected() {
    let with = |expect: &str| {
        let text = format!("config: {{ plugin: {{ refuses: {{}} }} }}\nsteps: [{{ expect: {expect} }}]");
        outcome_of::<broken::Broken>(&text, &[])
    };
    assert_eq!(with("{ refused: '*it refuses' }"), "passed");
    assert_snapshot!(with("{ calls: [] }"), @"");
    assert_snapshot!(with("{ refused: another }"), @"");
    assert_snapshot!(outcome("steps: [{ expect: { refused: a } }]"), @"");
}

#[test]
fn roles_that_a_plugin_lacks_are_not_called() {
    let config = "config: { informer: { pods: { resource: v1/pods } } }\n";
    let with = |calls: &str| {
        let text = format!("{config}steps: [{{ apply: POD, expect: {{ calls: {calls} }} }}]").replace("POD", POD);
        outcome_of::<broken::Broken>(&text, &[])
    };
    assert_eq!(with("[on-synced v1/pods]"), "passed");
    assert_snapshot!(with("[on-add v1/pods web/a]"), @"");
}
