//! Refuses what can never happen in a scenario: objects that no informer watches, expectations that the manifest rules
//! out.

use std::collections::BTreeSet;

use informant_apiserver::Kind;
use informant_config::{FilePosition, Problem, Problems};
use informant_plugin_host::Role;
use informant_spec::suggest::did_you_mean;
use informant_spec::{GroupVersionResource, KubeVerb, PluginSpec, WaitFor};
use serde_json::Value;

use super::prepare::{Prepared, is_definition, watches};
use super::scenario::{About, Action, Entry, Expect, Indexed, Listed, Object, Reference, Stream};
use super::series;
use super::world::resource_of;

/// Checks a scenario before it runs.
///
/// # Errors
/// Everything that can never happen or match.
pub(super) fn validate(prepared: &Prepared) -> Result<(), Problems> {
    let mut checks = Checks {
        prepared,
        problems: Vec::new(),
    };
    checks.served();
    for object in &prepared.scenario.objects {
        checks.given(object, "objects");
    }
    for step in &prepared.scenario.steps {
        if let Some(action) = &step.action {
            checks.action(action);
        }
        if let Some(expect) = &step.expect {
            checks.expect(expect);
        }
    }
    let mut problems = Problems(checks.problems);
    problems.sort();
    match problems.has_errors() {
        true => Err(problems),
        false => Ok(()),
    }
}

struct Checks<'p> {
    prepared: &'p Prepared,
    problems: Vec<Problem>,
}

