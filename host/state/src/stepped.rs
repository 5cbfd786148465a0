//! The recorder without its thread and without its file: the caller decides when it commits and when it delivers, and
//! may kill it in between. Nothing here waits or reads the clock to decide anything, so a simulation that uses it
//! replays exactly.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use informant_cache::ListenerHandle;
use redb::StorageBackend;

use crate::batch::SourceBatch;
use crate::command::{OpenKeysError, RecorderCommand, Shared, StateClosed};
use crate::file::{self, OpenError, OpenedDatabase};
use crate::handler_state::OnStart;
use crate::journal::SourceJournal;
use crate::key_value::KeySpace;
use crate::metrics::StateMetrics;
use crate::recorder::Recorder;
use crate::source::SourceOptions;
use crate::table_store::TableStore;

/// The name of the disk in messages.
const DISK_NAME: &str = "memory";

/// A disk in memory. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk(Arc<Mutex<Vec<u8>>>);

/// A state database whose caller takes the place of its thread. Dropping it ends its sources: nothing more is
/// persisted or delivered.
pub struct SteppedState {
    recorder: Recorder,
    shared: Arc<Shared>,
    metrics: StateMetrics,
    /// What is on the disk and not delivered yet.
    committed: Vec<SourceBatch>,
}

impl MemoryDisk {
    /// A copy as the next process finds it if this one is killed now: what is not committed is lost.
    #[must_use]
    pub fn after_kill(&self) -> Self {
        Self(Arc::new(Mutex::new(self.bytes().clone())))
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SteppedState {
    /// Opens the database on `disk`, or creates it.
    ///
    /// # Errors
    /// [`OpenError`] if what is on the disk is not a database.
    pub fn open(disk: &MemoryDisk) -> Result<Self, OpenError> {
        let (disk, metrics) = (disk.clone(), StateMetrics::recording_dropped());
        let open = move || match file::open_on(disk.clone()) {
            Ok(database) => Ok(OpenedDatabase {
                database,
                set_aside: None,
            }),
            Err(error) => Err(OpenError::Io {
                path: DISK_NAME.into(),
                source: io::Error::other(error),
            }),
        };
        let store = TableStore::open_by(Box::new(open), DISK_NAME.into(), metrics.clone())?;
        let shared = Arc::new(Shared::default());
        let recorder = Recorder::new(store, Arc::clone(&shared), metrics.clone());
        Ok(Self {
            recorder,
            shared,
            metrics,
            committed: Vec::new(),
        })
    }

    /// Sets the callback that is called whenever something is pending, from any thread. Only the first one counts.
    pub fn set_waker(&self, waker: impl Fn() + Send + Sync + 'static) {
        // There is one caller.
        let _ = self.shared.waker.callback.set(Box::new(waker));
    }

    /// Opens a source. Neither writes nor delivers what is pending: it may come between a commit and its delivery.
    ///
    /// # Errors
    /// [`StateClosed`] never happens while this exists.
    pub fn source(&mut self, options: SourceOptions) -> Result<SourceJournal, StateClosed> {
        let (reply, answer) = mpsc::channel();
        self.shared.command(RecorderCommand::Open(Box::new(options), reply));
        self.recorder.handle_commands();
        answer.try_recv().map_err(|_| StateClosed)
    }

    /// As [`StateDatabase::name`](crate::StateDatabase::name).
    pub fn name(&self, listener: &ListenerHandle, name: &str, on_start: OnStart) {
        self.shared.name(listener, name, on_start);
    }

    /// As [`StateDatabase::keys`](crate::StateDatabase::keys).
    ///
    /// # Errors
    /// [`OpenKeysError`] if they cannot be read.
    pub fn keys(&mut self, plugin: &str) -> Result<KeySpace, OpenKeysError> {
        let (reply, answer) = mpsc::channel();
        self.shared.command(RecorderCommand::OpenKeys(plugin.into(), reply));
        self.recorder.handle_commands();
        let opened = answer.try_recv().map_err(|_| StateClosed)?;
        opened.map_err(OpenKeysError::Unreadable)?;
        self.shared.open_keys(plugin, &self.metrics)
    }

    /// Commits everything that is pending, and what handlers have acknowledged. Delivers first what was committed
    /// before.
    pub fn commit(&mut self) {
        self.deliver();
        self.committed = self.recorder.commit();
    }

    /// Delivers what was committed, if that is not done.
    pub fn deliver(&mut self) {
        self.recorder.deliver(std::mem::take(&mut self.committed));
    }

    /// The longest pause until the next [`commit`](Self::commit) while nothing is pending.
    #[must_use]
    pub fn pause(&self) -> Duration {
        self.recorder.pause()
    }

    /// The uids of the ended incarnations that were not stored for a handler, see
    /// [`INCARNATIONS_MAX`](crate::INCARNATIONS_MAX).
    #[must_use]
    pub fn incarnations_dropped(&self, informer: &str, handler: &str) -> Vec<String> {
        self.metrics.incarnations_dropped(informer, handler)
    }
}

impl StorageBackend for MemoryDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.bytes();
        let found = bytes.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.bytes().resize(length as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.bytes();
        let place = bytes.get_mut(offset as usize..offset as usize + data.len());
        place.ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(data);
        Ok(())
    }
}
