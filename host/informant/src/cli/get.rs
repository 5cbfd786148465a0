//! `informant get`: objects from the cache of a running daemon, printed like kubectl does; and `informant get sources`.

mod freshness;
mod line;
mod print;
mod sources;
mod wide;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use informant_object::LabelSelector;

use super::client::{AdminArgs, ObjectLines};
use super::{Exit, count, output};
use crate::admin::{AbsentFields, Freshness};
use print::{Printer, Style};

/// The resource name that lists sources instead of objects.
const SOURCES: &str = "sources";

/// `informant get`.
#[derive(Debug, Args)]
pub(super) struct GetArgs {
    /// Informer name, or a resource that one informer watches: pods, v1/pods, Pod; or `sources`, for the status of each
    /// source
    #[arg(value_parser = Target::parse)]
    resource: Target,
    /// Show only the object of this name, also written RESOURCE/NAME; with `sources`, only this informer's sources
    name: Option<String>,
    /// Show only objects in this namespace [default: all]
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    namespace: Option<String>,
    /// Show objects in all namespaces (the default; accepted for compatibility with kubectl)
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Show only objects in these clusters, named as in [cluster.NAME], separated by commas [default: all of the
    /// informer's]
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "all_clusters")]
    cluster: Vec<String>,
    /// Show objects in all clusters of the informer (the default)
    #[arg(long)]
    all_clusters: bool,
    /// Show only objects with this value in this index
    #[arg(long, value_name = "NAME=VALUE", value_parser = index_and_value)]
    index: Option<(String, String)>,
    /// Show only objects whose labels match: app=web,tier!=db,env in (a,b),!canary
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selector)]
    selector: Option<String>,
    /// Wait up to 10s until the cache has seen this resource version, for example the one that your own write returned
    #[arg(long, value_name = "VERSION")]
    at_least: Option<String>,
    /// Fail if a cluster, namespace or kind of the informer is not synced [default: show the others, and warn]
    #[arg(long)]
    require_all: bool,
    /// Show the data of Secrets, not only keys and sizes; needs a daemon that authenticates, and the right to read them
    #[arg(long)]
    show_secrets: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "table")]
    output: Format,
    /// Omit the table's header row
    #[arg(long)]
    no_headers: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What is shown: `pods`, `apps/v1/deployments`, `pods/web`, `v1/pods/web` or `apps/v1/deployments/web`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    resource: String,
    name: Option<String>,
}

impl Target {
    fn parse(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        // The core group has no name, and one version.
        let of_resource = match parts[..] {
            ["v1", ..] => 2,
            [_] | [_, _] => 1,
            _ => 3,
        };
        let (resource, name) = parts.split_at(of_resource.min(parts.len()));
        let name = match name {
            [] => None,
            [name] if !name.is_empty() => Some((*name).to_owned()),
            _ => return Err("write RESOURCE or RESOURCE/NAME, for example pods/web or apps/v1/deployments/web".into()),
        };
        Ok(Self {
            resource: resource.join("/"),
            name,
        })
    }
}

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// NAMESPACE, NAME and AGE.
    Table,
    /// More columns: those of kubectl, or version and labels for kinds that kubectl has none for.
    Wide,
    /// One object, or a List.
    Json,
    /// One object, or a List.
    Yaml,
    /// kind/name, to pass to other commands.
    Name,
}

fn index_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE, for example image=nginx:1.25".to_owned()),
    }
}

/// Validated here too, so that an error is one of the command line.
fn selector(text: &str) -> Result<String, String> {
    match LabelSelector::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn run(args: &GetArgs) -> Result<Exit> {
    let Target { resource, name } = &args.resource;
    if let (Some(first), Some(second)) = (name, &args.name) {
        bail!("two names, {first} and {second}: write {resource}/{first} or {resource} {second}");
    }
    if resource == SOURCES {
        return sources::run(args);
    }
    let clusters = args.cluster.join(",");
    args.admin
        .with_client(async |client| show(args, client.get(resource, &args.query(&clusters)).await?).await)
}

impl GetArgs {
    fn name(&self) -> Option<&str> {
        self.name.as_deref().or(self.resource.name.as_deref())
    }

    fn query<'a>(&'a self, clusters: &'a str) -> Vec<(&'static str, &'a str)> {
        let index = self.index.as_ref();
        let all = [
            ("namespace", self.namespace.as_deref()),
            ("name", self.name()),
            ("index", index.map(|(name, _)| name.as_str())),
            ("value", index.map(|(_, value)| value.as_str())),
            ("selector", self.selector.as_deref()),
            ("cluster", (!clusters.is_empty()).then_some(clusters)),
            ("at-least", self.at_least.as_deref()),
            ("require-all", self.require_all.then_some("true")),
            ("show-secrets", self.show_secrets.then_some("true")),
            ("envelope", Some("true")),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }

    fn style(&self, fresh: &[Freshness], absent: AbsentFields) -> Style {
        Style {
            absent,
            format: self.output,
            one_alone: self.name().is_some(),
            with_cluster: freshness::clusters(fresh) == freshness::Count::Several,
            with_namespace: self.namespace.is_none(),
            with_kind: freshness::resources(fresh) == freshness::Count::Several,
            with_headings: !self.no_headers,
        }
    }
}

fn index_warning(index: &str, objects: u64) -> Option<String> {
    let them = match objects {
        0 => return None,
        1 => "it",
        _ => "them",
    };
    let lacking = count(objects, "object");
    Some(format!(
        "warning: index {index} is missing {lacking}, because its function failed on {them}; see `informant status`"
    ))
}

async fn show(args: &GetArgs, mut answer: ObjectLines) -> Result<Exit> {
    let fresh = answer.freshness()?;
    let missing = answer.missing_sources()?;
    for warning in freshness::missing(&missing)
        .into_iter()
        .chain(freshness::warnings(&fresh))
    {
        output::note(&warning);
    }
    if let Some(warning) = args
        .index
        .as_ref()
        .and_then(|(index, _)| index_warning(index, answer.index_failures()))
    {
        output::note(&warning);
    }
    let mut printer = Printer::new(args.style(&fresh, answer.absent_fields()?));
    while let Some(line) = answer.next_line().await? {
        if !printer.object(&line)? {
            return Ok(Exit::Done);
        }
    }
    let printed = printer.finish()?;
    if matches!(args.output, Format::Table | Format::Wide) {
        if printed == 0 {
            let place = args
                .namespace
                .as_ref()
                .map_or(String::new(), |namespace| format!(" in {namespace} namespace"));
            output::note(&format!("No resources found{place}."));
        }
        output::note(&freshness::summary(&fresh));
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_resources_of_one_to_three_parts() {
        let parsed = |text: &str| Target::parse(text).map(|target| (target.resource, target.name));
        for (text, resource, name) in [
            ("pods", "pods", None),
            ("v1/pods", "v1/pods", None),
            ("apps/v1/deployments", "apps/v1/deployments", None),
            ("example.com/stable/*", "example.com/stable/*", None),
            ("pods/web", "pods", Some("web")),
            ("v1/pods/web", "v1/pods", Some("web")),
            ("apps/v1/deployments/web", "apps/v1/deployments", Some("web")),
        ] {
            assert_eq!(
                parsed(text),
                Ok((resource.to_owned(), name.map(str::to_owned))),
                "{text}"
            );
        }
        for text in ["pods/", "v1/pods/a/b", "apps/v1/deployments/a/b"] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }
}
