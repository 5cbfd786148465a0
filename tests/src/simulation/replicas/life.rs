//! The life of a process: its tasks run, stand still as after SIGSTOP, or are gone.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use informant_cache::{BoxFuture, Environment, Moment};
use informant_informer::TokioEnvironment;

use super::super::rng::Rng;
use super::super::world::locked;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Runs,
    Stopped,
    Killed,
}

#[derive(Default)]
struct State {
    phase: Phase,
    tasks_ever: u64,
    /// Of each task, what wakes it.
    wakers: BTreeMap<u64, Waker>,
}

/// Whether a process runs. Clones are the same process.
#[derive(Clone, Default)]
pub(super) struct Life(Arc<Mutex<State>>);

impl Life {
    /// No task makes a step until it continues. Time passes.
    pub(super) fn stop(&self) {
        locked(&self.0).phase = Phase::Stopped;
    }

    /// It continues: its tasks in any order.
    pub(super) fn proceed(&self, rng: &mut Rng) {
        let mut tasks: Vec<Waker> = {
            let mut state = locked(&self.0);
            state.phase = Phase::Runs;
            state.wakers.values().cloned().collect()
        };
        while !tasks.is_empty() {
            tasks.swap_remove(rng.below(tasks.len() as u64) as usize).wake();
        }
    }

    /// No task makes another step.
    pub(super) fn kill(&self) {
        let mut state = locked(&self.0);
        state.phase = Phase::Killed;
        state.wakers.values().for_each(Waker::wake_by_ref);
    }

    pub(super) fn is_stopped(&self) -> bool {
        locked(&self.0).phase == Phase::Stopped
    }

    pub(super) fn is_killed(&self) -> bool {
        locked(&self.0).phase == Phase::Killed
    }
}

/// The time, the tasks and the random numbers of one process.
pub(super) struct ProcessEnvironment {
    pub(super) life: Life,
    world: Arc<TokioEnvironment>,
    /// What the clock for leases of its machine said at the start of the run.
    boot: Duration,
    rng: Mutex<Rng>,
}

impl ProcessEnvironment {
    pub(super) fn new(world: &Arc<TokioEnvironment>, boot: Duration, rng: Rng) -> Self {
        Self {
            life: Life::default(),
            world: Arc::clone(world),
            boot,
            rng: Mutex::new(rng),
        }
    }
}

impl Environment for ProcessEnvironment {
    fn now(&self) -> Moment {
        self.world.now()
    }

    fn boot_now(&self) -> Moment {
        self.world.now() + self.boot
    }

    fn sleep(&self, duration: Duration) -> BoxFuture {
        self.world.sleep(duration)
    }

    fn spawn(&self, name: &'static str, task: BoxFuture) {
        let number = {
            let mut state = locked(&self.life.0);
            state.tasks_ever += 1;
            state.tasks_ever
        };
        let task = Task {
            life: self.life.clone(),
            number,
            inner: Some(task),
        };
        self.world.spawn(name, Box::pin(task));
    }

    fn random(&self) -> u64 {
        locked(&self.rng).below(u64::MAX)
    }
}

struct Task {
    life: Life,
    number: u64,
    inner: Option<BoxFuture>,
}

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let phase = {
            let mut state = locked(&self.life.0);
            state.wakers.insert(self.number, context.waker().clone());
            state.phase
        };
        let poll = match (phase, &mut self.inner) {
            (Phase::Stopped, _) => Poll::Pending,
            (Phase::Runs, Some(inner)) => inner.as_mut().poll(context),
            (Phase::Killed, _) | (_, None) => Poll::Ready(()),
        };
        if poll.is_ready() {
            self.inner = None;
            locked(&self.life.0).wakers.remove(&self.number);
        }
        poll
    }
}
