//! `informant replicas`: which replica acts, since when, and why not this one.

use std::io::{self, Write};

use anyhow::Result;
use clap::Args;

use super::client::AdminArgs;
use super::plugin::Format;
use super::table::{self, DASH};
use super::{Exit, output};
use crate::admin::{ReplicaView, ReplicasView, ShardView};
use crate::runbooks;

/// `informant replicas`.
#[derive(Debug, Args)]
pub(super) struct ReplicasArgs {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "table")]
    output: Format,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(super) fn run(args: &ReplicasArgs) -> Result<Exit> {
    args.admin.with_client(async |client| {
        let replicas: ReplicasView = client.read("/api/v1/replicas").await?;
        match args.output {
            Format::Json => output::json(&replicas)?,
            Format::Table => output::to_stdout(|out| show(out, &replicas))?,
        }
        Ok(Exit::Done)
    })
}

fn show(out: &mut dyn Write, replicas: &ReplicasView) -> io::Result<()> {
    let headings = [
        "REPLICA",
        "ACTS",
        "LEASE",
        "READY",
        "VERSION",
        "CONFIGURATION",
        "SEEN",
        "ADDRESS",
    ];
    table::write(out, headings, replicas.items.iter().map(row))?;
    if !replicas.shards.is_empty() {
        output::line(out, "")?;
        let headings = ["SHARD", "HOLDER", "THIS REPLICA", "ACQUIRED"];
        table::write(out, headings, replicas.shards.iter().map(shard_row))?;
    }
    summary(replicas).iter().try_for_each(|line| output::line(out, line))
}

fn row(replica: &ReplicaView) -> [String; 8] {
    let yes = |is: bool| if is { "yes" } else { DASH }.to_owned();
    let or_dash = |text: &String| if text.is_empty() { DASH } else { text }.to_owned();
    [
        replica.name.clone() + if replica.is_this { " (this)" } else { "" },
        yes(replica.acts),
        if replica.live { "renewed" } else { "expired" }.to_owned(),
        yes(replica.ready),
        or_dash(&replica.version),
        or_dash(&replica.configuration) + if replica.differs { " (differs)" } else { "" },
        format!("{} ago", table::ago(replica.seen_ms)),
        or_dash(&replica.address),
    ]
}

fn shard_row(shard: &ShardView) -> [String; 4] {
    let since = shard.since_ms.map(|since| format!(" for {}", table::ago(since)));
    [
        shard.shard.to_string(),
        shard.holder.clone().unwrap_or_else(|| DASH.to_owned()),
        format!("{}{}", shard.standing, since.unwrap_or_default()),
        match shard.transitions {
            1 => "once".to_owned(),
            times => format!("{times} times"),
        },
    ]
}

/// What the table does not say.
fn summary(replicas: &ReplicasView) -> Vec<String> {
    let for_how_long = replicas.since_ms.map(|since| format!(" for {}", table::ago(since)));
    let for_how_long = for_how_long.unwrap_or_default();
    let because = replicas.reason.as_ref().map(|reason| format!(": {reason}"));
    let because = because.unwrap_or_default();
    let mut lines = vec![match replicas.standing.as_str() {
        "acting" if replicas.reason.is_none() && replicas.shards.len() > 1 => own_shards(replicas),
        "standby" if acts_for_some(replicas) => own_shards(replicas),
        "alone" => "This process acts alone: its configuration has no section [ha].".to_owned(),
        "not-joined" => format!("This process has not joined its group{because}"),
        "acting" if replicas.reason.is_some() => {
            format!(
                "This replica holds the Lease {}{for_how_long}{because}",
                lease(replicas)
            )
        }
        "acting" => format!("This replica acts{for_how_long}, by the Lease {}.", lease(replicas)),
        "handing-over" => "This replica hands over to another one.".to_owned(),
        standing => format!("This replica is {standing}{for_how_long}{because}"),
    }];
    if let Some(layout) = &replicas.layout {
        let next = replicas.next_layout.as_ref();
        let next = next.map_or_else(String::new, |next| format!("; the replicas change to {next}"));
        let without = replicas.shards.iter().filter(|shard| shard.holder.is_none()).count();
        let without = match without {
            0 => String::new(),
            without => format!("; {without} without a holder"),
        };
        lines.push(format!(
            "The work is divided into {} shards (layout {layout}){without}{next}.",
            replicas.shards.len()
        ));
    }
    if replicas.lease.is_some() && replicas.holder.is_none() {
        let hint = runbooks::hint(Some(runbooks::NO_HOLDER.code));
        let named = replicas.named.as_ref();
        let named = named.map(|named| format!(", which names {named}: that is no live replica"));
        let named = named.unwrap_or_default();
        lines.push(format!(
            "No replica acts, by the Lease {}{named}{hint}",
            lease(replicas)
        ));
    }
    if let Some(other) = &replicas.other {
        let hint = runbooks::hint(Some(runbooks::TWO_PROCESSES.code));
        lines.push(format!(
            "Another process calls itself by the name of this replica: {other}{hint}"
        ));
    }
    if let Some(failure) = &replicas.failure {
        lines.push(format!("The Leases cannot be used: {failure}"));
    }
    lines
}

/// Whether it acts for shards, although not for the first one.
fn acts_for_some(replicas: &ReplicasView) -> bool {
    replicas.shards.iter().any(|shard| shard.standing == "acting")
}

