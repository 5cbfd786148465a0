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

mod file;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use informant_cache::{Environment, Moment};
use informant_spec::{Digest, Suffix};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use wasmtime::component::Component;

pub use self::file::RunnerSource;
pub(crate) use self::file::read_bytes;
use self::file::{FileReads, RUNNER_READ_MAX, ReadPosition, Unanswered};
use crate::artifacts::Artifacts;
use crate::artifacts::precompiled::Precompiled;
use crate::component::binary::RunnerInfo;
use crate::component::{Offer, PluginComponent};
use crate::engine::compile::CompileSchedule;
use crate::error::{LoadProblem, RunnerProblem, language};
use crate::sync::lock;

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

/// What a plugin waits for: its component, or the runner of its script, is being compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiling {
    /// `its component`, `the Python runner`.
    pub what: String,
    /// When that began.
    pub since: Moment,
    /// The memory that it waits for, in bytes: others are being compiled.
    pub waits_for_bytes: Option<u64>,
}

/// The script runners of a host.
pub(crate) struct ScriptRunners<T: 'static>(BTreeMap<Suffix, ScriptRunner<T>>);

/// A script runner, prepared when the first script is loaded.
pub(crate) struct ScriptRunner<T: 'static> {
    key: Suffix,
    source: RunnerSource,
    reads: FileReads,
    /// Of the native code next to its file. What hangs there does not keep the file from being read again.
    precompiled_reads: FileReads,
    ready: OnceCell<PluginComponent<T>>,
    preparing: Mutex<Option<Preparation>>,
}

/// A runner that is being prepared.
struct Preparation {
    since: Moment,
    /// Of its file. None: that is being read.
    digest: Option<Digest>,
}

