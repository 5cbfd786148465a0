//! Starts the plugin of a scenario: the sources that it watches, their indexes, and the first calls.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};

use super::config::Informer;
use super::format::{Scenario, bytes_of};
use super::requests::{self, Requests};
use super::run::{Call, Run, state_of};
use super::yaml::Read;
use crate::event::{Reason, SourceId};
use crate::failure::Result;
use crate::testing::cache::Cache;
use crate::testing::cluster::resource_of;
use crate::testing::driver::{Driver, type_of};
use crate::testing::exported::{AnyRole, Exported, Roles};
use crate::testing::instance::instance;
use crate::testing::projection::values_at;

const NO_STATE: &str = "kv needs the state database; add this line to config.toml: [state]";
const NO_EVENTS: &str =
    "not granted: add `events: true` to `allow` of the plugin's section in `config` of the scenario";
const NO_KUBE: &str = "not granted: add allow.kube to the plugin's section in `config` of the scenario";

impl<'s, P: Exported> Run<'s, P> {
    /// Starts the plugin, and makes its first calls. The inner error is that of a plugin that is refused.
    pub(super) fn start(scenario: &'s Scenario) -> Read<Result<Self>> {
        let requests = Rc::new(RefCell::new(Requests::default()));
        requests.borrow_mut().answers.clone_from(&scenario.answers);
        let cache = Cache::new();
        for (key, value) in &scenario.kv {
            cache.remember(key, Some(&bytes_of(value)));
        }
        if scenario.plugin.lacks_kv {
            cache.refuse_keys(NO_STATE);
        }
        if !scenario.plugin.allows_kube {
            cache.refuse_kube(NO_KUBE);
        }
        if !scenario.plugin.allows_events {
            cache.refuse_events(NO_EVENTS);
        }
        match scenario.plugin.allows_http {
            true => cache.serve({
                let requests = requests.clone();
                move |request| requests.borrow_mut().answer(request)
            }),
            false => cache.serve(requests::deny),
        }
        let mut driver = match Driver::start_in(cache, context(scenario, "events", "start")) {
            Ok(driver) => driver,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let roles = P::roles();
        if roles.reconciles {
            return scenario.root.needs_informant("a reconciler");
        }
        if let Err(refusal) = start_indexer(scenario, &roles, &mut driver) {
            return Ok(Err(refusal));
        }
        let mut run = Self {
            scenario,
            driver,
            roles,
            watched: Vec::new(),
            requests,
            dead_letters: Vec::new(),
            delayed: BTreeMap::new(),
            now: Duration::ZERO,
            indexed: Rc::default(),
        };
        let sources = run.watch()?;
        run.validate()?;
        for object in &scenario.objects {
            run.apply(object, Reason::Initial)?;
        }
        let sources = sources.into_iter().filter(|_| run.roles.sync.is_some());
        for source in sources.collect::<Vec<_>>() {
            run.make(&(source.0, String::new(), String::new()), Call::Synced, 0, 0);
            run.settle()?;
        }
        Ok(Ok(run))
    }

    /// Adds the sources of `config`, and those of the kinds in the manifest. Returns those that the plugin watches.
    fn watch(&mut self) -> Read<Vec<SourceId>> {
        let owned = |(version, kind): (&str, &str)| (version.to_owned(), kind.to_owned());
        let rules: Vec<(String, String)> = self.driver.manifest.event_types().map(owned).collect();
        let scenario = self.scenario;
        let types = scenario.written().map(|object| owned(type_of(&object.value)));
        let types: Vec<(String, String)> = rules.iter().cloned().chain(types).collect();
        let wanted = scenario.plugin.informers.as_ref().and_then(Value::as_array);
        let mut sources = Vec::new();
        for informer in &scenario.informers {
            if wanted.is_some_and(|wanted| !wanted.iter().any(|name| *name == informer.name)) {
                continue;
            }
            let resource = informer.resource.text()?;
            let is_its = |(version, kind): &&(String, String)| resource_of(version, kind) == resource;
            let Some(found) = types.iter().find(is_its) else {
                let what = format!("a resource that no object of the scenario has ({resource})");
                return informer.resource.needs_informant(what);
            };
            sources.push(self.driver.cache.source(&informer.name, &found.0, &found.1));
            self.watched.push(found.clone());
            self.add_indexes(informer);
        }
        for found in rules {
            if found.0 != "*" && found.1 != "*" && !self.watched.contains(&found) {
                let name = resource_of("", &found.1).trim_start_matches('/').to_owned();
                sources.push(self.driver.cache.source(&name, &found.0, &found.1));
                self.watched.push(found);
                self.add_own_indexes(&name);
            }
        }
        let of_handlers = self.roles.events.map(|_| self.watched.clone());
        self.driver.watched = Some(of_handlers.unwrap_or_default());
        Ok(sources)
    }

    fn add_indexes(&self, informer: &Informer) {
        for (index, pointer) in &informer.indexes {
            let pointer = pointer.clone();
            let values = move |object: &Value| values_at(object, &pointer);
            self.driver.cache.index(&informer.name, index, values);
        }
        self.add_own_indexes(&informer.name);
    }

    /// The indexes of the plugin: their values are computed between the calls of handlers.
    fn add_own_indexes(&self, informer: &str) {
        for index in self.driver.manifest.index_names() {
            let (indexed, name) = (self.indexed.clone(), index.clone());
            let values = move |object: &Value| {
                let all = indexed.borrow();
                let values = all.get(&state_of(object)).map(|values| values.values(&name));
                values.unwrap_or_default().to_vec()
            };
            self.driver.cache.index(informer, index, values);
        }
    }
}

/// Starts the instance for index functions, if there are some.
pub(super) fn start_indexer<P: Exported>(
    scenario: &Scenario,
    roles: &Roles<P>,
    driver: &mut Driver<AnyRole<P>>,
) -> Result {
    if roles.index.is_some() {
        let (_, indexer) = instance::<AnyRole<P>>(&driver.cache, context(scenario, "index", "start"))?;
        driver.plugin.indexer = Some(indexer.plugin);
    }
    Ok(())
}

pub(super) fn context(scenario: &Scenario, role: &str, because: &str) -> Value {
    let plugin = &scenario.plugin;
    let (name, config) = (plugin.name.as_deref().unwrap_or("test"), plugin.config.clone());
    json!({
        "plugin": name, "config": config.unwrap_or_else(|| json!({})), "logLevel": "info",
        "role": role, "because": because,
    })
}
