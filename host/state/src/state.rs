//! The handle by which the daemon has state kept.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

use informant_cache::ListenerHandle;

use crate::file::OpenError;
use crate::metrics::StateMetrics;
use crate::queue::SourceState;
use crate::recorder::{Command, Recorder, Shared};
use crate::source::{OnStart, SourceOptions};
use crate::store::Store;

/// The state database of a process, and the thread that writes it. Clones are the same; with the last one it is closed.
#[derive(Clone)]
pub struct State(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl State {
    /// Opens the file at `path`, or makes it, with its folder.
    ///
    /// What is there and torn, foreign or of another version is renamed, with a warning; that is no error.
    ///
    /// # Errors
    /// [`OpenError`] if another process has it, or it can be neither read nor made.
    pub fn open(path: PathBuf, metrics: StateMetrics) -> Result<Self, OpenError> {
        let store = Store::open(path, metrics.clone())?;
        let shared = Arc::new(Shared::default());
        let recorder = Recorder::new(store, Arc::clone(&shared), metrics);
        let thread = std::thread::Builder::new().name("state".to_owned());
        let thread = thread.spawn(|| recorder.run()).map_err(|source| OpenError::Io {
            path: "the thread of the state database".into(),
            source,
        })?;
        Ok(Self(Arc::new(Inner {
            shared,
            thread: Mutex::new(Some(thread)),
        })))
    }

    /// Begins to keep a source. Waits for the disk; none once the state is closed.
    #[must_use]
    pub fn source(&self, options: SourceOptions) -> Option<SourceState> {
        let (reply, answer) = mpsc::channel();
        self.command(Command::Open(Box::new(options), reply));
        answer.recv().ok()
    }

    /// Says that `listener` is the handler `name`, by which it is known from one process to the next. To be said before it is attached; a listener without
    /// a name is told late, as all of a durable source are, and nothing is kept of what it acknowledged.
    pub fn name(&self, listener: &ListenerHandle, name: &str, on_start: OnStart) {
        let mut names = lock(&self.0.shared.names);
        names.retain(|(known, ..)| !known.ptr_eq(listener));
        names.push((listener.clone(), name.to_owned(), on_start));
    }

    /// The listener is nobody's any more. After it was detached.
    pub fn unname(&self, listener: &ListenerHandle) {
        lock(&self.0.shared.names).retain(|(known, ..)| !known.ptr_eq(listener));
    }

    /// Forgets all that was kept of an informer in a cluster.
    pub fn forget(&self, informer: &str, cluster: &str) {
        self.command(Command::Forget(informer.to_owned(), cluster.to_owned()));
    }

    /// Forgets all informers but these.
    pub fn keep_only(&self, informers: BTreeSet<String>) {
        self.command(Command::KeepOnly(informers));
    }

    /// Writes all that waits and closes the file. Waits for the disk.
    pub fn close(&self) {
        self.0.close();
    }

    fn command(&self, command: Command) {
        lock(&self.0.shared.commands).push(command);
        self.0.shared.bell.ring();
    }
}

impl Inner {
    fn close(&self) {
        let Some(thread) = lock(&self.thread).take() else {
            return;
        };
        lock(&self.shared.commands).push(Command::Stop);
        self.shared.bell.ring();
        if thread.join().is_err() {
            tracing::error!("the thread of the state database panicked, which is a defect of Informant");
        }
        // Those who wait for an answer get none.
        lock(&self.shared.commands).clear();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for State {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("State").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
