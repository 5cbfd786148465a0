//! [`ProcessGate`]: what all effects of plugins ask.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use informant_cache::{Catalog, Division, Environment, Moment, SHARDS_MAX, ShardFilter};
use informant_lease::Gate;
use informant_plugin_host::{ActingGate, ActsFor};

use crate::sync::lock;

/// The gate of all effects of this process. Closed until it has joined its group.
pub(in crate::daemon) struct ProcessGate {
    /// For plugins that act for all objects: the first shard's.
    whole: TermGate,
    /// For plugins whose objects are divided, by shard.
    shards: [TermGate; SHARDS_MAX as usize],
    /// How the work is divided now; sources may be divided as before.
    division: Mutex<Division>,
    catalog: Catalog,
    environment: Arc<dyn Environment>,
}

/// A gate, and the term in which plugins act by it: the gate of a later one is closed to what an earlier one has left.
#[derive(Default)]
struct TermGate {
    gate: OnceLock<Gate>,
    /// Zero: none.
    epoch: AtomicU32,
}

impl ProcessGate {
    pub(in crate::daemon) fn closed(catalog: Catalog, environment: Arc<dyn Environment>) -> Self {
        Self {
            whole: TermGate::default(),
            shards: std::array::from_fn(|_| TermGate::default()),
            division: Mutex::new(Division::WHOLE),
            catalog,
            environment,
        }
    }

    /// Plugins that act for all objects act in this term.
    pub(super) fn open(&self, gate: &Gate, epoch: u32) {
        self.whole.open(gate, epoch);
    }

    pub(super) fn close(&self) {
        self.whole.close();
    }

    /// The work is divided otherwise. No shard is open.
    pub(super) fn set_division(&self, division: Division) {
        *lock(&self.division) = division;
    }

    /// Plugins whose objects are divided act for a shard in this term.
    pub(super) fn open_shard(&self, shard: u8, gate: &Gate, epoch: u32) {
        if let Some(own) = self.shards.get(usize::from(shard)) {
            own.open(gate, epoch);
        }
    }

    pub(super) fn close_shard(&self, shard: u8) {
        if let Some(own) = self.shards.get(usize::from(shard)) {
            own.close();
        }
    }
}

impl TermGate {
    fn open(&self, gate: &Gate, epoch: u32) {
        // That of an election stays the same.
        self.gate.get_or_init(|| gate.clone());
        self.epoch.store(epoch, Ordering::Release);
    }

    fn close(&self) {
        self.epoch.store(0, Ordering::Release);
    }

    fn remaining(&self, now: Moment) -> Option<Duration> {
        let permit = self.gate.get()?.permit(now)?;
        (permit.epoch == self.epoch.load(Ordering::Acquire)).then(|| permit.remaining(now))
    }
}

impl ActingGate for ProcessGate {
    fn remaining(&self, acts_for: ActsFor<'_>) -> Option<Duration> {
        let now = self.environment.boot_now();
        match acts_for {
            ActsFor::Whole => self.whole.remaining(now),
            ActsFor::AnyShard => {
                let shards = self.shards.iter().chain([&self.whole]);
                shards.filter_map(|shard| shard.remaining(now)).max()
            }
            // An object of a source that is gone is in no shard.
            ActsFor::Object(source, key) => {
                let source = self.catalog.source(source)?;
                let filter = *source.snapshot().shards()?;
                let division = *lock(&self.division);
                let shard = ShardFilter { division, ..filter }.shard_of(key);
                self.shards.get(usize::from(shard))?.remaining(now)
            }
        }
    }
}
