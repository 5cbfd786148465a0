//! Unknown and unsupported keys, and values of the wrong type, out of range or malformed.

use super::*;

const PODS: &str = "[informer.pods]\nresource = \"v1/pods\"\n";

#[test]
fn unknown_keys_come_with_a_suggestion_or_the_known_keys() {
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
color = "red"

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
    error: config.toml:12:1: unknown key `color` in [informer.pods]
      help: keys of [informer.pods]: clusters, digest, drop, durable, durable-key-file, durable-secrets, exclude, field-selector, index, keep-managed-fields, label-selector, max-bytes, metadata-only, namespaces, relist-notify-unchanged, required, resource, resync, shard-by, watch-list
    error: config.toml:17:1: unknown key `on_failure` in [plugin.p]
      help: did you mean `on-failure`?
    error: config.toml:18:12: unknown key `mem` in [plugin.p.limits]
      help: did you mean `memory`?
    error: config.toml:18:27: unknown key `cpus` in [plugin.p.limits]
      help: did you mean `cpu`?
    ");
}

#[test]
fn planned_keys_are_reported_as_not_supported_yet() {
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
allow = { kube = [], kv = [] }
cache-beyond-identity = true
"#
    ), @r"
    error: config.toml:9:1: `transform` is not supported yet
      help: use `drop` to remove fields
    error: config.toml:10:1: `store` is not supported yet
      help: whole objects are kept: remove it, and use `drop`
    error: config.toml:13:13: `component` from oci:// is not supported yet
      help: download the component first, and set its file
    error: config.toml:15:22: `kv` is not supported yet
      help: every plugin may use kv, with [state]: remove it
    error: config.toml:16:1: `cache-beyond-identity` is not supported yet
      help: remove it
    ");
}

