//! Shards that move to this process and away from it.

use super::*;
use crate::{Division, KeptDelete, KeptDeletes, ShardBy, ShardFilter, ShardSet};

const DIVISION: Division = Division {
    shards: 2,
    hash: crate::ShardHash::Mixed,
};

fn filter(shards: &[u8]) -> ShardFilter {
    ShardFilter {
        division: DIVISION,
        by: ShardBy::NamespaceAndName,
        shards: set(shards),
    }
}

fn set(shards: &[u8]) -> ShardSet {
    shards.iter().copied().collect()
}

/// Names of objects, those of `shard` only.
fn names(shard: u8, count: usize) -> Vec<String> {
    let names = (0..).map(|number| format!("pod-{number}"));
    names
        .filter(|name| filter(&[]).shard_of(key(name)) == shard)
        .take(count)
        .collect()
}

/// A handler that holds these shards, of a source that has them.
fn holding(shards: &[u8]) -> Rig {
    let mut rig = Rig::bare(options());
    let held = HeldShards {
        division: DIVISION,
        shards: set(shards),
    };
    rig.listener.control().set_shards(Some(held));
    rig.store(PODS).set_shards(Some(filter(shards)));
    rig.attach(PODS);
    assert_eq!(rig.drain(), "synced initial\n");
    rig
}

fn gain(rig: &Rig, shard: u8, takeover: Takeover, kept: &KeptDeletes) {
    let gained = GainedShard {
        shard,
        takeovers: vec![(PODS, takeover)],
    };
    rig.listener.control().gain_shard(&gained, kept, rig.now);
}

/// The source lists other shards, with these objects that it did not have.
fn list(rig: &mut Rig, shards: &[u8], objects: &[Object]) {
    rig.store(PODS).set_shards(Some(filter(shards)));
    let mut changes = Vec::new();
    for object in objects {
        rig.store(PODS).add(object.clone());
        changes.push(ObjectChange {
            kind: ChangeKind::Add(object.clone()),
            reason: Reason::Takeover,
            received: rig.now,
        });
    }
    let (snapshot, now) = (rig.store(PODS).publish(), rig.now);
    rig.listener.feed().push(PODS, &snapshot, &changes);
    rig.listener.feed().shards_listed(PODS, &snapshot, now);
}

fn object(name: &str, version: u64) -> Object {
    state(name, &format!("uid-{name}"), version, 0)
}

const CONTINUES: Takeover = Takeover {
    watermark: Some(10),
    all_objects: false,
};

#[test]
fn lost_shard_is_called_no_more() {
    let mut rig = holding(&[0, 1]);
    let (lost, kept) = (names(1, 2), names(0, 1));
    rig.sets(&lost.join(" "), 1);
    rig.set(&kept[0], 1);
    assert_eq!(rig.take(), format!("add {}@1 watch", lost[0]));
    rig.listener.control().lose_shards(set(&[1]));
    assert_eq!(rig.listener.ledger().in_flight_elsewhere(), 1);
    rig.set(&lost[1], 2);
    assert_eq!(rig.take(), format!("add {}@1 watch", kept[0]));
    // The call that runs ends, and has no other one.
    rig.answer(retryable());
    assert_eq!(rig.listener.ledger().in_flight_elsewhere(), 0);
    rig.answer(DeliveryOutcome::Ok);
    rig.pass(seconds(3_600));
    assert_eq!(rig.take(), "idle");
    let stats = rig.stats();
    assert_eq!((stats.pending, stats.bytes, stats.counters.handed_over), (0, 0, 3));
}

#[test]
fn watermark_of_a_lost_shard_lacks_what_was_dropped() {
    let mut rig = holding(&[0, 1]);
    let (lost, kept) = (names(1, 2), names(0, 1));
    rig.set(&lost[0], 5);
    assert_eq!(rig.take(), format!("add {}@5 watch", lost[0]));
    rig.set(&lost[1], 7);
    rig.store(PODS).set_complete_through(Some(9));
    rig.set(&kept[0], 9);
    rig.listener.control().lose_shards(set(&[1]));
    let watermark = |rig: &Rig, shard| rig.listener.ledger().shard_watermark(PODS, shard);
    assert_eq!(watermark(&rig, 1), Some(4));
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!((watermark(&rig, 1), watermark(&rig, 0)), (Some(6), Some(8)));
    rig.drain();
    assert_eq!((watermark(&rig, 1), watermark(&rig, 0)), (Some(6), Some(9)));
}

