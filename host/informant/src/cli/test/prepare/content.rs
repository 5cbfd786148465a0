//! The component or script of a plugin: a file that is there, or that `plugin build` makes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use informant_spec::Language;

use super::configuration::Draft;
use super::{Target, shown};
use crate::cli::build;
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
        let named = target.path.as_ref().filter(|path| path.is_file());
        let path = scenario.path.as_ref().or(target.path.as_ref()).cloned();
        let path = path.unwrap_or_else(|| scenario.folder());
        match (named, &draft.file) {
            (Some(file), _) => self.version(file, draft),
            // A section that names a script needs nothing else.
            (None, Some(file)) if Language::of(file).is_script() => Ok(file.clone()),
            (None, Some(file)) => self.build(&path, Some(file), draft),
            (None, None) => self.version(&path, draft),
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
