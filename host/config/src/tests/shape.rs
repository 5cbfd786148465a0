//! A complete configuration, and the defaults of a minimal one.

use std::fmt;

use informant_spec::{Limits, OnFailure, ReplayPolicy, Required};

use super::*;

/// Every kind of section, with as many keys as can be combined.
const WHOLE: &str = r#"
[cluster]
context = "staging"
kubeconfig = "kube/config"

[admin]
listen = "127.0.0.1:0"
tls = { cert-file = "tls.crt", key-file = "tls.key" }
socket = "run/admin.sock"
[informer.pods]
resource = "v1/pods"
namespaces = ["default"]
label-selector = "app in (a, b)"
field-selector = "status.phase!=Succeeded,status.phase!=Failed"
resync = "5s"
drop = ["/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration"]
digest = ["/spec/template"]
keep-managed-fields = true
relist-notify-unchanged = true
required = "always"

[informer.pods.index]
node = "/spec/nodeName"
image = "/spec/containers/*/image"

[plugin.greeter]
component = "plugins/greeter.wasm"
sha256 = "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef"
informers = { main = "pods" }
namespaces = ["default", ""]
label-selector = "app=a"
config = { greeting = "hello", times = 3, ratio = 0.5, since = 1979-05-27, on = true, list = [1, "b"] }
limits = { memory = "32MiB", cpu = "20ms", call = "5s", pending = 7, instances = 4, kube-calls = 16, writes = "50/s", writes-in-flight = 8, kv = "64KiB", http = "7/s", http-in-flight = 3, http-time = "2s", http-request = "2KiB", http-response = "3KiB" }
allow.http = ["https://example.com/hooks/"]
on-failure = "quarantine"
on-restart = "replay"
on-reload = "replay"
retry = { initial = "500ms", max = "2m", attempts = 20 }
paused = true
dry-run = true
required = true
min-interval = "90s"
max-rate = "5/s"

[http]
ca-file = "ca.pem"
proxy = "http://proxy:3128"
no-proxy = [".svc"]
"#;

