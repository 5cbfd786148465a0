//! The two ports: what each answers, and how long it puts up with its clients.

use super::program::transcript;
use super::world::{World, http_get};

const PODS: &str = "[informer.pods]\nresource = \"v1/pods\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn health_port_answers_probes_and_metrics_only() {
    let world = World::start().await;
    let daemon = world.daemon(PODS).await;
    daemon.wait_until_ready().await;
    for path in ["/livez", "/healthz", "/readyz", "/readyz?verbose", "/metrics"] {
        let (status, text) = http_get(daemon.health_address(), path).await;
        assert_eq!(status, 200, "{path}: {text}");
    }
    for path in ["/api/v1/get/pods", "/api/v1/plugins", "/api/v1/configuration", "/"] {
        let (status, text) = http_get(daemon.health_address(), path).await;
        assert_eq!(status, 404, "{path}: {text}");
        assert!(text.contains("on the admin port"), "{text}");
    }
    let (status, _) = http_get(daemon.address(), "/readyz").await;
    assert_eq!(status, 200, "the admin port answers probes, too");
}

#[tokio::test(flavor = "multi_thread")]
async fn health_address_in_use_is_reported() {
    let world = World::start().await;
    world.configure(PODS);
    let flag = format!("--health-listen={}", world.address);
    insta::assert_snapshot!(transcript(&world, &["run", "--log-level=off", &flag]).await, @"
    exit 1
    --
    error: the health server cannot listen on ADDRESS; change `listen` in [health], or use --health-listen: Address already in use (os error 98)
    ");
}
