//! What disturbs a run.

use std::time::Duration;

use informant_cache::{Division, Moment, ShardHash};

use super::rng::Rng;
use crate::times::LeaseTimes;
use crate::{Layout, TRANSITIONS_MAX};

/// The links of a host, and what else is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Requests do not arrive.
    CutToServer,
    /// Requests about Leases do not arrive; others do.
    LeasesCut,
    /// Requests arrive, answers and watches do not.
    CutFromServer,
    /// Each way takes up to this time; answers overtake each other.
    Slow,
    /// Requests work, but the watch delivers nothing.
    WatchStalls,
    /// The API server refuses access to Leases.
    Refused,
    /// The process is stopped, as by SIGSTOP or a sleeping machine. Its clock counts on.
    Paused,
    /// Its caches are not synced.
    NotReady,
}

const TROUBLES: [Trouble; 8] = [
    Trouble::CutToServer,
    Trouble::LeasesCut,
    Trouble::CutFromServer,
    Trouble::Slow,
    Trouble::WatchStalls,
    Trouble::Refused,
    Trouble::Paused,
    Trouble::NotReady,
];

/// What somebody does to the Lease of a shard by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edit {
    /// Names the process on this host as its holder.
    Holder(usize),
    /// Names a holder that does not exist.
    Stranger,
    /// Removes the holder.
    Empty,
    Duration(Duration),
    Transitions(u32),
    /// Changes an annotation.
    Note,
    /// Says that it belongs to another layout.
    Layout(Layout),
    Delete,
    /// Deletes the Lease of the member on this host.
    DeleteMember(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Begins, or ends.
    Trouble(usize, Trouble, bool),
    /// The process is gone; another one starts after this time.
    Kill(usize, Duration),
    /// The process is asked to stop; the next one has the newest version.
    Stop(usize, Duration),
    /// The API server answers 500 or 409 to some requests, although it may have done them. Begins, or ends.
    Errors(bool),
    /// The Lease of this shard.
    Edit(u8, Edit),
    /// All processes are replaced, one after another, by some that are configured for this.
    Configure(Division),
}

/// Whom a fault hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Host(usize),
    /// Whatever host acts when it begins.
    Holder,
}

/// A fault that is planned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    pub(super) at: Moment,
    pub(super) target: Target,
    pub(super) fault: Fault,
    /// When a fault that lasts ends.
    pub(super) lasts: Duration,
}

/// Faults of a seed; all begin between `from` and `to`.
pub(super) fn plan(
    rng: &mut Rng,
    (hosts, is_divided): (usize, bool),
    times: &LeaseTimes,
    from: Moment,
    to: Moment,
) -> Vec<Planned> {
    let count = 1 + rng.below(10);
    // Somebody who deletes all Leases at once while a holder is cut off and a process starts has two that act.
    let deletes_members = rng.percent(30);
    let mut faults = Vec::new();
    for _ in 0..count {
        let at = from + rng.up_to(to - from);
        let host = rng.below(hosts);
        let target = if rng.percent(50) {
            Target::Holder
        } else {
            Target::Host(host)
        };
        let most = if rng.percent(50) {
            times.duration * 3
        } else {
            times.renew_deadline
        };
        let lasts = rng.between(Duration::from_millis(100), most);
        let fault = match rng.below(10) {
            0 => Fault::Kill(host, rng.up_to(times.duration)),
            1 => Fault::Stop(host, rng.up_to(times.retry * 3)),
            2 => Fault::Errors(true),
            3 | 4 => {
                let shard = if is_divided { rng.below(4) as u8 } else { 0 };
                Fault::Edit(shard, edit(rng, hosts, deletes_members, is_divided))
            }
            5 if is_divided => Fault::Configure(division(rng)),
            _ => Fault::Trouble(host, TROUBLES[rng.below(TROUBLES.len())], true),
        };
        faults.push(Planned {
            at,
            target,
            fault,
            lasts,
        });
    }
    faults
}

/// A division with several shards, or none.
pub(super) fn division(rng: &mut Rng) -> Division {
    Division {
        shards: [1, 2, 3, 4, 8][rng.below(5)],
        hash: if rng.percent(50) {
            ShardHash::Mixed
        } else {
            ShardHash::Raw
        },
    }
}

fn edit(rng: &mut Rng, hosts: usize, deletes_members: bool, is_divided: bool) -> Edit {
    let host = rng.below(hosts);
    match rng.below(if is_divided { 9 } else { 8 }) {
        0 | 1 => Edit::Holder(host),
        2 => Edit::Stranger,
        3 => Edit::Empty,
        4 => Edit::Duration(Duration::from_secs([0, 1, 60][rng.below(3)])),
        5 => Edit::Transitions([0, 7, 1_000, TRANSITIONS_MAX - 1, TRANSITIONS_MAX, TRANSITIONS_MAX + 1][rng.below(6)]),
        6 => Edit::Note,
        8 => Edit::Layout(
            [
                Layout::WHOLE,
                Layout::WHOLE.next(Division::WHOLE),
                Layout::WHOLE.next(division(rng)).next(division(rng)),
            ][rng.below(3)],
        ),
        _ if deletes_members => Edit::DeleteMember(host),
        _ => Edit::Delete,
    }
}
