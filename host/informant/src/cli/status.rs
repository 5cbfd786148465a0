//! `informant status`: the status of a running daemon: configuration, informers, plugins.

use std::cmp::Reverse;
use std::io::{self, Write};

use anyhow::Result;
use clap::Args;
use informant_cache::SourceState;
use serde::Serialize;

use super::client::AdminArgs;
use super::plugin::{self, Format};
use super::table::{self, SourceColumns};
use super::{Exit, count, in_cluster, output};
use crate::admin::{
    AnnouncementView, CertificateView, ConfigurationView, FailedView, IndexFailuresView, LARGEST_NAMED_MAX,
    NamespaceView, PluginView, Plugins, ProblemView, SourceView, Sources,
};
use crate::runbooks;

/// `informant status`.
#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "table")]
    output: Format,
    #[command(flatten)]
    admin: AdminArgs,
}

#[derive(Debug, Serialize)]
struct Status {
    configuration: ConfigurationView,
    sources: Vec<SourceView>,
    plugins: Vec<PluginView>,
}

pub(super) fn run(args: &StatusArgs) -> Result<Exit> {
    args.admin.with_clients(async |mut clients| {
        let configuration = clients.first.read("/api/v1/configuration").await?;
        let answers = clients.ask(async |client| {
            let sources = client.read::<Sources>("/api/v1/sources").await?.items;
            let plugins = client.read::<Plugins>("/api/v1/plugins").await?.items;
            anyhow::Ok((sources, plugins))
        });
        let answers = answers.await?;
        let exit = answers.warn();
        let parts = answers.into_parts(|parts| parts);
        let (sources, plugins): (Vec<_>, Vec<_>) = parts
            .into_iter()
            .map(|(replica, (sources, plugins))| ((replica.clone(), sources), (replica, plugins)))
            .unzip();
        let status = Status {
            configuration,
            sources: table::of_replicas(sources),
            plugins: plugin::merged(plugins),
        };
        match args.output {
            Format::Json => output::json(&status)?,
            Format::Table => output::to_stdout(|out| status.show(out))?,
        }
        Ok(exit)
    })
}

impl Status {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        show_configuration(out, &self.configuration)?;
        // A pattern has many sources, and what to do is mostly about plugins.
        if !self.plugins.is_empty() {
            writeln!(out)?;
            plugin::show(out, &self.plugins)?;
        }
        if !self.sources.is_empty() {
            writeln!(out)?;
            show_sources(out, &self.sources)?;
            show_largest(out, &self.sources)?;
            show_shed(out, &self.sources)?;
        }
        Ok(())
    }
}

fn show_configuration(out: &mut dyn Write, configuration: &ConfigurationView) -> io::Result<()> {
    let ConfigurationView {
        path, state, age_ms, ..
    } = configuration;
    let ago = table::ago(*age_ms);
    let (status, reason) = match (&configuration.unreadable, &configuration.refused) {
        (Some(unreadable), _) => (
            "unreadable; the previous one stays active".to_owned(),
            unreadable.as_str(),
        ),
        (None, Some(refused)) => (
            format!("refused {ago} ago; the previous one stays active"),
            refused.as_str(),
        ),
        (None, None) if configuration.waiting.is_empty() => (format!("{state} {ago} ago"), ""),
        (None, None) => (format!("partially applied {ago} ago"), ""),
    };
    let hint = runbooks::hint(configuration.code.as_deref());
    output::line(out, &format!("Configuration {path}: {status}{hint}"))?;
    for line in reason.lines() {
        output::line(out, &format!("  {line}"))?;
    }
    for waiting in &configuration.waiting {
        output::line(out, &format!("  [{}] pending: {}", waiting.section, waiting.reason))?;
    }
    if let Some(CertificateView {
        expires,
        problem: Some(problem),
        code,
    }) = &configuration.certificate
    {
        let hint = runbooks::hint(code.as_deref());
        let expires = (expires.as_ref()).map_or("no certificate".to_owned(), |at| format!("expires {at}"));
        let line = format!("The certificate of the admin port has a problem: {problem}; in use: {expires}{hint}");
        output::line(out, &line)?;
    }
    if let Some(ProblemView { message, code }) = &configuration.state_database {
        let hint = runbooks::hint(Some(code));
        output::line(out, &format!("The state database is failing: {message}{hint}"))?;
    }
    if let Some(announcement) = &configuration.announcement {
        show_announcement(out, announcement)?;
    }
    Ok(())
}

/// Nothing outside of a pod: a process there does not announce itself.
fn show_announcement(out: &mut dyn Write, announcement: &AnnouncementView) -> io::Result<()> {
    if let Some(other) = &announcement.other {
        let hint = runbooks::hint(announcement.code.as_deref());
        let line = format!("Two processes act on this configuration: this one and {other}{hint}");
        output::line(out, &line)?;
    }
    if let ("failing", Some(reason)) = (announcement.state.as_str(), &announcement.reason) {
        let line = format!("This process cannot announce itself, so a second one would not be noticed: {reason}");
        output::line(out, &line)?;
    }
    Ok(())
}

