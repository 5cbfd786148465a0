//! When a lost instance is rebuilt: back-off and quarantine.
//!
//! A guest that trapped once is rebuilt at once: one poisoned object must not delay the others. One that keeps trapping
//! or timing out is rebuilt with growing delays. It is quarantined, until it is resumed or reloaded, only if objects of
//! several namespaces cost it its instances: a user of one namespace stops it for no other. Pure.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use informant_cache::Moment;
use informant_object::KeyRef;

use crate::engine::trap::TrapKind;
use crate::error::LoadProblem;

/// The window in which losses lengthen the delay before the next instance: 60 s.
pub(crate) const LOSS_WINDOW: Duration = Duration::from_secs(60);

/// The window in which losses lead to quarantine: 5 min, as long as their namespaces are suspect.
pub(crate) const QUARANTINE_WINDOW: Duration = informant_cache::listener::SUSPECT_TIME;

/// Points within [`QUARANTINE_WINDOW`] that lead to quarantine: 30. A trap is one point.
pub(crate) const LOSS_POINTS_MAX: u32 = 30;

/// Points of a timeout: 5. Each has cost a second of a core (`limits.cpu`), so six of them are enough.
pub(crate) const TIMEOUT_POINTS: u32 = 5;

/// Losses in a row, without a call that returned, that lead to quarantine: 10.
pub(crate) const LOSSES_IN_A_ROW_MAX: u32 = 10;

/// Namespaces whose objects must have cost an instance before a plugin is quarantined: 3.
pub(crate) const QUARANTINE_NAMESPACES: usize = 3;

/// The same for cluster-scoped objects: 10.
pub(crate) const QUARANTINE_OBJECTS: usize = 10;

/// Losses of an actor that are remembered: 1,000. Above it the oldest is forgotten.
const LOSSES_KEPT_MAX: usize = 1_000;

/// Losses within [`LOSS_WINDOW`] after which the next instance is created without delay.
const FREE_LOSSES: u32 = 3;

/// The first delay; doubles with each loss.
const WAIT_BASE: Duration = Duration::from_millis(10);

/// The longest delay.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The recent losses of an actor's instances.
#[derive(Debug, Default)]
pub(crate) struct FailureHistory {
    recent: VecDeque<Loss>,
}

#[derive(Debug)]
struct Loss {
    at: Moment,
    points: u32,
    about: LossSubject,
}

/// What a call was about that cost an instance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LossSubject {
    /// An object of a namespace, in whichever cluster.
    Namespace(String),
    /// A cluster-scoped object of this name.
    Object(String),
    /// The end of a list. How many objects `on-synced` goes through is up to those who create them, and how often it
    /// may crash for a list and the replays that follow is bounded, so it leads to no quarantine.
    Sync,
    /// No object: `init`.
    Plugin,
}

impl LossSubject {
    pub(crate) fn of(key: Option<KeyRef<'_>>) -> LossSubject {
        match key {
            None => LossSubject::Sync,
            Some(KeyRef { namespace: "", name }) => LossSubject::Object(name.to_owned()),
            Some(key) => LossSubject::Namespace(key.namespace.to_owned()),
        }
    }
}

/// A loss, as it is decided upon.
pub(crate) struct NewLoss {
    pub(crate) kind: TrapKind,
    pub(crate) about: LossSubject,
    /// Calls in a row, this one included, that cost an instance.
    pub(crate) in_a_row: u32,
    /// The version was swapped in a short time ago, and has to show that it works.
    pub(crate) on_probation: bool,
}

/// The first wait after an `init` that asks to be tried again: 1 s; doubles each time.
const INIT_RETRY_INITIAL: Duration = Duration::from_secs(1);

/// The longest wait after an `init` that asks to be tried again: 60 s.
pub(crate) const INIT_RETRY_MAX: Duration = Duration::from_secs(60);

/// The failures of one `init` in a row that asked to be tried again.
#[derive(Debug, Default)]
pub(crate) struct InitFailures(u32);

impl InitFailures {
    /// How long to wait after another one, which may ask for a time.
    pub(crate) fn wait(&mut self, failure: &LoadProblem) -> Duration {
        let after = match failure {
            LoadProblem::InitRetryable { after, .. } => *after,
            _ => None,
        };
        let doubled = INIT_RETRY_INITIAL.saturating_mul(2u32.saturating_pow(self.0));
        self.0 = self.0.saturating_add(1);
        after.unwrap_or(doubled).min(INIT_RETRY_MAX)
    }
}

/// What follows a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestartDecision {
    RebuildAfter(Duration),
    Quarantine,
}

