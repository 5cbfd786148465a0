//! Checks of components: whether they load and initialize, and whether they fit the configuration.

use std::collections::BTreeMap;

use informant_config::{Config, KeyStore, PluginSection, Problem, show_size};
use informant_informer::Discovered;
use informant_plugin_host::limits::SHORT_COMPILE_BYTES_MAX;
use informant_plugin_host::{
    Inspection, LoadError, LoadProblem, MetricKind, PluginHost, Preflight, ReconcilerRules, Role,
};

use informant_spec::Missed;

use super::{Findings, selections, show_progress};
use crate::files::read_content;

/// The interface of keys, without its version.
const KV_INTERFACE: &str = "informant:plugin/kv@";

/// Where plugins may remember something, with several replicas.
const SHARED_STATE_HELP: &str = "set store = \"kubernetes\" in [state], or remove [ha]";

/// The import of a component that sends HTTP requests.
const HTTP_INTERFACE: &str = "wasi:http/outgoing-handler";

/// What to do about a component or script that cannot be read.
const UNREADABLE_HELP: &str =
    "a relative path begins at the folder of this file, and Informant's user must be able to read it";

/// Each plugin's component as inspected, by plugin.
pub(super) type Inspections<'c> = BTreeMap<&'c str, Inspection>;

/// Compiles and describes each component and lets it initialize, one after the other.
pub(super) async fn inspect<'c>(config: &'c Config, host: &PluginHost) -> (Inspections<'c>, Findings) {
    let mut findings = Findings::default();
    let mut inspections = Inspections::new();
    for (number, (name, section)) in config.plugins.iter().enumerate() {
        show_progress(&format!("plugin {name}"), number, config.plugins.len());
        let checked = match read_content(&section.spec.content) {
            Ok(content) => host.preflight(&section.spec, &content).await,
            Err(error) => Err(error),
        };
        match checked {
            Ok(Preflight {
                inspection,
                failure: refused,
            }) => {
                findings
                    .problems
                    .extend(refused.map(|refused| start_problem(config, name, section, &refused)));
                findings.problems.extend(check_pin(config, name, section, &inspection));
                findings.problems.extend(check_keys(config, name, section, &inspection));
                findings
                    .problems
                    .extend(check_division(config, name, section, &inspection));
                findings.problems.extend(check_http(config, name, section, &inspection));
                findings.problems.extend(check_kube(config, name, section, &inspection));
                findings
                    .problems
                    .extend(check_informers(config, name, section, &inspection));
                findings
                    .problems
                    .extend(selections::check(config, name, section, &inspection));
                findings.passed.push(line(name, &inspection, host));
                inspections.insert(name, inspection);
            }
            Err(error) => {
                let problem = config.problem(section.positions.component, format!("[plugin.{name}] {error}"));
                findings.problems.push(match error.problem() {
                    LoadProblem::Unreadable(_) => problem.help(UNREADABLE_HELP),
                    _ => problem,
                });
            }
        }
    }
    findings.problems.extend(index_conflicts(config, &inspections));
    findings.problems.extend(metric_conflicts(config, &inspections));
    (inspections, findings)
}

/// Why a plugin would not start. A warning only, if `init` asks to be tried again.
fn start_problem(config: &Config, name: &str, section: &PluginSection, error: &LoadError) -> Problem {
    let position = match error.problem() {
        LoadProblem::Init { .. } | LoadProblem::InitRetryable { .. } => section.positions.config,
        LoadProblem::Needs { .. } => section.positions.section,
        _ => section.positions.component,
    };
    let problem = config.problem(position, format!("[plugin.{name}] {error}"));
    match error.problem() {
        LoadProblem::InitRetryable { .. } => problem.help("Informant tries until it succeeds").warning(),
        _ => problem,
    }
}

