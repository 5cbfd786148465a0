//! `informant plugin inspect`: a component's description. It needs no cluster and calls only `describe`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use informant_config::{Config, PluginSection, ScriptRunnersSection, show_size};
use informant_object::Payload;
use informant_plugin_host::{By, EventRule, Inspection, Manifest, ReconcilerRules, RunnerStatus, When};
use informant_spec::{ALLOW_EVENTS, allow_line};
use serde_json::json;

use super::{Exit, build, output};
use crate::config_file;
use crate::files::read_content;
use crate::guests::Guests;

/// `informant plugin inspect`.
#[derive(Debug, Args)]
pub(super) struct InspectArgs {
    /// Component or script file
    file: PathBuf,
    #[command(flatten)]
    config: ConfigOfPlugin,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text")]
    output: Format,
}

/// Selects the `config` that `describe` receives.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct ConfigOfPlugin {
    /// Configuration file: the manifest may depend on the `config` of the plugin that has this component
    #[arg(short, long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// The plugin in the configuration file, if several have this component
    #[arg(long, value_name = "NAME", requires = "config")]
    pub(super) plugin: Option<String>,
}

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

pub(super) fn run(args: &InspectArgs) -> Result<Exit> {
    ensure!(
        !build::needs_bundler(&args.file),
        "{0} is not a plugin yet: build it with `informant plugin build {0}`, and inspect the result",
        args.file.display()
    );
    let of_plugin = args.config.read(&args.file)?;
    let guests = Guests::for_inspection(&of_plugin.runners)?;
    let source = of_plugin.runners.source(&args.file);
    let content = read_content(&source)?;
    let inspection = guests.block_on(guests.host().inspect(&content, of_plugin.config))?;
    match args.output {
        Format::Text => {
            let what = match source.language().is_script() {
                true => "script",
                false => "component",
            };
            output::to_stdout(|out| show(out, what, args, &inspection))
        }
        Format::Json => output::json(&as_json(args, &inspection)),
    }
    .context("cannot print the inspection")?;
    Ok(Exit::Done)
}

/// What the configuration file has for a component or script.
pub(super) struct OfPlugin {
    /// The plugin's `config`.
    pub(super) config: serde_json::Value,
    /// The runners of scripts.
    pub(super) runners: ScriptRunnersSection,
}

impl ConfigOfPlugin {
    /// What the configuration file has for the plugin with the component or script `file`. Empty without a
    /// configuration file.
    pub(super) fn read(&self, file: &Path) -> Result<OfPlugin> {
        let Some(path) = &self.config else {
            return Ok(OfPlugin {
                config: json!({}),
                runners: ScriptRunnersSection::default(),
            });
        };
        let config = config_file::load(path)?;
        Ok(OfPlugin {
            config: self.plugin_config(&config, path, file)?,
            runners: config.script_runners,
        })
    }

    /// The `config` of the plugin that has `file`, in the configuration at `path`.
    fn plugin_config(&self, config: &Config, path: &Path, file: &Path) -> Result<serde_json::Value> {
        if let Some(name) = &self.plugin {
            let section = config.plugins.get(name);
            let section = section.with_context(|| format!("{} has no [plugin.{name}]", path.display()))?;
            return Ok(section.spec.config.clone());
        }
        let wanted = absolute(file);
        let has_it = |(_, section): &(&String, &PluginSection)| absolute(section.spec.content.path()) == wanted;
        let found: Vec<_> = config.plugins.iter().filter(has_it).collect();
        match found.as_slice() {
            [(_, section)] => Ok(section.spec.config.clone()),
            [] => bail!(
                "no plugin in {} has the component {}; name one with --plugin",
                path.display(),
                file.display()
            ),
            several => {
                let names: Vec<&str> = several.iter().map(|(name, _)| name.as_str()).collect();
                bail!(
                    "several plugins in {} have the component {}: choose one with --plugin ({})",
                    path.display(),
                    file.display(),
                    names.join(", ")
                )
            }
        }
    }
}

/// The absolute path of a file that need not exist.
pub(super) fn absolute(path: &Path) -> PathBuf {
    let in_folder = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    };
    let found = path.canonicalize().ok().or_else(in_folder);
    found.unwrap_or_else(|| path.to_owned())
}

