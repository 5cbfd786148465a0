//! Test guest: sends the request that an object describes in `spec` (`method`, `url`, `headers`, `body`), and logs what
//! came of it: `{"guest":"http","name":"a","status":200,"headers":{"etag":"7"},"bytes":2,"text":"ok"}`, or
//! `{"guest":"http","name":"a","error":"Denied"}`. With `fill` the body has so many bytes, with `times` the request is
//! sent so often. With `ensureOk` the call fails unless the status is a success. In `init` it is denied.

use std::collections::BTreeMap;

use informant_plugin_sdk::prelude::*;

struct Sending;

/// Bytes of a response that are logged.
const TEXT_BYTES: usize = 200;

fn request(spec: &Value) -> http::Request {
    let text = |key: &str| spec[key].as_str().unwrap_or_default();
    let method = spec["method"].as_str().unwrap_or("GET");
    let mut request = http::Request::new(method, text("url")).body(text("body"));
    if let Some(bytes) = spec["fill"].as_u64() {
        request = request.body(vec![b'x'; usize::try_from(bytes).unwrap_or_default()]);
    }
    for (name, value) in spec["headers"].as_object().into_iter().flatten() {
        request = request.header(name, value.as_str().unwrap_or_default());
    }
    request
}

fn log_answer(name: &str, answer: &Result<http::Response, http::Error>) {
    let line = match answer {
        Ok(response) => {
            let names = ["content-type", "etag", "location", "retry-after"];
            let headers: BTreeMap<_, _> = names
                .into_iter()
                .filter_map(|name| Some((name, response.header(name)?)))
                .collect();
            let bytes = response.bytes();
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_BYTES)]);
            json!({ "guest": "http", "name": name, "status": response.status(), "headers": headers,
                    "bytes": bytes.len(), "text": text })
        }
        Err(error) => json!({ "guest": "http", "name": name, "error": format!("{:?}", error.code) }),
    };
    info!("{line}");
}

impl Plugin for Sending {
    fn describe(_: Describe) -> Result<Manifest> {
        Ok(Manifest::new().parallel())
    }

    fn init(init: Init) -> Result<Self> {
        if let Some(url) = init.config::<Value>()?["init"].as_str() {
            log_answer("init", &http::get(url).send());
        }
        Ok(Self)
    }
}

impl EventHandler<Value> for Sending {
    fn on_upsert(&mut self, event: &Event, object: Value) -> Result<Action> {
        let spec = &object["spec"];
        for _ in 0..spec["times"].as_u64().unwrap_or(1) {
            let answer = request(spec).send();
            log_answer(&event.name, &answer);
            if spec["ensureOk"] == true {
                answer?.ensure_ok()?;
            }
        }
        Ok(Action::done())
    }
}

export!(Sending: events);
