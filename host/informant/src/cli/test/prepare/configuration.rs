//! The configuration of a scenario: a config.toml as it is, or one that is completed from the plugin's manifest.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use informant_apiserver::{ApiServer, Kind};
use informant_config::{Config, InformerSection, Problem, Problems, Resources, ScriptRunnersSection, SourceFile};
use informant_plugin_host::{Inspection, Manifest, ReconcilerRules};
use informant_spec::{Content, GroupVersionResource, ResourceName};
use serde_json::{Map, Value, json};

use crate::cli::inspect::OfPlugin;
use crate::cli::test::scenario::{Configured, Scenario};
use crate::cli::test::world::resource_of;
use crate::config_file;

/// Every apiVersion or kind, in a manifest.
const ANY: &str = "*";

/// The name of a plugin whose manifest has none that a section can have.
const PLUGIN: &str = "plugin";

/// A configuration that may lack what the manifest says.
pub(super) struct Draft {
    of: DraftOf,
    pub(super) runners: ScriptRunnersSection,
    /// The component or script that the plugin's section names.
    pub(super) file: Option<PathBuf>,
}

enum DraftOf {
    File {
        config: Box<Config>,
        plugin: String,
    },
    /// As in the scenario; the name of the section, if there is one.
    Inline {
        config: Value,
        plugin: Option<String>,
    },
}

impl Draft {
    /// # Errors
    /// `Problems` if the configuration is wrong.
    pub(super) fn of(scenario: &Scenario) -> Result<Draft> {
        match &scenario.config {
            Configured::File(path, _) => Draft::of_file(scenario, config_file::load(path)?),
            Configured::Inline(config, _) => Draft::of_inline(scenario, config.clone()),
            Configured::Derived => Draft::of_inline(scenario, json!({})),
        }
    }

    fn of_file(scenario: &Scenario, config: Config) -> Result<Draft> {
        let names: Vec<&str> = config.plugins.keys().map(String::as_str).collect();
        let shown = config.path.display().to_string();
        let plugin = one_of(scenario, &names, &shown)?.with_context(|| format!("{shown} has no [plugin.NAME]"))?;
        ensure!(
            !config.has_named_clusters(),
            "{shown} has several clusters, but a scenario has one: name another config.toml, or write `config` as YAML"
        );
        let file = config
            .plugins
            .get(&plugin)
            .map(|section| section.spec.content.path().to_owned());
        Ok(Draft {
            runners: config.script_runners.clone(),
            file,
            of: DraftOf::File {
                config: Box::new(config),
                plugin,
            },
        })
    }

    fn of_inline(scenario: &Scenario, config: Value) -> Result<Draft> {
        let sections = config.get("plugin").and_then(Value::as_object);
        let names: Vec<&str> = sections.into_iter().flat_map(Map::keys).map(String::as_str).collect();
        let plugin = one_of(scenario, &names, "`config`")?.or(scenario.plugin.clone());
        let section = plugin.as_ref().and_then(|plugin| config.get("plugin")?.get(plugin));
        let file = section.and_then(|section| section.get("script").or(section.get("component"))?.as_str());
        let file = file.map(|file| scenario.folder().join(file));
        // Only runners are needed before the manifest is known.
        let runners = json!({ "script-runners": config.get("script-runners").cloned().unwrap_or(json!({})) });
        let runners = parse(scenario, &runners)?.script_runners;
        Ok(Draft {
            runners,
            file,
            of: DraftOf::Inline { config, plugin },
        })
    }

    /// What `describe` receives, and the runners of scripts.
    pub(super) fn of_plugin(&self) -> OfPlugin {
        let found = match &self.of {
            DraftOf::File { config, plugin } => config.plugins.get(plugin).map(|section| section.spec.config.clone()),
            DraftOf::Inline { config, plugin } => {
                let section = plugin.as_ref().and_then(|plugin| config.get("plugin")?.get(plugin));
                section.and_then(|section| section.get("config")).cloned()
            }
        };
        OfPlugin {
            config: found.unwrap_or_else(|| json!({})),
            runners: self.runners.clone(),
        }
    }

    /// The name of the plugin's section, the configuration with that plugin alone, and the text of all of it.
    ///
    /// # Errors
    /// `Problems` if the configuration is wrong.
    pub(super) fn complete(
        self,
        scenario: &Scenario,
        content: &Content,
        inspection: &Inspection,
        kinds: &ApiServer,
    ) -> Result<(String, Config, String)> {
        let (plugin, mut config, text) = match self.of {
            DraftOf::File { config, plugin } => {
                let text = text_of(&config)?;
                (plugin, *config, text)
            }
            DraftOf::Inline { config, plugin } => {
                let name = plugin.unwrap_or_else(|| name_of(&inspection.manifest));
                let config = completed(scenario, config, &name, (content, inspection, kinds))?;
                (name, parse(scenario, &config)?, toml_of(&config))
            }
        };
        config.plugins.retain(|name, _| *name == plugin);
        let section = config
            .plugins
            .get(&plugin)
            .with_context(|| format!("there is no [plugin.{plugin}]"))?;
        let used: Vec<String> = section.informers().map(|(name, _)| name.to_owned()).collect();
        config.informers.retain(|name, _| used.contains(name));
        for informer in config.informers.values_mut() {
            informer.durable = None;
        }
        Ok((plugin, config, text))
    }
}

