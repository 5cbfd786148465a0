//! Refuses expectations that can never match, and objects that nothing would notice.

use serde_json::{Map, Value};

use super::entries::Listed;
use super::format::{Action, Check, Object};
use super::run::Run;
use super::yaml::{Node, Read};
use crate::testing::cluster::resource_of;
use crate::testing::driver::unknown_timer;
use crate::testing::exported::Exported;

/// They may exist without an informer.
const DEFINITIONS: [&str; 2] = ["apiextensions.k8s.io/v1/customresourcedefinitions", "v1/namespaces"];

impl<P: Exported> Run<'_, P> {
    pub(super) fn validate(&self) -> Read<()> {
        let mut written = self.scenario.written();
        written.try_for_each(|object| self.validate_object(object))?;
        for (node, action) in self.scenario.steps.iter().filter_map(|step| step.action.as_ref()) {
            if let Action::Timer(name) = action {
                self.validate_function(node, "on-timer")?;
                self.validate_timer(node, name)?;
            }
        }
        let expects = self.scenario.steps.iter().filter_map(|step| step.expect.as_ref());
        let mut checks = expects.flat_map(|expect| &expect.checks);
        checks.try_for_each(|(node, check)| self.validate_check(node, check))
    }

    fn is_watched(&self, resource: &str) -> bool {
        self.watched
            .iter()
            .any(|(version, kind)| resource_of(version, kind) == resource)
    }

    fn validate_object(&self, object: &Object) -> Read<()> {
        let resource = object.at.resource.as_str();
        match self.is_watched(resource) || self.scenario.plugin.allows_kube || DEFINITIONS.contains(&resource) {
            true => Ok(()),
            false => object.node.fail(format_args!(
                "no informer of the plugin watches {resource}, and allow.kube does not cover it: add one of both to \
                 `config`, or remove the object"
            )),
        }
    }

    fn validate_check(&self, node: &Node, check: &Check) -> Read<()> {
        match check {
            Check::List(listed) => self.validate_list(listed),
            Check::Metric(series) => {
                let mut metrics = self.driver.manifest.metrics().iter();
                match metrics.any(|metric| series.suffix_of(&metric.name, metric.kind).is_some()) {
                    true => Ok(()),
                    false => node.fail(format_args!(
                        "the manifest declares no metric {}; a counter ends in _total, and a histogram has _count, \
                         _sum and _bucket",
                        series.name()
                    )),
                }
            }
            Check::Index { informer, index, .. } => match self.driver.cache.indexed(informer, index) {
                None => node.fail(format_args!("the plugin has no informer {informer}")),
                Some(None) => node.fail(format_args!(
                    "neither the manifest nor informer.{informer}.index in `config` declares the index {index}"
                )),
                Some(Some(_)) => Ok(()),
            },
            Check::Object(_) | Check::Absent(_) | Check::Kv(_) => Ok(()),
        }
    }

    fn validate_list(&self, listed: &Listed) -> Read<()> {
        let plugin = &self.scenario.plugin;
        let mut entries = listed.entries.iter();
        let needs = match listed.name.as_str() {
            "calls" => return entries.try_for_each(|(node, call)| self.validate_call(node, call)),
            "events" if !plugin.allows_events => "allow.events",
            "http" if !plugin.allows_http => "allow.http",
            "writes" if !plugin.allows_kube => "allow.kube",
            _ => return Ok(()),
        };
        match entries.next() {
            None => Ok(()),
            Some((node, _)) => node.fail(format_args!(
                "nothing grants this: add {needs} to `config` of the scenario"
            )),
        }
    }

    fn validate_call(&self, node: &Node, call: &Map<String, Value>) -> Read<()> {
        let text = |member: &str| call.get(member).and_then(Value::as_str);
        if let Some(name) = text("call") {
            self.validate_function(node, name)?;
        }
        if let Some(timer) = text("timer") {
            self.validate_timer(node, timer)?;
        }
        let resource = text("object").and_then(|object| object.split(' ').next());
        match resource.filter(|resource| !self.is_watched(resource)) {
            None => Ok(()),
            Some(resource) => node.fail(format_args!(
                "no informer of the plugin watches {resource}: add one to `config`, or a rule to the manifest"
            )),
        }
    }

    fn validate_function(&self, node: &Node, call: &str) -> Read<()> {
        match self.has_function(call) {
            true => Ok(()),
            false => node.fail(format_args!(
                "the plugin has no function for {call}: add its role to `export!`"
            )),
        }
    }

    fn validate_timer(&self, node: &Node, name: &str) -> Read<()> {
        let known = self.driver.manifest.timer_names();
        match known.contains(&name) {
            true => Ok(()),
            false => node.fail(unknown_timer(name, &known)),
        }
    }

    fn has_function(&self, call: &str) -> bool {
        match call {
            "on-synced" => self.roles.sync.is_some(),
            "on-timer" => self.roles.timers.is_some(),
            "save" | "restore" => self.roles.save.is_some(),
            _ => self.roles.events.is_some(),
        }
    }
}
