//! What the process sets in every version of the configuration, whatever the file says: for a daemon that must not act
//! where the file says.

use std::path::PathBuf;

use informant_config::{ClusterSection, Config};
use informant_spec::ReplayPolicy;

/// What is set in every version of the configuration.
#[derive(Debug, Clone, Default)]
pub struct ConfigOverrides {
    /// The kubeconfig of all clusters, in its current context.
    pub kubeconfig: Option<PathBuf>,
    /// Withholds the effects of all plugins.
    pub dry_run: bool,
    /// Replays the cache to every plugin after a swap.
    pub replay: bool,
    /// The state database, if the file has `[state]` or a durable informer.
    pub state: Option<PathBuf>,
    /// The admin socket. The admin port then has no TLS and listens where the command line says.
    pub admin_socket: Option<PathBuf>,
}

impl ConfigOverrides {
    pub(crate) fn apply(&self, config: &mut Config) {
        if let Some(kubeconfig) = &self.kubeconfig {
            for cluster in config.clusters.values_mut() {
                cluster.value = ClusterSection {
                    kubeconfig: Some(kubeconfig.clone()),
                    ..ClusterSection::default()
                };
            }
        }
        for plugin in config.plugins.values_mut() {
            plugin.spec.is_dry_run |= self.dry_run;
            if self.replay {
                plugin.spec.on_reload = ReplayPolicy::Replay;
            }
        }
        if let Some(state) = &self.state {
            config.state.path = Some(state.clone());
        }
        if let Some(socket) = &self.admin_socket {
            config.admin.socket = Some(socket.clone());
            config.admin.tls = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use informant_config::SourceFile;

    use super::*;

    #[test]
    fn every_cluster_and_plugin_is_overridden() {
        let text = "
            [cluster.east]
            kubeconfig = \"east\"
            [cluster.west]
            context = \"west\"
            [informer.pods]
            resource = \"v1/pods\"
            [plugin.a]
            script = \"a.js\"
            informers = [\"pods\"]
            [plugin.b]
            script = \"b.js\"
            informers = [\"pods\"]
            [admin]
            tls = \"self-signed\"
            cluster = \"east\"
        ";
        let mut config = Config::parse(&SourceFile::new("config.toml", text)).unwrap();
        let overrides = ConfigOverrides {
            kubeconfig: Some("dev".into()),
            dry_run: true,
            replay: true,
            state: Some("state.redb".into()),
            admin_socket: Some("admin.sock".into()),
        };
        overrides.apply(&mut config);
        let only = ClusterSection {
            kubeconfig: Some("dev".into()),
            ..ClusterSection::default()
        };
        assert!(config.clusters.values().all(|cluster| cluster.value == only));
        let specs = config.plugins.values().map(|plugin| &plugin.spec);
        let are_set = |spec: &informant_spec::PluginSpec| spec.is_dry_run && spec.on_reload == ReplayPolicy::Replay;
        assert!(specs.into_iter().all(are_set));
        assert_eq!(config.state.path, Some("state.redb".into()));
        assert!(config.admin.tls.is_none() && config.admin.socket.is_some());
    }
}