/// The plugin to test among `names`: the one that the scenario names, or the only one.
fn one_of(scenario: &Scenario, names: &[&str], of: &str) -> Result<Option<String>> {
    match (&scenario.plugin, names) {
        (Some(wanted), names) => {
            ensure!(
                names.is_empty() || names.contains(&wanted.as_str()),
                "{}: {of} has no [plugin.{wanted}], but: {}",
                scenario.file.path().display(),
                names.join(", ")
            );
            Ok(Some(wanted.clone()).filter(|_| !names.is_empty()))
        }
        (None, []) => Ok(None),
        (None, [only]) => Ok(Some((*only).to_owned())),
        (None, several) => anyhow::bail!(
            "{}: {of} has several plugins: choose one with `plugin: NAME` ({})",
            scenario.file.path().display(),
            several.join(", ")
        ),
    }
}

fn name_of(manifest: &Manifest) -> String {
    match informant_config::validate_name(&manifest.name) {
        Ok(()) => manifest.name.clone(),
        Err(_) => PLUGIN.to_owned(),
    }
}

/// A configuration with what the manifest says.
fn completed(
    scenario: &Scenario,
    mut config: Value,
    plugin: &str,
    (content, inspection, kinds): (&Content, &Inspection, &ApiServer),
) -> Result<Value> {
    let key = if content.language().is_script() {
        "script"
    } else {
        "component"
    };
    let before = config.clone();
    let section = &mut member(member(&mut config, "plugin"), plugin);
    let lacks_file = section.get("script").is_none() && section.get("component").is_none();
    if lacks_file {
        section[key] = content.origin().path().display().to_string().into();
    }
    let defined: Vec<String> = (before.get("informer").and_then(Value::as_object).into_iter())
        .flat_map(|informers| informers.keys().cloned())
        .collect();
    if section.get("informers").is_none() {
        section["informers"] = json!(defined);
    }
    let watched = watched_by(scenario, &before, section, &defined)?;
    for resource in missing(scenario, inspection, kinds, &watched)? {
        add_informer(&mut config, plugin, &resource);
    }
    Ok(config)
}

/// The sections of the informers that the plugin names.
fn watched_by(
    scenario: &Scenario,
    config: &Value,
    section: &Value,
    defined: &[String],
) -> Result<Vec<InformerSection>> {
    if defined.is_empty() {
        return Ok(Vec::new());
    }
    let informers = parse(scenario, &json!({ "informer": config.get("informer") }))?.informers;
    let named: Vec<&str> = match &section["informers"] {
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        Value::Object(aliases) => aliases.values().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let is_named = |(name, _): &(String, InformerSection)| named.contains(&name.as_str());
    Ok(informers
        .into_iter()
        .filter(is_named)
        .map(|(_, section)| section)
        .collect())
}

/// The resources that the manifest wants and no informer watches.
fn missing(
    scenario: &Scenario,
    inspection: &Inspection,
    kinds: &ApiServer,
    watched: &[InformerSection],
) -> Result<Vec<String>> {
    let manifest = &inspection.manifest;
    let of_indexes = manifest.indexes.iter().flat_map(|indexes| &indexes.objects);
    let of_indexes = of_indexes.map(|rule| (&rule.api_version, &rule.kind));
    let related = manifest.reconciler.iter().flat_map(ReconcilerRules::related);
    let related = related.map(|(rule, _)| (&rule.api_version, &rule.kind));
    let wants_events = inspection.roles.wants_events();
    let wanted = manifest.events.iter().filter(|_| wants_events);
    let wanted = wanted.map(|rule| (&rule.api_version, &rule.kind)).chain(related);
    let mut missing = Vec::new();
    for (api_version, kind) in wanted.chain(of_indexes) {
        if api_version == ANY || kind == ANY {
            continue;
        }
        let found = kinds.kind_of(api_version, kind).with_context(|| {
            format!(
                "{}: the plugin's manifest wants {api_version} {kind}, which the API server of scenarios does not have: \
                 add its CustomResourceDefinition to `objects`",
                scenario.file.path().display()
            )
        })?;
        let resource = resource_of(&found);
        if !watched.iter().any(|section| watches(section, &found)) && !missing.contains(&resource) {
            missing.push(resource);
        }
    }
    ensure!(
        !watched.is_empty() || !missing.is_empty() || !wants_events,
        "{}: the plugin's manifest wants objects of every kind: name informers, as in `config: {{ informer: {{ pods: {{ \
         resource: v1/pods }} }} }}`",
        scenario.file.path().display()
    );
    Ok(missing)
}

/// Adds an informer to the configuration, and to the plugin. It has the name of the resource, with more of it if
/// another informer has that.
fn add_informer(config: &mut Value, plugin: &str, resource: &str) {
    let informers = member(config, "informer");
    let plural = resource.rsplit('/').next().unwrap_or_default();
    let name = match informers.get(plural) {
        Some(_) => resource.replace(['/', '.'], "-"),
        None => plural.to_owned(),
    };
    *member(informers, &name) = json!({ "resource": resource });
    match &mut member(member(config, "plugin"), plugin)["informers"] {
        Value::Array(names) if names.iter().any(|other| *other == *name) => {}
        Value::Array(names) => names.push(name.into()),
        Value::Object(aliases) => drop(aliases.insert(name.clone(), name.into())),
        // It is reported as what it is.
        _ => {}
    }
}

/// A member of a mapping, which is added if there is none. That sections are mappings was checked before.
fn member<'v>(value: &'v mut Value, name: &str) -> &'v mut Value {
    if !value.is_object() {
        *value = json!({});
    }
    let member = &mut value[name];
    if member.is_null() {
        *member = json!({});
    }
    member
}