#[test]
fn wrong_types_are_reported_with_the_expected_type() {
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
    error: config.toml:5:1: `resource` is set in [informer] itself
      help: use a section with a name: [informer.NAME]
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
fn values_out_of_range_are_reported_with_the_range() {
    insta::assert_snapshot!(refusal(
        r#"
[informer.pods]
resource = "v1/pods"
resync = "10ms"

[plugin.p]
component = "p.wasm"
informers = ["pods"]
limits = { pending = 0, memory = "8GiB", cpu = "2m", call = "1h", instances = 0, writes = "0/s" }

[plugin.q]
component = "q.wasm"
informers = ["pods"]
limits = { pending = 99999999999999999999999, memory = "64mb", cpu = "1 second later", writes = "9/m" }
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
      help: from 1 to 64
    error: config.toml:9:91: `writes` = 0/s is out of range
      help: from 1/s to 100000/s
    error: config.toml:14:22: `pending` = 99999999999999999999999 is out of range
      help: from 1 to 1000000
    error: config.toml:14:56: `memory` = "64mb" is not a size
      help: write a whole number and a unit: "512KiB", "64MiB", "1GiB"
    error: config.toml:14:70: `cpu` = "1 second later" is not a duration
      help: write a number and a unit: "500ms", "5s", "1m 30s", "2h"
    error: config.toml:14:97: `writes` = "9/m" is not a rate
      help: write a whole number for each second: "20/s"
    "#);
}

#[test]
fn unusable_retry_settings_are_reported() {
    let plugin = |name: &str, retry: &str| {
        format!("[plugin.{name}]\ncomponent = \"p.wasm\"\ninformers = [\"pods\"]\nretry = {retry}\n")
    };
    let text = [
        "[informer.pods]\nresource = \"v1/pods\"\n".to_owned(),
        plugin("a", r#"{ initial = "1ms", max = "2d", attempts = -1 }"#),
        plugin("b", r#"{ initial = "10m" }"#),
        plugin("c", r#"{ initial = "2s", max = "1s", tries = 3 }"#),
        plugin("d", "5"),
    ];
    insta::assert_snapshot!(refusal(&text.concat()), @"
    error: config.toml:6:21: `initial` = 1ms is out of range
      help: from 10ms to 1d
    error: config.toml:6:34: `max` = 2d is out of range
      help: from 10ms to 1d
    error: config.toml:6:51: `attempts` = -1 is out of range
      help: from 0 to 1000000
    error: config.toml:10:21: [plugin.b.retry]: `initial` is longer than `max`
      help: `initial` is the first wait before a retry, 1s by default; it doubles up to `max`, 5m by default
    error: config.toml:14:33: [plugin.c.retry]: `initial` is longer than `max`
      help: `initial` is the first wait before a retry, 1s by default; it doubles up to `max`, 5m by default
    error: config.toml:14:39: unknown key `tries` in [plugin.c.retry]
      help: keys of [plugin.c.retry]: attempts, initial, max
    error: config.toml:18:9: `retry` must be a table, [plugin.d.retry], not a whole number
    ");
}

#[test]
fn admin_hosts_are_names_without_scheme_and_port() {
    let config = accepted("[admin]\nhosts = [\"informant.example.com\", \"informant\"]\n");
    assert_eq!(config.admin.hosts, ["informant.example.com", "informant"]);
    insta::assert_snapshot!(refusal("[admin]\nhosts = [\"https://a.example.com\", \"a:8089\", \"*\", \"\"]\n"), @r#"
    warning: config.toml:1:1: nothing to do: no [informer.NAME] and no [plugin.NAME]
      help: start with [informer.pods] and resource = "v1/pods"
    error: config.toml:2:10: `hosts`: "https://a.example.com" is not a host name
      help: write the name only, without scheme and port: "informant.example.com"
    error: config.toml:2:35: `hosts`: "a:8089" is not a host name
      help: write the name only, without scheme and port: "informant.example.com"
    error: config.toml:2:45: `hosts`: "*" is not a host name
      help: write the name only, without scheme and port: "informant.example.com"
    error: config.toml:2:50: `hosts`: "" is not a host name
      help: write the name only, without scheme and port: "informant.example.com"
    "#);
}

#[test]
fn exposed_admin_address_needs_tls() {
    insta::assert_snapshot!(refusal("[admin]\nlisten = \"0.0.0.0:8089\"\n[informer.a]\nresource = \"v1/pods\"\n"), @"
    error: config.toml:2:10: the admin server at 0.0.0.0:8089 is reachable from other machines, but has no TLS
      help: set `tls` in [admin], so that callers have to authenticate; or listen on loopback, and use `kubectl port-forward`
    ");
    for listen in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        accepted(&format!("[admin]\nlisten = \"{listen}\"\n"));
        accepted(&format!("[admin]\nlisten = \"{listen}\"\ntls = \"self-signed\"\n"));
    }
    let config = accepted("[admin]\nlisten = \"0.0.0.0:8089\"\ntls = \"self-signed\"\n");
    assert_eq!(config.admin.tls.unwrap().value, AdminTls::SelfSigned);
}

#[test]
fn admin_tls_is_self_signed_or_two_files() {
    let refused = |tls: &str| refusal(&format!("[informer.a]\nresource = \"v1/pods\"\n[admin]\ntls = {tls}\n"));
    insta::assert_snapshot!(refused("true"), @r#"
    error: config.toml:4:7: `tls` must be "self-signed" or a table with two files
      help: write tls = "self-signed", or tls = { cert-file = "/tls/tls.crt", key-file = "/tls/tls.key" }
    "#);
    insta::assert_snapshot!(refused("\"letsencrypt\""), @r#"
    error: config.toml:4:7: `tls` must be "self-signed" or a table with two files
      help: write tls = "self-signed", or tls = { cert-file = "/tls/tls.crt", key-file = "/tls/tls.key" }
    "#);
    insta::assert_snapshot!(refused("{ cert-file = \"tls.crt\" }"), @r#"
    error: config.toml:4:1: [admin.tls] lacks `key-file`
      help: write tls = "self-signed", or tls = { cert-file = "/tls/tls.crt", key-file = "/tls/tls.key" }
    "#);
    insta::assert_snapshot!(refused("{ cert-file = \"tls.crt\", key = \"tls.key\" }"), @r#"
    error: config.toml:4:1: [admin.tls] lacks `key-file`
      help: write tls = "self-signed", or tls = { cert-file = "/tls/tls.crt", key-file = "/tls/tls.key" }
    error: config.toml:4:32: unknown key `key` in [admin.tls]
      help: did you mean `key-file`?
    "#);
}

#[test]
fn cluster_that_authenticates_callers_is_known() {
    let own = "[cluster.east]\ncontext = \"e\"\n[cluster.own]\nin-cluster = true\n";
    let others = "[cluster.east]\ncontext = \"e\"\n[cluster.west]\ncontext = \"w\"\n";
    let informer = "[informer.a]\nresource = \"v1/pods\"\n";
    let cluster = |text: String| accepted(&text).admin.cluster;
    let tls = "[admin]\ntls = \"self-signed\"\n";
    assert_eq!(cluster(tls.to_owned()), "");
    assert_eq!(cluster(format!("{tls}{own}")), "own");
    assert_eq!(cluster(format!("{tls}cluster = \"west\"\n{others}")), "west");
    assert_eq!(cluster(format!("[admin]\n{others}")), "");
    insta::assert_snapshot!(refusal(&format!("{tls}{others}{informer}")), @r#"
    error: config.toml:2:7: with several clusters, `tls` needs to know which one authenticates callers
      help: set cluster = "NAME" in [admin], one of east, west
    "#);
    insta::assert_snapshot!(refusal(&format!("{tls}cluster = \"wset\"\n{others}{informer}")), @r#"
    error: config.toml:3:11: `cluster`: no cluster named "wset"
      help: did you mean `west`?
    "#);
    insta::assert_snapshot!(refusal(&format!("{tls}cluster = \"own\"\n{informer}")), @r#"
    error: config.toml:3:11: `cluster`: no cluster named "own"
      help: the configuration has one unnamed cluster: remove the key
    "#);
}

#[test]
fn malformed_values_come_with_an_example() {
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
digest = ["/data", "/metadata/labels/app"]
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
"#
    ), @r#"
    error: config.toml:3:14: `kubeconfig`: ~ is not expanded
      help: write the whole path, or one relative to this file
    error: config.toml:6:10: `listen` = "localhost:8089" is not an address and a port
      help: write "127.0.0.1:8089", "[::1]:8089" or "0.0.0.0:8089"
    error: config.toml:8:11: "Pods" is not a valid NAME for [informer.NAME]
      help: 1 to 63 lowercase letters, digits and '-', with a letter or digit at both ends
    error: config.toml:9:12: `resource`: `v1/pods/status/x` is not a resource name: it has more than three parts; write `v1/pods`, `apps/v1/deployments`, or a name such as `pods`, `Pod` or `deployments.apps`
    error: config.toml:10:15: "Default" is not a valid namespace
      help: 1 to 63 lowercase letters, digits and '-', with a letter or digit at both ends
    error: config.toml:11:9: `drop`: "metadata/annotations" is not a JSON pointer: it does not begin with "/"
      help: write "/metadata/annotations"
    error: config.toml:11:33: `drop`: JSON pointer "/metadata/name" cannot be dropped: it covers metadata.name, which every object must keep
    error: config.toml:12:20: `digest`: JSON pointer "/metadata/labels/app" cannot be a digest: Informant reads metadata.labels
    error: config.toml:13:18: `label-selector`: label selector "app in (a", byte 9: found the end, expected "," or ")"
      help: write it as for `kubectl -l`: "app=web,tier in (a, b),!canary"
    error: config.toml:14:18: `field-selector`: field selector "status.phase", byte 0: "status.phase" has no operator; write field=value or field!=value
      help: write it as for `kubectl --field-selector`: "spec.nodeName=a,status.phase!=Failed"
    error: config.toml:16:11: [informer.none] lacks `resource`
      help: set what to watch: resource = "v1/pods"
    error: config.toml:17:14: `namespaces` is empty
      help: remove it for all namespaces
    error: config.toml:21:12: `required` has an invalid value
      help: possible values: true, false, "always"
    error: config.toml:24:1: "namespace" is not a valid index name
      help: every informer already has an index of that name
    error: config.toml:25:1: "a=b" is not a valid index name
      help: 1 to 63 letters, digits, '-', '_', '.' and '/', beginning with a letter or digit
    error: config.toml:26:8: `node`: "spec.nodeName" is not a JSON pointer: it does not begin with "/"
      help: write "/spec/nodeName"
    "#);
}

#[test]
fn malformed_plugin_values_come_with_an_example() {
    insta::assert_snapshot!(refusal(
        r#"
[plugin.p]
component = ""
sha256 = "abc"
informers = []
namespaces = ["a", "B", "a"]
label-selector = "app in (a"
on-failure = "retyr"
on-reload = "restart"
config = { big = 99999999999999999999, rate = nan }
as = "admin"
timers = { early = { cron = "0 25 * * *" }, both = { every = "1m", zone = "UTC" } }

[plugin.q]
"#
    ), @r#"
    error: config.toml:3:13: `component` is empty
    error: config.toml:4:10: `sha256` must be 64 hexadecimal digits
      help: `informant plugin inspect FILE` prints it
    error: config.toml:6:20: "B" is not a valid namespace
      help: 1 to 63 lowercase letters, digits and '-', with a letter or digit at both ends
    error: config.toml:6:25: `namespaces` names "a" twice
      help: remove one of them
    error: config.toml:7:18: `label-selector`: label selector "app in (a", byte 9: found the end, expected "," or ")"
      help: write it as for `kubectl -l`: "app=web,tier in (a, b),!canary"
    error: config.toml:8:14: `on-failure` cannot be "retyr"
      help: did you mean `retry`?
    error: config.toml:9:13: `on-reload` cannot be "restart"
      help: possible values: `replay`, `continue`
    error: config.toml:10:18: `big`: 99999999999999999999 cannot be written as JSON
      help: plugins receive their config as JSON: write it as a string
    error: config.toml:10:47: `rate`: nan cannot be written as JSON
      help: plugins receive their config as JSON: write it as a string
    error: config.toml:11:6: `as` is no ServiceAccount: write "system:serviceaccount:NAMESPACE:NAME"
    error: config.toml:12:29: [plugin.p.timers.early] has `cron` "0 25 * * *": Component error: Number out of bounds; write five fields (minute, hour, day of the month, month, day of the week)
    error: config.toml:12:75: [plugin.p.timers.both] has a `zone`, which belongs to `cron`: remove it
    error: config.toml:14:9: [plugin.q] lacks `component`
      help: set its file: component = "plugins/NAME.wasm", or script = "NAME.js"
    error: config.toml:14:9: [plugin.q] lacks `informers`
      help: list the informers whose events it receives: informers = ["pods"]; or none, for a plugin that only has timers: informers = []
    "#);
}

#[test]
fn entries_of_no_proxy_must_be_able_to_match() {
    let with = |entries: &str| format!("{PODS}[http]\nproxy = \"http://proxy:3128\"\nno-proxy = [{entries}]\n");
    let good = r#""localhost", ".svc", "a_b.example.com", "10.0.0.0/8", "10.0.0.7", "2001:db8::/32", "::1", "*""#;
    assert_eq!(warnings(&with(good)), "");
    insta::assert_snapshot!(refusal(&with(
        r#""http://a.svc", "a.svc:8080", "*.svc", "10.0.0.0/33", "10.0.0/8", "a.svc, b.svc", "", "a..b""#
    )).replace("\n  help: write a name without scheme, port and path, \".svc\" for all names below it, an address, or a network, \"10.0.0.0/8\"", ""), @r#"
    error: config.toml:5:13: `no-proxy` has "http://a.svc", which is no host, domain or network
    error: config.toml:5:29: `no-proxy` has "a.svc:8080", which is no host, domain or network
    error: config.toml:5:43: `no-proxy` has "*.svc", which is no host, domain or network
    error: config.toml:5:52: `no-proxy` has "10.0.0.0/33", which is no host, domain or network
    error: config.toml:5:67: `no-proxy` has "10.0.0/8", which is no host, domain or network
    error: config.toml:5:79: `no-proxy` has "a.svc, b.svc", which is no host, domain or network
    error: config.toml:5:95: `no-proxy` has "", which is no host, domain or network
    error: config.toml:5:99: `no-proxy` has "a..b", which is no host, domain or network
    "#);
}
