//! The handle by which the daemon has state kept.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use informant_cache::ListenerHandle;

use crate::file::OpenError;
use crate::forgetting::Forgetting;
use crate::metrics::StateMetrics;
use crate::queue::SourceState;
use crate::recorder::{Command, Recorder, Shared};
use crate::source::{OnStart, SourceIdentity, SourceOptions};
use crate::store::Store;

/// After how many seconds the [beginning](State::source) of a source that waits for the disk is reported: a warning,
/// and one more in `state_open_waits_total`. A disk that works takes milliseconds, one that is overloaded a second or
/// two.
///
/// The wait goes on. A source that began without what was kept of it would show handlers everything anew, and never
/// tell them what vanished meanwhile. A disk that fails instead of hanging keeps nobody waiting.
pub const OPEN_WAIT_SECONDS_MAX: u64 = 10;

/// Nothing is kept any more: the state database was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the state database is closed")]
pub struct StateClosed;

/// The state database of a process, and the thread that writes it. Clones are the same; with the last one it is closed.
#[derive(Clone)]
pub struct State(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    metrics: StateMetrics,
    open_wait: Duration,
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
        let recorder = Recorder::new(store, Arc::clone(&shared), metrics.clone());
        let thread = std::thread::Builder::new().name("state".to_owned());
        let thread = thread.spawn(|| run(recorder)).map_err(|source| OpenError::Io {
            path: "the thread of the state database".into(),
            source,
        })?;
        Ok(Self(Arc::new(Inner {
            shared,
            thread: Mutex::new(Some(thread)),
            metrics,
            open_wait: Duration::from_secs(OPEN_WAIT_SECONDS_MAX),
        })))
    }

    /// Begins to keep a source. Waits for the disk; a wait of [`OPEN_WAIT_SECONDS_MAX`] is reported.
    ///
    /// # Errors
    /// [`StateClosed`] once the state is closed, or its thread is over.
    pub fn source(&self, options: SourceOptions) -> Result<SourceState, StateClosed> {
        let (reply, answer) = mpsc::channel();
        let informer = options.identity.informer.clone();
        self.command(Command::Open(Box::new(options), reply));
        // A recorder that is over drops commands with what they are answered by.
        match answer.recv_timeout(self.0.open_wait) {
            Ok(source) => Ok(source),
            Err(RecvTimeoutError::Disconnected) => Err(StateClosed),
            Err(RecvTimeoutError::Timeout) => {
                self.0.metrics.open_waits.inc();
                let seconds = self.0.open_wait.as_secs();
                tracing::warn!(
                    %informer,
                    "the beginning of a durable source still waits for the disk of the state database after {seconds} s; it begins once the disk answers; look \
                     whether it hangs"
                );
                answer.recv().map_err(|_| StateClosed)
            }
        }
    }

    /// Says that `listener` is the handler `name`, by which it is known from one process to the next. To be said before
    /// it is attached; a listener without a name is told late, as all of a durable source are, and nothing is kept of
    /// what it acknowledged.
    pub fn name(&self, listener: &ListenerHandle, name: &str, on_start: OnStart) {
        let mut names = lock(&self.0.shared.names);
        names.retain(|(known, ..)| !known.ptr_eq(listener));
        names.push((listener.clone(), name.to_owned(), on_start));
    }

    /// The listener is nobody's any more. After it was detached.
    pub fn unname(&self, listener: &ListenerHandle) {
        lock(&self.0.shared.names).retain(|(known, ..)| !known.ptr_eq(listener));
    }

    /// Forgets all that was kept of an informer in a cluster. What its sources still show is handed on, and kept no
    /// more.
    pub fn forget(&self, informer: &str, cluster: &str) {
        let what = Forgetting::InCluster(informer.to_owned(), cluster.to_owned());
        self.command(Command::Forget(what));
    }

    /// As [`forget`](Self::forget), once those sources are over that are there now: their last deletes are kept until
    /// they are told.
    pub fn forget_at_end(&self, informer: &str, cluster: &str) {
        self.command(Command::ForgetAtEnd(informer.to_owned(), cluster.to_owned()));
    }

    /// Forgets what was kept of an informer in a cluster but of these sources: what it held at another address, of
    /// another resource, or in namespaces that it names no more.
    pub fn keep_only_sources(&self, informer: &str, cluster: &str, sources: BTreeSet<SourceIdentity>) {
        let what = Forgetting::OthersInCluster(informer.to_owned(), cluster.to_owned(), sources);
        self.command(Command::Forget(what));
    }

    /// Forgets all informers but these, each by its name and its cluster's.
    pub fn keep_only(&self, informers: BTreeSet<(String, String)>) {
        self.command(Command::Forget(Forgetting::AllBut(informers)));
    }

    /// Writes all that waits and closes the file. Waits for the disk.
    pub fn close(&self) {
        self.0.close();
    }

    fn command(&self, command: Command) {
        self.0.shared.command(command);
    }
}

/// Nobody is told anything of durable sources once this is over: were it by a defect, that must be seen.
fn run(recorder: Recorder) {
    if catch_unwind(AssertUnwindSafe(|| recorder.run())).is_err() {
        tracing::error!(
            "the thread of the state database panicked, which is a defect of Informant; durable informers tell nothing any more until a restart"
        );
    }
}

impl Inner {
    fn close(&self) {
        let Some(thread) = lock(&self.thread).take() else {
            return;
        };
        self.shared.command(Command::Stop);
        // A panic was said when it happened.
        let _ = thread.join();
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

#[cfg(test)]
mod tests;
