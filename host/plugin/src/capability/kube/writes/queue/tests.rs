use super::*;
use crate::capability::kube::api::{KubeAction, KubeAddress, KubeDelete, KubeWrite};

const SECOND: Duration = Duration::from_secs(1);

fn write(name: &str) -> DeferredWrite {
    write_of(name, 0)
}

fn write_of(name: &str, bytes: usize) -> DeferredWrite {
    let address = KubeAddress::of_pod(name);
    let action = match bytes {
        0 => KubeAction::Delete(KubeDelete::default()),
        bytes => KubeAction::Update(vec![0; bytes], KubeWrite::default()),
    };
    DeferredWrite {
        target: Target::new(&address, name),
        name: name.to_owned(),
        uid: None,
        is_awaited: false,
        recorder: None,
        cause: None,
        address,
        action,
    }
}

fn queue() -> WriteQueue<&'static str> {
    WriteQueue::new(&Limits::default())
}

/// Everything that may be sent now: the number of the call and the name of the object.
fn sendable(queue: &mut WriteQueue<&'static str>, now: Moment) -> Vec<(CallNumber, String)> {
    std::iter::from_fn(|| match queue.next(now) {
        NextWrite::Send(number, write) => Some((number, write.address.name.clone())),
        NextWrite::WaitUntil(_) | NextWrite::Idle => None,
    })
    .collect()
}

fn sent(pairs: &[(CallNumber, &str)]) -> Vec<(CallNumber, String)> {
    pairs.iter().map(|(call, name)| (*call, (*name).to_owned())).collect()
}

#[test]
fn writes_of_a_call_are_sent_one_after_the_other() {
    let mut queue = queue();
    let now = Moment::ZERO;
    queue.commit("a", vec![write("x"), write("y"), write("x")]);
    for name in ["x", "y"] {
        assert_eq!(sendable(&mut queue, now), sent(&[(0, name)]));
        assert_eq!(queue.ended(0, WriteEnd::Done, now), None);
    }
    assert_eq!(sendable(&mut queue, now), sent(&[(0, "x")]));
    assert_eq!(queue.ended(0, WriteEnd::Done, now), Some("a"));
    assert!(queue.is_empty());
    assert_eq!(queue.stats(), WritesStatus::default());
    assert!(queue.targets.is_empty());
}

#[test]
fn writes_to_one_target_are_sent_in_turn() {
    let mut queue = queue();
    let now = Moment::ZERO;
    queue.commit("a", vec![write("x"), write("y")]);
    queue.commit("b", vec![write("x")]);
    queue.commit("c", vec![write("z")]);
    queue.commit("d", vec![write("x")]);
    assert_eq!(sendable(&mut queue, now), sent(&[(0, "x"), (2, "z")]));
    assert_eq!(queue.ended(0, WriteEnd::Done, now), None);
    assert_eq!(sendable(&mut queue, now), sent(&[(1, "x"), (0, "y")]));
    assert_eq!(queue.ended(1, WriteEnd::Failed, now), Some("b"));
    assert_eq!(sendable(&mut queue, now), sent(&[(3, "x")]));
}

#[test]
fn a_failed_write_drops_the_rest_of_its_call() {
    let mut queue = queue();
    let now = Moment::ZERO;
    queue.commit("a", vec![write("x"), write("y"), write_of("z", 1_000)]);
    queue.commit("b", vec![write("y")]);
    assert_eq!(sendable(&mut queue, now).len(), 2);
    assert_eq!(queue.ended(0, WriteEnd::Failed, now), Some("a"));
    assert_eq!(sendable(&mut queue, now), []);
    assert_eq!(queue.ended(1, WriteEnd::Done, now), Some("b"));
    assert_eq!(queue.stats(), WritesStatus::default());
}

