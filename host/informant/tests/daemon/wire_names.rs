//! The names that users, dashboards and scripts build on: a rename in the code must not change them.
//!
//! Each list is what the product shows from outside. A failing test here means a breaking change: undo the rename, or
//! put it into the CHANGELOG and change the list on purpose.

mod metrics;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;

use informant::Exit;
use informant::config_file;
use informant_apiserver::{ApiServer, Ending, Filter, Injection, Options};
use insta::assert_snapshot;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::program::transcript;
use super::world::{Running, World, http_post, until};

/// What the reader of config.toml answers to a key or a value that it cannot know: the list of those it does.
fn listed_by_config(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    std::fs::write(&file, text).unwrap();
    let problems = config_file::load(&file)
        .expect_err("an unknown word is refused")
        .to_string();
    let lists = problems.lines().filter_map(|line| line.trim().strip_prefix("help: "));
    let lists = lists.filter(|help| help.starts_with("keys of") || help.starts_with("possible values"));
    lists.collect::<Vec<_>>().join("\n")
}

/// A key that is near to no other.
const NO_KEY: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

#[test]
fn configuration_keys() {
    let informer = "[informer.a]\nresource = \"v1/pods\"\n";
    let plugin = "[plugin.a]\ncomponent = \"a.wasm\"\ninformers = [\"a\"]\n";
    let sections = [
        format!("{NO_KEY} = 1"),
        format!("[cluster]\n{NO_KEY} = 1"),
        format!("[admin]\n{NO_KEY} = 1"),
        format!("[admin]\ntls = {{ {NO_KEY} = 1 }}"),
        format!("[ha]\n{NO_KEY} = 1"),
        format!("[health]\n{NO_KEY} = 1"),
        format!("[http]\n{NO_KEY} = 1"),
        format!("[plugins]\n{NO_KEY} = 1"),
        format!("[state]\n{NO_KEY} = 1"),
        format!("{informer}{NO_KEY} = 1"),
        format!("{informer}{plugin}{NO_KEY} = 1"),
        format!("{informer}{plugin}limits = {{ {NO_KEY} = 1 }}"),
        format!("{informer}{plugin}retry = {{ {NO_KEY} = 1 }}"),
        format!("{informer}{plugin}allow = {{ {NO_KEY} = 1 }}"),
        format!("{informer}{plugin}allow.http = [{{ url = \"https://a.b\", {NO_KEY} = 1 }}]"),
        format!("{informer}{plugin}allow.kube = [{{ verbs = [\"get\"], resource = \"v1/pods\", {NO_KEY} = 1 }}]"),
    ];
    let lists: Vec<String> = sections.iter().map(|section| listed_by_config(section)).collect();
    assert_snapshot!(lists.join("\n"), @r"
    keys of the file: admin, cache, cluster, ha, health, http, informer, plugin, plugins, script-runners, state
    keys of [cluster]: context, in-cluster, kubeconfig
    keys of [admin]: cluster, hosts, listen, socket, tls
    keys of [admin.tls]: cert-file, key-file
    keys of [ha]: cluster, group, hash, namespace, shards, speed
    keys of [health]: listen
    keys of [http]: ca-file, no-proxy, proxy
    keys of [plugins]: compile-memory
    keys of [state]: group-ms, path, store
    keys of [informer.a]: clusters, digest, drop, durable, durable-key-file, durable-secrets, exclude, field-selector, index, keep-managed-fields, label-selector, max-bytes, metadata-only, namespaces, relist-notify-unchanged, required, resource, resync, shard-by, watch-list
    keys of [plugin.a]: allow, as, component, config, dry-run, informers, label-selector, limits, max-rate, min-interval, namespaces, on-failure, on-reload, on-restart, on-start, paused, required, resync, retry, run-once, script, sha256, timers, wait-for, wait-for-max
    keys of [plugin.a.limits]: call, cpu, http, http-in-flight, http-request, http-response, http-time, instances, kube-calls, kv, memory, pending, writes, writes-in-flight
    keys of [plugin.a.retry]: attempts, initial, max
    keys of [plugin.a.allow]: events, http, kube
    keys of [plugin.a.allow.http]: header-files, url
    keys of [plugin.a.allow.kube]: exclude, informer, names, namespaces, resource, subresources, verbs
    ");
}

#[test]
fn configuration_values() {
    let informer = |line: &str| format!("[informer.a]\nresource = \"v1/pods\"\n{line}");
    let plugin = |line: &str| {
        format!("[informer.a]\nresource = \"v1/pods\"\n[plugin.a]\ncomponent = \"a.wasm\"\ninformers = [\"a\"]\n{line}")
    };
    let lists: Vec<String> = [
        informer("durable = \"x\""),
        informer("required = \"x\""),
        informer("shard-by = \"x\""),
        informer("[ha]\nhash = \"x\""),
        plugin("on-failure = \"x\""),
        plugin("on-reload = \"x\""),
        plugin("on-restart = \"x\""),
        plugin("on-start = \"x\""),
        plugin("wait-for = \"x\""),
        plugin("allow.kube = [{ verbs = [\"xxxxxxxxxxxx\"], resource = \"v1/pods\" }]"),
    ]
    .iter()
    .map(|text| listed_by_config(text))
    .collect();
    assert_snapshot!(lists.join("\n"), @r#"
    possible values: `metadata`, `whole`
    possible values: true, false, "always"
    possible values: `namespace`, `name`, `none`
    possible values: `mixed`, `raw`
    possible values: `retry`, `skip`, `quarantine`
    possible values: `replay`, `continue`
    possible values: `replay`, `continue`
    possible values: `replay`, `continue`
    possible values: `all`, `own`
    possible values: `get`, `list`, `create`, `update`, `patch`, `delete`
    "#);
}

/// A daemon with at least one of everything that has a name of its own in an answer.
async fn eventful(world: &World) -> Running {
    for name in ["web-0", "fail-0", "trap-0", "loop-0", "again-0", "slow-0"] {
        world.create_pod(name, "nginx");
    }
    for (guest, file) in [
        ("guest-recorder", "recorder.wasm"),
        ("guest-recorder", "looping.wasm"),
        ("guest-index", "index.wasm"),
    ] {
        world.install(guest, file);
    }
    let config = "[state]\npath = \"state.redb\"\n\
        [informer.pods]\nresource = \"v1/pods\"\ndurable = \"metadata\"\nindex = { node = \"/spec/nodeName\" }\n\
        [informer.maps]\nresource = \"v1/configmaps\"\nwatch-list = false\n\
        [informer.hidden]\nresource = \"v1/secrets\"\nrequired = false\n\
        [plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\"]\n\
        config = { rules = [{ name = \"fail-0\", do = \"permanent\" }, \
        { name = \"trap-0\", attempts = 1, do = \"trap\" }, { name = \"again-0\", do = \"retryable\" }, \
        { name = \"slow-0\", do = { requeue-after-ms = 0 } }] }\n\
        [plugin.looping]\ncomponent = \"looping.wasm\"\ninformers = [\"pods\"]\n\
        config = { rules = [{ name = \"loop-0\", do = \"loop\" }] }\nlimits = { cpu = \"60s\", call = \"2m\" }\n\
        [plugin.index]\ncomponent = \"index.wasm\"\ninformers = [\"pods\"]\n\
        [plugin.missing]\ncomponent = \"missing.wasm\"\ninformers = [\"pods\"]\n";
    world.server.faults().forbid(Filter::any().resource("secrets"));
    let daemon = world.daemon(config).await;
    daemon
        .wait_for_metric("informant_source_degraded", &["informer=\"hidden\""], 1.0)
        .await;
    daemon.wait_for_events("recorder", "add", 3.0).await;
    world.install("guest-recorder-v2", "recorder.wasm");
    world.configure(&format!("# once more\n{config}"));
    let faults = world.server.faults();
    faults.inject(&Filter::any().verb("watch").resource("pods"), &Injection::NotJson);
    for metric in [
        "plugin_reloads_total",
        "config_reloads_total",
        "index_errors_total",
        "reflector_skipped_total",
    ] {
        until(metric, async || {
            let value = daemon.metric(&format!("informant_{metric}"), &[]).await;
            if value > 0.0 { Ok(()) } else { Err(value.to_string()) }
        })
        .await;
    }
    faults.drop_watches(&Filter::any().verb("watch").resource("pods"), Ending::Expired);
    until("a relist", async || {
        let value = daemon.metric("informant_reflector_relists_total", &[]).await;
        if value > 0.0 { Ok(()) } else { Err(value.to_string()) }
    })
    .await;
    until("each optional member", async || {
        let (plugins, sources) = (
            daemon.json("/api/v1/plugins").await,
            daemon.json("/api/v1/sources").await,
        );
        let is_set = |items: &Value, member: &str| {
            items["items"]
                .as_array()
                .unwrap()
                .iter()
                .any(|item| !item[member].is_null() && item[member] != Value::Array(vec![]))
        };
        let of_plugins = [
            "lastReload",
            "lastDeadLetter",
            "lastError",
            "stuckOn",
            "because",
            "retries",
            "slowedObjects",
        ];
        let of_sources = ["lastError", "indexFailures"];
        let missing = of_plugins.iter().filter(|name| !is_set(&plugins, name));
        let missing: Vec<_> = missing
            .chain(of_sources.iter().filter(|name| !is_set(&sources, name)))
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(format!("{missing:?} of {plugins} {sources}"))
        }
    })
    .await;
    daemon
}

/// The paths of all members of a document: `items[].name`.
fn members(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                members(value, &path, into);
                into.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| members(item, &format!("{path}[]"), into)),
        _ => {}
    }
}

