//! The metrics in docs/reference/metrics.md match those of the daemon.

use std::collections::{BTreeMap, BTreeSet};

use informant_apiserver::{Ending, Filter, Injection};
use serde_json::json;

use super::world::{Running, World, pod, until};

/// Family to label names.
type Families = BTreeMap<String, BTreeSet<String>>;

/// The families of a scrape with their types: `informant_store_objects gauge`.
pub(super) fn families_with_types(text: &str) -> Families {
    let mut families = Families::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            family.clone_into(&mut current);
            families.entry(current.clone()).or_default();
        } else if !line.starts_with('#')
            && let Some((_, labels)) = line.split_once('{')
        {
            let (labels, _) = labels.rsplit_once('}').unwrap();
            let names = labels.split("\",").filter_map(|label| label.split_once("=\""));
            let names = names.map(|(name, _)| name.to_owned());
            families.entry(current.clone()).or_default().extend(names);
        }
    }
    families
}

/// The families of a scrape, with the suffixes that OpenMetrics adds and without the prefix.
fn scraped(text: &str) -> Families {
    let families = families_with_types(text).into_iter().map(|(family, mut labels)| {
        let (name, kind) = family.split_once(' ').unwrap();
        let name = name.strip_prefix("informant_").unwrap_or(name);
        let suffix = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        labels.remove("le");
        (format!("{name}{suffix}"), labels)
    });
    families.collect()
}

/// The families in the table of docs/reference/metrics.md, without `informant_`: `a{x}`, `b{y}`, or `a`, `b` `{x}` for
/// all in the row.
fn documented(page: &str) -> Families {
    let section = page
        .split("\n## Metrics\n")
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap();
    let mut families = Families::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let cell = row.split('|').nth(1).unwrap();
        let words: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        let of_all = words.iter().find_map(|word| word.strip_prefix('{')).unwrap_or_default();
        for word in words.iter().filter(|word| !word.starts_with('{')) {
            let (name, labels) = word.split_once('{').unwrap_or((word, of_all));
            let labels = labels
                .trim_end_matches('}')
                .split(',')
                .filter(|label| !label.is_empty());
            let name = name.strip_prefix("informant_").unwrap_or(name).to_owned();
            families.insert(name, labels.map(str::to_owned).collect());
        }
    }
    families
}

/// Whether a family has no series here, so that its labels are unknown: some exist only after an error.
fn without_series(family: &BTreeSet<String>) -> bool {
    family.is_empty()
}

/// Present once a plugin has called the Kubernetes API, deferred a write, sent an HTTP request, used `kv`, metrics of
/// its own, timers, Kubernetes Events or a dry run, another replica acts, left children, a cluster was silent for long,
/// an informer has a budget of its own, or the admin port has TLS, which does not happen here.
const NOT_HERE: [&str; 55] = [
    "admin_certificate_expiry_timestamp_seconds",
    "admin_certificate_last_load_successful",
    "body_reads_total",
    "informer_cache_max_bytes",
    "lease_failing",
    "plugin_dry_run",
    "plugin_effects_dropped_total",
    "plugin_effects_refused_total",
    "plugin_effects_total",
    "plugin_effects_withheld_total",
    "plugin_http_limited_total",
    "plugin_http_requests_total",
    "plugin_http_seconds",
    "plugin_kube_bytes_total",
    "plugin_kube_calls_total",
    "plugin_kube_seconds",
    "plugin_kv_bytes",
    "plugin_kv_calls_total",
    "plugin_kv_held_bytes",
    "plugin_kubernetes_events_total",
    "plugin_kv_keys",
    "plugin_metric_dropped_total",
    "plugin_metric_series",
    "plugin_prunes_skipped_total",
    "plugin_timer_last_success_timestamp_seconds",
    "plugin_timer_missed_total",
    "plugin_writes_total",
    "reflector_probes_total",
    "kept_deletes",
    "kept_deletes_bytes",
    "kept_deletes_cut_total",
    "kept_deletes_dropped_total",
    "lease_members_ignored_total",
    "lease_transitions",
    "lease_watermarks_left_out",
    "replicas",
    "replicas_other_configuration",
    "replicas_other_shards",
    "shard_objects",
    "shards",
    "shards_changing",
    "shards_held",
    "shards_without_holder",
    "shared_state_bytes",
    "shared_state_conflicts_total",
    "shared_state_ends_dropped_total",
    "shared_state_errors_total",
    "shared_state_failing",
    "shared_state_letters_dropped_total",
    "shared_state_rewrites_total",
    // No process reads only some shards.
    "reflector_other_shard_objects_total",
    "source_list_waits_total",
    "shared_state_unwritten_seconds",
    "shared_state_writes_total",
    "shared_state_written_bytes_total",
];

