use super::*;

const TIMES: LeaseTimes = LeaseTimes::DEFAULT;

fn at(millis: u64) -> Moment {
    Moment::ZERO + Duration::from_millis(millis)
}

fn record(is_ready: bool) -> MemberRecord {
    MemberRecord {
        version: "0.1.0".into(),
        digest: "abc".into(),
        layout: "1".into(),
        is_ready,
        address: "".into(),
    }
}

fn lease(version: u64, holder: &str) -> LeaseAnswer {
    LeaseAnswer::Record(LeaseRecord {
        version: ResourceVersion::new(&version.to_string()),
        uid: "uid".into(),
        content: LeaseContent::from_parts(Some(holder), Some(15), None, []),
    })
}

fn clock(membership: &mut Membership, now: u64) -> LeaseRequest {
    let request = membership.step(at(now), MembershipInput::Clock);
    request.expect("a request is due")
}

fn answer(membership: &mut Membership, now: u64, request: &LeaseRequest, answer: LeaseAnswer) -> Option<LeaseRequest> {
    membership.step(at(now), MembershipInput::Answer(request.id, answer))
}

fn content(request: &LeaseRequest) -> &LeaseContent {
    match &request.kind {
        RequestKind::Create(content) | RequestKind::Replace { content, .. } => content,
        RequestKind::Read => panic!("a read writes nothing"),
    }
}

/// `a-1`, whose Lease was written at 20 ms and has version 2.
fn written() -> Membership {
    let mut membership = Membership::new("a-1".into(), TIMES, &record(false));
    let read = clock(&mut membership, 0);
    let write = answer(&mut membership, 20, &read, lease(1, "a-0")).expect("it writes");
    assert_eq!(&*content(&write).holder, "a-1");
    assert!(answer(&mut membership, 30, &write, lease(2, "a-1")).is_none());
    membership
}

#[test]
fn name_of_an_earlier_process_is_replaced_without_a_report() {
    let membership = written();
    assert_eq!(membership.other(at(30)), None);
    assert_eq!(membership.next_wake(), at(5_020));
}

#[test]
fn change_is_written_at_once_even_while_a_renewal_runs() {
    let mut membership = written();
    let renewal = clock(&mut membership, 5_020);
    assert_eq!(content(&renewal).notes.get("ready"), Some("false"));
    assert!(
        membership
            .step(at(5_025), MembershipInput::Record(record(true)))
            .is_none()
    );
    let write = answer(&mut membership, 5_030, &renewal, lease(3, "a-1"));
    assert_eq!(
        content(&write.expect("it writes again")).notes.get("ready"),
        Some("true")
    );
}

#[test]
fn another_process_of_the_same_pod_is_reported() {
    let mut membership = written();
    let renewal = clock(&mut membership, 5_020);
    let read = answer(&mut membership, 5_030, &renewal, LeaseAnswer::Conflict).expect("it reads");
    let write = answer(&mut membership, 5_040, &read, lease(7, "a-2"));
    assert_eq!(&*content(&write.expect("it writes")).holder, "a-1");
    assert_eq!(membership.other(at(5_040)), Some(&"a-2".into()));
    assert_eq!(membership.other(at(36_000)), None);
    let LeaseAnswer::Record(seen) = lease(9, "a-2") else {
        panic!();
    };
    membership.step(at(40_000), MembershipInput::Seen(Seen::Record(seen)));
    assert_eq!(membership.other(at(40_000)), Some(&"a-2".into()));
}

#[test]
fn failed_write_is_read_and_repeated() {
    let mut membership = written();
    let renewal = clock(&mut membership, 5_020);
    assert_eq!(membership.next_wake(), at(9_020));
    assert!(membership.step(at(9_020), MembershipInput::Clock).is_none());
    assert!(membership.failure().is_some_and(|failure| failure.contains("4s")));
    // Its answer no longer counts.
    assert!(answer(&mut membership, 9_030, &renewal, lease(3, "a-1")).is_none());
    let read = clock(&mut membership, 11_020);
    assert_eq!(read.kind, RequestKind::Read);
    answer(&mut membership, 11_030, &read, LeaseAnswer::Refused("forbidden".into()));
    assert_eq!(membership.next_wake(), at(26_030));
}

#[test]
fn missing_namespace_is_not_asked_for_without_a_pause() {
    let mut membership = Membership::new("a-1".into(), TIMES, &record(true));
    let mut sent = 0;
    for now in (0..20_000).step_by(100) {
        let mut next = membership.step(at(now), MembershipInput::Clock);
        while let Some(request) = next {
            sent += 1;
            next = answer(&mut membership, now, &request, LeaseAnswer::NotFound);
        }
    }
    assert!((10..=22).contains(&sent), "{sent} requests");
    assert!(
        membership
            .failure()
            .is_some_and(|failure| failure.contains("namespace"))
    );
}

#[test]
fn stop_releases_the_lease_unless_it_is_another_one() {
    let mut membership = written();
    let release = membership.step(at(1_000), MembershipInput::Stop).expect("it releases");
    assert!(content(&release).is_released());
    let read = answer(&mut membership, 1_010, &release, LeaseAnswer::Conflict).expect("it reads");
    let release = answer(&mut membership, 1_020, &read, lease(3, "a-1")).expect("it releases");
    answer(&mut membership, 1_030, &release, lease(4, ""));
    assert!(membership.has_ended() && membership.next_wake() == Moment::NEVER);

    let mut membership = written();
    let release = membership.step(at(1_000), MembershipInput::Stop).expect("it releases");
    let read = answer(&mut membership, 1_010, &release, LeaseAnswer::Conflict).expect("it reads");
    assert!(answer(&mut membership, 1_020, &read, lease(3, "a-2")).is_none());
    assert!(membership.has_ended());
}
