//! What a plugin did, as entries of a scenario: for expectations of `plugin test`, and for captures.

use http::HeaderMap;
use informant_config::show_duration;
use informant_plugin_host::{CallResult, KubeRequest, KubernetesEvent, ObservedCall};
use serde_json::{Map, Value, json};

/// How the names of scenario files end.
pub(crate) const SCENARIO_SUFFIX: &str = ".scenario.yaml";

/// A reference to an object as text: `v1/pods shop/web-0`, `v1/nodes node-1`.
pub(crate) fn reference(resource: &str, namespace: &str, name: &str) -> String {
    match namespace {
        "" => format!("{resource} {name}"),
        namespace => format!("{resource} {namespace}/{name}"),
    }
}

/// A text as a pattern that only it matches.
pub(crate) fn literal(text: &str) -> String {
    text.replace('*', "\\*")
}

/// A call of a handler, about an object or a source of `resource`, or a timer.
pub(crate) fn call(call: &ObservedCall, resource: &str) -> Map<String, Value> {
    let mut entry = Map::new();
    let mut set = |name: &str, value: Value| drop(entry.insert(name.to_owned(), value));
    set("call", call.function.into());
    let timer = call
        .about
        .as_ref()
        .and_then(|about| Some((about, about.timer.as_ref()?)));
    if let Some((about, (timer, missed))) = timer {
        set("timer", timer.as_str().into());
        set("missed", (*missed).into());
        set("attempt", about.attempt.into());
    } else if let Some(about) = &call.about {
        let object = match &about.object {
            Some((namespace, name)) => reference(resource, namespace, name),
            None => resource.to_owned(),
        };
        set("object", object.into());
        set("reason", about.reason.into());
        set("attempt", about.attempt.into());
    }
    set("result", call.result.as_str().into());
    let (error, after) = match &call.result {
        CallResult::Ok { requeue_after } => (None, *requeue_after),
        CallResult::Retry { message, after } => (Some(message), *after),
        CallResult::Permanent(message) | CallResult::Trap(message) => (Some(message), None),
    };
    if let Some(error) = error {
        set("error", error.as_str().into());
    }
    if let Some(after) = after {
        set("requeueAfter", show_duration(after).into());
    }
    entry
}

/// A Kubernetes Event.
pub(crate) fn event(event: &KubernetesEvent) -> Value {
    let mut entry = json!({
        "type": event.event_type,
        "reason": event.reason,
        "action": event.action,
        "note": event.note,
        "regarding": event.regarding,
    });
    if let Some(related) = &event.related {
        entry["related"] = related.as_str().into();
    }
    entry
}

/// A call to the cluster, without what it sends: this tells it from others.
pub(crate) fn kube_call(request: &KubeRequest) -> Map<String, Value> {
    let object = reference(&request.resource, &request.namespace, &request.name);
    let members = [
        ("verb", request.verb),
        ("object", object.trim_end()),
        ("subresource", &request.subresource),
        ("kind", request.patch.unwrap_or_default()),
        ("labelSelector", &request.label_selector),
        ("fieldSelector", &request.field_selector),
        ("cursor", &request.cursor),
    ];
    let there = members.into_iter().filter(|(_, value)| !value.is_empty());
    let mut call: Map<String, Value> = there.map(|(name, value)| (name.to_owned(), value.into())).collect();
    if !request.options.is_empty() {
        call.insert("options".to_owned(), request.options.clone().into());
    }
    call
}

/// A write to the cluster, without its result. None for a read.
pub(crate) fn write(request: &KubeRequest) -> Option<Map<String, Value>> {
    if matches!(request.verb, "get" | "list") {
        return None;
    }
    let document = request.document.as_ref();
    let document = document.map(|document| serde_json::from_slice::<Value>(document).unwrap_or_default());
    let made = document
        .as_ref()
        .and_then(|document| document.pointer("/metadata/name")?.as_str());
    let name = match (&*request.name, request.verb) {
        ("", "create") => made.unwrap_or_default(),
        (name, _) => name,
    };
    let mut write = kube_call(request);
    let object = reference(&request.resource, &request.namespace, name);
    write.insert("object".to_owned(), object.into());
    write.extend(document.map(|document| ("document".to_owned(), document)));
    Some(write)
}

pub(crate) fn headers(headers: &HeaderMap) -> Map<String, Value> {
    let headers = headers.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.as_str().to_owned(), Value::from(value))
    });
    headers.collect()
}

/// JSON if it is an object or a list, or else a text.
pub(crate) fn body(body: &[u8]) -> Value {
    match serde_json::from_slice(body) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => value,
        _ => json!(String::from_utf8_lossy(body)),
    }
}
