//! A captured call as a scenario: what the call saw becomes its beginning, what it did its expectations.

use std::collections::{BTreeMap, BTreeSet};

use http::HeaderMap;
use informant_apiserver::{ApiServer, Options};
use informant_cache::{Catalog, Source, SourceInfo};
use informant_config::show_duration;
use informant_object::Object;
use informant_plugin_host::{Captured, HttpAnswer, HttpRecord, KubeFailure, KubeRequest, LogRecord, Record};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::redact::{Redactor, Use};
use super::sections::Sections;
use crate::recorded;

/// Headers that belong to a connection, or that differ each time.
const LEFT_OUT_HEADERS: [&str; 6] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "trailer",
    "transfer-encoding",
];

/// What a capture becomes.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) scenario: Value,
    /// Where values were redacted.
    pub(super) redacted: Vec<String>,
    /// What the scenario does not replay as it was.
    pub(super) inexact: Vec<String>,
}

/// Builds a scenario.
pub(super) struct Builder<'c> {
    catalog: &'c Catalog,
    /// Of the object that the call is about.
    about: SourceInfo,
    sections: Sections,
    redactor: Redactor,
    inexact: BTreeSet<String>,
    /// The kinds that occur: resource, apiVersion, kind, and whether its objects have namespaces.
    kinds: BTreeMap<String, (String, String, bool)>,
}

