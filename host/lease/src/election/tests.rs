//! One election, step by step. What several do together is the simulation's business.

use informant_object::ResourceVersion;

use super::*;
use crate::record::TRANSITIONS_MAX;
use crate::standing::Obstacle;
use crate::times::PREFERRED_FIRST;

const TIMES: LeaseTimes = LeaseTimes::DEFAULT;

fn at(millis: u64) -> Moment {
    Moment::ZERO + Duration::from_millis(millis)
}

fn record(version: u64, holder: &str, transitions: u32) -> LeaseRecord {
    LeaseRecord {
        version: ResourceVersion::new(&version.to_string()),
        uid: "uid".into(),
        content: LeaseContent::from_parts(Some(holder), Some(15), i32::try_from(transitions).ok(), []),
    }
}

fn released(version: u64, preferred: &str) -> LeaseRecord {
    let mut record = record(version, "", 1);
    record.content.released_by = Some("b".into());
    record.content.preferred = Some(preferred.into());
    record
}

/// A Lease of another holder's epoch that is released to `a`.
fn released_at(transitions: u32, version: u64) -> LeaseRecord {
    let mut record = released(version, "a");
    record.content.transitions = transitions;
    record
}

/// A ready candidate `a` of two, the other one being preferred.
fn candidate() -> Election {
    let mut election = Election::new(at(0), "a".into(), TIMES, Task::Acquire(Layout::WHOLE));
    let order = vec!["b".into(), "a".into()];
    let candidates = Candidates {
        order,
        is_complete: true,
        ..Candidates::default()
    };
    // It reads the Lease, which nothing answers.
    election.step(at(0), ElectionInput::Candidates(candidates));
    election.step(at(0), ElectionInput::Ready(true));
    election
}

fn see(election: &mut Election, now: u64, record: LeaseRecord) -> Option<LeaseRequest> {
    election.step(at(now), ElectionInput::Seen(Seen::Record(record)))
}

fn answer(election: &mut Election, now: u64, request: &LeaseRequest, answer: LeaseAnswer) -> Option<LeaseRequest> {
    election.step(at(now), ElectionInput::Answer(request.id, answer))
}

fn clock(election: &mut Election, now: u64) -> Option<LeaseRequest> {
    election.step(at(now), ElectionInput::Clock)
}

/// What the API server makes of a write.
fn written(request: &LeaseRequest, version: u64) -> LeaseRecord {
    let content = match &request.kind {
        RequestKind::Create(content) | RequestKind::Replace { content, .. } => content.clone(),
        RequestKind::Read => panic!("a read writes nothing"),
    };
    LeaseRecord {
        content,
        ..record(version, "", 0)
    }
}

/// A holder in epoch 2 whose Lease has version 10, acquired by a request that was sent at 1 s.
fn holder() -> Election {
    let mut election = candidate();
    see(&mut election, 500, released(9, "a"));
    let request = clock(&mut election, 4_000).expect("the unanswered read is over");
    let record = written(&request, 10);
    assert!(answer(&mut election, 4_100, &request, LeaseAnswer::Record(record)).is_none());
    assert!(matches!(election.standing(), Standing::Acting { epoch: 2, .. }));
    election
}

fn why(election: &Election) -> StandbyReason {
    match election.standing() {
        Standing::Standby { why, .. } => why,
        standing => panic!("{standing:?}"),
    }
}

#[test]
fn expired_lease_is_read_and_replaced_under_its_version() {
    let mut election = candidate();
    see(&mut election, 1_000, record(7, "c", 4));
    assert!(clock(&mut election, 4_000).is_none(), "its own first read is over");
    // The other candidate tries first.
    let wake = election.next_wake();
    assert_eq!(wake, at(16_250));
    let read = election.step(wake, ElectionInput::Clock).expect("it expires");
    assert_eq!(read.kind, RequestKind::Read);
    let unchanged = LeaseAnswer::Record(record(7, "c", 4));
    let write = answer(&mut election, 16_260, &read, unchanged).expect("it is unchanged");
    let RequestKind::Replace { version, content, .. } = &write.kind else {
        panic!("{write:?}");
    };
    assert_eq!((version.as_str(), content.transitions), ("7", 5));
    answer(&mut election, 16_300, &write, LeaseAnswer::Record(written(&write, 8)));
    let permit = election.gate().permit(at(16_300)).expect("it acts");
    // Both count from sending.
    assert_eq!((permit.epoch, permit.request_end), (5, at(30_260)));
    assert_eq!(election.gate().open_until(), Some(at(26_260)));
}

