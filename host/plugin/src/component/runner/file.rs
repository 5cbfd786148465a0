//! The file of a script runner: where it is, how it is read, and what it says of itself.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_cache::{Environment, Moment};
use informant_spec::Suffix;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::component::binary::{self, RunnerInfo};
use crate::component::interface_name::InterfaceVersion;
use crate::component::roles::offered_version;
use crate::engine::compile::COMPONENT_BYTES_MAX;
use crate::engine::limiter::Mib;
use crate::error::{LoadProblem, RunnerProblem};
use crate::sync::lock;

/// The path of a runner without a file, in messages.
const BUILT_IN: &str = "the built-in script runner";

/// How long the file of a runner may take to be read: 10 s, as the files of plugins. After that its scripts are
/// refused, and the read continues on its thread.
pub(crate) const RUNNER_READ_MAX: Duration = Duration::from_secs(10);

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

/// The bytes of a runner, and the path that messages name.
pub(super) struct RunnerFile {
    pub(super) path: PathBuf,
    pub(super) bytes: Arc<[u8]>,
}

impl RunnerSource {
    /// Reads the runner of scripts with this suffix. Blocks.
    pub(super) fn read(&self, suffix: &Suffix) -> Result<RunnerFile, RunnerProblem> {
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

    /// The problem of a file that takes too long to be read.
    fn late(&self) -> RunnerProblem {
        let path = match self {
            RunnerSource::BuiltIn(_) => PathBuf::from(BUILT_IN),
            RunnerSource::Configured(path) => path.clone(),
            RunnerSource::Released { file, folders } => folders.first().map_or(file.into(), |folder| folder.join(file)),
        };
        RunnerProblem::ReadTimeout {
            runner: path,
            within: RUNNER_READ_MAX,
        }
    }
}

/// Reads a runner's file, which is no longer than any other component.
fn read(path: &Path) -> Result<RunnerFile, RunnerProblem> {
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

/// Reads the file of a runner, once at a time: a file system may never answer, which costs one thread.
pub(super) struct FileReads {
    turn: Arc<Semaphore>,
    /// When the read that has the turn began.
    began: Mutex<Moment>,
}

impl Default for FileReads {
    fn default() -> FileReads {
        FileReads {
            turn: Arc::new(Semaphore::new(1)),
            began: Mutex::new(Moment::ZERO),
        }
    }
}

impl FileReads {
    /// Reads the runner of scripts with this suffix on `pool`.
    /// Errors: those of [`RunnerSource::read`], and [`RunnerProblem::ReadTimeout`], also for the time that an earlier
    /// read takes.
    pub(super) async fn read(
        &self,
        source: &RunnerSource,
        suffix: &Suffix,
        env: &dyn Environment,
        pool: &Handle,
    ) -> Result<RunnerFile, LoadProblem> {
        let (of_thread, suffix) = (source.clone(), suffix.clone());
        self.run(source, env, pool, move || of_thread.read(&suffix)).await
    }

    async fn run(
        &self,
        source: &RunnerSource,
        env: &dyn Environment,
        pool: &Handle,
        read: impl FnOnce() -> Result<RunnerFile, RunnerProblem> + Send + 'static,
    ) -> Result<RunnerFile, LoadProblem> {
        let late = || LoadProblem::from(source.late());
        let turn = Arc::clone(&self.turn);
        let turn = match Arc::clone(&turn).try_acquire_owned() {
            Ok(turn) => turn,
            Err(_) => {
                let deadline = *lock(&self.began) + RUNNER_READ_MAX;
                tokio::select! {
                    biased;
                    turn = turn.acquire_owned() => turn.map_err(|_| LoadProblem::Stopping)?,
                    () = env.sleep(deadline - env.now()) => return Err(late()),
                }
            }
        };
        *lock(&self.began) = env.now();
        let reading = pool.spawn_blocking(move || {
            let _until_it_returns = turn;
            read()
        });
        tokio::select! {
            biased;
            read = reading => Ok(read.map_err(|_| LoadProblem::Stopping)??),
            () = env.sleep(RUNNER_READ_MAX) => Err(late()),
        }
    }
}

/// The bytes of a runner's file. Blocks.
pub(crate) fn read_bytes(path: &Path) -> Result<Arc<[u8]>, RunnerProblem> {
    read(path).map(|file| file.bytes)
}

impl RunnerFile {
    /// Checks what the file says of itself: that it is a runner for `key`, and built for this contract.
    pub(super) fn check(&self, key: &Suffix) -> Result<RunnerInfo, RunnerProblem> {
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

    pub(super) fn refused(&self, problem: LoadProblem) -> RunnerProblem {
        RunnerProblem::Refused {
            runner: self.path.clone(),
            problem: Box::new(problem),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::testing::TokioTime;

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

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_never_read_refuses_its_scripts() {
        let (reads, source) = (
            FileReads::default(),
            RunnerSource::Configured(PathBuf::from("lua.wasm")),
        );
        let (release, hangs) = mpsc::channel::<()>();
        let read = async |read: Box<dyn FnOnce() -> Result<RunnerFile, RunnerProblem> + Send>| {
            let file = reads.run(&source, &TokioTime, &Handle::current(), read).await;
            file.map_or_else(|problem| problem.to_string(), |_| "read".to_owned())
        };
        let file = || RunnerFile {
            path: PathBuf::from("lua.wasm"),
            bytes: Arc::from([]),
        };
        let hanging = read(Box::new(move || {
            let _ = hangs.recv();
            Ok(file())
        }));
        // Time does not pass by itself while a thread blocks.
        let (late, ()) = tokio::join!(hanging, tokio::time::advance(RUNNER_READ_MAX));
        insta::assert_snapshot!(late, @"its runner, lua.wasm, cannot be read: its file system has not answered within 10 s; its scripts are tried again when it does");
        // The first one still has the turn.
        let second = read(Box::new(|| panic!("read twice")));
        let (second, ()) = tokio::join!(second, tokio::time::advance(RUNNER_READ_MAX));
        assert_eq!(second, late);
        release.send(()).unwrap();
        drop(reads.turn.acquire().await.unwrap());
        assert_eq!(read(Box::new(move || Ok(file()))).await, "read");
    }
}
