//! Test guest: makes the kube calls in its config at each add, and logs each response as one JSON line, at level info.
//!
//! ```json
//! {"event":"add","object":"web-0","call":0,"code":"ok","status":0,"message":"","answer":{"kind":"Pod"}}
//! ```
//!
//! `defers` makes it a deferred write. With `on-updates`, updates make the calls, too. While an event has fewer
//! attempts than `fails`, its call fails after them; `traps` likewise. With `seen`, the manifest has `writes: "seen"`.
//!
//! `init` makes the call under `at-init`, and fails if the call fails.
//!
//! `event` is `add`, `index` or `describe`. The latter two also make the first call, which has to be denied.

use informant_plugin_sdk::prelude::*;
use serde::Deserialize;
use serde_json::json;

struct Caller {
    config: Config,
}

/// The `config` table.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Config {
    calls: Vec<Call>,
    at_init: Option<Call>,
    on_updates: bool,
    seen: bool,
    fails: u32,
    traps: u32,
}

/// One call. `$name` in `name` is replaced by the name of the event's object.
#[derive(Deserialize, Clone, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Call {
    /// `get`, `list`, `create`, `update`, `merge`, `json`, `strategic`, `apply` or `delete`.
    verb: String,
    /// Empty: the address is that of the event's object.
    resource: String,
    cluster: String,
    namespace: String,
    name: String,
    subresource: String,
    document: Value,
    /// Sends a string of this many bytes instead of the document.
    document_bytes: usize,
    field_manager: String,
    force: bool,
    uid: String,
    page_size: u32,
    /// The number of times to make the call.
    times: Option<u32>,
    /// Whether the write is deferred.
    defers: bool,
}

impl Call {
    fn make(&self, of: &str, event: Option<&Event>) -> kube::Result<Value> {
        let at = match event.filter(|_| self.resource.is_empty()) {
            Some(event) => kube::of(event),
            None => kube::object(&self.resource, &self.namespace, self.name.replace("$name", of)),
        };
        let at = at.in_cluster(&self.cluster).subresource(&self.subresource);
        let document = match self.document_bytes {
            0 => self.document.clone(),
            bytes => "x".repeat(bytes).into(),
        };
        if self.defers {
            return self.defer(&at, &document);
        }
        let patch = || match self.force {
            true => kube::patch(&at).field_manager(&self.field_manager).force(),
            false => kube::patch(&at).field_manager(&self.field_manager),
        };
        let answer = match self.verb.as_str() {
            "get" => return Ok(kube::get(&at)?.map_or(Value::Null, read)),
            "list" => {
                let list = kube::list(&self.resource)
                    .in_cluster(&self.cluster)
                    .namespace(&self.namespace)
                    .page_size(self.page_size);
                let objects: kube::Result<Vec<_>> = list.objects().map(|object| Ok(read(object?))).collect();
                return Ok(objects?.into());
            }
            "delete" => {
                kube::delete(&at).if_uid(&self.uid).background().send()?;
                return Ok(Value::Null);
            }
            "create" => kube::create(&at).field_manager(&self.field_manager).object(&document)?,
            "update" => kube::update(&at).field_manager(&self.field_manager).object(&document)?,
            "merge" => patch().merge(&document)?,
            "json" => patch().json(&document)?,
            "strategic" => patch().strategic(&document)?,
            _ => patch().apply(&document)?,
        };
        Ok(read(answer))
    }
}

impl Call {
    fn defer(&self, at: &kube::Address, document: &Value) -> kube::Result<Value> {
        match self.verb.as_str() {
            "delete" if self.uid.is_empty() => kube::defer_delete(at).send(),
            "delete" => kube::delete(at).if_uid(&self.uid).defer().send(),
            "create" => kube::defer_create(at).object(document),
            "update" => kube::defer_update(at).object(document),
            "merge" => kube::defer_patch(at).merge(document),
            "json" => kube::defer_patch(at).json(document),
            "strategic" => kube::defer_patch(at).strategic(document),
            _ => kube::defer_patch(at).apply(document),
        }?;
        Ok(Value::Null)
    }
}

/// `document` with the object's label `want` in place of each `$want`.
fn with_wanted(document: &Value, wanted: &str) -> Value {
    match document {
        Value::String(text) if text == "$want" => wanted.into(),
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, value)| (name.clone(), with_wanted(value, wanted)));
            Value::Object(members.collect())
        }
        other => other.clone(),
    }
}

fn read(object: kube::Object) -> Value {
    object.decode().unwrap_or(Value::Null)
}

fn record(event: &str, object: &str, number: usize, answer: kube::Result<Value>) {
    let line = match answer {
        Ok(answer) => json!({ "event": event, "object": object, "call": number, "code": "ok", "answer": answer }),
        Err(error) => json!({
            "event": event, "object": object, "call": number, "code": error.code.as_str(),
            "status": error.status.unwrap_or_default(), "message": error.message,
            "retry-after-ms": error.retry_after.map_or(0, |after| after.as_millis()),
        }),
    };
    info!("{line}");
}

impl Plugin for Caller {
    fn describe(describe: Describe) -> Result<Manifest> {
        let config: Config = describe.config()?;
        let call = Call {
            verb: "get".to_owned(),
            resource: "v1/pods".to_owned(),
            name: "a".to_owned(),
            ..Call::default()
        };
        record("describe", "", 0, call.make("", None));
        let manifest = Manifest::new().index("none");
        Ok(if config.seen { manifest.writes_seen() } else { manifest })
    }

    fn init(init: Init) -> Result<Self> {
        let config: Config = init.config()?;
        if let Some(call) = &config.at_init {
            call.make("", None)?;
        }
        Ok(Self { config })
    }
}

impl EventHandler<Value> for Caller {
    fn on_add(&mut self, event: &Event, pod: Value) -> Result<Action> {
        let wanted = pod["metadata"]["labels"]["want"].as_str().unwrap_or_default();
        for (number, call) in self.config.calls.iter().enumerate() {
            let call = Call {
                document: with_wanted(&call.document, wanted),
                ..call.clone()
            };
            for _ in 0..call.times.unwrap_or(1) {
                record("add", &event.name, number, call.make(&event.name, Some(event)));
            }
        }
        assert!(event.attempt >= self.config.traps, "a trap that was asked for");
        if event.attempt < self.config.fails {
            return Err(Failure::retryable("a failure that was asked for"));
        }
        Ok(Action::done())
    }

    fn on_upsert(&mut self, event: &Event, pod: Value) -> Result<Action> {
        match self.config.on_updates {
            true => self.on_add(event, pod),
            false => Ok(Action::done()),
        }
    }
}

impl IndexFuncs for Caller {
    type Object = Raw;

    fn index(&mut self, of: &ObjectRef, _: Raw) -> Result<IndexValues> {
        if let Some(call) = self.config.calls.first() {
            record("index", &of.name, 0, call.make(&of.name, None));
        }
        Ok(IndexValues::new())
    }
}

export!(Caller: events, index);