#[test]
fn lease_with_the_largest_epochs_is_acquired_again_and_again() {
    for edited in [
        TRANSITIONS_MAX - 1,
        TRANSITIONS_MAX,
        TRANSITIONS_MAX + 1,
        i32::MAX.unsigned_abs(),
    ] {
        let (mut election, mut epochs) = (candidate(), Vec::new());
        let mut edited = released_at(edited, 9);
        for round in 0..3 {
            let now = 10_000 * (round + 1);
            let request = see(&mut election, now, edited).or_else(|| clock(&mut election, now + 4_000));
            let request = request.expect("it acquires");
            let record = written(&request, 10 * (round + 1));
            answer(
                &mut election,
                now + 4_100,
                &request,
                LeaseAnswer::Record(record.clone()),
            );
            let Standing::Acting { epoch, .. } = election.standing() else {
                panic!("{:?}", election.standing());
            };
            epochs.push(epoch);
            edited = released_at(record.content.transitions, 10 * (round + 1) + 1);
        }
        assert!(epochs.is_sorted_by(|before, after| before < after), "{epochs:?}");
    }
}

#[test]
fn lease_that_a_read_finds_renewed_is_waited_for() {
    let mut election = candidate();
    see(&mut election, 1_000, record(7, "c", 4));
    clock(&mut election, 4_000);
    let read = clock(&mut election, 16_250).expect("it expires");
    assert!(answer(&mut election, 16_260, &read, LeaseAnswer::Record(record(8, "c", 4))).is_none());
    assert_eq!(election.next_wake(), at(31_510));
}

#[test]
fn released_lease_goes_to_its_preferred_member_for_two_seconds() {
    let mut preferred = candidate();
    clock(&mut preferred, 4_000);
    assert!(
        see(&mut preferred, 5_000, released(9, "a")).is_none(),
        "a request is pending"
    );
    let request = clock(&mut preferred, 8_000).expect("it acquires");
    assert!(matches!(request.kind, RequestKind::Replace { .. }));

    let mut other = candidate();
    clock(&mut other, 4_000);
    see(&mut other, 5_000, released(9, "b"));
    let read = clock(&mut other, 8_000);
    assert!(read.is_some(), "two seconds are over: {read:?}");
    let mut early = candidate();
    see(&mut early, 3_000, released(9, "b"));
    clock(&mut early, 4_000);
    assert_eq!(early.next_wake(), at(5_250));
    assert_eq!(
        early.next_wake(),
        at(3_000) + PREFERRED_FIRST + Duration::from_millis(250)
    );
}

#[test]
fn lease_that_was_emptied_by_hand_expires_first() {
    let mut election = candidate();
    see(&mut election, 1_000, record(9, "", 3));
    clock(&mut election, 4_000);
    assert_eq!(election.next_wake(), at(16_250));
    let Standing::Standby { obstacle, .. } = election.standing() else {
        panic!();
    };
    assert_eq!(obstacle, Some(Obstacle::MayBeHeld));
}

#[test]
fn missing_lease_is_created_without_a_holder_and_then_expires() {
    let mut election = candidate();
    election.step(at(1_000), ElectionInput::Seen(Seen::Absent(None)));
    let create = clock(&mut election, 4_000).expect("it creates the Lease");
    let RequestKind::Create(content) = &create.kind else {
        panic!("{create:?}");
    };
    assert_eq!((&*content.holder, content.is_released()), ("", false));
    answer(&mut election, 4_010, &create, LeaseAnswer::Record(written(&create, 5)));
    assert_eq!(election.next_wake(), at(19_260));
}