fn line(name: &str, inspection: &Inspection, host: &PluginHost) -> String {
    let manifest = &inspection.manifest;
    let size = show_size(inspection.size_bytes as u64);
    format!(
        "plugin {name}: {} {}, {}, {size}, sha256 {}{}",
        manifest.name,
        manifest.version,
        inspection.roles,
        inspection.digest.short(),
        compiling(
            inspection.compile_memory_bytes,
            host.compiles_alone(inspection.compile_memory_bytes)
        )
    )
}

/// The memory that compiling takes, if it is worth a thought.
fn compiling(memory_bytes: u64, is_alone: bool) -> String {
    if memory_bytes <= SHORT_COMPILE_BYTES_MAX && !is_alone {
        return String::new();
    }
    let mib = memory_bytes.div_ceil(1 << 20);
    let alone = match is_alone {
        true => ", and so alone",
        false => "",
    };
    format!("; compiled in about {mib} MiB{alone}")
}

fn check_pin(config: &Config, name: &str, section: &PluginSection, inspection: &Inspection) -> Option<Problem> {
    let pinned = section.spec.sha256?;
    let found = inspection.digest;
    (pinned != found).then(|| {
        let message = format!("[plugin.{name}] pins sha256 {pinned}, but its component has {found}");
        config
            .problem(section.positions.component, message)
            .help("update `sha256` if the new file is the intended one")
    })
}

/// Components without `sha256`: another file in their place would run. A script is read by people, like the
/// configuration.
pub(super) fn unpinned(config: &Config) -> Vec<Problem> {
    let is_unpinned =
        |section: &PluginSection| section.spec.sha256.is_none() && !section.spec.content.language().is_script();
    let unpinned = config.plugins.iter().filter(|(_, section)| is_unpinned(section));
    unpinned
        .map(|(name, section)| {
            let message = format!("[plugin.{name}] does not pin its component");
            let problem = config.problem(section.positions.component, message);
            problem
                .help("add `sha256`, which `informant plugin inspect` prints")
                .warning()
        })
        .collect()
}

/// Whether a plugin imports `kv`. The script runner always does, so of a script its own imports count.
fn imports_keys(inspection: &Inspection) -> bool {
    match inspection.runs_script {
        true => inspection.script_imports.iter().any(|import| import == "kv"),
        false => inspection.imports.iter().any(|import| import.starts_with(KV_INTERFACE)),
    }
}

/// A plugin that imports `kv` is denied to use it without a state database, and with one in each replica.
fn check_keys(config: &Config, name: &str, section: &PluginSection, inspection: &Inspection) -> Option<Problem> {
    let imports_keys = imports_keys(inspection);
    let problem = |message: &str| config.problem(section.positions.component, format!("[plugin.{name}] {message}"));
    match config.key_store() {
        KeyStore::File | KeyStore::Secrets => None,
        KeyStore::Nowhere if imports_keys => {
            let problem = problem("uses kv, which is denied without a state database");
            Some(problem.help("add this line: [state]").warning())
        }
        KeyStore::FileOfEachReplica if imports_keys => Some(
            problem("uses kv, which is denied with [ha] and a state database in a file of each replica")
                .help(SHARED_STATE_HELP),
        ),
        // Its runs are made, but not those that were missed between two holders.
        KeyStore::FileOfEachReplica if catches_up(inspection) => Some(
            problem("has timers that make up for missed runs, which are not known after another replica has acted")
                .help(SHARED_STATE_HELP)
                .warning(),
        ),
        KeyStore::Nowhere | KeyStore::FileOfEachReplica => None,
    }
}

/// A plugin that is called in every replica has no keys. Where they are denied anyway, that is reported elsewhere.
fn check_division(config: &Config, name: &str, section: &PluginSection, inspection: &Inspection) -> Option<Problem> {
    let uses_keys = config.key_store() == KeyStore::Secrets && imports_keys(inspection);
    (uses_keys && section.spec.is_divided).then(|| {
        let message = format!("[plugin.{name}] uses kv, and its objects are divided among the replicas");
        let problem = config.problem(section.positions.section, message);
        problem.help(format!("add this line to [plugin.{name}]: run-once = true"))
    })
}

