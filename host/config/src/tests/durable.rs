//! `durable` and `[state]`.

use std::time::Duration;

use super::*;

#[test]
fn secrets_are_durable_only_on_request_and_encrypted() {
    let informer = |keys: &str| format!("[informer.s]\nresource = \"v1/secrets\"\n{keys}\n");
    for keys in [
        "durable = \"metadata\"",
        "durable = \"whole\"\ndurable-secrets = true",
        "durable = \"whole\"\ndurable-key-file = \"key\"",
    ] {
        let refused = refusal(&informer(keys));
        let position = "error: config.toml:3:11: secrets would be stored on disk unencrypted";
        assert!(refused.starts_with(position), "{refused}");
    }
    let config = accepted(&informer(
        "durable = \"whole\"\ndurable-secrets = true\ndurable-key-file = \"key\"",
    ));
    let durable = config.informers["s"].durable.as_ref().unwrap();
    assert_eq!(durable.key_file.as_deref(), Some(Path::new("./key")));
    assert!(durable.may_keep("secrets"));
    for named in ["secrets", "Secret"] {
        let text = format!("[informer.s]\nresource = \"{named}\"\ndurable = \"metadata\"\n");
        assert!(refusal(&text).contains("unencrypted"));
    }
}

#[test]
fn durable_keys_and_state_path_are_validated() {
    let informer = |keys: &str| format!("[informer.p]\nresource = \"v1/pods\"\n{keys}\n");
    assert!(
        refusal(&informer("durable-secrets = true"))
            .contains("3:19: `durable-secrets` has no effect without `durable`")
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
fn shared_state_has_its_own_keys_and_limits() {
    let informer = "[informer.p]\nresource = \"v1/pods\"\n";
    let plugin = "[plugin.a]\ncomponent = \"a.wasm\"\ninformers = [\"p\"]\n";
    let state = |keys: &str| format!("[state]\n{keys}\n{informer}[ha]\n");
    let config = accepted(&format!("{}{plugin}", state("store = \"kubernetes\"\ngroup-ms = 50")));
    assert_eq!(config.state.store, StateStore::Kubernetes);
    assert_eq!(config.state.group_interval, Duration::from_millis(50));
    assert_eq!(config.plugins["a"].spec.limits.kv_bytes, 256 << 10);
    let config = accepted(&format!("{}{plugin}", state("")));
    assert_eq!(
        (config.state.store, config.plugins["a"].spec.limits.kv_bytes),
        (StateStore::File, 1 << 20)
    );

    for (keys, message) in [
        ("store = \"secrets\"", "2:9: `store` cannot be \"secrets\""),
        (
            "store = \"kubernetes\"\ngroup-ms = 20",
            "3:12: `group-ms` = 20 is out of range",
        ),
        ("group-ms = 200", "2:12: `group-ms` has no effect in a file"),
        (
            "store = \"kubernetes\"\npath = \"s\"",
            "3:8: `path` has no effect with store = \"kubernetes\"",
        ),
    ] {
        let refused = refusal(&state(keys));
        assert!(refused.contains(message), "{refused}");
    }
    let durable = "store = \"kubernetes\"\npath = \"s\"\n[informer.q]\nresource = \"v1/nodes\"\ndurable = \"metadata\"";
    accepted(&state(durable));

    let large = |store: &str| format!("{}{plugin}limits.kv = \"2MiB\"\n", state(store));
    accepted(&large(""));
    let refused = refusal(&large("store = \"kubernetes\""));
    assert!(
        refused.contains("`kv` = 2MiB is out of range") && refused.contains("to 1MiB"),
        "{refused}"
    );
}

#[test]
fn where_keys_are_depends_on_the_number_of_replicas() {
    let config = |sections: &str| format!("{sections}[informer.p]\nresource = \"v1/pods\"\n");
    let store_of = |sections: &str| accepted(&config(sections)).key_store();
    assert_eq!(store_of(""), KeyStore::Nowhere);
    assert_eq!(store_of("[state]\n"), KeyStore::File);
    assert_eq!(store_of("[ha]\n"), KeyStore::FileOfEachReplica);
    assert_eq!(store_of("[ha]\n[state]\nstore = \"kubernetes\"\n"), KeyStore::Secrets);
    insta::assert_snapshot!(refusal(&config("[state]\nstore = \"kubernetes\"\n")), @r#"
    error: config.toml:2:9: store = "kubernetes" is for several replicas, and there is no section [ha]
      help: add a section [ha], or remove `store`: one process remembers keys in a file
    "#);
    insta::assert_snapshot!(warnings(&config("[ha]\n[state]\n")), @r#"
    warning: config.toml:2:2: [state] has no effect: with [ha], plugins may not remember keys in a file of each replica
      help: set store = "kubernetes", or remove [ha] or [state]
    "#);
    assert_eq!(
        warnings(&config(
            "[ha]\n[state]\n[informer.q]\nresource = \"v1/nodes\"\ndurable = \"whole\"\n"
        )),
        ""
    );
}
