//! The steps of a run: writes, faults, handlers and informers that are added, changed and removed, in an order drawn
//! from the seed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use informant_apiserver::{Ending, Filter, ServerSnapshot};
use informant_cache::Environment;
use informant_informer::{CallBarrier, ReflectorOptions};

use self::barrier::WaitingHandler;
use self::guests::GuestSchedule;
use super::handler::Handler;
use super::history::Selection;
use super::rng::Rng;
use super::watched::Watched;
use super::world::World;

mod barrier;
mod faults;
mod guests;
mod handlers;

/// The namespaces that are written to.
pub(super) const NAMESPACES: [&str; 2] = ["default", "kube-system"];

/// The number of object names; few, so that incarnations overlap.
pub(super) const NAMES: u64 = 6;

/// The minimum and maximum number of steps of a run.
const STEPS: (u64, u64) = (30, 120);

/// The maximum duration of a step.
const STEP_MS_MAX: u64 = 3_000;

/// The maximum number of informers at a time.
const INFORMERS_MAX: usize = 3;

pub(super) struct Schedule {
    world: Arc<World>,
    rng: Rng,
    handlers: Vec<Handler>,
    handlers_ever: u32,
    /// Handlers that wait for what they may read.
    barrier: CallBarrier<WaitingHandler>,
    /// Whether informers may change their selection.
    reconfigures: bool,
    /// Whether the server's database may be restored from a backup.
    restores: bool,
    backup: Option<ServerSnapshot>,
    /// In a run with guests.
    guests: Option<GuestSchedule>,
}

impl Schedule {
    pub(super) fn new(world: Arc<World>, mut rng: Rng, with_guests: bool, may_restore: bool) -> Self {
        Self {
            guests: with_guests.then(|| GuestSchedule::new(&world, rng.aside())),
            world,
            reconfigures: rng.percent(50),
            restores: may_restore && rng.aside().percent(25),
            backup: None,
            rng,
            handlers: Vec::new(),
            handlers_ever: 0,
            barrier: CallBarrier::default(),
        }
    }

    /// Runs all steps, then ends all faults.
    pub(super) async fn play(&mut self) {
        for _ in 0..self.rng.below(NAMES) {
            self.write();
        }
        self.add_informer();
        self.add_guest().await;
        let steps = STEPS.0 + self.rng.below(STEPS.1 - STEPS.0);
        for _ in 0..steps {
            self.step().await;
            self.change_guest().await;
            self.release_handlers();
            // Most steps follow each other closely: that is where races occur.
            let pause = if self.rng.percent(60) {
                self.rng.below(20)
            } else {
                self.rng.below(STEP_MS_MAX)
            };
            self.world.environment.sleep(Duration::from_millis(pause)).await;
        }
        self.end_faults();
        self.release_rest().await;
    }

    async fn step(&mut self) {
        match self.rng.below(100) {
            0..60 => self.write(),
            60..80 => self.fault(),
            80..84 => self.add_handler(),
            84..86 => self.remove_handler(),
            86..92 => self.change_handler(),
            92..94 => self.change_replica(),
            94..95 => self.jump_clock().await,
            95..96 => self.add_informer(),
            96..97 => self.remove_informer().await,
            97..98 => self.check_index(),
            _ => self.reconfigure().await,
        }
    }

    fn write(&mut self) {
        if !self.world.may_be_written() {
            return;
        }
        let namespace = self.rng.pick(&NAMESPACES);
        let name = format!("map-{}", self.rng.below(NAMES));
        let value = format!("v{}", self.rng.below(4));
        let group = self.rng.pick(&["a", "a", "b"]);
        let delete = self.world.exists(namespace, &name) && self.rng.percent(30);
        if delete {
            self.world.delete(namespace, &name);
        }
        if !delete || self.rng.percent(50) {
            self.world.put(namespace, &name, &value, group);
        }
    }

    /// The informers that are not of a process that is killed.
    fn informers(&self) -> Vec<Arc<Watched>> {
        let mut informers = self.world.informers();
        informers.retain(|watched| !watched.is_of_process);
        informers
    }

    fn selection(&mut self) -> Selection {
        let several = NAMESPACES.map(str::to_owned);
        Selection {
            namespaces: if self.rng.percent(40) {
                BTreeSet::from(several)
            } else {
                BTreeSet::new()
            },
            group: self.rng.percent(25).then(|| "a".to_owned()),
        }
    }

    fn reflector(&mut self) -> ReflectorOptions {
        ReflectorOptions {
            watch_list: self.rng.percent(60),
            page_items: self.rng.pick(&[None, None, Some(1), Some(3)]),
            ..ReflectorOptions::default()
        }
    }

    /// Adds an informer with a handler.
    fn add_informer(&mut self) {
        if self.informers().len() >= INFORMERS_MAX {
            return;
        }
        let (selection, reflector) = (self.selection(), self.reflector());
        let watched = Watched::start(&self.world, selection, reflector);
        self.add_handler_to(&watched);
    }

    /// Removes an informer with all its handlers.
    async fn remove_informer(&mut self) {
        let informers = self.informers();
        if informers.len() < 2 {
            return;
        }
        let watched = &informers[self.rng.below(informers.len() as u64) as usize];
        self.forget_handlers_of(watched);
        let (going, staying) = std::mem::take(&mut self.handlers)
            .into_iter()
            .partition(|handler| handler.watched.id == watched.id);
        self.handlers = staying;
        let going: Vec<Handler> = going;
        going.into_iter().for_each(|handler| handler.remove(&self.world));
        watched.stop(&self.world).await;
    }

    /// Changes an informer's selection.
    async fn reconfigure(&mut self) {
        if !self.reconfigures {
            return;
        }
        let informers = self.informers();
        let watched = &informers[self.rng.below(informers.len() as u64) as usize];
        let (mut selection, reflector) = (self.selection(), self.reflector());
        if !self.namespaces_may_change(watched) {
            selection.namespaces = watched.selection().namespaces;
        }
        watched.reconfigure(&self.world, selection, reflector).await;
    }

    /// Whether its namespaces may change: native handlers belong to one source.
    fn namespaces_may_change(&self, watched: &Watched) -> bool {
        !watched.id.is_multiple_of(2)
    }

    fn check_index(&self) {
        for watched in self.world.informers() {
            watched.check_index(&self.world);
        }
    }

    /// The process or its machine is suspended: all timers are due at once.
    async fn jump_clock(&mut self) {
        let seconds = self.rng.pick(&[1, 30, 400, 4_000]);
        self.world.note(format!("the clock jumps by {seconds} s"));
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    /// Moves the informers to a lagging replica, or back.
    fn change_replica(&mut self) {
        let to_second = !self.world.on_replica.load(Ordering::Relaxed);
        if to_second && self.rng.percent(70) {
            self.world.replica().freeze();
        } else {
            self.world.replica().thaw();
        }
        self.world.on_replica.store(to_second, Ordering::Relaxed);
        self.world.informers().iter().for_each(|watched| watched.note_lag());
        self.world.server().faults().drop_watches(&Filter::any(), Ending::Clean);
        self.world.note(format!("to replica {}", u8::from(to_second)));
    }

    fn end_faults(&mut self) {
        self.world.end_faults();
        self.handlers.iter().for_each(|handler| handler.resume(&self.world));
    }
}