fn members_of(name: &str, documents: &[Value]) -> String {
    let mut found = BTreeSet::new();
    documents.iter().for_each(|document| members(document, "", &mut found));
    let found: Vec<String> = found.into_iter().collect();
    format!("{name}: {}", found.join(" "))
}

/// Status, headers and body of one GET.
async fn whole_answer(address: SocketAddr, path: &str) -> (BTreeMap<String, String>, String) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let header = |line: &str| {
        line.split_once(": ")
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    (head.lines().skip(1).filter_map(header).collect(), body.to_owned())
}

fn names(headers: &BTreeMap<String, String>) -> String {
    headers.keys().cloned().collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread")]
async fn json_members_and_headers() {
    let world = World::start().await;
    let daemon = eventful(&world).await;
    let mut lists = Vec::new();
    for path in ["sources", "plugins", "configuration", "dead-letters", "retries"] {
        lists.push(members_of(path, &[daemon.json(&format!("/api/v1/{path}")).await]));
    }
    let (headers, body) = whole_answer(daemon.address(), "/api/v1/get/pods?index=app&value=web&envelope=true").await;
    let line: Value = serde_json::from_str(body.lines().next().unwrap()).unwrap();
    let envelope: BTreeSet<&String> = line.as_object().unwrap().keys().collect();
    lists.push(format!("get?envelope: {envelope:?}"));
    lists.push(format!("get, headers: {}", names(&headers)));
    let (headers, _) = whole_answer(daemon.address(), "/metrics").await;
    lists.push(format!("metrics, headers: {}", names(&headers)));
    let (headers, _) = whole_answer(daemon.address(), "/api/v1/get/pods").await;
    let sources = serde_json::from_str(&headers["informant-sources"]).unwrap();
    lists.push(members_of("header informant-sources", &[sources]));
    let (status, body) = daemon.get("/api/v1/get/pods?at-least=999999999&timeout-ms=1").await;
    assert_eq!(status, 504, "{body}");
    lists.push(members_of("error", &[serde_json::from_str(&body).unwrap()]));
    let (_, refusal) = daemon.get("/api/v1/get/pods?xxxxxxxx=1").await;
    let parameters: Vec<&str> = refusal.split('`').skip(3).step_by(2).collect();
    lists.push(format!("get, parameters: {}", parameters.join(" ")));
    let key = r#"{"key":"default/web-0"}"#;
    let (status, captured) = http_post(daemon.address(), "/api/v1/plugins/recorder/capture", key).await;
    assert_eq!(status, 200, "{captured}");
    let mut captured: Value = serde_json::from_str(&captured).unwrap();
    let scenario = captured["scenario"].take();
    let of_scenario: BTreeSet<&String> = scenario.as_object().unwrap().keys().collect();
    lists.push(format!("{}: {of_scenario:?}", members_of("capture", &[captured])));
    let address = daemon.address().to_string();
    let status = transcript(&world, &["status", "-o", "json", "--admin", &address]).await;
    let status: Value =
        serde_json::from_str(status.split_once('\n').unwrap().1.rsplit_once("\n--").unwrap().0).unwrap();
    let top: BTreeSet<&String> = status.as_object().unwrap().keys().collect();
    lists.push(format!("status -o json: {top:?}"));
    let component = super::world::component("image-mark").display().to_string();
    let inspection = transcript(&world, &["plugin", "inspect", &component, "-o", "json"]).await;
    let inspection: Value =
        serde_json::from_str(inspection.split_once('\n').unwrap().1.rsplit_once("\n--").unwrap().0).unwrap();
    lists.push(members_of("inspect -o json", &[inspection]));
    assert_snapshot!(lists.join("\n"), @r#"
    sources: items items[].apiVersion items[].bookmarkAgeMs items[].bytes items[].cluster items[].code items[].epoch items[].heads items[].id items[].indexFailures items[].indexFailures[].failed items[].indexFailures[].failed[].key items[].indexFailures[].failed[].message items[].indexFailures[].failures items[].indexFailures[].index items[].indexes items[].informer items[].kind items[].largestNamespaces items[].largestNamespaces[].bytes items[].largestNamespaces[].namespace items[].lastError items[].lastError.ageMs items[].lastError.message items[].lastEventAgeMs items[].namespace items[].objects items[].reconfiguring items[].relists items[].resource items[].resourceVersion items[].shedNamespaces items[].state items[].synced items[].trouble items[].watchList items[].watchListRefused items[].watches
    plugins: items items[].because items[].closedHosts items[].coalesced items[].code items[].compiling items[].component items[].cpuMs items[].deadLetters items[].delivered items[].dryRun items[].effects items[].failing items[].inFlight items[].informers items[].instances items[].keyed items[].kubeReceivedBytes items[].kubeRequests items[].kubeSentBytes items[].kv items[].lastDeadLetter items[].lastDeadLetter.ageMs items[].lastDeadLetter.cluster items[].lastDeadLetter.error items[].lastDeadLetter.event items[].lastDeadLetter.object items[].lastDeadLetter.resource items[].lastError items[].lastError.ageMs items[].lastError.message items[].lastReload items[].lastReload.ageMs items[].lastReload.error items[].lastReload.result items[].manifestName items[].manifestVersion items[].memoryBytes items[].name items[].oldestPendingMs items[].paused items[].pending items[].previousSha256 items[].problems items[].rateHeld items[].reloadHistory items[].reloadHistory[].error items[].reloadHistory[].result items[].reloadHistory[].sha256 items[].reloadHistory[].time items[].reloadHistory[].version items[].reloads items[].requeues items[].restarts items[].retries items[].retries[].ageMs items[].retries[].attempts items[].retries[].cluster items[].retries[].error items[].retries[].event items[].retries[].nextMs items[].retries[].object items[].retries[].resource items[].roles items[].runner items[].sha256 items[].slowed items[].slowedObjects items[].slowedObjects[].cluster items[].slowedObjects[].nextMs items[].slowedObjects[].object items[].slowedObjects[].requeues items[].slowedObjects[].resource items[].spaced items[].state items[].stuckOn items[].stuckOn.cluster items[].stuckOn.event items[].stuckOn.forMs items[].stuckOn.object items[].stuckOn.resource items[].stuckOn.source items[].suspect items[].suspectNamespaces items[].suspects items[].timers items[].waiting items[].writesPausedMs items[].writesSpaced items[].writesSpacedKeys items[].writesWaiting items[].writesWaitingEvents
    configuration: ageMs announcement announcement.code announcement.lease announcement.other announcement.reason announcement.state certificate code lastResult logLevel path refused state stateDatabase unreadable waiting waiting[].reason waiting[].section
    dead-letters: items items[].ageMs items[].attempts items[].cluster items[].error items[].event items[].informer items[].name items[].namespace items[].plugin items[].reason items[].resource items[].result items[].source
    retries: items items[].ageMs items[].attempts items[].cluster items[].error items[].event items[].informer items[].name items[].namespace items[].nextMs items[].plugin items[].reason items[].resource items[].result items[].source total
    get?envelope: {"cluster", "object", "source"}
    get, headers: content-type date etag informant-fresh-as-of informant-index-failures informant-sources informant-state
    metrics, headers: content-length content-type date vary
    header informant-sources: [].ageMs [].cluster [].id [].namespace [].resource [].state [].version
    error: code freshAsOf freshAsOf.epoch freshAsOf.resourceVersion freshAsOf.source freshAsOf.state message
    get, parameters: namespace name index value selector cluster envelope show-secrets require-all at-least epoch timeout-ms
    capture: contract digest inexact redacted scenario: {"config", "name", "objects", "steps", "time"}
    status -o json: {"configuration", "plugins", "sources"}
    inspect -o json: component contract events events[].apiVersion events[].changedOnly events[].kind events[].labelSelector events[].namespaces events[].old events[].payload events[].payload.fields imports indexes manifest manifest.events manifest.events[].apiVersion manifest.events[].changedOnly manifest.events[].kind manifest.events[].payload manifest.events[].payload.fields manifest.name manifest.needs manifest.needs[].kube manifest.needs[].kube.resource manifest.needs[].kube.verbs manifest.version metrics name needs needs[].kube needs[].kube.resource needs[].kube.verbs parallel roles runner sdk sdk.contract sdk.language sdk.sdk sha256 sizeBytes timers unknownFunctions version
    "#);
}

/// The headers of an answer that lacks a source, and fields of its objects.
#[tokio::test(flavor = "multi_thread")]
async fn headers_of_an_incomplete_answer() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    let closed = Filter::any().resource("pods").namespace("closed");
    world.server.faults().forbid(closed);
    let daemon = world
        .daemon("[informer.pods]\nresource = \"v1/pods\"\nnamespaces = [\"default\", \"closed\"]\ndrop = [\"/spec\"]\n")
        .await;
    let headers = until("a forbidden source and a synced one", async || {
        let (headers, body) = whole_answer(daemon.address(), "/api/v1/get/pods").await;
        let missing = headers.get("informant-missing-sources");
        match missing.is_some_and(|missing| missing.contains("Forbidden")) {
            true => Ok(headers),
            false => Err(format!("{headers:?} {body}")),
        }
    })
    .await;
    let missing: Value = serde_json::from_str(&headers["informant-missing-sources"]).unwrap();
    let lists = [
        names(&headers),
        members_of("header informant-missing-sources", &[missing]),
        format!("header informant-absent-fields: {}", headers["informant-absent-fields"]),
    ];
    assert_snapshot!(lists.join("\n"), @r#"
    content-type date etag informant-absent-fields informant-fresh-as-of informant-missing-sources informant-sources informant-state
    header informant-missing-sources: [].cluster [].namespace [].reason [].resource [].state
    header informant-absent-fields: {"metadataOnly":false,"drop":["/spec"]}
    "#);
}

#[test]
fn exit_codes() {
    let codes = [
        Exit::Done,
        Exit::Failed,
        Exit::Usage,
        Exit::Config,
        Exit::NotReady,
        Exit::NotSynced,
        Exit::Hung,
        Exit::Partial,
    ];
    assert_eq!(codes.map(Exit::code), [0, 1, 2, 3, 4, 5, 6, 7]);
}

/// All words in capitals between quotes in the sources of the host: environment variables, apart from those left out.
#[test]
fn environment_variables() {
    let mut found = BTreeSet::new();
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for folder in ["informant", "informer", "plugin", "state"] {
        variables_below(&host.join(folder).join("src"), &mut found);
    }
    let found: Vec<String> = found.into_iter().collect();
    assert_snapshot!(found.join(" "), @"CARGO_PKG_VERSION CGO_ENABLED HOME HOSTNAME HTTPS_PROXY INFORMANT_CACHE_DIR INFORMANT_LOG INFORMANT_SCRIPT_RUNNER INFORMANT_WASMTIME_VERSION KUBECONFIG KUBERNETES_EXEC_INFO NO_COLOR OUT_DIR POD_IP RAYON_NUM_THREADS VIRTUAL_ENV XDG_CACHE_HOME XDG_STATE_HOME");
}

fn variables_below(folder: &Path, into: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            variables_below(&path, into);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            let is_variable = |word: &&str| {
                let capitals = word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
                let capitals = capitals && word.contains(|letter: char| letter.is_ascii_uppercase());
                capitals && (word.contains('_') || ["HOME", "HOSTNAME", "KUBECONFIG"].contains(word))
            };
            into.extend(code.split('"').skip(1).filter(is_variable).map(str::to_owned));
        }
    }
}

