//! The model gives the figures of the documentation.

use super::*;

/// The planned one with other replicas and shards.
fn group(replicas: u32, shards: u8) -> Group {
    Group {
        replicas,
        shards,
        ..PLAN
    }
}

fn selected(replicas: u32) -> Group {
    Group {
        selects: true,
        ..group(replicas, SHARDS_MAX)
    }
}

fn is_near(value: f64, wanted: f64) -> bool {
    (value / wanted - 1.0).abs() < 1e-6
}

#[test]
fn leases_cost_what_the_documentation_says() {
    for (replicas, shards, writes, deliveries) in [
        (3, 1, 1.1, 3.3),
        (100, 1, 20.5, 2_050.0),
        (3, 12, 6.6, 19.8),
        (10, 40, 22.0, 220.0),
        (16, 64, 35.2, 563.2),
        (100, 64, 52.0, 5_200.0),
    ] {
        let group = group(replicas, shards);
        let (written, delivered) = (group.lease_writes(), group.lease_deliveries());
        assert!(is_near(written, writes), "{replicas} {shards}: {written}");
        assert!(is_near(delivered, deliveries), "{replicas} {shards}: {delivered}");
    }
    let mut fast = group(4, 8);
    fast.times = LeaseTimes::FAST;
    assert!(is_near(fast.lease_writes(), 0.75 * 4.0 + 1.25 * 8.0));
}

#[test]
fn memory_is_that_of_the_capacity_guide() {
    let cluster = Group {
        objects: 100_000,
        bytes_per_object: 6_000.0,
        sources: 5,
        ..group(1, 12)
    };
    assert!(is_near(cluster.memory_bytes(), 24e6 + 360e6 + 3.5e6));
    for (replicas, shards, share) in [(2, 12, 6.0 / 12.0), (3, 16, 6.0 / 16.0), (9, 40, 5.0 / 40.0)] {
        assert!(
            is_near(group(replicas, shards).equal_share(), share),
            "{replicas} {shards}"
        );
    }
}

#[test]
fn largest_share_is_between_the_equal_one_and_all() {
    for replicas in 1..=70 {
        for namespaces in [1, 10, 200, 10_000] {
            let mut group = group(replicas, SHARDS_MAX);
            group.namespaces = namespaces;
            let share = group.largest_share();
            let least = group.equal_share().max(1.0 / f64::from(namespaces));
            assert!((least..=1.0).contains(&share), "{replicas} {namespaces}: {share}");
        }
    }
    // Of `team-1` to `team-200`, 36 are in the largest of 8 shards.
    let mut eight = group(8, 8);
    eight.namespaces = 200;
    let namespaces = 200.0 * eight.largest_share();
    assert!((34.0..36.0).contains(&namespaces), "{namespaces}");
}

#[test]
fn replicas_above_the_shards_hold_nothing_and_receive_everything() {
    let (many, few) = (selected(1_000), selected(64));
    assert_eq!((many.candidates(), many.holders()), (256, 64));
    assert_eq!((many.shards_of_largest(), many.moves()), (1, 63));
    assert!(is_near(many.memory_bytes(), few.memory_bytes()));
    assert!(is_near(few.events_sent(), 10_000.0));
    assert!(is_near(many.events_sent(), 937.0 * 10_000.0));
    assert!(is_near(group(1_000, 64).events_sent(), 1_000.0 * 10_000.0));
}

#[test]
fn lists_lack_what_is_known_or_selected() {
    let whole = group(16, 64).lists_after_kill().unwrap();
    assert!(is_near(whole.bytes, 4.0 * 59e9), "{whole:?}");
    assert!(is_near(whole.seconds.unwrap(), 590.0), "{whole:?}");
    // 400 of 10,000 namespaces are left out: more than one of 64 replicas keeps.
    let most = group(64, 64).lists_after_kill().unwrap();
    assert!(is_near(most.bytes, 59e9 * 0.96), "{most:?}");
    let few = Group {
        namespaces: 300,
        ..group(16, 64)
    };
    let after = Group { replicas: 15, ..few };
    let own = few.lists_after_kill().unwrap();
    assert!(is_near(own.bytes, 4.0 * 59e9 * after.largest_share()), "{own:?}");
    let parts = selected(16).lists_after_kill().unwrap();
    assert!((19e9..21e9).contains(&parts.bytes), "{parts:?}");
    assert!(parts.seconds.is_some_and(|seconds| (49.0..51.0).contains(&seconds)));
    assert!(group(1, 64).lists_after_kill().is_none());
}

#[test]
fn time_to_equal_shares_counts_hand_overs_and_no_lists() {
    assert!(is_near(group(1, 64).equal_shares_seconds(), 1.0));
    assert!(is_near(group(4, 8).equal_shares_seconds(), 11.3));
    assert_eq!(group(64, 64).rebalanced_seconds(), None);
    assert!(is_near(selected(64).rebalanced_seconds().unwrap(), 14.15 + 59.0));
}

#[test]
fn table_has_the_figures_of_the_documentation() {
    let table = table();
    for row in [
        "| replicas | 1 | 4 | 16 | 64 | 1,000 |",
        "| memory of the largest | 35.4 GB | 9.1 GB | 2.4 GB | 704 MB | 704 MB |",
        "| events sent a second, selected | 10,000 | 10,000 | 10,000 | 10,000 | 9,370,000 |",
        "| deliveries of them a second | 32 | 131 | 563 | 2,867 | 232,000 |",
        "| kill to first calls, selected | – | 222 s | 65 s | 36 s | 26 s |",
    ] {
        assert!(table.lines().any(|line| line == row), "{row}\n{table}");
    }
}

#[test]
fn measured_figures_are_divided_by_computed_ones() {
    let mut measured = Measured::new(8, 200_000, 200);
    measured.whole_seconds = Some(5.0);
    measured.equal_shares.push((4, 22.6));
    measured.kills.push(Kill {
        replicas: 4,
        objects: 200_000,
        selects: false,
        is_fast: true,
        seconds: 14.02,
    });
    let lines: Vec<String> = compare(&measured).iter().map(Comparison::line).collect();
    // Two replicas list their 0.426 at the same time: 4 + 0.02 + 2 × 0.426 × 5.
    for (line, wanted) in lines.iter().zip([
        "computed 11.30, measured 22.60, ratio 2.00",
        "computed 8.28, measured 14.02, ratio 1.69",
    ]) {
        assert!(line.ends_with(wanted), "{line}");
    }
    assert_eq!(lines.len(), 2);
}
