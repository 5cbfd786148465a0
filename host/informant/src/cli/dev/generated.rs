//! A configuration for a plugin that has none: informers for the kinds in its manifest, and the grants that it needs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use informant_config::ScriptRunnersSection;
use informant_plugin_host::{Inspection, ReconcilerRules};
use informant_spec::{ALLOW_EVENTS, ContentSource, allow_line};
use serde_json::json;

use crate::files::read_content;
use crate::guests::Guests;

/// Any API version or kind, in a manifest.
const ANY: &str = "*";

/// What a plugin that takes any kind receives if no object says more.
const KIND_DEFAULT: (&str, &str) = ("v1", "Pod");

/// The file of a generated configuration.
#[derive(Debug, Clone)]
pub(super) struct GeneratedConfig {
    pub(super) file: PathBuf,
    /// The plugin's name.
    pub(super) name: String,
    /// Its component or script.
    pub(super) content: PathBuf,
}

impl GeneratedConfig {
    /// Writes the file for the manifest of the present component or script, if that makes another configuration.
    /// `objects`: the kinds of the objects that there are, for a plugin that takes any. Returns a text for the plugin's
    /// own folder. Blocks.
    ///
    /// # Errors
    /// If Informant would refuse the component or script.
    pub(super) fn update(&self, objects: &[(String, String)]) -> Result<Option<String>> {
        let content = read_content(&ContentSource::from(self.content.as_path()))?;
        let guests = Guests::for_inspection(&ScriptRunnersSection::default())?;
        let inspection = guests.block_on(guests.host().inspect(&content, json!({})))?;
        let text = |path: &Path| text(&self.name, &content_line(path), &inspection, objects);
        let (written, shown) = (
            text(&self.content),
            text(Path::new(&self.content.file_name().unwrap_or_default())),
        );
        if fs::read_to_string(&self.file).is_ok_and(|before| before == written) {
            return Ok(None);
        }
        fs::write(&self.file, written).with_context(|| format!("cannot write {}", self.file.display()))?;
        Ok(Some(shown))
    }
}

fn content_line(path: &Path) -> String {
    let is_script = ContentSource::from(path).language().is_script();
    let key = if is_script { "script" } else { "component" };
    format!("{key} = {}", quoted(&path.to_string_lossy()))
}

fn text(name: &str, content: &str, inspection: &Inspection, objects: &[(String, String)]) -> String {
    let informers = informers(&kinds(inspection), objects);
    let mut text = String::new();
    for (informer, resource) in &informers {
        text.extend(["[informer.", informer, "]\nresource = ", &quoted(resource), "\n\n"]);
    }
    if uses_keys(inspection) {
        text.push_str("[state]\n\n");
    }
    let names: Vec<String> = informers.keys().map(|name| quoted(name)).collect();
    let names = names.join(", ");
    text.extend(["[plugin.", name, "]\n", content, "\ninformers = [", &names, "]\n"]);
    let needs = inspection.manifest.kube_requirements();
    if !needs.is_empty() {
        text.extend([&allow_line(&[], &[], &needs), "\n"]);
    }
    if inspection.manifest.needs_events() {
        text.extend([ALLOW_EVENTS, "\n"]);
    }
    text
}

/// The API versions and kinds in the manifest.
fn kinds(inspection: &Inspection) -> Vec<(&str, &str)> {
    let manifest = &inspection.manifest;
    let events = manifest.events.iter().filter(|_| inspection.roles.wants_events());
    let events = events.map(|rule| (rule.api_version.as_str(), rule.kind.as_str()));
    let indexes = manifest.indexes.iter().flat_map(|indexes| &indexes.objects);
    let indexes = indexes.map(|rule| (rule.api_version.as_str(), rule.kind.as_str()));
    let related = manifest.reconciler.iter().flat_map(ReconcilerRules::related);
    let related = related.map(|(rule, _)| (rule.api_version.as_str(), rule.kind.as_str()));
    events.chain(related).chain(indexes).collect()
}