#[test]
fn gained_shard_comes_with_its_list_then_synced() {
    let mut rig = holding(&[0]);
    let gained = names(1, 2);
    gain(&rig, 1, CONTINUES, &KeptDeletes::default());
    assert_eq!(rig.drain(), "");
    assert_eq!(rig.listener.ledger().shard_watermark(PODS, 1), None);
    list(&mut rig, &[0, 1], &[object(&gained[0], 10), object(&gained[1], 11)]);
    let expected = format!("add {}@11 takeover\nsynced takeover\n", gained[1]);
    assert_eq!(rig.drain(), expected);
}

#[test]
fn kept_deletes_of_a_gained_shard_come_first() {
    let mut rig = holding(&[0]);
    let gained = names(1, 3);
    gain(&rig, 1, CONTINUES, &KeptDeletes::default());
    let kept = |name: &str, version: u64| KeptDelete {
        key: Key::new("default", name),
        last: Some(object(name, version)),
        final_state_unknown: false,
        gone_by: Some(version),
        received: rig.now,
    };
    let kept = vec![kept(&gained[0], 9), kept(&gained[1], 12), kept(&names(0, 1)[0], 12)];
    rig.listener.feed().push_kept_deletes(PODS, kept, rig.now);
    list(&mut rig, &[0, 1], &[object(&gained[2], 13)]);
    // What lies under the watermark was delivered elsewhere, and the other shard was held before.
    let expected = format!(
        "delete {}@12 takeover\nadd {}@13 takeover\nsynced takeover\n",
        gained[1], gained[2]
    );
    let delivered = rig.drain();
    assert!(delivered.ends_with(&expected), "{delivered}");
}

#[test]
fn shard_that_returns_before_its_source_forgot_it_is_delivered() {
    let mut rig = holding(&[0, 1]);
    let names = names(1, 2);
    rig.sets(&names.join(" "), 11);
    rig.drain();
    rig.listener.control().lose_shards(set(&[1]));
    rig.set(&names[0], 12);
    rig.delete(&names[1]);
    assert_eq!(rig.drain(), "");
    let kept = KeptDeletes::default();
    kept.keep(Some(seconds(600)), rig.now);
    let last = object(&names[1], 13);
    kept.add(PODS, || KeptDelete {
        key: last.key().to_key(),
        last: Some(last.clone()),
        final_state_unknown: false,
        gone_by: Some(13),
        received: rig.now,
    });
    gain(&rig, 1, CONTINUES, &kept);
    let expected = format!(
        "delete {}@13 takeover\nadd {}@12 takeover\nsynced takeover\n",
        names[1], names[0]
    );
    assert_eq!(rig.drain(), expected);
    rig.set(&names[0], 14);
    assert_eq!(rig.drain(), format!("update {0}@12->14 watch\n", names[0]));
}

#[test]
fn cursor_passes_over_shards_of_others() {
    let mut rig = Rig::bare(options());
    let held = HeldShards {
        division: DIVISION,
        shards: set(&[0]),
    };
    rig.listener.control().set_shards(Some(held));
    rig.store(PODS).set_shards(Some(filter(&[0, 1])));
    let (own, others) = (names(0, 1), names(1, 1));
    for name in own.iter().chain(&others) {
        let object = object(name, 1);
        rig.store(PODS).add(object);
    }
    rig.attach(PODS);
    assert_eq!(rig.drain(), format!("add {}@1 initial\nsynced initial\n", own[0]));
    rig.listener.control().replay(rig.now);
    assert_eq!(rig.drain(), format!("add {}@1 replay\nsynced replay\n", own[0]));
}

#[test]
fn source_attached_later_begins_a_shard_as_it_was_gained() {
    let mut rig = Rig::bare(options());
    let held = HeldShards {
        division: DIVISION,
        shards: set(&[0]),
    };
    rig.listener.control().set_shards(Some(held));
    gain(&rig, 1, CONTINUES, &KeptDeletes::default());
    let names = names(1, 2);
    rig.store(PODS).set_shards(Some(filter(&[0, 1])));
    rig.store(PODS).add(state(&names[0], "uid-second", 12, 0));
    rig.store(PODS).add(object(&names[1], 9));
    // Its beginning was chosen before, for the other shard.
    let takeover = Takeover {
        watermark: Some(50),
        all_objects: false,
    };
    let kept = KeptDelete {
        key: Key::new("default", &names[0]),
        last: Some(state(&names[0], "uid-first", 60, 0)),
        final_state_unknown: false,
        gone_by: Some(60),
        received: rig.now,
    };
    let (snapshot, now) = (rig.store(PODS).publish(), rig.now);
    let resume = ResumeState::of_takeover(takeover, vec![kept]);
    rig.listener.feed().attach_resumed(PODS, &snapshot, resume, now);
    let name = &names[0];
    assert_eq!(
        rig.drain(),
        format!("delete {name}@60 takeover\nadd {name}@12 takeover\nsynced takeover\n")
    );
}