fn catches_up(inspection: &Inspection) -> bool {
    let mut timers = inspection.manifest.timers.iter();
    timers.any(|timer| timer.missed == Missed::Once)
}

/// A script that imports `kube` needs `allow.kube`. Of a component, the imports do not tell: toolchains add what it
/// does not call.
fn check_kube(config: &Config, name: &str, section: &PluginSection, inspection: &Inspection) -> Option<Problem> {
    let imports_kube = inspection.script_imports.iter().any(|import| import == "kube");
    (imports_kube && !section.spec.may_call_kube()).then(|| {
        let message = format!("[plugin.{name}] imports kube, but may make no Kubernetes call");
        let problem = config.problem(section.positions.component, message);
        problem
            .help("grant what it does: allow.kube = [{ verbs = [\"patch\"], resource = \"v1/pods\" }]")
            .warning()
    })
}

/// An event handler is called for the objects of its informers only. For reconcilers, see [`unwatched_kinds`].
fn check_informers(config: &Config, name: &str, section: &PluginSection, inspection: &Inspection) -> Option<Problem> {
    let is_idle = inspection.roles.has(Role::EventHandler) && section.spec.informers.is_empty();
    is_idle.then(|| {
        let message = format!("[plugin.{name}] has no informers, so it is never called for an object");
        let problem = config.problem(section.positions.section, message);
        problem
            .help("list the informers of the objects: informers = [\"pods\"]")
            .warning()
    })
}

/// A component that does not import wasi:http cannot use `allow.http`, and a script that imports `fetch` needs it. The
/// script runner imports what scripts may use. A component may import wasi:http because its toolchain does.
fn check_http(config: &Config, name: &str, section: &PluginSection, inspection: &Inspection) -> Option<Problem> {
    let Some((_, position)) = section.allow_http().next() else {
        let imports_fetch = inspection.script_imports.iter().any(|import| import == "fetch");
        return imports_fetch.then(|| {
            let message = format!("[plugin.{name}] imports fetch, but may send no HTTP request");
            let problem = config.problem(section.positions.component, message);
            problem
                .help("grant the hosts: allow.http = [\"https://HOST\"]")
                .warning()
        });
    };
    let can_use = inspection
        .imports
        .iter()
        .any(|import| import.starts_with(HTTP_INTERFACE));
    (!can_use).then(|| {
        let message =
            format!("[plugin.{name}] may send HTTP requests, but its component does not import {HTTP_INTERFACE}");
        let problem = config.problem(position, message);
        problem
            .help("remove `allow.http`, or build the component with HTTP")
            .warning()
    })
}

/// Index names that are defined twice on one informer.
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
        for (informer, _) in section.informers() {
            for index in inspection.manifest.index_names() {
                let key = (informer, index.as_str());
                if let Some(owner) = owners.get(&key) {
                    let message =
                        format!("[plugin.{plugin}] defines the index \"{index}\", which {owner} already defines");
                    let help = "remove one of them: index names are unique per informer";
                    problems.push(config.problem(section.positions.component, message).help(help));
                } else {
                    owners.insert(key, format!("[plugin.{plugin}]"));
                }
            }
        }
    }
    problems
}

/// Metrics that two plugins declare with different types. Informant would refuse the plugin that it loads last.
fn metric_conflicts(config: &Config, inspections: &Inspections<'_>) -> Vec<Problem> {
    let mut first: BTreeMap<&str, (&str, MetricKind)> = BTreeMap::new();
    let mut problems = Vec::new();
    for (plugin, inspection) in inspections {
        for metric in &inspection.manifest.metrics {
            let (owner, kind) = *first.entry(&metric.name).or_insert((plugin, metric.kind));
            if kind != metric.kind {
                let message = format!(
                    "[plugin.{plugin}] declares the metric \"{}\" as {}, which [plugin.{owner}] has as {}",
                    metric.name,
                    metric.kind.as_str(),
                    kind.as_str()
                );
                let problem = config.problem(config.plugins[*plugin].positions.component, message);
                problems.push(problem.help("rename it in one of them: both would have one name in the output"));
            }
        }
    }
    problems
}

