//! Which components are compiled side by side: as many as fit into the memory for compiling.
//!
//! ```text
//! enter ──▶ waiting, oldest first ──fits──▶ running ──turn dropped──▶ its memory is free: the next ones begin
//! ```
//!
//! - What is expected to take more than all of the memory begins when nothing else runs, and runs alone. Nothing is
//!   refused.
//! - Short compiles pass long ones that wait, and one place and [`SHORT_COMPILE_BYTES_MAX`] are never taken by long
//!   ones.
//! - None starves: one that waits is passed by at most [`PASSES_MAX`] others that delay it.
//!
//! It knows no compiler: a turn is held while something is compiled, and given back by dropping it, whatever happens.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use informant_cache::Moment;
use informant_spec::Digest;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::sync::Notify;

use crate::sync::lock;

/// Memory for compiling, without `compile-memory` of `[plugins]`: 512 MiB. Enough for a component from Python or
/// JavaScript and a few short ones next to it. What needs more runs alone.
pub const COMPILE_MEMORY_DEFAULT_BYTES: u64 = 512 << 20;

/// The expected memory of the smallest compile, which every one exceeds: 32 MiB.
const COMPILE_BYTES_MIN: u64 = 32 << 20;

/// The expected memory of a short compile: at most 96 MiB, as of components below some 2 MiB. They take a second or
/// two. So much of the memory, and one place, are left to them.
pub const SHORT_COMPILE_BYTES_MAX: u64 = 96 << 20;

/// How many later compiles may begin before one that waits, and delay it: 8. After that, none begins until it has
/// begun. Short ones do not delay one that waits for long ones to end.
pub(crate) const PASSES_MAX: u32 = 8;

/// The least number of components that are compiled at a time if their memory suffices: 2, so that a long one leaves a
/// place to short ones. On more processors it is one for each: with more, each would take longer than its time limit
/// allows.
const PLACES_MIN: usize = 2;

/// What a compile is expected to take: the bytes of a component, and those of its functions.
///
/// Measured with two threads, as the peak of the compiler's process without what it has at rest, next to the estimate:
/// C 2 MiB (33), Rust 17 (42), JavaScript 55 (77), Go 113 (145) and 267 (350), Python 395 (398). The functions need 20
/// to 40 times their bytes, the largest at a time most; the rest of the file is copied a few times: read, put into the
/// artifact, sent back.
pub(crate) fn expected_memory_bytes(component_bytes: usize, code_bytes: usize) -> u64 {
    let (component, code) = (component_bytes as u64, code_bytes as u64);
    COMPILE_BYTES_MIN
        .saturating_add(component.saturating_mul(8))
        .saturating_add(code.saturating_mul(32))
}

/// A component that is being compiled, or waits for that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompileJob {
    /// Of the component.
    pub(crate) digest: Digest,
    pub(crate) memory_bytes: u64,
    /// When it began to be compiled, or to wait.
    pub(crate) since: Moment,
    pub(crate) is_waiting: bool,
}

/// Numbers of what is compiled, for metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct CompileGauges {
    pub(crate) waiting: Gauge,
    pub(crate) running: Gauge,
    /// The expected memory of what is running.
    pub(crate) memory_bytes: Gauge,
}

impl CompileGauges {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "plugin_compiles_waiting",
            "Components that wait until others are compiled",
            self.waiting.clone(),
        );
        registry.register(
            "plugin_compiles_running",
            "Components that are being compiled",
            self.running.clone(),
        );
        registry.register_with_unit(
            "plugin_compile_memory",
            "Memory that the components that are being compiled are expected to take",
            Unit::Bytes,
            self.memory_bytes.clone(),
        );
    }
}

pub(crate) struct CompileSchedule {
    ledger: Mutex<Ledger>,
}

struct Ledger {
    limits: Limits,
    /// In the order of arrival.
    waiting: BTreeMap<u64, Waiting>,
    running: BTreeMap<u64, CompileJob>,
    last: u64,
    gauges: CompileGauges,
}

/// How much may be compiled at a time.
#[derive(Clone, Copy)]
struct Limits {
    memory_bytes: u64,
    places: usize,
}

/// What is being compiled.
#[derive(Clone, Copy, Default)]
struct Load {
    memory_bytes: u64,
    places: usize,
}

struct Waiting {
    job: CompileJob,
    passed: u32,
    begins: Arc<Notify>,
}

/// A place among the compiles, waiting or running. Dropping it lets others begin.
pub(crate) struct CompileTurn<'a> {
    schedule: &'a CompileSchedule,
    number: u64,
    begins: Arc<Notify>,
}

impl CompileSchedule {
    /// On this many processors.
    pub(crate) fn new(processors: usize, gauges: CompileGauges) -> CompileSchedule {
        CompileSchedule {
            ledger: Mutex::new(Ledger {
                limits: Limits {
                    memory_bytes: COMPILE_MEMORY_DEFAULT_BYTES,
                    places: processors.max(PLACES_MIN),
                },
                waiting: BTreeMap::new(),
                running: BTreeMap::new(),
                last: 0,
                gauges,
            }),
        }
    }

    /// Sets the memory for all compiles together. Those that run continue.
    pub(crate) fn set_memory_max(&self, bytes: u64) {
        let mut ledger = lock(&self.ledger);
        ledger.limits.memory_bytes = bytes;
        ledger.admit();
    }