/// The informers for kinds: their resources by name. For a plugin that takes any kind, `objects` are its kinds.
fn informers(kinds: &[(&str, &str)], objects: &[(String, String)]) -> BTreeMap<String, String> {
    let takes_any = kinds.is_empty() || kinds.contains(&(ANY, ANY));
    let of_objects = objects.iter().filter(|_| takes_any);
    let of_objects = of_objects.map(|(api_version, kind)| (api_version.as_str(), kind.as_str()));
    let mut kinds: Vec<_> = kinds
        .iter()
        .copied()
        .filter(|kind| *kind != (ANY, ANY))
        .chain(of_objects)
        .collect();
    if kinds.is_empty() {
        kinds.push(KIND_DEFAULT);
    }
    let mut informers = BTreeMap::new();
    for (api_version, kind) in kinds {
        let resource = resource(api_version, kind);
        if informers.values().any(|known| *known == resource) {
            continue;
        }
        let name = informer_name(api_version, kind);
        let is_free = !informers.contains_key(&name);
        informers.insert(if is_free { name } else { informer_name(&resource, "") }, resource);
    }
    informers
}

/// How an informer names the objects of a kind.
fn resource(api_version: &str, kind: &str) -> String {
    match (api_version.split_once('/'), kind) {
        (_, ANY) => format!("{api_version}/{ANY}"),
        (Some((group, version)), _) => format!("{kind}.{version}.{group}"),
        (None, _) => kind.to_owned(),
    }
}

/// `pod`, `deployment`; `apps-v1` for all kinds of a version.
fn informer_name(api_version: &str, kind: &str) -> String {
    let name = if matches!(kind, ANY | "") { api_version } else { kind };
    let letter = |letter: char| match letter.to_ascii_lowercase() {
        letter if letter.is_ascii_alphanumeric() => letter,
        _ => '-',
    };
    name.chars()
        .map(letter)
        .collect::<String>()
        .trim_matches('-')
        .to_owned()
}

/// Whether it uses `kv`. Of a script its own imports count, as the runner always imports it.
fn uses_keys(inspection: &Inspection) -> bool {
    match inspection.runs_script {
        true => inspection.script_imports.iter().any(|import| import == "kv"),
        false => inspection
            .imports
            .iter()
            .any(|import| import.starts_with("informant:plugin/kv@")),
    }
}

/// A string in TOML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(kinds: &[(&str, &str)], objects: &[(&str, &str)]) -> String {
        let objects: Vec<_> = objects
            .iter()
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
            .collect();
        let informers = informers(kinds, &objects).into_iter();
        let lines = informers.map(|(name, resource)| {
            assert!(informant_config::validate_name(&name).is_ok(), "{name}");
            format!("{name}: {resource}")
        });
        lines.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn the_kinds_of_the_manifest_are_watched() {
        let kinds = [
            ("v1", "Pod"),
            ("apps/v1", "Deployment"),
            ("v1", "Pod"),
            ("batch/v1", "*"),
            ("*", "Node"),
        ];
        assert_eq!(
            shown(&kinds, &[("v1", "Secret")]),
            "batch-v1: batch/v1/*, deployment: Deployment.v1.apps, node: Node, pod: Pod"
        );
        let same = [("apps/v1", "Deployment"), ("example.com/v1", "Deployment")];
        assert_eq!(
            shown(&same, &[]),
            "deployment: Deployment.v1.apps, deployment-v1-example-com: Deployment.v1.example.com"
        );
    }

    #[test]
    fn a_plugin_for_any_kind_receives_the_objects_there_are() {
        assert_eq!(
            shown(&[("*", "*")], &[("v1", "Pod"), ("apps/v1", "Deployment")]),
            "deployment: Deployment.v1.apps, pod: Pod"
        );
        assert_eq!(shown(&[], &[]), "pod: Pod");
    }
}
