//! Changed sections of informers whose request the API server does not accept.

use informant_apiserver::{Answer, Ending, Filter};

use super::configuration::{LAST_RELOAD, MAPS, PODS, configuration, plugin, reloads};
use super::program::Program;
use super::world::{Running, World, until};

const UNSUPPORTED: &str = "field-selector = \"spec.nodename=node-1\"\n";

/// Waits until `section` is the only pending one, with this text in its reason.
async fn wait_until_pending(daemon: &Running, section: &str, text: &str) {
    until(&format!("{section} to be pending: {text}"), async || {
        let now = configuration(daemon).await;
        let waiting = now["waiting"].as_array().unwrap();
        let shown = waiting.len() == 1
            && waiting[0]["section"] == section
            && waiting[0]["reason"]
                .as_str()
                .is_some_and(|reason| reason.contains(text));
        shown.then_some(()).ok_or(now.to_string())
    })
    .await;
}

async fn wait_until_applied(daemon: &Running) {
    until("the configuration to be applied", async || {
        let now = configuration(daemon).await;
        (now["state"] == "applied").then_some(()).ok_or(now.to_string())
    })
    .await;
}

/// A durable informer of pods with these settings, and a recorder of it that continues after a restart.
fn durable_pods(settings: &str) -> String {
    let recorder = plugin("recorder", "pods", "on-start = \"continue\"");
    format!("[state]\npath = \"state.redb\"\n{PODS}durable = \"metadata\"\n{settings}{recorder}")
}

/// Lists fail until the faults are cleared.
fn fail_lists(world: &World) {
    let lists = Filter::any().verb("list");
    world.server.faults().answer(lists, u32::MAX, Answer::internal_error());
}

