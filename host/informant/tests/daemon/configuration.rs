//! config.toml changes while the daemon runs.

use std::time::{Duration, Instant};

use informant::SETTLE;
use informant_apiserver::Filter;
use serde_json::Value;

use super::world::{Running, World, pod, until};

pub(crate) const PODS: &str = "[informer.pods]\nresource = \"v1/pods\"\n";
pub(crate) const MAPS: &str = "[informer.maps]\nresource = \"v1/configmaps\"\n";
const RELOADS: &str = "informant_config_reloads_total";
pub(crate) const LAST_RELOAD: &str = "informant_config_last_reload_successful";

/// A recorder with this name.
pub(crate) fn plugin(name: &str, informer: &str, rest: &str) -> String {
    format!("[plugin.{name}]\ncomponent = \"recorder.wasm\"\ninformers = [\"{informer}\"]\n{rest}\n")
}

pub(crate) async fn reloads(daemon: &Running, result: &str, wanted: f64) {
    daemon
        .wait_for_metric(RELOADS, &[&format!("result=\"{result}\"")], wanted)
        .await;
}

pub(crate) async fn configuration(daemon: &Running) -> Value {
    daemon.json("/api/v1/configuration").await
}

/// The lists and watches that the API server received.
fn requests(world: &World) -> usize {
    let requests = world.server.requests();
    let of_objects = requests
        .iter()
        .filter(|request| request.verb == "list" || request.verb == "watch");
    of_objects.count()
}

/// How many new instances the plugin got, by its reloads.
async fn new_instances(daemon: &Running, plugin: &str) -> f64 {
    let labels = [&*format!("plugin=\"{plugin}\"")];
    daemon.metric("informant_plugin_reloads_total", &labels).await
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_are_added_and_removed_without_affecting_others() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    let stays = format!("{PODS}{}", plugin("stays", "pods", ""));
    let daemon = world.daemon(&stays).await;
    daemon.wait_for_events("stays", "sync", 1.0).await;
    let asked = requests(&world);

    world.configure(&format!("{stays}{}", plugin("late", "pods", "")));
    reloads(&daemon, "ok", 1.0).await;
    daemon.wait_for_events("late", "add", 1.0).await;
    daemon.wait_for_events("late", "sync", 1.0).await;

    // A section that only moved in the file is unchanged.
    world.configure(&format!("# reordered\n{}{PODS}", plugin("stays", "pods", "")));
    reloads(&daemon, "ok", 2.0).await;
    let (_, text) = daemon.get("/metrics").await;
    assert!(!text.contains("plugin=\"late\""), "its series are still there:\n{text}");
    world.create_pod("web-1", "nginx");
    daemon.wait_for_events("stays", "add", 2.0).await;
    assert_eq!(requests(&world), asked, "the informer keeps its watch");
    assert_eq!(new_instances(&daemon, "stays").await, 0.0);
    assert_eq!(configuration(&daemon).await["state"], "applied");
}

