//! Compiles components to native code, and erases the types of TypeScript.
//!
//! ```text
//! component, script ──▶ CompileQueue ──▶ this process, or a child with time and memory limits ──▶ native code, text
//! ```
//!
//! How many components are compiled at a time depends on the memory that each is expected to take (`schedule`).
//!
//! A compiler reads untrusted input: a small component can take hours or all memory, which wasmtime does not treat as a
//! bug. So the daemon compiles in a child process ([`Compiler::Child`]) that has nothing but its pipes: no environment,
//! no files, no network, little memory, little time (`confine`, as far as the system can). Its memory is freed when it
//! ends. A parser of scripts is no better, so it runs there, too. `child` is this process's side, `worker` the child's.

mod child;
mod confine;
mod message;
mod schedule;
mod worker;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use informant_cache::{Environment, Moment};
use informant_spec::Digest;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;
use wasmtime::Engine;

use message::Work;
pub use schedule::{COMPILE_MEMORY_DEFAULT_BYTES, SHORT_COMPILE_BYTES_MAX};
pub(crate) use schedule::{CompileGauges, CompileJob, CompileSchedule, expected_memory_bytes};
pub use worker::compile_worker;

use super::erase::erase_types;
use super::limiter::Mib;

/// Bytes of a component's file: 64 MiB. Python's has 18, StarlingMonkey's 12; a much larger file is something else.
pub const COMPONENT_BYTES_MAX: usize = 64 << 20;

/// Time to compile one component: 2 min. The largest real ones (Python, StarlingMonkey) take 5 s on two idle cores. At
/// the limit the compiler is killed and the component rejected.
pub(crate) const COMPILE_TIME: Duration = Duration::from_secs(120);

/// Address space of the compiler process: 2 GiB. The largest real components need 350 MiB in addition to the program
/// itself. At the limit the compiler aborts and the component is rejected.
pub(crate) const COMPILE_MEMORY_BYTES: u64 = 2 << 30;

/// Threads that compile one component: 2. More would need more memory at once, and leave less of the machine to other
/// components and other work.
pub(crate) const COMPILE_THREADS_MAX: usize = 2;

/// Bytes of one compiled component: 512 MiB. Native code is two to three times as long as the component.
pub(crate) const ARTIFACT_BYTES_MAX: usize = 512 << 20;

/// Scripts whose types are erased at a time: 2. They do not wait for components, which take seconds.
const ERASING_MAX: usize = 2;

/// The limits of erasing the types of one script, which has at most 1 MiB: 5 s. The address space is that of compiling:
/// the program and what its allocator reserves take more than half of it.
const ERASE_LIMITS: CompileLimits = CompileLimits {
    time: Duration::from_secs(5),
    memory_bytes: COMPILE_MEMORY_BYTES,
};

#[derive(Clone, Debug, Default)]
pub enum Compiler {
    /// In this process. Nothing bounds the time and memory that a hostile component takes: for tests and trusted
    /// components only.
    #[default]
    InProcess,
    /// In a child process for each component.
    Child(ChildCompiler),
}

/// A program that compiles one component and exits: it must call [`compile_worker`] and do nothing else.
#[derive(Clone, Debug)]
pub struct ChildCompiler {
    /// The program's absolute path. It must be built with the same wasmtime: preferably this program itself.
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    pub limits: CompileLimits,
}

/// The limits of compiling one component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// See `COMPILE_TIME`.
    pub time: Duration,
    /// See `COMPILE_MEMORY_BYTES`. Enforced by the operating system (`RLIMIT_AS`); not on macOS, which has no such
    /// limit.
    pub memory_bytes: u64,
}

impl Default for CompileLimits {
    fn default() -> CompileLimits {
        CompileLimits {
            time: COMPILE_TIME,
            memory_bytes: COMPILE_MEMORY_BYTES,
        }
    }
}

impl Compiler {
    /// This program itself, called with `arguments`, under the default limits.
    ///
    /// # Errors
    /// The operating system's error, if the path of this program is unknown.
    pub fn this_program<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>) -> std::io::Result<Compiler> {
        // The link and not its target: the file may have been replaced by a newer program since this one started, and
        // that one's code would not be compatible.
        let program = match cfg!(target_os = "linux") {
            true => PathBuf::from("/proc/self/exe"),
            false => std::env::current_exe()?,
        };
        Ok(Compiler::Child(ChildCompiler {
            program,
            arguments: arguments.into_iter().map(Into::into).collect(),
            limits: CompileLimits::default(),
        }))
    }
}

/// A component to compile.
pub(crate) struct CompileRequest<'a> {
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) digest: Digest,
    /// The file that it is from, for the log.
    pub(crate) file: &'a Path,
    /// See [`expected_memory_bytes`].
    pub(crate) memory_bytes: u64,
}

/// A compiled component.
pub(crate) struct CompiledComponent {
    /// What [`wasmtime::component::Component::deserialize`] reads.
    pub(crate) artifact: Vec<u8>,
    /// How long that took, without the time before its turn.
    pub(crate) took: Duration,
}