fn watches(world: &World) -> usize {
    let requests = world.server.requests();
    requests.iter().filter(|request| request.verb == "watch").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_section_of_a_durable_informer_changes_nothing() {
    let world = World::start().await;
    for name in ["web-0", "web-1"] {
        world.create_pod(name, "nginx");
    }
    world.install("guest-recorder", "recorder.wasm");
    let durable = durable_pods("");
    let daemon = world.daemon(&durable).await;
    daemon.wait_for_events("recorder", "add", 2.0).await;
    let watched = watches(&world);

    // What the API server refuses, what it does not serve, and what this machine does not have.
    let refused = [
        (durable_pods(UNSUPPORTED), "field label not supported"),
        (durable.replace("v1/pods", "v1/podz"), "podz"),
        (durable_pods("durable-key-file = \"missing.key\"\n"), "missing.key"),
    ];
    for (number, (text, reason)) in refused.iter().enumerate() {
        world.configure(text);
        reloads(&daemon, "partial", (number + 1) as f64).await;
        wait_until_pending(&daemon, "informer.pods", reason).await;
    }
    world.create_pod("web-2", "nginx");
    daemon.wait_for_events("recorder", "add", 3.0).await;
    world.configure(&durable);
    wait_until_applied(&daemon).await;
    assert_eq!(watches(&world), watched, "the informer keeps its watch");

    // Its state is still there: a restart delivers the delete, and nothing that was delivered before.
    assert_eq!(daemon.stop().await.undelivered, 0);
    world.server.delete("v1/pods", "default", "web-0").unwrap();
    let daemon = world.daemon(&durable).await;
    daemon.wait_for_events("recorder", "delete", 1.0).await;
    daemon.wait_for_events("recorder", "sync", 1.0).await;
    daemon.wait_for_events("recorder", "add", 0.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn selector_edited_while_stopped_invents_no_deletes() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.create_pod("db-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    let daemon = world.daemon(&durable_pods("")).await;
    daemon.wait_for_events("recorder", "sync", 1.0).await;
    daemon.stop().await;

    let daemon = world.daemon(&durable_pods("label-selector = \"app = web\"\n")).await;
    daemon.wait_for_events("recorder", "sync", 1.0).await;
    daemon.wait_for_events("recorder", "add", 1.0).await;
    daemon.wait_for_events("recorder", "delete", 0.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_put_back_after_a_restart_keeps_its_deletes() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.create_pod("web-1", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    let daemon = world.daemon(&durable_pods("")).await;
    daemon.wait_for_events("recorder", "sync", 1.0).await;
    world.configure(&durable_pods(UNSUPPORTED));
    wait_until_pending(&daemon, "informer.pods", "field label not supported").await;
    daemon.stop().await;

    world.server.delete("v1/pods", "default", "web-0").unwrap();
    let daemon = world.daemon(&durable_pods(UNSUPPORTED)).await;
    let refused = ("informant_source_state", ["state=\"Refused\""]);
    daemon.wait_for_metric(refused.0, &refused.1, 1.0).await;
    world.configure(&durable_pods(""));
    daemon.wait_for_events("recorder", "sync", 1.0).await;
    daemon.wait_for_events("recorder", "delete", 1.0).await;
    daemon.wait_for_events("recorder", "add", 0.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn durable_informer_changes_once_its_new_request_is_accepted() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.create_pod("db-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    let daemon = world.daemon(&durable_pods("")).await;
    daemon.wait_for_events("recorder", "add", 2.0).await;
    fail_lists(&world);
    let changed = durable_pods("label-selector = \"app = web\"\n");
    world.configure(&changed);
    wait_until_pending(&daemon, "informer.pods", "500").await;
    assert_eq!(daemon.names("/api/v1/get/pods").await, ["db-0", "web-0"]);
    world.configure(&format!("{changed}# A comment.\n"));
    reloads(&daemon, "partial", 2.0).await;
    assert_eq!(daemon.metric(LAST_RELOAD, &[]).await, 0.0);

    world.server.faults().clear();
    daemon.wait_for_events("recorder", "add", 3.0).await;
    daemon.wait_for_metric(LAST_RELOAD, &[], 1.0).await;
    wait_until_applied(&daemon).await;
    assert_eq!(daemon.names("/api/v1/get/pods").await, ["web-0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn informer_of_an_unserved_resource_keeps_the_previous_one() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    let about = |resource: &str| format!("[informer.it]\nresource = \"{resource}\"\n");
    let daemon = world.daemon(&about("v1/pods")).await;
    daemon.wait_until_ready().await;
    world.configure(&about("v1/podz"));
    wait_until_pending(&daemon, "informer.it", "podz").await;
    world.configure(&about("aps/v1/*"));
    wait_until_pending(&daemon, "informer.it", "no served resource matches `aps/v1/*`").await;
    assert_eq!(daemon.names("/api/v1/get/it").await, ["web-0"]);
    // Newer text replaces the refused one.
    world.configure(&about("v1/configmaps"));
    wait_until_applied(&daemon).await;
    daemon.wait_until_ready().await;
    assert!(daemon.names("/api/v1/get/it").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_selector_is_pending_until_it_is_accepted() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    let daemon = world.daemon(PODS).await;
    daemon.wait_until_ready().await;
    world.configure(&format!("{PODS}{UNSUPPORTED}{MAPS}"));
    reloads(&daemon, "partial", 1.0).await;
    wait_until_pending(&daemon, "informer.pods", "field label not supported").await;
    until("the other informer to be served", async || {
        match daemon.get("/api/v1/get/maps").await {
            (200, _) => Ok(()),
            (status, body) => Err(format!("{status}: {body}")),
        }
    })
    .await;
    assert_eq!(daemon.names("/api/v1/get/pods").await, ["web-0"]);

    let lists = || Filter::any().verb("list").resource("pods");
    world.server.faults().forbid(lists());
    world.configure(&format!("{PODS}label-selector = \"app = db\"\n{MAPS}"));
    wait_until_pending(&daemon, "informer.pods", "403").await;
    world.server.faults().allow(&lists());
    world.configure(&format!("{PODS}label-selector = \"app in (db)\"\n{MAPS}"));
    wait_until_applied(&daemon).await;
    assert!(daemon.names("/api/v1/get/pods").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn selector_put_back_is_applied_at_once() {
    let world = World::start().await;
    let daemon = world.daemon(PODS).await;
    daemon.wait_until_ready().await;
    world.server.faults().forbid(Filter::any().verb("list"));
    world.configure(&format!("{PODS}label-selector = \"app = web\"\n"));
    wait_until_pending(&daemon, "informer.pods", "403").await;
    world.configure(PODS);
    wait_until_applied(&daemon).await;
}

/// Holds the next list of `resource`, applies `text`, and waits until the list is held.
async fn configure_and_hold(world: &World, resource: &str, text: &str) {
    let faults = world.server.faults();
    faults.hold(Filter::any().verb("list").resource(resource), 1);
    world.configure(text);
    until("a list to be held", async || {
        let rules = faults.rules();
        rules.is_empty().then_some(()).ok_or(format!("{rules:?}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn superseded_selector_takes_no_effect() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.create_pod("db-0", "nginx");
    let text = |resource: &str, selector: &str| {
        format!("[informer.it]\nresource = \"{resource}\"\nwatch-list = false\n{selector}")
    };
    let selector = "label-selector = \"app = web\"\n";
    let daemon = world.daemon(&text("v1/pods", "")).await;
    daemon.wait_until_ready().await;
    configure_and_hold(&world, "pods", &text("v1/pods", selector)).await;
    world.configure(&text("v1/podz", selector));
    wait_until_pending(&daemon, "informer.it", "podz").await;
    world.server.faults().release();
    until("no request to be tried", async || {
        let sources = daemon.json("/api/v1/sources").await;
        let is_over = sources["items"][0]["reconfiguring"].is_null();
        is_over.then_some(()).ok_or(sources.to_string())
    })
    .await;
    assert_eq!(daemon.names("/api/v1/get/it").await, ["db-0", "web-0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pattern_follows_the_section_that_is_being_tried() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.create_pod("db-0", "nginx");
    let text = "[informer.all]\nresource = \"v1/*\"\nwatch-list = false\n";
    let daemon = world.daemon(text).await;
    daemon.wait_until_ready().await;
    let discoveries = || {
        let requests = world.server.requests();
        requests.iter().filter(|request| request.verb == "get").count()
    };
    let changed = format!("{text}label-selector = \"app = web\"\nexclude = [\"v1/configmaps\"]\n");
    let before = discoveries();
    configure_and_hold(&world, "pods", &changed).await;
    until("a discovery", async || {
        (discoveries() > before).then_some(()).ok_or(before.to_string())
    })
    .await;
    world.server.faults().release();
    reloads(&daemon, "ok", 1.0).await;
    assert_eq!(daemon.names("/api/v1/get/pods").await, ["web-0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_section_in_use_drops_its_pending_change() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    let about = |resource: &str| {
        let recorder = plugin("recorder", "it", "");
        format!("[informer.it]\nresource = \"{resource}\"\n{MAPS}{recorder}")
    };
    let daemon = world.daemon(&about("v1/pods")).await;
    daemon.wait_for_events("recorder", "sync", 1.0).await;
    configure_and_hold(&world, "secrets", &about("v1/secrets")).await;
    // The plugin's new section is refused, so the plugin still uses the informer.
    let invalid = plugin("recorder", "maps", "config = { lable = \"x\" }");
    world.configure(&format!("{MAPS}{invalid}"));
    let is_in_use = async || {
        let now = configuration(&daemon).await;
        let mut waiting = now["waiting"].as_array().into_iter().flatten();
        let in_use = |entry: &serde_json::Value| entry.to_string().contains("still uses it");
        let found = waiting.any(|entry| entry["section"] == "informer.it" && in_use(entry));
        found.then_some(()).ok_or(now.to_string())
    };
    until("the removed section to be pending", is_in_use).await;
    world.server.faults().release();
    world.create_pod("web-1", "nginx");
    daemon.wait_for_events("recorder", "add", 2.0).await;
    world.configure(&format!("# A comment.\n{MAPS}{invalid}"));
    reloads(&daemon, "partial", 2.0).await;
    world.create_pod("web-2", "nginx");
    daemon.wait_for_events("recorder", "add", 3.0).await;
    is_in_use().await.expect("the reason stays");
    // If it returns with the same text, it is tried again.
    world.configure(&about("v1/secrets"));
    reloads(&daemon, "ok", 1.0).await;
    daemon.wait_until_ready().await;
    assert!(daemon.names("/api/v1/get/it").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn forbidden_kind_of_a_pattern_keeps_no_section_pending() {
    let world = World::start().await;
    let text = "[informer.all]\nresource = \"v1/*\"\n";
    let daemon = world.daemon(text).await;
    daemon.wait_until_ready().await;
    let maps = || Filter::any().resource("configmaps");
    world.server.faults().forbid(maps());
    world.server.faults().drop_watches(&maps(), Ending::Clean);
    daemon
        .wait_for_metric("informant_source_state", &["state=\"Forbidden\""], 1.0)
        .await;
    world.configure(&format!("{text}label-selector = \"app = web\"\n"));
    reloads(&daemon, "ok", 1.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_namespaces_are_pending() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    let daemon = world.daemon(PODS).await;
    daemon.wait_until_ready().await;
    world.server.faults().forbid(Filter::any().namespace("default"));
    world.configure(&format!("{PODS}namespaces = [\"default\"]\n"));
    wait_until_pending(&daemon, "informer.pods", "403").await;
    assert_eq!(daemon.names("/api/v1/get/pods").await, ["web-0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn forbidden_namespace_without_a_list_keeps_no_section_pending() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.server.faults().forbid(Filter::any().namespace("kube-system"));
    let both = format!("{PODS}namespaces = [\"default\", \"kube-system\"]\n");
    let daemon = world.daemon(&both).await;
    let objects = ("informant_store_objects", ["informer=\"pods\""]);
    daemon.wait_for_metric(objects.0, &objects.1, 1.0).await;
    world.configure(&format!("{both}label-selector = \"app = db\"\n"));
    reloads(&daemon, "ok", 1.0).await;
    assert_eq!(daemon.metric(objects.0, &objects.1).await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn section_accepted_later_is_logged() {
    let world = World::start().await;
    let program = Program::run(&world, PODS).await;
    program.wait_until_ready().await;
    fail_lists(&world);
    world.configure(&format!("{PODS}label-selector = \"app = web\"\n"));
    program.logged("configuration partially applied").await;
    world.server.faults().clear();
    let line = program.logged("section applied").await;
    assert_eq!(line["fields"]["section"], "informer.pods", "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_pattern_sends_few_requests() {
    let world = World::start().await;
    let daemon = world.daemon("[informer.it]\nresource = \"v1/pods\"\n").await;
    daemon.wait_until_ready().await;
    let lists = || {
        let requests = world.server.requests();
        requests.iter().filter(|request| request.verb == "list").count()
    };
    let before = lists();
    world.server.faults().forbid(Filter::any().verb("list"));
    world.configure("[informer.it]\nresource = \"*\"\n");
    wait_until_pending(&daemon, "informer.it", "403").await;
    assert_eq!(lists() - before, 8);
}
