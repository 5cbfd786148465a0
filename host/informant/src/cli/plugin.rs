//! `informant plugin list | resume | requeue`: inspects and manages the plugins of a running daemon.

use std::io::{self, Write};

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::json;

use super::client::{AdminArgs, escape};
use super::table::{self, or_dash};
use super::{Exit, output};
use crate::admin::{PluginView, Plugins, RequeueRequest, Requeued, Resumed};

/// `informant plugin list`.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "table")]
    output: Format,
    #[command(flatten)]
    admin: AdminArgs,
}

/// `informant plugin resume`.
#[derive(Debug, Args)]
pub(super) struct ResumeArgs {
    /// Plugin name, as in the configuration
    name: String,
    #[command(flatten)]
    admin: AdminArgs,
}

/// `informant plugin requeue`.
#[derive(Debug, Args)]
pub(super) struct RequeueArgs {
    /// Plugin name, as in the configuration
    name: String,
    /// Redeliver this object, whether the plugin failed on it or not [default: all dead letters]
    #[arg(long, value_name = "NAMESPACE/NAME")]
    key: Option<String>,
    /// Redeliver all dead letters (the default)
    #[arg(long, conflicts_with = "key")]
    all: bool,
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
    args.admin
        .with_client(async |client| match client.read::<Plugins>("/api/v1/plugins").await? {
            Err(error) => Ok(output::refused(&error)),
            Ok(plugins) => {
                match args.output {
                    Format::Json => output::json(&plugins)?,
                    Format::Table if plugins.items.is_empty() => output::note("No plugins."),
                    Format::Table => output::to_stdout(|out| show(out, &plugins.items))?,
                }
                Ok(Exit::Done)
            }
        })
}

pub(super) fn resume(args: &ResumeArgs) -> Result<Exit> {
    let path = path(&args.name, "resume");
    let name = &args.name;
    args.admin
        .with_client(async |client| match client.post::<Resumed>(&path, &json!({})).await? {
            Err(error) => Ok(output::refused(&error)),
            Ok(Resumed { resumed }) => {
                let line = match resumed {
                    true => format!("plugin/{name} resumed"),
                    false => format!("plugin/{name} is not in quarantine; nothing to resume"),
                };
                output::to_stdout(|out| writeln!(out, "{line}"))?;
                Ok(Exit::Done)
            }
        })
}

pub(super) fn requeue(args: &RequeueArgs) -> Result<Exit> {
    let path = path(&args.name, "requeue");
    let request = RequeueRequest { key: args.key.clone() };
    args.admin
        .with_client(async |client| match client.post::<Requeued>(&path, &request).await? {
            Err(error) => Ok(output::refused(&error)),
            Ok(done) => {
                output::to_stdout(|out| writeln!(out, "plugin/{} {}", args.name, requeued(done)))?;
                Ok(Exit::Done)
            }
        })
}

fn path(name: &str, verb: &str) -> String {
    let mut path = String::from("/api/v1/plugins/");
    escape(name, b"", &mut path);
    path + "/" + verb
}

fn requeued(done: Requeued) -> String {
    match (done.queued, done.waiting) {
        (0, 0) => "has no dead letters".to_owned(),
        (queued, 0) => format!("requeued: {queued}"),
        (queued, waiting) => format!("requeued: {queued}, already pending: {waiting}"),
    }
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
    plugins
        .iter()
        .flat_map(problems)
        .try_for_each(|line| writeln!(out, "{line}"))
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

/// Shorter calls are not reported as stuck.
const STUCK_MS: u64 = 1_000;

fn problems(plugin: &PluginView) -> Vec<String> {
    let name = &plugin.name;
    let mut lines = Vec::new();
    lines.extend(
        plugin
            .because
            .as_ref()
            .map(|why| format!("{name} is {}: {why}", plugin.state)),
    );
    let Some(loaded) = &plugin.loaded else {
        return lines;
    };
    if let Some(stuck) = loaded.stuck_on.as_ref().filter(|stuck| stuck.for_ms >= STUCK_MS) {
        let object = stuck
            .object
            .as_ref()
            .map_or(String::new(), |object| format!(" of {object}"));
        let (event, time) = (&stuck.event, table::duration(stuck.for_ms));
        lines.push(format!("{name} is stuck on {event}{object} for {time}"));
    }
    if loaded.failing > 0 {
        lines.push(format!(
            "{name} failed on {} objects and is retrying them",
            loaded.failing
        ));
    }
    if let Some(letter) = &loaded.last_dead_letter {
        let (event, object, error) = (&letter.event, &letter.object, &letter.error);
        let age = table::ago(letter.age_ms);
        lines.push(format!(
            "{name} dead-lettered {event} of {object} {age} ago: {error} (all: /api/v1/dead-letters?plugin={name})"
        ));
    }
    let refused = loaded.last_reload.as_ref().and_then(|reload| reload.error.as_ref());
    lines.extend(refused.map(|error| format!("{name} was not reloaded: {error}")));
    lines
}
