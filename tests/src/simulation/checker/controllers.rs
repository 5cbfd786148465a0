//! What controllers do: their calls, what they prune and send, and their timer.

use std::collections::{BTreeMap, BTreeSet};

use super::super::history::{Controlled, ControlledMap, Ended, ObjectVersion};
use super::{Clause, Key, Violation};

/// The period of the timer, in milliseconds.
const PERIOD_MS: i64 = 10_000;

/// How many of the last runs that have ended may be unrecorded at a kill: their records are being written.
const UNRECORDED_MAX: usize = 2;

#[derive(Default)]
pub(super) struct Controllers {
    /// The calls of the process that runs.
    calls: BTreeMap<Key, LastCall>,
    /// The calls that have succeeded, of all processes.
    succeeded: BTreeSet<String>,
    timer: Timer,
}

/// The last call about a ConfigMap.
struct LastCall {
    call: String,
    primary: Option<ObjectVersion>,
    children: Vec<ObjectVersion>,
    /// None: it runs.
    ended: Option<Ended>,
}

#[derive(Default)]
struct Timer {
    /// The run that is made.
    running: Option<(String, i64)>,
    /// When the last run was due that has ended, or that is recorded; none: unknown.
    last: Option<i64>,
    /// When the runs were due that have ended, of the process that runs.
    ended: Vec<i64>,
    /// Those of all processes.
    ended_ever: BTreeSet<i64>,
    /// What the last process has found recorded.
    found: Option<i64>,
}

type Finding = Option<(Clause, String)>;

impl Controllers {
    pub(super) fn apply(&mut self, entry: usize, did: &Controlled) -> Option<Violation> {
        let finding = match did {
            Controlled::Started { recorded_ms } => self.timer.started(*recorded_ms),
            Controlled::Killed => {
                self.calls.clear();
                self.timer.running = None;
                None
            }
            Controlled::Began {
                call,
                namespace,
                name,
                primary,
                children,
            } => {
                let call = LastCall {
                    call: call.clone(),
                    primary: primary.clone(),
                    children: children.clone(),
                    ended: None,
                };
                self.began((namespace.clone(), name.clone()), call)
            }
            Controlled::Pruned { namespace, name, gaps } => gaps
                .first()
                .map(|gap| (Clause::PrunedByWholeView, format!("{namespace}/{name}: {gap}"))),
            Controlled::Ended { namespace, name, ended } => {
                self.ended(&(namespace.clone(), name.clone()), *ended);
                None
            }
            Controlled::Wrote { namespace, name } => self.wrote(&(namespace.clone(), name.clone())),
            Controlled::Recorded { call } => (!self.succeeded.contains(call)).then(|| {
                let message = format!("the Event of {call}, which has not succeeded");
                (Clause::EffectsAfterSuccess, message)
            }),
            Controlled::TimerBegan {
                call,
                scheduled_ms,
                missed,
            } => self.timer.began(call, *scheduled_ms, *missed),
            Controlled::TimerEnded { ended } => {
                self.succeeded.extend(self.timer.ended(*ended));
                None
            }
            Controlled::AtRest { maps } => maps.iter().find_map(|map| self.at_rest(map)),
        };
        finding.map(|(clause, message)| Violation { clause, entry, message })
    }

    fn began(&mut self, key: Key, call: LastCall) -> Finding {
        let about = format!("{}/{}", key.0, key.1);
        let before = self.calls.insert(key, call)?;
        before.ended.is_none().then(|| {
            let message = format!("a call about {about} begins while {} runs", before.call);
            (Clause::ReconciledOneAtATime, message)
        })
    }

    fn ended(&mut self, key: &Key, ended: Ended) {
        // The call of a killed process may still end.
        let Some(call) = self.calls.get_mut(key) else { return };
        call.ended = Some(ended);
        if ended == Ended::Ok {
            self.succeeded.insert(call.call.clone());
        }
    }

    /// A write is sent after its call has succeeded, and before the next one about the object begins.
    fn wrote(&self, key: &Key) -> Finding {
        let ended = self.calls.get(key).and_then(|call| call.ended);
        (ended != Some(Ended::Ok)).then(|| {
            let message = format!("a write of {}/{} after a call that ended {ended:?}", key.0, key.1);
            (Clause::EffectsAfterSuccess, message)
        })
    }

    fn at_rest(&self, map: &ControlledMap) -> Finding {
        let key = (map.namespace.clone(), map.name.clone());
        let lost = |message: String| Some((Clause::ReconciledLast, format!("{}/{}: {message}", key.0, key.1)));
        let Some(last) = self.calls.get(&key) else {
            let primary = map.primary.as_ref()?;
            return lost(format!("no call about {primary}"));
        };
        if last.primary != map.primary {
            return lost(format!(
                "the last call saw {:?}, there is {:?}",
                last.primary, map.primary
            ));
        }
        let mut children = map.children.clone();
        children.sort();
        match (&map.primary, last.ended) {
            (_, None | Some(Ended::Retry | Ended::Trap)) => lost(format!("the last call ended {:?}", last.ended)),
            (Some(_), _) if last.children != children => {
                lost(format!("the last call saw {:?}, there are {children:?}", last.children))
            }
            (Some(_), Some(Ended::Ok)) if children.len() != map.wanted => {
                lost(format!("{} children are wanted, there are {children:?}", map.wanted))
            }
            _ => None,
        }
    }
}

impl Timer {
    /// What is recorded is a run that has ended, or when the timer was first loaded: by a process that found nothing.
    fn started(&mut self, recorded: Option<i64>) -> Finding {
        let settled = self.ended.len().checked_sub(1 + UNRECORDED_MAX);
        let settled = settled.map(|at| self.ended[at]).max(self.found);
        let finding = match (recorded, settled) {
            (recorded, Some(settled)) if recorded.is_none_or(|recorded| recorded < settled) => {
                Some(format!("the run of {settled} has ended; recorded is {recorded:?}"))
            }
            (Some(recorded), _) if !self.ended_ever.is_empty() => {
                let is_known = self.ended_ever.contains(&recorded) || self.found == Some(recorded);
                let is_first = self.found.is_none() && self.ended.iter().all(|ended| recorded < *ended);
                (!is_known && !is_first).then(|| format!("recorded is {recorded}, which has not ended"))
            }
            _ => None,
        };
        (self.last, self.found) = (recorded, recorded);
        self.ended.clear();
        finding.map(|message| (Clause::TimerOnce, message))
    }

    fn began(&mut self, call: &str, scheduled: i64, missed: u32) -> Finding {
        let before = self.running.replace((call.to_owned(), scheduled));
        if let Some((before, _)) = before {
            return Some((Clause::TimerOnce, format!("a run begins while {before} is made")));
        }
        let expected = scheduled - (i64::from(missed) + 1) * PERIOD_MS;
        let last = self.last.filter(|last| *last != expected)?;
        let message = format!("the run of {scheduled}, which stands for {missed} earlier ones, after that of {last}");
        Some((Clause::TimerOnce, message))
    }

    /// Returns the call if it has succeeded.
    fn ended(&mut self, ended: Ended) -> Option<String> {
        let (call, scheduled) = self.running.take()?;
        if matches!(ended, Ended::Ok | Ended::Permanent) {
            self.last = Some(scheduled);
            self.ended.push(scheduled);
            self.ended_ever.insert(scheduled);
        }
        (ended == Ended::Ok).then_some(call)
    }
}
