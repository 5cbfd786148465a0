//! The program before anything runs: what `informant check` accepts and refuses, and embedded API servers.

use std::process::Stdio;

use informant_apiserver::Filter;
use serde_json::Value;

use super::program::{informant, transcript};
use super::world::{World, http_get, until};

const PODS: &str = "[informer.pods]\nresource = \"v1/pods\"\n";

/// Checks a configuration, and asserts the exit code and the `parts` of the output.
async fn check(world: &World, config: &str, exit: u8, parts: &[&str]) {
    world.configure(config);
    let text = transcript(world, &["check"]).await;
    assert!(text.starts_with(&format!("exit {exit}\n")), "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_kubeconfig_is_an_error_with_its_position() {
    let world = World::start().await;
    let east = "[cluster.east]\nkubeconfig = \"eeast.kubeconfig\"\n";
    let west = "[cluster.west]\nkubeconfig = \"kubeconfig\"\n";
    let expected = ["error: config.toml:3:", "cannot check cluster east", "eeast.kubeconfig"];
    check(&world, &format!("{east}{west}{PODS}"), 3, &expected).await;
    let one = "[cluster]\nkubeconfig = \"nowhere\"\n";
    check(
        &world,
        &format!("{one}{PODS}"),
        3,
        &["error: config.toml:3:", "kubeconfig ./nowhere:"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_kubeconfig_of_the_environment_is_an_error_unless_offline() {
    let world = World::start().await;
    world.configure(PODS);
    let run_check = async |args: &[&str]| {
        let mut command = informant(&world, args);
        let output = command.env("KUBECONFIG", "/nowhere").output().await.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, why) = run_check(&["check"]).await;
    assert_eq!(code, Some(3));
    assert!(
        why.contains("cannot use the kubeconfig in $KUBECONFIG, /nowhere: "),
        "{why}"
    );
    assert!(why.contains("No such file") && !why.contains("in-cluster"), "{why}");
    assert_eq!(run_check(&["check", "--offline"]).await.0, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn unserved_resource_is_an_error_if_required() {
    let world = World::start().await;
    let widgets = "[informer.widgets]\nresource = \"example.com/v1/widgets\"\n";
    check(&world, widgets, 3, &["error: config.toml:4:", "[informer.widgets]"]).await;
    let not_required = format!("{widgets}required = false\n");
    let expected = ["warning: config.toml:4:", "[informer.widgets]", "config.toml is valid"];
    check(&world, &not_required, 0, &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_does_not_exist_is_a_warning() {
    let world = World::start().await;
    let config = format!("{PODS}namespaces = [\"default\", \"shpo\"]\n");
    let expected = [
        "warning: config.toml:3:",
        "[informer.pods] names namespace \"shpo\", which does not exist",
        "help: correct the name",
        "config.toml is valid",
    ];
    check(&world, &config, 0, &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_embedded_servers_have_different_uids() {
    let world = World::unreachable().await;
    let mut uids = Vec::new();
    for name in ["east", "west"] {
        let args = [
            "apiserver",
            "--listen=127.0.0.1:0",
            "--kubeconfig-out",
            name,
            "--context-name",
            name,
        ];
        let _server = informant(&world, &args).stderr(Stdio::null()).spawn().unwrap();
        let config = until("the kubeconfig", async || {
            kube::config::Kubeconfig::read_from(world.path(name)).map_err(|error| error.to_string())
        })
        .await;
        assert_eq!(config.current_context.as_deref(), Some(name));
        let url = config.clusters[0].cluster.as_ref().unwrap().server.clone().unwrap();
        let address = url.strip_prefix("http://").unwrap().parse().unwrap();
        let (code, namespace) = http_get(address, "/api/v1/namespaces/default").await;
        assert_eq!(code, 200, "{namespace}");
        let namespace: Value = serde_json::from_str(&namespace).unwrap();
        uids.push(namespace["metadata"]["uid"].as_str().unwrap().to_owned());
    }
    assert_ne!(uids[0], uids[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unsupported_field_selector_is_found_by_check_and_run() {
    let world = World::start().await;
    world.create_pod("web", "nginx");
    let config = format!(
        "{PODS}[informer.images]\nresource = \"v1/pods\"\nrequired = false\nfield-selector = \"spec.image=nginx\"\n"
    );
    let expected = [
        "error: config.toml:6:",
        "[informer.images] `field-selector` is not supported",
        "field label not supported: spec.image",
    ];
    check(&world, &config, 3, &expected).await;
    let daemon = world.daemon(&config).await;
    until("the source to be refused", async || {
        let sources = daemon.json("/api/v1/sources?informer=images").await;
        let source = &sources["items"][0];
        let error = source["lastError"]["message"].as_str().unwrap_or_default();
        match source["state"] == "Refused" && error.contains("field label not supported: spec.image") {
            true => Ok(()),
            false => Err(sources.to_string()),
        }
    })
    .await;
    assert_eq!(daemon.names("/api/v1/get/pods").await, ["web"]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_check_fails_on_warnings_and_unpinned_components() {
    let world = World::start().await;
    world.install("crash-loop", "plugin.wasm");
    let plugin = "[plugin.p]\ncomponent = \"plugin.wasm\"\ninformers = [\"pods\"]\n";
    world.configure(&format!("{PODS}{plugin}"));
    let args = ["check", "--offline", "--strict"];
    insta::assert_snapshot!(transcript(&world, &args).await, @"
    exit 3
    plugin p: crash-loop 0.1.0, event-handler, sync-handler, SIZE sha256 DIGEST
    --
    error: config.toml:6:13: [plugin.p] does not pin its component (--strict)
      help: add `sha256`, which `informant plugin inspect` prints
    config.toml is invalid
    ");
    let text = informant(&world, &["plugin", "inspect", "-o", "json", "plugin.wasm"]).output();
    let inspected: Value = serde_json::from_slice(&text.await.unwrap().stdout).unwrap();
    let pin = format!("sha256 = \"{}\"\n", inspected["sha256"].as_str().unwrap());
    world.configure(&format!("{PODS}{plugin}{pin}"));
    let text = transcript(&world, &args).await;
    assert!(
        text.starts_with("exit 0\n") && text.contains("config.toml is valid"),
        "{text}"
    );
    // What is a warning otherwise: here, of the cluster.
    let widgets = "[informer.widgets]\nresource = \"example.com/v1/widgets\"\nrequired = false\n";
    world.configure(&format!("{PODS}{plugin}{pin}{widgets}"));
    let strict = transcript(&world, &["check", "--strict"]).await;
    assert!(
        strict.starts_with("exit 3\n") && strict.contains("error: config.toml:10:"),
        "{strict}"
    );
    let text = transcript(&world, &["check"]).await;
    assert!(
        text.starts_with("exit 0\n") && text.contains("warning: config.toml:10:"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_requests_need_are_checked() {
    let world = World::unreachable().await;
    world.install("guest-http", "http.wasm");
    world.write("two-lines", b"Bearer a\nBearer b\n");
    world.write("token", b"Bearer a\n");
    world.configure(&format!(
        "[http]\nca-file = \"ca.pem\"\n{PODS}\
         [plugin.p]\ncomponent = \"http.wasm\"\ninformers = [\"pods\"]\n\
         allow.http = [\n  \
           {{ url = \"https://a.example.com\", header-files = {{ Authorization = \"two-lines\", X-Key = \"token\" }} }},\n  \
           {{ url = \"https://b.example.com\", header-files = {{ Authorization = \"nowhere\" }} }},\n  \
           \"http://localhost:8080\", \"http://127.0.0.1:8080\", \"http://a.localhost\", \"http://*.svc\"]\n"
    ));
    let offline = ["check", "--offline"];
    let text = transcript(&world, &offline).await;
    for expected in [
        // It may exist elsewhere.
        "note: config.toml:4:11: [http] ca-file: cannot use ./ca.pem: No such file",
        "error: config.toml:11:11: [plugin.p] the file of the header authorization: cannot use ./two-lines: it is not one line",
        "note: config.toml:12:11: [plugin.p] the file of the header authorization: cannot use ./nowhere: No such file",
        "warning: config.toml:13:3: [plugin.p] may call http://localhost:8080, but that name has an address",
        "warning: config.toml:13:53: [plugin.p] may call http://a.localhost, but that name has an address",
    ] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
    assert_eq!(text.matches("config.toml:13:").count(), 2, "{text}");
    assert!(!text.contains("x-key"), "{text}");
    let text = transcript(&world, &["check"]).await;
    assert!(text.contains("warning: config.toml:4:11: [http] ca-file:"), "{text}");
    world.write("ca.pem", b"no certificate\n");
    let text = transcript(&world, &offline).await;
    let expected = "error: config.toml:4:11: [http] ca-file: cannot use ./ca.pem: it contains no certificate in PEM";
    assert!(text.contains(expected), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn grant_of_a_resource_not_served_is_a_warning() {
    let world = World::start().await;
    world.install("guest-kube", "plugin.wasm");
    let granted = |resource: &str| {
        format!(
            "{PODS}[plugin.tried]\ncomponent = \"plugin.wasm\"\ninformers = [\"pods\"]\n\
             allow.kube = [{{ verbs = [\"patch\"], resource = \"{resource}\" }}]\n"
        )
    };
    let why = "[plugin.tried] grants access to nothing: the API server serves no resource `v1/podz`";
    let expected = ["warning: config.toml:8:", why, "config.toml is valid"];
    check(&world, &granted("v1/podz"), 0, &expected).await;
    world.configure(&granted("v1/pods"));
    let text = transcript(&world, &["check"]).await;
    assert!(!text.contains("grants access to nothing"), "{text}");
    assert!(
        text.contains("plugin tried: all grants are permitted on the cluster"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn event_handler_without_informers_is_a_warning() {
    let world = World::start().await;
    world.install("guest-kube", "plugin.wasm");
    let with =
        |informers: &str| format!("{PODS}[plugin.tried]\ncomponent = \"plugin.wasm\"\ninformers = [{informers}]\n");
    let why = "warning: config.toml:5:9: [plugin.tried] has no informers, so it is never called for an object";
    check(&world, &with(""), 0, &[why]).await;
    world.configure(&with("\"pods\""));
    let text = transcript(&world, &["check"]).await;
    assert!(!text.contains("has no informers"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_reads_the_certificate_of_the_admin_port() {
    let world = World::unreachable().await;
    let config = format!("tls = {{ cert-file = \"tls.crt\", key-file = \"tls.key\" }}\n{PODS}");
    world.configure(&config);
    let offline = transcript(&world, &["check", "--offline"]).await;
    assert!(
        offline.contains("note: config.toml:3:7: [admin] tls: cannot read ./tls.crt"),
        "{offline}"
    );
    check(
        &world,
        &config,
        0,
        &["warning: config.toml:3:7: [admin] tls: cannot read"],
    )
    .await;
    world.issue_certificate(2001);
    let expected = "error: config.toml:3:7: [admin] tls: the certificate in ./tls.crt expired at 2001-01-01T00:00:00Z";
    check(&world, &config, 3, &[expected]).await;
    world.issue_certificate(2100);
    let text = transcript(&world, &["check", "--offline"]).await;
    assert!(text.starts_with("exit 0\n") && !text.contains("tls.crt"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_asks_for_the_rights_to_ask_about_callers() {
    let world = World::start().await;
    let config = format!("tls = \"self-signed\"\n{PODS}");
    let permitted = "admin: reviews of callers are permitted on the cluster";
    check(&world, &config, 0, &[permitted]).await;
    world
        .server
        .faults()
        .forbid(Filter::any().resource("subjectaccessreviews"));
    let expected = [
        "error: config.toml:3:7: Informant has no permission to authenticate and authorize callers of the admin port: \
         create subjectaccessreviews.authorization.k8s.io",
        "informant rbac",
    ];
    check(&world, &config, 3, &expected).await;
    let text = {
        world.configure(PODS);
        transcript(&world, &["check"]).await
    };
    assert!(!text.contains("callers"), "{text}");
}
