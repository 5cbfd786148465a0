//! Commands to a plugin's actors, and how actors wait.

use std::sync::Arc;

use informant_cache::{Environment, IndexFeedHandle, Moment};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::actor::command_flag::CommandFlag;
use crate::actor::replay::Replay;
use crate::capability::InitEffects;
use crate::error::LoadProblem;
use crate::instance::Instance;
use crate::instance::config::PluginConfig;
use crate::instance::version::LoadedVersion;

/// Commands queued for one actor. There is one swap at a time, and people resume and stop; a full queue makes the next
/// sender wait.
const COMMANDS_MAX: usize = 16;

/// A command to an actor, handled between two calls into its guest.
pub(crate) enum ActorCommand {
    /// Start to work.
    Start,
    /// Another version takes over.
    Swap(Box<CandidateInstance>),
    /// The section changed, but the instance can be kept.
    Reconfigure(Arc<PluginConfig>),
    /// The plugin was paused: make no further call of the batch.
    Pause,
    /// End a quarantine.
    Resume,
    /// Drop the instances, and create new ones of the same version.
    Restart,
    /// A deferred write failed permanently: quarantine the plugin, unless another instance was swapped in since the
    /// [activation](crate::actor::slot::InstanceSlot::activation) whose call deferred it.
    Quarantine { activation: u64, because: String },
    /// Make one call that no event asks for, in a run of a scenario.
    Replay(Box<Replay>),
    /// Deliver the pending events, then end.
    Drain,
}

/// The version to swap in, ready to work.
pub(crate) struct CandidateInstance {
    pub(crate) config: Arc<PluginConfig>,
    pub(crate) version: LoadedVersion,
    /// None if this actor has no work with the version's roles.
    pub(crate) instances: Vec<Instance>,
    /// What their `init` changed in the plugin's keys, if it is accepted. For the event actor only.
    pub(crate) changes: InitEffects,
    /// The feed of the indexes it computes; none if it computes none. For the index actor only.
    pub(crate) feed: Option<IndexFeedHandle>,
    pub(crate) kind: SwapKind,
    /// Receives the bytes of transferred state after the swap, or why the swap failed.
    pub(crate) done: oneshot::Sender<Result<Option<usize>, LoadProblem>>,
}

/// Why another version is swapped in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SwapKind {
    /// A reload: the new version receives the old one's state and is on probation.
    Reload,
    /// A rollback: the new version failed, and an older one was good.
    RollBack,
}

#[derive(Clone)]
pub(crate) struct CommandSender {
    commands: mpsc::Sender<ActorCommand>,
    queued: Arc<CommandFlag>,
}

/// Receives one actor's commands and wakes it.
pub(crate) struct Mailbox {
    commands: mpsc::Receiver<ActorCommand>,
    queued: Arc<CommandFlag>,
    notify: Arc<Notify>,
    env: Arc<dyn Environment>,
    abort: CancellationToken,
}

pub(crate) enum Wakeup {
    /// There may be something to pull.
    Work,
    Time,
    Command(ActorCommand),
    /// The actor must end at once: the plugin was dropped, or its time to drain is over.
    End,
}

/// Whether an actor's loop continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Continue,
    Stop,
}

/// A channel for commands. `abort` ends every wait on the mailbox.
pub(crate) fn mailbox(env: Arc<dyn Environment>, abort: CancellationToken) -> (CommandSender, Mailbox) {
    let (sender, receiver) = mpsc::channel(COMMANDS_MAX);
    let queued = Arc::new(CommandFlag::new());
    let mailbox = Mailbox {
        commands: receiver,
        queued: Arc::clone(&queued),
        notify: Arc::default(),
        env,
        abort,
    };
    (
        CommandSender {
            commands: sender,
            queued,
        },
        mailbox,
    )
}

impl CommandSender {
    /// Sends a command. Returns whether the actor is still there to handle it.
    pub(crate) async fn send(&self, command: ActorCommand) -> bool {
        let sent = self.commands.send(command).await.is_ok();
        self.queued.raise();
        sent
    }

    /// Sends a command without waiting. If many are queued, a task waits instead.
    pub(crate) fn post(&self, env: &dyn Environment, command: ActorCommand) {
        match self.commands.try_send(command) {
            Ok(()) => self.queued.raise(),
            Err(TrySendError::Full(command)) => {
                let sender = self.clone();
                let send = async move {
                    sender.send(command).await;
                };
                env.spawn("plugin-command", Box::pin(send));
            }
            // The actor has ended.
            Err(TrySendError::Closed(_)) => {}
        }
    }
}

impl Mailbox {
    /// A waker of the actor.
    pub(crate) fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        let notify = Arc::clone(&self.notify);
        Arc::new(move || notify.notify_one())
    }

    /// The next command, if there is one. Costs one atomic load if there is none, so it can be called after each event.
    pub(crate) fn try_next(&mut self) -> Option<ActorCommand> {
        self.queued.take(|| self.commands.try_recv().ok())
    }

    pub(crate) fn has_command(&self) -> bool {
        self.queued.is_raised()
    }

    /// Raised while a command may be queued.
    pub(crate) fn command_flag(&self) -> &CommandFlag {
        &self.queued
    }

    /// Whether the actor must end at once.
    pub(crate) fn is_over(&self) -> bool {
        self.abort.is_cancelled()
    }

    /// Waits for work, a command, or `until`.
    pub(crate) async fn wait(&mut self, until: Option<Moment>) -> Wakeup {
        let timer = until.map(|until| self.env.sleep(until - self.env.now()));
        let timer = async {
            match timer {
                Some(timer) => timer.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.abort.cancelled() => Wakeup::End,
            command = self.commands.recv() => command.map_or(Wakeup::End, Wakeup::Command),
            () = self.notify.notified() => Wakeup::Work,
            () = timer => Wakeup::Time,
        }
    }
}
