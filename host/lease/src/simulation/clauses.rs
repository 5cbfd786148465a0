//! What must hold in every run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use informant_cache::{Division, Moment, ShardHash};

use super::process::Process;
use crate::layout::Layout;
use crate::record::LeaseContent;
use crate::replica::LeaseName;
use crate::simulated::Server;
use crate::times::{LeaseTimes, PREFERRED_FIRST};

/// How many keys are acted for. Each of the eight shards of a division has some.
pub(super) const KEYS: usize = 64;

/// The text of a key.
pub(super) fn key(number: usize) -> String {
    format!("{:x}", (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Clause {
    /// At no moment of true time are two gates open for one key.
    OneGate,
    /// No effect of a former holder arrives after the first effect of its successor for that key, if its requests end
    /// in time.
    FormerHolderFenced,
    /// Requests of effects have ended before the Lease expires, counted from when its last renewal arrived.
    EndsBeforeExpiry,
    /// A gate that has closed stays closed for its epoch.
    ClosedStaysClosed,
    /// Epochs grow from one term to the next, unless the Lease was deleted.
    EpochsGrow,
    /// A process acquires a Lease only if it is ready.
    OnlyReadyActs,
    /// For two seconds after a release, only the preferred member acquires the Lease, and it does if it is healthy.
    PreferredFirst,
    /// When all faults have ended, some process acts for each key within a bound, and continues.
    SomebodyActs,
    /// The machines are never due immediately after a step: a caller that obeys them would spin.
    NeverSpins,
    /// When all faults have ended, the layout is the one that all members are configured for.
    LayoutFollows,
    /// When all faults have ended, all members hold as many shards, or one more.
    EqualShares,
}

#[derive(Debug, Clone)]
pub(super) struct Violation {
    pub(super) clause: Clause,
    pub(super) at: Moment,
    pub(super) text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} at {:?}: {}",
            self.clause,
            self.at.since(Moment::ZERO),
            self.text
        )
    }
}

/// A release, until the Lease is acquired.
#[derive(Debug)]
struct Release {
    at: Moment,
    preferred: Option<Arc<str>>,
}

/// A shard, the process that holds its Lease, and the epoch.
pub(super) type Term = (u8, Arc<str>, u32);

#[derive(Debug, Default)]
pub(super) struct Checker {
    pub(super) violations: Vec<Violation>,
    /// All terms, in the order in which they began.
    terms: Vec<Term>,
    /// When the last write of each holder arrived.
    renewed: BTreeMap<u8, Moment>,
    /// The newest term of which an effect for each key has arrived.
    newest: BTreeMap<usize, usize>,
    releases: BTreeMap<u8, Release>,
    /// A Lease was deleted or edited: epochs may repeat.
    is_edited: bool,
    /// Which keys are in a shard, as bits.
    keys: BTreeMap<(u8, bool, u8), u64>,
    pub(super) effects: usize,
}

impl Checker {
    pub(super) fn violate(&mut self, clause: Clause, at: Moment, text: String) {
        self.violations.push(Violation { clause, at, text });
    }

    pub(super) fn edited(&mut self) {
        self.is_edited = true;
        self.releases.clear();
    }

    /// The keys of a shard, as bits.
    pub(super) fn keys_of(&mut self, division: Division, shard: u8) -> u64 {
        let bits = || {
            let own = (0..KEYS).filter(|number| division.shard_of(&key(*number)) == shard);
            own.fold(0, |bits, number| bits | 1 << number)
        };
        let is_raw = division.hash == ShardHash::Raw;
        *self.keys.entry((division.shards, is_raw, shard)).or_insert_with(bits)
    }

    /// The Lease of a shard was written by a process. `healthy` is whether a process has not been disturbed for long.
    pub(super) fn written(&mut self, now: Moment, shard: u8, content: &LeaseContent, healthy: impl Fn(&str) -> bool) {
        if content.next_layout.is_some() {
            // Members that see it acquire nothing.
            self.releases.clear();
        }
        if content.is_released() {
            let preferred = content.preferred.clone();
            self.releases.insert(shard, Release { at: now, preferred });
            return;
        }
        let term = (shard, Arc::clone(&content.holder), content.transitions);
        if content.holder.is_empty() {
            return;
        }
        self.renewed.insert(shard, now);
        if self.last_term(shard) == Some(&term) {
            return;
        }
        if let Some(Release {
            at,
            preferred: Some(preferred),
        }) = self.releases.remove(&shard)
            && preferred != content.holder
        {
            let text = format!(
                "{} acquires shard {shard}, which was released to {preferred}",
                content.holder
            );
            if now < at + PREFERRED_FIRST || healthy(&preferred) {
                self.violate(Clause::PreferredFirst, now, text);
            }
        }
        self.terms.push(term);
    }