/// Notes the informers of a plugin whose kind its manifest does not mention: it is never called for their objects, but
/// may read them. A warning if that is so for all that are known, since it would never be called. `discovered`: the
/// informers' resources, as far as they are known. Warns of [kinds](unwatched_kinds) that have no informer.
pub(super) fn unmatched_informers(
    config: &Config,
    inspections: &Inspections<'_>,
    discovered: &BTreeMap<String, Discovered>,
) -> Vec<Problem> {
    let mut problems = unwatched_kinds(config, inspections, discovered);
    for (plugin, inspection) in inspections {
        let informers = config.plugins[*plugin].informers();
        let known = informers.filter_map(|(name, position)| Some((name, position, discovered.get(name)?)));
        let (matched, unmatched): (Vec<_>, Vec<_>) =
            known.partition(|(_, _, discovered)| is_matched(inspection, discovered));
        for (name, position, discovered) in unmatched {
            let (api_version, kind) = (discovered.gvr.api_version(), &discovered.kind);
            let problem = |message: String| config.problem(position, message);
            problems.push(match matched.is_empty() {
                true => problem(format!(
                    "[plugin.{plugin}] has no rule for {api_version} {kind}, so informer \"{name}\" delivers nothing to it"
                ))
                .help("`informant plugin inspect` shows its rules; remove the informer, or use another")
                .warning(),
                false => problem(format!(
                    "[plugin.{plugin}] has no rule for {api_version} {kind}: it can read informer \"{name}\", but is \
                     not called for its objects"
                ))
                .note(),
            });
        }
    }
    problems
}

/// Whether the plugin is called for objects of this resource.
fn is_matched(inspection: &Inspection, discovered: &Discovered) -> bool {
    let (api_version, kind, manifest) = (discovered.gvr.api_version(), &discovered.kind, &inspection.manifest);
    let events = inspection.roles.wants_events() && manifest.event_rule(&api_version, kind).is_some();
    let indexes = inspection.roles.has(Role::IndexFuncs) && manifest.index_rule(&api_version, kind).is_some();
    let mut related = manifest.reconciler.iter().flat_map(ReconcilerRules::related);
    events || indexes || related.any(|(rule, _)| rule.api_version == api_version && rule.kind == *kind)
}

/// Warns of kinds that a reconciler names and that none of its informers watches: their changes would lead to nothing.
/// Only for plugins whose informers are all `discovered`.
fn unwatched_kinds(
    config: &Config,
    inspections: &Inspections<'_>,
    discovered: &BTreeMap<String, Discovered>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (plugin, inspection) in inspections {
        let section = &config.plugins[*plugin];
        let watched: Option<Vec<&Discovered>> = section.informers().map(|(name, _)| discovered.get(name)).collect();
        let (Some(watched), Some(rules)) = (watched, &inspection.manifest.reconciler) else {
            continue;
        };
        let primary = (&rules.primary.api_version, &rules.primary.kind);
        let related = rules.related().map(|(rule, _)| (&rule.api_version, &rule.kind));
        for (api_version, kind) in std::iter::once(primary).chain(related) {
            let is_it = |found: &&Discovered| found.gvr.api_version() == *api_version && found.kind == *kind;
            if watched.iter().any(is_it) {
                continue;
            }
            let message =
                format!("[plugin.{plugin}] has no informer for {api_version} {kind}, which its manifest names");
            let problem = config.problem(section.positions.section, message);
            problems.push(
                problem
                    .help("add one: its objects would lead to no call, and could not be read")
                    .warning(),
            );
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_or_lonely_compiles_are_named() {
        let of_mib = |mib: u64, is_alone| compiling(mib << 20, is_alone);
        assert_eq!(of_mib(96, false), "");
        assert_eq!(of_mib(97, false), "; compiled in about 97 MiB");
        assert_eq!(of_mib(40, true), "; compiled in about 40 MiB, and so alone");
        assert_eq!(of_mib(398, true), "; compiled in about 398 MiB, and so alone");
    }
}
