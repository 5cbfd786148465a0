//! What happens in a run: writes, faults, handlers and informers that come, change and go, in an order drawn from the
//! seed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use informant_apiserver::{Ending, Filter};
use informant_cache::Environment;
use informant_informer::ReflectorOptions;

use super::dice::Dice;
use super::handler::Handler;
use super::history::Selection;
use super::watched::Watched;
use super::world::World;

mod faults;
mod handlers;

/// The namespaces that are written to.
pub(super) const NAMESPACES: [&str; 2] = ["default", "kube-system"];

/// How many names the writes fight over; few, so that lives overlap.
const NAMES: u64 = 6;

/// How many steps a run has at least and at most.
const STEPS: (u64, u64) = (30, 120);

/// How long a step may take.
const STEP_MS_MAX: u64 = 3_000;

/// How many informers run at once.
const INFORMERS_MAX: usize = 3;

pub(super) struct Schedule {
    world: Arc<World>,
    dice: Dice,
    handlers: Vec<Handler>,
    handlers_ever: u32,
    /// Whether informers may change what they ask for.
    reconfigures: bool,
}

impl Schedule {
    pub(super) fn new(world: Arc<World>, mut dice: Dice) -> Self {
        Self {
            world,
            reconfigures: dice.percent(50),
            dice,
            handlers: Vec::new(),
            handlers_ever: 0,
        }
    }

    /// Does all steps, then ends all trouble.
    pub(super) async fn play(&mut self) {
        for _ in 0..self.dice.below(NAMES) {
            self.write();
        }
        self.add_informer();
        let steps = STEPS.0 + self.dice.below(STEPS.1 - STEPS.0);
        for _ in 0..steps {
            self.step().await;
            // Most steps come close together: that is where things race.
            let pause = if self.dice.percent(60) {
                self.dice.below(20)
            } else {
                self.dice.below(STEP_MS_MAX)
            };
            self.world.environment.sleep(Duration::from_millis(pause)).await;
        }
        self.end_trouble();
    }

    async fn step(&mut self) {
        match self.dice.below(100) {
            0..60 => self.write(),
            60..80 => self.fault(),
            80..84 => self.add_handler(),
            84..86 => self.remove_handler(),
            86..92 => self.change_handler(),
            92..94 => self.change_replica(),
            94..95 => self.jump().await,
            95..96 => self.add_informer(),
            96..97 => self.remove_informer().await,
            97..98 => self.look(),
            _ => self.reconfigure().await,
        }
    }

    fn write(&mut self) {
        let namespace = self.dice.pick(&NAMESPACES);
        let name = format!("map-{}", self.dice.below(NAMES));
        let value = format!("v{}", self.dice.below(4));
        let group = self.dice.pick(&["a", "a", "b"]);
        let delete = self.world.exists(namespace, &name) && self.dice.percent(30);
        if delete {
            self.world.delete(namespace, &name);
        }
        if !delete || self.dice.percent(50) {
            self.world.put(namespace, &name, &value, group);
        }
    }

    fn selection(&mut self) -> Selection {
        let several = NAMESPACES.map(str::to_owned);
        Selection {
            namespaces: if self.dice.percent(40) {
                BTreeSet::from(several)
            } else {
                BTreeSet::new()
            },
            group: self.dice.percent(25).then(|| "a".to_owned()),
        }
    }

    fn reflector(&mut self) -> ReflectorOptions {
        ReflectorOptions {
            watch_list: self.dice.percent(60),
            page_items: self.dice.pick(&[None, None, Some(1), Some(3)]),
            ..ReflectorOptions::default()
        }
    }

    /// An informer comes, with a handler.
    fn add_informer(&mut self) {
        if self.world.informers().len() >= INFORMERS_MAX {
            return;
        }
        let (selection, reflector) = (self.selection(), self.reflector());
        let watched = Watched::start(&self.world, selection, reflector);
        self.add_handler_to(&watched);
    }

    /// An informer goes, and all its handlers with it.
    async fn remove_informer(&mut self) {
        let informers = self.world.informers();
        if informers.len() < 2 {
            return;
        }
        let watched = &informers[self.dice.below(informers.len() as u64) as usize];
        let (going, staying) = std::mem::take(&mut self.handlers)
            .into_iter()
            .partition(|handler| handler.watched.id == watched.id);
        self.handlers = staying;
        let going: Vec<Handler> = going;
        going.into_iter().for_each(|handler| handler.leave(&self.world));
        watched.stop(&self.world).await;
    }

    /// An informer asks for something else.
    async fn reconfigure(&mut self) {
        if !self.reconfigures {
            return;
        }
        let informers = self.world.informers();
        let watched = &informers[self.dice.below(informers.len() as u64) as usize];
        let (mut selection, reflector) = (self.selection(), self.reflector());
        if !self.may_move(watched) {
            selection.namespaces = watched.selection().namespaces;
        }
        watched.reconfigure(&self.world, selection, reflector).await;
    }

    /// Whether its namespaces may change: native handlers belong to one source.
    fn may_move(&self, watched: &Watched) -> bool {
        !watched.id.is_multiple_of(2)
    }

    fn look(&self) {
        for watched in self.world.informers() {
            watched.look(&self.world);
        }
    }

    /// The process stands still, or its machine sleeps: all timers are due at once.
    async fn jump(&mut self) {
        let seconds = self.dice.pick(&[1, 30, 400, 4_000]);
        self.world.note(format!("the clock jumps by {seconds} s"));
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    /// Moves the informers to a replica that lags, or back.
    fn change_replica(&mut self) {
        let to_second = !self.world.on_replica.load(Ordering::Relaxed);
        if to_second && self.dice.percent(70) {
            self.world.replica.freeze();
        } else {
            self.world.replica.thaw();
        }
        self.world.on_replica.store(to_second, Ordering::Relaxed);
        self.world.informers().iter().for_each(|watched| watched.note_lag());
        self.world.server.faults().drop_watches(&Filter::any(), Ending::Clean);
        self.world.note(format!("to replica {}", u8::from(to_second)));
    }

    fn end_trouble(&mut self) {
        self.world.end_trouble();
        self.handlers.iter().for_each(Handler::resume);
    }
}
