//! The metrics, with their types and labels.

use insta::assert_snapshot;

use super::super::metrics::families_with_types;
use super::super::world::World;
use super::eventful;

#[tokio::test(flavor = "multi_thread")]
async fn metrics_with_types_and_labels() {
    let world = World::start().await;
    let daemon = eventful(&world).await;
    let (_, text) = daemon.get("/metrics").await;
    assert!(text.ends_with("# EOF\n"));
    let lines: Vec<String> = families_with_types(&text)
        .into_iter()
        .map(|(family, labels)| format!("{family} {{{}}}", labels.into_iter().collect::<Vec<_>>().join(",")))
        .collect();
    let described = text.lines().filter(|line| line.starts_with("# TYPE ")).count();
    assert_eq!(described, lines.len(), "a family is described twice");
    let (of_plugins, others): (Vec<String>, Vec<String>) = lines.into_iter().partition(|line| is_of_plugins(line));
    assert_of_plugins(&of_plugins.join("\n"));
    assert_others(&others.join("\n"));
}

fn is_of_plugins(line: &str) -> bool {
    let prefixes = ["dead_letters", "handler_", "listener_", "native_", "plugin_"];
    let name = line.strip_prefix("informant_").unwrap_or_default();
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

fn assert_of_plugins(text: &str) {
    assert_snapshot!(text, @r"
    informant_dead_letters gauge {plugin}
    informant_dead_letters_bytes gauge {plugin}
    informant_dead_letters_evicted counter {plugin}
    informant_handler_events counter {event,informer,plugin,result}
    informant_handler_lag_seconds histogram {le,plugin}
    informant_handler_seconds histogram {le,plugin}
    informant_listener_accepted counter {plugin}
    informant_listener_bodies_dropped counter {plugin}
    informant_listener_bytes gauge {plugin}
    informant_listener_coalesced counter {plugin}
    informant_listener_deletes_cut counter {plugin}
    informant_listener_deletes_discarded counter {plugin}
    informant_listener_discarded counter {plugin}
    informant_listener_failing gauge {plugin}
    informant_listener_handed_over counter {plugin}
    informant_listener_intervals_cut counter {plugin}
    informant_listener_keyed gauge {plugin}
    informant_listener_keys_spaced gauge {plugin}
    informant_listener_late counter {plugin}
    informant_listener_left_to_cursor counter {plugin}
    informant_listener_oldest_pending_seconds gauge {plugin}
    informant_listener_olds_dropped counter {plugin}
    informant_listener_pending gauge {plugin}
    informant_listener_rate_held gauge {plugin}
    informant_listener_rate_holds counter {plugin}
    informant_listener_refused counter {plugin}
    informant_listener_related counter {plugin}
    informant_listener_related_to_all counter {plugin}
    informant_listener_requeues gauge {plugin}
    informant_listener_requeues_dropped counter {plugin}
    informant_listener_requeues_slowed gauge {plugin}
    informant_listener_resync_ticks_skipped counter {plugin}
    informant_listener_retries_limited counter {plugin}
    informant_listener_shown counter {plugin}
    informant_listener_skipped counter {plugin}
    informant_listener_spaced counter {plugin}
    informant_listener_suspect gauge {plugin}
    informant_listener_suspects_forgotten counter {plugin}
    informant_listener_suspects_held counter {plugin}
    informant_listener_unattached counter {plugin}
    informant_listener_unrelated counter {plugin}
    informant_listener_vanished counter {plugin}
    informant_listener_waiting gauge {plugin}
    informant_native_handler_panics counter {cluster,informer}
    informant_plugin_artefacts counter {result}
    informant_plugin_compile_memory_bytes gauge {}
    informant_plugin_compile_seconds histogram {le}
    informant_plugin_compiles_running gauge {}
    informant_plugin_compiles_waiting gauge {}
    informant_plugin_cpu_seconds counter {plugin}
    informant_plugin_http_closed_seconds gauge {}
    informant_plugin_index_objects counter {plugin,result}
    informant_plugin_instances gauge {plugin}
    informant_plugin_last_reload_successful gauge {plugin}
    informant_plugin_loads counter {plugin,result}
    informant_plugin_loads_waiting gauge {}
    informant_plugin_log_dropped_bytes counter {plugin}
    informant_plugin_memory_bytes gauge {plugin}
    informant_plugin_memory_denied counter {plugin}
    informant_plugin_not_ready gauge {plugin}
    informant_plugin_recent_log_bytes gauge {}
    informant_plugin_recent_log_dropped counter {}
    informant_plugin_refused gauge {plugin}
    informant_plugin_reloads counter {plugin,result}
    informant_plugin_restarts counter {plugin,reason}
    informant_plugin_state gauge {plugin,state}
    informant_plugin_state_lost counter {plugin}
    informant_plugin_writes_full counter {plugin}
    informant_plugin_writes_spaced counter {plugin}
    informant_plugin_writes_waiting gauge {plugin}
    informant_plugin_writes_waiting_bytes gauge {plugin}
    ");
}

fn assert_others(text: &str) {
    assert_snapshot!(text, @r"
    informant_acting gauge {}
    informant_admin_answer_bytes gauge {}
    informant_admin_busy counter {limit}
    informant_admin_certificate_loads counter {result}
    informant_admin_rejected counter {reason}
    informant_admin_reviews counter {result,review}
    informant_build info {contract,version}
    informant_cache_bytes gauge {}
    informant_cache_max_bytes gauge {}
    informant_cache_returns counter {cluster,informer}
    informant_cache_used_bytes gauge {}
    informant_config_last_reload_successful gauge {}
    informant_config_pending_sections gauge {}
    informant_config_reloads counter {result}
    informant_delta_fifo_keys gauge {cluster,informer}
    informant_effect_log_bytes gauge {}
    informant_effect_log_dropped counter {}
    informant_effect_log_records gauge {}
    informant_hand_over_waits counter {cluster,informer}
    informant_http_accept_errors counter {server}
    informant_http_connections gauge {server}
    informant_http_connections_closed counter {reason,server}
    informant_index_attached gauge {cluster,index,informer}
    informant_index_errors counter {cluster,index,informer}
    informant_informer_discoveries counter {cluster,informer,result}
    informant_informer_discovering gauge {cluster,informer}
    informant_informer_synced gauge {cluster,informer}
    informant_memory_limit_bytes gauge {}
    informant_other_processes gauge {}
    informant_reflector_channel_bytes gauge {cluster,informer}
    informant_reflector_lists counter {cluster,informer,result}
    informant_reflector_relists counter {cluster,informer,reason}
    informant_reflector_skipped counter {cluster,informer,reason}
    informant_reflector_staged_bytes gauge {cluster,informer}
    informant_reflector_watch_events counter {cluster,informer,type}
    informant_reflector_watch_lists counter {cluster,informer,result}
    informant_reflector_watches counter {cluster,informer,result}
    informant_shared_state_bytes gauge {}
    informant_shared_state_conflicts counter {}
    informant_shared_state_ends_dropped counter {}
    informant_shared_state_errors counter {}
    informant_shared_state_failing gauge {}
    informant_shared_state_letters_dropped counter {}
    informant_shared_state_rewrites counter {}
    informant_shared_state_unwritten_seconds gauge {}
    informant_shared_state_writes counter {}
    informant_shared_state_written_bytes counter {}
    informant_shed counter {cluster,informer}
    informant_shed_namespaces gauge {cluster,informer}
    informant_source_bookmark_age_seconds gauge {cluster,informer}
    informant_source_degraded gauge {cluster,expected,informer,namespace,resource,state}
    informant_source_epochs counter {cluster,informer}
    informant_source_event_age_seconds gauge {cluster,informer}
    informant_source_guard_off gauge {cluster,informer}
    informant_source_outdated_keys gauge {cluster,informer}
    informant_source_state gauge {cluster,informer,state}
    informant_source_watch_list_refused gauge {cluster,informer}
    informant_state_behind counter {cluster,informer}
    informant_state_commit_seconds counter {}
    informant_state_commits counter {}
    informant_state_errors counter {}
    informant_state_failing gauge {}
    informant_state_file_bytes gauge {}
    informant_state_incarnations_dropped counter {cluster,informer,plugin}
    informant_state_open_keys gauge {cluster,informer,plugin}
    informant_state_open_waits counter {}
    informant_state_queued gauge {cluster,informer}
    informant_state_set_aside counter {}
    informant_state_tombstones_dropped counter {cluster,informer,plugin}
    informant_state_unkept counter {cluster,informer}
    informant_state_unreadable counter {}
    informant_state_untold counter {cluster,informer}
    informant_state_void_deletes counter {cluster,informer}
    informant_stop_undelivered counter {cluster,informer}
    informant_store_bytes gauge {cluster,informer}
    informant_store_held_bytes gauge {cluster,informer}
    informant_store_index_bytes gauge {cluster,informer}
    informant_store_objects gauge {cluster,informer}
    informant_store_resource_version gauge {cluster,informer}
    process_cpu_seconds counter {}
    process_max_fds gauge {}
    process_open_fds gauge {}
    process_resident_memory_bytes gauge {}
    process_start_time_seconds gauge {}
    process_virtual_memory_bytes gauge {}
    ");
}
