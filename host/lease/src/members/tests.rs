use super::*;

const TIMES: LeaseTimes = LeaseTimes::DEFAULT;

fn at(seconds: u64) -> Moment {
    Moment::ZERO + Duration::from_secs(seconds)
}

fn lease(version: u64, identity: &str, informant: &str, is_ready: bool) -> LeaseRecord {
    let record = MemberRecord {
        version: informant.into(),
        digest: "abc".into(),
        layout: "1".into(),
        is_ready,
        address: "10.0.0.1:8080".into(),
    };
    LeaseRecord {
        version: ResourceVersion::new(&version.to_string()),
        uid: "uid".into(),
        content: LeaseContent {
            notes: record.notes(),
            ..LeaseContent::from_parts(Some(identity), Some(15), None, [])
        },
    }
}

/// `a-0`, `b-0` and `c-0` of version 0.1.0, ready since 0 s; `a-0` looks.
fn three() -> Members {
    let mut members = Members::new("a-0".into(), TIMES);
    for (version, pod) in [(1, "a"), (2, "b"), (3, "c")] {
        members.observe(at(0), pod, Some(&lease(version, &format!("{pod}-0"), "0.1.0", true)));
    }
    members.set_synced();
    members
}

fn order(members: &Members, seconds: u64, work: &str) -> Vec<String> {
    let candidates = members.candidates(at(seconds), work);
    candidates.order.iter().map(|identity| identity.to_string()).collect()
}

#[test]
fn newest_ready_version_is_preferred_and_settles_first() {
    let mut members = three();
    assert_eq!(order(&members, 1, "work").len(), 3);
    members.observe(at(5), "c", Some(&lease(4, "c-1", "0.2.0", false)));
    assert!(!order(&members, 6, "work").contains(&"c-1".into()), "it is not ready");
    members.observe(at(7), "c", Some(&lease(5, "c-1", "0.2.0", true)));
    assert_eq!(order(&members, 8, "work")[0], "c-1");
    // Others do not interrupt their work for it yet. All of them have to be live.
    members.observe(at(14), "a", Some(&lease(6, "a-0", "0.1.0", true)));
    assert_eq!(members.candidates(at(14), "work").newer, None);
    assert_eq!(members.next_change(at(16)), at(17));
    assert_eq!(members.candidates(at(17), "work").newer, Some("c-1".into()));
    // 0.10.0 is newer than 0.9.0; what is no version is the oldest.
    members.observe(at(18), "b", Some(&lease(7, "b-1", "0.10.0", true)));
    members.observe(at(18), "c", Some(&lease(8, "c-2", "0.9.0", true)));
    members.observe(at(18), "a", Some(&lease(9, "a-0", "main", true)));
    assert_eq!(order(&members, 19, "work"), ["b-1", "c-2", "a-0"]);
}

/// The pods 0 to 2 of the StatefulSet `set` are replaced from the highest on, by `to`; `holder` holds the Lease before.
/// Each is ready for a long time before the next one is replaced if `is_slow`. Returns how often the work moves.
fn moves(set: &str, (from, to): (&str, &str), mut holder: usize, is_slow: bool) -> usize {
    let mut members = Members::new("old_0".into(), TIMES);
    let (mut now, mut version, mut moved) = (100, 1, 0);
    let mut running = [("old", from); 3];
    let mut renew = |members: &mut Members, seconds: u64, running: &[(&str, &str); 3]| {
        for (pod, (process, informant)) in running.iter().enumerate() {
            version += 1;
            let identity = format!("{process}_{pod}");
            members.observe(
                at(seconds),
                &format!("{set}-{pod}"),
                Some(&lease(version, &identity, informant, true)),
            );
        }
    };
    renew(&mut members, 0, &running);
    renew(&mut members, 10, &running);
    for pod in (0..3).rev() {
        renew(&mut members, now, &running);
        members.observe(at(now), &format!("{set}-{pod}"), None);
        if holder == pod {
            let first = order(&members, now, set)[0].clone();
            holder = first.rsplit('_').next().unwrap().parse().unwrap();
            moved += 1;
        }
        running[pod] = ("new", to);
        renew(&mut members, now + 1, &running);
        now += if is_slow { 14 } else { 2 };
        renew(&mut members, now, &running);
        // The holder hands over to a newer version.
        let is_newer =
            |pod: usize| Version::parse(running[pod].1).unwrap() > Version::parse(running[holder].1).unwrap();
        let first = order(&members, now, set)[0].clone();
        let first: usize = first.rsplit('_').next().unwrap().parse().unwrap();
        if is_slow && is_newer(first) {
            (holder, moved) = (first, moved + 1);
        }
    }
    moved
}

