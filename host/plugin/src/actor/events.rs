//! The actor that delivers events to a plugin.
//!
//! ```text
//! listener ──next_batch──▶ EventActor ──▶ EventWorker, one per instance ──done──▶ listener
//! ```
//!
//! It alone asks the listener for events, and handles commands (swap, drain …), for which all workers have to be idle.
//! With one instance it is the worker, too. With several, each worker has a task while it works, and receives the keys
//! of its lane. An event whose call is not made or does not return goes back to the listener, so that a trap, a swap
//! or a quarantine loses nothing.

mod pool;
pub(crate) mod swap;

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Moment;
use informant_cache::listener::{LaneSet, NextBatch, Pause};
use informant_spec::ReplayPolicy;

use self::pool::WorkerPool;
use crate::actor::PluginContext;
use crate::actor::mailbox::{ActorCommand, Mailbox, Step};
use crate::actor::slot::InstanceSlot;
use crate::actor::worker::BATCH_EVENTS_MAX;
use crate::instance::config::PluginConfig;
use crate::status::PluginState;

/// How long nothing is delivered once the gate is closed, before it is asked again: 100 ms. The program is expected to
/// let the plugin stand by meanwhile.
const GATE_PAUSE: Duration = Duration::from_millis(100);

/// Delivers events to one plugin.
pub(crate) struct EventActor {
    context: Arc<PluginContext>,
    mailbox: Mailbox,
    pool: WorkerPool,
    started: bool,
    draining: bool,
    is_quarantined: bool,
    /// The state of an instance while there is no failure.
    steady_state: PluginState,
    /// Grows with each version or section that is swapped in.
    activation: u64,
    has_timers: bool,
    /// When a run of a timer is due next.
    next_run: Option<Moment>,
}

impl EventActor {
    pub(crate) fn new(slots: Vec<InstanceSlot>, mailbox: Mailbox, context: Arc<PluginContext>) -> EventActor {
        EventActor {
            pool: WorkerPool::new(Arc::clone(&context.runtime.env), slots),
            context,
            mailbox,
            started: false,
            draining: false,
            is_quarantined: false,
            steady_state: PluginState::Loaded,
            activation: 0,
            has_timers: false,
            next_run: None,
        }
    }

    /// Runs until the listener is closed and drained, or the plugin is dropped.
    ///
    /// In a box, because a future has two copies of what it takes by value.
    pub(crate) async fn run(mut self: Box<Self>) {
        while self.step().await == Step::Continue {}
        self.quiesce().await;
        self.pool.idle_mut().for_each(|worker| worker.slot.end());
        self.context.capabilities.close();
    }

    async fn step(&mut self) -> Step {
        if self.mailbox.is_over() {
            return Step::Stop;
        }
        while let Some(command) = self.mailbox.try_next() {
            // In a box: without one, each plugin keeps room for it while it waits.
            Box::pin(self.handle_command(command)).await;
        }
        if self.draining && self.is_suspended() {
            return Step::Stop;
        }
        if !self.started || self.is_quarantined || self.context.is_standby() {
            self.next_run = None;
            return self.wait(None).await;
        }
        if !self.context.effects.may_act(None) {
            self.next_run = None;
            return self.wait(Some(self.context.now() + GATE_PAUSE)).await;
        }
        if self.has_timers {
            self.next_run = self.context.run_timers();
        }
        match self.pool.single() {
            Some(_) => self.step_single().await,
            None => self.step_pool().await,
        }
    }

    /// Whether nothing is delivered until somebody resumes the plugin, or it acts.
    fn is_suspended(&self) -> bool {
        self.is_quarantined || self.context.is_paused() || !self.context.effects.may_act(None)
    }