#[tokio::test(flavor = "multi_thread")]
async fn sections_that_return_during_their_removal_run_again() {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    world.install("guest-kube", "kube.wasm");
    let stays = format!("{MAPS}{}", plugin("stays", "maps", ""));
    let both = format!(
        "{stays}{PODS}[plugin.caller]\ncomponent = \"kube.wasm\"\ninformers = [\"pods\"]\n\
         allow.kube = [{{ verbs = [\"get\"], resource = \"v1/configmaps\" }}]\n\
         config = {{ calls = [{{ verb = \"get\", resource = \"v1/configmaps\", namespace = \"default\", name = \"x\" }}] }}\n"
    );
    let read = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    world.server.create("v1/configmaps", "default", read).unwrap();
    let daemon = world.daemon(&both).await;
    daemon.wait_until_ready().await;
    // The plugin is in a call until the API server answers, and its removal waits for that.
    let faults = world.server.faults();
    faults.hold(Filter::any().verb("get").resource("configmaps"), 1);
    world.create_pod("web-0", "nginx");
    let in_flight = async || {
        let plugins = daemon.json("/api/v1/plugins").await;
        let mut items = plugins["items"].as_array().into_iter().flatten();
        let calls = items.any(|plugin| plugin["name"] == "caller" && plugin["inFlight"] == 1);
        calls.then_some(()).ok_or_else(|| plugins.to_string())
    };
    until("the call", in_flight).await;
    for text in [&stays, &both] {
        let edited = Instant::now();
        world.configure(text);
        let was_read = async || {
            let milliseconds = configuration(&daemon).await["ageMs"].as_u64().unwrap();
            let is_new = u128::from(milliseconds) < edited.elapsed().as_millis();
            is_new.then_some(()).ok_or("the edit is not read".to_owned())
        };
        until("the edit", was_read).await;
    }
    in_flight().await.expect("the call still runs");
    faults.release();

    reloads(&daemon, "ok", 1.0).await;
    assert_eq!(configuration(&daemon).await["state"], "applied");
    world.create_pod("web-1", "nginx");
    daemon.wait_for_events("caller", "add", 2.0).await;
    assert_eq!(daemon.names("/api/v1/get/pods").await, ["web-0", "web-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_informer_delivers_no_deletes_and_frees_its_objects() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    let both = "[plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\", \"maps\"]\n";
    let daemon = world.daemon(&format!("{PODS}{MAPS}{both}")).await;
    daemon.wait_for_events("recorder", "sync", 2.0).await;
    assert_eq!(
        daemon.metric("informant_store_objects", &["informer=\"pods\""]).await,
        1.0
    );

    world.configure(&format!("{MAPS}{}", plugin("recorder", "maps", "")));
    reloads(&daemon, "ok", 1.0).await;
    let (_, text) = daemon.get("/metrics").await;
    assert!(!text.contains("store_objects{informer=\"pods\""), "{text}");
    assert_eq!(daemon.get("/api/v1/get/pods").await.0, 404);
    assert_eq!(new_instances(&daemon, "recorder").await, 0.0);

    world.configure(&format!("{PODS}{MAPS}{both}"));
    reloads(&daemon, "ok", 2.0).await;
    daemon.wait_for_events("recorder", "add", 2.0).await;
    let deletes = daemon
        .metric("informant_handler_events_total", &["event=\"delete\""])
        .await;
    assert_eq!(deletes, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_changed_config_creates_a_new_instance() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    let with = |rest: &str| {
        format!(
            "{PODS}{}",
            plugin("recorder", "pods", &format!("on-reload = \"continue\"\n{rest}"))
        )
    };
    let daemon = world.daemon(&with("")).await;
    daemon.wait_for_events("recorder", "sync", 1.0).await;

    world.configure(&with(
        "resync = \"1s\"\nlimits = { pending = 7 }\nrequired = \"always\"\non-failure = \"skip\"",
    ));
    reloads(&daemon, "ok", 1.0).await;
    // Redelivered, as an update to itself.
    until("a resync", async || {
        let updates = daemon
            .metric("informant_handler_events_total", &["event=\"update\""])
            .await;
        if updates > 0.0 {
            Ok(())
        } else {
            Err(updates.to_string())
        }
    })
    .await;
    assert_eq!(new_instances(&daemon, "recorder").await, 0.0);

    world.configure(&with("config = { label = \"new\" }"));
    reloads(&daemon, "ok", 2.0).await;
    assert_eq!(new_instances(&daemon, "recorder").await, 1.0);
    world.create_pod("web-1", "nginx");
    daemon.wait_for_events("recorder", "add", 2.0).await;
    assert_eq!(daemon.stop().await.undelivered, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_section_keeps_its_previous_version_others_apply() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    let old = format!("{PODS}{}", plugin("old", "pods", "on-reload = \"continue\""));
    let daemon = world.daemon(&old).await;
    daemon.wait_for_events("old", "sync", 1.0).await;

    // The recorder does not know the key; the other component does not exist yet; and an informer that `old` still uses
    // is removed.
    let next = format!(
        "{MAPS}{}{}[plugin.late]\ncomponent = \"late.wasm\"\ninformers = [\"maps\"]\n",
        plugin("old", "maps", "config = { lable = \"x\" }"),
        plugin("good", "maps", "")
    );
    world.configure(&next);
    reloads(&daemon, "partial", 1.0).await;
    daemon.wait_for_events("good", "sync", 1.0).await;
    let now = configuration(&daemon).await;
    assert_eq!(
        (&now["state"], &now["lastResult"]),
        (&"partial".into(), &"partial".into())
    );
    let waiting: Vec<_> = now["waiting"].as_array().unwrap().iter().collect();
    let sections: Vec<_> = waiting
        .iter()
        .map(|waiting| waiting["section"].as_str().unwrap())
        .collect();
    assert_eq!(sections, ["informer.pods", "plugin.late", "plugin.old"]);
    let reason = |at: usize| waiting[at]["reason"].as_str().unwrap();
    assert!(reason(0).contains("[plugin.old] still uses it"), "{}", reason(0));
    assert!(reason(1).contains("late.wasm: cannot be read"), "{}", reason(1));
    assert!(reason(2).contains("lable"), "{}", reason(2));
    world.create_pod("web-1", "nginx");
    daemon.wait_for_events("old", "add", 2.0).await;

    // The missing component arrives and the error is fixed: nothing is pending, and the informer is removed.
    world.install("guest-recorder", "late.wasm");
    daemon.wait_for_events("late", "sync", 1.0).await;
    world.configure(&next.replace("lable", "label"));
    reloads(&daemon, "ok", 1.0).await;
    let now = configuration(&daemon).await;
    assert_eq!(now["state"], "applied", "{now}");
    assert_eq!(daemon.get("/api/v1/get/pods").await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_empty_or_missing_file_changes_nothing() {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    let good = format!("{PODS}{}", plugin("recorder", "pods", ""));
    let daemon = world.daemon(&good).await;
    daemon.wait_until_ready().await;
    let asked = requests(&world);

    let wrong = [
        "[informer.pods]\nresuorce = \"v1/pods\"\n",
        "[informer.pods\n",
        "[plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\"]\n",
    ];
    for (number, text) in wrong.into_iter().enumerate() {
        world.configure(text);
        reloads(&daemon, "refused", (number + 1) as f64).await;
        let now = configuration(&daemon).await;
        assert_eq!(now["state"], "refused");
        assert!(now["refused"].as_str().unwrap().contains("config.toml:"), "{now}");
    }
    world.write("config.toml", b"\xff\xfe");
    reloads(&daemon, "refused", 4.0).await;
    assert_eq!(daemon.metric(LAST_RELOAD, &[]).await, 0.0);
    world.write("config.toml", b"\n");
    std::fs::remove_file(world.path("config.toml")).unwrap();
    until("the missing file to show", async || {
        let now = configuration(&daemon).await;
        (now["state"] == "unreadable").then_some(()).ok_or(now.to_string())
    })
    .await;
    world.configure(&good);
    reloads(&daemon, "unchanged", 1.0).await;
    assert_eq!(daemon.metric(LAST_RELOAD, &[]).await, 1.0);
    assert_eq!(configuration(&daemon).await["state"], "applied");
    world.create_pod("web-0", "nginx");
    daemon.wait_for_events("recorder", "add", 1.0).await;
    assert_eq!(
        (requests(&world), new_instances(&daemon, "recorder").await),
        (asked, 0.0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn last_of_many_edits_wins() {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    let with = |label: &str| {
        let rest =
            format!("on-reload = \"continue\"\nconfig = {{ label = \"{label}\", rules = [{{ do = \"{label}\" }}] }}");
        format!("{PODS}{}", plugin("recorder", "pods", &rest))
    };
    let daemon = world.daemon(&with("ok")).await;
    daemon.wait_for_events("recorder", "sync", 1.0).await;
    let began = std::time::Instant::now();
    let mut pace = tokio::time::interval(Duration::from_millis(5));
    for edit in 0..300 {
        pace.tick().await;
        // In place, like an editor that keeps the file.
        let text = if edit == 299 {
            with("permanent")
        } else {
            with("ok") + &format!("# {edit}\n")
        };
        let text = format!("[admin]\nlisten = \"127.0.0.1:0\"\n{text}");
        std::fs::write(world.path("config.toml"), text).unwrap();
    }
    let elapsed = began.elapsed();
    reloads(&daemon, "ok", 1.0).await;
    world.create_pod("web-0", "nginx");
    daemon
        .wait_for_metric("informant_dead_letters", &["plugin=\"recorder\""], 1.0)
        .await;
    // Each waits for a quiet moment and reads twice. On a busy machine the edits themselves take longer.
    let applied = daemon.metric(RELOADS, &[]).await;
    let at_most = elapsed.as_secs_f64() / (2.0 * SETTLE.as_secs_f64()) + 2.0;
    assert!(applied <= at_most, "{applied} of 300 edits were applied in {elapsed:?}");
    assert_eq!(daemon.metric(RELOADS, &["result=\"refused\""]).await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_section_delays_no_other_and_its_newest_text_wins() {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    let slow = |config: &str| {
        let rest = format!("limits = {{ cpu = \"8s\" }}\nconfig = {{ {config} }}");
        format!("{PODS}{}", plugin("slow", "pods", &rest))
    };
    let daemon = world.daemon(&slow("rules = [{ do = \"loop\" }]")).await;
    daemon.wait_for_events("slow", "sync", 1.0).await;
    world.create_pod("web-0", "nginx");
    until("the endless call", async || {
        let plugins = daemon.json("/api/v1/plugins").await;
        (plugins["items"][0]["inFlight"] == 1)
            .then_some(())
            .ok_or(plugins.to_string())
    })
    .await;

    // The swap waits for the call. Other sections do not wait for the swap.
    world.configure(&slow("label = \"one\""));
    tokio::time::sleep(10 * SETTLE).await;
    let late = plugin("late", "pods", "");
    world.configure(&format!("{}{late}", slow("label = \"two\"")));
    daemon.wait_for_events("late", "add", 1.0).await;
    let newest = slow("rules = [{ name = \"web-1\", do = \"permanent\" }]");
    world.configure(&format!("{newest}{late}{MAPS}"));
    until("the new informer", async || {
        match daemon.get("/api/v1/get/maps").await {
            (200, _) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(new_instances(&daemon, "slow").await, 0.0);

    // Only the newest of the versions that wait is applied.
    until("the change to be applied", async || {
        let now = configuration(&daemon).await;
        let applied = now["state"] == "applied" && now["lastResult"] != Value::Null;
        applied.then_some(()).ok_or(now.to_string())
    })
    .await;
    world.create_pod("web-1", "nginx");
    daemon
        .wait_for_metric("informant_dead_letters", &["plugin=\"slow\""], 1.0)
        .await;
    let swaps = new_instances(&daemon, "slow").await;
    assert!((1.0..=2.0).contains(&swaps), "{swaps}");
}

#[tokio::test(flavor = "multi_thread")]
async fn informer_that_never_lists_delays_no_other_section() {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    let daemon = world.daemon(&format!("{PODS}{MAPS}")).await;
    daemon.wait_until_ready().await;
    let hour = Duration::from_secs(3_600);
    world
        .server
        .faults()
        .delay(Filter::any().resource("configmaps"), u32::MAX, hour);
    let selected = format!("{MAPS}label-selector = \"app = web\"\n");
    world.configure(&format!("{PODS}{selected}"));
    world.create_pod("web-0", "nginx");
    world.configure(&format!("{PODS}{selected}{}", plugin("late", "pods", "")));
    daemon.wait_for_events("late", "add", 1.0).await;
    // The informer continues with the previous request.
    assert_eq!(daemon.get("/api/v1/get/maps").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn config_map_swaps_file_and_component_together() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    for (folder, guest, label) in [("v1", "guest-recorder", "one"), ("v2", "guest-recorder-v2", "two")] {
        std::fs::create_dir(world.path(folder)).unwrap();
        world.install(guest, &format!("{folder}/recorder.wasm"));
        let rest = format!("on-reload = \"continue\"\nconfig = {{ label = \"{label}\" }}");
        world.configure(&format!("{PODS}{}", plugin("recorder", "pods", &rest)));
        std::fs::rename(world.path("config.toml"), world.path(&format!("{folder}/config.toml"))).unwrap();
    }
    std::os::unix::fs::symlink("v1", world.path("..data")).unwrap();
    for file in ["config.toml", "recorder.wasm"] {
        std::os::unix::fs::symlink(format!("..data/{file}"), world.path(file)).unwrap();
    }
    let daemon = world.daemon_on_file().await;
    daemon.wait_for_events("recorder", "sync", 1.0).await;

    std::os::unix::fs::symlink("v2", world.path("..data_tmp")).unwrap();
    std::fs::rename(world.path("..data_tmp"), world.path("..data")).unwrap();
    reloads(&daemon, "ok", 1.0).await;
    // One instance for both, not one for each.
    assert_eq!(new_instances(&daemon, "recorder").await, 1.0);
    assert_eq!(daemon.json("/api/v1/plugins").await["items"][0]["reloads"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn sections_that_need_a_restart_are_pending() {
    let world = World::start().await;
    let daemon = world.daemon(PODS).await;
    daemon.wait_until_ready().await;
    world.write(
        "config.toml",
        format!("[admin]\nlisten = \"127.0.0.1:1\"\n{PODS}{MAPS}").as_bytes(),
    );
    reloads(&daemon, "partial", 1.0).await;
    let now = configuration(&daemon).await;
    assert_eq!(now["waiting"][0]["section"], "admin");
    assert!(
        now["waiting"][0]["reason"]
            .as_str()
            .unwrap()
            .contains("after a restart"),
        "{now}"
    );
    daemon.wait_until_ready().await;
    // Sections that need no restart are applied.
    assert_eq!(daemon.get("/api/v1/get/maps").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_informer_delivers_only_the_difference() {
    let world = World::start().await;
    for name in ["web-0", "both-0", "db-0"] {
        world.create_pod(name, "nginx");
    }
    world.install("guest-recorder", "recorder.wasm");
    let with = |informer: &str| {
        format!(
            "[informer.pods]\nresource = \"v1/pods\"\n{informer}\n{MAPS}{}{}",
            plugin("recorder", "pods", "on-reload = \"continue\""),
            plugin("other", "maps", "")
        )
    };
    let daemon = world.daemon(&with("label-selector = \"app in (web, both)\"")).await;
    daemon.wait_for_events("recorder", "add", 2.0).await;
    daemon.wait_for_events("other", "sync", 1.0).await;

    world.configure(&with(
        "label-selector = \"app in (both, db)\"\nindex = { node = \"/spec/nodeName\" }",
    ));
    reloads(&daemon, "ok", 1.0).await;
    daemon.wait_for_events("recorder", "delete", 1.0).await;
    daemon.wait_for_events("recorder", "add", 3.0).await;
    assert_eq!(
        daemon.names("/api/v1/get/pods?index=node&value=node-1").await,
        ["both-0", "db-0"]
    );
    for name in ["recorder", "other"] {
        assert_eq!(new_instances(&daemon, name).await, 0.0);
    }
    assert_eq!(configuration(&daemon).await["state"], "applied");
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_are_added_and_removed_while_running() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    let mut elsewhere = pod("web-1", "nginx");
    elsewhere["metadata"]["namespace"] = "kube-system".into();
    world.server.create("v1/pods", "kube-system", elsewhere).unwrap();
    world.install("guest-recorder", "recorder.wasm");
    let within = |namespaces: &str| {
        let recorder = plugin("recorder", "pods", "on-reload = \"continue\"");
        format!("[informer.pods]\nresource = \"v1/pods\"\n{namespaces}\n{recorder}")
    };
    let daemon = world.daemon(&within("namespaces = [\"default\"]")).await;
    daemon.wait_for_events("recorder", "add", 1.0).await;
    world.configure(&within("namespaces = [\"default\", \"kube-system\"]"));
    daemon.wait_for_events("recorder", "add", 2.0).await;
    world.configure(&within("namespaces = [\"kube-system\"]"));
    daemon.wait_for_events("recorder", "delete", 1.0).await;
    assert_eq!(daemon.names("/api/v1/get/pods").await, ["web-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_resource_is_a_new_informer() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    let about = |resource: &str| {
        format!(
            "[informer.it]\nresource = \"{resource}\"\n{}",
            plugin("recorder", "it", "")
        )
    };
    let daemon = world.daemon(&about("v1/configmaps")).await;
    daemon.wait_for_events("recorder", "sync", 1.0).await;
    world.configure(&about("v1/pods"));
    reloads(&daemon, "ok", 1.0).await;
    daemon.wait_for_events("recorder", "sync", 2.0).await;
    daemon.wait_for_events("recorder", "add", 1.0).await;
    assert_eq!(daemon.names("/api/v1/get/it").await, ["web-0"]);
}
