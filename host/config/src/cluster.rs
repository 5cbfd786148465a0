//! `[cluster]` and `[cluster.NAME]`: overrides for the usual kubeconfig inference.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::sections;
use crate::source::{FilePosition, Located};
use crate::table::Table;

/// How to connect to a cluster. Without any key: `KUBECONFIG`, `~/.kube/config`, then the service account of the pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterSection {
    /// The context of the kubeconfig; `None`: its current context.
    pub context: Option<String>,
    /// The kubeconfig, resolved relative to the current folder.
    pub kubeconfig: Option<PathBuf>,
    /// Use only the pod's service account.
    pub in_cluster: bool,
}

/// The clusters by name. The single one of `[cluster]`, or of no section at all, has the empty name.
pub(crate) fn read(root: &Table<'_>) -> BTreeMap<String, Located<ClusterSection>> {
    let unnamed = |position, value| BTreeMap::from([(String::new(), Located { value, position })]);
    let Some(table) = root.table("cluster") else {
        return unnamed(FilePosition { line: 1, column: 1 }, ClusterSection::default());
    };
    if !table.keys().any(|key| table.is_table(key.value)) {
        return unnamed(table.position(), read_one(&table));
    }
    let named = sections(root, "cluster");
    let mut read: BTreeMap<String, Located<ClusterSection>> = BTreeMap::new();
    for (name, table) in named {
        let value = read_one(&table);
        if value == ClusterSection::default() {
            let message = format!("[cluster.{name}] does not select a cluster");
            let help = "add `context`, `kubeconfig`, or `in-cluster = true`";
            table.refuse(table.position(), message, help);
        } else if let Some((other, _)) = read.iter().find(|(_, other)| other.value == value) {
            let message = format!(
                "[cluster.{name}] and [cluster.{other}] are the same cluster: every event would be delivered twice"
            );
            table.warn(table.position(), message, "remove one of them");
        }
        let position = table.position();
        read.insert(name, Located { value, position });
    }
    read
}

fn read_one(table: &Table<'_>) -> ClusterSection {
    let section = ClusterSection {
        context: table.string("context").map(|context| context.value),
        kubeconfig: read_kubeconfig(table),
        in_cluster: table.boolean("in-cluster").unwrap_or(false),
    };
    table.finish(&[]);
    let conflicting = ["context", "kubeconfig"].into_iter().find(|key| table.has(key));
    if let Some(key) = conflicting.filter(|_| section.in_cluster) {
        let message = format!("`{key}` and `in-cluster = true` are mutually exclusive");
        let help = "`in-cluster` uses the service account of Informant's pod: remove one of them";
        table.refuse(table.value_position(key), message, help);
    }
    section
}

fn read_kubeconfig(table: &Table<'_>) -> Option<PathBuf> {
    let path = table.string("kubeconfig")?;
    if path.value.starts_with('~') {
        let message = "`kubeconfig`: ~ is not expanded";
        let help = "write the whole path, or one relative to this file";
        table.refuse(path.position, message, help);
        return None;
    }
    Some(table.file(path.value))
}
