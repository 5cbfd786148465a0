use std::time::{Duration, Instant};

use informant_spec::Digest;

use super::*;

/// A patch of the deployment `name`, by a call for a ConfigMap.
fn effect(name: &str) -> Effect {
    let cause = CallCause {
        digest: Digest::of(b"restarter"),
        version: "0.2.0".to_owned(),
        event: "update",
        source: informant_object::SourceId(0),
        subject: CauseSubject::Object(CauseObject {
            informer: "configmaps".to_owned(),
            resource: "v1/configmaps".to_owned(),
            namespace: "web".to_owned(),
            name: "settings".to_owned(),
            ..CauseObject::default()
        }),
        reason: "watch",
        attempt: 0,
        related: None,
    };
    Effect {
        detail: r#"{"secret":"in the document"}"#.to_owned(),
        object: Some(EffectObject {
            resource: "apps/v1/deployments".to_owned(),
            namespace: "web".to_owned(),
            name: name.to_owned(),
            ..EffectObject::default()
        }),
        grant: "allow.kube = [{ verbs = [\"patch\"], resource = \"apps/v1/deployments\" }]".to_owned(),
        cause: Some(Arc::new(cause)),
        ..Effect::new(EffectKind::Kube, "patch", format!("apps/v1/deployments web/{name}"))
    }
}

fn names(selected: &Selected<EffectRecord>) -> Vec<&str> {
    let objects = selected.records.iter().filter_map(|record| record.object.as_ref());
    objects.map(|object| &*object.name).collect()
}

fn add(log: &EffectLog, plugin: &str, name: &str) {
    log.recorder(None).had_effect(plugin, &effect(name), false);
}

#[test]
fn newest_effects_are_selected_in_order() {
    let log = EffectLog::default();
    for (plugin, name) in [("a", "one"), ("b", "two"), ("a", "three"), ("b", "four")] {
        add(&log, plugin, name);
    }
    let all = log.select(None, (0, 10), |_| true);
    assert_eq!(
        (names(&all), all.next, all.has_more),
        (vec!["one", "two", "three", "four"], 4, false)
    );
    let newest = log.select(None, (0, 3), |_| true);
    assert_eq!((names(&newest), newest.has_more), (vec!["two", "three", "four"], true));
    assert_eq!(names(&log.select(Some("a"), (0, 10), |_| true)), ["one", "three"]);
    assert_eq!(names(&log.select(None, (2, 10), |_| true)), ["three", "four"]);
    assert_eq!(
        names(&log.select(None, (99, 10), |_| true)).len(),
        4,
        "of an earlier process"
    );
    let meant = log.select(None, (0, 10), |record| &*record.plugin == "b");
    assert_eq!(names(&meant), ["two", "four"]);
}

#[test]
fn a_plugin_with_many_effects_displaces_only_its_own() {
    let log = EffectLog::default();
    add(&log, "quiet", "one");
    let size = log.usage().bytes;
    for number in 0..EFFECT_LOG_BYTES_MAX / size + 100 {
        add(&log, "busy", &number.to_string());
    }
    let usage = log.usage();
    assert!(
        usage.bytes <= EFFECT_LOG_BYTES_MAX && usage.bytes > EFFECT_LOG_BYTES_MAX - 2 * size,
        "{usage:?}"
    );
    assert!(usage.dropped >= 100, "{usage:?}");
    assert_eq!(names(&log.select(Some("quiet"), (0, 10), |_| true)), ["one"]);
    assert!(!names(&log.select(Some("busy"), (0, 1_000_000), |_| true)).contains(&"0"));
}

#[test]
fn a_full_record_is_searched_in_20_ms() {
    let log = EffectLog::default();
    while log.usage().dropped < 10 {
        (0..100).for_each(|number| add(&log, &format!("plugin-{}", number % 10), &number.to_string()));
    }
    let is_meant = |record: &EffectRecord| record.object.as_ref().is_some_and(|object| object.name == "42");
    let quickest = (0..5).map(|_| {
        let began = Instant::now();
        assert!(!log.select(None, (0, 1_000), is_meant).records.is_empty());
        began.elapsed()
    });
    // The least of five: other tests run at the same time.
    assert!(quickest.min().unwrap() < Duration::from_millis(20));
}

#[test]
fn documents_are_not_kept() {
    let log = EffectLog::default();
    add(&log, "a", "one");
    let kept = format!("{:?}", log.select(None, (0, 10), |_| true));
    assert!(kept.contains("settings") && !kept.contains("in the document"), "{kept}");
}

#[test]
fn only_what_others_may_notice_is_recorded() {
    let log = EffectLog::default();
    let recorder = log.recorder(None);
    let of = |kind, action: &str| Effect {
        kind,
        action: action.to_owned(),
        ..effect("one")
    };
    recorder.had_effect("a", &of(EffectKind::Kv, "set"), false);
    recorder.had_effect("a", &of(EffectKind::Http, "GET"), false);
    recorder.had_effect("a", &of(EffectKind::Kube, "patch"), true);
    assert_eq!(log.usage().records, 0);
    recorder.had_effect("a", &of(EffectKind::Http, "POST"), false);
    recorder.had_effect("a", &of(EffectKind::Event, "Normal Restarted"), false);
    assert_eq!(log.usage().records, 2);
    assert!(!recorder.wants_calls());
}
