//! Commands to a plugin's actors, and how actors wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// The term is over: drop the instances and what has not taken effect. Then the sender is notified.
    StandBy(oneshot::Sender<()>),
    /// A term begins: create the instances. The sender is notified when it has begun.
    Act(oneshot::Sender<()>),
    /// Deliver the pending events, then end.
    Drain,
}

/// The version to swap in, ready to work.
pub(crate) struct CandidateInstance {
    pub(crate) config: Arc<PluginConfig>,
    pub(crate) version: LoadedVersion,
    /// None if this actor has no work with the version's roles, or stood by when they were to be created.
    pub(crate) instances: Vec<Instance>,
    /// Cancelled if the instances cannot be used.
    pub(crate) term: CancellationToken,
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

/// What wakes an actor: one thing for work, commands and its end, for which it looks whenever it is woken.
#[derive(Default)]
struct Signals {
    /// Raised while a command may be queued.
    queued: CommandFlag,
    /// The actor must end at once.
    is_over: AtomicBool,
    notify: Notify,
}

/// Sends commands to one actor, and ends it.
///
/// They are in boxes: a channel has room for 32 from the beginning, and hardly a plugin receives so many.
#[derive(Clone)]
pub(crate) struct CommandSender {
    commands: mpsc::Sender<Box<ActorCommand>>,
    signals: Arc<Signals>,
}

/// Receives one actor's commands and wakes it.
pub(crate) struct Mailbox {
    commands: mpsc::Receiver<Box<ActorCommand>>,
    signals: Arc<Signals>,
    env: Arc<dyn Environment>,
}

/// Whether an actor's loop continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Continue,
    Stop,
}

/// A channel for commands.
pub(crate) fn mailbox(env: Arc<dyn Environment>) -> (CommandSender, Mailbox) {
    let (sender, receiver) = mpsc::channel(COMMANDS_MAX);
    let signals = Arc::new(Signals::default());
    let mailbox = Mailbox {
        commands: receiver,
        signals: Arc::clone(&signals),
        env,
    };
    (
        CommandSender {
            commands: sender,
            signals,
        },
        mailbox,
    )
}

impl Signals {
    fn raise(&self) {
        self.queued.raise();
        self.notify.notify_one();
    }
}

impl CommandSender {
    /// Sends a command. Returns whether the actor is still there to handle it.
    pub(crate) async fn send(&self, command: ActorCommand) -> bool {
        let sent = self.commands.send(Box::new(command)).await.is_ok();
        self.signals.raise();
        sent
    }

    /// Sends a command without waiting. If many are queued, a task waits instead.
    pub(crate) fn post(&self, env: &dyn Environment, command: ActorCommand) {
        match self.commands.try_send(Box::new(command)) {
            Ok(()) => self.signals.raise(),
            Err(TrySendError::Full(command)) => {
                let sender = self.clone();
                let send = async move {
                    sender.send(*command).await;
                };
                env.spawn("plugin-command", Box::pin(send));
            }
            // The actor has ended.
            Err(TrySendError::Closed(_)) => {}
        }
    }

    /// Ends the actor at once: the plugin was dropped, or its time to drain is over.
    pub(crate) fn end(&self) {
        self.signals.is_over.store(true, Ordering::Release);
        // It makes no further call of its batch.
        self.signals.raise();
    }
}

impl Mailbox {
    /// A waker of the actor.
    pub(crate) fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        let signals = Arc::clone(&self.signals);
        Arc::new(move || signals.notify.notify_one())
    }

    /// The next command, if there is one. Costs one atomic load if there is none, so it can be called after each event.
    pub(crate) fn try_next(&mut self) -> Option<ActorCommand> {
        let command = self.signals.queued.take(|| self.commands.try_recv().ok());
        command.map(|command| *command)
    }

    pub(crate) fn has_command(&self) -> bool {
        self.signals.queued.is_raised()
    }

    /// Raised while a command may be queued.
    pub(crate) fn command_flag(&self) -> &CommandFlag {
        &self.signals.queued
    }

    /// Whether the actor must end at once.
    pub(crate) fn is_over(&self) -> bool {
        self.signals.is_over.load(Ordering::Acquire)
    }

    /// Waits until there may be work or a command, until the actor must end, or `until`.
    pub(crate) async fn wait(&self, until: Option<Moment>) {
        let woken = self.signals.notify.notified();
        let Some(until) = until else {
            return woken.await;
        };
        tokio::select! {
            biased;
            () = woken => {}
            () = self.env.sleep(until - self.env.now()) => {}
        }
    }
}
