//! What is divided among the replicas: informers and plugins, if `[ha]` has `shards`.
//!
//! ```text
//! plugins that run once ──▶ informers whose objects they all need ──▶ further plugins of these informers
//!          ▲                                                                       │
//!          └───────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! An informer has one cache, which is divided for all of its plugins or for none. So a plugin runs once if it keeps
//! something for all objects, or if an informer of its own is not divided for another reason.

use std::collections::BTreeMap;

use crate::ha::HaSection;
use crate::informer::{InformerSection, ShardKey};
use crate::plugin::PluginSection;
use crate::source::{FilePosition, Located};
use crate::table::Table;

/// `shard-by` of the informers that have it.
pub(crate) type WrittenKeys = BTreeMap<String, Located<Option<ShardKey>>>;

/// How a configuration divides the work among the replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkDivision {
    /// By informer, how; none if it is not divided.
    informers: BTreeMap<String, Option<ShardKey>>,
    /// By plugin, whether each replica calls it for its part.
    plugins: BTreeMap<String, bool>,
}

impl WorkDivision {
    pub(crate) fn of(
        informers: &BTreeMap<String, InformerSection>,
        plugins: &BTreeMap<String, PluginSection>,
    ) -> WorkDivision {
        let informers = informers.iter().map(|(name, section)| (name.clone(), section.shard_by));
        let plugins = plugins
            .iter()
            .map(|(name, section)| (name.clone(), section.spec.is_divided));
        WorkDivision {
            informers: informers.collect(),
            plugins: plugins.collect(),
        }
    }

    /// The first section that both have and that `next` divides otherwise, as `[plugin.x]`. Replicas read a changed
    /// file one after the other, and two of them would call for the same object meanwhile, or none.
    #[must_use]
    pub fn changed(&self, next: &WorkDivision) -> Option<String> {
        let is_other = |of: &Option<&Option<ShardKey>>, key: &Option<ShardKey>| of.is_some_and(|of| of != key);
        let mut informers = self.informers.iter();
        let informer = informers.find(|(name, key)| is_other(&next.informers.get(*name), key));
        let mut plugins = self.plugins.iter();
        let plugin = plugins.find(|(name, divided)| next.plugins.get(*name).is_some_and(|next| next != *divided));
        let informer = informer.map(|(name, _)| format!("[informer.{name}]"));
        informer.or_else(|| plugin.map(|(name, _)| format!("[plugin.{name}]")))
    }
}

/// Sets what is divided, and reports what cannot be. Returns the plugins that run once although the work is divided,
/// each with the reason.
pub(crate) fn divide(
    root: &Table<'_>,
    ha: Option<&HaSection>,
    written: &WrittenKeys,
    informers: &mut BTreeMap<String, InformerSection>,
    plugins: &mut BTreeMap<String, PluginSection>,
) -> BTreeMap<String, String> {
    if !ha.is_some_and(HaSection::is_divided) {
        return BTreeMap::new();
    }
    let work = Work::new(written, informers, plugins);
    work.refuse_keys(root);
    work.refuse_mixed_keys(root);
    let (keys, once) = (work.keys(), work.reasons());
    for (name, section) in informers {
        section.shard_by = keys.get(name).copied();
    }
    for (name, section) in plugins {
        section.spec.is_divided = !once.contains_key(name);
    }
    once
}

/// The sections, and what follows from them.
struct Work<'c> {
    written: &'c WrittenKeys,
    informers: &'c BTreeMap<String, InformerSection>,
    plugins: &'c BTreeMap<String, PluginSection>,
    /// The plugins that run once, each with the reason: one that names another plugin is behind it.
    once: Vec<(&'c str, String)>,
}

/// Why the objects of an informer are not divided.
enum Whole<'w> {
    Durable,
    /// `shard-by = "none"`.
    Written,
    /// By a plugin that runs once, for a reason of its own.
    Needed(&'w str, &'w str),
}