impl FailureHistory {
    pub(crate) fn record(&mut self, loss: NewLoss, now: Moment) -> RestartDecision {
        let NewLoss {
            kind,
            about,
            in_a_row,
            on_probation,
        } = loss;
        let points = match kind {
            _ if about == LossSubject::Sync => 0,
            TrapKind::Timeout => TIMEOUT_POINTS,
            TrapKind::Trap | TrapKind::Memory => 1,
            // The plugin is being stopped.
            TrapKind::Aborted => 0,
        };
        self.recent.push_back(Loss { at: now, points, about });
        self.forget_old(now);
        let is_long_row = in_a_row >= LOSSES_IN_A_ROW_MAX;
        if self.is_too_many(now) || is_long_row && (on_probation || is_spread(self.last_in_a_row())) {
            return RestartDecision::Quarantine;
        }
        let failures = self.since(LOSS_WINDOW, now).count();
        let failures = u32::try_from(failures).unwrap_or(u32::MAX);
        let wait = match failures.checked_sub(FREE_LOSSES + 1) {
            None => Duration::ZERO,
            Some(doublings) => WAIT_BASE.saturating_mul(2u32.saturating_pow(doublings)).min(WAIT_MAX),
        };
        RestartDecision::RebuildAfter(wait)
    }

    /// Whether losses of several namespaces have too many points, or those that are about no object.
    fn is_too_many(&self, now: Moment) -> bool {
        let points = |losses: &mut dyn Iterator<Item = &Loss>| losses.map(|loss| loss.points).sum::<u32>();
        let is_of_plugin = |loss: &&Loss| loss.about == LossSubject::Plugin;
        let of_plugin = points(&mut self.since(LOSS_WINDOW, now).filter(is_of_plugin));
        let all = points(&mut self.since(QUARANTINE_WINDOW, now));
        let is_spread = all >= LOSS_POINTS_MAX && is_spread(self.since(QUARANTINE_WINDOW, now));
        of_plugin >= LOSS_POINTS_MAX || is_spread
    }

    fn since(&self, window: Duration, now: Moment) -> impl Iterator<Item = &Loss> {
        self.recent.iter().filter(move |loss| now - loss.at <= window)
    }

    fn last_in_a_row(&self) -> impl Iterator<Item = &Loss> {
        self.recent.iter().rev().take(LOSSES_IN_A_ROW_MAX as usize)
    }

    /// Keeps what is in the window, and what a row of losses needs.
    fn forget_old(&mut self, now: Moment) {
        let is_old = |loss: &Loss| now - loss.at > QUARANTINE_WINDOW;
        while self.recent.len() > LOSSES_KEPT_MAX
            || self.recent.len() > LOSSES_IN_A_ROW_MAX as usize && self.recent.front().is_some_and(is_old)
        {
            self.recent.pop_front();
        }
    }

    pub(crate) fn reset(&mut self) {
        self.recent.clear();
    }
}

