//! What no section can judge alone: names of other sections, and how sections add up.

use std::collections::BTreeMap;

use super::cluster::ClusterSection;
use super::informer::InformerSection;
use super::name::judge_name;
use super::plugin::PluginSection;
use super::source::{Located, Place};
use super::suggest;
use super::table::Table;

/// How many watches one cluster is asked for. Each is a connection of its own, which the API server counts too.
pub const WATCHES_MAX: usize = 256;

pub(super) fn judge(
    root: &Table<'_>,
    clusters: &BTreeMap<String, Located<ClusterSection>>,
    informers: &BTreeMap<String, InformerSection>,
    plugins: &BTreeMap<String, PluginSection>,
) {
    // An informer whose section is broken exists all the same: one error is enough.
    let names: Vec<&str> = match root.has("informer").then(|| root.is_table("informer")) {
        Some(true) => root
            .table("informer")
            .map(|table| table.keys().map(|key| key.value).collect())
            .unwrap_or_default(),
        _ => Vec::new(),
    };
    for (name, plugin) in plugins {
        judge_informers_of(root, name, plugin, &names);
    }
    for (name, informer) in informers {
        judge_clusters_of(root, name, informer, clusters);
    }
    warn_of_double_watches(root, informers);
    for cluster in clusters.keys() {
        judge_watches_of(root, cluster, informers);
    }
    if names.is_empty() && !root.has("plugin") {
        let problem = root.error(
            Place { line: 1, column: 1 },
            "there is nothing to do: no [informer.NAME], no [plugin.NAME]",
        );
        root.reporter().report(
            problem
                .help("begin with [informer.pods] and resource = \"v1/pods\"")
                .warning(),
        );
    }
}

/// Whether an informer is watched in a cluster.
fn is_in(informer: &InformerSection, cluster: &str) -> bool {
    informer.clusters.is_empty() || informer.clusters.iter().any(|name| name.value == cluster)
}

fn judge_clusters_of(
    root: &Table<'_>,
    name: &str,
    informer: &InformerSection,
    clusters: &BTreeMap<String, Located<ClusterSection>>,
) {
    let known: Vec<&str> = clusters.keys().map(String::as_str).collect();
    for cluster in informer
        .clusters
        .iter()
        .filter(|cluster| !known.contains(&cluster.value.as_str()))
    {
        let message = format!(
            "[informer.{name}] names a cluster that does not exist: \"{}\"",
            cluster.value
        );
        let help = match known[..] {
            [""] => format!(
                "there is one cluster, which has no name: leave `clusters` out, or add [cluster.{}]",
                cluster.value
            ),
            _ => suggest::did_you_mean(&cluster.value, &known, "clusters"),
        };
        root.reporter().report(root.error(cluster.place, message).help(help));
    }
}

fn judge_watches_of(root: &Table<'_>, cluster: &str, informers: &BTreeMap<String, InformerSection>) {
    // A broken section asks for none, and is reported by itself.
    let there = || informers.values().filter(|informer| is_in(informer, cluster));
    let watches: usize = there().map(|informer| informer.namespaces.len().max(1)).sum();
    if watches <= WATCHES_MAX {
        return;
    }
    let place = there()
        .map(|informer| informer.place)
        .max()
        .unwrap_or(Place { line: 1, column: 1 });
    let which = match cluster {
        "" => "one cluster".to_owned(),
        name => format!("cluster {name}, as any cluster,"),
    };
    let message = format!(
        "{watches} watches (an informer has one, or one for each of its namespaces) are more than the {WATCHES_MAX} that {which} is asked for"
    );
    root.reporter().report(root.error(place, message));
}

fn judge_informers_of(root: &Table<'_>, name: &str, plugin: &PluginSection, informers: &[&str]) {
    let mut seen: Vec<&Located<String>> = Vec::new();
    for (alias, informer) in &plugin.informers {
        if !informers.contains(&informer.value.as_str()) {
            let message = format!(
                "[plugin.{name}] names an informer that does not exist: \"{}\"",
                informer.value
            );
            let help = help_with_informer(&informer.value, informers);
            root.reporter().report(root.error(informer.place, message).help(help));
        } else if seen.iter().any(|other| other.value == informer.value) {
            let message = format!("[plugin.{name}] names the informer \"{}\" twice", informer.value);
            let help = format!("leave `{alias}` out: every event would come twice");
            root.reporter().report(root.error(informer.place, message).help(help));
        }
        seen.push(informer);
    }
}

/// A name that is refused itself is no way out: who wrote it in both places is told which of the two to change.
fn help_with_informer(written: &str, informers: &[&str]) -> String {
    let (good, refused): (Vec<&str>, Vec<&str>) = informers.iter().partition(|name| judge_name(name).is_ok());
    match suggest::nearest(written, refused) {
        Some(refused) if suggest::nearest(written, good.iter().copied()).is_none() && judge_name(written).is_ok() => {
            format!("[informer.{refused}] cannot be called that: call it [informer.{written}]")
        }
        _ => suggest::did_you_mean(written, &good, "informers"),
    }
}

fn warn_of_double_watches(root: &Table<'_>, informers: &BTreeMap<String, InformerSection>) {
    let mut by_resource: BTreeMap<String, Vec<(&str, &InformerSection)>> = BTreeMap::new();
    for (name, informer) in informers {
        by_resource
            .entry(informer.resource.value.to_string())
            .or_default()
            .push((name, informer));
    }
    for (resource, group) in by_resource {
        for (number, (name, informer)) in group.iter().enumerate() {
            let same_cluster = |other: &InformerSection| {
                other.clusters.is_empty() || other.clusters.iter().any(|cluster| is_in(informer, &cluster.value))
            };
            let Some((first, _)) = group[..number].iter().find(|(_, other)| same_cluster(other)) else {
                continue;
            };
            let message =
                format!("informers \"{first}\" and \"{name}\" both watch {resource}: two watches and two caches");
            let problem = root.error(informer.resource.place, message);
            let help =
                "informers are shared by name: let plugins name the same one, unless selectors or namespaces differ";
            root.reporter().report(problem.help(help).warning());
        }
    }
}
