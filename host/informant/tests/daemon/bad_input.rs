//! Problems are reported, show in readiness and metrics, and do not affect anything else.

use informant_apiserver::{Filter, Kind};

use super::world::{World, until};

const PODS: &str = "[informer.pods]\nresource = \"v1/pods\"\n";
const RECORDER: &str = "[plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\"]\n";

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_cluster_is_reported_and_retried() {
    let world = World::unreachable().await;
    let daemon = world.daemon(PODS).await;
    let text = until("the trouble to show", async || {
        let (status, text) = daemon.get("/readyz").await;
        let (_, sources) = daemon.get("/api/v1/sources").await;
        if status == 503 && sources.contains("cannot be reached") {
            Ok(text)
        } else {
            Err(text + &sources)
        }
    })
    .await;
    assert!(
        text.contains("[-]informer/pods failed: discovering the resource"),
        "{text}"
    );
    assert_eq!(daemon.get("/livez").await, (200, "ok".to_owned()));
    assert_eq!(
        daemon
            .metric("informant_informer_discovering", &["informer=\"pods\""])
            .await,
        1.0
    );

    world.begin_to_serve().await;
    daemon.wait_until_ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_resource_does_not_delay_other_informers() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    let widgets = "[informer.widgets]\nresource = \"example.com/v1/widgets\"\n";
    let daemon = world.daemon(&format!("{PODS}{RECORDER}{widgets}")).await;
    daemon.wait_for_events("recorder", "add", 1.0).await;
    let (status, text) = daemon.get("/readyz").await;
    assert_eq!(status, 503);
    assert!(text.contains("[+]informer/pods ok: Live, 1 objects"), "{text}");
    assert!(
        text.contains("[-]informer/widgets failed: discovering the resource; `informant status` and the log show why"),
        "{text}"
    );
    let (_, sources) = daemon.get("/api/v1/sources").await;
    assert!(
        sources.contains("the API server serves no resource `example.com/v1/widgets`"),
        "{sources}"
    );

    world
        .server
        .register(Kind::custom("example.com", "v1", "Widget", "widgets", true));
    daemon.wait_until_ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forbidden_resource_shows_as_forbidden() {
    let world = World::start().await;
    world.server.faults().forbid(Filter::any().resource("nodes"));
    let daemon = world
        .daemon(&format!("{PODS}[informer.nodes]\nresource = \"v1/nodes\"\n"))
        .await;
    let text = until("the trouble to show", async || {
        let (_, text) = daemon.get("/readyz").await;
        if text.contains("[-]informer/nodes failed: Forbidden") && text.contains("[+]informer/pods ok") {
            Ok(text)
        } else {
            Err(text)
        }
    })
    .await;
    assert!(text.ends_with("readyz check failed\n"), "{text}");
    assert_eq!(
        daemon
            .metric("informant_source_state", &["informer=\"nodes\"", "state=\"Forbidden\""])
            .await,
        1.0
    );

    world.server.faults().allow(&Filter::any().resource("nodes"));
    daemon.wait_until_ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_of_a_cluster_scoped_resource_are_refused() {
    let world = World::start().await;
    let nodes = "[informer.nodes]\nresource = \"v1/nodes\"\nnamespaces = [\"default\"]\nrequired = false\n";
    let daemon = world.daemon(&format!("{PODS}{nodes}")).await;
    daemon.wait_until_ready().await;
    until("the refusal to show", async || {
        let (_, text) = daemon.get("/readyz?verbose").await;
        let (_, sources) = daemon.get("/api/v1/sources").await;
        let is_refused = text.contains("[ ]informer/nodes failing, not required: refused")
            && sources.contains("`namespaces` names default, but v1/nodes is cluster-scoped");
        if is_refused { Ok(()) } else { Err(text + &sources) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn corrupt_component_at_start_is_retried_when_it_changes() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.write("recorder.wasm", b"<html>404</html>");
    let required = "required = true\n";
    let daemon = world.daemon(&format!("{PODS}{RECORDER}{required}")).await;
    let text = until("the refusal to show", async || {
        let (status, text) = daemon.get("/readyz").await;
        // While it is being loaded it shows as failed too, without a reason yet.
        let shows = text.contains("[-]plugin/recorder failed: refused") && text.contains("[+]informer/pods ok");
        if status == 503 && shows { Ok(text) } else { Err(text) }
    })
    .await;
    assert!(!text.contains("not WebAssembly"), "{text}");
    let (_, plugins) = daemon.get("/api/v1/plugins").await;
    assert!(plugins.contains("not WebAssembly"), "{plugins}");
    assert_eq!(
        daemon
            .metric("informant_plugin_refused", &["plugin=\"recorder\""])
            .await,
        1.0
    );
    assert_eq!(daemon.json("/api/v1/plugins").await["items"][0]["state"], "refused");

    world.install("guest-recorder", "recorder.wasm");
    daemon.wait_until_ready().await;
    daemon.wait_for_events("recorder", "add", 1.0).await;
    assert_eq!(
        daemon
            .metric("informant_plugin_refused", &["plugin=\"recorder\""])
            .await,
        0.0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn trapped_plugin_is_rebuilt_without_losing_events() {
    let world = World::start().await;
    for name in ["web-0", "web-1", "web-2"] {
        world.create_pod(name, "nginx");
    }
    world.install("guest-recorder", "recorder.wasm");
    let trap = "config = { rules = [{ name = \"web-1\", attempts = 1, do = \"trap\" }] }\n";
    let daemon = world.daemon(&format!("{PODS}{RECORDER}{trap}")).await;
    daemon.wait_for_events("recorder", "add", 3.0).await;
    let trapped = daemon
        .metric(
            "informant_handler_events_total",
            &["plugin=\"recorder\"", "result=\"trap\""],
        )
        .await;
    assert_eq!(trapped, 1.0);
    assert_eq!(
        daemon
            .metric("informant_plugin_restarts_total", &["plugin=\"recorder\""])
            .await,
        1.0
    );
    assert_eq!(daemon.stop().await.undelivered, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn permanent_failures_become_dead_letters() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    let fails = "config = { rules = [{ do = \"permanent\" }] }\n";
    let daemon = world.daemon(&format!("{PODS}{RECORDER}{fails}")).await;
    daemon
        .wait_for_metric("informant_dead_letters", &["plugin=\"recorder\""], 1.0)
        .await;
    let letters = daemon.json("/api/v1/dead-letters?plugin=recorder").await;
    let letter = &letters["items"][0];
    assert_eq!(
        (&letter["informer"], &letter["name"], &letter["event"]),
        (&"pods".into(), &"web-0".into(), &"add".into())
    );
    assert_eq!(
        (&letter["result"], &letter["reason"]),
        (&"permanent".into(), &"initial".into())
    );
}
