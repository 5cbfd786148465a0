use super::*;
use crate::admin::{ReplicaView, ShardView};

/// A group whose shards are held by these replicas; `informant-0` answers.
fn group(holders: &[Option<&str>]) -> ReplicasView {
    let replica = |number: usize| ReplicaView {
        name: format!("informant-{number}"),
        is_this: number == 0,
        acts: true,
        live: true,
        ready: true,
        version: String::new(),
        configuration: String::new(),
        differs: false,
        address: format!("10.0.0.{number}:8089"),
        seen_ms: 0,
    };
    let shard = |(number, holder): (usize, &Option<&str>)| ShardView {
        shard: u8::try_from(number).unwrap(),
        holder: holder.map(str::to_owned),
        standing: "standby".to_owned(),
        since_ms: None,
        reason: None,
        transitions: 1,
    };
    ReplicasView {
        items: (0..4).map(replica).collect(),
        shards: holders.iter().enumerate().map(shard).collect(),
        ..ReplicasView::default()
    }
}

fn part(replica: &str, held: &[u8], shards: u8) -> AnswerPart {
    AnswerPart {
        replica: replica.to_owned(),
        held: held.iter().copied().collect(),
        shards,
    }
}

fn asked(seen: &SeenShards, group: &ReplicasView) -> String {
    let others = seen.holders_of_lacking(group).into_iter();
    let names: Vec<_> = others
        .map(|other| format!("{} at {}", other.name, other.address))
        .collect();
    names.join(", ")
}

fn warnings(missing: Vec<MissingShards>) -> String {
    let answers = Answers::<()> {
        items: Vec::new(),
        missing,
    };
    let lines: Vec<_> = answers.missing.iter().map(|missing| missing.warning("…")).collect();
    lines.join("\n")
}

const ZERO: Option<&str> = Some("informant-0");
const ONE: Option<&str> = Some("informant-1");
const TWO: Option<&str> = Some("informant-2");

#[test]
fn only_holders_of_lacking_shards_are_asked() {
    let group = group(&[ZERO, ONE, ONE, TWO]);
    let seen = SeenShards::new(&part("informant-0", &[0, 3], 4));
    assert_eq!(asked(&seen, &group), "informant-1 at 10.0.0.1:8089");
    // Of a layout with another number of shards, it is not known which replica has which.
    let seen = SeenShards::new(&part("informant-0", &[0], 8));
    assert_eq!(
        asked(&seen, &group),
        "informant-1 at 10.0.0.1:8089, informant-2 at 10.0.0.2:8089, informant-3 at 10.0.0.3:8089"
    );
}

#[test]
fn holder_of_a_single_shard_is_asked() {
    let mut group = group(&[]);
    group.holder = ONE.map(str::to_owned);
    let seen = SeenShards::new(&part("informant-0", &[], 1));
    assert_eq!(asked(&seen, &group), "informant-1 at 10.0.0.1:8089");
}

#[test]
fn shards_without_an_answer_are_named_with_the_reason() {
    let group = group(&[ZERO, ONE, ONE, TWO, None, ZERO]);
    let mut seen = SeenShards::new(&part("informant-0", &[0], 6));
    seen.failed("informant-1".to_owned(), "connection refused".to_owned());
    seen.add(Some(&part("informant-2", &[3], 6)));
    insta::assert_snapshot!(warnings(seen.missing(&group)), @"
    warning: shard 4 did not answer: no holder now, `informant replicas` shows more; …
    warning: shard 5 (informant-0) did not answer: moving from one replica to another, try again; …
    warning: shards 1, 2 (informant-1) did not answer: connection refused; …
    ");
    insta::assert_snapshot!(warnings(seen.missing_without_holders("forbidden")), @"warning: shards 1, 2, 4, 5 did not answer: cannot find the replicas that hold them: forbidden; …");
}

#[test]
fn an_answer_without_a_part_has_everything() {
    let group = group(&[ZERO, ONE, TWO]);
    let mut seen = SeenShards::new(&part("informant-0", &[0], 3));
    seen.failed("informant-2".to_owned(), "connection refused".to_owned());
    seen.add(None);
    assert!(seen.missing(&group).is_empty());
    // Numbers of another layout are other shards.
    let mut seen = SeenShards::new(&part("informant-0", &[0], 3));
    seen.add(Some(&part("informant-1", &[1, 2], 4)));
    assert_eq!(seen.missing(&group).len(), 2);
}

#[test]
fn a_shard_on_the_command_line_selects_its_holder() {
    let refusal = |shard, group: &ReplicasView| holder_for(group, shard).unwrap_err().to_string();
    let divided = group(&[ZERO, ONE, None]);
    assert_eq!(holder_for(&divided, 1).unwrap().name, "informant-1");
    insta::assert_snapshot!(refusal(2, &divided), @"no replica holds shard 2 now; try again, `informant replicas` shows why");
    insta::assert_snapshot!(refusal(3, &divided), @"--shard 3: there are 3 shards, from 0 to 2");
    insta::assert_snapshot!(refusal(0, &group(&[])), @"--shard 0: the work is not divided into shards; `shards` in [ha] divides it");
}

#[test]
fn an_object_is_found_where_one_replica_has_it() {
    let not_found = || AdminError {
        code: Code::NotFound,
        message: "no object".to_owned(),
        fresh_as_of: None,
        missing_right: None,
    };
    let answers = |all: Vec<Result<u8>>| {
        let items = all.into_iter().map(|answer| Answer {
            replica: None,
            answer: or_not_found(answer).unwrap(),
        });
        Answers {
            items: items.collect(),
            missing: Vec::new(),
        }
    };
    let found = answers(vec![Err(not_found().into()), Ok(7)]);
    assert!(found.has_found());
    let found: Vec<u8> = found.found().unwrap().into_iter().map(|item| item.answer).collect();
    assert_eq!(found, [7]);
    let absent = answers(vec![Err(not_found().into())]);
    assert!(!absent.has_found() && absent.found().is_err());
    assert!(or_not_found::<u8>(Err(anyhow::anyhow!("cut off"))).is_err());
}
