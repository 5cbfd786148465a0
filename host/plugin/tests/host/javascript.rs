//! One API for JavaScript, as a script and as a component: exceptions, store, cluster, indexes and state.

use std::path::{Path, PathBuf};

use informant_plugin_host::Plugin;
use informant_spec::{PluginSpec, ReplayPolicy};
use serde_json::json;

use crate::indexes::Loop;
use crate::kube::{Cluster, grants};
use crate::world::{Reload, World, guest, hello_log, idle, is_built, javascript_source};

/// `plugin-sdk/javascript/tests/guest.js`.
const GUEST: &str = "guest_javascript";

/// The guest as a script and as a component. None where there is no script runner.
fn forms() -> Vec<PathBuf> {
    match is_built(GUEST) {
        true => vec![javascript_source(GUEST).unwrap(), guest(GUEST)],
        false => Vec::new(),
    }
}

async fn run(world: &World, form: &Path) -> Plugin {
    run_with(world, form, |_| {}).await
}

async fn run_with(world: &World, form: &Path, adjust: impl FnOnce(&mut PluginSpec)) -> Plugin {
    let mut spec = PluginSpec::new("hello", form);
    spec.informers = vec![("pods".into(), "pods".into())];
    spec.config = json!({ "greeting": "hello" });
    spec.on_reload = ReplayPolicy::Continue;
    adjust(&mut spec);
    let plugin = world.load(spec).await.unwrap();
    plugin.start().await;
    plugin
}

