//! The operations.

use proptest::prelude::*;

use crate::listener::tests::*;

/// Sources that are attached at one time or another; each rebuilt one gets a new id.
pub(super) const SOURCES: usize = 2;
pub(super) const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

#[derive(Clone, Debug)]
pub(super) enum Op {
    /// A batch of writes, published at once.
    Write(usize, Vec<Write>),
    Take(usize),
    /// Reports the outcome of the delivery in flight at this index.
    Answer(usize, Answer),
    GiveBack(usize),
    Pass(u64),
    Replay,
    Requeue(usize, usize),
    Pause(Pause),
    Resume(Pause),
    /// Attaches the source if it is not, and detaches it if it is.
    Toggle(usize),
    /// Sheds the objects of the source, or stores whole ones from now on.
    Shed(usize),
    /// Another number of lanes.
    Lanes(Lane),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Write {
    Set(usize),
    /// An unobserved delete and create: the store replaces one incarnation by another.
    Recreate(usize),
    Delete(usize, bool),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    Ok,
    Filtered,
    Retryable,
    RetryAfter,
    Permanent,
    Trapped,
    /// Another replica acts.
    Interrupted,
    /// Success, and a request for another call after this many milliseconds.
    RequeueAfter(u64),
}

fn any_write() -> impl Strategy<Value = Write> {
    let name = 0..NAMES.len();
    prop_oneof![
        6 => name.clone().prop_map(Write::Set),
        1 => name.clone().prop_map(Write::Recreate),
        3 => (name, any::<bool>()).prop_map(|(name, unknown)| Write::Delete(name, unknown)),
    ]
}

fn any_writes() -> impl Strategy<Value = Op> {
    (0..SOURCES, proptest::collection::vec(any_write(), 1..4)).prop_map(|(source, writes)| Op::Write(source, writes))
}

pub(super) const PAUSES: [Pause; 4] = [Pause::Swap, Pause::Quarantine, Pause::Operator, Pause::Standby];

fn any_pause() -> impl Strategy<Value = Pause> {
    (0..PAUSES.len()).prop_map(|at| PAUSES[at])
}

pub(super) fn any_op() -> impl Strategy<Value = Op> {
    let answer = prop_oneof![
        6 => Just(Answer::Ok),
        1 => Just(Answer::Filtered),
        2 => Just(Answer::Retryable),
        1 => Just(Answer::RetryAfter),
        1 => Just(Answer::Permanent),
        1 => Just(Answer::Trapped),
        1 => Just(Answer::Interrupted),
        3 => (0..3_000_u64).prop_map(Answer::RequeueAfter),
    ];
    prop_oneof![
        10 => any_writes(),
        10 => (1..4_usize).prop_map(Op::Take),
        12 => (0..8_usize, answer).prop_map(|(at, answer)| Op::Answer(at, answer)),
        1 => (0..8_usize).prop_map(Op::GiveBack),
        3 => (0..5_000_u64).prop_map(Op::Pass),
        1 => Just(Op::Replay),
        1 => (0..SOURCES, 0..NAMES.len()).prop_map(|(source, name)| Op::Requeue(source, name)),
        1 => any_pause().prop_map(Op::Pause),
        2 => any_pause().prop_map(Op::Resume),
        1 => (0..SOURCES).prop_map(Op::Toggle),
        1 => (0..SOURCES).prop_map(Op::Shed),
    ]
}

/// As [`any_op`], for a listener with lanes, whose number changes at times.
pub(super) fn any_laneed_op() -> impl Strategy<Value = Op> {
    prop_oneof![40 => any_op(), 1 => (1..5_u8).prop_map(Op::Lanes)]
}

/// Nothing fails, nothing is replayed, no source is detached.
pub(super) fn calm_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => any_writes(),
        6 => (1..4_usize).prop_map(Op::Take),
        8 => (0..8_usize, any::<bool>()).prop_map(|(at, ok)| Op::Answer(at, if ok { Answer::Ok } else { Answer::Filtered })),
        1 => (0..8_usize).prop_map(Op::GiveBack),
        1 => Just(Op::Pause(Pause::Swap)),
        2 => Just(Op::Resume(Pause::Swap)),
    ]
}