/// Whether an informer watches a kind.
pub(in crate::cli::test) fn watches(section: &InformerSection, kind: &Kind) -> bool {
    let own = GroupVersionResource::new(&kind.group, &kind.version, &kind.plural);
    match &section.resource.value {
        Resources::One(ResourceName::Exact(resource)) => *resource == own,
        Resources::One(ResourceName::Loose { name, rest }) => {
            let names = [&kind.plural, &kind.singular, &kind.kind]
                .into_iter()
                .chain(&kind.short_names);
            let is_named = names.into_iter().any(|other| other.eq_ignore_ascii_case(name));
            is_named && (rest.is_empty() || *rest == kind.group || *rest == format!("{}.{}", kind.version, kind.group))
        }
        Resources::Several(pattern) => pattern.covers(&own) && !section.exclude.covers(&own),
    }
}

/// Whether the plugin may use `kv`: as in `informant run`, or always if there is no config.toml.
pub(super) fn has_keys(scenario: &Scenario, config: &Config) -> bool {
    !matches!(scenario.config, Configured::File(..)) || config.state.is_set
}

/// The text of a config.toml, which the run compares with what it has applied.
fn text_of(config: &Config) -> Result<String> {
    let path = &config.path;
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(
        SourceFile::new(path, text.as_str()).hash() == config.hash,
        "{} has changed: run the scenario again",
        path.display()
    );
    Ok(text)
}

/// The configuration that `value` stands for. Problems are at the place of `config`.
fn parse(scenario: &Scenario, value: &Value) -> Result<Config, Problems> {
    let path = scenario.folder().join("config.toml");
    let parsed = Config::parse(&SourceFile::new(path, toml_of(value)));
    parsed.map_err(|Problems(problems)| {
        let position = match &scenario.config {
            Configured::Inline(_, position) => Some(*position),
            Configured::File(..) | Configured::Derived => None,
        };
        let moved = problems.into_iter().map(|problem| Problem {
            path: scenario.file.path().to_owned(),
            position,
            message: format!("config: {}", problem.message),
            ..problem
        });
        Problems(moved.collect())
    })
}

/// A value as TOML: each section is one inline table, whose texts are those of JSON.
fn toml_of(value: &Value) -> String {
    let Value::Object(members) = value else {
        return String::new();
    };
    let lines = members
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| format!("{} = {}\n", quoted(name), inline(value)));
    lines.collect()
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(inline).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Object(members) => {
            let members = members
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| format!("{} = {}", quoted(name), inline(value)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

fn quoted(text: &str) -> String {
    // The one character that JSON takes as it is and TOML does not.
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn informers_of_equal_plurals_get_names_of_their_own() {
        let mut config = json!({ "plugin": { "a": { "informers": ["nodes"] } } });
        for resource in ["v1/pods", "metrics.k8s.io/v1beta1/pods", "v1/nodes"] {
            add_informer(&mut config, "a", resource);
        }
        let expected = json!({
            "informer": {
                "pods": { "resource": "v1/pods" },
                "metrics-k8s-io-v1beta1-pods": { "resource": "metrics.k8s.io/v1beta1/pods" },
                "nodes": { "resource": "v1/nodes" },
            },
            "plugin": { "a": { "informers": ["nodes", "pods", "metrics-k8s-io-v1beta1-pods"] } },
        });
        assert_eq!(config, expected);
    }
}
