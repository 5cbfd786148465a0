//! `informant plugin list | pause | resume | restart`: inspects and manages the plugins of a running daemon.

mod merge;
mod wide;

pub(super) use merge::merged;
pub(super) use wide::bytes;

use std::io::{self, Write};

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::json;

use super::client::{AdminArgs, ShardArgs, escape};
use super::table::{self, or_dash};
use super::{Exit, output};
use crate::admin::{Paused, PluginView, Plugins, Restarted, Resumed, remarks};
use crate::runbooks;

/// `informant plugin list`.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "table")]
    output: ListFormat,
    #[command(flatten)]
    shard: ShardArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Output formats of `informant plugin list`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ListFormat {
    /// State, pending events and failures.
    Table,
    /// What each plugin costs: CPU time, memory, requests to the API server, effects.
    Wide,
    /// The JSON of the admin API.
    Json,
}

/// `informant plugin pause`, `resume` and `restart`.
#[derive(Debug, Args)]
pub(super) struct NameArgs {
    /// Plugin name, as in the configuration
    name: String,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people.
    Table,
    /// The JSON of the admin API.
    Json,
}

pub(super) fn list(args: &ListArgs) -> Result<Exit> {
    args.admin.with_clients(async |mut clients| {
        clients.select(&args.shard).await?;
        let answers = clients.ask(async |client| client.read::<Plugins>("/api/v1/plugins").await);
        let answers = answers.await?;
        let exit = answers.warn();
        let plugins = Plugins {
            items: merged(answers.into_parts(|plugins| plugins.items)),
        };
        match args.output {
            ListFormat::Json => output::json(&plugins)?,
            _ if plugins.items.is_empty() => output::note("No plugins."),
            ListFormat::Wide => output::to_stdout(|out| wide::show(out, &plugins.items))?,
            ListFormat::Table => output::to_stdout(|out| show(out, &plugins.items))?,
        }
        Ok(exit)
    })
}

pub(super) fn pause(NameArgs { name, admin }: &NameArgs) -> Result<Exit> {
    admin.with_clients(async |mut clients| {
        let path = path(name, "pause");
        let answers = clients.ask(async |client| client.post::<Paused>(&path, &json!({})).await);
        let answers = answers.await?;
        let (exit, within) = (answers.warn_of_action(), answers.in_replicas());
        output::done(&match answers.items.iter().any(|item| item.answer.paused) {
            true => format!("plugin/{name} paused{within}"),
            false => format!("plugin/{name} is paused already{within}"),
        })?;
        Ok(exit)
    })
}

pub(super) fn resume(NameArgs { name, admin }: &NameArgs) -> Result<Exit> {
    admin.with_clients(async |mut clients| {
        let path = path(name, "resume");
        let answers = clients.ask(async |client| client.post::<Resumed>(&path, &json!({})).await);
        let answers = answers.await?;
        let exit = answers.warn_of_action();
        output::done(&match answers.items.iter().any(|item| item.answer.resumed) {
            true => format!("plugin/{name} resumed{}", answers.in_replicas()),
            false => {
                format!("plugin/{name} is neither paused nor in quarantine, and no call is spaced; nothing to resume")
            }
        })?;
        Ok(exit)
    })
}

pub(super) fn restart(NameArgs { name, admin }: &NameArgs) -> Result<Exit> {
    admin.with_clients(async |mut clients| {
        let path = path(name, "restart");
        let answers = clients.ask(async |client| client.post::<Restarted>(&path, &json!({})).await);
        let answers = answers.await?;
        let exit = answers.warn_of_action();
        output::done(&match answers.items.iter().all(|item| item.answer.paused) {
            false => format!("plugin/{name} restarted{}", answers.in_replicas()),
            true => format!("plugin/{name} is paused, and gets a new instance when it is resumed"),
        })?;
        Ok(exit)
    })
}

/// The path of a command, or of what is known of a plugin.
pub(super) fn path(name: &str, verb: &str) -> String {
    let mut path = String::from("/api/v1/plugins/");
    escape(name, b"", &mut path);
    path + "/" + verb
}

/// Prints the table, and below it one line per problem.
pub(super) fn show(out: &mut dyn Write, plugins: &[PluginView]) -> io::Result<()> {
    let headings = [
        "PLUGIN",
        "STATE",
        "INSTANCES",
        "PENDING",
        "OLDEST",
        "DEAD",
        "RESTARTS",
        "RELOAD",
        "INFORMERS",
    ];
    table::write(out, headings, plugins.iter().map(row))?;
    show_timers(out, plugins)?;
    plugins
        .iter()
        .flat_map(problems)
        .try_for_each(|line| output::line(out, &line))
}

fn row(plugin: &PluginView) -> [String; 9] {
    let loaded = plugin.loaded.as_ref();
    let number = |read: fn(&crate::admin::LoadedView) -> String| or_dash(loaded, read);
    [
        plugin.name.clone(),
        plugin.state.clone(),
        number(|loaded| loaded.instances.to_string()),
        number(|loaded| loaded.pending.to_string()),
        or_dash(loaded.and_then(|loaded| loaded.oldest_pending_ms), table::duration),
        number(|loaded| loaded.dead_letters.to_string()),
        number(|loaded| loaded.restarts.to_string()),
        or_dash(loaded.and_then(|loaded| loaded.last_reload.as_ref()), |reload| {
            format!("{} {} ago", reload.result, table::ago(reload.age_ms))
        }),
        plugin.informers.join(","),
    ]
}

/// The table of timers, if there are any.
fn show_timers(out: &mut dyn Write, plugins: &[PluginView]) -> io::Result<()> {
    let timers = plugins.iter().flat_map(|plugin| {
        let timers = plugin.loaded.iter().flat_map(|loaded| &loaded.timers);
        timers.map(move |timer| {
            let last = timer.last.as_ref().map(|last| match timer.last_succeeded {
                Some(false) => format!("{last} (given up)"),
                _ => last.clone(),
            });
            [
                plugin.name.clone(),
                timer.name.clone(),
                timer.schedule.clone(),
                or_dash(last, |last| last),
                or_dash(timer.next.clone(), |next| next),
            ]
        })
    });
    let mut timers = timers.peekable();
    if timers.peek().is_some() {
        writeln!(out)?;
    }
    table::write(out, ["PLUGIN", "TIMER", "SCHEDULE", "LAST", "NEXT"], timers)
}

/// One line for each remark, and one for each of its details.
fn problems(plugin: &PluginView) -> Vec<String> {
    let name = &plugin.name;
    let mut lines = Vec::new();
    lines.extend(plugin.because.as_ref().map(|why| {
        format!(
            "{name} is {}: {why}{}",
            plugin.state,
            runbooks::hint(plugin.code.as_deref())
        )
    }));
    if plugin.state == "quarantined" {
        lines.push(format!("`informant plugin resume {name}` ends the quarantine"));
    }
    for remark in remarks(plugin) {
        let command = remark.command.as_ref().map(|command| format!(" ({command})"));
        let (command, hint) = (command.unwrap_or_default(), runbooks::hint(remark.code));
        lines.push(format!("{}{command}{hint}", remark.sentence()));
        lines.extend(remark.details.iter().map(|detail| format!("  {detail}")));
    }
    lines
}
