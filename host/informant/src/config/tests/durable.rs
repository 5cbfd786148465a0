//! What is to outlive the process.

use super::*;

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
