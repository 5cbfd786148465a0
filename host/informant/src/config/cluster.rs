//! `[cluster]` and `[cluster.NAME]`: which clusters, where the usual inference is not meant.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::source::{Located, Place};
use super::table::{Keys, Table};
use super::{folder_of, sections};

const KEYS: Keys = Keys {
    known: &["context", "in-cluster", "kubeconfig"],
    planned: &[],
};

/// How a cluster is reached. Without any key: `KUBECONFIG`, `~/.kube/config`, then the service account of the pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterSection {
    /// The context of the kubeconfig; `None`: its current one.
    pub context: Option<String>,
    /// The kubeconfig, already relative to the current folder.
    pub kubeconfig: Option<PathBuf>,
    /// The service account of the pod, and nothing else.
    pub in_cluster: bool,
}

/// The clusters by name. The only one of `[cluster]`, or of no section at all, has the empty name.
pub(super) fn read(root: &Table<'_>) -> BTreeMap<String, Located<ClusterSection>> {
    let nameless = |place, value| BTreeMap::from([(String::new(), Located { value, place })]);
    let Some(table) = root.has("cluster").then(|| root.table("cluster")).flatten() else {
        return nameless(Place { line: 1, column: 1 }, ClusterSection::default());
    };
    if !table.keys().any(|key| table.is_table(key.value)) {
        return nameless(table.place(), read_one(&table));
    }
    let named = sections(root, "cluster");
    let mut read: BTreeMap<String, Located<ClusterSection>> = BTreeMap::new();
    for (name, table) in named {
        let value = read_one(&table);
        if value == ClusterSection::default() {
            let problem = table.error(
                table.place(),
                format!("[cluster.{name}] does not say which cluster it is"),
            );
            let help = "add `context`, `kubeconfig`, or `in-cluster = true`";
            table.reporter().report(problem.help(help));
        } else if let Some((other, _)) = read.iter().find(|(_, other)| other.value == value) {
            let problem = table.error(
                table.place(),
                format!("[cluster.{name}] and [cluster.{other}] are the same cluster: everything would come twice"),
            );
            table.reporter().report(problem.help("leave one of them out").warning());
        }
        let place = table.place();
        read.insert(name, Located { value, place });
    }
    read
}

fn read_one(table: &Table<'_>) -> ClusterSection {
    table.only(&KEYS);
    let section = ClusterSection {
        context: table.string("context").map(|context| context.value),
        kubeconfig: read_kubeconfig(table),
        in_cluster: table.boolean("in-cluster").unwrap_or(false),
    };
    let beside = ["context", "kubeconfig"].into_iter().find(|key| table.has(key));
    if let Some(key) = beside.filter(|_| section.in_cluster) {
        let problem = table.error(
            table.value_place(key),
            format!("`{key}` and `in-cluster = true` exclude each other"),
        );
        let help = "`in-cluster` means the service account of the pod that Informant runs in: leave one of them out";
        table.reporter().report(problem.help(help));
    }
    section
}

fn read_kubeconfig(table: &Table<'_>) -> Option<PathBuf> {
    let path = table.string("kubeconfig")?;
    if path.value.starts_with('~') {
        let problem = table.error(path.place, "`kubeconfig`: ~ is not expanded");
        table
            .reporter()
            .report(problem.help("write the whole path, or one relative to this file"));
        return None;
    }
    Some(folder_of(table.reporter().file().path()).join(path.value))
}
