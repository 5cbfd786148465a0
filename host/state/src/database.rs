//! The handle of the state database.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use informant_cache::ListenerHandle;

use crate::command::{OpenKeysError, RecorderCommand, Shared, StateClosed};
use crate::file::OpenError;
use crate::handler_state::OnStart;
use crate::journal::SourceJournal;
use crate::key_value::KeySpace;
use crate::metrics::StateMetrics;
use crate::recorder::Recorder;
use crate::source::{Purge, SourceIdentity, SourceOptions};
use crate::table_store::TableStore;

/// If [opening](StateDatabase::source) a source waits longer than this for the disk, a warning is logged and
/// `state_open_waits_total` is counted. A working disk takes milliseconds, an overloaded one a second or two.
///
/// The wait continues. A source that started without its stored state would deliver everything to handlers again, and
/// never report what was deleted meanwhile. A disk that fails instead of hanging blocks nothing.
pub const OPEN_WAIT_SECONDS_MAX: u64 = 10;

/// The state database of a process, and the thread that writes it. Clones share it; dropping the last one closes it.
#[derive(Clone)]
pub struct StateDatabase(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    metrics: StateMetrics,
    open_wait: Duration,
}

impl StateDatabase {
    /// Opens the file at `path`, or creates it with its directory.
    ///
    /// A file that is torn, foreign or of another version is renamed, with a warning; that is not an error. With an
    /// `owner`, the file becomes its own unless it is another one's.
    ///
    /// # Errors
    /// [`OpenError`] if another process uses the file, it is another owner's, or it can be neither read nor created.
    pub fn open(path: PathBuf, owner: Option<String>, metrics: StateMetrics) -> Result<Self, OpenError> {
        let opened = path.clone();
        let store = TableStore::open(path, owner, metrics.clone());
        let store = store.inspect_err(|error| metrics.set_failure(Some(error.to_string())))?;
        let shared = Arc::new(Shared::default());
        let recorder = Recorder::new(store, Arc::clone(&shared), metrics.clone());
        let thread = std::thread::Builder::new().name("state".to_owned());
        let thread = thread.spawn(|| run(recorder)).map_err(|error| OpenError::Io {
            path: opened,
            source: std::io::Error::new(error.kind(), format!("cannot start its thread: {error}")),
        })?;
        Ok(Self(Arc::new(Inner {
            shared,
            thread: Mutex::new(Some(thread)),
            metrics,
            open_wait: Duration::from_secs(OPEN_WAIT_SECONDS_MAX),
        })))
    }

    /// Opens a source. Waits for the disk; a wait of [`OPEN_WAIT_SECONDS_MAX`] is reported.
    ///
    /// # Errors
    /// [`StateClosed`] once the database is closed, or its thread has ended.
    pub fn source(&self, options: SourceOptions) -> Result<SourceJournal, StateClosed> {
        let (reply, answer) = mpsc::channel();
        let identity = options.identity.clone();
        self.command(RecorderCommand::Open(Box::new(options), reply));
        // A recorder that has ended drops commands with their reply channels.
        match answer.recv_timeout(self.0.open_wait) {
            Ok(source) => Ok(source),
            Err(RecvTimeoutError::Disconnected) => Err(StateClosed),
            Err(RecvTimeoutError::Timeout) => {
                self.0.metrics.open_waits.inc();
                let (informer, resource) = (&identity.informer, &identity.resource);
                let waited_seconds = self.0.open_wait.as_secs();
                tracing::warn!(%informer, cluster = identity.log_cluster(), %resource, waited_seconds, code = "state-failing", "opening durable source is blocked on disk; check the volume of the state database");
                answer.recv().map_err(|_| StateClosed)
            }
        }
    }

    /// Names `listener` as the handler `name`, which is stable across processes. Call this before attaching it. A
    /// listener without a name is delivered to after the disk, like all listeners of a durable source, but its
    /// acknowledgements are not stored.
    pub fn name(&self, listener: &ListenerHandle, name: &str, on_start: OnStart) {
        self.0.shared.name(listener, name, on_start);
    }

    /// Forgets the name of a listener. Call this after detaching it.
    pub fn forget_name(&self, listener: &ListenerHandle) {
        lock(&self.0.shared.names).retain(|(known, ..)| !known.ptr_eq(listener));
    }

    /// Deletes everything stored of an informer in a cluster. Its sources still deliver, but are no longer persisted.
    pub fn forget(&self, informer: &str, cluster: &str) {
        let what = Purge::Informer(informer.to_owned(), cluster.to_owned());
        self.command(RecorderCommand::Forget(what));
    }

    /// Like [`forget`](Self::forget), once the present sources have ended: their last deletes are stored until they are
    /// delivered.
    pub fn forget_at_end(&self, informer: &str, cluster: &str) {
        self.command(RecorderCommand::ForgetAtEnd(informer.to_owned(), cluster.to_owned()));
    }

    /// Deletes everything stored of an informer in a cluster except these sources: what it held from another API
    /// server, of another resource, or in namespaces that it no longer watches.
    pub fn keep_only_sources(&self, informer: &str, cluster: &str, sources: BTreeSet<SourceIdentity>) {
        let what = Purge::OtherSources(informer.to_owned(), cluster.to_owned(), sources);
        self.command(RecorderCommand::Forget(what));
    }

    /// Opens the keys of a plugin. Waits for the disk, unless they are open.
    ///
    /// # Errors
    /// [`OpenKeysError`].
    pub fn keys(&self, plugin: &str) -> Result<KeySpace, OpenKeysError> {
        self.0.shared.open_keys(plugin, &self.0.metrics)
    }

    /// Deletes the keys of all plugins but these.
    pub fn keep_only_plugins(&self, plugins: BTreeSet<String>) {
        self.command(RecorderCommand::KeepOnlyPlugins(plugins));
    }

    /// Deletes all informers but these, each given by its name and its cluster's.
    pub fn keep_only(&self, informers: BTreeSet<(String, String)>) {
        self.command(RecorderCommand::Forget(Purge::AllBut(informers)));
    }

    /// Writes everything that is pending and closes the file. Waits for the disk.
    pub fn close(&self) {
        self.0.close();
    }

    fn command(&self, command: RecorderCommand) {
        self.0.shared.command(command);
    }
}

/// If a bug ends it, durable sources deliver nothing, and that must be visible.
fn run(recorder: Recorder) {
    if catch_unwind(AssertUnwindSafe(|| recorder.run())).is_err() {
        tracing::error!(
            "state database thread panicked, which is a bug in Informant; durable informers deliver nothing until a restart"
        );
    }
}

impl Inner {
    fn close(&self) {
        let Some(thread) = lock(&self.thread).take() else {
            return;
        };
        self.shared.command(RecorderCommand::Stop);
        // A panic was logged when it happened.
        let _ = thread.join();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for StateDatabase {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("StateDatabase").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
