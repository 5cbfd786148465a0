//! `informant plugin list | pause | resume | restart`: inspects and manages the plugins of a running daemon.

mod wide;

pub(super) use wide::bytes;

use std::io::{self, Write};

use anyhow::Result;
use clap::{Args, ValueEnum};
use informant_cache::listener::SUSPECT_SHARE_PERCENT;
use serde_json::json;

use super::client::{AdminArgs, escape};
use super::table::{self, or_dash};
use super::{Exit, count, in_cluster, output};
use crate::admin::{LoadedView, Paused, PluginView, Plugins, Restarted, Resumed, RetryView};
use crate::runbooks;

/// `informant plugin list`.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "table")]
    output: ListFormat,
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
    args.admin.with_client(async |client| {
        let plugins: Plugins = client.read("/api/v1/plugins").await?;
        match args.output {
            ListFormat::Json => output::json(&plugins)?,
            _ if plugins.items.is_empty() => output::note("No plugins."),
            ListFormat::Wide => output::to_stdout(|out| wide::show(out, &plugins.items))?,
            ListFormat::Table => output::to_stdout(|out| show(out, &plugins.items))?,
        }
        Ok(Exit::Done)
    })
}

pub(super) fn pause(NameArgs { name, admin }: &NameArgs) -> Result<Exit> {
    admin.with_client(async |client| {
        let Paused { paused } = client.post(&path(name, "pause"), &json!({})).await?;
        output::done(&match paused {
            true => format!("plugin/{name} paused"),
            false => format!("plugin/{name} is paused already"),
        })
    })
}

pub(super) fn resume(NameArgs { name, admin }: &NameArgs) -> Result<Exit> {
    admin.with_client(async |client| {
        let Resumed { resumed } = client.post(&path(name, "resume"), &json!({})).await?;
        output::done(&match resumed {
            true => format!("plugin/{name} resumed"),
            false => {
                format!("plugin/{name} is neither paused nor in quarantine, and no call is spaced; nothing to resume")
            }
        })
    })
}