#[tokio::test(start_paused = true)]
async fn javascript_reads_the_cache_and_every_text() {
    for form in forms() {
        let world = World::for_scripts();
        let plugin = run(&world, &form).await;
        assert_eq!(
            plugin.roles().to_string(),
            "event-handler, index-funcs, state",
            "roles without exports are inactive"
        );
        let mut pods = world.pods("pods");
        pods.apply_with("first", r#","labels":{"team":"blue"}"#);
        pods.attach(&plugin.listener());
        idle(&world, &plugin).await;
        pods.apply("reads");
        idle(&world, &plugin).await;
        pods.apply_with("texts", r#","text":"aä€😀""#);
        idle(&world, &plugin).await;
        pods.apply("first");
        idle(&world, &plugin).await;
        pods.delete("first");
        idle(&world, &plugin).await;
        insta::allow_duplicates! {
            insta::assert_snapshot!(hello_log(&world).join("\n"), @r#"
        DEBUG hello, events
        INFO pods v1 Pod v1/pods {"source":1,"namespace":"default","name":"reads","uid":"uid-reads","resourceVersion":"3","reason":"watch","attempt":0} true
        INFO [{"id":1,"state":"live","resource":"v1/pods"}] Pod
        INFO {"apiVersion":"v1","kind":"Pod","metadata":{"name":"first"}}
        INFO no such pod
        INFO ["first"]
        INFO 2 0
        INFO 2 {"source":1,"namespace":"default","name":"first"} ["default"]
        INFO unknown-index false HostError: index with name color does not exist; available: namespace
        INFO aä€😀 5 10 true
        INFO "a��b���😀" [239,191,189]
        INFO "a" 1
        INFO TypeError: the bytes are not UTF-8
        INFO true
        INFO console {"speaks":"too"}
        INFO {"source":1,"namespace":"default","name":"first","uid":"uid-first","resourceVersion":"5","reason":"watch","attempt":0} 2 true 5 watch 0
        WARN default/first is gone first false ["first","reads","texts"]
        "#);
        }
        assert_eq!(plugin.status().restarts, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_javascript_exception_is_a_failure_with_its_position() {
    for form in forms() {
        let world = World::for_scripts();
        let plugin = run_with(&world, &form, |spec| spec.retry.attempts = 10).await;
        let mut pods = world.pods("pods");
        pods.attach(&plugin.listener());
        let names = [
            "type",
            "error",
            "text",
            "nothing",
            "circle",
            "permanent",
            "later",
            "unknown",
            "promise",
            "delay",
            "number",
            "range",
        ];
        for name in names {
            pods.apply(name);
            world
                .until("the first try", || {
                    hello_log(&world).iter().any(|line| line.contains(name))
                })
                .await;
        }
        let letters = || plugin.listener().ledger().dead_letters();
        world
            .until("all others to be dead-lettered", || letters().len() == names.len() - 1)
            .await;
        let lines = hello_log(&world);
        let mut first: Vec<&String> = Vec::new();
        for line in &lines {
            if !first.contains(&line) {
                first.push(line);
            }
        }
        insta::allow_duplicates! {
            insta::assert_snapshot!(first.into_iter().cloned().collect::<Vec<_>>().join("\n"), @r#"
        DEBUG hello, events
        DEBUG default/type: guest.js:10:24: TypeError: cannot read property 'nodeName' of undefined (in check < type < onAdd)
        DEBUG default/error: guest.js:16:15: RangeError: too far (in error < onAdd)
        DEBUG default/text: guest.js:93:22: onAdd threw "boom", which is not an Error and has no location; write throw new Error(…)
        DEBUG default/nothing: guest.js:93:22: onAdd threw undefined, which is not an Error and has no location; write throw new Error(…)
        DEBUG default/circle: guest.js:93:22: onAdd threw a value of type object, which is not an Error and has no location; write throw new Error(…)
        DEBUG default/permanent: guest.js:31:15: Permanent: never again (in permanent < onAdd)
        DEBUG default/later: guest.js:34:32: RetryAfter: not yet (in later < onAdd)
        DEBUG default/unknown: guest.js:37:24: HostError: unknown informer "services"; [plugin.hello] in config.toml lists: pods (in unknown < onAdd)
        DEBUG default/promise: guest.js:40:15: Error: too late
        DEBUG default/delay: guest.js:48:26: TypeError: RetryAfter: NaN is not a number of milliseconds (in delay < onAdd)
        DEBUG default/number: guest.js: TypeError: onAdd returned 60000; return nothing or, to be called again for the object in a minute, return { requeueAfter: 60_000 }
        DEBUG default/range: guest.js: TypeError: onAdd returned { requeueAfter: NaN }, which is not a number of milliseconds; for a minute, return { requeueAfter: 60_000 }
        INFO later: succeeded
        "#);
        }
        let tries = |name: &str| lines.iter().filter(|line| line.contains(name)).count();
        // A call that would be denied again is not retried.
        assert_eq!(
            ["permanent", "unknown", "promise", "error"].map(|name| tries(&format!("default/{name}:"))),
            [1, 1, 10, 10]
        );

        assert_eq!(plugin.status().restarts, 0, "an exception does not cost the instance");
    }
}

#[tokio::test(start_paused = true)]
async fn javascript_computes_an_index() {
    for form in forms() {
        let world = World::for_scripts();
        let plugin = run(&world, &form).await;
        let mut index = Loop::new(&world, &plugin);
        index.apply("web", r#","labels":{"team":"blue"}"#);
        index.apply("db", r#","labels":{"team":"red"}"#);
        index.apply("none", "");
        for name in ["no-index", "no-object", "odd-index"] {
            index.apply(name, "");
        }
        index.attach().await;
        let failures = index.feed.failures();
        let mut failed: Vec<&str> = failures.iter().map(|failure| failure.error.as_str()).collect();
        failed.sort_unstable();
        insta::allow_duplicates! {
            insta::assert_snapshot!(failed.join("\n"), @r#"
        guest.js: TypeError: index returned blue; it must return an object of index names and values
        guest.js: TypeError: index returned {"of":"one"} as a value of "team"; a value must be a string, a number or a boolean, or an array of these
        guest.js:113:51: RangeError: no team
        "#);
        }
        assert_eq!(
            (index.under("team", "blue"), index.under("team", "red")),
            (vec!["web".to_owned()], vec!["db".to_owned()])
        );
    }
}

#[tokio::test(start_paused = true)]
async fn javascript_transfers_its_state() {
    for form in forms() {
        let world = World::for_scripts();
        let plugin = run(&world, &form).await;
        let mut pods = world.pods("pods");
        pods.apply("first");
        pods.attach(&plugin.listener());
        idle(&world, &plugin).await;
        let swapped = plugin.swap(&form).await.unwrap();
        assert!(swapped.state_bytes.is_some_and(|bytes| bytes > 0), "{swapped:?}");
        pods.apply("second");
        idle(&world, &plugin).await;
        pods.delete("first");
        idle(&world, &plugin).await;
        let lines = hello_log(&world);
        assert!(
            lines.last().is_some_and(|line| line.ends_with(r#"["first","second"]"#)),
            "{lines:#?}"
        );
    }
}

#[tokio::test]
async fn javascript_acts_on_the_cluster_within_its_grants() {
    for form in forms() {
        let cluster = Cluster::answering(Some(0));
        let world = World::with_cluster(cluster.clone());
        let plugin = run_with(&world, &form, |spec| {
            spec.allow_kube = grants(json!([
                { "verbs": ["get", "list", "create", "update", "patch", "delete"], "resource": "v1/pods" },
                { "verbs": ["patch"], "resource": "v1/pods", "subresources": ["status"] },
                { "verbs": ["create"], "resource": "v1/configmaps" },
            ]));
        })
        .await;
        let mut pods = world.pods("pods");
        pods.attach(&plugin.listener());
        pods.apply("acts");
        let letters = || plugin.listener().ledger().dead_letters();
        world.until("the last call to be denied", || letters().len() == 1).await;
        let lines = hello_log(&world);
        let has = |text: &str| lines.iter().any(|line| line.contains(text));
        assert!(has("Pod [\"a\"]"), "{lines:?}");
        assert!(has("denied KubeError: get v1/secrets"), "{lines:?}");
        assert!(has("TypeError: kube: an address has no member nmae"), "{lines:?}");
        assert!(has("TypeError: kube.patch: unknown type \"apply\""), "{lines:?}");
        assert!(
            has("TypeError: kube: the document must be an object, not \"labels\""),
            "{lines:?}"
        );
        assert!(has("TypeError: kube: an address must have a resource"), "{lines:?}");
        let calls = cluster.take();
        let addresses: Vec<_> = calls.iter().map(|call| call.address.name.as_str()).collect();
        assert_eq!(addresses[3..6], ["acts"; 3], "an event is the address of its object");
        let verbs: Vec<&str> = calls.iter().map(|call| call.action.verb().as_str()).collect();
        // What is not granted was not sent.
        assert_eq!(
            verbs,
            [
                "get", "list", "create", "patch", "patch", "patch", "patch", "update", "delete"
            ]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn promises_are_awaited_and_lost_rejections_are_logged() {
    for form in forms() {
        let world = World::for_scripts();
        let plugin = run(&world, &form).await;
        let mut pods = world.pods("pods");
        pods.attach(&plugin.listener());
        for name in ["awaited", "floating"] {
            pods.apply(name);
            idle(&world, &plugin).await;
        }
        insta::allow_duplicates! {
            insta::assert_snapshot!(hello_log(&world).join("\n"), @r#"
        DEBUG hello, events
        INFO [1,2]
        ERROR guest.js:44:29: Error: lost (in floating < onAdd) (a promise that nothing awaits)
        "#);
        }
        assert!(
            plugin.listener().ledger().dead_letters().is_empty(),
            "the calls succeed"
        );
    }
}

#[tokio::test]
async fn javascript_defers_writes_of_calls_that_succeed() {
    for form in forms() {
        let cluster = Cluster::answering(Some(0));
        let world = World::with_cluster(cluster.clone());
        let plugin = run_with(&world, &form, |spec| {
            spec.allow_kube = grants(json!([{ "verbs": ["create", "patch", "delete"], "resource": "v1/pods" }]));
        })
        .await;
        let mut pods = world.pods("pods");
        pods.attach(&plugin.listener());
        pods.apply("takes_back");
        let letters = || plugin.listener().ledger().dead_letters();
        world.until("the failed call", || letters().len() == 1).await;
        pods.apply("defers");
        let is_idle = || plugin.listener().ledger().pending() + plugin.listener().consumer().in_flight() == 0;
        world.until("the writes to end", is_idle).await;
        let calls = cluster.take();
        let made: Vec<_> = calls
            .iter()
            .map(|call| (call.action.verb().as_str(), call.address.name.as_str()))
            .collect();
        assert_eq!(made, [("patch", "defers"), ("delete", "defers")]);
        let lines = hello_log(&world).join("\n");
        for expected in ["generateName", "preconditions.uid", "is not granted"] {
            assert!(lines.contains(expected), "{expected}: {lines}");
        }
    }
}

/// The declared types, which editors read.
const TYPES: &str = include_str!("../../../../plugin-sdk/javascript/informant.d.ts");

#[tokio::test(start_paused = true)]
async fn every_name_of_the_javascript_api_is_declared() {
    if forms().is_empty() {
        return;
    }
    let world = World::for_scripts();
    let script = world.cache.path().join("names.js");
    let text = r#"
        import * as informant from "informant";
        const members = (value) => [value, Object.getPrototypeOf(value)].flatMap(Object.getOwnPropertyNames).filter((name) => name !== "constructor");
        const deep = (name) => ["store", "kube", "log"].includes(name) ? Object.keys(informant[name]) : [];
        const names = [...Object.keys(informant), ...Object.keys(informant).flatMap(deep)];
        export const onAdd = (pod, event) => informant.log.info([...names, ...members(event)].join(" "));
        export const onSynced = (source) => informant.log.info(members(source).join(" "));
    "#;
    std::fs::write(&script, text).unwrap();
    let plugin = run(&world, &script).await;
    let mut pods = world.pods("pods");
    pods.apply("a");
    pods.attach(&plugin.listener());
    world.until("both lines", || hello_log(&world).len() == 2).await;
    let lines = hello_log(&world).join(" ");
    let names: Vec<&str> = lines.split(' ').filter(|name| *name != "INFO").collect();
    assert!(names.len() > 45, "{names:?}");
    let words: Vec<&str> = TYPES.split(|letter: char| !letter.is_alphanumeric()).collect();
    for name in names {
        assert!(words.contains(&name), "{name} is not in informant.d.ts");
    }
}

#[test]
fn every_reason_of_the_contract_is_documented() {
    let contract = include_str!("../../../../wit/informant.wit");
    let (_, rest) = contract.split_once("enum reason {").unwrap();
    let (cases, _) = rest.split_once('}').unwrap();
    let lines = cases.lines().map(str::trim);
    let reasons: Vec<&str> = lines.filter_map(|line| line.strip_suffix(',')).collect();
    assert!(reasons.len() >= 11, "{reasons:?}");
    let api = include_str!("../../../../docs/reference/script-api.md");
    let glossary = include_str!("../../../../docs/glossary.md");
    let glossary = glossary
        .lines()
        .find(|line| line.starts_with("| **reason** |"))
        .unwrap();
    for reason in reasons {
        assert!(
            TYPES.contains(&format!("\n    | \"{reason}\"")),
            "informant.d.ts lacks {reason}"
        );
        assert!(
            api.contains(&format!("\n| `{reason}` |")),
            "script-api.md lacks {reason}"
        );
        assert!(glossary.contains(&format!("`{reason}`")), "glossary.md lacks {reason}");
    }
}