fn show_sources(out: &mut dyn Write, sources: &[SourceView]) -> io::Result<()> {
    let columns = SourceColumns::of(sources);
    let rows = sources.iter().map(|source| columns.row(source)).collect();
    table::write_columns(out, &columns.headings("VERSION"), rows)?;
    for source in sources {
        let name = name(source, sources);
        if let Some(why) = &source.reconfiguring {
            let line = format!("{name} is still running its previous configuration: {why}");
            output::line(out, &line)?;
        }
        if let Some(trouble) = &source.trouble {
            let hint = runbooks::hint(source.code.as_deref());
            output::line(out, &format!("{name} is {}: {trouble}{hint}", condition(source)))?;
        } else if let Some(error) = source
            .last_error
            .as_ref()
            .filter(|error| error.age_ms < ERROR_SHOWN_FOR_MS)
        {
            let ago = table::ago(error.age_ms);
            output::line(out, &format!("{name} failed {ago} ago: {}", error.message))?;
        }
        for lacking in &source.index_failures {
            let hint = runbooks::hint(Some(runbooks::INDEX_NOT_READY.code));
            output::line(out, &(index_failures(&name, lacking) + &hint))?;
        }
    }
    Ok(())
}

/// How long the last error of a source that works again is shown: 10 min.
const ERROR_SHOWN_FOR_MS: u64 = 600_000;

/// The memory of all objects from which on `status` names the namespaces that take it.
const MEMORY_SHOWN_MIN_MIB: usize = 32;

/// What takes the memory: the three largest namespaces of all sources.
fn show_largest(out: &mut dyn Write, sources: &[SourceView]) -> io::Result<()> {
    let mebibytes = |bytes: usize| bytes >> 20;
    let sum = mebibytes(sources.iter().map(|source| source.bytes).sum());
    if sum < MEMORY_SHOWN_MIN_MIB {
        return Ok(());
    }
    let of_source = |source: &SourceView| {
        let name = name(source, sources);
        let named = source
            .largest_namespaces
            .iter()
            .map(move |NamespaceView { namespace, bytes }| {
                let which = match namespace.as_str() {
                    "" => name.clone(),
                    namespace => format!("{name}, namespace {namespace}"),
                };
                (Reverse(mebibytes(*bytes)), which)
            });
        named.collect::<Vec<_>>()
    };
    let mut largest: Vec<_> = sources.iter().flat_map(of_source).collect();
    largest.sort_unstable();
    output::line(out, &format!("The objects take {sum} MiB. The largest namespaces:"))?;
    for (Reverse(size), which) in largest
        .iter()
        .filter(|(Reverse(size), _)| *size > 0)
        .take(LARGEST_NAMED_MAX)
    {
        output::line(out, &format!("  {size} MiB: {which}"))?;
    }
    Ok(())
}

/// `all in cluster east`; if the informer has several sources there, `all (v1/pods in web) in cluster east`. With
/// shards, `all on informant-1`.
fn name(source: &SourceView, sources: &[SourceView]) -> String {
    let is_sibling = |other: &&SourceView| {
        other.informer == source.informer && other.cluster == source.cluster && other.replica == source.replica
    };
    let which = match (sources.iter().filter(is_sibling).count(), &source.namespace) {
        (..=1, _) => String::new(),
        (_, None) => format!(" ({})", source.resource),
        (_, Some(namespace)) => format!(" ({} in {namespace})", source.resource),
    };
    let replica = source.replica.as_ref().map(|replica| format!(" on {replica}"));
    let (cluster, replica) = (in_cluster(&source.cluster), replica.unwrap_or_default());
    format!("{}{which}{cluster}{replica}", source.informer)
}

/// `degraded (Forbidden)`; `Syncing` and what comes before it are no degradation yet.
fn condition(source: &SourceView) -> String {
    let state = &source.state;
    if source.id.is_some() && state != SourceState::Syncing.as_str() {
        format!("degraded ({state})")
    } else {
        state.clone()
    }
}

/// The number of objects that an index of a source lacks, and an example with the first line of its error.
fn index_failures(source: &str, lacking: &IndexFailuresView) -> String {
    let objects = count(lacking.failures, "object");
    let text = format!("index {} of {source} is missing {objects}", lacking.index);
    match lacking.failed.first() {
        Some(FailedView { key, message }) => {
            let example = if lacking.failures == 1 { "" } else { "for example " };
            format!("{text}: {example}{key}: {}", message.lines().next().unwrap_or_default())
        }
        None => text,
    }
}

/// What the cache has only the heads of.
fn show_shed(out: &mut dyn Write, sources: &[SourceView]) -> io::Result<()> {
    for source in sources.iter().filter(|source| source.heads > 0) {
        let named = source.shed_namespaces.iter().map(|shed| shed.namespace.as_str());
        let named: Vec<&str> = named.filter(|namespace| !namespace.is_empty()).collect();
        let within = match named.as_slice() {
            [] => String::new(),
            named => format!(", most in {}", named.join(", ")),
        };
        let hint = runbooks::hint(Some(runbooks::CACHE_SHED.code));
        let (name, heads) = (name(source, sources), source.heads);
        let line =
            format!("{name}: the cache has only the metadata of {heads} objects{within}: its budget is reached{hint}");
        output::line(out, &line)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
