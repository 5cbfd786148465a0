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

/// How long the file of a runner, and its native code next to it, may each take to be read: 10 s, as the files of
/// plugins. After that its scripts are refused, or it is compiled. The read continues on its thread.
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
    pub(super) fn read(&self, suffix: &Suffix, at: &ReadPosition) -> Result<RunnerFile, RunnerProblem> {
        match self {
            RunnerSource::BuiltIn(bytes) => Ok(RunnerFile {
                path: PathBuf::from(BUILT_IN),
                bytes: Arc::from(&bytes[..]),
            }),
            RunnerSource::Configured(path) => read(path),
            RunnerSource::Released { file, .. } => {
                let places = self.places();
                let is_there = |place: &&PathBuf| {
                    at.set(place);
                    place.exists()
                };
                match places.iter().find(is_there) {
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

    /// Where its file may be, in the order in which they are looked at.
    fn places(&self) -> Vec<PathBuf> {
        match self {
            RunnerSource::BuiltIn(_) => vec![PathBuf::from(BUILT_IN)],
            RunnerSource::Configured(path) => vec![path.clone()],
            RunnerSource::Released { file, folders } => folders.iter().map(|folder| folder.join(file)).collect(),
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

/// Reads files of a runner, once at a time: a file system may never answer, which costs one thread.
pub(super) struct FileReads {
    turn: Arc<Semaphore>,
    /// When the read that has the turn began.
    began: Mutex<Moment>,
    position: ReadPosition,
}

/// The file that a read is at, which a late one names. Clones share it.
#[derive(Clone, Default)]
pub(super) struct ReadPosition(Arc<Mutex<PathBuf>>);

/// Why a read has no result.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// It is at this file for longer than [`RUNNER_READ_MAX`].
    Late(PathBuf),
    /// The process stops.
    Stopping,
}

impl From<Unanswered> for LoadProblem {
    fn from(unanswered: Unanswered) -> LoadProblem {
        match unanswered {
            Unanswered::Late(runner) => LoadProblem::from(RunnerProblem::ReadTimeout {
                runner,
                within: RUNNER_READ_MAX,
            }),
            Unanswered::Stopping => LoadProblem::Stopping,
        }
    }
}

impl ReadPosition {
    fn set(&self, file: &Path) {
        file.clone_into(&mut lock(&self.0));
    }

    fn file(&self) -> PathBuf {
        lock(&self.0).clone()
    }
}

impl Default for FileReads {
    fn default() -> FileReads {
        FileReads {
            turn: Arc::new(Semaphore::new(1)),
            began: Mutex::new(Moment::ZERO),
            position: ReadPosition::default(),
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
        let first = source.places().into_iter().next().unwrap_or_default();
        let (of_thread, suffix) = (source.clone(), suffix.clone());
        let read = move |at: ReadPosition| of_thread.read(&suffix, &at);
        Ok(self.run(&first, env, pool, read).await??)
    }

    /// Runs `read` on `pool`, which begins with the file `first`, and says where it is.
    pub(super) async fn run<R: Send + 'static>(
        &self,
        first: &Path,
        env: &dyn Environment,
        pool: &Handle,
        read: impl FnOnce(ReadPosition) -> R + Send + 'static,
    ) -> Result<R, Unanswered> {
        let late = || Unanswered::Late(self.position.file());
        let turn = Arc::clone(&self.turn);
        let turn = match Arc::clone(&turn).try_acquire_owned() {
            Ok(turn) => turn,
            Err(_) => {
                let deadline = *lock(&self.began) + RUNNER_READ_MAX;
                tokio::select! {
                    biased;
                    turn = turn.acquire_owned() => turn.map_err(|_| Unanswered::Stopping)?,
                    () = env.sleep(deadline - env.now()) => return Err(late()),
                }
            }
        };
        *lock(&self.began) = env.now();
        self.position.set(first);
        let position = self.position.clone();
        let reading = pool.spawn_blocking(move || {
            let _until_it_returns = turn;
            read(position)
        });
        tokio::select! {
            biased;
            read = reading => read.map_err(|_| Unanswered::Stopping),
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

    use tokio::sync::oneshot;

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
        let reads = FileReads::default();
        let (release, hangs) = mpsc::channel::<()>();
        let (arrive, arrived) = oneshot::channel();
        let read = async |read: Box<dyn FnOnce(ReadPosition) -> RunnerFile + Send>| {
            let first = Path::new("bin/lua.wasm");
            let file = reads.run(first, &TokioTime, &Handle::current(), read).await;
            file.map_or_else(
                |unanswered| LoadProblem::from(unanswered).to_string(),
                |_| "read".to_owned(),
            )
        };
        let file = || RunnerFile {
            path: PathBuf::from("lua.wasm"),
            bytes: Arc::from([]),
        };
        let hanging = read(Box::new(move |at: ReadPosition| {
            // There is none in the first folder.
            at.set(Path::new("lib/lua.wasm"));
            arrive.send(()).unwrap();
            let _ = hangs.recv();
            file()
        }));
        // Time does not pass by itself while a thread blocks.
        let passes = async {
            arrived.await.unwrap();
            tokio::time::advance(RUNNER_READ_MAX).await;
        };
        let (late, ()) = tokio::join!(hanging, passes);
        insta::assert_snapshot!(late, @"its runner, lib/lua.wasm, cannot be read: its file system has not answered within 10 s; its scripts are tried again when it does");
        // The first one still has the turn.
        let second = read(Box::new(|_| panic!("read twice")));
        let (second, ()) = tokio::join!(second, tokio::time::advance(RUNNER_READ_MAX));
        assert_eq!(second, late);
        release.send(()).unwrap();
        drop(reads.turn.acquire().await.unwrap());
        assert_eq!(read(Box::new(move |_| file())).await, "read");
    }

    #[test]
    fn a_read_says_which_folder_it_is_at() {
        let folder = tempfile::tempdir().unwrap();
        let source = RunnerSource::Released {
            file: "lua.wasm",
            folders: ["bin", "lib", "share"].map(|name| folder.path().join(name)).into(),
        };
        let at = ReadPosition::default();
        source.read(&suffix("lua"), &at).err().unwrap();
        assert_eq!(at.file(), folder.path().join("share/lua.wasm"));
        let lib = folder.path().join("lib");
        std::fs::create_dir(&lib).unwrap();
        std::fs::write(lib.join("lua.wasm"), "runner").unwrap();
        source.read(&suffix("lua"), &at).ok().unwrap();
        assert_eq!(at.file(), lib.join("lua.wasm"));
    }
}
