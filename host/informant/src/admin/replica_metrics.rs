//! Metrics of the replicas, collected at scrape time: whether this one acts, and what it sees of the others.

use std::fmt;

use informant_cache::{Environment, Moment};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::daemon::{ReplicasStatus, StatusRegistry};
use crate::replicas::GroupStatus;

/// Adds the metrics of the replicas. Without `[ha]` there is one: whether this process acts, which it does.
pub(super) fn encode(
    registry: &StatusRegistry,
    environment: &dyn Environment,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let help = "1 while the plugins of this process act, otherwise 0: another replica does, or none";
    gauge(encoder, "acting", help, registry.acts_elsewhere().is_none().into())?;
    let (failing, joined) = match registry.replicas() {
        ReplicasStatus::Alone => return Ok(()),
        ReplicasStatus::NotJoined { .. } => (true, None),
        ReplicasStatus::Joined(group) => (group.failure.is_some(), Some(group)),
    };
    let help = "1 while this replica cannot reach, read or write the Leases of its group, otherwise 0";
    gauge(encoder, "lease_failing", help, failing.into())?;
    let Some(group) = joined else { return Ok(()) };
    of_group(&group, environment.boot_now(), encoder)?;
    let digest = registry.configuration().digest.clone();
    let live = group
        .members
        .iter()
        .filter(|member| member.is_live(environment.boot_now()));
    let help = "Replicas that run another config.toml than this one";
    let others = live.filter(|member| *member.record.digest != *digest).count();
    gauge(encoder, "replicas_other_configuration", help, others as u64)?;
    let help = "Positions in sources that do not fit into the Lease: what they cover comes again after a takeover";
    let left_out = registry.watermarks_left_out() as u64;
    gauge(encoder, "lease_watermarks_left_out", help, left_out)?;
    let kept = registry.catalog().kept_deletes().stats();
    let help = "Deletes that are kept for the case that this replica takes over";
    gauge(encoder, "kept_deletes", help, kept.deletes as u64)?;
    let help = "Bytes of the last states of these deletes";
    gauge(encoder, "kept_deletes_bytes", help, kept.bytes as u64)?;
    let help = "Deletes that were dropped because too many were kept: a takeover may lack them";
    counter(encoder, "kept_deletes_dropped", help, kept.dropped)?;
    let help = "Last states of deletes that were reduced to metadata at the byte limit";
    counter(encoder, "kept_deletes_cut", help, kept.cut)
}

fn of_group(group: &GroupStatus, now: Moment, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let live = group.members.iter().filter(|member| member.is_live(now));
    let (live, ready) = live.fold((0, 0), |(live, ready), member| {
        (live + 1, ready + u64::from(member.record.is_ready))
    });
    let help = "Replicas that this one sees, by state: those that renew their Lease, and those of them that could act";
    let mut family = encoder.encode_descriptor("replicas", help, None, MetricType::Gauge)?;
    for (state, number) in [("live", live), ("ready", ready)] {
        ConstGauge::new(signed(number)).encode(family.encode_family(&[("state", state)])?)?;
    }
    let help = "How often the Lease that says who acts was acquired";
    let transitions = group.content.as_ref().map_or(0, |content| content.transitions);
    gauge(encoder, "lease_transitions", help, transitions.into())?;
    let in_force = group
        .shards
        .iter()
        .filter(|shard| shard.shard < group.layout.division.shards);
    let (held, without) = in_force.fold((0, 0), |(held, without), shard| {
        let is_own = shard.holder.as_ref() == Some(&group.identity);
        (held + u64::from(is_own), without + u64::from(shard.holder.is_none()))
    });
    let help = "Shards into which the work is divided";
    gauge(encoder, "shards", help, group.layout.division.shards.into())?;
    let help = "Shards whose Leases this replica holds";
    gauge(encoder, "shards_held", help, held)?;
    let help = "Shards whose Leases no live replica holds";
    gauge(encoder, "shards_without_holder", help, without)?;
    let help = "1 while the replicas change to another number of shards, otherwise 0";
    gauge(encoder, "shards_changing", help, group.next_layout.is_some().into())?;
    let help = "Sightings of Leases of replicas that were ignored because there are too many";
    counter(encoder, "lease_members_ignored", help, group.ignored)
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(signed(value)).encode(metric)
}

fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    ConstCounter::new(value).encode(metric)
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
