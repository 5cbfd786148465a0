//! `[cluster]`: which cluster, where the usual inference is not meant.

use std::path::PathBuf;

use super::folder_of;
use super::table::{Keys, Table};

const KEYS: Keys = Keys {
    known: &["context", "kubeconfig"],
    planned: &[],
};

/// The cluster. Without any key: `KUBECONFIG`, `~/.kube/config`, then the service account of the pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterSection {
    /// The context of the kubeconfig; `None`: its current one. `--context` comes before it.
    pub context: Option<String>,
    /// The kubeconfig, already relative to the current folder. `--kubeconfig` comes before it.
    pub kubeconfig: Option<PathBuf>,
}

pub(super) fn read(root: &Table<'_>) -> ClusterSection {
    let Some(table) = root.has("cluster").then(|| root.table("cluster")).flatten() else {
        return ClusterSection::default();
    };
    if let Some(named) = table.keys().find(|key| table.is_table(key.value)) {
        let what = format!("[cluster.{}] (more than one cluster)", named.value);
        table.report_planned(
            named.place,
            &what,
            "name one cluster: [cluster] with `context`, or leave it out",
        );
        return ClusterSection::default();
    }
    table.only(&KEYS);
    let kubeconfig = table.string("kubeconfig").and_then(|path| {
        if path.value.starts_with('~') {
            let problem = table.error(path.place, "`kubeconfig`: ~ is not expanded");
            table
                .reporter()
                .report(problem.help("write the whole path, or one relative to this file"));
            return None;
        }
        Some(folder_of(table.reporter().file().path()).join(path.value))
    });
    ClusterSection {
        context: table.string("context").map(|context| context.value),
        kubeconfig,
    }
}