    /// One turn with one instance: its calls are made here.
    async fn step_single(&mut self) -> Step {
        let Some(worker) = self.pool.single() else {
            return Step::Continue;
        };
        if worker.slot.is_empty() {
            // A paused guest is not called, not even to initialize an instance.
            let until = worker.slot.rebuild_at();
            if self.context.is_paused() {
                return self.wait(None).await;
            }
            if until.is_none_or(|until| self.context.now() < until) {
                return self.wait(until).await;
            }
        } else {
            if self.context.is_full() {
                return self.wait(None).await;
            }
            let now = self.context.now();
            match self
                .context
                .listener
                .consumer()
                .next_batch(LaneSet::FIRST, now, BATCH_EVENTS_MAX, &mut worker.batch)
            {
                NextBatch::Delivered(_) => {}
                NextBatch::WaitUntil(until) => return self.wait(Some(until)).await,
                NextBatch::Idle => return self.wait(None).await,
                NextBatch::Closed => return Step::Stop,
            }
        }
        worker.run(self.mailbox.command_flag()).await;
        self.review_idle().await;
        tokio::task::yield_now().await;
        Step::Continue
    }

    /// One turn with several instances: idle workers receive batches.
    async fn step_pool(&mut self) -> Step {
        let (context, now) = (Arc::clone(&self.context), self.context.now());
        let (mut idle, mut until) = (LaneSet::default(), None);
        let earlier = |until: Option<Moment>, at: Moment| Some(until.map_or(at, |until| until.min(at)));
        let is_paused = context.is_paused();
        for lane in self.pool.idle_lanes() {
            let Some(worker) = self.pool.idle_worker(lane) else {
                continue;
            };
            match worker.slot.is_empty().then(|| worker.slot.rebuild_at()) {
                None => idle.insert(lane),
                Some(Some(at)) if at <= now && !is_paused => self.pool.dispatch(lane).await,
                Some(Some(at)) if !is_paused => until = earlier(until, at),
                Some(_) => {}
            }
        }
        while !idle.is_empty() && !context.is_full() {
            let batch = &mut self.pool.batch;
            match context
                .listener
                .consumer()
                .next_batch(idle, now, BATCH_EVENTS_MAX, batch)
            {
                NextBatch::Delivered(_) => {
                    let lane = batch.first().map_or(0, |delivery| delivery.lane);
                    idle.remove(lane);
                    self.pool.dispatch_batch(lane).await;
                }
                NextBatch::WaitUntil(at) => {
                    until = earlier(until, at);
                    break;
                }
                NextBatch::Idle => break,
                NextBatch::Closed => return Step::Stop,
            }
        }
        self.wait(until).await
    }

    async fn wait(&mut self, until: Option<Moment>) -> Step {
        let until = [until, self.next_run].into_iter().flatten().min();
        tokio::select! {
            biased;
            () = self.mailbox.wait(until) => {}
            () = self.pool.returned_worker() => self.review_idle().await,
        }
        Step::Continue
    }

    /// Waits until no call is made. Calls end as usual; what was not begun goes back to the listener.
    async fn quiesce(&mut self) {
        self.pool.quiesce().await;
        self.review_idle().await;
    }

    /// Acts on what idle workers report: a quarantine, and a rebuilt instance that is to receive its keys
    /// again.
    async fn review_idle(&mut self) {
        let mut quarantined = false;
        for worker in self.pool.idle_mut() {
            worker.slot.set_steady_state(self.steady_state);
            quarantined |= worker.slot.is_quarantined();
            let is_rebuilt = std::mem::take(&mut worker.is_rebuilt);
            // The event that caused the loss is not replayed, or the loss would repeat forever.
            if is_rebuilt && worker.slot.config.spec.on_restart == ReplayPolicy::Replay {
                self.context
                    .listener
                    .consumer()
                    .recover(worker.slot.id.number, self.context.now());
            }
        }
        if quarantined && !self.is_quarantined {
            self.is_quarantined = true;
            self.context.listener.control().pause(Pause::Quarantine);
            self.pool.quiesce().await;
            self.pool.idle_mut().for_each(|worker| worker.slot.join_quarantine());
        }
    }

