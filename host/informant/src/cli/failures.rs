//! `informant plugin dead-letters | retries`: the events on which plugins failed, here or in other replicas.

use std::io::{self, Write};

use anyhow::Result;
use clap::Args;

use super::client::{AdminArgs, ShardArgs, escape};
use super::plugin::Format;
use super::requeue::joined;
use super::{Exit, output, table};
use crate::admin::{DeadLettersView, FailedEventView, RetriesView};

/// `informant plugin dead-letters`, `informant plugin retries`.
#[derive(Debug, Args)]
pub(super) struct FailuresArgs {
    /// Plugin name, as in the configuration [default: all plugins]
    name: Option<String>,
    /// Only objects of this resource: v1/pods, pods, Pod
    #[arg(long, value_name = "RESOURCE")]
    resource: Option<String>,
    /// Only objects in this namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Only objects in these clusters, named as in [cluster.NAME], separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    cluster: Vec<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "table")]
    output: Format,
    #[command(flatten)]
    shard: ShardArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

impl FailuresArgs {
    fn path(&self, of: &str) -> String {
        let cluster = joined(&self.cluster);
        let members = [
            ("plugin", &self.name),
            ("resource", &self.resource),
            ("namespace", &self.namespace),
            ("cluster", &cluster),
        ];
        let mut path = format!("/api/v1/{of}");
        let mut separator = '?';
        for (member, value) in members {
            if let Some(value) = value {
                path.push(separator);
                path.push_str(member);
                path.push('=');
                escape(value, b"", &mut path);
                separator = '&';
            }
        }
        path
    }
}

pub(super) fn dead_letters(args: &FailuresArgs) -> Result<Exit> {
    let path = args.path("dead-letters");
    args.admin.with_clients(async |mut clients| {
        clients.select(&args.shard).await?;
        let answers = clients.ask(async |client| client.read::<DeadLettersView>(&path).await);
        let answers = answers.await?;
        let exit = answers.warn();
        let letters = DeadLettersView {
            items: merged(answers.into_parts(|letters| letters.items)),
        };
        match args.output {
            Format::Json => output::json(&letters)?,
            Format::Table if letters.items.is_empty() => output::note("No dead letters."),
            Format::Table => output::to_stdout(|out| show(out, &letters.items))?,
        }
        Ok(exit)
    })
}

pub(super) fn retries(args: &FailuresArgs) -> Result<Exit> {
    let path = args.path("retries");
    args.admin.with_clients(async |mut clients| {
        clients.select(&args.shard).await?;
        let answers = clients.ask(async |client| client.read::<RetriesView>(&path).await);
        let answers = answers.await?;
        let exit = answers.warn();
        let retries = RetriesView {
            total: answers.items.iter().map(|item| item.answer.total).sum(),
            items: merged(answers.into_parts(|retries| retries.items)),
        };
        match args.output {
            Format::Json => output::json(&retries)?,
            Format::Table if retries.items.is_empty() => output::note("No objects under retry."),
            Format::Table => {
                output::to_stdout(|out| show(out, &retries.items))?;
                let more = retries.total.saturating_sub(retries.items.len());
                if more > 0 {
                    output::note(&format!("{more} more objects are under retry"));
                }
            }
        }
        Ok(exit)
    })
}

/// Those of all replicas in the order in which each has them: of each plugin the oldest first.
fn merged(parts: Vec<(Option<String>, Vec<FailedEventView>)>) -> Vec<FailedEventView> {
    let are_several = parts.len() > 1;
    let mut all: Vec<_> = parts
        .into_iter()
        .flat_map(|(replica, failures)| {
            failures.into_iter().map(move |failure| FailedEventView {
                replica: replica.clone(),
                ..failure
            })
        })
        .collect();
    if are_several {
        all.sort_by(|one, other| one.plugin.cmp(&other.plugin).then(other.age_ms.cmp(&one.age_ms)));
    }
    all
}

/// A table of failures of one kind. Columns that say the same of all, or nothing, are left out.
fn show(out: &mut dyn Write, failures: &[FailedEventView]) -> io::Result<()> {
    let with_cluster = failures
        .iter()
        .any(|failure| failure.cluster.as_ref().is_some_and(|name| !name.is_empty()));
    let with_next = failures.iter().any(|failure| failure.next_ms.is_some());
    let with_replica = failures.iter().any(|failure| failure.replica.is_some());
    let mut headings = vec!["PLUGIN"];
    headings.extend(with_replica.then_some("REPLICA"));
    headings.extend(with_cluster.then_some("CLUSTER"));
    headings.extend(["RESOURCE", "OBJECT", "EVENT", "RESULT", "ATTEMPTS", "AGE"]);
    headings.extend(with_next.then_some("NEXT"));
    headings.push("ERROR");
    let row = |failure: &FailedEventView| {
        let text = |value: &Option<String>| table::or_dash(value.clone(), |value| value);
        let mut row = vec![failure.plugin.clone()];
        row.extend(with_replica.then(|| text(&failure.replica)));
        row.extend(with_cluster.then(|| text(&failure.cluster)));
        row.extend([
            text(&failure.resource),
            object(failure),
            failure.event.clone(),
            failure.result.clone(),
            failure.attempts.to_string(),
            table::ago(failure.age_ms),
        ]);
        row.extend(with_next.then(|| match failure.next_ms {
            Some(0) | None => "its turn".to_owned(),
            Some(wait) => table::duration(wait),
        }));
        row.push(failure.error.lines().next().unwrap_or_default().to_owned());
        row
    };
    table::write_columns(out, &headings, failures.iter().map(row).collect())
}

/// `default/web-0`; a dash for the call after an initial list.
fn object(failure: &FailedEventView) -> String {
    let Some(name) = &failure.name else {
        return table::DASH.to_owned();
    };
    match failure.namespace.as_deref() {
        None | Some("") => name.clone(),
        Some(namespace) => format!("{namespace}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(resource: &str, cluster: &str, next_ms: Option<u64>) -> FailedEventView {
        FailedEventView {
            plugin: "greeter".into(),
            cluster: Some(cluster.into()),
            resource: Some(resource.into()),
            namespace: Some("default".into()),
            name: Some("same-name".into()),
            event: "add".into(),
            result: "permanent".into(),
            attempts: 3,
            error: "no such team\nat line 3".into(),
            age_ms: 12_000,
            next_ms,
            ..FailedEventView::default()
        }
    }

    fn shown(failures: &[FailedEventView]) -> String {
        let mut out = Vec::new();
        show(&mut out, failures).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn failures_of_one_name_differ_by_resource_and_cluster() {
        let letters = [
            failure("v1/configmaps", "", None),
            failure("v1/serviceaccounts", "", None),
        ];
        insta::assert_snapshot!(shown(&letters), @"
        PLUGIN    RESOURCE             OBJECT              EVENT   RESULT      ATTEMPTS   AGE   ERROR
        greeter   v1/configmaps        default/same-name   add     permanent   3          12s   no such team
        greeter   v1/serviceaccounts   default/same-name   add     permanent   3          12s   no such team
        ");
        let sync = FailedEventView {
            namespace: None,
            name: None,
            ..failure("v1/pods", "west", Some(0))
        };
        insta::assert_snapshot!(shown(&[failure("v1/pods", "east", Some(31_500)), sync]), @"
        PLUGIN    CLUSTER   RESOURCE   OBJECT              EVENT   RESULT      ATTEMPTS   AGE   NEXT       ERROR
        greeter   east      v1/pods    default/same-name   add     permanent   3          12s   31s        no such team
        greeter   west      v1/pods    -                   add     permanent   3          12s   its turn   no such team
        ");
    }

    #[test]
    fn failures_of_replicas_are_one_list_by_plugin_and_age() {
        let of = |plugin: &str, name: &str, age_ms: u64| FailedEventView {
            plugin: plugin.into(),
            name: Some(name.into()),
            age_ms,
            ..failure("v1/pods", "", None)
        };
        let merged = merged(vec![
            (
                Some("informant-0".into()),
                vec![
                    of("greeter", "a", 90_000),
                    of("greeter", "b", 12_000),
                    of("labeler", "c", 5_000),
                ],
            ),
            (
                Some("informant-1".into()),
                vec![of("greeter", "d", 61_000), of("labeler", "e", 70_000)],
            ),
        ]);
        insta::assert_snapshot!(shown(&merged), @"
        PLUGIN    REPLICA       RESOURCE   OBJECT      EVENT   RESULT      ATTEMPTS   AGE   ERROR
        greeter   informant-0   v1/pods    default/a   add     permanent   3          90s   no such team
        greeter   informant-1   v1/pods    default/d   add     permanent   3          61s   no such team
        greeter   informant-0   v1/pods    default/b   add     permanent   3          12s   no such team
        labeler   informant-1   v1/pods    default/e   add     permanent   3          70s   no such team
        labeler   informant-0   v1/pods    default/c   add     permanent   3          5s    no such team
        ");
    }
}