impl Checks<'_> {
    fn refuse(&mut self, at: FilePosition, message: impl Into<String>, help: impl Into<String>) {
        let path = self.prepared.scenario.file.path();
        self.problems.push(Problem::at(path, at, message).help(help));
    }

    fn spec(&self) -> Option<&PluginSpec> {
        let section = self.prepared.config.plugins.get(&self.prepared.plugin)?;
        Some(&section.spec)
    }

    fn is_watched(&self, kind: &Kind) -> bool {
        self.prepared
            .config
            .informers
            .values()
            .any(|section| watches(section, kind))
    }

    /// What the informers watch, for messages.
    fn watched(&self) -> String {
        let informers = self.prepared.config.informers.iter();
        let shown: Vec<String> = informers
            .map(|(name, section)| format!("{name} ({})", section.resource.value))
            .collect();
        match shown.is_empty() {
            true => "the plugin has no informer".to_owned(),
            false => format!("the plugin's informers: {}", shown.join(", ")),
        }
    }

    /// The kind of an object, which must be served.
    fn kind(&mut self, object: &Object) -> Option<Kind> {
        let Object { api_version, kind, .. } = object;
        let found = self.prepared.kinds.kind_of(api_version, kind);
        if found.is_none() {
            let message = format!("the API server of scenarios does not have the kind {api_version} {kind}");
            let help = "correct it, or add its CustomResourceDefinition to `objects`";
            self.refuse(object.position, message, help);
        }
        found
    }

    fn kind_at(&mut self, at: FilePosition, resource: &str) -> Option<Kind> {
        let found = self.prepared.kinds.kind_at(resource);
        if found.is_none() {
            let message = format!("the API server of scenarios does not have the resource {resource}");
            let help = "write it as in config.toml (v1/pods, apps/v1/deployments), or add its CustomResourceDefinition to \
                        `objects`";
            self.refuse(at, message, help);
        }
        found
    }

    /// Informers whose resource is not there would hold up the first calls.
    fn served(&mut self) {
        let waits = self.spec().is_some_and(|spec| spec.wait_for == WaitFor::All);
        let unserved: Vec<String> = (self.prepared.config.informers.iter().filter(|_| waits))
            .filter(|(_, section)| !self.is_served(section))
            .map(|(name, section)| format!("[informer.{name}] watches {}", section.resource.value))
            .collect();
        for informer in unserved {
            let message = format!("{informer}, which the API server of scenarios does not have");
            let at = FilePosition { line: 1, column: 1 };
            self.refuse(
                at,
                message,
                "correct it, or add its CustomResourceDefinition to `objects`",
            );
        }
    }

    fn is_served(&self, section: &informant_config::InformerSection) -> bool {
        let kinds = self.prepared.kinds.kinds();
        kinds.iter().any(|kind| watches(section, kind))
    }

    /// An object that a scenario creates.
    fn given(&mut self, object: &Object, what: &str) {
        let Some(kind) = self.kind(object) else { return };
        let resource = resource_of(&kind);
        // What a grant for an informer covers is watched anyway.
        let is_granted = |spec: &PluginSpec| {
            spec.allow_kube
                .iter()
                .any(|grant| grant.resource.to_string() == resource)
        };
        let is_useful = self.is_watched(&kind) || self.spec().is_some_and(is_granted);
        if !is_useful && !is_definition(object) && resource != "v1/namespaces" {
            let message = format!("`{what}` has an object of {resource}, which no informer of the plugin watches");
            let help = format!(
                "add an informer for it, a grant in `allow.kube`, or remove the object; {}",
                self.watched()
            );
            self.refuse(object.position, message, help);
        }
    }

    fn action(&mut self, action: &Action) {
        match action {
            Action::Apply(objects) => objects.iter().for_each(|object| self.given(object, "apply")),
            Action::Patch(object) => self.given(object, "patch"),
            Action::Delete(about) => drop(self.kind_at(about.position, &about.resource)),
            Action::Requeue(Some(about)) | Action::Trigger(about) => self.asked_for(about),
            Action::Replay(replay) => match &replay.about {
                About::Key(about) => self.asked_for(about),
                About::Object(object) => {
                    if let Some(kind) = self.kind(object) {
                        self.called_for(object.position, &kind, object.namespace.as_deref());
                    }
                }
            },
            Action::Wait(_) | Action::Http(_) | Action::Swap(_) | Action::Timer(_) | Action::Requeue(None) => {}
        }
    }

    /// A call that a step asks for.
    fn asked_for(&mut self, about: &Reference) {
        if let Some(kind) = self.kind_at(about.position, &about.resource) {
            self.called_for(about.position, &kind, Some(&about.namespace));
        }
    }

    /// The handler is called for objects of this kind.
    fn called_for(&mut self, at: FilePosition, kind: &Kind, namespace: Option<&str>) {
        let resource = resource_of(kind);
        if !self.is_watched(kind) {
            let message =
                format!("the handler is never called for {resource}, which no informer of the plugin watches");
            return self.refuse(at, message, self.watched());
        }
        let swaps = !self.prepared.versions.is_empty();
        let Some(rule) = self.prepared.manifest().event_rule(&kind.api_version(), &kind.kind) else {
            // Another version may want it.
            if !swaps {
                let message = format!("the handler is never called for {resource}: its manifest does not ask for it");
                self.refuse(
                    at,
                    message,
                    "add the kind to `events` of the manifest, or correct the expectation",
                );
            }
            return;
        };
        let of_section = self
            .spec()
            .map(|spec| spec.selection.namespaces.clone())
            .unwrap_or_default();
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        let excludes = |namespaces: &[String], namespace: &str| {
            !namespaces.is_empty() && !namespaces.iter().any(|other| other == namespace)
        };
        if let Some(namespace) = namespace
            && !swaps
            && (excludes(&rule.namespaces, namespace) || excludes(&of_section, namespace))
        {
            let message = format!("the handler is never called for the namespace {namespace}");
            let help = "it is not among the `namespaces` of the manifest and of the plugin's section";
            self.refuse(at, message, help);
        }
    }

    fn expect(&mut self, expect: &Expect) {
        for listed in &expect.streams {
            self.stream(listed);
        }
        for object in &expect.objects {
            self.kind(object);
        }
        for about in &expect.absent {
            self.kind_at(about.position, &about.resource);
        }
        for indexed in &expect.indexes {
            self.index(indexed);
        }
        for amount in &expect.metrics {
            self.metric(amount.position, &amount.name);
        }
        if let Some(first) = expect.kv.first().filter(|_| !self.prepared.has_keys) {
            let help = "add a section [state] to config.toml, without which plugins may not use keys";
            self.refuse(first.position, "the plugin can have no keys", help);
        }
    }

    fn stream(&mut self, listed: &Listed) {
        for entry in &listed.entries {
            match listed.stream {
                Stream::Calls => self.call(entry),
                Stream::Writes => self.write(entry),
                Stream::DeadLetters => self.about(entry),
                Stream::Http => self.request(entry),
                Stream::Events => self.event(entry),
                Stream::Log => {}
            }
        }
    }

    fn call(&mut self, entry: &Entry) {
        let call = entry.pattern.get("call").and_then(Value::as_str);
        let role = match call {
            Some("on-add" | "on-update" | "on-delete") => Some(Role::EventHandler),
            Some("reconcile") => Some(Role::Reconciler),
            Some("on-timer") => Some(Role::TimerHandler),
            Some("on-synced") => Some(Role::SyncHandler),
            Some("save" | "restore") => Some(Role::State),
            _ => None,
        };
        let roles = self.prepared.inspection.roles;
        if let (Some(role), Some(call)) = (role, call)
            && !roles.has(role)
            && self.prepared.versions.is_empty()
        {
            let message = format!(
                "{call} is never called: the plugin does not have the role {}",
                role.name()
            );
            return self.refuse(
                entry.position,
                message,
                "export the function, or correct the expectation",
            );
        }
        match (call, entry.pattern.get("object").and_then(Value::as_str)) {
            // It is about a source.
            (Some("on-synced"), Some(resource)) => drop(self.kind_at(entry.position, resource)),
            _ => self.about(entry),
        }
    }

    /// The object of a call or a dead letter.
    fn about(&mut self, entry: &Entry) {
        let Some(object) = entry.pattern.get("object").and_then(Value::as_str) else {
            return;
        };
        let (resource, key) = object.split_once(' ').unwrap_or((object, ""));
        if let Some(kind) = self.kind_at(entry.position, resource) {
            let namespace = key.split_once('/').map(|(namespace, _)| namespace);
            self.called_for(entry.position, &kind, namespace);
        }
    }

    fn write(&mut self, entry: &Entry) {
        let member = |name: &str| entry.pattern.get(name).and_then(Value::as_str);
        let (verb, object) = (member("verb"), member("object"));
        let resource = object.map(|object| object.split(' ').next().unwrap_or_default().to_owned());
        let mut kind = None;
        if let Some(resource) = &resource {
            kind = self.kind_at(entry.position, resource);
            if kind.is_none() {
                return;
            }
        }
        let has_verb = |verbs: &[KubeVerb]| verb.is_none_or(|verb| verbs.iter().any(|other| other.as_str() == verb));
        let informers = &self.prepared.config.informers;
        let is_granted = |spec: &PluginSpec| {
            let by_resource = spec.allow_kube.iter().any(|grant| {
                let is_of = |resource: &String| grant.resource.to_string() == *resource;
                has_verb(&grant.verbs) && resource.as_ref().is_none_or(is_of)
            });
            let by_informer = spec.allow_informers.iter().any(|grant| {
                let is_of = |kind: &Kind| {
                    let resource = GroupVersionResource::new(&kind.group, &kind.version, &kind.plural);
                    let section = informers.get(&grant.informer);
                    section.is_some_and(|section| watches(section, kind)) && grant.of_resource(&resource, &[]).is_some()
                };
                has_verb(&grant.verbs) && kind.as_ref().is_none_or(is_of)
            });
            by_resource || by_informer
        };
        if !self.spec().is_some_and(is_granted) {
            let what = format!(
                "{} {}",
                verb.unwrap_or("writing"),
                resource.as_deref().unwrap_or("anything")
            );
            let message = format!("the plugin may not {what}, so that it is never sent");
            let help = format!(
                "grant it: allow.kube = [{{ resource = \"{}\", verbs = [\"{}\"] }}]",
                resource.as_deref().unwrap_or("v1/pods"),
                verb.unwrap_or("patch")
            );
            self.refuse(entry.position, message, help);
        }
    }

    fn event(&mut self, entry: &Entry) {
        if self.spec().is_some_and(|spec| !spec.allow_events) {
            let help = "grant it: allow.events = true";
            self.refuse(entry.position, "the plugin may not record Kubernetes Events", help);
        }
    }

    fn request(&mut self, entry: &Entry) {
        if self.spec().is_some_and(|spec| spec.allow_http.is_empty()) {
            let help = "grant it: allow.http = [\"https://hooks.example/\"]";
            self.refuse(entry.position, "the plugin may not send HTTP requests", help);
        }
    }

    fn index(&mut self, indexed: &Indexed) {
        let Indexed {
            position,
            informer,
            index,
            ..
        } = indexed;
        let aliases = self.spec().map(|spec| spec.informers.clone()).unwrap_or_default();
        let found = aliases
            .iter()
            .find(|(alias, name)| alias == informer || name == informer);
        let Some((_, name)) = found else {
            let known: Vec<&str> = aliases.iter().map(|(alias, _)| alias.as_str()).collect();
            let help = did_you_mean(informer, &known, "informers");
            return self.refuse(*position, format!("the plugin has no informer {informer}"), help);
        };
        let native = self.prepared.config.informers.get(name).into_iter();
        let native = native.flat_map(|section| section.indexes.iter().map(|(name, _)| name.as_str()));
        let own = self.prepared.manifest().index_names().iter().map(String::as_str);
        let known: Vec<&str> = native.chain(own).chain(["namespace"]).collect();
        if !known.contains(&index.as_str()) {
            let help = did_you_mean(index, &known, "indexes");
            self.refuse(*position, format!("{informer} has no index {index}"), help);
        }
    }

    fn metric(&mut self, at: FilePosition, name: &str) {
        if series::name(name).is_none() {
            let help = "write it as in a query: failures_total{namespace=\"shop\"}";
            return self.refuse(at, format!("{name} is not a series"), help);
        }
        let metric = series::metric_of(name);
        let declared: BTreeSet<&str> = (self.prepared.manifest().metrics.iter())
            .map(|metric| metric.name.as_str())
            .collect();
        if !declared.contains(metric) && self.prepared.versions.is_empty() {
            let known: Vec<&str> = declared.into_iter().collect();
            let message = format!("the plugin's manifest declares no metric {metric}");
            self.refuse(at, message, did_you_mean(metric, &known, "metrics"));
        }
    }
}