    async fn handle_command(&mut self, command: ActorCommand) {
        match command {
            ActorCommand::Start => {
                self.arrange_timers().await;
                self.started = true;
                self.set_steady_state(PluginState::Running);
            }
            ActorCommand::Swap(candidate) => {
                self.quiesce().await;
                self.swap(*candidate).await;
                self.arrange_timers().await;
            }
            ActorCommand::Reconfigure(config) => {
                self.quiesce().await;
                self.reconfigure(&config);
                self.arrange_timers().await;
            }
            // The listener is paused already; what was not begun is given back.
            ActorCommand::Pause => self.quiesce().await,
            ActorCommand::Resume => {
                // A worker may have been lost for good, and not be idle yet.
                if self.context.status().state() == PluginState::Quarantined {
                    self.quiesce().await;
                }
                if std::mem::take(&mut self.is_quarantined) {
                    self.pool.idle_mut().for_each(|worker| worker.slot.reset());
                    self.context.listener.control().resume(Pause::Quarantine);
                }
            }
            ActorCommand::Restart => {
                self.quiesce().await;
                self.pool.idle_mut().for_each(|worker| worker.slot.restart());
                if std::mem::take(&mut self.is_quarantined) {
                    self.context.listener.control().resume(Pause::Quarantine);
                }
                self.context.listener.control().retry_now();
            }
            ActorCommand::Quarantine { activation, because } => {
                self.quiesce().await;
                if activation == self.activation && !self.is_quarantined {
                    let first = self.pool.idle_mut().next();
                    first.into_iter().for_each(|worker| worker.slot.quarantine(&because));
                    self.review_idle().await;
                }
            }
            ActorCommand::Replay(replay) if self.context.is_standby() => replay.refuse("the plugin stands by"),
            ActorCommand::Replay(replay) => {
                self.quiesce().await;
                match self.pool.idle_mut().next() {
                    Some(worker) => worker.replay(*replay).await,
                    None => replay.refuse("the plugin has no instance"),
                }
            }
            ActorCommand::StandBy(done) => {
                // Another term may have begun since.
                self.context.end_term();
                self.quiesce().await;
                self.stand_by();
                // The caller may be gone.
                let _ = done.send(());
            }
            ActorCommand::Act(done) => {
                let was_standby = self.context.is_standby();
                if was_standby {
                    self.context.begin_term();
                    self.pool.idle_mut().for_each(|worker| worker.slot.start_over());
                }
                let _ = done.send(());
                if was_standby {
                    self.arrange_timers().await;
                }
            }
            ActorCommand::Drain => {
                self.started = true;
                self.draining = true;
                self.set_steady_state(PluginState::Draining);
            }
        }
    }

    /// Drops what the ended term has left: instances, a quarantine, timers, and what has not taken effect. While no
    /// call is made.
    fn stand_by(&mut self) {
        let context = &self.context;
        // Failures of its writes concern no later instance.
        self.activation += 1;
        for worker in self.pool.idle_mut() {
            worker.stand_by(self.activation);
        }
        if std::mem::take(&mut self.is_quarantined) {
            context.listener.control().resume(Pause::Quarantine);
        }
        context.capabilities.stand_by();
        context.forget_timers();
        self.has_timers = false;
        context.listener.consumer().stand_by(context.now());
    }

    /// The timers are those of the version and the section that work from now on.
    async fn arrange_timers(&mut self) {
        let Some(worker) = self.pool.idle_mut().next().filter(|_| !self.context.is_standby()) else {
            return;
        };
        let (manifest, config) = (
            Arc::clone(&worker.slot.version.manifest),
            Arc::clone(&worker.slot.config),
        );
        self.has_timers = self.context.arrange_timers(&manifest, &config).await;
        self.next_run = None;
    }

    /// Applies a section that needs no other instances. While no call is made.
    fn reconfigure(&mut self, config: &Arc<PluginConfig>) {
        let mut is_other_selection = false;
        for worker in self.pool.idle_mut() {
            is_other_selection |= worker.select(config);
            worker.slot.config = Arc::clone(config);
        }
        if is_other_selection {
            self.reselect();
        }
    }

    /// The section selects other objects: the handler receives the difference.
    fn reselect(&mut self) {
        let now = self.context.now();
        if let Some(worker) = self.pool.idle_mut().next() {
            worker.reselect(now);
        }
    }

    /// Workers that make a call follow when they are idle again.
    fn set_steady_state(&mut self, state: PluginState) {
        self.steady_state = state;
        self.pool
            .idle_mut()
            .for_each(|worker| worker.slot.set_steady_state(state));
    }
}
