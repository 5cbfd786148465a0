//! Script runners: components that run scripts, one for each language.
//!
//! ```text
//! suffix of the script ──▶ ScriptRunners ──▶ ScriptRunner ──first script──▶ read, check, compile ──▶ shared by all
//! ```
//!
//! A script runner is a component of the public contract with a custom section `informant:runner` ([`RunnerInfo`]),
//! which is read without running it. There is no private interface between it and the host (see [`super::script`]). It
//! is prepared when the first script of its language is loaded, and stays as it is until the process ends: a program
//! that runs no script of a language pays nothing for it. What fails is tried again for the next script.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use informant_cache::{Environment, Moment};
use informant_spec::{Digest, Suffix};
use tokio::sync::OnceCell;

use crate::artifacts::Artifacts;
use crate::component::binary::{self, RunnerInfo};
use crate::component::interface_name::InterfaceVersion;
use crate::component::roles::offered_version;
use crate::component::{Offer, PluginComponent};
use crate::engine::compile::COMPONENT_BYTES_MAX;
use crate::engine::limiter::Mib;
use crate::error::{LoadProblem, RunnerProblem, language};
use crate::sync::lock;

/// The path of a runner without a file, in messages.
const BUILT_IN: &str = "the built-in script runner";

/// Where a script runner is.
#[derive(Clone, Debug)]
pub enum RunnerSource {
    /// In the program, or read already.
    BuiltIn(Cow<'static, [u8]>),
    /// The file that config.toml names.
    Configured(PathBuf),
    /// A file of the release, in the first of these folders that has it.
    Released {
        /// The file's name.
        file: &'static str,
        folders: Vec<PathBuf>,
    },
}

/// The runners that a host may use, by the key that they have in `[script-runners]`: `js`, `py`.
pub type RunnerSources = BTreeMap<Suffix, RunnerSource>;

/// The runner of a script, for its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnerStatus {
    /// The language of its scripts.
    pub language: String,
    pub version: String,
    /// The sha256 of its file.
    pub digest: Digest,
}

/// A runner that is being read and compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompilingRunner {
    /// The language of its scripts.
    pub language: String,
    pub since: Moment,
}

/// The bytes of a runner, and the path that messages name.
pub(crate) struct RunnerFile {
    path: PathBuf,
    bytes: Arc<[u8]>,
}

/// The script runners of a host.
pub(crate) struct ScriptRunners<T: 'static>(BTreeMap<Suffix, ScriptRunner<T>>);

/// A script runner, prepared when the first script is loaded.
pub(crate) struct ScriptRunner<T: 'static> {
    key: Suffix,
    source: RunnerSource,
    ready: OnceCell<PluginComponent<T>>,
    preparing_since: Mutex<Option<Moment>>,
}

impl RunnerSource {
    /// Reads the runner of scripts with this suffix. Blocks.
    pub(crate) fn read(&self, suffix: &Suffix) -> Result<RunnerFile, RunnerProblem> {
        match self {
            RunnerSource::BuiltIn(bytes) => Ok(RunnerFile {
                path: PathBuf::from(BUILT_IN),
                bytes: Arc::from(&bytes[..]),
            }),
            RunnerSource::Configured(path) => read(path),
            RunnerSource::Released { file, folders } => {
                let places: Vec<PathBuf> = folders.iter().map(|folder| folder.join(file)).collect();
                match places.iter().find(|place| place.exists()) {
                    Some(place) => read(place),
                    None => Err(RunnerProblem::NotInstalled {
                        suffix: suffix.clone(),
                        file,
                        places,
                    }),
                }
            }
        }
    }
}