#[test]
fn rolling_update_moves_the_work_at_most_twice() {
    for set in ["informant", "watcher", "team-a"] {
        for versions in [("0.1.0", "0.2.0"), ("0.2.0", "0.1.0"), ("0.1.0", "0.1.0")] {
            for (holder, is_slow) in [(0, false), (1, false), (2, false), (0, true), (1, true), (2, true)] {
                let moved = moves(set, versions, holder, is_slow);
                assert!(
                    moved <= 2,
                    "{set}, {versions:?}, from {holder}, slow: {is_slow}: {moved}"
                );
            }
        }
    }
}

#[test]
fn interrupted_readiness_and_restarts_begin_to_count_again() {
    let mut members = three();
    members.observe(at(9), "b", Some(&lease(4, "b-0", "0.2.0", false)));
    members.observe(at(9), "b", Some(&lease(5, "b-0", "0.2.0", true)));
    assert_eq!(members.candidates(at(12), "work").newer, None);
    members.observe(at(18), "b", Some(&lease(6, "b-1", "0.2.0", true)));
    assert_eq!(members.candidates(at(20), "work").newer, None);
    assert_eq!(members.candidates(at(28), "work").newer, Some("b-1".into()));
}

#[test]
fn member_is_live_while_its_lease_changes() {
    let mut members = three();
    members.observe(at(10), "b", Some(&lease(4, "b-0", "0.1.0", true)));
    // The same version again is no sign of life.
    members.observe(at(10), "c", Some(&lease(3, "c-0", "0.1.0", true)));
    assert_eq!(members.next_change(at(10)), at(15));
    assert_eq!(members.live(at(14)).count(), 3);
    let live: Vec<&str> = members.live(at(15)).map(|member| &*member.pod).collect();
    assert_eq!(live, ["b"]);
    // Released or deleted.
    members.observe(at(16), "b", Some(&lease(5, "", "0.1.0", true)));
    assert_eq!(members.live(at(16)).count(), 0);
    members.observe(at(16), "c", None);
    assert_eq!(members.iter().count(), 1);
}

#[test]
fn member_that_stops_renewing_soon_gets_no_more_shards() {
    let members = three();
    let is_fresh = |seconds| members.iter().all(|member| member.is_fresh(at(seconds)));
    assert!(is_fresh(9) && !is_fresh(10));
    assert_eq!(members.live(at(14)).count(), 3);
}

#[test]
fn only_a_process_that_never_saw_another_is_alone() {
    let mut members = Members::new("a-1".into(), TIMES);
    members.observe(at(0), "a", Some(&lease(1, "a-1", "0.1.0", true)));
    assert!(!members.candidates(at(0), "work").is_complete, "it is not synced");
    // Another one has ended in order.
    members.observe(at(0), "b", Some(&lease(2, "", "0.1.0", true)));
    members.set_synced();
    assert!(members.candidates(at(0), "work").is_alone);
    members.observe(at(1), "b", Some(&lease(3, "b-0", "0.1.0", true)));
    members.observe(at(2), "b", None);
    let candidates = members.candidates(at(2), "work");
    assert!(candidates.is_complete && !candidates.is_alone);
}

#[test]
fn work_spreads_over_members_of_one_version() {
    let members = three();
    let first_of = |members: &Members, work: usize| order(members, 1, &format!("shard-{work}"))[0].clone();
    let first: Vec<String> = (0..300).map(|work| first_of(&members, work)).collect();
    for member in ["a-0", "b-0", "c-0"] {
        let share = first.iter().filter(|first| *first == member).count();
        assert!((70..=130).contains(&share), "{member}: {share}");
    }
    // A member that is gone moves only its own work.
    let mut two = three();
    two.observe(at(1), "c", None);
    for (work, first) in first.iter().enumerate().filter(|(_, first)| *first != "c-0") {
        assert_eq!(first_of(&two, work), *first);
    }
}

#[test]
fn other_digests_are_found() {
    let members = three();
    assert_eq!(members.with_other_digest(at(1), "abc").count(), 0);
    assert_eq!(members.with_other_digest(at(1), "def").count(), 3);
    assert_eq!(members.with_other_digest(at(20), "def").count(), 0, "none is live");
}

#[test]
fn members_above_the_limit_are_ignored_unless_others_are_gone() {
    let mut members = Members::new("a-0".into(), TIMES);
    for number in 0..MEMBERS_MAX {
        let lease = lease(number as u64, &format!("p{number}-0"), "0.1.0", true);
        members.observe(at(0), &format!("p{number}"), Some(&lease));
    }
    let more = lease(1_000, "more-0", "0.1.0", true);
    members.observe(at(1), "more", Some(&more));
    assert_eq!((members.iter().count(), members.ignored()), (MEMBERS_MAX, 1));
    members.observe(at(15), "more", Some(&more));
    assert_eq!((members.iter().count(), members.ignored()), (1, 1));
}

#[test]
fn long_texts_of_a_member_are_cut() {
    let mut members = Members::new("a-0".into(), TIMES);
    members.observe(at(0), "b", Some(&lease(1, "b-0", &"9".repeat(10_000), true)));
    let version = members.iter().next().map(|member| member.record.version.len());
    assert_eq!(version, Some(256));
}