    fn last_term(&self, shard: u8) -> Option<&Term> {
        self.terms.iter().rev().find(|term| term.0 == shard)
    }

    /// An effect for a key arrives that was begun in this term.
    pub(super) fn arrived(&mut self, now: Moment, key: usize, begun: Term) {
        self.effects += 1;
        let Some(term) = self.terms.iter().rposition(|term| *term == begun) else {
            let (shard, identity, epoch) = begun;
            let text = format!("{identity} acts for shard {shard} in epoch {epoch}, which it never acquired");
            return self.violate(Clause::FormerHolderFenced, now, text);
        };
        let newest = self.newest.entry(key).or_insert(term);
        if term < *newest {
            let text = format!(
                "an effect of {begun:?} arrives for key {key} after one of {:?}",
                self.terms[*newest]
            );
            return self.violate(Clause::FormerHolderFenced, now, text);
        }
        *newest = term;
    }

    /// Looks at all gates. `gates` are the processes that run, with their clocks, and whether they are paused: then
    /// nothing in them notices that the gate has closed.
    pub(super) fn gates<'p>(
        &mut self,
        now: Moment,
        times: &LeaseTimes,
        server: &Server,
        gates: impl Iterator<Item = (&'p mut Process, Moment, bool)>,
    ) {
        let mut open: Vec<(Layout, Term)> = Vec::new();
        let mut acts = 0;
        for (process, local, is_paused) in gates {
            let mut epochs = BTreeMap::new();
            for (shard, layout, election) in process.held() {
                let Some(permit) = election.gate().permit(local) else {
                    continue;
                };
                epochs.insert(shard, permit.epoch);
                let keys = self.keys_of(layout.division, shard);
                open.push((layout, (shard, Arc::clone(&process.identity), permit.epoch)));
                if acts & keys != 0 {
                    self.violate(Clause::OneGate, now, format!("gates are open: {open:?}"));
                }
                acts |= keys;
                let holds = self.last_term(shard).is_some_and(|term| term.1 == process.identity);
                let renewed = self.renewed.get(&shard).copied().unwrap_or(Moment::ZERO);
                if holds && now + permit.remaining(local) > renewed + times.request_end {
                    let text = format!("requests of {} may end too late", process.identity);
                    self.violate(Clause::EndsBeforeExpiry, now, text);
                }
            }
            if epochs != process.open_epochs && !is_paused {
                self.opened(now, times, process, &epochs, server);
            }
        }
    }

    fn opened(
        &mut self,
        now: Moment,
        times: &LeaseTimes,
        process: &mut Process,
        epochs: &BTreeMap<u8, u32>,
        server: &Server,
    ) {
        let before: BTreeSet<(u8, u32)> = std::mem::replace(&mut process.open_epochs, epochs.clone())
            .into_iter()
            .collect();
        let after: BTreeSet<(u8, u32)> = epochs.iter().map(|(shard, epoch)| (*shard, *epoch)).collect();
        process.ended_epochs.extend(before.difference(&after));
        let identity = Arc::clone(&process.identity);
        for (shard, epoch) in after.difference(&before).copied() {
            if process.ended_epochs.contains(&(shard, epoch)) {
                let text = format!("the gate of {identity} opens again in epoch {epoch} of shard {shard}");
                self.violate(Clause::ClosedStaysClosed, now, text);
            }
            if now.since(process.last_ready) > times.request_max() * 3 {
                self.violate(Clause::OnlyReadyActs, now, format!("{identity} is not ready"));
            }
            let mut terms = self.terms.iter().rev().filter(|term| term.0 == shard);
            let is_own = |term: &&Term| term.1 == identity && term.2 == epoch;
            let before = terms.find(is_own).and_then(|_| terms.next().cloned());
            if let Some(before) = before.filter(|before| before.2 >= epoch && !self.is_edited) {
                let lease = server.leases.get(&LeaseName::Shard(shard));
                let holder = lease.map(|lease| &lease.content.holder);
                let text = format!("{identity} acts in epoch {epoch} after {before:?}; the Lease names {holder:?}");
                self.violate(Clause::EpochsGrow, now, text);
            }
        }
    }
}
