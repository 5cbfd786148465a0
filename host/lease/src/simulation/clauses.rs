//! What must hold in every run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use informant_cache::Moment;

use crate::record::LeaseContent;
use crate::simulated::Process;
use crate::simulated::{Name, Server};
use crate::times::{LeaseTimes, PREFERRED_FIRST};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Clause {
    /// At no moment of true time are two gates open.
    OneGate,
    /// No effect of a former holder arrives after the first effect of its successor, if its requests end in time.
    FormerHolderFenced,
    /// Requests of effects have ended before the Lease expires, counted from when its last renewal arrived.
    EndsBeforeExpiry,
    /// A gate that has closed stays closed for its epoch.
    ClosedStaysClosed,
    /// Epochs grow from one term to the next, unless the Lease was deleted.
    EpochsGrow,
    /// A process acquires the Lease only if it is ready.
    OnlyReadyActs,
    /// For two seconds after a release, only the preferred member acquires the Lease, and it does if it is healthy.
    PreferredFirst,
    /// When all faults have ended, some process acts within a bound, and continues.
    SomebodyActs,
    /// The machines are never due immediately after a step: a caller that obeys them would spin.
    NeverSpins,
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

#[derive(Debug, Default)]
pub(super) struct Checker {
    pub(super) violations: Vec<Violation>,
    /// Holders and their epochs, in the order in which they acquired the Lease.
    terms: Vec<(Arc<str>, u32)>,
    /// When the holder's last write of the Lease arrived.
    renewed: Moment,
    /// The newest term of which an effect has arrived.
    newest: usize,
    release: Option<Release>,
    /// The Lease was deleted or edited: epochs may repeat.
    is_edited: bool,
    pub(super) effects: usize,
}

impl Checker {
    pub(super) fn violate(&mut self, clause: Clause, at: Moment, text: String) {
        self.violations.push(Violation { clause, at, text });
    }

    pub(super) fn edited(&mut self) {
        (self.is_edited, self.release) = (true, None);
    }

    /// The Lease that says who acts was written by a process. `healthy` is whether a process has not been disturbed for
    /// long, and `times` are those of all.
    pub(super) fn written(&mut self, now: Moment, content: &LeaseContent, healthy: impl Fn(&str) -> bool) {
        if content.is_released() {
            self.release = Some(Release {
                at: now,
                preferred: content.preferred.clone(),
            });
            return;
        }
        let term = (Arc::clone(&content.holder), content.transitions);
        if content.holder.is_empty() {
            return;
        }
        self.renewed = now;
        if self.terms.last() == Some(&term) {
            return;
        }
        if let Some(Release {
            at,
            preferred: Some(preferred),
        }) = self.release.take()
            && preferred != content.holder
        {
            let text = format!("{} acquires what was released to {preferred}", content.holder);
            if now < at + PREFERRED_FIRST || healthy(&preferred) {
                self.violate(Clause::PreferredFirst, now, text);
            }
        }
        self.terms.push(term);
    }

    /// An effect arrives that `identity` has begun in `epoch`.
    pub(super) fn arrived(&mut self, now: Moment, identity: &str, epoch: u32) {
        self.effects += 1;
        let term = self
            .terms
            .iter()
            .rposition(|term| *term.0 == *identity && term.1 == epoch);
        let Some(term) = term else {
            let text = format!("{identity} acts in epoch {epoch}, which it never acquired");
            return self.violate(Clause::FormerHolderFenced, now, text);
        };
        if term < self.newest {
            let text = format!(
                "an effect of {identity} arrives after one of {}",
                self.terms[self.newest].0
            );
            self.violate(Clause::FormerHolderFenced, now, text);
        }
        self.newest = self.newest.max(term);
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
        let mut open: BTreeMap<Arc<str>, u32> = BTreeMap::new();
        for (process, local, is_paused) in gates {
            let permit = process.election.gate().permit(local);
            if let Some(permit) = permit {
                open.insert(Arc::clone(&process.identity), permit.epoch);
                let holds = self.terms.last().is_some_and(|term| term.0 == process.identity);
                if holds && now + permit.remaining(local) > self.renewed + times.request_end {
                    let text = format!("requests of {} may end too late", process.identity);
                    self.violate(Clause::EndsBeforeExpiry, now, text);
                }
            }
            let epoch = permit.map(|permit| permit.epoch);
            if epoch != process.open_epoch && !is_paused {
                process.ended_epochs.extend(process.open_epoch);
                process.open_epoch = epoch;
                self.opened(now, times, process, server);
            }
        }
        if open.len() > 1 {
            self.violate(Clause::OneGate, now, format!("gates are open: {open:?}"));
        }
    }

    fn opened(&mut self, now: Moment, times: &LeaseTimes, process: &Process, server: &Server) {
        let Some(epoch) = process.open_epoch else {
            return;
        };
        let identity = &process.identity;
        if process.ended_epochs.contains(&epoch) {
            let text = format!("the gate of {identity} opens again in epoch {epoch}");
            self.violate(Clause::ClosedStaysClosed, now, text);
        }
        if now.since(process.last_ready) > times.request_max() * 3 {
            self.violate(Clause::OnlyReadyActs, now, format!("{identity} is not ready"));
        }
        let before = self
            .terms
            .iter()
            .rev()
            .skip_while(|term| term.0 != *identity || term.1 != epoch)
            .nth(1);
        if let Some(before) = before.filter(|before| before.1 >= epoch && !self.is_edited) {
            let holder = server.leases.get(&Name::Work).map(|lease| &lease.content.holder);
            let text = format!("{identity} acts in epoch {epoch} after {before:?}; the Lease names {holder:?}");
            self.violate(Clause::EpochsGrow, now, text);
        }
    }
}