    /// Whether nothing runs next to a compile that is expected to take so much memory: it leaves less than every other
    /// one takes.
    pub(crate) fn is_alone(&self, memory_bytes: u64) -> bool {
        memory_bytes.saturating_add(COMPILE_BYTES_MIN) >= lock(&self.ledger).limits.memory_bytes
    }

    /// Adds a compile, which may begin at once, or waits.
    pub(crate) fn enter(&self, digest: Digest, memory_bytes: u64, now: Moment) -> CompileTurn<'_> {
        let mut ledger = lock(&self.ledger);
        ledger.last += 1;
        let (number, begins) = (ledger.last, Arc::new(Notify::new()));
        let job = CompileJob {
            digest,
            memory_bytes,
            since: now,
            is_waiting: true,
        };
        let waiting = Waiting {
            job,
            passed: 0,
            begins: Arc::clone(&begins),
        };
        ledger.waiting.insert(number, waiting);
        ledger.admit();
        CompileTurn {
            schedule: self,
            number,
            begins,
        }
    }

    /// The compile of this component, if there is one.
    pub(crate) fn of(&self, digest: Digest) -> Option<CompileJob> {
        let ledger = lock(&self.ledger);
        let waiting = ledger.waiting.values().map(|waiting| &waiting.job);
        let mut jobs = ledger.running.values().chain(waiting);
        jobs.find(|job| job.digest == digest).cloned()
    }
}

impl CompileTurn<'_> {
    pub(crate) fn is_waiting(&self) -> bool {
        lock(&self.schedule.ledger).waiting.contains_key(&self.number)
    }

    /// Waits until it may begin. To be called once.
    pub(crate) async fn begins(&self) {
        self.begins.notified().await;
    }

    /// It begins now.
    pub(crate) fn began(&self, now: Moment) {
        if let Some(job) = lock(&self.schedule.ledger).running.get_mut(&self.number) {
            job.since = now;
        }
    }
}

impl Drop for CompileTurn<'_> {
    fn drop(&mut self) {
        let mut ledger = lock(&self.schedule.ledger);
        ledger.waiting.remove(&self.number);
        ledger.running.remove(&self.number);
        ledger.admit();
    }
}

impl Ledger {
    /// Lets those begin that may.
    fn admit(&mut self) {
        while let Some(number) = self.next() {
            let Some(mut next) = self.waiting.remove(&number) else {
                break;
            };
            let (short, long) = (is_short(next.job.memory_bytes), self.load(false));
            for (_, passed) in self.waiting.range_mut(..number) {
                // A short one does not delay what waits for long ones.
                let is_delayed = !short || may_begin(passed.job.memory_bytes, Load::default(), long, self.limits);
                passed.passed += u32::from(is_delayed);
            }
            next.job.is_waiting = false;
            next.begins.notify_one();
            self.running.insert(number, next.job);
        }
        self.gauges.waiting.set(self.waiting.len() as i64);
        self.gauges.running.set(self.running.len() as i64);
        let memory_bytes = self.load(true).memory_bytes + self.load(false).memory_bytes;
        self.gauges.memory_bytes.set(memory_bytes.cast_signed());
    }

    /// The oldest one that may begin. Behind one that was passed often enough, only short ones may, and only while it
    /// waits for long ones.
    fn next(&self) -> Option<u64> {
        let (short, long) = (self.load(true), self.load(false));
        let mut only_short = false;
        for (number, waiting) in &self.waiting {
            let bytes = waiting.job.memory_bytes;
            if (!only_short || is_short(bytes)) && may_begin(bytes, short, long, self.limits) {
                return Some(*number);
            }
            if waiting.passed >= PASSES_MAX {
                if may_begin(bytes, Load::default(), long, self.limits) {
                    return None;
                }
                only_short = true;
            }
        }
        None
    }

    /// What the short ones that are running take, or the long ones.
    fn load(&self, of_short: bool) -> Load {
        let jobs = self.running.values().map(|job| job.memory_bytes);
        let chosen = jobs.filter(|bytes| is_short(*bytes) == of_short);
        chosen.fold(Load::default(), |load, bytes| Load {
            places: load.places + 1,
            memory_bytes: load.memory_bytes.saturating_add(bytes),
        })
    }
}

impl Limits {
    /// The memory that compiles like this one may take together.
    fn memory_of(self, memory_bytes: u64) -> u64 {
        match is_short(memory_bytes) {
            true => self.memory_bytes,
            false => self.memory_bytes.saturating_sub(SHORT_COMPILE_BYTES_MAX),
        }
    }
}

/// Whether a compile that is expected to take `memory_bytes` may begin next to these.
fn may_begin(memory_bytes: u64, short: Load, long: Load, limits: Limits) -> bool {
    let places = short.places + long.places;
    if places == 0 {
        return true;
    }
    let fits = |used: u64, max: u64| used.saturating_add(memory_bytes) <= max;
    let used = short.memory_bytes.saturating_add(long.memory_bytes);
    let is_free = places < limits.places && fits(used, limits.memory_bytes);
    let is_free_for_long =
        || long.places + 1 < limits.places && fits(long.memory_bytes, limits.memory_of(memory_bytes));
    is_free && (is_short(memory_bytes) || is_free_for_long())
}

fn is_short(memory_bytes: u64) -> bool {
    memory_bytes <= SHORT_COMPILE_BYTES_MAX
}

#[cfg(test)]
mod tests;
