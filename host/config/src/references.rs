//! Checks across sections: references to other sections, and limits on their sum.

use std::collections::BTreeMap;

use crate::cluster::ClusterSection;
use crate::informer::InformerSection;
use crate::name::validate_name;
use crate::plugin::PluginSection;
use crate::resources::Resources;
use crate::source::{FilePosition, Located};
use crate::state::{StateSection, StateStore};
use crate::table::Table;
use informant_spec::{ResourceName, suggest};

/// The most watches per cluster. Each is a separate connection, which the API server limits too.
pub const WATCHES_MAX: usize = 256;

pub(crate) fn validate(
    root: &Table<'_>,
    clusters: &BTreeMap<String, Located<ClusterSection>>,
    informers: &BTreeMap<String, InformerSection>,
    plugins: &BTreeMap<String, PluginSection>,
) {
    // An informer with an invalid section still counts as defined: one error is enough.
    let table = root.is_table("informer").then(|| root.table("informer")).flatten();
    let names: Vec<&str> = table.map_or(Vec::new(), |table| table.keys().map(|key| key.value).collect());
    for (name, plugin) in plugins {
        check_informers_of(root, name, plugin, &names);
        check_grants_of(root, name, plugin, &names);
        warn_about_foreign_namespaces(root, name, plugin, informers);
    }
    for (name, informer) in informers {
        check_clusters_of(root, name, informer, clusters);
    }
    warn_about_duplicate_watches(root, informers);
    for cluster in clusters.keys() {
        check_watches_of(root, cluster, informers);
    }
    if names.is_empty() && !root.has("plugin") {
        let message = "nothing to do: no [informer.NAME] and no [plugin.NAME]";
        let help = "start with [informer.pods] and resource = \"v1/pods\"";
        root.warn(FilePosition { line: 1, column: 1 }, message, help);
    }
}

/// Where plugins remember keys depends on how many replicas there are.
pub(crate) fn check_state(root: &Table<'_>, state: &StateSection, has_replicas: bool, has_durable: bool) {
    let Some(table) = root.table("state") else { return };
    match (state.store, has_replicas) {
        (StateStore::Kubernetes, false) => {
            let message = "store = \"kubernetes\" is for several replicas, and there is no section [ha]";
            let help = "add a section [ha], or remove `store`: one process remembers keys in a file";
            table.refuse(table.value_position("store"), message, help);
        }
        (StateStore::File, true) if !has_durable => {
            let message = "[state] has no effect: with [ha], plugins may not remember keys in a file of each replica";
            let help = "set store = \"kubernetes\", or remove [ha] or [state]";
            root.warn(table.position(), message, help);
        }
        _ => {}
    }
}

/// Whether an informer is watched in a cluster.
fn is_in(informer: &InformerSection, cluster: &str) -> bool {
    informer.clusters.is_empty() || informer.clusters.iter().any(|name| name.value == cluster)
}

/// Namespaces of a plugin that none of its informers watches: no event of them can come.
fn warn_about_foreign_namespaces(
    root: &Table<'_>,
    name: &str,
    plugin: &PluginSection,
    informers: &BTreeMap<String, InformerSection>,
) {
    let mut watched: Vec<&str> = Vec::new();
    for (informer, _) in plugin.informers() {
        match informers.get(informer) {
            Some(section) if !section.namespaces.is_empty() => {
                watched.extend(section.namespaces.iter().map(String::as_str));
            }
            // It watches all, or is reported separately.
            _ => return,
        }
    }
    // "" stands for objects without a namespace.
    let is_foreign = |namespace: &&String| !namespace.is_empty() && !watched.contains(&namespace.as_str());
    for namespace in plugin.spec.selection.namespaces.iter().filter(is_foreign) {
        let message =
            format!("[plugin.{name}] selects the namespace \"{namespace}\", which none of its informers watches");
        let help = format!("remove it, or add it to the informer; watched: {}", watched.join(", "));
        root.warn(plugin.positions.selection, message, help);
    }
}

fn check_clusters_of(
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
                "the only cluster has no name: remove `clusters`, or add [cluster.{}]",
                cluster.value
            ),
            _ => suggest::did_you_mean(&cluster.value, &known, "clusters"),
        };
        root.refuse(cluster.position, message, help);
    }
}

fn check_watches_of(root: &Table<'_>, cluster: &str, informers: &BTreeMap<String, InformerSection>) {
    // An invalid section is reported separately and adds no watches.
    let present = || informers.values().filter(|informer| is_in(informer, cluster));
    let watches: usize = present().map(|informer| informer.namespaces.len().max(1)).sum();
    if watches <= WATCHES_MAX {
        return;
    }
    let position = present()
        .map(|informer| informer.position)
        .max()
        .unwrap_or(FilePosition { line: 1, column: 1 });
    let of_cluster = match cluster {
        "" => String::new(),
        name => format!(" of cluster {name}"),
    };
    let message = format!(
        "{watches} watches{of_cluster} (one per informer, or one per namespace of an informer) exceed the limit of {WATCHES_MAX} per cluster"
    );
    root.report(position, message);
}

