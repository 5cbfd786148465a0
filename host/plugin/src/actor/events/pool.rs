//! The workers of a plugin's event actor: idle ones, and those that work in a task of their own.

use std::sync::Arc;

use informant_cache::Environment;
use informant_cache::listener::{Delivery, Lane};
use tokio::sync::mpsc;

use crate::actor::command_flag::CommandFlag;
use crate::actor::slot::InstanceSlot;
use crate::actor::worker::EventWorker;

pub(super) struct WorkerPool {
    env: Arc<dyn Environment>,
    workers: Vec<PooledWorker>,
    /// How many work.
    busy: usize,
    /// Raised while all are to become idle.
    interrupt: Arc<CommandFlag>,
    returns: mpsc::Sender<Box<EventWorker>>,
    returned: mpsc::Receiver<Box<EventWorker>>,
    /// The batch that is filled next.
    pub(super) batch: Vec<Delivery>,
}

struct PooledWorker {
    /// None while it works.
    worker: Option<Box<EventWorker>>,
    /// Its task; none if it is the only worker.
    task: Option<mpsc::Sender<Box<EventWorker>>>,
}

impl WorkerPool {
    pub(super) fn new(env: Arc<dyn Environment>, slots: Vec<InstanceSlot>) -> WorkerPool {
        let (returns, returned) = mpsc::channel(usize::from(informant_cache::listener::LANES_MAX));
        let mut pool = WorkerPool {
            env,
            workers: Vec::new(),
            busy: 0,
            interrupt: Arc::new(CommandFlag::new()),
            returns,
            returned,
            batch: Vec::new(),
        };
        pool.change(slots.into_iter().map(EventWorker::new).collect());
        pool
    }

    /// Replaces the workers. All are idle.
    pub(super) fn change(&mut self, workers: Vec<EventWorker>) {
        let needs_tasks = workers.len() > 1;
        let task = || needs_tasks.then(|| self.start_task());
        let workers = workers.into_iter().map(|worker| PooledWorker {
            worker: Some(Box::new(worker)),
            task: task(),
        });
        self.workers = workers.collect();
    }

    /// Takes all workers, which are idle.
    pub(super) fn take(&mut self) -> Vec<EventWorker> {
        let workers = std::mem::take(&mut self.workers);
        workers
            .into_iter()
            .filter_map(|pooled| pooled.worker)
            .map(|worker| *worker)
            .collect()
    }

    /// A task in which one worker at a time works. Ends when its sender is dropped.
    fn start_task(&self) -> mpsc::Sender<Box<EventWorker>> {
        let (sender, mut work) = mpsc::channel::<Box<EventWorker>>(1);
        let (returns, interrupt) = (self.returns.clone(), Arc::clone(&self.interrupt));
        let task = async move {
            while let Some(mut worker) = work.recv().await {
                worker.run(&interrupt).await;
                if returns.send(worker).await.is_err() {
                    return;
                }
            }
        };
        self.env.spawn("plugin-instance", Box::pin(task));
        sender
    }

    /// The worker, if there is only one.
    pub(super) fn single(&mut self) -> Option<&mut EventWorker> {
        match &mut self.workers[..] {
            [pooled] => pooled.worker.as_deref_mut(),
            _ => None,
        }
    }

    /// The lanes whose workers are idle.
    pub(super) fn idle_lanes(&self) -> Vec<Lane> {
        let workers = (0..).zip(&self.workers);
        workers
            .filter_map(|(lane, pooled)| pooled.worker.as_ref().map(|_| lane))
            .collect()
    }

    pub(super) fn idle_mut(&mut self) -> impl Iterator<Item = &mut EventWorker> {
        self.workers
            .iter_mut()
            .filter_map(|pooled| pooled.worker.as_deref_mut())
    }

    pub(super) fn idle_worker(&self, lane: Lane) -> Option<&EventWorker> {
        self.workers.get(usize::from(lane))?.worker.as_deref()
    }

    /// Sends the worker of `lane`, which is idle, to deliver the batch.
    pub(super) async fn dispatch_batch(&mut self, lane: Lane) {
        let pooled = self.workers.get_mut(usize::from(lane));
        if let Some(worker) = pooled.and_then(|pooled| pooled.worker.as_mut()) {
            std::mem::swap(&mut self.batch, &mut worker.batch);
        }
        self.dispatch(lane).await;
    }

    /// Sends the worker of `lane`, which is idle, to work.
    pub(super) async fn dispatch(&mut self, lane: Lane) {
        let Some(pooled) = self.workers.get_mut(usize::from(lane)) else {
            return;
        };
        if let (Some(task), Some(worker)) = (&pooled.task, pooled.worker.take()) {
            // Its task is idle, so this does not wait; it ends only with the runtime.
            if task.send(worker).await.is_ok() {
                self.busy += 1;
            }
        }
    }

    /// Waits until a worker is idle again; forever if none works. May be dropped at any point.
    pub(super) async fn returned_worker(&mut self) {
        if self.busy == 0 {
            return std::future::pending().await;
        }
        if let Some(worker) = self.returned.recv().await {
            self.put_back(worker);
        }
        while let Ok(worker) = self.returned.try_recv() {
            self.put_back(worker);
        }
    }

    /// Waits until all workers are idle; they end the calls that they make.
    pub(super) async fn quiesce(&mut self) {
        self.interrupt.raise();
        while self.busy > 0 {
            self.returned_worker().await;
        }
        self.interrupt.lower();
    }

    fn put_back(&mut self, worker: Box<EventWorker>) {
        self.busy -= 1;
        if let Some(pooled) = self.workers.get_mut(usize::from(worker.slot.id.number)) {
            pooled.worker = Some(worker);
        }
    }
}
