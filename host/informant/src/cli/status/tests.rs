//! The output for a healthy daemon and for one with every problem.

use crate::admin::plugins::{ClosedHostView, DeadLetterView, ReloadView, RetryView, StuckView, WritingKeyView};
use crate::admin::sources::AgedText;
use crate::admin::{LoadedView, PendingSection};

use super::*;

fn shown(status: &Status) -> String {
    let mut out = Vec::new();
    status.show(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn configuration() -> ConfigurationView {
    ConfigurationView {
        path: "config.toml".into(),
        state: "applied".into(),
        age_ms: 200_000,
        last_result: Some("ok".into()),
        unreadable: None,
        refused: None,
        waiting: Vec::new(),
        log_level: "info".to_owned(),
        certificate: None,
        code: None,
        state_database: None,
        announcement: None,
    }
}

fn pods() -> SourceView {
    SourceView {
        id: Some(1),
        informer: "pods".into(),
        resource: "v1/pods".into(),
        state: "Live".into(),
        synced: true,
        objects: 20_000,
        resource_version: Some("77123".into()),
        last_event_age_ms: Some(120),
        bookmark_age_ms: Some(31_000),
        ..SourceView::default()
    }
}

#[test]
fn status_names_the_largest_namespaces_of_a_large_cache() {
    let named = |largest: &[(&str, usize)]| {
        let view = |(namespace, mebibytes): &(&str, usize)| NamespaceView {
            namespace: (*namespace).to_owned(),
            bytes: mebibytes << 20,
        };
        largest.iter().map(view).collect::<Vec<_>>()
    };
    let source = |informer: &str, mebibytes: usize, largest| SourceView {
        informer: informer.into(),
        bytes: mebibytes << 20,
        largest_namespaces: named(largest),
        ..pods()
    };
    let lines = |sources: &[SourceView]| {
        let mut out = Vec::new();
        show_largest(&mut out, sources).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(lines(&[source("pods", 31, &[("web", 31)])]), "");
    let sources = [
        source("pods", 14, &[("web", 12), ("shop", 2), ("empty", 0)]),
        source("nodes", 3, &[("", 3)]),
        source("maps", 620, &[("attack", 618), ("web", 1)]),
    ];
    insta::assert_snapshot!(lines(&sources), @r"
    The objects take 637 MiB. The largest namespaces:
      618 MiB: maps, namespace attack
      12 MiB: pods, namespace web
      3 MiB: nodes
    ");
}

fn loaded() -> LoadedView {
    LoadedView {
        manifest_name: "greeter".into(),
        manifest_version: "0.1.0".into(),
        roles: "event-handler".into(),
        sha256: "00".repeat(32),
        previous_sha256: None,
        runner: None,
        memory_bytes: 1 << 20,
        cpu_ms: 12,
        kube_requests: 3,
        kube_sent_bytes: 300,
        kube_received_bytes: 5_000,
        effects: 2,
        instances: 1,
        restarts: 0,
        reloads: 0,
        compiling: None,
        last_reload: None,
        reload_history: Vec::new(),
        pending: 0,
        oldest_pending_ms: None,
        in_flight: 0,
        failing: 0,
        retries: Vec::new(),
        spaced: 0,
        waiting: 0,
        suspect: 0,
        suspects: 0,
        suspect_namespaces: Vec::new(),
        rate_held: false,
        requeues: 0,
        slowed: 0,
        slowed_objects: Vec::new(),
        writes_waiting: 0,
        writes_waiting_events: 0,
        writes_spaced: 0,
        writes_spaced_keys: Vec::new(),
        writes_paused_ms: None,
        kv: None,
        closed_hosts: Vec::new(),
        timers: Vec::new(),
        paused: false,
        dry_run: false,
        keyed: false,
        dead_letters: 0,
        last_dead_letter: None,
        delivered: 20_000,
        coalesced: 0,
        last_error: None,
        stuck_on: None,
    }
}

/// Behind, failing, and not reloaded.
fn failing() -> LoadedView {
    LoadedView {
        pending: 312,
        oldest_pending_ms: Some(4_250),
        failing: 5,
        retries: vec![
            RetryView {
                object: Some("default/web-2".into()),
                timer: None,
                cluster: "east".into(),
                resource: "v1/pods".into(),
                event: "update".into(),
                attempts: 7,
                error: "cannot connect\nat line 3".into(),
                age_ms: 122_000,
                next_ms: 31_500,
            },
            RetryView {
                event: "sync".into(),
                attempts: 1,
                error: "not yet".into(),
                ..RetryView::default()
            },
        ],
        dead_letters: 3,
        last_dead_letter: Some(DeadLetterView {
            object: "default/web-1".into(),
            cluster: String::new(),
            resource: "v1/pods".into(),
            event: "add".into(),
            error: "no such team".into(),
            age_ms: 12_000,
        }),
        restarts: 7,
        compiling: None,
        last_reload: Some(ReloadView {
            result: "refused".into(),
            error: Some("plugin \"greeter\": greeter.wasm: not WebAssembly".into()),
            age_ms: 61_000,
        }),
        stuck_on: Some(StuckView {
            source: 1,
            object: Some("default/web-0".into()),
            cluster: String::new(),
            resource: "v1/pods".into(),
            event: "update".into(),
            for_ms: 3_900,
        }),
        ..loaded()
    }
}

fn greeter(loaded: LoadedView) -> PluginView {
    PluginView {
        name: "greeter".into(),
        component: "greeter.wasm".into(),
        informers: vec!["pods".into()],
        state: "running".into(),
        loaded: Some(loaded),
        ..PluginView::default()
    }
}

#[test]
fn healthy_daemon() {
    let status = Status {
        configuration: configuration(),
        sources: vec![pods()],
        plugins: vec![greeter(loaded())],
    };
    insta::assert_snapshot!(shown(&status), @"
    Configuration config.toml: applied 3m20s ago

    PLUGIN    STATE     INSTANCES   PENDING   OLDEST   DEAD   RESTARTS   RELOAD   INFORMERS
    greeter   running   1           0         -        0      0          -        pods

    INFORMER   RESOURCE   NAMESPACE   STATE   OBJECTS   VERSION   SEEN     BOOKMARK
    pods       v1/pods    *           Live    20000     77123     0s ago   31s ago
    ");
}

#[test]
fn index_failures_show_count_and_example() {
    let lacking = |index: &str, failures: usize, message: &str| IndexFailuresView {
        index: index.into(),
        failures,
        failed: vec![FailedView {
            key: "default/web".into(),
            message: message.into(),
        }],
    };
    let pods = SourceView {
        index_failures: vec![
            lacking("x", 1, "Error: boo\n    at index"),
            lacking("y", 300, "no image"),
        ],
        ..pods()
    };
    let status = Status {
        configuration: configuration(),
        sources: vec![pods],
        plugins: Vec::new(),
    };
    insta::assert_snapshot!(shown(&status), @"
    Configuration config.toml: applied 3m20s ago

    INFORMER   RESOURCE   NAMESPACE   STATE   OBJECTS   VERSION   SEEN     BOOKMARK
    pods       v1/pods    *           Live    20000     77123     0s ago   31s ago
    index x of pods is missing 1 object: default/web: Error: boo (informant explain index-not-ready)
    index y of pods is missing 300 objects: for example default/web: no image (informant explain index-not-ready)
    ");
}

#[test]
fn status_names_another_process_or_why_none_is_noticed() {
    let lines = |state: &str, reason: Option<&str>, other: Option<&str>| {
        let view = AnnouncementView {
            state: state.to_owned(),
            reason: reason.map(str::to_owned),
            lease: Some("informant/informant".into()),
            other: other.map(str::to_owned),
            code: other.map(|_| "two-processes".into()),
        };
        let mut out = Vec::new();
        show_announcement(&mut out, &view).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(lines("announced", None, None), "");
    assert_eq!(lines("off", Some("it does not run in a pod"), None), "");
    insta::assert_snapshot!(
        lines("announced", None, Some("informant-1_0f")),
        @"Two processes act on this configuration: this one and informant-1_0f (informant explain two-processes)"
    );
    insta::assert_snapshot!(
        lines("failing", Some("Lease informant/informant: forbidden"), None),
        @"This process cannot announce itself, so a second one would not be noticed: Lease informant/informant: forbidden"
    );
}

#[test]
fn daemon_with_every_problem() {
    let mut configuration = configuration();
    configuration.refused = Some(
        "error: config.toml:3:1: unknown key `resuorce` in [informer.pods]\n  help: did you mean `resource`?".into(),
    );
    configuration.code = Some("config-not-applied".into());
    configuration.state_database = Some(ProblemView {
        message: "cannot write state.redb: no space left on device".into(),
        code: "state-failing".into(),
    });
    configuration.certificate = Some(CertificateView {
        expires: Some("2100-01-01T00:00:00Z".into()),
        problem: Some("cannot read /tls/tls.crt: No such file or directory".into()),
        code: Some("admin-certificate".into()),
    });
    configuration.waiting.push(PendingSection {
        section: "plugin.late".into(),
        reason: "plugin \"late\": late.wasm: cannot be read: No such file or directory".into(),
    });
    let nodes = SourceView {
        informer: "nodes".into(),
        resource: "v1/nodes".into(),
        namespace: Some("default".into()),
        state: "Forbidden".into(),
        trouble: Some("nodes is forbidden".into()),
        code: Some("watch-not-live".into()),
        ..SourceView::default()
    };
    let healed = SourceView {
        last_error: Some(AgedText {
            message: "the watch was cut off".into(),
            age_ms: 420_000,
        }),
        ..pods()
    };
    let late = PluginView {
        name: "late".into(),
        informers: vec!["pods".into(), "nodes".into()],
        state: "refused".into(),
        because: Some("late.wasm: cannot be read".into()),
        code: Some("plugin-refused".into()),
        ..PluginView::default()
    };
    let status = Status {
        configuration,
        sources: vec![nodes, healed],
        plugins: vec![greeter(failing()), late],
    };
    insta::assert_snapshot!(shown(&status), @r#"
    Configuration config.toml: refused 3m20s ago; the previous one stays active (informant explain config-not-applied)
      error: config.toml:3:1: unknown key `resuorce` in [informer.pods]
        help: did you mean `resource`?
      [plugin.late] pending: plugin "late": late.wasm: cannot be read: No such file or directory
    The certificate of the admin port has a problem: cannot read /tls/tls.crt: No such file or directory; in use: expires 2100-01-01T00:00:00Z (informant explain admin-certificate)
    The state database is failing: cannot write state.redb: no space left on device (informant explain state-failing)

    PLUGIN    STATE     INSTANCES   PENDING   OLDEST   DEAD   RESTARTS   RELOAD            INFORMERS
    greeter   running   1           312       4.2s     3      7          refused 61s ago   pods
    late      refused   -           -         -        -      -          -                 pods,nodes
    greeter is stuck on update of v1/pods default/web-0 for 3.9s (informant explain events-stuck)
    greeter failed on 5 objects and is retrying (`informant plugin retries greeter` lists all) (informant explain events-stuck)
      update of v1/pods default/web-2 in cluster east: 7 attempts in 2m2s, next in 31s: cannot connect
      sync of all objects: 1 attempt in 0ms, next when it is its turn: not yet
    greeter dead-lettered add of v1/pods default/web-1: no such team, 12s ago (`informant plugin requeue greeter --all` redelivers all 3, `informant plugin dead-letters greeter` lists them) (informant explain dead-letters)
    greeter was not reloaded: plugin "greeter": greeter.wasm: not WebAssembly (informant explain plugin-not-reloaded)
    late is refused: late.wasm: cannot be read (informant explain plugin-refused)

    INFORMER   RESOURCE   NAMESPACE   STATE       OBJECTS   VERSION   SEEN     BOOKMARK
    nodes      v1/nodes   default     Forbidden   0         -         -        -
    pods       v1/pods    *           Live        20000     77123     0s ago   31s ago
    nodes is Forbidden: nodes is forbidden (informant explain watch-not-live)
    pods failed 7m ago: the watch was cut off
    "#);
}

/// Nothing is retried before somebody resumes it.
#[test]
fn paused_and_quarantined_plugins_are_not_called_retrying() {
    let plugin = |state: &str, because: &str, failing: usize, paused: bool| PluginView {
        name: state.into(),
        state: state.into(),
        because: Some(because.into()),
        code: (state == "quarantined").then(|| "plugin-quarantined".into()),
        loaded: Some(LoadedView {
            failing,
            paused,
            ..loaded()
        }),
        ..PluginView::default()
    };
    let mut out = Vec::new();
    let plugins = [
        plugin("paused", "requested by command", 1, true),
        plugin("quarantined", "it trapped too often", 7, false),
    ];
    plugin::show(&mut out, &plugins).unwrap();
    let lines: Vec<_> = std::str::from_utf8(&out).unwrap().lines().skip(3).collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    paused is paused: requested by command
    paused failed on 1 object; it retries when it is resumed
    quarantined is quarantined: it trapped too often (informant explain plugin-quarantined)
    `informant plugin resume quarantined` ends the quarantine
    quarantined failed on 7 objects; it retries when it is resumed
    ");
}

#[test]
fn closed_hosts_and_waiting_writes_show() {
    let loaded = LoadedView {
        closed_hosts: vec![ClosedHostView {
            host: "chat.example.com:443".into(),
            left_ms: 42_000,
        }],
        requeues: 4,
        writes_waiting: 12,
        writes_waiting_events: 3,
        writes_paused_ms: Some(4_000),
        writes_spaced: 2,
        writes_spaced_keys: vec![WritingKeyView {
            object: "default/web-0".into(),
            cluster: "east".into(),
            resource: "v1/configmaps".into(),
            target: "v1/pods default/web-0".into(),
            wait_ms: 8_000,
        }],
        ..loaded()
    };
    let mut out = Vec::new();
    plugin::show(&mut out, &[greeter(loaded)]).unwrap();
    let lines: Vec<_> = std::str::from_utf8(&out).unwrap().lines().skip(2).collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    greeter will be called for 4 objects without a change: requeued or triggered
    greeter: 12 deferred writes wait (3 events); the API server asked for a pause of 4.0s
    greeter writes again and again when called for 2 objects; calls are spaced: let it compare before it writes
      v1/configmaps default/web-0 in cluster east: writes to v1/pods default/web-0, 8.0s between calls
    greeter: chat.example.com:443 asked for a pause and is closed for 42s (informant explain http-host-closed)
    ");
}

#[test]
fn suspect_namespaces_show_with_what_waits() {
    let loaded = LoadedView {
        suspect: 12,
        suspects: 5,
        suspect_namespaces: vec!["shop".into(), "team-a".into(), "web".into()],
        ..loaded()
    };
    let mut out = Vec::new();
    plugin::show(&mut out, &[greeter(loaded)]).unwrap();
    let lines: Vec<_> = std::str::from_utf8(&out).unwrap().lines().skip(2).collect();
    insta::assert_snapshot!(lines.join("\n"), @"greeter crashed on or waited for objects of shop, team-a, web and 2 more; their calls get at most 20% of its time; 12 objects wait (informant explain events-stuck)");
}

#[test]
fn pending_sections_show_without_a_refusal() {
    let mut configuration = configuration();
    configuration.waiting.push(PendingSection {
        section: "admin".into(),
        reason: "takes effect after a restart".into(),
    });
    let status = Status {
        configuration,
        sources: Vec::new(),
        plugins: Vec::new(),
    };
    insta::assert_snapshot!(shown(&status), @"
    Configuration config.toml: partially applied 3m20s ago
      [admin] pending: takes effect after a restart
    ");
}