fn check_informers_of(root: &Table<'_>, name: &str, plugin: &PluginSection, informers: &[&str]) {
    let mut seen: Vec<&str> = Vec::new();
    for ((alias, _), (informer, position)) in plugin.spec.informers.iter().zip(plugin.informers()) {
        if !informers.contains(&informer) {
            let message = format!("[plugin.{name}] names an informer that does not exist: \"{informer}\"");
            let help = help_with_informer(informer, informers);
            root.refuse(position, message, help);
        } else if seen.contains(&informer) {
            let message = format!("[plugin.{name}] names the informer \"{informer}\" twice");
            let help = format!("remove `{alias}`: every event would be delivered twice");
            root.refuse(position, message, help);
        }
        seen.push(informer);
    }
}

/// A plugin has grants only for informers that it reads.
fn check_grants_of(root: &Table<'_>, name: &str, plugin: &PluginSection, informers: &[&str]) {
    for (grant, positions) in plugin.allow_informers() {
        let informer = grant.informer.as_str();
        let own = &plugin.spec.informers;
        if own.iter().any(|(_, own)| own == informer) {
            continue;
        }
        let (message, help) = match own.iter().find(|(alias, _)| alias == informer) {
            Some((_, own)) => (
                format!("[plugin.{name}] grants what \"{informer}\" watches, which is only its alias of an informer"),
                format!("write the name of the informer: informer = \"{own}\""),
            ),
            None if informers.contains(&informer) => (
                format!(
                    "[plugin.{name}] grants what the informer \"{informer}\" watches, which is not among its `informers`"
                ),
                format!("add \"{informer}\" to `informers`, or grant each resource with `resource`"),
            ),
            None => (
                format!("[plugin.{name}] grants what an informer watches that does not exist: \"{informer}\""),
                help_with_informer(informer, informers),
            ),
        };
        root.refuse(positions.informer, message, help);
    }
}

/// Never suggests an invalid name: if both places have it, the help says which of them to change.
fn help_with_informer(written: &str, informers: &[&str]) -> String {
    let (good, refused): (Vec<&str>, Vec<&str>) = informers.iter().partition(|name| validate_name(name).is_ok());
    match suggest::nearest(written, refused) {
        Some(refused)
            if suggest::nearest(written, good.iter().copied()).is_none() && validate_name(written).is_ok() =>
        {
            format!("[informer.{refused}] is not a valid name: rename it to [informer.{written}]")
        }
        _ => suggest::did_you_mean(written, &good, "informers"),
    }
}

/// Informers that watch one resource, alone or by a pattern, without a selector that tells them apart.
fn warn_about_duplicate_watches(root: &Table<'_>, informers: &BTreeMap<String, InformerSection>) {
    for (number, (name, informer)) in informers.iter().enumerate() {
        let mut earlier = informers.iter().take(number);
        let Some((first, resource, help)) = earlier.find_map(|(first, other)| {
            let (resource, help) = twice(other, informer)?;
            is_same_selection(other, informer).then_some((first, resource, help))
        }) else {
            continue;
        };
        let message = format!("informers \"{first}\" and \"{name}\" both watch {resource}: two watches and two caches");
        root.warn(informer.resource.position, message, help);
    }
}

/// Whether both may show the same objects. Namespaces do not matter: one of them can have the other's.
fn is_same_selection(one: &InformerSection, other: &InformerSection) -> bool {
    let selection = |informer: &InformerSection| {
        let labels = informer.label_selector.as_ref().map(ToString::to_string);
        (labels, informer.field_selector.as_ref().map(ToString::to_string))
    };
    let in_one_cluster = one.clusters.is_empty() || one.clusters.iter().any(|cluster| is_in(other, &cluster.value));
    in_one_cluster && selection(one) == selection(other)
}

/// The resource that both watch, and what to do.
fn twice<'i>(one: &'i InformerSection, other: &'i InformerSection) -> Option<(&'i Resources, &'static str)> {
    let covers = |pattern: &InformerSection, single: &InformerSection| {
        let (Resources::Several(kinds), Resources::One(ResourceName::Exact(resource))) =
            (&pattern.resource.value, &single.resource.value)
        else {
            return false;
        };
        // Metadata of everything, and whole objects of one kind, is a sensible pair.
        let is_as_whole = pattern.metadata_only == single.metadata_only;
        is_as_whole && kinds.covers(resource) && !pattern.exclude.covers(resource)
    };
    let of_pattern = "let the plugins use the informer of the pattern, or add the resource to its `exclude`";
    match (&one.resource.value, &other.resource.value) {
        (first, second) if first == second => Some((
            first,
            "let the plugins use the same informer, unless its namespaces differ",
        )),
        (_, resource) if covers(one, other) => Some((resource, of_pattern)),
        (resource, _) if covers(other, one) => Some((resource, of_pattern)),
        _ => None,
    }
}