pub(super) fn restart(NameArgs { name, admin }: &NameArgs) -> Result<Exit> {
    admin.with_client(async |client| {
        let Restarted { paused } = client.post(&path(name, "restart"), &json!({})).await?;
        output::done(&match paused {
            false => format!("plugin/{name} restarted"),
            true => format!("plugin/{name} is paused, and gets a new instance when it is resumed"),
        })
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

/// The keys under retry, and those of them that failed first.
fn retries(plugin: &PluginView, loaded: &LoadedView) -> Vec<String> {
    let name = &plugin.name;
    if loaded.failing == 0 {
        return Vec::new();
    }
    let objects = count(loaded.failing, "object");
    if loaded.paused || plugin.state == "quarantined" {
        return vec![format!("{name} failed on {objects}; it retries when it is resumed")];
    }
    let hint = match loaded.failing > loaded.retries.len() {
        true => format!(" (`informant plugin retries {name}` lists all)"),
        false => String::new(),
    };
    let runbook = runbooks::hint(Some(runbooks::EVENTS_STUCK.code));
    let mut lines = vec![format!("{name} failed on {objects} and is retrying{hint}{runbook}")];
    lines.extend(loaded.retries.iter().map(retry));
    lines
}

/// `v1/pods default/web-0`; the key alone if the source is gone.
fn object(resource: &str, key: &str) -> String {
    match resource {
        "" => key.to_owned(),
        resource => format!("{resource} {key}"),
    }
}

fn retry(retry: &RetryView) -> String {
    let object = match (&retry.timer, &retry.object) {
        (Some(timer), _) => format!("timer {timer}"),
        (None, Some(key)) => format!("{} of {}", retry.event, object(&retry.resource, key)),
        (None, None) => format!("{} of all objects", retry.event),
    };
    let cluster = in_cluster(&retry.cluster);
    let (attempts, age) = (retry.attempts, table::duration(retry.age_ms));
    let attempts = count(attempts, "attempt");
    let next = match retry.next_ms {
        // The limit of retries, or a call that runs, holds it.
        0 => "when it is its turn".to_owned(),
        wait => format!("in {}", table::duration(wait)),
    };
    let error = retry.error.lines().next().unwrap_or_default();
    format!("  {object}{cluster}: {attempts} in {age}, next {next}: {error}")
}

/// The objects whose requeues are spaced, and the first of them.
fn slowed(plugin: &PluginView, loaded: &LoadedView) -> Vec<String> {
    let name = &plugin.name;
    if loaded.slowed == 0 {
        return Vec::new();
    }
    let objects = count(loaded.slowed, "object");
    let head = format!(
        "{name} keeps asking for calls for {objects} without a change; at least 10s pass between them: let it return a longer delay, or none"
    );
    let first = loaded.slowed_objects.iter().map(|slowed| {
        let (object, cluster) = (object(&slowed.resource, &slowed.object), in_cluster(&slowed.cluster));
        let (requeues, next) = (slowed.requeues, table::duration(slowed.next_ms));
        format!("  {object}{cluster}: {requeues} calls in a row, next in {next}")
    });
    std::iter::once(head).chain(first).collect()
}

/// The namespaces whose objects crashed the plugin or held it up, and what waits for that.
fn suspects(plugin: &PluginView, loaded: &LoadedView) -> Option<String> {
    let first = loaded.suspect_namespaces.join(", ");
    let rest = match loaded.suspects.saturating_sub(loaded.suspect_namespaces.len()) {
        _ if loaded.suspects == 0 => return None,
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    let waiting = match loaded.suspect {
        0 => String::new(),
        1 => "; 1 object waits".to_owned(),
        many => format!("; {many} objects wait"),
    };
    let hint = runbooks::hint(Some(runbooks::EVENTS_STUCK.code));
    let (name, share) = (&plugin.name, SUSPECT_SHARE_PERCENT);
    Some(format!(
        "{name} crashed on or waited for objects of {first}{rest}; their calls get at most {share}% of its time{waiting}{hint}"
    ))
}

/// The deferred writes that wait, whether the API server asked for that, and the keys that are spaced.
fn writes(plugin: &PluginView, loaded: &LoadedView) -> Vec<String> {
    let name = &plugin.name;
    let mut lines = Vec::new();
    if loaded.writes_waiting > 0 {
        let events = count(loaded.writes_waiting_events, "event");
        let waiting = match loaded.writes_waiting {
            1 => format!("1 deferred write waits ({events})"),
            many => format!("{many} deferred writes wait ({events})"),
        };
        let pause = loaded.writes_paused_ms.map(table::duration);
        let pause = pause.map_or(String::new(), |pause| {
            format!("; the API server asked for a pause of {pause}")
        });
        lines.push(format!("{name}: {waiting}{pause}"));
    }
    if loaded.writes_spaced == 0 {
        return lines;
    }
    let objects = count(loaded.writes_spaced, "object");
    lines.push(format!(
        "{name} writes again and again when called for {objects}; calls are spaced: let it compare before it writes"
    ));
    lines.extend(loaded.writes_spaced_keys.iter().map(|key| {
        let (object, cluster) = (object(&key.resource, &key.object), in_cluster(&key.cluster));
        let (target, wait) = (&key.target, table::duration(key.wait_ms));
        format!("  {object}{cluster}: writes to {target}, {wait} between calls")
    }));
    lines
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

/// Shorter calls are not reported as stuck.
const STUCK_MS: u64 = 1_000;

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
    let Some(loaded) = &plugin.loaded else {
        return lines;
    };
    if let Some(stuck) = loaded.stuck_on.as_ref().filter(|stuck| stuck.for_ms >= STUCK_MS) {
        let object = stuck.object.as_ref().map_or(String::new(), |key| {
            format!(" of {}{}", object(&stuck.resource, key), in_cluster(&stuck.cluster))
        });
        let (event, time) = (&stuck.event, table::duration(stuck.for_ms));
        let hint = runbooks::hint(Some(runbooks::EVENTS_STUCK.code));
        lines.push(format!("{name} is stuck on {event}{object} for {time}{hint}"));
    }
    if loaded.dry_run {
        lines.push(format!(
            "{name} is in dry run: what it would change is withheld (`informant plugin effects {name}` lists it)"
        ));
    }
    lines.extend(retries(plugin, loaded));
    if loaded.spaced > 0 {
        let objects = count(loaded.spaced, "object");
        lines.push(format!(
            "{name}: events of {objects} wait for the end of `min-interval`"
        ));
    }
    if loaded.waiting > 0 {
        let objects = count(loaded.waiting, "object");
        lines.push(format!(
            "{name}: events of {objects} wait for a source or an index that was not ready"
        ));
    }
    lines.extend(suspects(plugin, loaded));
    if loaded.rate_held {
        lines.push(format!("{name}: events wait for `max-rate`"));
    }
    if loaded.requeues > 0 {
        let objects = count(loaded.requeues, "object");
        lines.push(format!(
            "{name} will be called for {objects} without a change: requeued or triggered"
        ));
    }
    lines.extend(slowed(plugin, loaded));
    lines.extend(writes(plugin, loaded));
    lines.extend(loaded.closed_hosts.iter().map(|closed| {
        let (host, left) = (&closed.host, table::duration(closed.left_ms));
        let hint = runbooks::hint(Some(runbooks::HTTP_HOST_CLOSED.code));
        format!("{name}: {host} asked for a pause and is closed for {left}{hint}")
    }));
    if let Some(letter) = &loaded.last_dead_letter {
        let object = object(&letter.resource, &letter.object);
        let (event, error) = (&letter.event, &letter.error);
        let cluster = in_cluster(&letter.cluster);
        let age = table::ago(letter.age_ms);
        let them = match loaded.dead_letters {
            ..=1 => "it".to_owned(),
            many => format!("all {many}, `informant plugin dead-letters {name}` lists them"),
        };
        lines.push(format!(
            "{name} dead-lettered {event} of {object}{cluster} {age} ago: {error} (`informant plugin requeue {name} --all` redelivers {them}; `informant explain {}`)",
            runbooks::DEAD_LETTERS.code
        ));
    }
    lines.extend(
        loaded
            .compiling
            .as_ref()
            .map(|what| format!("{name} has a new version: {what}")),
    );
    let refused = loaded.last_reload.as_ref().and_then(|reload| reload.error.as_ref());
    let hint = runbooks::hint(Some(runbooks::PLUGIN_NOT_RELOADED.code));
    lines.extend(refused.map(|error| format!("{name} was not reloaded: {error}{hint}")));
    lines
}