/// `what` is the file: a script or a component.
fn show(out: &mut dyn Write, what: &str, args: &InspectArgs, inspection: &Inspection) -> io::Result<()> {
    let manifest = &inspection.manifest;
    let mut line = |name: &str, value: &str| output::line(out, &format!("{name:9} {value}"));
    line("plugin", &format!("{} {}", manifest.name, manifest.version))?;
    line(what, &args.file.display().to_string())?;
    line("sha256", &inspection.digest.to_string())?;
    line("size", &show_size(inspection.size_bytes as u64))?;
    line("contract", &inspection.contract)?;
    let sdk = inspection.sdk.as_ref();
    line(
        "sdk",
        &sdk.map_or_else(|| "unknown".to_owned(), |sdk| format!("{} {}", sdk.language, sdk.sdk)),
    )?;
    if let Some(runner) = &inspection.runner {
        let RunnerStatus {
            language,
            version,
            digest,
        } = &**runner;
        line("runner", &format!("{language} {version}, sha256 {}", digest.short()))?;
    }
    line("roles", &inspection.roles.to_string())?;
    if manifest.parallel {
        line("parallel", "yes: `limits.instances` may be above 1")?;
    }
    let events = if manifest.reconciler.is_some() {
        "reconciles"
    } else {
        "events"
    };
    for (number, rule) in event_rules(inspection).iter().enumerate() {
        line(if number == 0 { events } else { "" }, rule)?;
    }
    for (number, rule) in related_rules(manifest).iter().enumerate() {
        line(if number == 0 { "led to by" } else { "" }, rule)?;
    }
    for (number, timer) in manifest.timers.iter().enumerate() {
        let text = format!("{}: {}", timer.name, timer.schedule);
        line(if number == 0 { "timers" } else { "" }, &text)?;
    }
    for (number, rule) in index_rules(manifest).iter().enumerate() {
        line(if number == 0 { "indexes" } else { "" }, rule)?;
    }
    for (number, metric) in manifest.metrics.iter().enumerate() {
        let labels = metric.labels.join(", ");
        let text = format!("{} {}{{{labels}}}: {}", metric.kind.as_str(), metric.name, metric.help);
        line(if number == 0 { "metrics" } else { "" }, &text)?;
    }
    for (number, import) in inspection.imports.iter().enumerate() {
        line(if number == 0 { "imports" } else { "" }, import)?;
    }
    for (number, function) in inspection.stubs.iter().enumerate() {
        let head = if number == 0 { "newer" } else { "" };
        line(
            head,
            &format!("{function}: this Informant does not have it; a call traps"),
        )?;
    }
    let mut needs = Vec::new();
    let of_kube = manifest.kube_requirements();
    needs.extend((!of_kube.is_empty()).then(|| allow_line(&[], &[], &of_kube)));
    needs.extend(manifest.needs_events().then(|| ALLOW_EVENTS.to_owned()));
    if needs.is_empty() {
        return line("needs", "- (the manifest declares none; grants come from config.toml)");
    }
    needs
        .iter()
        .enumerate()
        .try_for_each(|(number, need)| line(if number == 0 { "needs" } else { "" }, need))
}

/// One line for each rest, which may be long, with everything that it holds for.
fn grouped(rules: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let mut groups: Vec<(String, String)> = Vec::new();
    for (subject, rest) in rules {
        match groups.iter_mut().find(|(_, other)| *other == rest) {
            Some((subjects, _)) => subjects.extend([", ", &subject]),
            None => groups.push((subject, rest)),
        }
    }
    groups.into_iter().map(|(subjects, rest)| subjects + &rest).collect()
}

/// One line per event rule, or for several that differ in their kinds only.
fn event_rules(inspection: &Inspection) -> Vec<String> {
    if !inspection.roles.wants_events() {
        return Vec::new();
    }
    let rules = inspection.manifest.events.iter().map(|rule| {
        let extras = [
            (rule.old, ", with the old object"),
            (rule.changed_only, ", only if it changed"),
        ];
        let extras: String = extras
            .into_iter()
            .filter_map(|(has, text)| has.then_some(text))
            .collect();
        let (selection, payload) = (selection(rule), payload(&rule.payload));
        (
            format!("{} {}", rule.api_version, rule.kind),
            format!("{selection}: {payload}{extras}{}", when(rule.when.as_ref())),
        )
    });
    grouped(rules)
}