/// Of several shards, those that this replica acts for.
fn own_shards(replicas: &ReplicasView) -> String {
    let acts = replicas.shards.iter().filter(|shard| shard.standing == "acting");
    let own: Vec<String> = acts.map(|shard| shard.shard.to_string()).collect();
    match own.as_slice() {
        [one] => format!("This replica acts for shard {one}."),
        several => format!("This replica acts for shards {}.", several.join(", ")),
    }
}

fn lease(replicas: &ReplicasView) -> &str {
    replicas.lease.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(name: &str) -> ReplicaView {
        ReplicaView {
            name: name.to_owned(),
            is_this: false,
            acts: false,
            live: true,
            ready: true,
            version: "0.1.0".to_owned(),
            configuration: "3f2a9c01b7de".to_owned(),
            differs: false,
            address: String::new(),
            seen_ms: 3_000,
        }
    }

    fn shown(replicas: &ReplicasView) -> String {
        let mut out = Vec::new();
        show(&mut out, replicas).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_standby_shows_who_acts_and_why_not_itself() {
        let replicas = ReplicasView {
            lease: Some("informant/informant".to_owned()),
            holder: Some("informant-0".to_owned()),
            transitions: 4,
            standing: "standby".to_owned(),
            since_ms: Some(90_000),
            reason: Some("it has not acted since it started; another process holds the Lease".to_owned()),
            items: vec![
                ReplicaView {
                    acts: true,
                    address: "10.0.0.7:8443".to_owned(),
                    ..replica("informant-0")
                },
                ReplicaView {
                    is_this: true,
                    ..replica("informant-1")
                },
                ReplicaView {
                    live: false,
                    ready: false,
                    differs: true,
                    configuration: "77aa01c2d3e4".to_owned(),
                    seen_ms: 600_000,
                    ..replica("informant-2")
                },
            ],
            ..ReplicasView::default()
        };
        insta::assert_snapshot!(shown(&replicas), @r"
        REPLICA              ACTS   LEASE     READY   VERSION   CONFIGURATION            SEEN      ADDRESS
        informant-0          yes    renewed   yes     0.1.0     3f2a9c01b7de             3s ago    10.0.0.7:8443
        informant-1 (this)   -      renewed   yes     0.1.0     3f2a9c01b7de             3s ago    -
        informant-2          -      expired   -       0.1.0     77aa01c2d3e4 (differs)   10m ago   -
        This replica is standby for 90s: it has not acted since it started; another process holds the Lease
        ");
    }

    #[test]
    fn shards_are_listed_with_their_holders() {
        let shard = |shard: u8, holder: Option<&str>, standing: &str| ShardView {
            shard,
            holder: holder.map(str::to_owned),
            standing: standing.to_owned(),
            since_ms: Some(61_000),
            reason: None,
            transitions: u32::from(shard) + 1,
        };
        let replicas = ReplicasView {
            lease: Some("informant/informant".to_owned()),
            holder: Some("informant-0".to_owned()),
            standing: "acting".to_owned(),
            since_ms: Some(61_000),
            items: vec![replica("informant-0")],
            layout: Some("1:3".to_owned()),
            next_layout: Some("2:8-raw".to_owned()),
            shards: vec![
                shard(0, Some("informant-0"), "acting"),
                shard(1, Some("informant-1"), "standby"),
                shard(2, None, "standby"),
            ],
            ..ReplicasView::default()
        };
        insta::assert_snapshot!(shown(&replicas), @r"
        REPLICA       ACTS   LEASE     READY   VERSION   CONFIGURATION   SEEN     ADDRESS
        informant-0   -      renewed   yes     0.1.0     3f2a9c01b7de    3s ago   -

        SHARD   HOLDER        THIS REPLICA      ACQUIRED
        0       informant-0   acting for 61s    once
        1       informant-1   standby for 61s   2 times
        2       -             standby for 61s   3 times
        This replica acts for shard 0.
        The work is divided into 3 shards (layout 1:3); 1 without a holder; the replicas change to 2:8-raw.
        ");
    }

    #[test]
    fn a_group_without_a_holder_names_the_runbook() {
        let replicas = ReplicasView {
            lease: Some("informant/informant".to_owned()),
            named: Some("leader-election-of-x".to_owned()),
            standing: "acquiring".to_owned(),
            since_ms: Some(200),
            other: Some("informant-1_00aa".to_owned()),
            failure: Some("the API server answers 403: forbidden".to_owned()),
            items: vec![replica("informant-1")],
            ..ReplicasView::default()
        };
        insta::assert_snapshot!(shown(&replicas), @r"
        REPLICA       ACTS   LEASE     READY   VERSION   CONFIGURATION   SEEN     ADDRESS
        informant-1   -      renewed   yes     0.1.0     3f2a9c01b7de    3s ago   -
        This replica is acquiring for 0s
        No replica acts, by the Lease informant/informant, which names leader-election-of-x: that is no live replica (informant explain no-holder)
        Another process calls itself by the name of this replica: informant-1_00aa (informant explain two-processes)
        The Leases cannot be used: the API server answers 403: forbidden
        ");
    }

    #[test]
    fn a_process_without_the_section_acts_alone() {
        let replicas = ReplicasView {
            standing: "alone".to_owned(),
            ..ReplicasView::default()
        };
        insta::assert_snapshot!(shown(&replicas), @"This process acts alone: its configuration has no section [ha].");
    }
}
