//! The registry of open watches, through which faults control them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::fault::{Ending, Filter, Injection};
use crate::routes::Attributes;

/// What a fault does to an open watch.
#[derive(Debug, Clone)]
pub(crate) enum WatchCommand {
    End(Ending),
    Inject(Injection),
    Freeze,
    Thaw,
}

/// The control of an open watch by faults.
#[derive(Debug)]
pub(crate) struct Control {
    attributes: Attributes,
    commands: Mutex<VecDeque<WatchCommand>>,
    pub(crate) poked: Notify,
}

impl Control {
    pub(crate) fn commands(&self) -> MutexGuard<'_, VecDeque<WatchCommand>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The open watches, in the order in which they were opened.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    open: BTreeMap<u64, Arc<Control>>,
    pub(crate) opened_total: u64,
    pub(crate) closed_slow_total: u64,
}

impl Watches {
    pub(crate) fn count(&self) -> usize {
        self.open.len()
    }

    /// Sends `command` to the watches that match. Returns how many.
    pub(crate) fn command(&self, filter: &Filter, command: &WatchCommand) -> usize {
        let met = self.open.values().filter(|control| filter.matches(&control.attributes));
        met.inspect(|control| {
            control.commands().push_back(command.clone());
            control.poked.notify_one();
        })
        .count()
    }

    pub(crate) fn add(&mut self, attributes: Attributes) -> (u64, Arc<Control>) {
        let control = Arc::new(Control {
            attributes,
            commands: Mutex::default(),
            poked: Notify::new(),
        });
        self.opened_total += 1;
        self.open.insert(self.opened_total, Arc::clone(&control));
        (self.opened_total, control)
    }

    pub(crate) fn remove(&mut self, id: u64) {
        self.open.remove(&id);
    }
}