impl<'c> Work<'c> {
    fn new(
        written: &'c WrittenKeys,
        informers: &'c BTreeMap<String, InformerSection>,
        plugins: &'c BTreeMap<String, PluginSection>,
    ) -> Work<'c> {
        let mut work = Work {
            written,
            informers,
            plugins,
            once: Vec::new(),
        };
        loop {
            let found = work.further_once();
            if found.is_empty() {
                return work;
            }
            work.once.extend(found);
        }
    }

    /// The plugins that run once because of what is known so far.
    fn further_once(&self) -> Vec<(&'c str, String)> {
        let others = self.plugins.iter().filter(|(name, _)| !self.runs_once(name));
        let found = others.filter_map(|(name, section)| Some((name.as_str(), self.why_once(section)?)));
        found.collect()
    }

    fn runs_once(&self, plugin: &str) -> bool {
        self.once.iter().any(|(once, _)| *once == plugin)
    }

    fn why_once(&self, section: &PluginSection) -> Option<String> {
        let mut informers = section.informers();
        let of_informers = || informers.find_map(|(name, _)| Some(self.whole(name)?.reason(name)));
        section.runs_once.map(str::to_owned).or_else(of_informers)
    }

    /// Why an informer is not divided, as far as the plugins that run once are known.
    fn whole(&self, informer: &str) -> Option<Whole<'_>> {
        let section = self.informers.get(informer)?;
        if section.durable.is_some() {
            return Some(Whole::Durable);
        }
        let written = self.written.get(informer);
        if written.is_some_and(|written| written.value.is_none()) {
            return Some(Whole::Written);
        }
        let mut once = self.once.iter();
        let (plugin, why) = once.find(|(plugin, _)| self.uses(plugin, informer))?;
        Some(Whole::Needed(plugin, why))
    }

    fn uses(&self, plugin: &str, informer: &str) -> bool {
        let section = self.plugins.get(plugin);
        section.is_some_and(|section| section.informers().any(|(name, _)| name == informer))
    }

    /// How an informer is divided. One without plugins is not, unless its section demands it.
    fn key(&self, informer: &str) -> Option<ShardKey> {
        let section = self.informers.get(informer)?;
        if self.whole(informer).is_some() {
            return None;
        }
        let is_used = || self.plugins.keys().any(|plugin| self.uses(plugin, informer));
        let key = match self.written.get(informer) {
            Some(written) => written.value?,
            None => is_used().then_some(ShardKey::Namespace)?,
        };
        // The name of a namespace is the namespace of what it contains.
        Some(match section.resource.value.is_namespaces() {
            true => ShardKey::Namespace,
            false => key,
        })
    }

    fn keys(&self) -> BTreeMap<String, ShardKey> {
        let keys = self.informers.keys().map(|name| (name.clone(), self.key(name)));
        keys.filter_map(|(name, key)| Some((name, key?))).collect()
    }

    fn reasons(&self) -> BTreeMap<String, String> {
        let reasons = self.once.iter().map(|(name, why)| ((*name).to_owned(), why.clone()));
        reasons.collect()
    }

    /// Refuses `shard-by` of informers that cannot be divided.
    fn refuse_keys(&self, root: &Table<'_>) {
        for (informer, written) in self.written {
            let (Some(key), Some(whole)) = (written.value, self.whole(informer)) else {
                continue;
            };
            let (why, help) = match whole {
                Whole::Written => continue,
                Whole::Durable => (
                    format!("[informer.{informer}] is durable, and one replica keeps its state"),
                    "remove `shard-by` or `durable`".to_owned(),
                ),
                Whole::Needed(plugin, why) => (
                    format!("[plugin.{plugin}] uses [informer.{informer}] and runs once: {why}"),
                    format!("remove `shard-by`, or let [plugin.{plugin}] use an informer of its own"),
                ),
            };
            let message = format!("`shard-by` cannot be \"{}\": {why}", key.as_str());
            root.refuse(written.position, message, help);
        }
    }

    /// Refuses plugins whose informers are divided differently: related objects would be in different replicas.
    fn refuse_mixed_keys(&self, root: &Table<'_>) {
        for (plugin, section) in self.plugins.iter().filter(|(name, _)| !self.runs_once(name)) {
            let informers = section.informers();
            let mut divided = informers.filter_map(|(name, position)| Some((name, position, self.key(name)?)));
            let Some((first, _, key)) = divided.next() else {
                continue;
            };
            if let Some((other, position, other_key)) = divided.find(|(_, _, other)| *other != key) {
                self.refuse_pair(root, plugin, [(first, key), (other, other_key)], position);
            }
        }
    }

    fn refuse_pair(&self, root: &Table<'_>, plugin: &str, pair: [(&str, ShardKey); 2], position: FilePosition) {
        let [one, other] = pair.map(|(informer, key)| format!("[informer.{informer}] by {}", key.as_str()));
        let message = format!("[plugin.{plugin}] has informers that are divided differently: {one}, {other}");
        let has_namespaces = |name: &str| {
            let section = self.informers.get(name);
            section.is_some_and(|section| section.resource.value.is_namespaces())
        };
        let by_name = pair.iter().find(|(_, key)| *key == ShardKey::Name);
        let help = match by_name.filter(|_| pair.iter().any(|(name, _)| has_namespaces(name))) {
            Some((name, _)) => format!(
                "namespaces are where the objects in them are: set shard-by = \"namespace\" for [informer.{name}], or \
                 run-once = true in [plugin.{plugin}]"
            ),
            None => format!("set the same `shard-by` for both, or run-once = true in [plugin.{plugin}]"),
        };
        root.refuse(position, message, help);
    }
}

