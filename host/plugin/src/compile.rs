//! From a component to native code.
//!
//! ```text
//! component ──▶ Compiling (one at a time) ──▶ in this process, or a child with limits on time and memory ──▶ native code
//! ```
//!
//! A compiler reads what strangers wrote: a small component can take hours or all memory, which wasmtime does not count
//! among its own bugs. So the daemon compiles in a child ([`Compiler::Child`]) that has nothing but two pipes: no
//! environment, no files to write, little memory, little time. What it costs dies with it, the memory included. `child`
//! is this process's side of it, `worker` the child's.

mod child;
mod message;
mod worker;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use informant_cache::Environment;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;
use wasmtime::Engine;

use crate::error::Problem;

pub use worker::compile_worker;

/// Time that compiling one component may take: 2 min. The largest real ones (Python, StarlingMonkey) take 5 s on two
/// quiet cores. At the limit the compiler is killed and the component refused.
pub const COMPILE_TIME: Duration = Duration::from_secs(120);

/// Address space of the process that compiles: 2 GiB. The largest real components need 350 MiB beside the program
/// itself. At the limit the compiler aborts and the component is refused.
pub const COMPILE_MEMORY_BYTES: u64 = 2 << 30;

/// Threads that compile one component. More would need more memory at once, and leave less of the machine to the rest.
pub const COMPILE_THREADS_MAX: usize = 4;

/// Bytes of one compiled component: 512 MiB. Native code is two to three times as long as the component.
pub const ARTIFACT_BYTES_MAX: usize = 512 << 20;

/// Components compiled at a time. One takes up to 350 MiB, and several cores anyway.
const COMPILING_MAX: usize = 1;

/// Where components are compiled.
#[derive(Clone, Debug, Default)]
pub enum Compiler {
    /// In this process. Nothing bounds the time and memory that a hostile component takes: for tests, and for
    /// components that are your own.
    #[default]
    InProcess,
    /// In a child process for each component.
    Child(ChildCompiler),
}

/// A program that compiles one component and ends: it has to call [`compile_worker`] and do nothing else.
#[derive(Clone, Debug)]
pub struct ChildCompiler {
    /// The program's file, absolute. It has to be built with the same wasmtime: best this program itself.
    pub program: PathBuf,
    /// What it is called with.
    pub arguments: Vec<OsString>,
    /// What it may use up.
    pub limits: CompileLimits,
}

/// What compiling one component may use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// See [`COMPILE_TIME`].
    pub time: Duration,
    /// See [`COMPILE_MEMORY_BYTES`]. Kept by the operating system (`RLIMIT_AS`); not on macOS, which has no such limit.
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
    /// What the operating system says if it does not know which file this program is.
    pub fn this_program<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>) -> std::io::Result<Compiler> {
        // The link and not what it points to: the file may have been replaced by a newer program since this one was
        // started, and that one's code would not fit.
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

/// Compiles one component after the other.
pub(crate) struct Compiling {
    compiler: Compiler,
    engine: Engine,
    env: Arc<dyn Environment>,
    handle: Handle,
    turns: Semaphore,
}

impl Compiling {
    pub(crate) fn new(compiler: Compiler, engine: &Engine, env: Arc<dyn Environment>, handle: Handle) -> Compiling {
        Compiling {
            compiler,
            engine: engine.clone(),
            env,
            handle,
            turns: Semaphore::new(COMPILING_MAX),
        }
    }

    /// Compiles a component to what [`wasmtime::component::Component::deserialize`] reads. If nobody waits for the
    /// answer any more, a child is killed.
    ///
    /// # Errors
    /// [`Problem::Compile`]: wasmtime's words, if the component is not valid or uses what the engine has switched off, or the
    /// limit that it reached.
    pub(crate) async fn compile(&self, component: Arc<[u8]>) -> Result<Vec<u8>, Problem> {
        let _turn = self.turns.acquire().await;
        let compiled = match &self.compiler {
            Compiler::InProcess => {
                let engine = self.engine.clone();
                self.handle.spawn_blocking(move || compile(&engine, &component)).await
            }
            Compiler::Child(child) => {
                // On the runtime of the guests, wherever the caller is: it is the one that is known to do I/O.
                let work = child::compile(child.clone(), Arc::clone(&self.env), component);
                AbortOnDropHandle::new(self.handle.spawn(work)).await
            }
        };
        compiled
            .map_err(|_| Problem::Compile("it was interrupted: Informant is stopping".to_owned()))?
            .map_err(Problem::Compile)
    }
}

/// Takes from a twentieth of a second (Rust, C) to some seconds and 300 MiB (JavaScript, Python), on all cores.
fn compile(engine: &Engine, component: &[u8]) -> Result<Vec<u8>, String> {
    engine
        .precompile_component(component)
        .map_err(|error| format!("{error:#}"))
}