/// One line per kind that leads to what is reconciled.
fn related_rules(manifest: &Manifest) -> Vec<String> {
    let rules = manifest.reconciler.iter().flat_map(ReconcilerRules::related);
    let lines = rules.map(|(rule, by)| {
        let by = match by {
            By::Owner => "its controller".to_owned(),
            By::AnyOwner => "each owner".to_owned(),
            By::Namespace => "its namespace".to_owned(),
            By::Label(name) => format!("the label {name}"),
            By::Annotation(name) => format!("the annotation {name}"),
            By::Index(name) => format!("the index {name}"),
        };
        format!(
            "{} {}: by {by}{}",
            rule.api_version,
            rule.kind,
            when(rule.when.as_ref())
        )
    });
    lines.collect()
}

/// `, if generation or labels changed`
fn when(when: Option<&When>) -> String {
    when.map_or_else(String::new, |when| {
        format!(", if {} changed", when.parts().join(" or "))
    })
}

/// ` in a, b with app=web`: the objects that a rule selects, unless it selects all.
fn selection(rule: &EventRule) -> String {
    let mut text = String::new();
    if !rule.namespaces.is_empty() {
        text.extend([" in ", &rule.namespaces.join(", ")]);
    }
    if let Some(selector) = &rule.label_selector {
        text.extend([" with ", &selector.to_string()]);
    }
    text
}

/// One line per index rule, or for several that differ in their kinds only.
fn index_rules(manifest: &Manifest) -> Vec<String> {
    let names = manifest.index_names().join(", ");
    let rules = manifest.indexes.iter().flat_map(|indexes| &indexes.objects);
    let rules = rules.map(|rule| {
        let subject = format!("{} {}", rule.api_version, rule.kind);
        (subject, format!(": {}", payload(&rule.payload)))
    });
    let lines = grouped(rules).into_iter();
    lines.map(|line| format!("{names} of {line}")).collect()
}

fn payload(payload: &Payload) -> String {
    match payload {
        Payload::None => "no payload".to_owned(),
        Payload::Metadata => "metadata".to_owned(),
        Payload::Whole => "whole objects".to_owned(),
        Payload::Fields(projection) => {
            let pointers: Vec<_> = projection.pointers().iter().map(ToString::to_string).collect();
            format!("fields {}", pointers.join(" "))
        }
    }
}

fn as_json(args: &InspectArgs, inspection: &Inspection) -> serde_json::Value {
    let manifest = &inspection.manifest;
    json!({
        "name": manifest.name,
        "version": manifest.version,
        "component": args.file.display().to_string(),
        "sha256": inspection.digest.to_string(),
        "sizeBytes": inspection.size_bytes,
        "contract": inspection.contract,
        "sdk": inspection.sdk,
        "runner": inspection.runner.as_ref().map(|runner| json!({
            "language": runner.language,
            "version": runner.version,
            "sha256": runner.digest.to_string(),
        })),
        "roles": inspection.roles.names().collect::<Vec<_>>(),
        "events": manifest.events.iter().filter(|_| inspection.roles.wants_events()).map(|rule| json!({
            "apiVersion": rule.api_version,
            "kind": rule.kind,
            "payload": payload_json(&rule.payload),
            "old": rule.old,
            "changedOnly": rule.changed_only,
            "namespaces": rule.namespaces,
            "labelSelector": rule.label_selector.as_ref().map(ToString::to_string),
        })).collect::<Vec<_>>(),
        "timers": manifest.timers.iter().map(|timer| json!({
            "name": timer.name,
            "schedule": timer.schedule.to_string(),
        })).collect::<Vec<_>>(),
        "indexes": manifest.index_names(),
        "parallel": manifest.parallel,
        "metrics": manifest.metrics,
        "imports": inspection.imports,
        "unknownFunctions": inspection.stubs,
        "needs": manifest.needs,
        "manifest": serde_json::from_slice(&inspection.document).unwrap_or(serde_json::Value::Null),
    })
}

fn payload_json(payload: &Payload) -> serde_json::Value {
    match payload {
        Payload::None => json!("none"),
        Payload::Metadata => json!("metadata"),
        Payload::Whole => json!("whole"),
        Payload::Fields(projection) => {
            json!({ "fields": projection.pointers().iter().map(ToString::to_string).collect::<Vec<_>>() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_differ_in_their_kinds_share_a_line() {
        let rules = [
            ("v1 Pod", ": whole"),
            ("v1 Node", ": fields /a /b"),
            ("v1 Secret", ": whole"),
        ];
        let lines = grouped(
            rules
                .into_iter()
                .map(|(subject, rest)| (subject.to_owned(), rest.to_owned())),
        );
        assert_eq!(lines, ["v1 Pod, v1 Secret: whole", "v1 Node: fields /a /b"]);
    }
}
