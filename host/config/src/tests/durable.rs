//! `durable` and `[state]`.

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
