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
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in others.iter().chain([&("a.scenario.yaml", text)]) {
        fs::write(folder.path().join(name), text).expect("a file");
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
    assert_snapshot!(outcome(text), @r#"
    a.scenario.yaml:5: steps[0].expect.calls[1]: result: expected "ok", found "permanent"
    a.scenario.yaml:6: steps[0].expect.log: one too many: {"fields":{},"level":"info","message":"synced with 0 pods"}
    a.scenario.yaml:6: steps[0].expect.log: one too many: {"fields":{"handled":1},"level":"info","message":"add web/a -"}
    a.scenario.yaml:7: steps[0].expect.absent[0]: v1/pods web/a exists
    a.scenario.yaml:8: steps[0].expect.kv.last: expected "a", but the key is not set
    a.scenario.yaml:9: steps[0].expect.metrics.handled_total{call="add"}: expected 1, found nothing
    a.scenario.yaml:10: steps[0].expect.objects[0]: metadata.labels: expected {"x":"y"}, found nothing
    "#);
}

#[test]
fn a_call_as_text_is_one_that_succeeded() {
    let with = |calls: &str| outcome(&format!("steps: [{{ apply: POD, expect: {{ calls: {calls} }} }}]"));
    assert_snapshot!(with("[on-synced, on-add v1/pods web/a]"), @r#"a.scenario.yaml:1: steps[0].expect.calls[1]: result: expected "ok", found "permanent""#);
    assert_snapshot!(with("{ includes: [on-add] }"), @r#"a.scenario.yaml:1: steps[0].expect.calls.includes[0]: not found: {"call":"on-add","result":"ok"}; there are: [{"attempt":0,"call":"on-synced","object":"v1/pods","reason":"initial","result":"ok"},{"attempt":0,"call":"on-add","error":"never","object":"v1/pods web/a","reason":"watch","result":"permanent"}]"#);
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
    assert_snapshot!(with("metadata.uid"), @r#"a.scenario.yaml:1: config.informer.pods.index.owner: "metadata.uid" is not a JSON pointer: write it as /spec/nodeName"#);
    assert_snapshot!(outcome(steps), @"a.scenario.yaml:1: steps[0].expect.indexes.pods.owner.u1: neither the manifest nor informer.pods.index in `config` declares the index owner");
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
    assert_snapshot!(outcome_of::<Scribe>(&denied, &[("config.toml", config)]), @r#"a.scenario.yaml:2: steps[0].expect.deadLetters[0]: error: expected "never", found "kv needs the state database; add this line to config.toml: [state]""#);
    assert_snapshot!(with(&format!("{config}limits.cpu = \"1s\"\n")), @"config.toml: plugin.scribe.limits: a Driver cannot do this: run the scenario with `informant plugin test`");
    assert_snapshot!(with("a = ").lines().next().unwrap(), @"a.scenario.yaml:1: config: config.toml: TOML parse error at line 1, column 5");
    assert_snapshot!(outcome_of::<Scribe>(&text, &[]), @"a.scenario.yaml:1: config: config.toml cannot be read: No such file or directory (os error 2)");
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
        "steps: [{ requeue: all }]",
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
    assert_snapshot!(texts.map(outcome).join("\n"), @r#"
    a.scenario.yaml:1: steps[0].aply: there is no such member; there are apply, delete, http, patch, requeue, swap, timer, trigger, wait, expect
    a.scenario.yaml:1: the scenario has no `steps`: write what happens
    a.scenario.yaml:1: steps[0]: a step has two actions, apply and wait: make a step of its own for wait
    a.scenario.yaml:2: steps[0].wait: 10 is not a duration: write it as 30s or 5m
    a.scenario.yaml:2: steps[0].delete: "web/a" is not a reference: write RESOURCE NAMESPACE/NAME, as in v1/pods shop/web-0
    a.scenario.yaml:2: steps[0].delete: v1/pods web/a does not exist: apply it first
    a.scenario.yaml:1: steps[0].requeue: the plugin has no dead letter of v1/pods web/a
    a.scenario.yaml:1: steps[0].requeue: the plugin has no dead letter
    a.scenario.yaml:2: steps[0].apply: an object lacks apiVersion
    a.scenario.yaml:1: steps: 1 is not a list
    a.scenario.yaml:1: objects[0]: no informer of the plugin watches v1/nodes, and allow.kube does not cover it: add one of both to `config`, or remove the object
    a.scenario.yaml:1: http[0].method: 1 is not a text: put it in quotes
    a.scenario.yaml:1: http[0].status: "ok" is not a whole number
    a.scenario.yaml:1: http[0].error: "tls" is none of connect, dns, timeout
    a.scenario.yaml:1: http[0]: an answer has no `url`; `*` stands for any text
    a.scenario.yaml:1: config: there are several plugins: name one in the member `plugin`
    a.scenario.yaml:2: plugin: config has no section plugin.b
    "#);
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
    assert_snapshot!(found.join("\n"), @r#"
    a.scenario.yaml:1: steps[0].expect.calls[0].call: "on-change" is none of on-add, on-delete, on-synced, on-timer, on-update, restore, save
    a.scenario.yaml:1: steps[0].expect.calls[0]: there is no call "on-change"; there are on-add, on-delete, on-synced, on-timer, on-update, restore, save
    a.scenario.yaml:1: steps[0].expect.calls[0].result: "done" is none of ok, permanent, retry, trap
    a.scenario.yaml:1: steps[0].expect.calls[0].attempt: "first" is not a whole number
    a.scenario.yaml:1: steps[0].expect.calls[0]: no informer of the plugin watches v1/nodes: add one to `config`, or a rule to the manifest
    a.scenario.yaml:1: steps[0].expect.log[0].message: ["a"] is not a text: put it in quotes
    a.scenario.yaml:1: steps[0].expect.writes[0]: nothing grants this: add allow.kube to `config` of the scenario
    a.scenario.yaml:1: steps[0].expect.http[0]: nothing grants this: add allow.http to `config` of the scenario
    a.scenario.yaml:1: steps[0].expect.metrics.seen: the manifest declares no metric seen; a counter ends in _total, and a histogram has _count, _sum and _bucket
    a.scenario.yaml:1: steps[0].expect.metrics.handled_total{call}: "handled_total{call}" is not a series: write it as failures_total{namespace="shop"}
    a.scenario.yaml:1: steps[0].expect.indexes.nodes.node.n1: the plugin has no informer nodes
    a.scenario.yaml:1: steps[0].expect.absent[0]: "web/a" is not a reference: write RESOURCE NAMESPACE/NAME, as in v1/pods shop/web-0
    "#);
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
    assert_snapshot!(texts.map(outcome).join("\n"), @r#"
    a.scenario.yaml:1: not YAML: unclosed bracket '['
    a.scenario.yaml:2: `name` is there twice
    a.scenario.yaml:1: the name of a member is not a text
    a.scenario.yaml:3: steps[0].apply: line 2 of the text: not YAML: mismatched bracket '[' closed by '}'
    a.scenario.yaml:3: steps[0].apply: line 2 of the text: `kind` is there twice
    a.scenario.yaml:1: not YAML: while parsing node, found unknown anchor
    a.scenario.yaml:1: a file has one scenario, in one YAML document
    "#);
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
        "steps: [{ expect: { writes: [{ options: { dryRun: [All] } }] } }]",
        "time: 2026-11-28T11:21:16Z\nsteps: []",
    ];
    assert_snapshot!(texts.map(outcome).join("\n"), @r#"
    a.scenario.yaml:1: config.plugin.scribe.limits: a Driver cannot do this: run the scenario with `informant plugin test`
    a.scenario.yaml:1: config.informer.all.resource: a Driver cannot do informers of several resources: run the scenario with `informant plugin test`
    a.scenario.yaml:1: config.informer.nodes.resource: a Driver cannot do a resource that no object of the scenario has (v1/nodes): run the scenario with `informant plugin test`
    a.scenario.yaml:1: config.tracing: a Driver cannot do the section tracing: run the scenario with `informant plugin test`
    a.scenario.yaml:1: http[0].after: a Driver cannot do answers that take time: run the scenario with `informant plugin test`
    a.scenario.yaml:1: steps[0].replay: a Driver cannot do replays: run the scenario with `informant plugin test`
    a.scenario.yaml:2: steps[0].swap: a Driver cannot do a swap by another version than the one in `path`: run the scenario with `informant plugin test`
    a.scenario.yaml:1: steps[0].expect.calls[0].result: a Driver cannot do a trap, since a panic of the plugin ends the test: run the scenario with `informant plugin test`
    a.scenario.yaml:1: steps[0].expect.writes[0].options: a Driver cannot do options of writes: run the scenario with `informant plugin test`
    a.scenario.yaml:1: time: a Driver cannot do another time than 2026-01-01T00:00:00Z: run the scenario with `informant plugin test`
    "#);
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
    assert_snapshot!(with("{ calls: [] }"), @"a.scenario.yaml:2: steps[0]: the plugin was refused: config: it refuses");
    assert_snapshot!(with("{ refused: another }"), @r#"a.scenario.yaml:2: steps[0].expect.refused: expected "another", found "config: it refuses""#);
    assert_snapshot!(outcome("steps: [{ expect: { refused: a } }]"), @"a.scenario.yaml:1: steps[0].expect.refused: the plugin was not refused");
}

#[test]
fn roles_that_a_plugin_lacks_are_not_called() {
    let config = "config: { informer: { pods: { resource: v1/pods } } }\n";
    let with = |calls: &str| {
        let text = format!("{config}steps: [{{ apply: POD, expect: {{ calls: {calls} }} }}]").replace("POD", POD);
        outcome_of::<broken::Broken>(&text, &[])
    };
    assert_eq!(with("[on-synced v1/pods]"), "passed");
    assert_snapshot!(with("[on-add v1/pods web/a]"), @"a.scenario.yaml:2: steps[0].expect.calls[0]: the plugin has no function for on-add: add its role to `export!`");
}

mod busy {
    use informant_plugin_sdk::prelude::*;

    /// Writes to each pod that it sees, without an end, and counts sizes.
    pub(crate) struct Busy;

    impl Plugin for Busy {
        fn describe(_: Describe) -> Result<Manifest> {
            Ok(Manifest::new()
                .events(Events::of("v1", "Pod"))
                .metric(Metric::histogram("size", "Sizes").buckets([1.0, 2.0]))
                .metric(Metric::gauge("last", "The last size").labels(["pod"])))
        }

        fn init(_: Init) -> Result<Self> {
            Ok(Self)
        }
    }

    impl EventHandler for Busy {
        fn on_upsert(&mut self, event: &Event, _: Value) -> Result<Action> {
            metrics::observe("size", 1.5, &[])?;
            metrics::observe("size", 4.0, &[])?;
            metrics::set("last", 4.0, &[("pod", &event.name)])?;
            if event.name == "busy" {
                let annotations = json!({ "version": event.resource_version });
                kube::defer_patch(&kube::of(event)).merge(&json!({ "metadata": { "annotations": annotations } }))?;
            }
            Ok(Action::done())
        }
    }

    informant_plugin_sdk::export!(Busy: events);
}

#[test]
fn writes_without_an_end_are_refused_and_histograms_have_series() {
    let config = "config: { plugin: { busy: { allow: { kube: [{ resource: v1/pods, verbs: [patch] }] } } } }\n";
    let with = |name: &str, expect: &str| {
        let apply = format!("{{ apiVersion: v1, kind: Pod, metadata: {{ name: {name} }} }}");
        outcome_of::<busy::Busy>(&format!("{config}steps: [{{ apply: {apply}, expect: {expect} }}]"), &[])
    };
    let metrics = "{ metrics: { size_count: 2, size_sum: 5.5, 'size_bucket{le=\"2\"}': 1, 'size_bucket{le=\"+Inf\"}': 2, \
                   'last{pod=\"a\"}': 4 } }";
    assert_eq!(with("a", metrics), "passed");
    assert_snapshot!(with("busy", "{}"), @"a.scenario.yaml:1: the plugin still writes after 1000 events: compare before writing");
}

mod ticker {
    use informant_plugin_sdk::prelude::*;

    /// Records an Event at each run, and fails in the first attempt of `poll` and in all runs of `never`.
    pub(crate) struct Ticker;

    impl Plugin for Ticker {
        fn describe(_: Describe) -> Result<Manifest> {
            Ok(Manifest::new()
                .timer(Timer::every("poll", std::time::Duration::from_secs(10)))
                .timer(Timer::cron("report", "0 8 * * *"))
                .timer(Timer::cron("never", "0 0 1 1 *")))
        }

        fn init(_: Init) -> Result<Self> {
            Ok(Self)
        }
    }

    impl TimerHandler for Ticker {
        fn on_timer(&mut self, tick: &Tick) -> Result {
            info!("{tick} {}", tick.scheduled);
            let pod = recorder::object("v1", "Pod", "web", "a");
            let note = format!("{tick} has run");
            recorder::event(&pod, "Ticked").warning().note(note).record()?;
            match (tick.name.as_str(), tick.attempt, tick.missed) {
                ("poll", 0, 0) => Err(Failure::retryable("not yet")),
                ("never", ..) => Err(Failure::permanent("never")),
                _ => Ok(()),
            }
        }
    }

    informant_plugin_sdk::export!(Ticker: timers);
}

const TICKER: &str = "config: { plugin: { ticker: { allow: { events: true } } } }\n";

#[test]
fn a_timer_runs_in_its_step_and_in_retries() {
    let text = "
steps:
  - timer: report
    expect:
      calls: [on-timer report]
      log: [report 2026-01-01T00:00:00Z]
      events:
        - { type: Warning, reason: Ticked, action: Ticked, note: '*report*', regarding: Pod web/a, related: null }
  - timer: poll
    expect:
      calls: [{ call: on-timer, timer: poll, missed: 0, attempt: 0, result: retry, error: not yet }]
      events: []
  - wait: 1s
    expect:
      calls: [{ call: on-timer, timer: poll, missed: 0, attempt: 1, result: ok }]
      log: [poll 2026-01-01T00:00:00Z]
      events: { includes: [{ note: poll has run }] }
  - timer: poll
  - timer: poll
  - wait: 1s
    expect:
      calls:
        - { call: on-timer, timer: poll, missed: 0, result: retry }
        - { call: on-timer, timer: poll, missed: 1, attempt: 0, result: ok }
  - timer: never
  - wait: 1h
    expect:
      calls: [{ call: on-timer, timer: never, result: permanent }]
      deadLetters: []
";
    assert_eq!(outcome_of::<ticker::Ticker>(&format!("{TICKER}{text}"), &[]), "passed");
}

#[test]
fn mistakes_about_timers_and_events_are_refused() {
    let with = |step: &str| outcome_of::<ticker::Ticker>(&format!("{TICKER}steps: [{step}]"), &[]);
    let found = [
        "{ timer: nightly }",
        "{ timer: 1 }",
        "{ expect: { calls: [on-timer nightly] } }",
        "{ expect: { calls: [{ call: on-timer, missed: none }] } }",
        "{ expect: { events: [{ type: Error }] } }",
        "{ expect: { events: [{ message: a }] } }",
        "{ expect: { events: [{ regarding: web/a }] } }",
    ]
    .map(with);
    assert_snapshot!(found.join("\n"), @r#"
    a.scenario.yaml:2: steps[0].timer: the manifest has no timer "nightly"; it has poll, report, never
    a.scenario.yaml:2: steps[0].timer: 1 is not a text: put it in quotes
    a.scenario.yaml:2: steps[0].expect.calls[0]: the manifest has no timer "nightly"; it has poll, report, never
    a.scenario.yaml:2: steps[0].expect.calls[0].missed: "none" is not a whole number
    a.scenario.yaml:2: steps[0].expect.events[0].type: "Error" is none of Normal, Warning
    a.scenario.yaml:2: steps[0].expect.events[0].message: there is no such member; there are action, note, reason, regarding, related, type
    a.scenario.yaml:2: steps[0].expect.events[0].regarding: "web/a" is not an object: write KIND NAMESPACE/NAME, as in Pod shop/web-0
    "#);
    assert_snapshot!(outcome("steps: [{ timer: poll }]"), @"a.scenario.yaml:1: steps[0].timer: the plugin has no function for on-timer: add its role to `export!`");
}

#[test]
fn events_are_denied_unless_allowed() {
    let with = |expect: &str| {
        let text = format!("steps: [{{ timer: report, expect: {expect} }}]");
        outcome_of::<ticker::Ticker>(&text, &[])
    };
    let denied =
        "{ calls: [{ call: on-timer, result: permanent, error: 'not granted: add `events: true`*' }], events: [] }";
    assert_eq!(with(denied), "passed");
    assert_snapshot!(with("{ events: [{ reason: Ticked }] }"), @"a.scenario.yaml:1: steps[0].expect.events[0]: nothing grants this: add allow.events to `config` of the scenario");
}