#[test]
fn a_pause_stops_all_writes_and_repeats_the_same() {
    let mut queue = queue();
    let now = Moment::ZERO;
    queue.commit("a", vec![write("x"), write("y")]);
    queue.commit("b", vec![write("z")]);
    assert_eq!(sendable(&mut queue, now).len(), 2);
    assert_eq!(queue.ended(0, WriteEnd::Pause(3 * SECOND), now), None);
    assert_eq!(queue.ended(1, WriteEnd::Pause(2 * SECOND), now), None);
    let until = now + 3 * SECOND;
    assert!(matches!(queue.next(now + 2 * SECOND), NextWrite::WaitUntil(at) if at == until));
    assert_eq!(sendable(&mut queue, until), sent(&[(1, "z"), (0, "x")]));
}

#[test]
fn so_many_are_in_flight_and_so_many_a_second() {
    let mut queue = queue();
    let names: Vec<String> = (0..300).map(|number| format!("pod-{number}")).collect();
    for name in &names {
        queue.commit("a", vec![write(name)]);
    }
    let mut now = Moment::ZERO;
    assert_eq!(sendable(&mut queue, now).len(), 16);
    let limits = Limits {
        writes_in_flight: 1_000,
        ..Limits::default()
    };
    queue.set_limits(&limits, LimitShare::WHOLE, now);
    assert_eq!(sendable(&mut queue, now).len(), 100 - 16, "the burst");
    now += SECOND;
    assert_eq!(sendable(&mut queue, now).len(), 20);
    assert!(matches!(queue.next(now), NextWrite::WaitUntil(at) if at == now + SECOND / 20));
}

#[test]
fn a_share_of_the_rate_keeps_what_was_sent() {
    let mut queue = queue();
    for number in 0..300 {
        queue.commit("a", vec![write(&format!("pod-{number}"))]);
    }
    let limits = Limits {
        writes_in_flight: 1_000,
        ..Limits::default()
    };
    let quarter = LimitShare::of_first(3, 12);
    let mut now = Moment::ZERO;
    queue.set_limits(&limits, quarter, now);
    assert_eq!(sendable(&mut queue, now).len(), 25, "a quarter of the burst");
    now += SECOND;
    assert_eq!(sendable(&mut queue, now).len(), 5);
    queue.set_limits(&limits, LimitShare::of_first(6, 12), now);
    assert_eq!(sendable(&mut queue, now).len(), 25, "the burst of three more");
    queue.set_limits(&limits, quarter, now);
    assert_eq!(sendable(&mut queue, now).len(), 0);
    now += SECOND;
    assert_eq!(sendable(&mut queue, now).len(), 5);
}

#[test]
fn at_the_bound_it_is_full_until_half_is_left() {
    for (bytes, count) in [(0, WRITES_WAITING_MAX), (3 << 20, 6)] {
        let mut queue = queue();
        let mut now = Moment::ZERO;
        let limits = Limits {
            writes_in_flight: 10_000,
            writes_per_second: 1_000_000,
            ..Limits::default()
        };
        queue.set_limits(&limits, LimitShare::WHOLE, now);
        for number in 0..count {
            assert!(!queue.is_full());
            queue.commit("a", vec![write_of(&format!("pod-{number}"), bytes)]);
        }
        assert!(queue.is_full());
        let mut ended = 0;
        while queue.is_full() {
            now += SECOND;
            for (number, _) in sendable(&mut queue, now).into_iter().take(1) {
                queue.ended(number, WriteEnd::Done, now);
                ended += 1;
            }
            for number in 0..count as u64 {
                if queue.is_full() && queue.in_flight > 0 && queue.ended(number, WriteEnd::Done, now).is_some() {
                    ended += 1;
                }
            }
        }
        assert!(ended > count / 2, "{ended} of {count}");
        assert!(ended <= count / 2 + 1, "{ended} of {count}");
    }
}

#[test]
fn nothing_starts_after_its_end() {
    let mut queue = queue();
    let now = Moment::ZERO;
    queue.commit("a", vec![write("x"), write("y")]);
    queue.end_at(now + SECOND);
    queue.end_at(now + 2 * SECOND);
    assert_eq!(sendable(&mut queue, now).len(), 1);
    assert_eq!(queue.ended(0, WriteEnd::Done, now), None);
    assert!(matches!(queue.next(now + SECOND), NextWrite::Idle));
    assert!(!queue.is_empty(), "the event is not acknowledged");
}
