//! The workers of a plugin's event actor: those that are home, and those that work in a task of their own.

use std::sync::Arc;

use informant_cache::Environment;
use informant_cache::listener::{Delivery, Shard};
use tokio::sync::mpsc;

use crate::actor::command_flag::CommandFlag;
use crate::actor::slot::InstanceSlot;
use crate::actor::worker::{BATCH_EVENTS_MAX, EventWorker};

/// The workers of one plugin.
pub(super) struct Crew {
    env: Arc<dyn Environment>,
    seats: Vec<Seat>,
    /// How many work.
    out: usize,
    /// Raised while all are to come home.
    interrupt: Arc<CommandFlag>,
    returns: mpsc::Sender<Box<EventWorker>>,
    returned: mpsc::Receiver<Box<EventWorker>>,
    /// The batch that is filled next.
    pub(super) batch: Vec<Delivery>,
}

/// The place of one worker.
struct Seat {
    /// None while it works.
    worker: Option<Box<EventWorker>>,
    /// Its task; none if it is the only worker.
    task: Option<mpsc::Sender<Box<EventWorker>>>,
}

impl Crew {
    pub(super) fn new(env: Arc<dyn Environment>, slots: Vec<InstanceSlot>) -> Crew {
        let (returns, returned) = mpsc::channel(usize::from(informant_cache::listener::SHARDS_MAX));
        let mut crew = Crew {
            env,
            seats: Vec::new(),
            out: 0,
            interrupt: Arc::new(CommandFlag::new()),
            returns,
            returned,
            batch: Vec::with_capacity(BATCH_EVENTS_MAX),
        };
        crew.change(slots.into_iter().map(EventWorker::new).map(Box::new).collect());
        crew
    }

    /// Replaces the workers. All are home.
    pub(super) fn change(&mut self, workers: Vec<Box<EventWorker>>) {
        let needs_tasks = workers.len() > 1;
        let task = || needs_tasks.then(|| self.start_task());
        let seats = workers.into_iter().map(|worker| Seat {
            worker: Some(worker),
            task: task(),
        });
        self.seats = seats.collect();
    }

    /// Takes all workers, which are home.
    pub(super) fn take(&mut self) -> Vec<Box<EventWorker>> {
        let seats = std::mem::take(&mut self.seats);
        seats.into_iter().filter_map(|seat| seat.worker).collect()
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
    pub(super) fn alone(&mut self) -> Option<&mut EventWorker> {
        match &mut self.seats[..] {
            [seat] => seat.worker.as_deref_mut(),
            _ => None,
        }
    }

    /// The shards whose workers are home.
    pub(super) fn home(&self) -> Vec<Shard> {
        let seats = (0..).zip(&self.seats);
        seats
            .filter_map(|(shard, seat)| seat.worker.as_ref().map(|_| shard))
            .collect()
    }

    pub(super) fn home_mut(&mut self) -> impl Iterator<Item = &mut EventWorker> {
        self.seats.iter_mut().filter_map(|seat| seat.worker.as_deref_mut())
    }

    pub(super) fn at_home(&self, shard: Shard) -> Option<&EventWorker> {
        self.seats.get(usize::from(shard))?.worker.as_deref()
    }

    /// Sends the worker of `shard`, which is home, to deliver the batch.
    pub(super) async fn send_with_batch(&mut self, shard: Shard) {
        let seat = self.seats.get_mut(usize::from(shard));
        if let Some(worker) = seat.and_then(|seat| seat.worker.as_mut()) {
            std::mem::swap(&mut self.batch, &mut worker.batch);
        }
        self.send(shard).await;
    }

    /// Sends the worker of `shard`, which is home, to work.
    pub(super) async fn send(&mut self, shard: Shard) {
        let Some(seat) = self.seats.get_mut(usize::from(shard)) else {
            return;
        };
        if let (Some(task), Some(worker)) = (&seat.task, seat.worker.take()) {
            // Its task is idle, so this does not wait; it ends only with the runtime.
            if task.send(worker).await.is_ok() {
                self.out += 1;
            }
        }
    }

    /// Waits until a worker comes home; forever if none is out. May be dropped at any point.
    pub(super) async fn comes_home(&mut self) {
        if self.out == 0 {
            return std::future::pending().await;
        }
        if let Some(worker) = self.returned.recv().await {
            self.seat(worker);
        }
        while let Ok(worker) = self.returned.try_recv() {
            self.seat(worker);
        }
    }

    /// Waits until all workers are home; they end the calls that they make.
    pub(super) async fn come_home(&mut self) {
        self.interrupt.raise();
        while self.out > 0 {
            self.comes_home().await;
        }
        self.interrupt.lower();
    }

    fn seat(&mut self, worker: Box<EventWorker>) {
        self.out -= 1;
        if let Some(seat) = self.seats.get_mut(usize::from(worker.slot.id.number)) {
            seat.worker = Some(worker);
        }
    }
}
