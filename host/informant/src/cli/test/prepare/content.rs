//! The component or script of a plugin: a file that is there, or that `plugin build` makes.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use informant_config::{FilePosition, Problems};
use informant_spec::Language;

use super::configuration::Draft;
use super::{Target, shown};
use crate::cli::build;
use crate::cli::inspect::absolute;
use crate::cli::test::FOLDER;
use crate::cli::test::scenario::Scenario;

/// Finds components and scripts, and builds each at most once.
#[derive(Debug)]
pub(in crate::cli::test) struct Builder {
    /// False: components are there already.
    builds: bool,
    built: BTreeMap<PathBuf, PathBuf>,
}

impl Builder {
    pub(in crate::cli::test) fn new(builds: bool) -> Self {
        Self {
            builds,
            built: BTreeMap::new(),
        }
    }

    /// The file with the plugin of a scenario.
    pub(super) fn content_of(&mut self, scenario: &Scenario, target: &Target, draft: &Draft) -> Result<PathBuf> {
        if let Some(file) = target.path.as_ref().filter(|path| path.is_file()) {
            return self.version(file, draft);
        }
        let path = match (&scenario.path, &target.path) {
            (Some((path, at)), _) => {
                check_exists(scenario, path, "path", *at)?;
                path.clone()
            }
            (None, Some(path)) => path.clone(),
            (None, None) => folder_of_plugin(scenario),
        };
        match &draft.file {
            // A section that names a script needs nothing else.
            Some(file) if Language::of(file).is_script() => {
                check_script(scenario, file)?;
                Ok(file.clone())
            }
            Some(file) => self.build(&path, Some(file), draft),
            None => self.version(&path, draft),
        }
    }

    /// The file that `path` stands for: a script or component itself, or what is built from it.
    pub(super) fn version(&mut self, path: &Path, draft: &Draft) -> Result<PathBuf> {
        ensure!(path.exists(), "{} does not exist", shown(path));
        match build::loadable(path)? {
            Some(file) => Ok(file),
            None => self.build(path, None, draft),
        }
    }

    fn build(&mut self, path: &Path, output: Option<&Path>, draft: &Draft) -> Result<PathBuf> {
        // `plugin new` and people put the component next to its sources; another one may come from elsewhere.
        let is_there = output.is_some_and(Path::is_file);
        if !self.builds || (is_there && !build::has_sources(path)) {
            let output = output.with_context(|| format!("{} has to be built: leave out --no-build", shown(path)))?;
            ensure!(is_there, "{} does not exist: leave out --no-build", shown(output));
            return Ok(output.to_owned());
        }
        let key = output.unwrap_or(path).to_owned();
        if let Some(file) = self.built.get(&key) {
            return Ok(file.clone());
        }
        let built = build::build_for(path, output, draft.of_plugin());
        let file = built.with_context(|| format!("cannot build {}", shown(path)))?.output;
        self.built.insert(key, file.clone());
        Ok(file)
    }
}

/// Checks that what a member of the scenario names is there.
pub(super) fn check_exists(scenario: &Scenario, path: &Path, what: &str, at: FilePosition) -> Result<(), Problems> {
    match path.exists() {
        true => Ok(()),
        false => {
            let message = format!("`{what}`: {} does not exist", shown(path));
            Err(scenario.problem(
                at,
                message,
                "correct the path, which is relative to the file that has it",
            ))
        }
    }
}

/// Checks that the script that the configuration names is there, and that `path` does not name another one.
fn check_script(scenario: &Scenario, script: &Path) -> Result<(), Problems> {
    check_exists(scenario, script, "config", scenario.config_position())?;
    let Some((path, at)) = &scenario.path else {
        return Ok(());
    };
    let (of_config, of_path) = (absolute(script), absolute(path));
    let is_same = of_config == of_path || (path.is_dir() && of_config.starts_with(&of_path));
    if is_same {
        return Ok(());
    }
    let message = format!(
        "`path` names {}, but the plugin's section names {}",
        shown(path),
        shown(script)
    );
    Err(scenario.problem(*at, message, "remove `path`, or `script` of the section"))
}

/// The folder of a scenario, or the one above if it is only for scenarios.
fn folder_of_plugin(scenario: &Scenario) -> PathBuf {
    let folder = scenario.folder();
    let is_for_scenarios = folder.file_name() == Some(OsStr::new(FOLDER)) && !build::has_sources(&folder);
    match folder.parent() {
        Some(above) if is_for_scenarios && above.as_os_str().is_empty() => PathBuf::from("."),
        Some(above) if is_for_scenarios => above.to_owned(),
        _ => folder,
    }
}