impl<'c> Builder<'c> {
    pub(super) fn new(catalog: &'c Catalog, about: &Source, sections: Sections) -> Builder<'c> {
        Builder {
            catalog,
            about: about.info().clone(),
            sections,
            redactor: Redactor::default(),
            inexact: BTreeSet::new(),
            kinds: BTreeMap::new(),
        }
    }

    pub(super) fn build(mut self, captured: &Captured, began: Timestamp) -> Built {
        let about = self.about.clone();
        let call = recorded::call(&captured.call, &about.resource);
        let shown = format!("{} {}", text_of(&call, "call"), text_of(&call, "object"));
        let objects = self.objects(captured);
        let replay = self.replay(captured, &call);
        let expect = self.expect(captured, call);
        let (kv, http) = (self.keys(captured), self.answers(captured));
        let mut all = self.definitions();
        all.extend(objects);
        let mut scenario = json!({
            "name": format!("{shown}, captured"),
            "time": began.to_string(),
            "config": self.config(),
            "steps": [{ "replay": replay }, { "expect": expect }],
        });
        let is_there = |value: &Value| match value {
            Value::Array(values) => !values.is_empty(),
            Value::Object(members) => !members.is_empty(),
            _ => true,
        };
        for (name, value) in [("objects", Value::Array(all)), ("kv", kv.into()), ("http", http.into())] {
            if is_there(&value) {
                scenario[name] = value;
            }
        }
        Built {
            scenario,
            redacted: self.redactor.found(),
            inexact: self.inexact.into_iter().collect(),
        }
    }

    fn config(&mut self) -> Value {
        let (plugin, informers) = (self.sections.of_plugin.clone(), self.sections.of_informers.clone());
        let mut config = json!({ "informer": informers, "plugin": { self.sections.plugin.as_str(): plugin } });
        self.redactor.value(&mut config, Use::Data);
        config
    }

    /// An object of a source as the scenario has it.
    fn object(&mut self, info: &SourceInfo, object: &Object) -> Value {
        let mut value: Value = serde_json::from_slice(object.json()).unwrap_or_default();
        value["apiVersion"] = info.api_version.clone().into();
        value["kind"] = info.kind.clone().into();
        self.redactor.value(&mut value, Use::Data);
        self.kinds.insert(
            info.resource.clone(),
            (info.api_version.clone(), info.kind.clone(), info.namespaced),
        );
        value
    }

    /// The objects that the call read, and the one that it is about.
    fn objects(&mut self, captured: &Captured) -> Vec<Value> {
        let (mut seen, mut objects) = (BTreeSet::new(), Vec::new());
        let catalog = self.catalog;
        let read = captured.records.iter().filter_map(|record| match record {
            Record::Object(source, object) => Some((catalog.info(*source)?, object)),
            _ => None,
        });
        let is_there = captured.call.function != "on-delete";
        let own = captured.object.as_ref().filter(|_| is_there);
        let own = own.map(|object| (self.about.clone(), object));
        for (info, object) in read.chain(own) {
            if info.cluster != self.about.cluster {
                let left_out = format!(
                    "objects of the cluster {} are left out: a scenario has one cluster",
                    info.cluster
                );
                self.inexact.insert(left_out);
            } else if seen.insert((info.resource.clone(), object.key().to_key())) {
                objects.push(self.object(&info, object));
            }
        }
        objects
    }

    fn replay(&mut self, captured: &Captured, call: &Map<String, Value>) -> Map<String, Value> {
        let about = self.about.clone();
        let mut replay = Map::new();
        let mut set = |name: &str, value: Value| drop(replay.insert(name.to_owned(), value));
        for name in ["call", "reason", "attempt"] {
            set(name, call.get(name).cloned().unwrap_or_default());
        }
        match &captured.object {
            Some(object) => set("object", self.object(&about, object)),
            None => set("object", call.get("object").cloned().unwrap_or_default()),
        }
        if let Some(old) = &captured.old {
            set("old", self.object(&about, old));
        }
        if captured.final_state_unknown {
            set("finalStateUnknown", true.into());
        }
        let calls = captured.records.iter().filter_map(|record| match record {
            Record::Kube(request, reply) => Some((request, reply)),
            _ => None,
        });
        let replies: Vec<Value> = calls.map(|(request, reply)| self.reply(request, reply)).collect();
        if !replies.is_empty() {
            set("kube", replies.into());
        }
        replay
    }

    fn reply(&mut self, request: &KubeRequest, reply: &Result<Vec<u8>, KubeFailure>) -> Value {
        let mut entry = recorded::kube_call(request);
        match reply {
            Ok(body) => {
                let mut body: Value = serde_json::from_slice(body).unwrap_or_default();
                self.note_kind(request, &body);
                self.redactor.value(&mut body, Use::Data);
                entry.insert("reply".to_owned(), body);
            }
            Err(failure) => {
                let sent = request.document.as_ref();
                let sent = sent.and_then(|document| serde_json::from_slice(document).ok());
                self.note_kind(request, &sent.unwrap_or_default());
                let mut error = json!({ "code": failure.code, "message": failure.message });
                if failure.status > 0 {
                    error["status"] = failure.status.into();
                }
                if !failure.reason.is_empty() {
                    error["reason"] = failure.reason.clone().into();
                }
                if let Some(after) = failure.retry_after {
                    error["retryAfter"] = show_duration(after).into();
                }
                self.redactor.value(&mut error, Use::Data);
                entry.insert("error".to_owned(), error);
            }
        }
        entry.into()
    }

    /// The kind of an object that the plugin addresses, whether an informer reads it or not.
    fn note_kind(&mut self, request: &KubeRequest, document: &Value) {
        let kind = document["kind"].as_str().map(|kind| kind.trim_end_matches("List"));
        let (api_version, plural) = request.resource.rsplit_once('/').unwrap_or(("v1", &request.resource));
        let kind = kind.filter(|_| document["apiVersion"] == api_version).unwrap_or(plural);
        let of_kind = (api_version.to_owned(), kind.to_owned(), !request.namespace.is_empty());
        self.kinds.entry(request.resource.clone()).or_insert(of_kind);
    }

    /// Definitions of the kinds that the API server of scenarios does not have.
    fn definitions(&mut self) -> Vec<Value> {
        let built_in = ApiServer::new(Options::default());
        let informers = &self.sections.of_informers;
        let named = informers.values().filter_map(|section| section["resource"].as_str());
        let named: BTreeSet<&str> = named.collect();
        for source in self.catalog.all() {
            let SourceInfo {
                resource,
                api_version,
                kind,
                namespaced,
                ..
            } = source.info();
            // An informer of a kind that is not there would wait for it.
            if informers.contains_key(&source.info().informer) && named.contains(resource.as_str()) {
                let of_kind = (api_version.clone(), kind.clone(), *namespaced);
                self.kinds.entry(resource.clone()).or_insert(of_kind);
            }
        }
        let missing = self
            .kinds
            .iter()
            .filter(|(resource, _)| built_in.kind_at(resource).is_none());
        missing
            .filter_map(|(resource, kind)| definition(resource, kind))
            .collect()
    }

    /// The values that keys had before the call.
    fn keys(&mut self, captured: &Captured) -> Map<String, Value> {
        let (mut keys, mut seen) = (Map::new(), BTreeSet::new());
        for record in &captured.records {
            if let Record::Key(key, value) = record
                && seen.insert(key)
                && let Some(value) = value
            {
                let value = self.key_value(key, value, Use::Data);
                keys.extend(value.map(|value| (key.clone(), value)));
            }
        }
        keys
    }

    /// None: nothing is left of it.
    fn key_value(&mut self, key: &str, value: &[u8], of: Use) -> Option<Value> {
        self.check_text(value, || format!("the value of the key {key}"));
        let mut value = match recorded::body(value) {
            // As JSON, where that stands for the same bytes: not for texts.
            Value::String(text) => {
                let json = serde_json::from_str(&text).ok();
                let is_same = |json: &Value| !json.is_string() && *json.to_string() == *text;
                json.filter(is_same).unwrap_or_else(|| text.into())
            }
            document => document,
        };
        self.redactor.keyed(key, &mut value, of).then_some(value)
    }

    /// Notes that what is not text is not replayed as it was.
    fn check_text(&mut self, bytes: &[u8], what: impl FnOnce() -> String) {
        if std::str::from_utf8(bytes).is_err() {
            self.inexact
                .insert(format!("{} is not UTF-8: its other bytes are lost", what()));
        }
    }

    /// Answers to the requests, in their order.
    fn answers(&mut self, captured: &Captured) -> Vec<Value> {
        let mut answers = Vec::new();
        for http in requests(captured) {
            let Some(answer) = &http.answer else { continue };
            let mut entry = json!({ "method": http.method, "url": self.redactor.pattern(&http.url), "times": 1 });
            match answer {
                HttpAnswer::Response { status, headers, body } => {
                    entry["status"] = (*status).into();
                    let mut headers = written(headers);
                    self.redactor.members(&mut headers, Use::Data);
                    if !headers.is_empty() {
                        entry["headers"] = headers.into();
                    }
                    if !body.is_empty() {
                        entry["body"] = self.body(&http.url, body, Use::Data);
                    }
                }
                HttpAnswer::Failed(code) => {
                    let (error, is_exact) = error_of(code);
                    entry["error"] = error.into();
                    if !is_exact {
                        self.inexact
                            .insert(format!("the HTTP error {code} is replayed as {error}"));
                    }
                }
            }
            answers.push(entry);
        }
        answers
    }

    fn body(&mut self, url: &str, body: &[u8], of: Use) -> Value {
        self.check_text(body, || format!("a body of {}", Redactor::default().pattern(url)));
        let mut body = recorded::body(body);
        match (&body, of) {
            // A text is a pattern there.
            (Value::String(text), Use::Pattern) => self.redactor.pattern(text).into(),
            _ => {
                self.redactor.value(&mut body, of);
                body
            }
        }
    }

    fn expect(&mut self, captured: &Captured, mut call: Map<String, Value>) -> Value {
        if let Some(Value::String(error)) = call.get_mut("error") {
            *error = self.redactor.pattern(error);
        }
        let (mut log, mut writes, mut keys) = (Vec::new(), Vec::new(), Map::new());
        for record in &captured.records {
            match record {
                Record::Log(line) => log.extend(self.line(line)),
                Record::Kube(request, reply) => writes.extend(self.write(request, reply.as_ref().err())),
                Record::KeyChange(key, Some(value)) => {
                    let value = self.key_value(key, value, Use::Pattern);
                    keys.extend(value.map(|value| (key.clone(), value)));
                }
                Record::KeyChange(key, None) => drop(keys.insert(key.clone(), Value::Null)),
                Record::Object(..) | Record::Key(..) | Record::Http(_) => {}
            }
        }
        let requests: Vec<Value> = requests(captured).map(|http| self.request(http)).collect();
        let mut expect = json!({ "calls": [call], "log": log, "writes": writes, "http": requests });
        if !keys.is_empty() {
            expect["kv"] = keys.into();
        }
        expect
    }

    /// A line that scenarios look at.
    fn line(&mut self, line: &LogRecord) -> Option<Value> {
        if matches!(line.level, "trace" | "debug") {
            return None;
        }
        let mut entry = json!({ "level": line.level, "message": self.redactor.pattern(&line.message) });
        if let Some(fields) = &line.fields {
            let mut fields: Value = serde_json::from_str(fields).unwrap_or_default();
            self.redactor.value(&mut fields, Use::Pattern);
            entry["fields"] = fields;
        }
        Some(entry)
    }

    fn write(&mut self, request: &KubeRequest, failure: Option<&KubeFailure>) -> Option<Value> {
        let mut write = recorded::write(request)?;
        if let Some(document) = write.get_mut("document") {
            self.redactor.value(document, Use::Pattern);
        }
        let result = failure.map_or("ok", |failure| failure.code);
        write.insert("result".to_owned(), result.into());
        Some(write.into())
    }

    fn request(&mut self, http: &HttpRecord) -> Value {
        let mut entry = json!({ "method": http.method, "url": self.redactor.pattern(&http.url) });
        let mut headers = written(&http.headers);
        self.redactor.request_headers(&mut headers);
        if !headers.is_empty() {
            entry["headers"] = headers.into();
        }
        if !http.body.is_empty() {
            entry["body"] = self.body(&http.url, &http.body, Use::Pattern);
        }
        match &http.answer {
            Some(HttpAnswer::Response { status, .. }) => entry["status"] = (*status).into(),
            Some(HttpAnswer::Failed(code)) => entry["error"] = error_of(code).0.into(),
            None => {}
        }
        entry
    }
}

/// The headers that a scenario may have.
fn written(headers: &HeaderMap) -> Map<String, Value> {
    let mut headers = recorded::headers(headers);
    headers.retain(|name, _| !LEFT_OUT_HEADERS.contains(&&**name));
    headers
}

fn requests(captured: &Captured) -> impl Iterator<Item = &HttpRecord> {
    captured.records.iter().filter_map(|record| match record {
        Record::Http(http) => Some(&**http),
        _ => None,
    })
}

/// The error of a scenario that is nearest to one of HTTP, and whether it is the same.
fn error_of(code: &str) -> (&'static str, bool) {
    match code {
        "connect" => ("connect", true),
        "dns" => ("dns", true),
        "timeout" => ("timeout", true),
        "connect-timeout" => ("timeout", false),
        _ => ("connect", false),
    }
}

fn text_of<'m>(members: &'m Map<String, Value>, name: &str) -> &'m str {
    members.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A definition of a custom kind that accepts every object. None if a definition cannot define it.
fn definition(resource: &str, (api_version, kind, namespaced): &(String, String, bool)) -> Option<Value> {
    let (group, version) = api_version.split_once('/')?;
    let plural = resource.rsplit('/').next()?;
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    Some(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group,
            "scope": if *namespaced { "Namespaced" } else { "Cluster" },
            "names": { "plural": plural, "singular": kind.to_lowercase(), "kind": kind },
            "versions": [{
                "name": version, "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
            }],
        },
    }))
}
