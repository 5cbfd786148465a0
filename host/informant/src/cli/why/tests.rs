use super::*;

fn item() -> WhyItem {
    WhyItem {
        time: "2026-03-01T09:30:00.000Z".into(),
        plugin: "restarter".into(),
        kind: "kube".into(),
        verb: "patch".into(),
        object: Some(object("apps/v1/deployments", "web", "")),
        result: "ok".into(),
        cause: Some(WhyCause {
            version: "0.2.0".into(),
            sha256: "3f9a2c1b04d7e5aa".into(),
            event: "update".into(),
            reason: "watch".into(),
            object: Some(object("v1/configmaps", "settings", "8119")),
            ..WhyCause::default()
        }),
        ..WhyItem::default()
    }
}

fn object(resource: &str, name: &str, resource_version: &str) -> WhyObject {
    WhyObject {
        resource: resource.into(),
        namespace: "shop".into(),
        name: name.into(),
        resource_version: resource_version.into(),
        ..WhyObject::default()
    }
}

/// An item with another cause.
fn because_of(change: impl FnOnce(&mut WhyCause)) -> WhyItem {
    let mut item = item();
    item.cause.iter_mut().next().map(change);
    item
}

fn items() -> Vec<WhyItem> {
    let failed = WhyItem {
        result: "conflict".into(),
        error: Some("the object has been modified".into()),
        ..item()
    };
    let related = because_of(|cause| {
        cause.reason = "related".into();
        cause.attempt = 1;
        cause.related = Some(object("v1/secrets", "db", "77"));
        cause.related_event = Some("delete".into());
    });
    let hidden = because_of(|cause| {
        (cause.object, cause.hidden) = (None, true);
        cause.related_event = Some("add".into());
    });
    let of_timer = because_of(|cause| {
        (cause.object, cause.timer) = (None, Some("nightly".into()));
        cause.event = "timer".into();
    });
    let posted = WhyItem {
        verb: "POST".into(),
        object: None,
        url: "https://hooks.example.com/alerts".into(),
        identity: Some("system:serviceaccount:shop:restarter".into()),
        cause: None,
        ..item()
    };
    vec![item(), failed, related, hidden, of_timer, posted]
}

#[test]
fn each_effect_is_one_row_with_its_cause() {
    let now = "2026-03-01T09:30:42Z".parse().unwrap();
    let mut out = Vec::new();
    show(&mut out, &items(), true, now).unwrap();
    insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r"
    AGE   VERB    TARGET                             RESULT                                   BY                                                  BECAUSE OF
    42s   patch   apps/v1/deployments shop/web       ok                                       restarter 0.2.0 (3f9a2c1b04d7)                      update of v1/configmaps shop/settings at 8119 (watch)
    42s   patch   apps/v1/deployments shop/web       conflict: the object has been modified   restarter 0.2.0 (3f9a2c1b04d7)                      update of v1/configmaps shop/settings at 8119 (watch)
    42s   patch   apps/v1/deployments shop/web       ok                                       restarter 0.2.0 (3f9a2c1b04d7)                      update of v1/configmaps shop/settings at 8119, after delete of v1/secrets shop/db at 77 (related, retry 1)
    42s   patch   apps/v1/deployments shop/web       ok                                       restarter 0.2.0 (3f9a2c1b04d7)                      update of an object that you may not get, after add of an object that you may not get (watch)
    42s   patch   apps/v1/deployments shop/web       ok                                       restarter 0.2.0 (3f9a2c1b04d7)                      timer nightly
    42s   POST    https://hooks.example.com/alerts   ok                                       restarter as system:serviceaccount:shop:restarter   -
    ");
    let mut of_replica = item();
    of_replica.replica = Some("informant-1".into());
    let mut out = Vec::new();
    show(&mut out, &[of_replica, item()], false, now).unwrap();
    insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r"
    AGE   REPLICA       VERB    RESULT   BY                               BECAUSE OF
    42s   informant-1   patch   ok       restarter 0.2.0 (3f9a2c1b04d7)   update of v1/configmaps shop/settings at 8119 (watch)
    42s   -             patch   ok       restarter 0.2.0 (3f9a2c1b04d7)   update of v1/configmaps shop/settings at 8119 (watch)
    ");
}

#[test]
fn an_effect_is_told_in_one_line() {
    let lines: Vec<String> = items().iter().map(sentence).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    2026-03-01T09:30:00.000Z patch apps/v1/deployments shop/web: ok, by restarter 0.2.0 (3f9a2c1b04d7), because of update of v1/configmaps shop/settings at 8119 (watch)
    2026-03-01T09:30:00.000Z patch apps/v1/deployments shop/web: conflict: the object has been modified, by restarter 0.2.0 (3f9a2c1b04d7), because of update of v1/configmaps shop/settings at 8119 (watch)
    2026-03-01T09:30:00.000Z patch apps/v1/deployments shop/web: ok, by restarter 0.2.0 (3f9a2c1b04d7), because of update of v1/configmaps shop/settings at 8119, after delete of v1/secrets shop/db at 77 (related, retry 1)
    2026-03-01T09:30:00.000Z patch apps/v1/deployments shop/web: ok, by restarter 0.2.0 (3f9a2c1b04d7), because of update of an object that you may not get, after add of an object that you may not get (watch)
    2026-03-01T09:30:00.000Z patch apps/v1/deployments shop/web: ok, by restarter 0.2.0 (3f9a2c1b04d7), because of timer nightly
    2026-03-01T09:30:00.000Z POST https://hooks.example.com/alerts: ok, by restarter as system:serviceaccount:shop:restarter
    ");
}
