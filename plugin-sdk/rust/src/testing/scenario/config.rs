//! The member `config`: sections of config.toml, as YAML or in a file.

use std::path::Path;

use serde_json::Value;

use super::yaml::{Node, Read};

/// Sections of the process, which have no effect.
const IGNORED: [&str; 6] = ["admin", "cache", "cluster", "health", "http", "state"];
const INFORMER: [&str; 2] = ["index", "resource"];
const PLUGIN: [&str; 5] = ["allow", "component", "config", "informers", "script"];

/// The plugin's section.
#[derive(Debug, Default)]
pub(super) struct Plugin {
    /// `None` without a section.
    pub(super) name: Option<String>,
    pub(super) config: Option<Value>,
    pub(super) allows_events: bool,
    pub(super) allows_http: bool,
    pub(super) allows_kube: bool,
    /// What a `swap` by itself names.
    pub(super) path: Option<Value>,
    /// The names of its informers; all of them without any.
    pub(super) informers: Option<Value>,
    /// A config.toml without `[state]`.
    pub(super) lacks_kv: bool,
}

#[derive(Debug)]
pub(super) struct Informer {
    pub(super) name: String,
    pub(super) resource: Node,
    /// Names and JSON pointers.
    pub(super) indexes: Vec<(String, String)>,
}

pub(super) fn read(root: &Node, folder: &Path) -> Read<(Plugin, Vec<Informer>)> {
    let Some(given) = root.get("config") else {
        return Ok((Plugin::default(), Vec::new()));
    };
    let file = given.value.as_str().map(|file| given.toml(&folder.join(file)));
    let file = file.transpose()?;
    let config = file.as_ref().unwrap_or(given);
    let lacks_kv = file.is_some() && config.get("state").is_none();
    if let Some(kv) = root.get("kv").filter(|_| lacks_kv) {
        return kv.fail("add a section [state] to config.toml, without which plugins may not use keys");
    }
    for (name, section) in config.members()? {
        if !["informer", "plugin"].contains(&name) && !IGNORED.contains(&name) {
            return section.needs_informant(format_args!("the section {name}"));
        }
    }
    let informers = config.named("informer", informer)?;
    let plugin = plugin(root, config)?;
    Ok((Plugin { lacks_kv, ..plugin }, informers))
}

fn informer(name: &str, section: &Node) -> Read<Informer> {
    refuse_others(section, &INFORMER)?;
    let Some(resource) = section.get("resource") else {
        return section.fail("an informer has no `resource`: write it as v1/pods");
    };
    if resource.text()?.contains('*') {
        return resource.needs_informant("informers of several resources");
    }
    Ok(Informer {
        name: name.to_owned(),
        resource: resource.clone(),
        indexes: section.named("index", |index, node| match node.value.as_str() {
            Some(pointer) if pointer.starts_with('/') => Ok((index.to_owned(), pointer.to_owned())),
            _ => node.fail(format_args!(
                "{} is not a JSON pointer: write it as /spec/nodeName",
                node.value
            )),
        })?,
    })
}

/// The only section of a plugin, or the one that the member `plugin` names.
fn plugin(root: &Node, config: &Node) -> Read<Plugin> {
    let mut sections = config.named("plugin", |name, node| Ok((name.to_owned(), node)))?;
    if let Some(wanted) = root.get("plugin") {
        let name = wanted.text()?;
        sections.retain(|(other, _)| *other == name);
        if sections.is_empty() {
            return wanted.fail(format_args!("config has no section plugin.{name}"));
        }
    }
    let (name, section) = match (sections.pop(), sections.is_empty()) {
        (None, _) => return Ok(Plugin::default()),
        (Some(one), true) => one,
        _ => return config.fail("there are several plugins: name one in the member `plugin`"),
    };
    refuse_others(section, &PLUGIN)?;
    let value = |name: &str| section.get(name).map(|node| node.value.clone());
    let allowed = |what: &str| section.value.pointer(&format!("/allow/{what}"));
    let allows = |what: &str| allowed(what).is_some();
    Ok(Plugin {
        name: Some(name),
        config: value("config"),
        allows_events: allowed("events").is_some_and(|value| *value == true),
        allows_http: allows("http"),
        allows_kube: allows("kube"),
        path: value("component").or_else(|| value("script")),
        informers: value("informers"),
        lacks_kv: false,
    })
}

fn refuse_others(section: &Node, known: &[&str]) -> Read<()> {
    match section.members()?.find(|(name, _)| !known.contains(name)) {
        Some((_, value)) => value.needs_informant("this"),
        None => Ok(()),
    }
}