/// Compiles components: side by side, as far as their memory permits.
pub(crate) struct CompileQueue {
    compiler: Compiler,
    engine: Engine,
    env: Arc<dyn Environment>,
    handle: Handle,
    schedule: CompileSchedule,
    erasing: Semaphore,
}

impl CompileQueue {
    pub(crate) fn new(
        compiler: Compiler,
        engine: &Engine,
        env: Arc<dyn Environment>,
        handle: Handle,
        gauges: CompileGauges,
    ) -> CompileQueue {
        CompileQueue {
            compiler,
            engine: engine.clone(),
            env,
            handle,
            schedule: CompileSchedule::new(processors(), gauges),
            erasing: Semaphore::new(ERASING_MAX),
        }
    }

    /// What compiles.
    pub(crate) fn schedule(&self) -> &CompileSchedule {
        &self.schedule
    }

    /// Compiles a component when its turn comes. If the future is dropped, the turn is given up and the child is
    /// killed. Errors: wasmtime's message, if the component is invalid or uses a disabled feature, or the limit that it
    /// reached.
    pub(crate) async fn compile(&self, request: CompileRequest<'_>) -> Result<CompiledComponent, String> {
        let (file, digest) = (request.file.display(), request.digest.short());
        let (bytes, memory) = (request.bytes.len(), Mib(request.memory_bytes as usize));
        let turn = self
            .schedule
            .enter(request.digest, request.memory_bytes, self.env.now());
        let mut cancelled = CancelledLine::new(&request, &*self.env);
        if turn.is_waiting() {
            tracing::info!(%file, %digest, bytes, %memory, "component waits for others to be compiled");
        }
        turn.begins().await;
        let began = self.env.now();
        turn.began(began);
        tracing::info!(%file, %digest, bytes, %memory, "compiling component");
        let component = Arc::clone(&request.bytes);
        let compiled = match &self.compiler {
            Compiler::InProcess => {
                let engine = self.engine.clone();
                self.in_process(move || compile(&engine, &component)).await
            }
            Compiler::Child(child) => self.in_child(Work::Compile, child.clone(), component).await,
        };
        cancelled.is_due = false;
        let (artifact, took) = (compiled?, self.env.now() - began);
        tracing::info!(%file, %digest, seconds = took.as_secs_f64(), "component compiled");
        Ok(CompiledComponent { artifact, took })
    }

    /// The JavaScript that is left of a TypeScript module. If the future is dropped, the child is killed. Errors: what
    /// cannot be erased, after its line and column, or the limit that it reached.
    pub(crate) async fn erase_types(&self, text: Arc<[u8]>) -> Result<Vec<u8>, String> {
        let _turn = self.erasing.acquire().await;
        match &self.compiler {
            Compiler::InProcess => {
                let erase = move || erase_types(&text).map(String::into_bytes);
                self.in_process(erase).await
            }
            Compiler::Child(child) => {
                let limits = ERASE_LIMITS;
                let child = ChildCompiler {
                    limits,
                    ..child.clone()
                };
                self.in_child(Work::EraseTypes, child, text).await
            }
        }
    }

    async fn in_process(
        &self,
        work: impl FnOnce() -> Result<Vec<u8>, String> + Send + 'static,
    ) -> Result<Vec<u8>, String> {
        self.handle.spawn_blocking(work).await.map_err(interrupted)?
    }

    /// On the guests' runtime, wherever the caller is: that one is known to have I/O enabled.
    async fn in_child(&self, work: Work, child: ChildCompiler, input: Arc<[u8]>) -> Result<Vec<u8>, String> {
        let work = child::run(work, child, Arc::clone(&self.env), input);
        let answer = AbortOnDropHandle::new(self.handle.spawn(work)).await;
        answer.map_err(interrupted)?
    }
}

/// Logs that a compile did not end, when it is dropped.
struct CancelledLine<'a> {
    file: &'a Path,
    digest: Digest,
    since: Moment,
    env: &'a dyn Environment,
    is_due: bool,
}

impl<'a> CancelledLine<'a> {
    fn new(request: &CompileRequest<'a>, env: &'a dyn Environment) -> CancelledLine<'a> {
        CancelledLine {
            file: request.file,
            digest: request.digest,
            since: env.now(),
            env,
            is_due: true,
        }
    }
}

impl Drop for CancelledLine<'_> {
    fn drop(&mut self) {
        if self.is_due {
            let (file, digest) = (self.file.display(), self.digest.short());
            let seconds = (self.env.now() - self.since).as_secs_f64();
            tracing::info!(%file, %digest, seconds, "compile cancelled");
        }
    }
}

/// Those that this process may use.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn interrupted(_: JoinError) -> String {
    "interrupted, because Informant is stopping".to_owned()
}

/// Takes from 50 ms (Rust, C) to some seconds and 400 MiB (JavaScript, Python), on [`COMPILE_THREADS_MAX`] cores.
fn compile(engine: &Engine, component: &[u8]) -> Result<Vec<u8>, String> {
    engine
        .precompile_component(component)
        .map_err(|error| format!("{error:#}"))
}
