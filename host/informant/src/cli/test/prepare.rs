//! Prepares a scenario: finds or builds its plugin, reads its manifest, and completes the configuration.
//!
//! ```text
//! path, config ─▶ component or script ──inspect: compiles it──▶ manifest ─▶ Config ─▶ Prepared
//! ```
//!
//! What is compiled here is in the cache of compiled components when the scenario runs: its clock must not wait for
//! another process.

mod configuration;
mod content;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use informant_apiserver::{ApiServer, Options};
use informant_config::{Config, Problems};
use informant_plugin_host::{Inspection, Manifest};
use informant_spec::Content;
use tempfile::TempDir;

use self::configuration::Draft;
pub(super) use self::configuration::watches;
pub(super) use self::content::Builder;
use self::content::check_exists;
use super::run::Outcome;
use super::scenario::{Action, Object, Scenario};
use super::world::put;
use crate::guests::Guests;

/// A scenario that can run.
pub(super) struct Prepared {
    pub(super) scenario: Scenario,
    pub(super) config: Config,
    /// The name of the plugin's section.
    pub(super) plugin: String,
    /// Whether the plugin may use `kv`.
    pub(super) has_keys: bool,
    /// The versions that it is swapped to, by step.
    pub(super) versions: BTreeMap<usize, Version>,
    pub(super) inspection: Inspection,
    /// An API server that has the kinds of the scenario.
    pub(super) kinds: ApiServer,
    /// Has the plugin's file and config.toml.
    folder: TempDir,
}

/// A version of a plugin, or why it is refused.
pub(super) type Version = Result<Content, String>;

/// What the command line says about the plugin.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// The folder of a plugin, a component or a script. None: that of the scenario.
    pub(super) path: Option<PathBuf>,
}

impl Prepared {
    /// Prepares a scenario. Builds what has to be built.
    ///
    /// # Errors
    /// `Problems` if the scenario or its configuration is wrong; other errors if the plugin cannot be built or loaded.
    pub(super) fn new(scenario: Scenario, target: &Target, builder: &mut Builder) -> Result<Prepared> {
        // What is logged while the plugin is inspected is in the error, if there is one.
        let _quiet = tracing::subscriber::set_default(tracing::subscriber::NoSubscriber::default());
        let folder = tempfile::tempdir().context("cannot create a folder for the run")?;
        let draft = Draft::of(&scenario)?;
        let file = builder.content_of(&scenario, target, &draft)?;
        let guests = Guests::for_inspection(&draft.runners)?;
        let content = crate::files::read_content(&draft.runners.source(&file))?;
        let inspection = guests.block_on(guests.host().inspect(&content, draft.of_plugin().config))?;
        let kinds = kinds_of(&scenario)?;
        let versions = versions(&scenario, builder, &guests, &draft)?;
        let (plugin, config, text) = draft.complete(&scenario, &content, &inspection, &kinds)?;
        let has_keys = configuration::has_keys(&scenario, &config);
        let mut prepared = Prepared {
            scenario,
            config,
            plugin,
            has_keys,
            versions,
            inspection,
            kinds,
            folder,
        };
        prepared.install(&content, &text)?;
        Ok(prepared)
    }

    /// Puts the plugin and config.toml into the folder of the run, where nothing else changes them.
    fn install(&mut self, content: &Content, text: &str) -> Result<()> {
        let name = content.origin().path().file_name().unwrap_or_default();
        let file = self.folder.path().join(name);
        let config = self.folder.path().join("config.toml");
        fs::write(&file, content.bytes())
            .and_then(|()| fs::write(&config, text))
            .context("cannot write into the folder of the run")?;
        self.config.path = config;
        if let Some(section) = self.config.plugins.get_mut(&self.plugin) {
            section.spec.content = content.origin().at(&file);
            section.spec.sha256 = None;
            // Only the captured calls are made.
            section.spec.paused |= self.scenario.replays();
        }
        Ok(())
    }

    pub(super) fn manifest(&self) -> &Manifest {
        &self.inspection.manifest
    }

    /// The file of the plugin in the folder of the run.
    pub(super) fn file(&self) -> PathBuf {
        let section = self.config.plugins.get(&self.plugin);
        section
            .map(|section| section.spec.content.path().to_owned())
            .unwrap_or_default()
    }

    /// Removes the folder of a run that does not end.
    pub(super) fn remove_folder(&self) {
        // What cannot be removed is in the folder for temporary files.
        let _ = fs::remove_dir_all(self.folder.path());
    }

    /// Takes the folder of the run, which has another name each time, out of what people read.
    pub(super) fn hide_folder(&self, outcome: &mut Outcome) {
        let folder = format!("{}/", self.folder.path().display());
        let hide = |text: &mut String| *text = text.replace(&folder, "");
        for failure in &mut outcome.failures {
            hide(&mut failure.title);
            failure.lines.iter_mut().for_each(hide);
        }
        outcome.notes.iter_mut().for_each(hide);
        outcome.edits.iter_mut().for_each(|edit| hide(&mut edit.text));
    }
}

/// An API server with the definitions in the scenario.
fn kinds_of(scenario: &Scenario) -> Result<ApiServer, Problems> {
    let server = ApiServer::new(Options::default());
    let applied = scenario.steps.iter().filter_map(|step| match &step.action {
        Some(Action::Apply(objects)) => Some(objects),
        _ => None,
    });
    let definitions = scenario
        .objects
        .iter()
        .chain(applied.flatten())
        .filter(|object| is_definition(object));
    for object in definitions {
        put(&server, object)
            .map_err(|error| scenario.problem(object.position, format!("{error:#}"), "correct the definition"))?;
    }
    Ok(server)
}

pub(super) fn is_definition(object: &Object) -> bool {
    object.kind == "CustomResourceDefinition" && object.api_version.starts_with("apiextensions.k8s.io/")
}

/// The versions that the scenario swaps to. They are compiled now.
fn versions(
    scenario: &Scenario,
    builder: &mut Builder,
    guests: &Guests,
    draft: &Draft,
) -> Result<BTreeMap<usize, Version>> {
    let mut versions = BTreeMap::new();
    for (number, step) in scenario.steps.iter().enumerate() {
        let Some(Action::Swap(path)) = &step.action else {
            continue;
        };
        let path = scenario.folder().join(path);
        check_exists(scenario, &path, "swap", step.position)?;
        let file = builder.version(&path, draft)?;
        let content = crate::files::read_content(&draft.runners.source(&file))?;
        let inspected = guests.block_on(guests.host().inspect(&content, draft.of_plugin().config));
        let version = inspected.map(|_| content).map_err(|error| error.problem().to_string());
        versions.insert(number, version);
    }
    Ok(versions)
}

/// The name of a file, for messages.
pub(super) fn shown(path: &Path) -> String {
    let short = path.strip_prefix(".").unwrap_or(path);
    let shown = if short.as_os_str().is_empty() { path } else { short };
    shown.display().to_string()
}
