//! Changes of a plugin's section, and of its component's file: prepared next to the running version, then applied.

use std::sync::Arc;

use informant_spec::{Content, ContentSource, PluginSpec};

use crate::actor::mailbox::ActorCommand;
use crate::actor::mailbox::SwapKind;
use crate::error::{LoadError, LoadProblem};
use crate::instance::config::PluginConfig;
use crate::instance::version::LoadedVersion;
use crate::plugin::instances::Candidates;
use crate::plugin::{Plugin, Swapped};

/// A change of the component or the section that was prepared next to the running version.
pub struct PreparedChange(Prepared);

enum Prepared {
    /// The running instances can serve the section.
    InPlace(Box<PluginSpec>),
    Version(Box<PreparedVersion>),
}

/// A version with its instances.
struct PreparedVersion {
    /// The configuration that it was prepared next to.
    base: Arc<PluginConfig>,
    config: Arc<PluginConfig>,
    origin: ContentSource,
    version: LoadedVersion,
    candidates: Candidates,
}

impl Plugin {
    /// Applies another section of config.toml if that needs neither its content nor a new instance: if its source,
    /// `config`, the limits on memory and time, and the names of informers are the same. Otherwise returns false. A dry
    /// run begins in any case.
    pub async fn reconfigure_in_place(&self, spec: &PluginSpec) -> bool {
        let _one_at_a_time = self.0.swapping.lock().await;
        let config = self.0.context.config();
        let same_content = (&spec.content, spec.sha256) == (&config.spec.content, config.spec.sha256);
        if same_content && config.can_serve(spec) {
            self.apply_in_place(config.updated(spec.clone())).await;
            return true;
        }
        if spec.is_dry_run && !config.spec.is_dry_run {
            // `init` of the new instance has effects before the instance is swapped in.
            let mut running = config.spec.clone();
            running.is_dry_run = true;
            self.apply_in_place(config.updated(running)).await;
        }
        false
    }

    /// Prepares to reload the plugin with the version in `content`, next to the running one: validates, compiles and
    /// describes it, and creates and initializes its instances. The returned future may be dropped at any point.
    ///
    /// # Errors
    /// [`LoadError`]: the content is no plugin, or its instances cannot be created.
    pub async fn prepare_version(&self, content: Content) -> Result<PreparedChange, LoadError> {
        let config = self.0.context.config();
        let prepared = self.prepare(&config, Arc::clone(&config), &content).await;
        prepared.map_err(|problem| self.refuse(LoadError::new(content.origin().path(), problem)))
    }

    /// Prepares to apply another section of config.toml, with the content that it names, next to the running version,
    /// as [`prepare_version`](Self::prepare_version) does, if the running instances cannot serve it. The returned
    /// future may be dropped at any point.
    ///
    /// # Errors
    /// [`LoadError`]: as for `prepare_version`, or the section is not possible with this content.
    pub async fn prepare_section(&self, spec: PluginSpec, content: Content) -> Result<PreparedChange, LoadError> {
        let prepare = async {
            let config = self.0.context.config();
            if config.can_serve(&spec) && content.digest() == self.digest() {
                let pinned = spec.sha256.filter(|pinned| *pinned != content.digest());
                return match pinned {
                    Some(pinned) => Err(LoadProblem::Pin {
                        found: content.digest(),
                        pinned,
                    }),
                    None => Ok(PreparedChange(Prepared::InPlace(Box::new(spec)))),
                };
            }
            self.prepare(&config, PluginConfig::new(spec), &content).await
        };
        let prepared = prepare.await;
        prepared.map_err(|problem| self.refuse(LoadError::new(content.origin().path(), problem)))
    }

    /// Applies what was prepared. A new version is swapped in between two calls; the old version finishes its current
    /// call. If both have the role `state`, the old one's state is transferred first. Depending on `on-reload`, the new
    /// version continues where the old one stopped, or receives a replay of the cache. A quarantine ends. Indexes are
    /// computed again and attached when they are complete. None is returned if the instances were kept. The caller
    /// attaches the listener to its informers.
    ///
    /// Run the returned future to its end: the old version may have ended when it is dropped.
    ///
    /// # Errors
    /// [`LoadError`]. The old version and section stay in effect.
    pub async fn apply(&self, change: PreparedChange) -> Result<Option<Swapped>, LoadError> {
        let _one_at_a_time = self.0.swapping.lock().await;
        let config = self.0.context.config();
        match change.0 {
            Prepared::InPlace(spec) => {
                self.apply_in_place(config.updated(*spec)).await;
                Ok(None)
            }
            Prepared::Version(prepared) => {
                let PreparedVersion {
                    base,
                    config: wanted,
                    origin,
                    version,
                    candidates,
                } = *prepared;
                let swap = async {
                    if !Arc::ptr_eq(&base, &config) {
                        return Err(LoadProblem::Outdated);
                    }
                    // It stood by when they were created, or since.
                    let is_renewed = candidates.term.is_cancelled() && !self.is_standby();
                    let candidates = match is_renewed {
                        true => self.candidates_of(&wanted, &version).await?,
                        false => candidates,
                    };
                    self.swap_in(wanted, version, candidates, SwapKind::Reload).await
                };
                let swapped = swap.await;
                self.record_result(origin.path(), swapped).map(Some)
            }
        }
    }

    /// Applies a configuration to the running instances. Revoked grants take effect even if the manifest requires them.
    async fn apply_in_place(&self, config: Arc<PluginConfig>) {
        if let Err(problem) = self.manifest().check_section(&config.spec) {
            let plugin = self.name();
            tracing::warn!(plugin, error = %problem, "plugin requirements no longer granted; its calls are denied");
        }
        self.apply_config(&config);
        self.send_to_all(|| ActorCommand::Reconfigure(Arc::clone(&config)))
            .await;
    }

    /// Makes `config` the plugin's configuration.
    pub(super) fn apply_config(&self, config: &Arc<PluginConfig>) {
        self.0.context.apply(config);
    }

    async fn prepare(
        &self,
        base: &Arc<PluginConfig>,
        config: Arc<PluginConfig>,
        content: &Content,
    ) -> Result<PreparedChange, LoadProblem> {
        let (version, candidates) = self.instantiate(&config, content).await?;
        Ok(PreparedChange(Prepared::Version(Box::new(PreparedVersion {
            base: Arc::clone(base),
            config,
            origin: content.origin().clone(),
            version,
            candidates,
        }))))
    }
}
