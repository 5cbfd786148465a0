//! The guard's rules one by one, and against a model of a source with lagging replicas.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn at(text: &str) -> VersionRef<'_> {
    VersionRef::new(text)
}

fn listed_at(text: &str) -> VersionGuard {
    let mut guard = VersionGuard::new();
    assert_eq!(guard.check_list(at(text), ListSource::Cache), ListVerdict::Accept);
    guard
}

/// An event at `event` for an object stored at `stored`.
fn event(guard: &mut VersionGuard, event: &str, stored: Option<&str>) -> EventVerdict {
    guard.check_event(at(event), || stored.map(at))
}

#[test]
fn event_above_the_high_water_needs_no_store_lookup() {
    let mut guard = listed_at("9");
    let verdict = guard.check_event(at("10"), || panic!("not to be looked up"));
    assert_eq!((verdict, guard.high_water()), (EventVerdict::Accept, Some(10)));
}

#[test]
fn event_below_the_high_water_is_compared_with_its_object() {
    let mut guard = listed_at("20");
    assert_eq!(event(&mut guard, "15", Some("14")), EventVerdict::Accept);
    assert_eq!(
        event(&mut guard, "15", Some("15")),
        EventVerdict::Outdated,
        "a repetition"
    );
    assert_eq!(event(&mut guard, "15", Some("16")), EventVerdict::Outdated);
    assert_eq!(
        event(&mut guard, "15", None),
        EventVerdict::Outdated,
        "deleted meanwhile: it must not come back"
    );
    assert_eq!(
        event(&mut guard, "20", None),
        EventVerdict::Accept,
        "two objects of one version"
    );
    assert_eq!(
        event(&mut guard, "20", Some("20")),
        EventVerdict::Outdated,
        "the last event once more"
    );
    assert_eq!(guard.high_water(), Some(20));
}

#[test]
fn older_cache_list_is_outdated() {
    let mut guard = listed_at("20");
    let verdict = guard.check_list(at("19"), ListSource::Cache);
    assert_eq!(
        verdict,
        ListVerdict::Outdated {
            list: 19,
            high_water: 20
        }
    );
    assert_eq!((guard.high_water(), guard.epoch()), (Some(20), 0));
    assert_eq!(guard.check_list(at("20"), ListSource::Cache), ListVerdict::Accept);
}

#[test]
fn older_consistent_list_starts_a_new_epoch() {
    let mut guard = listed_at("100");
    assert_eq!(guard.check_list(at("100"), ListSource::Consistent), ListVerdict::Accept);
    assert_eq!(
        guard.check_list(at("40"), ListSource::Consistent),
        ListVerdict::Restored { epoch: 1 }
    );
    assert_eq!((guard.high_water(), guard.epoch()), (Some(40), 1));
    assert_eq!(event(&mut guard, "41", Some("99")), EventVerdict::Accept);
}

#[test]
fn list_older_than_a_bookmark_is_compared_with_the_bookmark() {
    let bookmarked = || {
        let mut guard = listed_at("20");
        guard.bookmark(at("30"));
        guard
    };
    assert!(matches!(
        bookmarked().check_list(at("29"), ListSource::Cache),
        ListVerdict::Outdated { high_water: 30, .. }
    ));
    assert_eq!(
        bookmarked().check_list(at("20"), ListSource::Consistent),
        ListVerdict::Restored { epoch: 1 }
    );
    assert_eq!(
        bookmarked().check_list(at("30"), ListSource::Cache),
        ListVerdict::Accept
    );
    assert_eq!(
        event(&mut bookmarked(), "21", None),
        EventVerdict::Accept,
        "events may follow with older versions"
    );
}

#[test]
fn older_item_of_an_accepted_list_is_rejected() {
    let guard = listed_at("100");
    assert!(guard.check_item(at("50"), at("50")));
    assert!(guard.check_item(at("51"), at("50")));
    assert!(!guard.check_item(at("49"), at("50")));
}

#[test]
fn non_numeric_version_turns_the_guard_off() {
    for odd in ["abc", "", "007", "18446744073709551616"] {
        let mut guard = listed_at("100");
        assert!(guard.is_on());
        assert_eq!(event(&mut guard, odd, Some("100")), EventVerdict::Accept);
        assert!(!guard.is_on());
        assert_eq!(event(&mut guard, "3", Some("100")), EventVerdict::Accept);
        assert_eq!(guard.check_list(at("2"), ListSource::Cache), ListVerdict::Accept);
        assert!(guard.check_item(at("1"), at("100")));
        assert!(!guard.is_on(), "it stays off");
    }
}

