//! What is asked of Informant's figures.

use super::figure::Figure;
use super::results::Column;
use super::subject::Sync;

/// From how many objects on memory is judged: below, what an empty process has blurs it.
const MEMORY_JUDGED_FROM: u32 = 100_000;

/// Peak memory by steady memory, at most.
pub(super) const PEAK_RATIO_MAX: f64 = 1.4;

/// How long 99.9 % of the events may wait for a swap, less than.
pub(super) const SWAP_WAIT_US: f64 = 20_000.0;

/// How many intervals may be left out of a measurement of swaps, because the machine itself stood still.
pub(super) const LEFT_OUT_SHARE_MAX: f64 = 0.05;

/// How much the p99 of the lag may be, by kube-rs'.
const LAG_BY_KUBE_RS: f64 = 1.2;

/// How often Informant's figure has to go into that of `peer`, at least. None: nothing is asked.
pub(super) fn of(figure: Figure, peer: &Column) -> Option<f64> {
    let judges_memory = peer.objects >= MEMORY_JUDGED_FROM;
    match (figure, peer.program.as_str(), peer.sync) {
        (Figure::Sync, "client-go", Sync::List) => Some(8.0),
        // Its default.
        (Figure::Sync, "client-go", Sync::WatchList | Sync::Default) => Some(18.0),
        (Figure::Sync, "kube-rs", _) => Some(6.0),
        (Figure::Relist, "client-go", _) => Some(15.0),
        (Figure::Steady, "client-go", _) if judges_memory => Some(3.5),
        (Figure::Steady, "kube-rs", _) if judges_memory => Some(10.0),
        (Figure::Burst, "client-go", _) => Some(25.0),
        (Figure::Burst, "kube-rs", _) => Some(6.0),
        (Figure::LagP99, "kube-rs", _) => Some(1.0 / LAG_BY_KUBE_RS),
        _ => None,
    }
}

/// "holds", or that it does not.
pub(super) const fn word(holds: bool) -> &'static str {
    if holds { "holds" } else { "**does not hold**" }
}
