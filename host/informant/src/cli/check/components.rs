//! Components against the configuration: whether they load, and whether what they want adds up.

use std::collections::BTreeMap;

use informant_plugin_host::{Inspection, PluginHost, Problem as LoadProblem, Refused, Rehearsal};

use super::Findings;
use super::cluster::Asked;
use crate::config::{Config, PluginSection, Problem, show_size};
use crate::daemon::DesiredPlugin;

/// What each plugin's component is, by plugin.
pub(super) type Inspections<'c> = BTreeMap<&'c str, Inspection>;

/// Compiles and describes each component and lets it initialize, one after the other.
pub(super) async fn inspect<'c>(config: &'c Config, host: &PluginHost) -> (Inspections<'c>, Findings) {
    let mut findings = Findings::default();
    let mut inspections = Inspections::new();
    for (name, section) in &config.plugins {
        match host.rehearse(&DesiredPlugin::new(config, section).spec(name)).await {
            Ok(Rehearsal { inspection, refused }) => {
                findings
                    .problems
                    .extend(refused.map(|refused| start_problem(config, name, section, &refused)));
                findings.problems.extend(judge(config, name, section, &inspection));
                findings.good.push(line(name, &inspection));
                inspections.insert(name, inspection);
            }
            Err(error) => {
                findings
                    .problems
                    .push(config.problem(section.component.place, format!("[plugin.{name}] {error}")));
            }
        }
    }
    findings.problems.extend(index_conflicts(config, &inspections));
    (inspections, findings)
}

/// Why a plugin would not start. Where `init` asked for what is there only while Informant runs, it is a warning.
fn start_problem(config: &Config, name: &str, section: &PluginSection, refused: &Refused) -> Problem {
    let error = &refused.error;
    let place = match error.problem() {
        LoadProblem::Init { .. } => section.config.place,
        LoadProblem::Needs { .. } => section.place,
        _ => section.component.place,
    };
    if !refused.asked {
        return config.problem(place, format!("[plugin.{name}] {error}"));
    }
    let help = "it asked for objects or the cluster, which are not there for `check`: it may do once Informant runs";
    config
        .problem(place, format!("[plugin.{name}] could not be judged: {error}"))
        .help(help)
        .warning()
}

fn line(name: &str, inspection: &Inspection) -> String {
    let manifest = &inspection.manifest;
    let size = show_size(inspection.size_bytes as u64);
    format!(
        "plugin {name}: {} {}, {}, {size}, sha256 {}",
        manifest.name,
        manifest.version,
        inspection.roles,
        inspection.digest.short()
    )
}

fn judge(config: &Config, name: &str, section: &PluginSection, inspection: &Inspection) -> Option<Problem> {
    let pinned = section.sha256?;
    let found = inspection.digest;
    (pinned != found).then(|| {
        let message = format!("[plugin.{name}] pins sha256 {pinned}, and its component has {found}");
        config
            .problem(section.component.place, message)
            .help("change `sha256` if the new file is the right one")
    })
}

/// Index names that two would define on one informer.
fn index_conflicts(config: &Config, inspections: &Inspections<'_>) -> Vec<Problem> {
    let mut owners: BTreeMap<(&str, &str), String> = BTreeMap::new();
    for (informer, section) in &config.informers {
        for (index, _) in &section.indexes {
            owners.insert((informer, index), format!("[informer.{informer}.index]"));
        }
    }
    let mut problems = Vec::new();
    for (plugin, inspection) in inspections {
        let section = &config.plugins[*plugin];
        for (_, informer) in &section.informers {
            for index in inspection.manifest.index_names() {
                let key = (informer.value.as_str(), index.as_str());
                if let Some(owner) = owners.get(&key) {
                    let message = format!("[plugin.{plugin}] brings the index \"{index}\", which {owner} has already");
                    let help = "let one of them go: an informer has one index of a name";
                    problems.push(config.problem(section.component.place, message).help(help));
                } else {
                    owners.insert(key, format!("[plugin.{plugin}]"));
                }
            }
        }
    }
    problems
}

/// Warns of plugins that name an informer of whose kind their manifest says nothing: they would never be called for it.
pub(super) fn told_nothing(config: &Config, inspections: &Inspections<'_>, asked: &Asked) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (plugin, inspection) in inspections {
        for (_, informer) in &config.plugins[*plugin].informers {
            let Some(discovered) = asked.discovered.get(&informer.value) else {
                continue;
            };
            let (api_version, kind) = (discovered.gvr.api_version(), &discovered.kind);
            let manifest = &inspection.manifest;
            let told = inspection.roles.wants_events() && manifest.event_rule(&api_version, kind).is_some();
            let indexes = inspection.roles.index_funcs && manifest.index_rule(&api_version, kind).is_some();
            if !told && !indexes {
                let message = format!(
                    "[plugin.{plugin}] wants nothing of {api_version} {kind}, of which informer \"{}\" tells it",
                    informer.value
                );
                let help = "`informant plugin inspect` shows what it wants; leave the informer out, or take another";
                problems.push(config.problem(informer.place, message).help(help).warning());
            }
        }
    }
    problems
}