#[test]
fn resumed_guard_keeps_the_high_water() {
    let mut guard = VersionGuard::new();
    guard.resume_from(50);
    assert!(matches!(
        guard.check_list(at("49"), ListSource::Cache),
        ListVerdict::Outdated { .. }
    ));
    assert_eq!(
        guard.check_list(at("49"), ListSource::Consistent),
        ListVerdict::Restored { epoch: 1 }
    );
}

/// Operations on a source: writes advance its database; its client sees the past state of some replica.
#[derive(Clone, Debug)]
enum Step {
    Write(u8),
    Delete(u8),
    /// A list; how many writes its replica is behind, 0 for a consistent one.
    List(usize),
    /// An event of the past, this many writes ago.
    Event(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..3_u8).prop_map(Step::Write),
        1 => (0..3_u8).prop_map(Step::Delete),
        1 => (0..4_usize).prop_map(Step::List),
        4 => (0..4_usize).prop_map(Step::Event),
    ]
}

/// Object to version; and the database after each write, with what the write was.
type State = BTreeMap<u8, u64>;

struct Source {
    history: Vec<(State, Option<(u8, bool)>)>,
    guard: VersionGuard,
    cache: State,
    /// Object to the version as of which it was observed as absent.
    gone: State,
}

impl Source {
    /// The state `behind` writes ago, its version, and the write that made it.
    fn past(&self, behind: usize) -> (State, u64, Option<(u8, bool)>) {
        let index = self.history.len().saturating_sub(1 + behind);
        let (state, write) = self.history[index].clone();
        (state, index as u64 + 1, write)
    }

    fn write(&mut self, object: u8, deletes: bool) {
        let mut state = self.past(0).0;
        let version = self.history.len() as u64 + 1;
        if deletes && state.remove(&object).is_none() {
            return;
        }
        if !deletes {
            state.insert(object, version);
        }
        self.history.push((state, Some((object, deletes))));
    }

    fn list(&mut self, behind: usize) {
        let (state, version, _) = self.past(behind);
        let source = if behind == 0 {
            ListSource::Consistent
        } else {
            ListSource::Cache
        };
        match self.guard.check_list(at(&version.to_string()), source) {
            ListVerdict::Accept => {
                for (object, version) in &state {
                    let stored = self.cache.get(object).unwrap_or(version).to_string();
                    assert!(self.guard.check_item(at(&version.to_string()), at(&stored)));
                }
                self.gone.extend(
                    (0..3)
                        .filter(|object| !state.contains_key(object))
                        .map(|object| (object, version)),
                );
                self.cache = state;
            }
            ListVerdict::Outdated { list, high_water } => assert!(list < high_water),
            ListVerdict::Restored { .. } => panic!("this database was never restored"),
        }
    }

    fn event(&mut self, behind: usize) {
        let (_, version, Some((object, deletes))) = self.past(behind) else {
            return;
        };
        let stored = self.cache.get(&object).map(ToString::to_string);
        let text = version.to_string();
        let verdict = self.guard.check_event(at(&text), || stored.as_deref().map(at));
        let seen = self.cache.get(&object).copied();
        match verdict {
            EventVerdict::Accept if deletes => {
                self.cache.remove(&object);
                self.gone.insert(object, version);
            }
            EventVerdict::Accept => drop(self.cache.insert(object, version)),
            // A dropped event was superseded: the object has that version or a newer one, or was deleted.
            EventVerdict::Outdated => assert!(seen.is_none_or(|seen| seen >= version)),
        }
    }
}

proptest! {
    /// Whichever replica responds, no object goes back and no deleted one reappears.
    #[test]
    fn observed_state_never_goes_back(steps in vec(any_step(), 0..80)) {
        let history = vec![(State::new(), None)];
        let mut source = Source { history, guard: VersionGuard::new(), cache: State::new(), gone: State::new() };
        for step in steps {
            let (before, high_water) = (source.cache.clone(), source.guard.high_water());
            match step {
                Step::Write(object) => source.write(object, false),
                Step::Delete(object) => source.write(object, true),
                Step::List(behind) => source.list(behind),
                Step::Event(behind) => source.event(behind),
            }
            for (object, version) in &source.cache {
                prop_assert!(before.get(object).is_none_or(|was| was <= version), "{object} went back");
                prop_assert!(source.gone.get(object).is_none_or(|gone| gone < version), "{object} came back");
            }
            prop_assert!(source.guard.high_water() >= high_water);
        }
        prop_assert!(source.guard.is_on());
    }
}