/// Whether `losses` are about objects of several namespaces, or about many cluster-scoped objects. One user may deploy
/// an object to a namespace of many clusters: one name counts once.
fn is_spread<'a>(losses: impl Iterator<Item = &'a Loss>) -> bool {
    let (mut namespaces, mut objects) = (BTreeSet::new(), BTreeSet::new());
    for loss in losses {
        match &loss.about {
            LossSubject::Namespace(name) => namespaces.insert(name),
            LossSubject::Object(name) => objects.insert(name),
            LossSubject::Sync | LossSubject::Plugin => false,
        };
    }
    namespaces.len() >= QUARANTINE_NAMESPACES || objects.len() >= QUARANTINE_OBJECTS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::ZERO + Duration::from_millis(millis)
    }

    fn wait(decision: RestartDecision) -> Duration {
        match decision {
            RestartDecision::RebuildAfter(wait) => wait,
            RestartDecision::Quarantine => panic!("quarantine"),
        }
    }

    fn loss(kind: TrapKind, namespace: impl ToString) -> NewLoss {
        NewLoss {
            kind,
            about: LossSubject::Namespace(namespace.to_string()),
            in_a_row: 1,
            on_probation: false,
        }
    }

    fn trap() -> NewLoss {
        loss(TrapKind::Trap, "web")
    }

    /// Losses of `kind`, one every ten seconds, in as many namespaces, until quarantine; at most 1,000.
    fn losses(kind: TrapKind, namespaces: u64) -> u64 {
        let mut failures = FailureHistory::default();
        let is_quarantined = |number: &u64| {
            let loss = loss(kind, number % namespaces);
            failures.record(loss, at(number * 10_000)) == RestartDecision::Quarantine
        };
        (0..1_000).find(is_quarantined).map_or(1_000, |last| last + 1)
    }

    #[test]
    fn a_few_traps_cause_no_delay() {
        let mut failures = FailureHistory::default();
        for minute in 0..100 {
            for number in 0..3 {
                assert_eq!(
                    wait(failures.record(trap(), at(minute * 60_001 + number))),
                    Duration::ZERO
                );
            }
        }
    }

    #[test]
    fn delays_double_up_to_a_second() {
        let mut failures = FailureHistory::default();
        let waits: Vec<u128> = (0..14)
            .map(|_| wait(failures.record(trap(), at(0))).as_millis())
            .collect();
        assert_eq!(
            waits,
            [0, 0, 0, 10, 20, 40, 80, 160, 320, 640, 1_000, 1_000, 1_000, 1_000]
        );
    }

    #[test]
    fn crashes_of_one_or_two_namespaces_never_lead_to_quarantine() {
        for kind in [TrapKind::Trap, TrapKind::Memory, TrapKind::Timeout] {
            assert_eq!((losses(kind, 1), losses(kind, 2)), (1_000, 1_000), "{kind:?}");
        }
    }

    #[test]
    fn crashes_of_three_namespaces_lead_to_quarantine() {
        assert_eq!((losses(TrapKind::Trap, 3), losses(TrapKind::Timeout, 3)), (30, 6));
    }

    #[test]
    fn rare_crashes_of_many_namespaces_do_not_count() {
        let mut failures = FailureHistory::default();
        for number in 0..200 {
            // One trap every 15 seconds: 20 in five minutes.
            wait(failures.record(loss(TrapKind::Trap, number), at(number * 15_000)));
        }
    }

    #[test]
    fn ten_crashes_in_a_row_need_three_namespaces_or_probation() {
        let decide = |namespaces: u64, on_probation: bool| {
            let mut failures = FailureHistory::default();
            let decisions = (1..=10).map(|number| {
                let loss = NewLoss {
                    in_a_row: u32::try_from(number).unwrap(),
                    on_probation,
                    ..loss(TrapKind::Trap, number % namespaces)
                };
                failures.record(loss, at(number * 3_600_000))
            });
            decisions.last() == Some(RestartDecision::Quarantine)
        };
        assert_eq!(
            [decide(2, false), decide(3, false), decide(1, true)],
            [false, true, true]
        );
    }

    #[test]
    fn ten_cluster_scoped_objects_count_as_several_namespaces() {
        let decide = |objects: u64| {
            let mut failures = FailureHistory::default();
            let decisions = (0..40).map(|number| {
                let about = LossSubject::Object(format!("node-{}", number % objects));
                failures.record(NewLoss { about, ..trap() }, at(number * 1_000))
            });
            decisions.last() == Some(RestartDecision::Quarantine)
        };
        assert_eq!((decide(9), decide(10)), (false, true));
    }

    #[test]
    fn constant_crashes_about_no_object_lead_to_quarantine() {
        let (mut failures, mut now, mut traps) = (FailureHistory::default(), Moment::ZERO, 1);
        let init = || NewLoss {
            about: LossSubject::Plugin,
            ..trap()
        };
        while let RestartDecision::RebuildAfter(wait) = failures.record(init(), now) {
            traps += 1;
            now += wait;
        }
        assert_eq!(traps, LOSS_POINTS_MAX);
        assert!(now < at(30_000), "{now}");
    }

    #[test]
    fn one_namespace_in_many_clusters_leads_to_no_quarantine() {
        let mut failures = FailureHistory::default();
        for number in 0..100 {
            // The same object of several clusters.
            let about = LossSubject::of(Some(KeyRef::new("web", "poison")));
            wait(failures.record(NewLoss { about, ..trap() }, at(number * 1_000)));
        }
    }

    #[test]
    fn crashes_of_on_synced_never_lead_to_quarantine() {
        let (mut failures, mut now) = (FailureHistory::default(), Moment::ZERO);
        for in_a_row in 1..100 {
            let about = LossSubject::of(None);
            let sync = NewLoss {
                about,
                in_a_row,
                ..loss(TrapKind::Timeout, "")
            };
            now += wait(failures.record(sync, now));
        }
    }

    #[test]
    fn losses_are_bounded_and_forgotten() {
        let mut failures = FailureHistory::default();
        for _ in 0..LOSSES_KEPT_MAX + 10 {
            failures.record(trap(), at(0));
        }
        assert_eq!(failures.recent.len(), LOSSES_KEPT_MAX);
        failures.record(trap(), at(600_000));
        assert_eq!(failures.recent.len(), LOSSES_IN_A_ROW_MAX as usize);
        failures.reset();
        assert_eq!(wait(failures.record(trap(), at(600_000))), Duration::ZERO);
    }
}