impl Whole<'_> {
    /// Why a plugin of this informer runs once.
    fn reason(&self, informer: &str) -> String {
        match self {
            Whole::Durable => format!("[informer.{informer}] is durable"),
            Whole::Written => format!("[informer.{informer}] has shard-by = \"none\""),
            Whole::Needed(plugin, _) => format!("[informer.{informer}] is used by [plugin.{plugin}], which runs once"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Problems, SourceFile};

    const SHARDS: &str = "[ha]\nshards = 4\n";

    fn parse(sections: &[String]) -> Result<Config, Problems> {
        Config::parse(&SourceFile::new("config.toml", sections.concat()))
    }

    fn refusal(sections: &[String]) -> String {
        parse(sections).unwrap_err().to_string()
    }

    fn ha() -> String {
        SHARDS.to_owned()
    }

    fn informer(name: &str, keys: &str) -> String {
        format!("[informer.{name}]\nresource = \"v1/{name}\"\n{keys}\n")
    }

    fn plugin(name: &str, informers: &str, keys: &str) -> String {
        format!("[plugin.{name}]\nscript = \"{name}.js\"\ninformers = [{informers}]\n{keys}\n")
    }

    /// How each informer is divided, and each plugin, or why it is not.
    fn divided(sections: &[String]) -> String {
        let config = parse(sections).unwrap();
        let key = |section: &InformerSection| section.shard_by.map_or("none", ShardKey::as_str);
        let informers = config.informers.iter();
        let informers = informers.map(|(name, section)| format!("informer {name}: {}", key(section)));
        let plugins = config.plugins.iter().map(|(name, section)| {
            let why = config.runs_once().get(name);
            assert_ne!(section.spec.is_divided, why.is_some(), "{name}");
            format!("plugin {name}: {}", why.map_or("divided", String::as_str))
        });
        informers.chain(plugins).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn informers_of_plugins_are_divided_by_namespace() {
        let sections = [
            ha(),
            informer("nodes", ""),
            informer("pods", ""),
            informer("secrets", "shard-by = \"name\""),
            informer("services", "shard-by = \"name\""),
            plugin("a", "\"pods\"", ""),
            plugin("b", "\"services\"", ""),
        ];
        insta::assert_snapshot!(divided(&sections), @r"
        informer nodes: none
        informer pods: namespace
        informer secrets: name
        informer services: name
        plugin a: divided
        plugin b: divided
        ");
    }

    #[test]
    fn nothing_is_divided_without_shards() {
        for ha in ["", "[ha]\n"] {
            let sections = [
                ha.to_owned(),
                informer("jobs", "durable = \"metadata\"\nshard-by = \"name\""),
                informer("pods", "shard-by = \"namespace\""),
                informer("services", "shard-by = \"none\""),
                plugin("a", "\"jobs\", \"pods\"", ""),
                plugin("b", "\"services\"", "run-once = true"),
            ];
            let config = parse(&sections).unwrap();
            assert!(config.informers.values().all(|section| section.shard_by.is_none()));
            assert!(config.plugins.values().all(|section| !section.spec.is_divided));
            assert_eq!((config.runs_once().len(), config.warnings.len()), (0, 0), "{ha}");
        }
    }

    /// So that a group can return to one shard: until then, its replicas hold some of several.
    #[test]
    fn one_shard_divides_as_several_do() {
        let ha = "[ha]\nshards = 1\n".to_owned();
        insta::assert_snapshot!(divided(&[ha, informer("pods", ""), plugin("a", "\"pods\"", "")]), @r"
        informer pods: namespace
        plugin a: divided
        ");
    }

    #[test]
    fn plugins_that_need_all_objects_run_once() {
        let sections = [
            ha(),
            informer("configmaps", ""),
            informer("jobs", "durable = \"metadata\""),
            informer("nodes", "shard-by = \"none\""),
            informer("pods", ""),
            informer("secrets", ""),
            informer("services", ""),
            plugin("cron", "", ""),
            plugin("drain", "\"nodes\"", ""),
            plugin("keys", "\"secrets\"", "limits.kv = \"4KiB\""),
            plugin("once", "\"configmaps\"", "run-once = true"),
            plugin("stored", "\"jobs\"", ""),
            plugin("timed", "\"services\"", "timers.poll = { every = \"1m\" }"),
            plugin("web", "\"pods\"", "run-once = false"),
        ];
        insta::assert_snapshot!(divided(&sections), @r#"
        informer configmaps: none
        informer jobs: none
        informer nodes: none
        informer pods: namespace
        informer secrets: none
        informer services: none
        plugin cron: it has no informers
        plugin drain: [informer.nodes] has shard-by = "none"
        plugin keys: it has `limits.kv`
        plugin once: `run-once` is set
        plugin stored: [informer.jobs] is durable
        plugin timed: it has timers
        plugin web: divided
        "#);
    }

    #[test]
    fn plugins_that_share_an_informer_run_once_together() {
        let sections = [
            ha(),
            informer("a", ""),
            informer("b", ""),
            informer("c", ""),
            informer("d", ""),
            plugin("first", "\"b\", \"c\"", ""),
            plugin("second", "\"a\", \"b\"", ""),
            plugin("third", "\"a\"", "run-once = true"),
            plugin("fourth", "\"d\"", ""),
        ];
        insta::assert_snapshot!(divided(&sections), @r"
        informer a: none
        informer b: none
        informer c: none
        informer d: namespace
        plugin first: [informer.b] is used by [plugin.second], which runs once
        plugin fourth: divided
        plugin second: [informer.a] is used by [plugin.third], which runs once
        plugin third: `run-once` is set
        ");
    }

    #[test]
    fn informer_of_a_plugin_that_runs_once_cannot_be_divided() {
        let sections = [
            ha(),
            informer("pods", "shard-by = \"namespace\""),
            plugin("a", "\"pods\"", ""),
            plugin("z", "\"pods\"", "timers.poll = { every = \"1m\" }"),
        ];
        insta::assert_snapshot!(refusal(&sections), @r#"
        error: config.toml:5:12: `shard-by` cannot be "namespace": [plugin.z] uses [informer.pods] and runs once: it has timers
          help: remove `shard-by`, or let [plugin.z] use an informer of its own
        "#);
    }

    #[test]
    fn durable_informer_cannot_be_divided() {
        let keys = "durable = \"metadata\"\nshard-by = \"name\"";
        insta::assert_snapshot!(refusal(&[ha(), informer("jobs", keys)]), @r#"
        error: config.toml:6:12: `shard-by` cannot be "name": [informer.jobs] is durable, and one replica keeps its state
          help: remove `shard-by` or `durable`
        "#);
    }

    #[test]
    fn informers_of_a_plugin_are_divided_alike() {
        let sections = [
            ha(),
            informer("pods", "shard-by = \"name\""),
            informer("services", ""),
            plugin("web", "\"pods\", \"services\"", ""),
        ];
        insta::assert_snapshot!(refusal(&sections), @r"
        error: config.toml:11:22: [plugin.web] has informers that are divided differently: [informer.pods] by name, [informer.services] by namespace
          help: set the same `shard-by` for both, or run-once = true in [plugin.web]
        ");
        let [ha, pods, services, _] = sections;
        let once = plugin("web", "\"services\"", "run-once = true");
        assert!(parse(&[ha, pods, services, once]).is_ok());
    }

    #[test]
    fn namespaces_are_divided_as_the_objects_in_them() {
        let sections = |of_namespaces: &str, of_pods: &str| {
            let informers = [informer("namespaces", of_namespaces), informer("pods", of_pods)];
            [ha(), informers.concat(), plugin("web", "\"namespaces\", \"pods\"", "")]
        };
        insta::assert_snapshot!(divided(&sections("shard-by = \"name\"", "")), @r"
        informer namespaces: namespace
        informer pods: namespace
        plugin web: divided
        ");
        insta::assert_snapshot!(refusal(&sections("", "shard-by = \"name\"")), @r#"
        error: config.toml:11:28: [plugin.web] has informers that are divided differently: [informer.namespaces] by namespace, [informer.pods] by name
          help: namespaces are where the objects in them are: set shard-by = "namespace" for [informer.pods], or run-once = true in [plugin.web]
        "#);
    }

    #[test]
    fn running_process_divides_the_work_until_its_restart() {
        let text = |ha: &str, more: &str| {
            let sections = [
                ha.to_owned(),
                informer("pods", ""),
                plugin("web", "\"pods\"", ""),
                more.to_owned(),
            ];
            SourceFile::new("config.toml", sections.concat())
        };
        for (running, file) in [("[ha]\n", SHARDS), (SHARDS, "[ha]\n"), (SHARDS, "")] {
            let running = Config::parse(&text(running, "")).unwrap();
            let next = Config::parse_for(&text(file, ""), running.ha.as_ref()).unwrap();
            assert_eq!(next.work_division(), running.work_division());
            assert_eq!(next.ha, Config::parse(&text(file, "")).unwrap().ha);
            // One that runs once does so: what it uses is divided otherwise then.
            let once = text(file, &plugin("once", "\"pods\"", "run-once = true"));
            let next = Config::parse_for(&once, running.ha.as_ref()).unwrap();
            let changed = running.work_division().changed(&next.work_division());
            assert_eq!(
                changed.is_some(),
                running.ha.is_some_and(|ha| ha.is_divided()),
                "{changed:?}"
            );
        }
    }

    #[test]
    fn sections_that_are_divided_otherwise_are_found() {
        let division = |ha: &str, pods: &str, web: &str, more: &str| {
            let sections = [
                ha.to_owned(),
                informer("pods", pods),
                plugin("web", "\"pods\"", web),
                more.to_owned(),
            ];
            parse(&sections).unwrap().work_division()
        };
        let before = division(SHARDS, "", "", "");
        let changed = |next: &WorkDivision| before.changed(next);
        assert_eq!(
            changed(&division(
                SHARDS,
                "resync = \"1h\"",
                "max-rate = \"5/s\"",
                &informer("nodes", "")
            )),
            None
        );
        let by_name = division(SHARDS, "shard-by = \"name\"", "", "");
        assert_eq!(changed(&by_name).as_deref(), Some("[informer.pods]"));
        let once = division(SHARDS, "", "run-once = true", "");
        assert_eq!(changed(&once).as_deref(), Some("[informer.pods]"));
        assert_eq!(
            changed(&division("[ha]\n", "", "", "")).as_deref(),
            Some("[informer.pods]")
        );
    }

    #[test]
    fn unknown_shard_key_comes_with_the_known_ones() {
        insta::assert_snapshot!(refusal(&[informer("pods", "shard-by = \"label\"")]), @r#"
        error: config.toml:3:12: `shard-by` cannot be "label"
          help: possible values: `namespace`, `name`, `none`
        "#);
    }
}