/// Reads a runner's file, which is no longer than any other component.
pub(crate) fn read(path: &Path) -> Result<RunnerFile, RunnerProblem> {
    let unreadable = |cause: String| RunnerProblem::Unreadable {
        runner: path.to_owned(),
        cause,
    };
    let about = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
    // A pipe would never end.
    if !about.is_file() {
        return Err(unreadable("it is not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    let most = COMPONENT_BYTES_MAX as u64;
    File::open(path)
        .and_then(|file| file.take(most + 1).read_to_end(&mut bytes))
        .map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() > COMPONENT_BYTES_MAX {
        return Err(unreadable(format!("it is larger than {}", Mib(COMPONENT_BYTES_MAX))));
    }
    Ok(RunnerFile {
        path: path.to_owned(),
        bytes: bytes.into(),
    })
}

impl RunnerFile {
    pub(crate) fn bytes(&self) -> Arc<[u8]> {
        Arc::clone(&self.bytes)
    }

    /// Checks what the file says of itself: that it is a runner for `key`, and built for this contract.
    fn check(&self, key: &Suffix) -> Result<RunnerInfo, RunnerProblem> {
        let runner = || self.path.clone();
        let surface = binary::surface(&self.bytes).map_err(|problem| self.refused(problem))?;
        let info = surface
            .runner
            .ok_or_else(|| RunnerProblem::NoSection { runner: runner() })?;
        let version = InterfaceVersion::parse(&info.contract);
        if !version.is_some_and(|version| version.is_compatible_with(&offered_version())) {
            return Err(RunnerProblem::Contract {
                runner: runner(),
                version: info.version,
                found: info.contract,
            });
        }
        if !info.suffixes.iter().any(|suffix| suffix == key.as_str()) {
            return Err(RunnerProblem::OtherLanguage {
                runner: runner(),
                found: info.language,
                suffixes: info.suffixes,
                suffix: key.clone(),
            });
        }
        Ok(info)
    }

    fn refused(&self, problem: LoadProblem) -> RunnerProblem {
        RunnerProblem::Refused {
            runner: self.path.clone(),
            problem: Box::new(problem),
        }
    }
}

impl<T> ScriptRunners<T> {
    pub(crate) fn new(sources: RunnerSources) -> ScriptRunners<T> {
        let runners = sources.into_iter().map(|(key, source)| {
            let runner = ScriptRunner {
                key: key.clone(),
                source,
                ready: OnceCell::new(),
                preparing_since: Mutex::default(),
            };
            (key, runner)
        });
        ScriptRunners(runners.collect())
    }

    /// The runner of scripts with this suffix.
    /// Errors: [`RunnerProblem::NotBuiltIn`], [`RunnerProblem::UnknownSuffix`].
    pub(crate) fn get(&self, suffix: &Suffix) -> Result<&ScriptRunner<T>, RunnerProblem> {
        let key = suffix.runner();
        self.0.get(&key).ok_or_else(|| match key.as_str() {
            "js" => RunnerProblem::NotBuiltIn,
            _ => self.unknown(suffix),
        })
    }

    /// The problem of a suffix that has no runner.
    pub(crate) fn unknown(&self, suffix: &Suffix) -> RunnerProblem {
        let added = self.0.keys().filter(|key| key.language().is_none()).cloned();
        let known: Vec<String> = Suffix::known()
            .chain(added)
            .map(|suffix| format!(".{suffix}"))
            .collect();
        RunnerProblem::UnknownSuffix {
            suffix: suffix.clone(),
            known: known.join(", "),
        }
    }
}

impl<T> ScriptRunner<T> {
    pub(crate) fn source(&self) -> &RunnerSource {
        &self.source
    }

    /// The runner without a script. The first call prepares it from `file`, and others wait for that.
    /// Errors: why the runner is rejected.
    pub(crate) async fn component(
        &self,
        file: impl Future<Output = Result<RunnerFile, LoadProblem>>,
        artifacts: &Artifacts,
        offer: &Offer<T>,
        env: &dyn Environment,
    ) -> Result<&PluginComponent<T>, LoadProblem> {
        let prepare = || async {
            let _preparing = Preparing::new(&self.preparing_since, env.now());
            let file = file.await?;
            let RunnerInfo { language, version, .. } = file.check(&self.key)?;
            let (digest, bytes) = (Digest::of(&file.bytes), file.bytes.len());
            tracing::info!(language, version, digest = %digest.short(), bytes, "loading script runner");
            let _precompiled = match &self.source {
                RunnerSource::Released { .. } => artifacts.use_precompiled(&file.path, digest).await,
                // Who chooses the file may be somebody who must not choose native code.
                RunnerSource::BuiltIn(_) | RunnerSource::Configured(_) => None,
            };
            let component = PluginComponent::new(Arc::clone(&file.bytes), digest, artifacts, offer).await;
            component.map_err(|problem| file.refused(problem).into())
        };
        self.ready.get_or_try_init(prepare).await
    }

    /// What a script waits for while the runner is being prepared.
    pub(crate) fn compiling(&self) -> Option<CompilingRunner> {
        lock(&self.preparing_since).map(|since| CompilingRunner {
            language: language(&self.key),
            since,
        })
    }
}

/// Holds while a runner is being prepared.
struct Preparing<'a>(&'a Mutex<Option<Moment>>);

impl<'a> Preparing<'a> {
    fn new(since: &'a Mutex<Option<Moment>>, now: Moment) -> Preparing<'a> {
        *lock(since) = Some(now);
        Preparing(since)
    }
}

impl Drop for Preparing<'_> {
    fn drop(&mut self) {
        *lock(self.0) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suffix(text: &str) -> Suffix {
        Suffix::new(text).unwrap()
    }

    /// The problem of a runner for .lua files with this section.
    fn problem(section: &str) -> String {
        let section = section.replace('"', "\\\"");
        let text = format!(r#"(component (core module (@custom "informant:runner" "{section}")))"#);
        let file = RunnerFile {
            path: PathBuf::from("lua.wasm"),
            bytes: wat::parse_str(text).unwrap().into(),
        };
        file.check(&suffix("lua"))
            .map_or_else(|problem| problem.to_string(), |info| info.version)
    }

    #[test]
    fn a_runner_is_checked_by_its_section() {
        let section = |suffix: &str, contract: &str| {
            format!(r#"{{"language":"Lua","suffixes":["{suffix}"],"version":"5.4","contract":"{contract}"}}"#)
        };
        let ours = crate::bindings::CONTRACT;
        assert_eq!(problem(&section("lua", ours)), "5.4");
        let problems = [
            problem("{}"),
            problem(&section("luau", ours)),
            problem(&section("lua", "0.1.0")),
            problem(&section("lua", "soon")),
        ];
        insta::assert_snapshot!(problems.join("\n"), @r"
        its runner, lua.wasm, is no script runner: it has no section informant:runner; set [script-runners] in config.toml to the file of a runner, such as informant-runner-python.wasm
        its runner, lua.wasm, runs scripts in Lua (.luau), not .lua files; correct [script-runners] in config.toml
        its runner, lua.wasm (5.4), was built for contract 0.1.0, but this Informant supports 0.3.0; use the runner of Informant 0.1.0
        its runner, lua.wasm (5.4), was built for contract soon, but this Informant supports 0.3.0; use the runner of Informant 0.1.0
        ");
    }

    #[test]
    fn others_see_that_a_runner_is_prepared() {
        let source = RunnerSource::Configured(PathBuf::from("python.wasm"));
        let runners = ScriptRunners::<()>::new(RunnerSources::from([(suffix("py"), source)]));
        let runner = runners.get(&suffix("py")).unwrap();
        assert_eq!(runner.compiling(), None);
        let preparing = Preparing::new(&runner.preparing_since, Moment::ZERO);
        let expected = CompilingRunner {
            language: "Python".to_owned(),
            since: Moment::ZERO,
        };
        assert_eq!(runner.compiling(), Some(expected));
        drop(preparing);
        assert_eq!(runner.compiling(), None);
    }

    #[test]
    fn a_missing_runner_is_reported_with_its_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let shown = |result: Result<RunnerFile, RunnerProblem>| {
            let problem = result.err().map(|problem| problem.to_string()).unwrap_or_default();
            problem.replace(&folder.path().display().to_string(), "FOLDER")
        };
        let released = |folders: &[&str]| RunnerSource::Released {
            file: "informant-runner-python.wasm",
            folders: folders.iter().map(|name| folder.path().join(name)).collect(),
        };
        let runners = ScriptRunners::<()>::new(RunnerSources::from([(suffix("lua"), released(&[]))]));
        let unknown = |name: &str| runners.get(&suffix(name)).err().map(|problem| problem.to_string());
        let problems = [
            shown(released(&["bin", "lib"]).read(&suffix("py"))),
            shown(RunnerSource::Configured(folder.path().join("none.wasm")).read(&suffix("py"))),
            shown(RunnerSource::Configured(folder.path().to_owned()).read(&suffix("py"))),
            unknown("mjs").unwrap(),
            unknown("rb").unwrap(),
        ];
        insta::assert_snapshot!(problems.join("\n"), @r#"
        the runner of Python scripts is not installed: there is no FOLDER/bin/informant-runner-python.wasm or FOLDER/lib/informant-runner-python.wasm; put the file informant-runner-python.wasm of Informant 0.1.0 there, or set its path in config.toml: [script-runners] py = "FILE"
        its runner, FOLDER/none.wasm, cannot be read: No such file or directory (os error 2); correct [script-runners] in config.toml
        its runner, FOLDER, cannot be read: it is not a regular file; correct [script-runners] in config.toml
        this Informant was built without its script runner; build it with `cargo xtask`, which includes it, or set INFORMANT_SCRIPT_RUNNER to the runner's file
        no script runner is known for .rb files; scripts end in .js, .mjs, .ts, .mts, .py, .lua; to add a runner, set in config.toml: [script-runners] rb = "FILE"
        "#);
        std::fs::create_dir(folder.path().join("lib")).unwrap();
        std::fs::write(folder.path().join("lib/informant-runner-python.wasm"), "runner").unwrap();
        assert_eq!(shown(released(&["bin", "lib"]).read(&suffix("py"))), "");
    }
}