/// Its debug output, with one line per field.
fn field_by_field(value: &impl fmt::Debug) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in format!("{value:#?}").lines() {
        let begins_field = line
            .strip_prefix("    ")
            .is_some_and(|field| field.starts_with(char::is_alphabetic));
        match lines.last_mut() {
            Some(field) if line.starts_with(' ') && !begins_field => {
                field.push(' ');
                field.push_str(line.trim_start());
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

#[test]
fn complete_configuration_is_read() {
    let mut config = Config::parse(&SourceFile::new("etc/config.toml", WHOLE)).unwrap();
    let informer = config.informers.remove("pods").unwrap();
    insta::assert_snapshot!(field_by_field(&informer), @r#"
    InformerSection {
        position: FilePosition { line: 10, column: 11, },
        resource: Located { value: One( Exact( GroupVersionResource { group: "", version: "v1", plural: "pods", }, ), ), position: FilePosition { line: 11, column: 12, }, },
        exclude: Exclude { resources: [], versions: [], },
        exclude_entries: [],
        clusters: [],
        namespaces: [ "default", ],
        label_selector: Some( LabelSelector { requirements: [ LabelRequirement { key: "app", operator: In( { "a", "b", }, ), }, ], }, ),
        field_selector: Some( FieldSelector { terms: [ Term { field: "status.phase", equal: false, value: "Succeeded", pointer: "/status/phase", }, Term { field: "status.phase", equal: false, value: "Failed", pointer: "/status/phase", }, ], }, ),
        resync: Some( 5s, ),
        relist_notify_unchanged: true,
        drop: [ "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration", ],
        digest: [ "/spec/template", ],
        keep_managed_fields: true,
        metadata_only: false,
        watch_list: true,
        indexes: [ ( "image", "/spec/containers/*/image", ), ( "node", "/spec/nodeName", ), ],
        cache_bytes_max: None,
        durable: None,
        required: Always,
        shard_by: None,
    }
    "#);
    let plugin = config.plugins.remove("greeter").unwrap();
    insta::assert_snapshot!(field_by_field(&plugin.spec), @r#"
    PluginSpec {
        name: "greeter",
        content: File( "etc/plugins/greeter.wasm", Wasm, ),
        sha256: Some( Digest(0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef), ),
        config: Object { "greeting": String("hello"), "list": Array [ Number(1), String("b"), ], "on": Bool(true), "ratio": Number(0.5), "since": String("1979-05-27"), "times": Number(3), },
        informers: [ ( "main", "pods", ), ],
        selection: EventSelection { namespaces: [ "default", "", ], label_selector: Some( LabelSelector { requirements: [ LabelRequirement { key: "app", operator: Equals( "a", ), }, ], }, ), },
        allow_kube: [],
        allow_informers: [],
        allow_http: [ HttpGrant { origin: Origin { is_https: true, host: Exact( Name( "example.com", ), ), port: 443, }, prefix: [ [ 104, 111, 111, 107, 115, ], ], url: "https://example.com/hooks/", header_files: [], }, ],
        allow_events: false,
        identity: None,
        limits: Limits { memory_bytes: 33554432, cpu: 20ms, call: 5s, pending: 7, instances: 4, kube_calls: 16, writes_in_flight: 8, writes_per_second: 50, kv_bytes: 65536, http_in_flight: 3, http_per_second: 7, http_time: 2s, http_request_bytes: 2048, http_response_bytes: 3072, },
        resync: Some( 5s, ),
        min_interval: Some( 90s, ),
        timers: [],
        calls_per_second_max: Some( 5, ),
        on_reload: Replay,
        on_restart: Replay,
        on_start: Replay,
        wait_for: All,
        wait_for_max: 120s,
        on_failure: Quarantine,
        retry: RetryPolicy { initial: 500ms, max: 120s, attempts: 20, },
        paused: true,
        is_dry_run: true,
        required: Once,
        is_divided: false,
    }
    "#);
    insta::assert_snapshot!(field_by_field(&plugin.positions), @r#"
    PluginPositions {
        section: FilePosition { line: 26, column: 9, },
        component: FilePosition { line: 27, column: 13, },
        config: FilePosition { line: 32, column: 10, },
        selection: FilePosition { line: 30, column: 14, },
        informers: [ FilePosition { line: 29, column: 22, }, ],
        allow_kube: [],
        allow_informers: [],
        allow_http: [ FilePosition { line: 34, column: 15, }, ],
    }
    "#);
    insta::assert_snapshot!(field_by_field(&config), @r#"
    Config {
        path: "etc/config.toml",
        clusters: { "": Located { value: ClusterSection { context: Some( "staging", ), kubeconfig: Some( "etc/kube/config", ), in_cluster: false, }, position: FilePosition { line: 2, column: 2, }, }, },
        admin: AdminSection { listen: 127.0.0.1:0, socket: Some( "etc/run/admin.sock", ), hosts: [], tls: Some( Located { value: Files { certificate: "etc/tls.crt", key: "etc/tls.key", }, position: FilePosition { line: 8, column: 7, }, }, ), cluster: "", },
        ha: None,
        health: HealthSection { listen: [::]:8090, },
        http: HttpSection { ca_file: Some( Located { value: "etc/ca.pem", position: FilePosition { line: 46, column: 11, }, }, ), proxy: Some( "http://proxy:3128", ), no_proxy: [ ".svc", ], },
        cache: CacheSection { max_bytes: None, },
        state: StateSection { is_set: false, store: File, group_interval: 200ms, path: None, },
        script_runners: ScriptRunnersSection( {}, ),
        all_plugins: PluginsSection { compile_memory: None, },
        informers: {},
        plugins: {},
        runs_once: {},
        hash: TextHash(…),
        warnings: [],
    }
    "#);
}

#[test]
fn minimal_sections_get_the_defaults() {
    let config = accepted(
        r#"
        [informer.pods]
        resource = "v1/pods"

        [plugin.greeter]
        component = "greeter.wasm"
        informers = ["pods"]
        "#,
    );
    assert_eq!(config.admin.listen, ADMIN_LISTEN_DEFAULT);
    let (pods, greeter) = (&config.informers["pods"], &config.plugins["greeter"]);
    assert_eq!(
        (pods.namespaces.len(), pods.resync, pods.keep_managed_fields),
        (0, None, false)
    );
    assert_eq!((pods.required, greeter.spec.required), (Required::Once, Required::No));
    assert_eq!(greeter.spec.limits, Limits::default());
    assert_eq!(greeter.spec.on_failure, OnFailure::Retry);
    assert_eq!((greeter.spec.retry.attempts, greeter.spec.paused), (0, false));
    assert_eq!(
        (greeter.spec.on_reload, greeter.spec.on_restart, greeter.spec.on_start),
        (ReplayPolicy::Continue, ReplayPolicy::Continue, ReplayPolicy::Replay)
    );
    assert_eq!(greeter.spec.informers[0].0, "pods");
    assert_eq!(greeter.spec.config, serde_json::json!({}));
    assert_eq!(greeter.spec.content.path(), Path::new("./greeter.wasm"));
}

#[test]
fn admin_and_health_cannot_share_an_address() {
    const PODS: &str = "[informer.pods]\nresource = \"v1/pods\"";
    let refused = |admin: &str, health: &str| {
        refusal(&format!(
            "[admin]\nlisten = \"{admin}\"\n[health]\nlisten = \"{health}\"\n{PODS}"
        ))
    };
    insta::assert_snapshot!(refused("127.0.0.1:8090", "127.0.0.1:8090"), @"
    error: config.toml:4:10: [health] would listen on 127.0.0.1:8090, and [admin] on 127.0.0.1:8090: they cannot share a port
      help: give one of them another port
    ");
    assert_eq!(refused("127.0.0.1:8090", "[::]:8090").lines().count(), 2);
    insta::assert_snapshot!(refusal(&format!("[admin]\nlisten = \"[::1]:8090\"\n{PODS}")), @"
    error: config.toml:2:10: [health] would listen on [::]:8090, and [admin] on [::1]:8090: they cannot share a port
      help: give one of them another port
    ");
    for (admin, health) in [("127.0.0.1:0", "127.0.0.1:0"), ("127.0.0.1:8090", "10.0.0.1:8090")] {
        accepted(&format!(
            "[admin]\nlisten = \"{admin}\"\n[health]\nlisten = \"{health}\"\n{PODS}"
        ));
    }
}
