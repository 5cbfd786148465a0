//! Secrets without their data: what it is called, and how long it is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use informant_cache::SourceInfo;
use serde_json::{Map, Value, json};

/// Whether the objects of a source are Secrets.
pub(super) fn are_secrets(source: &SourceInfo) -> bool {
    (source.api_version.as_str(), source.kind.as_str()) == ("v1", "Secret")
}

/// A Secret whose data is replaced by sizes: `{"password": "<16 bytes>"}`. So are its annotations, in which `kubectl
/// apply` and other tools keep whole objects. One that cannot be read is `null`.
pub(super) fn without_data(secret: &[u8]) -> Vec<u8> {
    let Ok(mut secret) = serde_json::from_slice::<Map<String, Value>>(secret) else {
        return b"null".to_vec();
    };
    let size_of_base64 = |text: &str| STANDARD.decode(text).map_or(text.len(), |data| data.len());
    if let Some(data) = secret.get_mut("data") {
        redact(data, size_of_base64);
    }
    if let Some(data) = secret.get_mut("stringData") {
        redact(data, str::len);
    }
    let annotations = secret
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(annotations) = annotations {
        redact(annotations, str::len);
    }
    Value::Object(secret).to_string().into_bytes()
}

fn redact(data: &mut Value, size: impl Fn(&str) -> usize) {
    let sized = |value: &Value| json!(format!("<{} bytes>", value.as_str().map_or(0, &size)));
    match data {
        Value::Null => {}
        Value::Object(entries) => entries.values_mut().for_each(|value| *value = sized(value)),
        other => *other = Value::Object(Map::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(secret: &str) -> String {
        String::from_utf8(without_data(secret.as_bytes())).unwrap()
    }

    #[test]
    fn data_of_secrets_is_replaced_by_sizes() {
        insta::assert_snapshot!(redacted(r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"db","annotations":{
            "team":"a","kubectl.kubernetes.io/last-applied-configuration":"{\"data\":{\"password\":\"aHVudGVyMg==\"}}"}},
            "type":"Opaque","data":{"password":"aHVudGVyMg==","empty":"","odd":"not base64"},"stringData":{"user":"admin"}}"#), @r#"{"apiVersion":"v1","data":{"empty":"<0 bytes>","odd":"<10 bytes>","password":"<7 bytes>"},"kind":"Secret","metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"<36 bytes>","team":"<1 bytes>"},"name":"db"},"stringData":{"user":"<5 bytes>"},"type":"Opaque"}"#);
    }

    #[test]
    fn secret_without_data_stays_as_it_is() {
        let secret = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"db"}}"#;
        assert_eq!(redacted(secret), secret);
    }

    #[test]
    fn malformed_data_is_not_shown() {
        let shown = redacted(r#"{"kind":"Secret","data":["hunter2"],"stringData":{"a":{"b":"hunter2"}}}"#);
        assert!(!shown.contains("hunter2"), "{shown}");
        assert_eq!(redacted("hunter2 {"), "null");
    }
}
