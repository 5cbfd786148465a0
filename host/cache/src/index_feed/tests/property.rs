//! For any order of operations: an attached index equals a full recomputation, no waiting loop misses its wake-up, and
//! in the end every index is attached.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const WORDS: [&str; 6] = ["", "x", "y", "x y", "x y z", "y bad"];
const SOURCES: [SourceId; 2] = [PODS, NODES];

#[derive(Clone, Debug)]
enum Op {
    /// A batch: name and words of each object.
    Write(usize, Vec<(usize, usize)>),
    /// The loop's budget is used up, if it waits.
    Overrun(usize),
    /// The loop polls although nothing was written.
    Look(usize),
    Take(usize),
    /// Completes the worker's job at this index.
    Complete(usize),
    Load,
    Fail,
    Pass(u64),
}

fn any_op() -> impl Strategy<Value = Op> {
    let source = 0..SOURCES.len();
    prop_oneof![
        8 => (source.clone(), vec((0..NAMES.len(), 0..WORDS.len()), 1..4)).prop_map(|(source, batch)| Op::Write(source, batch)),
        3 => source.clone().prop_map(Op::Overrun),
        4 => source.prop_map(Op::Look),
        8 => (1..4_usize).prop_map(Op::Take),
        12 => (0..8_usize).prop_map(Op::Complete),
        2 => Just(Op::Load),
        1 => Just(Op::Fail),
        3 => (0..8_u64).prop_map(Op::Pass),
    ]
}

struct Run {
    feed: IndexFeedHandle,
    loops: Vec<Loop>,
    /// Which loops wait for values before they publish.
    waits: Vec<bool>,
    jobs: Vec<IndexJob>,
    now: Moment,
}

impl Run {
    fn new() -> Run {
        let feed = new_feed();
        let loops = SOURCES.iter().map(|source| Loop::new(*source, &feed)).collect();
        Run {
            feed,
            loops,
            waits: vec![false; SOURCES.len()],
            jobs: Vec::new(),
            now: Moment::ZERO,
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Write(source, batch) => {
                self.overrun(source);
                self.look(source);
                let batch: Vec<(&str, &str)> = batch
                    .iter()
                    .map(|(name, words)| (NAMES[*name], WORDS[*words]))
                    .collect();
                self.loops[source].write(&batch);
                self.waits[source] = self.loops[source].poll(self.now) == "computing";
            }
            Op::Overrun(source) => self.overrun(source),
            Op::Look(source) => self.look(source),
            Op::Take(max) => self.feed.next_batch(max, &mut self.jobs),
            Op::Complete(at) if !self.jobs.is_empty() => {
                let job = self.jobs.remove(at % self.jobs.len());
                complete(&self.feed, vec![job]);
            }
            Op::Complete(_) => {}
            Op::Load => self.feed.loaded(),
            Op::Fail => self.feed.failed("waits"),
            Op::Pass(seconds) => self.now += Duration::from_secs(seconds),
        }
        // A loop that waits does nothing else until it is woken.
        for source in 0..SOURCES.len() {
            let woken = self.loops[source].take_woken();
            if self.waits[source] {
                self.waits[source] = self.loops[source].poll(self.now) == "computing";
                assert!(woken || self.waits[source], "the loop was not woken");
            }
        }
    }

    fn overrun(&mut self, source: usize) {
        if std::mem::take(&mut self.waits[source]) {
            self.loops[source].overrun(self.now);
        }
    }

    fn look(&mut self, source: usize) {
        if !self.waits[source] {
            self.loops[source].backfill();
            let answer = self.loops[source].poll(self.now);
            assert_ne!(answer, "computing", "there was nothing to wait for");
        }
    }

    fn run_until_idle(&mut self) {
        self.apply(Op::Load);
        self.now += HOLD_MAX;
        for source in 0..SOURCES.len() {
            self.overrun(source);
            self.look(source);
        }
        complete(&self.feed, std::mem::take(&mut self.jobs));
        work(&self.feed);
        for pods in &mut self.loops {
            assert_eq!(pods.poll(self.now), "ready");
        }
    }
}

proptest! {
    #[test]
    fn an_attached_index_equals_a_full_recomputation(ops in vec(any_op(), 0..150)) {
        let mut run = Run::new();
        for op in ops {
            run.apply(op);
        }
        run.run_until_idle();
    }
}
