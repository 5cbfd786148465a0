//! Metrics of the replicas, collected at scrape time: whether this one acts, and what it sees of the others.

use std::fmt;

use informant_cache::{Catalog, Division, Environment, Moment, SHARDS_MAX, ShardSet};
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
    of_shards(&group, environment.boot_now(), encoder)?;
    shard_objects(registry.catalog(), group.layout.division, encoder)?;
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
    let help = "Sightings of Leases of replicas that were ignored because there are too many";
    counter(encoder, "lease_members_ignored", help, group.ignored)
}

fn of_shards(group: &GroupStatus, now: Moment, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let division = group.layout.division;
    let in_force = group.shards.iter().filter(|shard| shard.shard < division.shards);
    let (held, without) = in_force.fold((0, 0), |(held, without), shard| {
        let is_own = shard.holder.as_ref() == Some(&group.identity);
        (held + u64::from(is_own), without + u64::from(shard.holder.is_none()))
    });
    let help = "Shards into which the work is divided";
    gauge(encoder, "shards", help, division.shards.into())?;
    let help = "Shards whose Leases this replica holds";
    gauge(encoder, "shards_held", help, held)?;
    let help = "Shards whose Leases no live replica holds";
    gauge(encoder, "shards_without_holder", help, without)?;
    let help = "1 while the replicas change to another number of shards, otherwise 0";
    gauge(encoder, "shards_changing", help, group.next_layout.is_some().into())?;
    let live = group.members.iter().filter(|member| member.is_live(now));
    let others = live.filter(|member| Division::parse(&member.record.layout) != Some(division));
    let help = "Replicas that are configured for another number of shards, or another hash, than those in force";
    gauge(encoder, "replicas_other_shards", help, others.count() as u64)
}

/// How many objects each shard of this replica has, in all caches that are divided: at most [`SHARDS_MAX`] series.
///
/// Visits every key, which takes some 10 ms for 200,000 objects. So nothing is counted unless there are several shards.
fn shard_objects(catalog: &Catalog, division: Division, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    if division.shards < 2 {
        return Ok(());
    }
    let (mut shards, mut objects) = (ShardSet::default(), [0_u64; SHARDS_MAX as usize]);
    let informers = catalog.informers();
    for source in informers.iter().flat_map(|informer| catalog.sources_of(informer)) {
        let snapshot = source.snapshot();
        // It is divided as before until the replica holds shards of the layout in force.
        let Some(filter) = snapshot.shards().filter(|filter| filter.division == division) else {
            continue;
        };
        shards = shards.iter().chain(filter.shards.iter()).collect();
        for object in snapshot.iter() {
            if let Some(count) = objects.get_mut(usize::from(filter.shard_of(object.key()))) {
                *count += 1;
            }
        }
    }
    let help = "Objects in the caches of this replica, by shard: those of the informers that are divided";
    let mut family = encoder.encode_descriptor("shard_objects", help, None, MetricType::Gauge)?;
    for (shard, count) in (0..).zip(objects).filter(|(shard, _)| shards.contains(*shard)) {
        ConstGauge::new(signed(count)).encode(family.encode_family(&[("shard", shard)])?)?;
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use informant_cache::{ShardBy, ShardFilter, ShardHash, SourceInfo, StoreWriter};
    use informant_object::{Object, Shape};
    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::text;
    use prometheus_client::registry::Registry;

    use super::*;

    const DIVISION: Division = Division {
        shards: 8,
        hash: ShardHash::Mixed,
    };

    #[derive(Debug)]
    struct Counted(Catalog);

    impl Collector for Counted {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            shard_objects(&self.0, DIVISION, &mut encoder)
        }
    }

    fn filter(division: Division, shards: &[u8]) -> ShardFilter {
        ShardFilter {
            division,
            by: ShardBy::Namespace,
            shards: shards.iter().copied().collect(),
        }
    }

    /// A source with one pod in each of 20 namespaces, unless it leaves out their shard.
    fn add_source(catalog: &Catalog, informer: &str, filter: Option<ShardFilter>) {
        let id = catalog.add_source(SourceInfo {
            informer: informer.to_owned(),
            cluster: String::new(),
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            resource: "v1/pods".to_owned(),
            namespace: None,
            namespaced: true,
            partial: false,
        });
        let mut writer = StoreWriter::publishing_to(catalog, id).unwrap();
        writer.set_shards(filter);
        for team in 0..20 {
            let json = format!(r#"{{"metadata":{{"namespace":"team-{team}","name":"web","resourceVersion":"1"}}}}"#);
            let object = Object::parse(json.as_bytes(), &Shape::of("v1", "Pod")).unwrap();
            if filter.is_none_or(|filter| filter.includes(object.key())) {
                writer.add(object);
            }
        }
        writer.publish();
    }

    #[test]
    fn objects_are_counted_by_shard_over_divided_caches() {
        let (catalog, held) = (Catalog::new(), filter(DIVISION, &[2, 5]));
        add_source(&catalog, "pods", Some(held));
        add_source(&catalog, "configmaps", Some(held));
        add_source(&catalog, "of-all-shards", None);
        let before = Division { shards: 4, ..DIVISION };
        add_source(&catalog, "of-another-layout", Some(filter(before, &[0, 1])));
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Counted(catalog)));
        let mut shown = String::new();
        text::encode(&mut shown, &registry).unwrap();
        let series: Vec<&str> = shown.lines().filter(|line| !line.starts_with('#')).collect();
        let wanted = [2, 5].map(|shard| {
            let teams = (0..20).filter(|team| DIVISION.shard_of(&format!("team-{team}")) == shard);
            format!("shard_objects{{shard=\"{shard}\"}} {}", 2 * teams.count())
        });
        assert_eq!(series, wanted);
    }
}