/// A daemon in which everything that is counted has happened.
async fn eventful(world: &World) -> Running {
    for name in ["web-0", "trap-0", "fail-0"] {
        world.create_pod(name, "nginx");
    }
    world.install("guest-recorder", "recorder.wasm");
    world.install("guest-index", "index.wasm");
    let config = "[state]\npath = \"state.redb\"\n\
        [informer.pods]\nresource = \"v1/pods\"\ndurable = \"metadata\"\n\
        [informer.maps]\nresource = \"v1/configmaps\"\nwatch-list = false\n\
        [plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\"]\n\
        config = { rules = [{ name = \"trap-0\", attempts = 1, do = \"trap\" }] }\n\
        [plugin.index]\ncomponent = \"index.wasm\"\ninformers = [\"pods\"]\n";
    let daemon = world.daemon(config).await;
    daemon.wait_for_events("recorder", "add", 3.0).await;
    world.install("guest-recorder-v2", "recorder.wasm");
    world.configure(&format!("# once more\n{config}"));
    let pods = || Filter::any().verb("watch").resource("pods");
    let old = pod("web-0", "older");
    let mut old = json!({ "type": "MODIFIED", "object": old });
    old["object"]["metadata"]["resourceVersion"] = json!("1");
    world.server.faults().inject(&pods(), &Injection::NotJson);
    world.server.faults().inject(&pods(), &Injection::Raw(old.to_string()));
    for name in [
        "reflector_skipped_total",
        "reflector_rejected_total",
        "plugin_reloads_total",
        "config_reloads_total",
        "index_errors_total",
    ] {
        until(name, async || {
            let value = daemon.metric(&format!("informant_{name}"), &[]).await;
            if value > 0.0 { Ok(()) } else { Err(value.to_string()) }
        })
        .await;
    }
    world.server.faults().drop_watches(&pods(), Ending::Expired);
    until("a relist", async || {
        let value = daemon.metric("informant_reflector_relists_total", &[]).await;
        if value > 0.0 { Ok(()) } else { Err(value.to_string()) }
    })
    .await;
    daemon
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_metrics_match_the_scraped_ones() {
    let world = World::start().await;
    let daemon = eventful(&world).await;
    let (_, text) = daemon.get("/metrics").await;
    let page = include_str!("../../../../docs/reference/metrics.md");
    let (scraped, mut documented) = (scraped(&text), documented(page));
    documented.retain(|name, _| scraped.contains_key(name) || !NOT_HERE.contains(&name.as_str()));
    let missing = |a: &Families, b: &Families| -> Vec<String> {
        a.keys().filter(|name| !b.contains_key(*name)).cloned().collect()
    };
    assert_eq!(
        missing(&scraped, &documented),
        [""; 0],
        "shown, and not in docs/reference/metrics.md"
    );
    assert_eq!(
        missing(&documented, &scraped),
        [""; 0],
        "in docs/reference/metrics.md, and not shown"
    );
    for (name, labels) in &scraped {
        let mut labels = labels.clone();
        // The page says once that series of informers have it.
        if !documented[name].contains("cluster") {
            labels.remove("cluster");
        }
        let listed = documented.remove(name).unwrap();
        assert!(
            without_series(&labels) || labels == listed,
            "{name}: {labels:?} shown, {listed:?} in docs/reference/metrics.md"
        );
    }
}

/// Names and labels that dashboards and alerts depend on.
#[test]
fn stable_metrics_are_documented() {
    let documented = documented(include_str!("../../../../docs/reference/metrics.md"));
    for settled in [
        "reflector_lists_total{informer,result}",
        "reflector_watch_events_total{informer,type}",
        "reflector_relists_total{informer,reason}",
        "informer_synced{informer}",
        "source_state{informer,state}",
        "source_event_age_seconds{informer}",
        "source_bookmark_age_seconds{informer}",
        "store_objects{informer}",
        "store_bytes{informer}",
        "store_resource_version{informer}",
        "delta_fifo_keys{informer}",
        "handler_events_total{plugin,informer,event,result}",
        "handler_seconds{plugin}",
        "handler_lag_seconds{plugin}",
        "listener_pending{plugin}",
        "listener_coalesced_total{plugin}",
        "dead_letters{plugin}",
        "plugin_instances{plugin}",
        "plugin_restarts_total{plugin,reason}",
        "plugin_reloads_total{plugin,result}",
        "plugin_memory_bytes{plugin}",
        "plugin_memory_denied_total{plugin}",
        "plugin_state{plugin,state}",
        "index_errors_total{informer,index}",
        "index_attached{informer,index}",
        "config_reloads_total{result}",
    ] {
        let (name, labels) = settled.trim_end_matches('}').split_once('{').unwrap();
        let labels: BTreeSet<String> = labels.split(',').map(str::to_owned).collect();
        assert_eq!(documented.get(name), Some(&labels), "{name}");
    }
}

/// How often an informer and two plugins are added and removed: two reloads each.
const ROUNDS: usize = 25;

#[tokio::test(flavor = "multi_thread")]
async fn series_of_removed_informers_and_plugins_are_removed() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    world.install("guest-index", "index.wasm");
    let pods = "[informer.pods]\nresource = \"v1/pods\"\n";
    let daemon = world.daemon(pods).await;
    daemon.wait_until_ready().await;
    let series = async || {
        let (_, text) = daemon.get("/metrics").await;
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    // Reloads are counted by result, whatever they add or remove.
    let lasting = |line: &&String| {
        !line.starts_with("informant_config_reloads") && !line.starts_with("informant_plugin_artefacts")
    };
    let count = |all: &[String]| all.iter().filter(lasting).count();
    let before = count(&series().await);
    for round in 0..ROUNDS {
        let more = format!(
            "{pods}[informer.more-{round}]\nresource = \"v1/pods\"\nindex = {{ node = \"/spec/nodeName\" }}\n\
             [plugin.recorder-{round}]\ncomponent = \"recorder.wasm\"\ninformers = [\"more-{round}\"]\n\
             [plugin.index-{round}]\ncomponent = \"index.wasm\"\ninformers = [\"pods\"]\n"
        );
        world.configure(&more);
        daemon.wait_for_events(&format!("recorder-{round}"), "sync", 1.0).await;
        world.configure(pods);
        until("the series to be gone", async || {
            let all = series().await;
            if count(&all) <= before {
                return Ok(());
            }
            let names = [
                format!("more-{round}\""),
                format!("recorder-{round}\""),
                format!("index-{round}\""),
            ];
            let of_round = all
                .into_iter()
                .filter(|line| names.iter().any(|name| line.contains(name)));
            Err(of_round.collect::<Vec<_>>().join("\n"))
        })
        .await;
    }
    daemon.stop().await;
}