#[test]
fn only_member_acquires_a_lease_that_never_existed_at_once() {
    let mut election = Election::new(at(0), "a".into(), TIMES, Task::Acquire(Layout::WHOLE));
    let candidates = Candidates {
        order: vec!["a".into()],
        newer: None,
        is_complete: true,
        is_alone: true,
    };
    let read = election
        .step(at(0), ElectionInput::Candidates(candidates))
        .expect("it reads");
    assert!(answer(&mut election, 10, &read, LeaseAnswer::NotFound).is_none());
    let create = election.step(at(20), ElectionInput::Ready(true)).expect("it is ready");
    assert!(matches!(&create.kind, RequestKind::Create(content) if &*content.holder == "a"));
    answer(&mut election, 30, &create, LeaseAnswer::Record(written(&create, 1)));
    assert!(matches!(election.standing(), Standing::Acting { epoch: 1, .. }));
    // Deleted now, it existed before.
    let write = election
        .step(at(40), ElectionInput::Seen(Seen::Absent(None)))
        .expect("it is created");
    assert_eq!(why(&election), StandbyReason::Deleted);
    assert!(matches!(&write.kind, RequestKind::Create(content) if content.holder.is_empty()));
}

#[test]
fn renewal_that_is_answered_after_the_deadline_reopens_nothing() {
    let mut election = holder();
    assert_eq!(election.gate().open_until(), Some(at(14_000)));
    let renewal = clock(&mut election, 6_000).expect("it renews");
    let late = written(&renewal, 11);
    let again = answer(&mut election, 14_000, &renewal, LeaseAnswer::Record(late));
    assert!(matches!(why(&election), StandbyReason::DeadlinePassed(_)));
    assert_eq!(election.gate().remaining(at(14_000)), None);
    // Its requests may take until 18 s. Then it acquires the Lease again, with the next epoch.
    assert!(again.is_none());
    assert_eq!(election.next_wake(), at(18_000));
    let again = clock(&mut election, 18_000).expect("it acquires the Lease");
    assert_eq!(written(&again, 12).content.transitions, 3);
}

#[test]
fn another_name_ends_the_term_at_once() {
    let mut election = holder();
    see(&mut election, 5_000, record(11, "z", 2));
    assert_eq!(why(&election), StandbyReason::TakenBy("z".into()));
    assert_eq!(election.gate().remaining(at(5_000)), None);
    // Of an older version, it is old news.
    let mut election = holder();
    see(&mut election, 5_000, record(9, "z", 1));
    assert!(matches!(election.standing(), Standing::Acting { .. }));
}

#[test]
fn conflict_with_the_own_name_is_written_again() {
    let mut election = holder();
    let renewal = clock(&mut election, 6_000).expect("it renews");
    let read = answer(&mut election, 6_010, &renewal, LeaseAnswer::Conflict).expect("it reads");
    assert_eq!(read.kind, RequestKind::Read);
    let mut edited = record(12, "a", 2);
    edited.content.duration = Duration::from_secs(1);
    assert!(answer(&mut election, 6_020, &read, LeaseAnswer::Record(edited)).is_none());
    let renewal = clock(&mut election, 8_010).expect("it renews");
    let RequestKind::Replace { version, content, .. } = &renewal.kind else {
        panic!("{renewal:?}");
    };
    assert_eq!((version.as_str(), content.duration), ("12", TIMES.duration));
}

#[test]
fn hand_over_renews_until_effects_have_ended() {
    let mut election = holder();
    election.step(at(5_000), ElectionInput::Release(ReleaseReason::Stop));
    assert!(matches!(election.standing(), Standing::HandingOver { .. }));
    assert!(election.gate().permit(at(5_900)).is_some());
    let renewal = clock(&mut election, 6_000).expect("it renews");
    let release = election
        .step(at(6_005), ElectionInput::HandedOver)
        .expect("it releases");
    assert_eq!(election.gate().permit(at(6_005)), None);
    let content = written(&release, 11).content;
    assert_eq!((content.is_released(), content.preferred), (true, Some("b".into())));
    // The renewal has arrived first.
    answer(
        &mut election,
        6_010,
        &renewal,
        LeaseAnswer::Record(written(&renewal, 11)),
    );
    let read = answer(&mut election, 6_020, &release, LeaseAnswer::Conflict).expect("it reads");
    let release = answer(&mut election, 6_030, &read, LeaseAnswer::Record(written(&renewal, 11)));
    let release = release.expect("it releases again");
    assert!(!election.has_ended());
    answer(
        &mut election,
        6_040,
        &release,
        LeaseAnswer::Record(written(&release, 12)),
    );
    assert_eq!(why(&election), StandbyReason::Released(Some("b".into())));
    assert!(election.has_ended() && election.next_wake() == Moment::NEVER);
}

