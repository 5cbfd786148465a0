//! `informant status`: the status of a running daemon: configuration, informers, plugins.

use std::io::{self, Write};

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::client::{AdminArgs, AdminClient};
use super::plugin::{self, Format};
use super::table::{self, SourceColumns};
use super::{Exit, output};
use crate::admin::{
    AdminError, ConfigurationView, FailedView, IndexFailuresView, PluginView, Plugins, SourceView, Sources,
};

/// `informant status`.
#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "table")]
    output: Format,
    #[command(flatten)]
    admin: AdminArgs,
}

/// The status of a daemon.
#[derive(Debug, Serialize)]
struct Status {
    configuration: ConfigurationView,
    sources: Vec<SourceView>,
    plugins: Vec<PluginView>,
}

pub(super) fn run(args: &StatusArgs) -> Result<Exit> {
    args.admin.with_client(async |client| match Status::of(client).await? {
        Err(error) => Ok(output::refused(&error)),
        Ok(status) => {
            match args.output {
                Format::Json => output::json(&status)?,
                Format::Table => output::to_stdout(|out| status.show(out))?,
            }
            Ok(Exit::Done)
        }
    })
}

impl Status {
    async fn of(client: &mut AdminClient) -> Result<Result<Self, AdminError>> {
        let configuration = match client.read("/api/v1/configuration").await? {
            Ok(configuration) => configuration,
            Err(error) => return Ok(Err(error)),
        };
        let sources: Sources = match client.read("/api/v1/sources").await? {
            Ok(sources) => sources,
            Err(error) => return Ok(Err(error)),
        };
        let plugins: Result<Plugins, AdminError> = client.read("/api/v1/plugins").await?;
        Ok(plugins.map(|plugins| Self {
            configuration,
            sources: sources.items,
            plugins: plugins.items,
        }))
    }

    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        show_configuration(out, &self.configuration)?;
        if !self.sources.is_empty() {
            writeln!(out)?;
            show_sources(out, &self.sources)?;
        }
        if !self.plugins.is_empty() {
            writeln!(out)?;
            plugin::show(out, &self.plugins)?;
        }
        Ok(())
    }
}

fn show_configuration(out: &mut dyn Write, configuration: &ConfigurationView) -> io::Result<()> {
    let ConfigurationView {
        path, state, age_ms, ..
    } = configuration;
    let ago = table::ago(*age_ms);
    let reason = match (&configuration.unreadable, &configuration.refused) {
        (Some(unreadable), _) => {
            writeln!(out, "Configuration {path}: unreadable; the previous one stays active")?;
            unreadable
        }
        (None, Some(refused)) => {
            writeln!(
                out,
                "Configuration {path}: refused {ago} ago; the previous one stays active"
            )?;
            refused
        }
        (None, None) => {
            let state = match configuration.waiting.is_empty() {
                true => state,
                false => "partially applied",
            };
            writeln!(out, "Configuration {path}: {state} {ago} ago")?;
            ""
        }
    };
    for line in reason.lines() {
        writeln!(out, "  {line}")?;
    }
    for waiting in &configuration.waiting {
        writeln!(out, "  [{}] pending: {}", waiting.section, waiting.reason)?;
    }
    Ok(())
}

fn show_sources(out: &mut dyn Write, sources: &[SourceView]) -> io::Result<()> {
    let columns = SourceColumns::of(sources);
    let rows = sources.iter().map(|source| columns.row(source)).collect();
    table::write_columns(out, &columns.headings("VERSION"), rows)?;
    for source in sources {
        let name = match (source.informer.as_str(), source.cluster.as_str()) {
            (name, "") => name.to_owned(),
            (name, cluster) => format!("{name} in cluster {cluster}"),
        };
        if let Some(why) = &source.reconfiguring {
            writeln!(out, "{name} is still running its previous configuration: {why}")?;
        }
        if let Some(trouble) = &source.trouble {
            writeln!(out, "{name} is {}: {trouble}", source.state)?;
        } else if let Some(error) = &source.last_error {
            writeln!(out, "{name} failed {} ago: {}", table::ago(error.age_ms), error.message)?;
        }
        for lacking in &source.index_failures {
            show_index_failures(out, &name, lacking)?;
        }
    }
    Ok(())
}

/// The number of objects that an index of a source lacks, and an example with the first line of its error.
fn show_index_failures(out: &mut dyn Write, source: &str, lacking: &IndexFailuresView) -> io::Result<()> {
    let objects = match lacking.failures {
        1 => "1 object".to_owned(),
        many => format!("{many} objects"),
    };
    write!(out, "index {} of {source} is missing {objects}", lacking.index)?;
    match lacking.failed.first() {
        Some(FailedView { key, message }) => {
            let example = if lacking.failures == 1 { "" } else { "for example " };
            writeln!(out, ": {example}{key}: {}", message.lines().next().unwrap_or_default())
        }
        None => writeln!(out),
    }
}

#[cfg(test)]
mod tests;
