//! What happens in a run: writes, faults, handlers that come and go, in an order drawn from the seed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use informant_apiserver::{Action, Answer, Ending, Filter, Injection, Rule};
use informant_cache::listener::{ListenerOptions, RetryPolicy};
use informant_cache::{Environment, ListenerHandle};
use serde_json::json;

use super::dice::Dice;
use super::handler::{Handler, Script};
use super::history::Entry;
use super::world::{RESOURCE, World, version_of};

/// How many names the writes fight over; few, so that lives overlap.
const NAMES: u64 = 6;

/// How many steps a run has at least and at most.
const STEPS: (u64, u64) = (30, 120);

/// How long a step may take.
const STEP_MS_MAX: u64 = 3_000;

pub(super) struct Schedule {
    world: Arc<World>,
    dice: Dice,
    handlers: Vec<(u32, ListenerHandle)>,
    handlers_ever: u32,
}

impl Schedule {
    pub(super) fn new(world: Arc<World>, dice: Dice) -> Self {
        Self {
            world,
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
        self.add_handler();
        let steps = STEPS.0 + self.dice.below(STEPS.1 - STEPS.0);
        for _ in 0..steps {
            match self.dice.below(100) {
                0..65 => self.write(),
                65..90 => self.fault(),
                90..94 => self.add_handler(),
                94..96 => self.remove_handler(),
                96..98 => self.replay(),
                _ => self.change_replica(),
            }
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

    fn write(&mut self) {
        let namespace = self.dice.pick(&["default", "kube-system"]);
        let name = format!("map-{}", self.dice.below(NAMES));
        let value = format!("v{}", self.dice.below(4));
        let server = &self.world.server;
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {"value": value},
        });
        let exists = server
            .get(RESOURCE, namespace, &name)
            .expect("a built-in kind")
            .is_some();
        let delete = exists && self.dice.percent(30);
        if delete {
            let removed = server.delete(RESOURCE, namespace, &name).expect("it is there");
            // What a delete answers carries the version of the removal only on the watch; the log of writes has it.
            let version = server.revision();
            let mut object = version_of(&removed);
            object.version = version;
            self.world.record(Entry::Removed { object });
        }
        if !delete || self.dice.percent(50) {
            let written = server.put(RESOURCE, namespace, object).expect("the object is sound");
            self.world.record(Entry::Written {
                object: version_of(&written),
            });
        }
    }

    fn fault(&mut self) {
        let name = match self.dice.below(12) {
            0..4 => self.watch_fault(),
            4..7 => self.server_fault(),
            _ => self.request_fault(),
        };
        self.world.record(Entry::Fault { name });
    }

    /// Something happens to the watches that are open.
    fn watch_fault(&mut self) -> String {
        let (faults, any) = (self.world.server.faults(), Filter::any());
        match self.dice.below(5) {
            0 | 1 => {
                let endings = [
                    Ending::Clean,
                    Ending::Reset,
                    Ending::MidLine,
                    Ending::MidLineClean,
                    Ending::Expired,
                ];
                let ending = self.dice.pick(&endings);
                faults.drop_watches(&any, ending);
                format!("drop watches: {ending:?}")
            }
            2 => {
                faults.freeze_watches(&any);
                "freeze watches".into()
            }
            3 => {
                faults.thaw_watches(&any);
                "thaw watches".into()
            }
            _ => {
                let injections = [Injection::Garbage, Injection::NotJson, Injection::UnknownType];
                let injection = &injections[self.dice.below(3) as usize];
                faults.inject(&any, injection);
                format!("inject {injection:?}")
            }
        }
    }

    /// Something happens to the server.
    fn server_fault(&mut self) -> String {
        let faults = self.world.server.faults();
        if self.dice.percent(40) {
            faults.compact();
            return "compact".into();
        }
        let down = Duration::from_millis(self.dice.below(5_000));
        let empty = self.dice.percent(50);
        faults.restart(down, empty);
        format!("restart for {down:?}, history emptied: {empty}")
    }

    /// Something will happen to the next requests.
    fn request_fault(&mut self) -> String {
        let times = 1 + self.dice.below(3) as u32;
        let action = match self.dice.below(8) {
            0 => Action::DelayMs(self.dice.below(20_000)),
            1 => Action::CutBodyBytes(self.dice.below(2_000) as usize),
            2 => Action::SplitFramesBytes(1 + self.dice.below(300) as usize),
            3 => Action::Freeze,
            _ => Action::Answer(self.answer()),
        };
        let name = format!("the next {times} requests: {action:?}");
        self.world.server.faults().rule(Rule {
            filter: Filter::any(),
            times: Some(times),
            action,
        });
        name
    }

    fn answer(&mut self) -> Answer {
        match self.dice.below(8) {
            0 => Answer::too_many_requests(2),
            1 => Answer::internal_error(),
            2 => Answer::expired(),
            3 => Answer::html(200),
            4 => Answer::html(502),
            5 => Answer::forbidden("scripted"),
            6 => Answer::unauthorized(),
            _ => Answer::Reset,
        }
    }

    fn add_handler(&mut self) {
        let id = self.handlers_ever;
        self.handlers_ever += 1;
        let script = Script {
            call_ms_max: self.dice.pick(&[0, 5, 500, 5_000]),
            fails_percent: self.dice.pick(&[0, 0, 20, 60]),
            refuses_percent: self.dice.pick(&[0, 0, 5]),
        };
        let options = ListenerOptions {
            pending_events_max: self.dice.pick(&[1, 2, 8, 1_024]),
            pending_bytes_max: self.dice.pick(&[500, 5_000, 64 << 20]),
            resync: self
                .dice
                .pick(&[None, Some(Duration::from_secs(5)), Some(Duration::from_secs(90))]),
            retry: RetryPolicy {
                attempts: 1_000,
                ..RetryPolicy::default()
            },
            seed: self.dice.below(u64::MAX),
            ..ListenerOptions::default()
        };
        self.world.record(Entry::Fault {
            name: format!("handler {id} comes: {script:?}, {} pending", options.pending_events_max),
        });
        let dice = self.dice.split();
        self.handlers
            .push((id, Handler::start(&self.world, id, script, options, dice)));
    }

    fn remove_handler(&mut self) {
        if self.handlers.len() < 2 {
            return;
        }
        let (id, listener) = self
            .handlers
            .swap_remove(self.dice.below(self.handlers.len() as u64) as usize);
        self.world.informer.remove_listener(&listener);
        listener.abandon();
        self.world.record(Entry::Left { handler: id });
    }

    fn replay(&mut self) {
        let at = self.dice.below(self.handlers.len() as u64) as usize;
        let (id, listener) = &self.handlers[at];
        self.world.record(Entry::Fault {
            name: format!("handler {id} is rebuilt and gets a replay"),
        });
        listener.replay(self.world.environment.now());
    }

    /// Moves the informer to a replica that lags, or back.
    fn change_replica(&mut self) {
        let to_second = !self.world.on_replica.load(Ordering::Relaxed);
        if to_second && self.dice.percent(70) {
            self.world.replica.freeze();
        } else {
            self.world.replica.thaw();
        }
        self.world.on_replica.store(to_second, Ordering::Relaxed);
        self.world.server.faults().drop_watches(&Filter::any(), Ending::Clean);
        self.world.record(Entry::Fault {
            name: format!("to replica {}", u8::from(to_second)),
        });
    }

    fn end_trouble(&mut self) {
        self.world.replica.thaw();
        self.world.on_replica.store(false, Ordering::Relaxed);
        self.world.server.faults().clear();
        self.world.trouble.store(false, Ordering::Relaxed);
        self.world.record(Entry::Fault {
            name: "all trouble ends".into(),
        });
    }
}