/// The state file's format and tables, the suffixes of cached artifacts, and the lines of the API server's snapshot.
#[tokio::test(flavor = "multi_thread")]
async fn file_formats() {
    let world = World::start().await;
    let daemon = eventful(&world).await;
    daemon.stop().await;
    let database = redb::ReadOnlyDatabase::open(world.path("state.redb")).unwrap();
    let transaction = redb::ReadableDatabase::begin_read(&database).unwrap();
    let mut tables: Vec<String> = transaction
        .list_tables()
        .unwrap()
        .map(|table| redb::TableHandle::name(&table).to_owned())
        .collect();
    tables.sort();
    let meta = transaction
        .open_table(redb::TableDefinition::<&str, &[u8]>::new("meta"))
        .unwrap();
    let format = meta.get("format").unwrap().unwrap();
    let format = String::from_utf8(format.value().to_vec()).unwrap();
    let mut suffixes = BTreeSet::new();
    for entry in std::fs::read_dir(super::world::artifacts()).unwrap() {
        let path = entry.unwrap().path();
        // The folder is shared: other tests may have loaded scripts, which are kept as they are.
        let suffix = path.extension().filter(|suffix| *suffix != "js" && *suffix != "lua");
        suffixes.extend(suffix.map(|suffix| suffix.to_string_lossy().into_owned()));
    }
    let server = ApiServer::new(Options::default());
    let mut snapshot = Vec::new();
    server.snapshot().write(&mut snapshot).unwrap();
    let snapshot = String::from_utf8(snapshot).unwrap();
    let lines: Vec<Value> = snapshot
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let snapshot = [&lines[0], &lines[1], lines.last().unwrap()]
        .map(|line| line.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" "));
    assert_snapshot!(format!("{format:?}: {}\ncache: {suffixes:?}\nsnapshot: {}", tables.join(" "), snapshot.join(" / ")), @r#"
    "informant-state 2": dead_letters ended handlers meta objects open plugin_keys requeues shared_rows sources
    cache: {"cwasm", "sha256", "wasm"}
    snapshot: objects random revision snapshot / group object plural version / end
    "#);
}
