//! Commands to the supervisor of one section, and their answers.
//!
//! A supervisor handles one command at a time. Of the commands that arrive meanwhile only the newest is kept, because
//! each contains the whole section. The answer of a command that was replaced never comes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, oneshot};

use super::configuration::Section;
use crate::sync::lock;

/// The result of applying a section: success, or the reason why its previous version keeps running.
pub(super) type SectionResult = Result<(), Arc<str>>;

/// Whether handlers are notified of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Removal {
    /// They receive nothing.
    Silent,
    /// They receive a delete for each of its objects.
    Notify,
}

pub(super) enum SectionCommand<S> {
    /// Apply this version of the section.
    Change(Arc<S>, Reply),
    /// The section was removed from the file but stays in use: drop a change that is not in effect yet. Not answered.
    Revert(Reply),
    /// The section was removed. The last command.
    Remove(Removal, Reply),
}

/// How a section changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SectionChange {
    Added,
    Changed,
    Removed,
}

/// Answers a command.
pub(super) struct Reply {
    result: oneshot::Sender<SectionResult>,
    progress: Arc<Progress>,
}

/// A command that was sent, and its pending answer.
pub(super) struct Pending {
    pub(super) section: Section,
    pub(super) change: SectionChange,
    pub(super) progress: Arc<Progress>,
    result: oneshot::Receiver<SectionResult>,
}

/// How far a supervisor is with a command.
pub(super) struct Progress {
    step: Mutex<&'static str>,
    answered: AtomicBool,
}

/// Sends commands to one supervisor.
pub(super) struct CommandSender<S>(Arc<NewestCommand<S>>);

pub(super) struct CommandReceiver<S>(Arc<NewestCommand<S>>);

struct NewestCommand<S> {
    command: Mutex<Option<SectionCommand<S>>>,
    arrived: Notify,
}

/// A channel that holds one command.
pub(super) fn commands<S>() -> (CommandSender<S>, CommandReceiver<S>) {
    let newest = Arc::new(NewestCommand {
        command: Mutex::new(None),
        arrived: Notify::new(),
    });
    (CommandSender(Arc::clone(&newest)), CommandReceiver(newest))
}

impl<S> CommandSender<S> {
    /// Replaces a command that the supervisor has not received yet.
    pub(super) fn send(&self, command: SectionCommand<S>) {
        *self.0.command() = Some(command);
        self.0.arrived.notify_one();
    }
}

impl<S> CommandReceiver<S> {
    /// Waits for a command. May be dropped at any point.
    pub(super) async fn next(&self) -> SectionCommand<S> {
        loop {
            if let Some(command) = self.0.command().take() {
                return command;
            }
            self.0.arrived.notified().await;
        }
    }
}

impl<S> NewestCommand<S> {
    fn command(&self) -> MutexGuard<'_, Option<SectionCommand<S>>> {
        // Changed by single assignments: consistent after any panic.
        lock(&self.command)
    }
}

impl Pending {
    /// A command's answer, and what gives it.
    pub(super) fn new(section: Section, change: SectionChange) -> (Reply, Self) {
        let (sender, result) = oneshot::channel();
        let progress = Arc::new(Progress {
            step: Mutex::new("waits for the section's previous change"),
            answered: AtomicBool::new(false),
        });
        let reply = Reply {
            result: sender,
            progress: Arc::clone(&progress),
        };
        let pending = Self {
            section,
            change,
            progress,
            result,
        };
        (reply, pending)
    }

    /// A section whose supervisor was started and reports in the registry how it does.
    pub(super) fn started(section: Section, change: SectionChange) -> Self {
        let (reply, pending) = Self::new(section, change);
        reply.send(Ok(()));
        pending
    }

    /// Waits for the answer. None: a newer command replaced it, or the daemon is stopping.
    pub(super) async fn result(self) -> Option<SectionResult> {
        self.result.await.ok()
    }
}

impl Reply {
    /// Says what the command waits for: a predicate whose subject is the section.
    pub(super) fn set_step(&self, step: &'static str) {
        *lock(&self.progress.step) = step;
    }

    /// Answers. The configuration must show the result, and be locked until this returns.
    pub(super) fn send(self, result: SectionResult) {
        self.progress.answered.store(true, Ordering::Release);
        // The receiver may be gone.
        let _ = self.result.send(result);
    }
}

/// The step of a section whose component is compiled for the first time, which may take a minute and is no problem.
pub(super) const COMPILES: &str = "waits for its component to be compiled and initialized";

impl Progress {
    pub(super) fn step(&self) -> &'static str {
        *lock(&self.step)
    }

    /// Whether the answer was given. It changes only while the configuration is locked.
    pub(super) fn is_answered(&self) -> bool {
        self.answered.load(Ordering::Acquire)
    }
}

impl SectionChange {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Removed => "removed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_newest_command_is_received() {
        let (sender, receiver) = commands();
        let mut answers = Vec::new();
        for version in 1..=3 {
            let (reply, pending) = Pending::new(Section::Admin, SectionChange::Changed);
            sender.send(SectionCommand::Change(Arc::new(version), reply));
            answers.push(pending);
        }
        let SectionCommand::Change(version, reply) = receiver.next().await else {
            panic!("a removal");
        };
        assert_eq!(*version, 3);
        reply.send(Ok(()));
        let mut results = Vec::new();
        for pending in answers {
            results.push(pending.result().await);
        }
        assert_eq!(results, [None, None, Some(Ok(()))]);
    }
}
