//! Every message a configuration can bring about, as people read it.

use informant_plugin_host::{Continuation, Limits, OnFailure};

use super::*;

fn parse(text: &str) -> Result<Config, Problems> {
    Config::parse(&SourceFile::new("config.toml", text))
}

fn refusal(text: &str) -> String {
    parse(text).expect_err("this configuration must be refused").to_string()
}

fn accepted(text: &str) -> Config {
    parse(text).unwrap_or_else(|problems| panic!("this configuration must be accepted:\n{problems}"))
}

fn warnings(text: &str) -> String {
    Problems(accepted(text).warnings).to_string()
}

#[test]
fn the_whole_shape_is_read() {
    let config = Config::parse(&SourceFile::new(
        "etc/config.toml",
        r#"
        [cluster]
        context = "staging"
        kubeconfig = "kube/config"

        [admin]
        listen = "127.0.0.1:0"

        [informer.pods]
        resource = "v1/pods"
        namespaces = ["default"]
        label-selector = "app in (a, b)"
        field-selector = "status.phase!=Succeeded,status.phase!=Failed"
        resync = "5s"
        drop = ["/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration"]
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
        config = { greeting = "hello", times = 3, ratio = 0.5, since = 1979-05-27, on = true, list = [1, "b"] }
        limits = { memory = "32MiB", cpu = "20ms", call = "5s", pending = 7, instances = 1 }
        on-failure = "quarantine"
        on-restart = "replay"
        on-reload = "continue"
        required = true
        "#,
    ))
    .unwrap();
    insta::assert_debug_snapshot!(config, @r#"
    Config {
        path: "etc/config.toml",
        clusters: {
            "": Located {
                value: ClusterSection {
                    context: Some(
                        "staging",
                    ),
                    kubeconfig: Some(
                        "etc/kube/config",
                    ),
                    in_cluster: false,
                },
                place: Place {
                    line: 2,
                    column: 10,
                },
            },
        },
        admin: AdminSection {
            listen: 127.0.0.1:0,
        },
        state: StateSection {
            path: None,
        },
        informers: {
            "pods": InformerSection {
                place: Place {
                    line: 9,
                    column: 19,
                },
                resource: Located {
                    value: One(
                        Exact(
                            GroupVersionResource {
                                group: "",
                                version: "v1",
                                plural: "pods",
                            },
                        ),
                    ),
                    place: Place {
                        line: 10,
                        column: 20,
                    },
                },
                exclude: Exclude {
                    resources: [],
                    versions: [],
                },
                exclude_entries: [],
                clusters: [],
                namespaces: [
                    "default",
                ],
                label_selector: Some(
                    LabelSelector {
                        requirements: [
                            Requirement {
                                key: "app",
                                operator: In(
                                    {
                                        "a",
                                        "b",
                                    },
                                ),
                            },
                        ],
                    },
                ),
                field_selector: Some(
                    FieldSelector {
                        terms: [
                            Term {
                                field: "status.phase",
                                equal: false,
                                value: "Succeeded",
                                pointer: "/status/phase",
                            },
                            Term {
                                field: "status.phase",
                                equal: false,
                                value: "Failed",
                                pointer: "/status/phase",
                            },
                        ],
                    },
                ),
                resync: Some(
                    5s,
                ),
                relist_notify_unchanged: true,
                drop: [
                    "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
                ],
                keep_managed_fields: true,
                metadata_only: false,
                watch_list: true,
                indexes: [
                    (
                        "image",
                        "/spec/containers/*/image",
                    ),
                    (
                        "node",
                        "/spec/nodeName",
                    ),
                ],
                durable: None,
                required: Always,
            },
        },
        plugins: {
            "greeter": PluginSection {
                place: Place {
                    line: 24,
                    column: 17,
                },
                component: Located {
                    value: "etc/plugins/greeter.wasm",
                    place: Place {
                        line: 25,
                        column: 21,
                    },
                },
                sha256: Some(
                    Digest(0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef),
                ),
                informers: [
                    (
                        "main",
                        Located {
                            value: "pods",
                            place: Place {
                                line: 27,
                                column: 30,
                            },
                        },
                    ),
                ],
                config: Located {
                    value: Object {
                        "greeting": String("hello"),
                        "list": Array [
                            Number(1),
                            String("b"),
                        ],
                        "on": Bool(true),
                        "ratio": Number(0.5),
                        "since": String("1979-05-27"),
                        "times": Number(3),
                    },
                    place: Place {
                        line: 28,
                        column: 18,
                    },
                },
                allow_kube: [],
                limits: Limits {
                    memory_bytes: 33554432,
                    cpu: 20ms,
                    call: 5s,
                    pending: 7,
                    instances: 1,
                },
                resync: None,
                on_failure: Quarantine,
                on_reload: Continue,
                on_restart: Replay,
                on_start: Replay,
                required: Once,
            },
        },
        hash: TextHash(…),
        warnings: [],
    }
    "#);
}

#[test]
fn an_almost_empty_section_gets_the_defaults() {
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
    assert_eq!((pods.required, greeter.required), (Required::Once, Required::No));
    assert_eq!(greeter.limits, Limits::default());
    assert_eq!(
        (greeter.on_failure, greeter.on_reload),
        (OnFailure::Retry, Continuation::Replay)
    );
    assert_eq!(greeter.informers[0].0, "pods");
    assert_eq!(greeter.config.value, serde_json::json!({}));
    assert_eq!(greeter.component.value, Path::new("./greeter.wasm"));
}

#[test]
fn an_unknown_key_comes_with_what_was_meant_or_else_with_what_there_is() {
    insta::assert_snapshot!(refusal(
        r#"
[informers.pods]
resource = "v1/pods"

[admin]
listn = "127.0.0.1:1"

[informer.pods]
resource = "v1/pods"
resnyc = "5s"
labelSelector = "a=b"
colour = "red"

[plugin.p]
component = "p.wasm"
informers = ["pods"]
on_failure = "retry"
limits = { mem = "64MiB", cpus = "1s" }
"#
    ), @"
    error: config.toml:2:2: unknown key `informers` in the file
      help: did you mean `informer`?
    error: config.toml:6:1: unknown key `listn` in [admin]
      help: did you mean `listen`?
    error: config.toml:10:1: unknown key `resnyc` in [informer.pods]
      help: did you mean `resync`?
    error: config.toml:11:1: unknown key `labelSelector` in [informer.pods]
      help: did you mean `label-selector`?
    error: config.toml:12:1: unknown key `colour` in [informer.pods]
      help: keys of [informer.pods]: clusters, drop, durable, durable-key-file, durable-secrets, exclude, field-selector, index, keep-managed-fields, label-selector, metadata-only, namespaces, relist-notify-unchanged, required, resource, resync, watch-list
    error: config.toml:17:1: unknown key `on_failure` in [plugin.p]
      help: did you mean `on-failure`?
    error: config.toml:18:12: unknown key `mem` in [plugin.p.limits]
      help: did you mean `memory`?
    error: config.toml:18:27: unknown key `cpus` in [plugin.p.limits]
      help: did you mean `cpu`?
    ");
}

#[test]
fn secrets_outlive_the_process_only_where_somebody_said_so_and_enciphered() {
    let informer = |keys: &str| format!("[informer.s]\nresource = \"v1/secrets\"\n{keys}\n");
    for keys in [
        "durable = \"metadata\"",
        "durable = \"whole\"\ndurable-secrets = true",
        "durable = \"whole\"\ndurable-key-file = \"key\"",
    ] {
        let refused = refusal(&informer(keys));
        let place = "error: config.toml:3:11: secrets would be kept on disk in the clear";
        assert!(refused.starts_with(place), "{refused}");
    }
    let config = accepted(&informer(
        "durable = \"whole\"\ndurable-secrets = true\ndurable-key-file = \"key\"",
    ));
    let durable = config.informers["s"].durable.as_ref().unwrap();
    assert_eq!(durable.key_file.as_deref(), Some(Path::new("./key")));
    assert!(durable.may_keep("secrets"));
    for named in ["secrets", "Secret"] {
        let text = format!("[informer.s]\nresource = \"{named}\"\ndurable = \"metadata\"\n");
        assert!(refusal(&text).contains("in the clear"));
    }
}

#[test]
fn what_is_to_outlive_the_process_is_judged() {
    let informer = |keys: &str| format!("[informer.p]\nresource = \"v1/pods\"\n{keys}\n");
    assert!(
        refusal(&informer("durable-secrets = true")).contains("3:19: `durable-secrets` says nothing without `durable`")
    );
    assert!(refusal(&informer("durable = \"all\"")).contains("3:11: `durable` cannot be \"all\""));
    assert!(refusal("[state]\npath = \"\"\n[informer.p]\nresource = \"v1/pods\"\n").contains("2:8: `path` is empty"));
    let config = accepted(&format!(
        "[state]\npath = \"s/db\"\n{}",
        informer("durable = \"metadata\"")
    ));
    assert_eq!(config.state.path.as_deref(), Some(Path::new("./s/db")));
    assert!(!config.informers["p"].durable.as_ref().unwrap().may_keep("secrets"));
}

#[test]
fn several_clusters_have_names_and_informers_name_theirs() {
    let config = accepted(
        r#"
[cluster.east]
context = "east"
[cluster.west]
kubeconfig = "west.kubeconfig"
context = "admin"
[cluster.here]
in-cluster = true

[informer.pods]
resource = "v1/pods"
[informer.nodes]
resource = "v1/nodes"
clusters = ["west", "here"]
"#,
    );
    let of = |informer: &str| {
        config
            .clusters_of(&config.informers[informer])
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(of("pods"), "east here west");
    assert_eq!(of("nodes"), "here west");
    assert!(config.clusters["here"].value.in_cluster && config.has_named_clusters());
    let one = accepted("[informer.pods]\nresource = \"v1/pods\"\n");
    assert_eq!(one.clusters_of(&one.informers["pods"]).collect::<Vec<_>>(), [""]);
    assert!(!one.has_named_clusters());
}

#[test]
fn a_cluster_that_cannot_be_is_refused_with_its_place() {
    insta::assert_snapshot!(refusal(
        r#"
[cluster]
context = "both forms"
[cluster.east]
[cluster.West]
context = "w"
[cluster.here]
in-cluster = true
kubeconfig = "beside"
[informer.pods]
resource = "v1/pods"
clusters = ["esat", "east", "east", "north"]
[informer.nodes]
resource = "v1/nodes"
clusters = []
"#
    ), @r#"
    error: config.toml:3:1: `context` stands in [cluster] itself
      help: each has a name of its own: [cluster.NAME]
    error: config.toml:4:10: [cluster.east] does not say which cluster it is
      help: add `context`, `kubeconfig`, or `in-cluster = true`
    error: config.toml:5:10: "West" cannot be the NAME of [cluster.NAME]
      help: 1 to 63 lowercase letters, digits and '-', with a letter or digit at both ends
    error: config.toml:9:14: `kubeconfig` and `in-cluster = true` exclude each other
      help: `in-cluster` means the service account of the pod that Informant runs in: leave one of them out
    error: config.toml:12:13: [informer.pods] names a cluster that does not exist: "esat"
      help: did you mean `east`?
    error: config.toml:12:29: `clusters` names "east" twice
      help: leave one of them out
    error: config.toml:12:37: [informer.pods] names a cluster that does not exist: "north"
      help: clusters: `West`, `east`, `here`
    error: config.toml:15:12: `clusters` is empty
      help: leave it out to watch in all clusters
    "#);
    insta::assert_snapshot!(refusal("[informer.pods]\nresource = \"v1/pods\"\nclusters = [\"east\"]\n"), @r#"
    error: config.toml:3:13: [informer.pods] names a cluster that does not exist: "east"
      help: there is one cluster, which has no name: leave `clusters` out, or add [cluster.east]
    "#);
    insta::assert_snapshot!(warnings(
        "[cluster.east]\ncontext = \"a\"\n[cluster.west]\ncontext = \"a\"\n[informer.pods]\nresource = \"v1/pods\"\n\
         clusters = [\"east\"]\n[informer.other]\nresource = \"v1/pods\"\nclusters = [\"west\"]\n"
    ), @"
    warning: config.toml:3:10: [cluster.west] and [cluster.east] are the same cluster: everything would come twice
      help: leave one of them out
    ");
}

#[test]
fn what_is_not_built_yet_says_so() {
    insta::assert_snapshot!(refusal(
        r#"
[cluster.east]
context = "east"

[informer.pods]
resource = "v1/pods"
namespaces = ["a", "b"]
clusters = ["east"]
transform = "redact"
store = "compressed"

[plugin.remote]
component = "oci://example.com/greeter:1"
informers = ["pods"]
allow = { kube = [], http = [] }
as = "system:serviceaccount:ns:name"
limits = { instances = 4 }
"#
    ), @r#"
    error: config.toml:9:1: `transform` is known but not built yet in this version
      help: use `drop` to leave fields out
    error: config.toml:10:1: `store` is known but not built yet in this version
      help: whole objects are kept: leave it out, and use `drop`
    error: config.toml:13:13: `component` from oci:// is known but not built yet in this version
      help: fetch the component beforehand and name the file
    error: config.toml:15:22: `http` is known but not built yet in this version
      help: plugins cannot reach the network yet: leave it out
    error: config.toml:16:1: `as` is known but not built yet in this version
      help: plugins act with Informant's own identity, within `allow`: leave it out
    error: config.toml:17:24: `instances` = 4 is known but not built yet in this version
      help: a plugin has one instance
    "#);
}

#[test]
fn a_wrong_type_says_what_was_found_and_what_is_wanted() {
    insta::assert_snapshot!(refusal(
        r#"
admin = "127.0.0.1:1"

[informer]
resource = "v1/pods"

[informer.pods]
resource = 1
namespaces = "default"
drop = ["/a", 5]
keep-managed-fields = "yes"
index = "/spec/nodeName"
required = 1979-05-27

[plugin.p]
component = ["p.wasm"]
informers = "pods"
config = "verbose"
limits = { pending = "many", memory = 64, cpu = 0.5 }
"#
    ), @r#"
    error: config.toml:2:9: `admin` must be a table, [admin], not a string
    error: config.toml:5:1: `resource` stands in [informer] itself
      help: each has a name of its own: [informer.NAME]
    error: config.toml:8:12: `resource` must be a string, not a whole number
    error: config.toml:9:14: `namespaces` must be a list of strings, not a string
    error: config.toml:10:15: `drop` must be a list of strings, not a whole number
    error: config.toml:11:23: `keep-managed-fields` must be true or false, not a string
    error: config.toml:12:9: `index` must be a table, [informer.pods.index], not a string
    error: config.toml:13:12: `required` must be true or false, not a date
    error: config.toml:16:13: `component` must be a string, not a list
    error: config.toml:17:13: `informers` must be a list of strings, not a string
    error: config.toml:18:10: `config` must be a table, [plugin.p.config], not a string
    error: config.toml:19:22: `pending` must be a whole number, not a string
    error: config.toml:19:39: `memory` = 64 lacks a unit
      help: write a whole number and a unit: "512KiB", "64MiB", "1GiB"
    error: config.toml:19:49: `cpu` = 0.5 lacks a unit
      help: write a number and a unit: "500ms", "5s", "1m 30s", "2h"
    "#);
}

#[test]
fn a_plugin_is_one_file_a_component_or_a_script() {
    let config = accepted(
        "[informer.pods]\nresource = \"v1/pods\"\n\n[plugin.hello]\nscript = \"hello.js\"\ninformers = [\"pods\"]\n",
    );
    assert_eq!(config.plugins["hello"].component.value, Path::new("./hello.js"));
    insta::assert_snapshot!(refusal(
        r#"
[informer.pods]
resource = "v1/pods"

[plugin.both]
component = "both.wasm"
script = "both.js"
informers = ["pods"]

[plugin.typed]
script = "typed.ts"
informers = ["pods"]

[plugin.swapped]
script = "swapped.wasm"
informers = ["pods"]

[plugin.other]
component = "other.mjs"
informers = ["pods"]

[plugin.nameless]
script = ""
informers = ["pods"]
"#
    ), @r#"
    error: config.toml:7:10: [plugin.both] has both `component` and `script`
      help: keep one of them: a plugin is one file
    error: config.toml:11:10: `script` must name a file that ends in .js or .mjs
      help: compile it to JavaScript: esbuild NAME.ts --format=esm --outfile=NAME.js
    error: config.toml:15:10: `script` must name a file that ends in .js or .mjs
      help: a component is named with component = "NAME.wasm"
    error: config.toml:19:13: `component` names a script
      help: write script = "other.mjs"
    error: config.toml:23:10: `script` must name a file that ends in .js or .mjs
      help: scripts are JavaScript modules: script = "NAME.js"
    "#);
}

#[test]
fn a_value_out_of_range_names_the_range() {
    insta::assert_snapshot!(refusal(
        r#"
[informer.pods]
resource = "v1/pods"
resync = "10ms"

[plugin.p]
component = "p.wasm"
informers = ["pods"]
limits = { pending = 0, memory = "8GiB", cpu = "2m", call = "1h", instances = 0 }

[plugin.q]
component = "q.wasm"
informers = ["pods"]
limits = { pending = 99999999999999999999999, memory = "64mb", cpu = "1 second later" }
"#
    ), @r#"
    error: config.toml:4:10: `resync` = 10ms is out of range
      help: from 1s to 7d
    error: config.toml:9:22: `pending` = 0 is out of range
      help: from 1 to 1000000
    error: config.toml:9:34: `memory` = 8GiB is out of range
      help: from 1MiB to 4GiB
    error: config.toml:9:48: `cpu` = 2m is out of range
      help: from 10ms to 1m
    error: config.toml:9:61: `call` = 1h is out of range
      help: from 10ms to 10m
    error: config.toml:9:79: `instances` = 0 is out of range
      help: from 1 to 1024
    error: config.toml:14:22: `pending` = 99999999999999999999999 is out of range
      help: from 1 to 1000000
    error: config.toml:14:56: `memory` = "64mb" is not a size
      help: write a whole number and a unit: "512KiB", "64MiB", "1GiB"
    error: config.toml:14:70: `cpu` = "1 second later" is not a duration
      help: write a number and a unit: "500ms", "5s", "1m 30s", "2h"
    "#);
}

#[test]
fn a_value_that_cannot_be_read_says_what_one_looks_like() {
    insta::assert_snapshot!(refusal(
        r#"
[cluster]
kubeconfig = "~/.kube/config"

[admin]
listen = "localhost:8089"

[informer.Pods]
resource = "v1/pods/status/x"
namespaces = ["Default"]
drop = ["metadata/annotations", "/metadata/name"]
label-selector = "app in (a"
field-selector = "status.phase"

[informer.none]
namespaces = []

[informer.pods]
resource = "v1/pods"
required = "sometimes"

[informer.pods.index]
namespace = "/metadata/namespace"
"a=b" = "/spec/nodeName"
node = "spec.nodeName"

[plugin.p]
component = ""
sha256 = "abc"
informers = []
on-failure = "retyr"
on-reload = "restart"
config = { big = 99999999999999999999, rate = nan }

[plugin.q]
"#
    ), @r#"
    error: config.toml:3:14: `kubeconfig`: ~ is not expanded
      help: write the whole path, or one relative to this file
    error: config.toml:6:10: `listen` = "localhost:8089" is not an address and a port
      help: write "127.0.0.1:8089", "[::1]:8089" or "0.0.0.0:8089"
    error: config.toml:8:11: "Pods" cannot be the NAME of [informer.NAME]
      help: 1 to 63 lowercase letters, digits and '-', with a letter or digit at both ends
    error: config.toml:9:12: `resource`: `v1/pods/status/x` names no resource: it has more than three parts; write `v1/pods`, `apps/v1/deployments`, or a name such as `pods`, `Pod` or `deployments.apps`
    error: config.toml:10:15: "Default" cannot be a namespace
      help: 1 to 63 lowercase letters, digits and '-', with a letter or digit at both ends
    error: config.toml:11:9: `drop`: "metadata/annotations" is no JSON pointer: it does not begin with "/"
      help: write "/metadata/annotations"
    error: config.toml:11:33: `drop`: JSON pointer "/metadata/name" can not be dropped: it covers metadata.name, which every object must keep
    error: config.toml:12:18: `label-selector`: label selector "app in (a", byte 9: found the end, expected "," or ")"
    error: config.toml:13:18: `field-selector`: field selector "status.phase", byte 0: "status.phase" has no operator; write field=value or field!=value
    error: config.toml:15:11: [informer.none] lacks `resource`
      help: name what is watched: resource = "v1/pods"
    error: config.toml:16:14: `namespaces` is empty
      help: leave it out to watch all namespaces
    error: config.toml:20:12: `required` cannot be that
      help: possible values: true, false, "always"
    error: config.toml:23:1: "namespace" cannot be the name of an index
      help: every informer has an index of that name already
    error: config.toml:24:1: "a=b" cannot be the name of an index
      help: 1 to 63 letters, digits, '-', '_', '.' and '/', beginning with a letter or digit
    error: config.toml:25:8: `node`: "spec.nodeName" is no JSON pointer: it does not begin with "/"
      help: write "/spec/nodeName"
    error: config.toml:28:13: `component` is empty
    error: config.toml:29:10: `sha256` must be 64 hexadecimal digits
      help: `informant plugin inspect FILE` prints it
    error: config.toml:30:13: `informers` is empty
      help: name what the plugin is told about: informers = ["pods"]
    error: config.toml:31:14: `on-failure` cannot be "retyr"
      help: did you mean `retry`?
    error: config.toml:32:13: `on-reload` cannot be "restart"
      help: possible values: `replay`, `continue`
    error: config.toml:33:18: `big`: 99999999999999999999 cannot be written as JSON
      help: plugins receive their config as JSON: write it as a string
    error: config.toml:33:47: `rate`: nan cannot be written as JSON
      help: plugins receive their config as JSON: write it as a string
    error: config.toml:35:9: [plugin.q] lacks `component`
      help: name its file: component = "plugins/NAME.wasm", or script = "NAME.js"
    error: config.toml:35:9: [plugin.q] lacks `informers`
      help: name what it is told about: informers = ["pods"]
    "#);
}

#[test]
fn a_plugin_is_told_which_informers_there_are() {
    insta::assert_snapshot!(refusal(
        r#"
[informer.pods]
resource = "v1/pods"

[informer.nodes]
resource = "v1/nodes"

[plugin.p]
component = "p.wasm"
informers = ["pod", "deployments", "nodes", "nodes"]

[plugin.q]
component = "q.wasm"
informers = { main = "pods", other = "pods", "x=y" = "nodes" }
"#
    ), @r#"
    error: config.toml:10:14: [plugin.p] names an informer that does not exist: "pod"
      help: did you mean `pods`?
    error: config.toml:10:21: [plugin.p] names an informer that does not exist: "deployments"
      help: informers: `nodes`, `pods`
    error: config.toml:10:45: [plugin.p] names the informer "nodes" twice
      help: leave `nodes` out: every event would come twice
    error: config.toml:14:38: [plugin.q] names the informer "pods" twice
      help: leave `other` out: every event would come twice
    error: config.toml:14:46: "x=y" cannot be a plugin's name for an informer
      help: 1 to 63 letters, digits, '-', '_', '.' and '/', beginning with a letter or digit
    "#);
}

#[test]
fn a_name_that_is_refused_is_not_suggested() {
    let text = r#"
[informer.Pods]
resource = "v1/pods"

[informer.nodes]
resource = "v1/nodes"

[plugin.p]
component = "p.wasm"
informers = ["pods", "nods"]
"#;
    insta::assert_snapshot!(refusal(text), @r#"
    error: config.toml:2:11: "Pods" cannot be the NAME of [informer.NAME]
      help: 1 to 63 lowercase letters, digits and '-', with a letter or digit at both ends
    error: config.toml:10:14: [plugin.p] names an informer that does not exist: "pods"
      help: [informer.Pods] cannot be called that: call it [informer.pods]
    error: config.toml:10:22: [plugin.p] names an informer that does not exist: "nods"
      help: did you mean `nodes`?
    "#);
}

#[test]
fn a_plugin_of_a_broken_informer_is_no_second_error() {
    insta::assert_snapshot!(refusal(
        r#"
[informer.pods]

[plugin.p]
component = "p.wasm"
informers = ["pods"]
"#
    ), @r#"
    error: config.toml:2:11: [informer.pods] lacks `resource`
      help: name what is watched: resource = "v1/pods"
    "#);
}

#[test]
fn syntax_errors_are_reported_alone_and_all_at_once() {
    insta::assert_snapshot!(refusal("[informer.pods\nresource = v1/pods\nresource = \"a\"\nx = \"\n"), @"error: config.toml:1:15: unclosed table, expected `]`");
    insta::assert_snapshot!(refusal("[informer.pods]\nresource = \"v1/pods\"\nresource = \"v1/nodes\"\n"), @"error: config.toml:3:1: `resource` is there twice");
    insta::assert_snapshot!(refusal("[informer.pods]\n[informer.pods]\n"), @"error: config.toml:2:11: `pods` is there twice");
}

#[test]
fn a_file_that_is_missing_says_how_to_name_one() {
    insta::assert_snapshot!(Config::load(Path::new("no/such/config.toml")).unwrap_err(), @"
    error: no/such/config.toml: failed to read: No such file or directory (os error 2)
      help: name the configuration with -c FILE; the default is config.toml in the current folder
    ");
}

#[test]
fn what_is_allowed_but_odd_is_a_warning() {
    insta::assert_snapshot!(warnings(
        r#"
[admin]
listen = "0.0.0.0:8089"

[informer.all]
resource = "v1/pods"

[informer.some]
resource = "v1/pods"
namespaces = ["default"]
"#
    ), @r#"
    warning: config.toml:3:10: the admin server at 0.0.0.0:8089 can be reached from outside
      help: it asks nobody who they are and shows every cached object: keep strangers out by a NetworkPolicy
    warning: config.toml:9:12: informers "all" and "some" both watch `v1/pods`: two watches and two caches
      help: informers are shared by name: let plugins name the same one, unless selectors or namespaces differ
    "#);
    insta::assert_snapshot!(warnings("# nothing\n"), @r#"
    warning: config.toml:1:1: there is nothing to do: no [informer.NAME], no [plugin.NAME]
      help: begin with [informer.pods] and resource = "v1/pods"
    "#);
}

#[test]
fn more_watches_than_one_cluster_is_asked_for_are_refused() {
    let informers = |count: usize| -> String {
        (0..count)
            .map(|n| format!("[informer.i{n}]\nresource = \"example.com/v1/r{n}\"\n"))
            .collect()
    };
    accepted(&informers(WATCHES_MAX));
    insta::assert_snapshot!(refusal(&informers(WATCHES_MAX + 1)), @"error: config.toml:513:11: 257 watches (an informer has one, or one for each of its namespaces) are more than the 256 that one cluster is asked for");
}

#[test]
fn many_resources_in_one_informer_are_a_pattern_less_what_is_excluded() {
    let config =
        accepted("[informer.all]\nresource = \"*\"\nexclude = [\"v1/secrets\", \"metrics.k8s.io/v1beta1/*\"]\n");
    let section = &config.informers["all"];
    assert_eq!(section.resource.value.text(), "*");
    assert_eq!(
        (section.exclude.resources.len(), section.exclude.versions.len()),
        (1, 1)
    );
    insta::assert_snapshot!(
        refusal(
            r#"
[informer.one]
resource = "v1/pods"
exclude = ["v1/secrets"]

[informer.all]
resource = "apps/*/deployments"

[informer.apps]
resource = "apps/v1/*"
field-selector = "spec.nodeName=a"
exclude = ["secrets", "v1/"]
"#
        ),
        @r#"
    error: config.toml:4:11: `exclude` cannot be had with resource = "v1/pods"
      help: it leaves resources out of `*` and the like: leave it out
    error: config.toml:7:12: `resource`: `apps/*/deployments` names no set of resources: write `*` for all there are, or a version of a group as `apps/v1/*` and `v1/*`
    error: config.toml:11:18: `field-selector` cannot be had with resource = "apps/v1/*"
      help: every kind has other fields: leave it out, or write an informer for each resource
    error: config.toml:12:12: `exclude`: `secrets` has no version: write it as in `v1/secrets` and `apps/v1/deployments`
    error: config.toml:12:23: `exclude`: `v1/` names no resource: a part of it is empty; write `v1/pods`, `apps/v1/deployments`, or a name such as `pods`, `Pod` or `deployments.apps`
    "#
    );
}