#[test]
fn hand_over_without_end_lets_the_lease_expire() {
    let mut election = holder();
    election.step(at(5_000), ElectionInput::Release(ReleaseReason::Preferred));
    let mut now = 5_000;
    while let Standing::HandingOver { .. } = election.standing() {
        now += 1_000;
        if let Some(renewal) = clock(&mut election, now) {
            answer(
                &mut election,
                now,
                &renewal,
                LeaseAnswer::Record(written(&renewal, 10 + now)),
            );
        }
    }
    assert_eq!((why(&election), now), (StandbyReason::HandOverLate, 25_000));
    assert!(election.next_wake() > at(35_000), "it waits as every other one");
}

#[test]
fn hand_over_in_vain_is_not_repeated_at_once() {
    let mut election = holder();
    election.step(at(5_000), ElectionInput::Release(ReleaseReason::Preferred));
    let release = election
        .step(at(5_010), ElectionInput::HandedOver)
        .expect("it releases");
    answer(
        &mut election,
        5_020,
        &release,
        LeaseAnswer::Record(written(&release, 11)),
    );
    let acquire = clock(&mut election, 7_270).expect("the preferred member does not");
    answer(
        &mut election,
        7_280,
        &acquire,
        LeaseAnswer::Record(written(&acquire, 12)),
    );
    election.step(at(8_000), ElectionInput::Release(ReleaseReason::Preferred));
    assert!(matches!(election.standing(), Standing::Acting { epoch: 3, .. }));
    election.step(at(8_000), ElectionInput::Release(ReleaseReason::Stop));
    assert!(matches!(election.standing(), Standing::HandingOver { .. }));
}

#[test]
fn gate_that_somebody_closed_ends_the_term() {
    let mut election = holder();
    let renewal = clock(&mut election, 6_000).expect("it renews");
    election.gate().clone().close();
    answer(
        &mut election,
        6_010,
        &renewal,
        LeaseAnswer::Record(written(&renewal, 11)),
    );
    assert_eq!(why(&election), StandbyReason::GateClosed);
    assert_eq!(election.gate().permit(at(6_010)), None);
}

#[test]
fn notes_of_the_predecessor_stay_until_there_are_own() {
    let mut election = candidate();
    clock(&mut election, 4_000);
    let mut before = released(9, "a");
    before.content.notes = Notes::new([("watermark", "17")]).expect("it is short");
    see(&mut election, 4_500, before);
    let acquire = clock(&mut election, 8_000).expect("it acquires");
    answer(
        &mut election,
        8_010,
        &acquire,
        LeaseAnswer::Record(written(&acquire, 10)),
    );
    assert_eq!(written(&acquire, 10).content.notes.get("watermark"), Some("17"));
    let predecessor = election.predecessor().expect("there was a Lease");
    assert_eq!(predecessor.notes.get("watermark"), Some("17"));
    let own = Notes::new([("watermark", "18")]).expect("it is short");
    election.step(at(8_020), ElectionInput::Notes(own));
    let renewal = clock(&mut election, 10_000).expect("it renews");
    assert_eq!(written(&renewal, 11).content.notes.get("watermark"), Some("18"));
}

#[test]
fn endless_conflicts_are_not_answered_at_once() {
    let mut election = holder();
    let (mut sent, mut now) = (0, 6_000);
    while now < 13_000 {
        now += 1;
        if let Some(request) = clock(&mut election, now) {
            let mut next = Some(request);
            while let Some(request) = next {
                sent += 1;
                next = match request.kind {
                    RequestKind::Read => answer(&mut election, now, &request, LeaseAnswer::Record(record(10, "a", 2))),
                    _ => answer(&mut election, now, &request, LeaseAnswer::Conflict),
                };
            }
        }
    }
    assert!(sent < 20, "{sent} requests in 7 s");
}
