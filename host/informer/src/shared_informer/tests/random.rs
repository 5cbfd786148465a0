//! Random writes and faults: store, handlers and cluster end up equal, and the order per key holds.

use std::collections::BTreeMap;
use std::time::Duration;

use informant_apiserver::{Action, Answer, Ending, Filter, Rule};
use informant_cache::Environment;

use crate::testing::{Rig, api_server, by_watch_list, pass, put, settle};
use crate::{TokioEnvironment, WatchListUse};

/// Applies the calls of a handler, and fails on wrong ones.
pub(super) fn replay(lines: &[String]) -> BTreeMap<String, String> {
    let mut view: BTreeMap<String, String> = BTreeMap::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        match words[0] {
            "add" => assert!(
                view.insert(words[1].to_owned(), String::new()).is_none(),
                "{line}: it is there already"
            ),
            "update" => {
                let (old, new) = words[2].split_once("->").expect("two states");
                let before = view
                    .insert(words[1].to_owned(), new.to_owned())
                    .expect("what is updated is there");
                assert!(before.is_empty() || before == old, "{line}: it was at {before}");
            }
            "delete" => assert!(view.remove(words[1]).is_some(), "{line}: it is not there"),
            _ => {}
        }
    }
    view
}

fn write(rig: &Rig, draw: u64) {
    let name = format!("pod-{}", draw % 12);
    match draw >> 8 & 7 {
        0 | 1 => drop(rig.server.delete("v1/pods", "default", &name)),
        _ => put(&rig.server, &name, draw >> 16 & 0xffff),
    }
}

fn fault(rig: &Rig, draw: u64) {
    let faults = rig.server.faults();
    let watches = Filter::any().verb("watch");
    match draw % 11 {
        0 => drop(faults.drop_watches(&watches, Ending::Clean)),
        1 => drop(faults.drop_watches(&watches, Ending::Reset)),
        2 => drop(faults.drop_watches(&watches, Ending::MidLine)),
        3 => drop(faults.drop_watches(&watches, Ending::Expired)),
        4 => faults.compact(),
        5 => drop(faults.restart(Duration::from_millis(draw >> 8 & 0xfff), draw & 0x80 == 0)),
        6 => faults.answer(Filter::any().verb("list"), 1, Answer::internal_error()),
        // Half a list, or half of the initial events.
        9 => cut_next(rig, draw >> 8 & 0x7ff),
        10 => faults.answer(watches, 1, Answer::expired()),
        7 => faults.answer(watches, 1, Answer::too_many_requests(1)),
        _ => faults.answer(Filter::any().verb("list"), 1, Answer::expired()),
    }
}

fn cut_next(rig: &Rig, bytes: u64) {
    rig.server.faults().rule(Rule {
        filter: Filter::any(),
        times: Some(1),
        action: Action::CutBodyBytes(usize::try_from(bytes).expect("a few thousand")),
    });
}

/// One run, by LIST or by WatchList; returns the handler's calls.
async fn run(seed: u64) -> Vec<String> {
    let random = TokioEnvironment::current(seed);
    let server = api_server();
    let rig = match seed.is_multiple_of(2) {
        true => Rig::start(&server),
        false => Rig::start_with(&server, by_watch_list()),
    };
    assert_eq!(
        rig.informer.status().watch_list == WatchListUse::Off,
        seed.is_multiple_of(2)
    );
    let recorder = rig.record();
    for _ in 0..60 {
        for _ in 0..random.random() % 8 {
            write(&rig, random.random());
        }
        if random.random().is_multiple_of(4) {
            fault(&rig, random.random());
        }
        tokio::time::sleep(Duration::from_millis(random.random() % 1_500)).await;
    }
    server.faults().clear();
    // Longer than any pause of the back-off.
    pass(120).await;
    assert_eq!(rig.stored(), rig.truth(), "seed {seed}");
    let calls = recorder.take();
    let view: Vec<_> = replay(&calls).into_keys().collect();
    assert_eq!(view, rig.names(), "seed {seed}");
    settle().await;
    calls
}

#[tokio::test(start_paused = true)]
async fn random_writes_and_faults_converge() {
    for seed in 0..40 {
        run(seed).await;
    }
}

#[test]
fn the_same_seed_gives_the_same_events() {
    let story = |seed| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().expect("a runtime");
        runtime.block_on(run(seed))
    };
    assert_eq!(story(11), story(11));
    assert_ne!(story(11), story(12));
}