#[test]
fn source_divided_otherwise_delivers_with_its_next_list() {
    let mut rig = Rig::bare(options());
    let held = HeldShards {
        division: DIVISION,
        shards: set(&[0, 1]),
    };
    rig.listener.control().set_shards(Some(held));
    let divided_otherwise = ShardFilter {
        division: Division { shards: 4, ..DIVISION },
        by: ShardBy::NamespaceAndName,
        shards: set(&[0, 1, 2, 3]),
    };
    rig.store(PODS).set_shards(Some(divided_otherwise));
    let (names, gone) = (names(0, 2), &names(1, 1)[0]);
    for name in names.iter().chain([gone]) {
        rig.store(PODS).add(object(name, 11));
    }
    let kept = KeptDelete {
        key: Key::new("default", gone),
        last: Some(object(gone, 12)),
        final_state_unknown: false,
        gone_by: Some(12),
        received: rig.now,
    };
    let (snapshot, now) = (rig.store(PODS).publish(), rig.now);
    let resume = ResumeState::of_takeover(CONTINUES, vec![kept.clone()]);
    rig.listener.feed().attach_resumed(PODS, &snapshot, resume, now);
    assert_eq!(rig.drain(), "", "nothing of it is synced");
    rig.set(&names[0], 13);
    rig.delete(gone);
    assert_eq!(rig.drain(), "");
    rig.listener.feed().push_kept_deletes(PODS, vec![kept], rig.now);
    let received = rig.now;
    let unchanged = names.iter().zip([13, 11]).map(|(name, version)| ChangeKind::Update {
        old: object(name, version),
        new: object(name, version),
    });
    let changes = unchanged.map(|kind| ObjectChange {
        kind,
        reason: Reason::Takeover,
        received,
    });
    rig.store(PODS).set_shards(Some(filter(&[0, 1])));
    let (snapshot, now) = (rig.store(PODS).publish(), rig.now);
    rig.listener.feed().push(PODS, &snapshot, &changes.collect::<Vec<_>>());
    rig.listener.feed().shards_listed(PODS, &snapshot, now);
    let expected = format!(
        "delete {gone}@12 takeover\nadd {}@13 takeover\nadd {}@11 takeover\n",
        names[0], names[1]
    );
    let synced = "synced takeover\n".repeat(2);
    assert_eq!(rig.drain(), expected + &synced);
}

#[test]
fn first_list_ends_with_the_shards_that_it_lacks() {
    for is_lost in [false, true] {
        let mut rig = Rig::bare(options());
        let held = HeldShards {
            division: DIVISION,
            shards: set(&[0, 1]),
        };
        rig.listener.control().set_shards(Some(held));
        rig.store(PODS).set_shards(Some(filter(&[0])));
        let (here, later) = (&names(0, 1)[0], &names(1, 1)[0]);
        rig.store(PODS).add(object(here, 11));
        rig.store(PODS).publish();
        rig.attach(PODS);
        assert_eq!(rig.drain(), format!("add {here}@11 initial\n"));
        if is_lost {
            rig.listener.control().lose_shards(set(&[1]));
            assert_eq!(rig.drain(), "synced takeover\n");
        } else {
            list(&mut rig, &[0, 1], &[object(later, 12)]);
            assert_eq!(rig.drain(), format!("add {later}@12 takeover\nsynced takeover\n"));
        }
    }
}

#[test]
fn rolled_back_cluster_brings_what_was_accepted_before() {
    for is_rolled_back in [false, true] {
        let mut rig = holding(&[0]);
        gain(&rig, 1, CONTINUES, &KeptDeletes::default());
        let version = informant_object::ResourceVersion::new("9");
        rig.store(PODS).set_version(version, u64::from(is_rolled_back));
        let name = &names(1, 1)[0];
        list(&mut rig, &[0, 1], &[object(name, 5)]);
        let expected = if is_rolled_back {
            format!("add {name}@5 takeover\n")
        } else {
            String::new()
        };
        assert_eq!(rig.drain(), expected + "synced takeover\n");
    }
}
