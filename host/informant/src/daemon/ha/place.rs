//! [`ReplicaPlace`]: where this replica finds its group.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use informant_cache::{Division, ShardHash};
use informant_config::{ClusterSection, Config, HaHash, HaSection};

use crate::cluster::{Cluster, ClusterAccess, ClusterError};
use crate::daemon::announcement::stateful_set;

/// Where this replica finds its group.
pub(in crate::daemon) struct ReplicaPlace {
    pub(super) section: HaSection,
    pub(super) group: Arc<str>,
    pub(super) pod: Arc<str>,
    clusters: Vec<ClusterSection>,
}

impl ReplicaPlace {
    /// Where the replica of `[ha]` finds its group; none without that section.
    ///
    /// # Errors
    /// If it has no name, or its group has none.
    pub(in crate::daemon) fn of(config: &Config, access: &ClusterAccess) -> Result<Option<Self>> {
        let Some(section) = &config.ha else { return Ok(None) };
        let pod = std::env::var("HOSTNAME").unwrap_or_default();
        if pod.is_empty() {
            bail!(
                "[ha] needs the name of this replica in the environment variable HOSTNAME, which is empty; a pod has it"
            );
        }
        let group = match (&section.group, stateful_set(&pod)) {
            (Some(group), _) => group.as_str(),
            (None, Some(set)) => set,
            (None, None) => bail!(
                "[ha] needs `group`: the host name, {pod:?}, is not that of a pod of a StatefulSet, such as informant-0"
            ),
        };
        let configured = |name: &str| {
            let section = config.clusters.get(name)?;
            Some(access.flags.over(name, &section.value))
        };
        let in_cluster = ClusterSection {
            in_cluster: true,
            ..ClusterSection::default()
        };
        let clusters = match &section.cluster {
            Some(name) => configured(name).into_iter().collect(),
            None => std::iter::once(in_cluster).chain(configured("")).collect(),
        };
        Ok(Some(Self {
            section: section.clone(),
            group: group.into(),
            pod: pod.into(),
            clusters,
        }))
    }

    /// Informant's own cluster: the first one that it runs in, or that the configuration names.
    pub(super) async fn connect(&self) -> Result<Cluster> {
        let mut problem = None;
        for section in &self.clusters {
            match Cluster::connect(section).await {
                Ok(cluster) => return Ok(cluster),
                // It does not run in a pod.
                Err(error @ ClusterError::InCluster(_)) => problem = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        match problem {
            Some(problem) => Err(problem).context("set `cluster` in [ha] to Informant's own cluster"),
            None => bail!("set `cluster` in [ha]: no cluster is configured"),
        }
    }

    /// Into how many shards this replica is configured to divide the work. None: every plugin acts for all objects, so
    /// that it cannot act for a part of them.
    pub(super) fn division(&self) -> Option<Division> {
        Some(Division {
            shards: self.section.shards?,
            hash: match self.section.hash {
                HaHash::Mixed => ShardHash::Mixed,
                HaHash::Raw => ShardHash::Raw,
            },
        })
    }
}
