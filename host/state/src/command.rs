//! What the handles of the database ask of the recorder, and what they share with it.

use std::collections::BTreeSet;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informant_cache::ListenerHandle;

use crate::handler_state::OnStart;
use crate::journal::{RecorderWaker, SourceJournal};
use crate::key_value::{KeySpace, KeyTable};
use crate::metrics::StateMetrics;
use crate::row::RowKind;
use crate::source::{ListenerNames, Purge, SourceOptions};

/// Why the keys of a plugin cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenKeysError {
    /// The database was closed.
    #[error(transparent)]
    Closed(#[from] StateClosed),
    /// It cannot be read.
    #[error("the state database cannot be read: {0}")]
    Unreadable(String),
}

/// The state database was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the state database is closed")]
pub struct StateClosed;

/// A command from the [`StateDatabase`](crate::StateDatabase).
pub(crate) enum RecorderCommand {
    Open(Box<SourceOptions>, Sender<SourceJournal>),
    Forget(Purge),
    /// Deletes an informer's state in a cluster once its present sources have finished.
    ForgetAtEnd(String, String),
    /// Reads the keys of a plugin.
    OpenKeys(Arc<str>, KeysOpened),
    /// Deletes the keys of all plugins but these.
    KeepOnlyPlugins(BTreeSet<String>),
    Stop,
}

/// How a recorder answers [`RecorderCommand::OpenKeys`].
pub(crate) type KeysOpened = Sender<Result<(), String>>;

/// State shared between the recorder and the handle.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) waker: Arc<RecorderWaker>,
    commands: Mutex<Commands>,
    pub(crate) names: Mutex<ListenerNames>,
    pub(crate) keys: Arc<KeyTable>,
}

#[derive(Default)]
struct Commands {
    waiting: Vec<RecorderCommand>,
    /// The recorder has ended.
    over: bool,
}

impl Shared {
    /// Sends a command. Once the recorder has ended the command is dropped, together with its reply channel.
    pub(crate) fn command(&self, command: RecorderCommand) {
        let mut commands = self.commands();
        if !commands.over {
            commands.waiting.push(command);
            drop(commands);
            self.waker.notify();
        }
    }

    pub(crate) fn name(&self, listener: &ListenerHandle, name: &str, on_start: OnStart) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.retain(|(known, ..)| !known.ptr_eq(listener));
        names.push((listener.clone(), name.to_owned(), on_start));
    }

    pub(crate) fn take(&self) -> Vec<RecorderCommand> {
        std::mem::take(&mut self.commands().waiting)
    }

    /// The recorder has ended. What waits is dropped with its reply channels.
    pub(crate) fn end(&self) {
        let mut commands = self.commands();
        commands.over = true;
        let waiting = std::mem::take(&mut commands.waiting);
        drop(commands);
        drop(waiting);
        // No end is left behind: the table is not strict.
        let _ = self.keys.end();
    }

    /// Opens the keys of a plugin. Waits for the disk, unless they are open.
    pub(crate) fn open_keys(&self, plugin: &str, metrics: &StateMetrics) -> Result<KeySpace, OpenKeysError> {
        let space = KeySpace::new((plugin.into(), RowKind::Key), &self.keys, &self.waker, &metrics.failing);
        if space.is_open() {
            return Ok(space);
        }
        let (reply, answer) = mpsc::channel();
        self.command(RecorderCommand::OpenKeys(plugin.into(), reply));
        // A recorder that has ended drops commands with their reply channels.
        match answer.recv() {
            Ok(Ok(())) => Ok(space),
            Ok(Err(error)) => Err(OpenKeysError::Unreadable(error)),
            Err(_) => Err(StateClosed.into()),
        }
    }

    fn commands(&self) -> MutexGuard<'_, Commands> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
