//! The targets of Informant's figures.

use super::figure::Figure;
use super::results::Column;
use super::subject::Sync;

/// Memory has targets from this number of objects on: below it, the memory of the empty process dominates.
const MEMORY_TARGET_FROM: u32 = 100_000;

/// The maximum of peak memory divided by steady memory.
pub(super) const PEAK_RATIO_MAX: f64 = 1.4;

/// 99.9 % of the events must wait less than this for a swap.
pub(super) const SWAP_WAIT_US: f64 = 20_000.0;

/// The maximum share of intervals of a swap measurement that may be excluded because the machine itself stalled.
pub(super) const EXCLUDED_SHARE_MAX: f64 = 0.05;

/// Deferred writes per second, to an API server that takes 10 ms for each.
pub(super) const WRITES_PER_SECOND: f64 = 1_000.0;

/// Writes for one Website: its finalizer, three children and its status.
pub(super) const WEBSITE_WRITES: f64 = 5.0;

/// A restart takes less than this until the Websites are gone that were deleted meanwhile.
pub(super) const WEBSITE_RESTART_SECONDS: f64 = 1.0;

/// The maximum of the CPU and the memory for Websites, divided by those of Kopf.
pub(super) const CPU_BY_KOPF: f64 = 0.25;
pub(super) const MEMORY_BY_KOPF: f64 = 1.0 / 3.0;

/// The maximum of the memory and the CPU of ten handlers in one process, divided by those of ten controllers with
/// client-go.
pub(super) const TEN_MEMORY_BY_CLIENT_GO: f64 = 1.0 / 10.0;
pub(super) const TEN_CPU_BY_CLIENT_GO: f64 = 1.0 / 30.0;

/// What a pod of 5.5 KB takes of which the cache has only the head, without index entries.
pub(super) const SHED_POD_BYTES: f64 = 1_000.0;

/// The maximum of the lag's p99 of the namespaces next to one that attacks, divided by that before the attack.
pub(super) const ATTACK_LAG_RATIO: f64 = 2.0;

/// The maximum of the lag's p99 while the admin port is busy, divided by that while another server is as busy.
pub(super) const ADMIN_LAG_RATIO: f64 = 2.0;

/// An authorized `get` of one object takes less than this, with rights that are kept.
pub(super) const ADMIN_GET_US: f64 = 5_000.0;

/// By how much the memory may grow while the admin port is busy: 256 connections with TLS, and 16 answers.
pub(super) const ADMIN_GROWTH_BYTES: f64 = 64.0 * 1_048_576.0;

/// An answer of `why` takes at most this, with a full record.
pub(super) const WHY_MS: f64 = 20.0;

/// The files of the dashboard together, uncompressed.
pub(super) const DASHBOARD_BYTES: f64 = 120_000.0;

/// The first view of the dashboard with 200 plugins and 500 sources, and its longest task.
pub(super) const FIRST_VIEW_MS: f64 = 1_000.0;
pub(super) const PAGE_TASK_MS: f64 = 50.0;

/// What 20 clients of the dashboard's stream may add at 1,000 events per second.
pub(super) const STREAMS_CPU_PERCENT: f64 = 5.0;
pub(super) const STREAMS_LAG_MS: f64 = 1.0;

/// From the end of the replica that acts to the first call of its successor, at most: killed, killed with `speed =
/// "fast"`, and stopped in order without calls in flight.
pub(super) const TAKEOVER_SECONDS: f64 = 16.0;
pub(super) const FAST_TAKEOVER_SECONDS: f64 = 4.5;
pub(super) const HANDOVER_SECONDS: f64 = 1.0;

/// The maximum of the memory of the largest of four replicas that divide the objects, of the CPU of one until it is
/// synced, and of the same if the API server selects, divided by those of one process that has everything.
pub(super) const SHARD_MEMORY: f64 = 0.35;
pub(super) const SHARD_SYNC_CPU: f64 = 0.6;
pub(super) const RAW_SHARD_SYNC_CPU: f64 = 0.35;

/// The maximum of the CPU of a handled event, of two replicas together, divided by that of one.
pub(super) const SHARD_EVENT_CPU: f64 = 1.18;

/// From the kill of one of four replicas to the first calls for its shards, at most.
pub(super) const SHARD_SECONDS: f64 = 20.0;
pub(super) const FAST_SHARD_SECONDS: f64 = 8.0;

/// The maximum of a standby's memory, divided by that of the replica that acts.
pub(super) const STANDBY_MEMORY_RATIO: f64 = 1.05;

/// A call that a takeover repeats was made at most this long before the end of the replica that acted: it publishes
/// every second how far its handlers are.
pub(super) const WATERMARK_SECONDS: f64 = 2.0;

/// By how much later an event with `kv` may end if it is kept in Secrets instead of a file.
pub(super) const SHARED_LATER_SECONDS: f64 = 0.25;

/// The minimum rate of these events, divided by that with a file. It is to be no lower; the figures of two runs
/// differ by some percent.
pub(super) const SHARED_RATE_RATIO: f64 = 0.95;

/// The maximum of the lag's p99 divided by that of kube-rs.
const LAG_BY_KUBE_RS: f64 = 1.2;

/// The maximum of Informant's figure divided by that of an earlier commit.
pub(super) const AGAINST_BASE: [(Figure, f64); 4] = [
    (Figure::Sync, 1.03),
    (Figure::Relist, 1.03),
    (Figure::Burst, 1.03),
    (Figure::Single, 1.03),
];

/// The minimum ratio of `peer`'s figure to Informant's. None: there is no target.
pub(super) fn of(figure: Figure, peer: &Column) -> Option<f64> {
    let has_memory_target = peer.objects >= MEMORY_TARGET_FROM;
    match (figure, peer.program.as_str(), peer.sync) {
        (Figure::Sync, "client-go", Sync::List) => Some(8.0),
        // Its default.
        (Figure::Sync, "client-go", Sync::WatchList | Sync::Default) => Some(18.0),
        (Figure::Sync, "kube-rs", _) => Some(6.0),
        (Figure::Relist, "client-go", _) => Some(15.0),
        (Figure::Steady, "client-go", _) if has_memory_target => Some(3.5),
        (Figure::Steady, "kube-rs", _) if has_memory_target => Some(10.0),
        (Figure::Burst, "client-go", _) => Some(25.0),
        (Figure::Burst, "kube-rs", _) => Some(6.0),
        (Figure::LagP99, "kube-rs", _) => Some(1.0 / LAG_BY_KUBE_RS),
        _ => None,
    }
}

/// "met", or that it is not.
pub(super) const fn word(met: bool) -> &'static str {
    if met { "met" } else { "**not met**" }
}