impl<T> ScriptRunners<T> {
    pub(crate) fn new(sources: RunnerSources) -> ScriptRunners<T> {
        let runners = sources.into_iter().map(|(key, source)| {
            let runner = ScriptRunner {
                key: key.clone(),
                source,
                reads: FileReads::default(),
                precompiled_reads: FileReads::default(),
                ready: OnceCell::new(),
                preparing: Mutex::default(),
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
    /// The runner without a script. The first call prepares it, reading on `pool` if there is one, and others wait for
    /// that.
    /// Errors: why the runner is rejected.
    pub(crate) async fn component(
        &self,
        pool: Option<&Handle>,
        artifacts: &Artifacts,
        offer: &Offer<T>,
        env: &dyn Environment,
    ) -> Result<&PluginComponent<T>, LoadProblem> {
        let prepare = || async {
            let preparing = Preparing::new(&self.preparing, env.now());
            let file = match pool {
                Some(pool) => self.reads.read(&self.source, &self.key, env, pool).await?,
                None => self.source.read(&self.key, &ReadPosition::default())?,
            };
            let RunnerInfo { language, version, .. } = file.check(&self.key)?;
            let (digest, bytes) = (Digest::of(&file.bytes), file.bytes.len());
            tracing::info!(language, version, digest = %digest.short(), bytes, "loading script runner");
            preparing.has_read(digest);
            let _precompiled = match (&self.source, pool) {
                (RunnerSource::Released { .. }, Some(pool)) => {
                    let precompiled = artifacts.precompiled(&file.path, digest);
                    let loaded = self.load(precompiled, env, pool).await?;
                    loaded.map(|component| artifacts.use_precompiled(digest, component))
                }
                // Who chooses the file may be somebody who must not choose native code.
                _ => None,
            };
            let component = PluginComponent::new(Arc::clone(&file.bytes), digest, &file.path, artifacts, offer).await;
            component.map_err(|problem| file.refused(problem).into())
        };
        self.ready.get_or_try_init(prepare).await
    }

    /// The native code next to the runner, if there is some. If it cannot be used, or its file system does not answer,
    /// that is logged, and the runner is to be compiled.
    /// Errors: [`LoadProblem::Stopping`].
    async fn load(
        &self,
        precompiled: Precompiled,
        env: &dyn Environment,
        pool: &Handle,
    ) -> Result<Option<Component>, LoadProblem> {
        let file = precompiled.file().to_owned();
        let load = move |_| precompiled.load();
        let error = match self.precompiled_reads.run(&file, env, pool, load).await {
            Ok(Ok(component)) => return Ok(component),
            Ok(Err(problem)) => problem,
            Err(Unanswered::Late(_)) => {
                format!(
                    "its file system has not answered within {} s",
                    RUNNER_READ_MAX.as_secs()
                )
            }
            Err(Unanswered::Stopping) => return Err(LoadProblem::Stopping),
        };
        tracing::warn!(file = %file.display(), error, "precompiled script runner unusable; compiling it");
        Ok(None)
    }

    /// What a script waits for while the runner is being prepared.
    pub(crate) fn compiling(&self, schedule: &CompileSchedule) -> Option<Compiling> {
        let preparing = lock(&self.preparing);
        let Preparation { since, digest } = preparing.as_ref()?;
        let job = digest.and_then(|digest| schedule.of(digest));
        Some(Compiling {
            what: format!("the {} runner", language(&self.key)),
            since: *since,
            waits_for_bytes: job.filter(|job| job.is_waiting).map(|job| job.memory_bytes),
        })
    }
}

/// Holds while a runner is being prepared.
struct Preparing<'a>(&'a Mutex<Option<Preparation>>);

impl<'a> Preparing<'a> {
    fn new(preparing: &'a Mutex<Option<Preparation>>, since: Moment) -> Preparing<'a> {
        *lock(preparing) = Some(Preparation { since, digest: None });
        Preparing(preparing)
    }

    fn has_read(&self, digest: Digest) {
        if let Some(preparation) = &mut *lock(self.0) {
            preparation.digest = Some(digest);
        }
    }
}

impl Drop for Preparing<'_> {
    fn drop(&mut self) {
        *lock(self.0) = None;
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use prometheus_client::registry::Registry;

    use super::file::RunnerFile;
    use super::*;
    use crate::artifacts::{ArtifactMetrics, precompiled};
    use crate::engine::compile::{CompileGauges, CompileQueue, Compiler};
    use crate::testing::{LogLines, TokioTime};

    fn suffix(text: &str) -> Suffix {
        Suffix::new(text).unwrap()
    }

    #[test]
    fn others_see_that_a_runner_is_prepared() {
        let source = RunnerSource::Configured(PathBuf::from("python.wasm"));
        let runners = ScriptRunners::<()>::new(RunnerSources::from([(suffix("py"), source)]));
        let runner = runners.get(&suffix("py")).unwrap();
        let schedule = CompileSchedule::new(1, CompileGauges::default());
        assert_eq!(runner.compiling(&schedule), None);
        let preparing = Preparing::new(&runner.preparing, Moment::ZERO);
        let compiling = |waits_for_bytes| {
            Some(Compiling {
                what: "the Python runner".to_owned(),
                since: Moment::ZERO,
                waits_for_bytes,
            })
        };
        assert_eq!(runner.compiling(&schedule), compiling(None));
        let python = Digest::of(b"python");
        preparing.has_read(python);
        schedule.set_memory_max(64 << 20);
        let _other = schedule.enter(Digest::of(b"other"), 40 << 20, Moment::ZERO);
        let turn = schedule.enter(python, 398 << 20, Moment::ZERO);
        assert_eq!(runner.compiling(&schedule), compiling(Some(398 << 20)));
        drop((turn, preparing));
        assert_eq!(runner.compiling(&schedule), None);
    }

    /// Artifacts in `folder`.
    fn artifacts(folder: &Path) -> Artifacts {
        let engine = crate::engine::engine().unwrap();
        let (env, pool) = (Arc::new(TokioTime), Handle::current());
        let metrics = ArtifactMetrics::register(&mut Registry::default());
        let queue = CompileQueue::new(
            Compiler::InProcess,
            &engine,
            env,
            pool.clone(),
            CompileGauges::default(),
        );
        Artifacts::open(&engine, folder, queue, pool, metrics).unwrap()
    }

    #[cfg(unix)]
    #[tokio::test(start_paused = true)]
    async fn native_code_that_is_never_read_is_compiled_instead() {
        let (cache, release) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let artifacts = artifacts(cache.path());
        let (file, digest) = (release.path().join("python.wasm"), Digest::of(b"runner"));
        let written = precompiled::keep(&file, digest, b"native code").unwrap();
        // Who reads a pipe waits for a writer.
        let checksum = written.with_extension("sha256");
        std::fs::remove_file(&checksum).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&checksum).status();
        assert!(made.unwrap().success());
        let source = RunnerSource::Configured(file.clone());
        let runners = ScriptRunners::<()>::new(RunnerSources::from([(suffix("py"), source)]));
        let runner = runners.get(&suffix("py")).unwrap();
        let log = LogLines::default();
        let _guard = tracing::subscriber::set_default(log.clone());
        let pool = Handle::current();
        let load = async || {
            runner
                .load(artifacts.precompiled(&file, digest), &TokioTime, &pool)
                .await
        };
        let (loaded, ()) = tokio::join!(load(), tokio::time::advance(RUNNER_READ_MAX));
        assert!(loaded.ok().unwrap().is_none());
        let lines = log.take().join("\n");
        let lines = lines.replace(&written.display().to_string(), "FILE");
        insta::assert_snapshot!(lines, @r#"WARN precompiled script runner unusable; compiling it file=FILE error="its file system has not answered within 10 s""#);
        // The thread ends, so that the next read does not wait.
        std::fs::write(&checksum, "no checksum").unwrap();
        std::fs::remove_file(&checksum).unwrap();
        std::fs::write(&checksum, "no checksum").unwrap();
        assert!(load().await.ok().unwrap().is_none());
        let lines = log.take().join("\n");
        assert!(lines.ends_with("its checksum does not match\""), "{lines}");
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
        let read = |source: &RunnerSource| source.read(&suffix("py"), &ReadPosition::default());
        let runners = ScriptRunners::<()>::new(RunnerSources::from([(suffix("lua"), released(&[]))]));
        let unknown = |name: &str| runners.get(&suffix(name)).err().map(|problem| problem.to_string());
        let problems = [
            shown(read(&released(&["bin", "lib"]))),
            shown(read(&RunnerSource::Configured(folder.path().join("none.wasm")))),
            shown(read(&RunnerSource::Configured(folder.path().to_owned()))),
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
        assert_eq!(shown(read(&released(&["bin", "lib"]))), "");
    }
}
