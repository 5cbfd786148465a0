//! `informant get`: objects out of the cache of a running daemon, as kubectl shows them; and `informant get sources`.

mod freshness;
mod line;
mod print;
mod sources;
mod table;
mod wide;
mod yaml;

use anyhow::Result;
use clap::{Args, ValueEnum};
use informant_object::LabelSelector;

use super::client::{AdminArgs, Answer};
use super::{Exit, output};
use crate::admin::Freshness;
use print::{Printer, Style};

/// What is asked for to see sources in place of objects.
const SOURCES: &str = "sources";

/// `informant get`.
#[derive(Debug, Args)]
pub(super) struct GetArgs {
    /// An informer's name, or a resource that one informer watches: pods, v1/pods, Pod; or `sources`, how each source
    /// fares
    resource: String,
    /// Only objects of this name; of sources, only this informer's
    name: Option<String>,
    /// Only objects of this namespace [default: all]
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    namespace: Option<String>,
    /// Objects of all namespaces, which is the default; kubectl's habit
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Only objects of this cluster, as in [cluster.NAME]; several are separated by commas [default: all of the
    /// informer's]
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "all_clusters")]
    cluster: Vec<String>,
    /// Objects of all clusters of the informer, which is the default
    #[arg(long)]
    all_clusters: bool,
    /// Only objects that this index finds under this value
    #[arg(long, value_name = "NAME=VALUE", value_parser = index_and_value)]
    index: Option<(String, String)>,
    /// Only objects whose labels match: app=web,tier!=db,env in (a,b),!canary
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selector)]
    selector: Option<String>,
    /// Waits, for at most 10s, until the cache has seen this resource version, as the answer to one's own write names
    /// it
    #[arg(long, value_name = "VERSION")]
    at_least: Option<String>,
    /// How they are shown
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "table")]
    output: Format,
    /// Leaves the table's headings out
    #[arg(long)]
    no_headers: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// How objects are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// NAMESPACE, NAME and AGE.
    Table,
    /// More columns: what the kind is known by, or version and labels.
    Wide,
    /// One object, or a List of them.
    Json,
    /// One object, or a List of them.
    Yaml,
    /// kind/name, for other commands.
    Name,
}

fn index_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE, as in image=nginx:1.27".to_owned()),
    }
}

/// Judged here already, so that a mistake is one of the command line.
fn selector(text: &str) -> Result<String, String> {
    match LabelSelector::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn run(args: &GetArgs) -> Result<Exit> {
    if args.resource == SOURCES {
        return sources::run(args);
    }
    let clusters = args.cluster.join(",");
    args.admin.ask(
        async |client| match client.get(&args.resource, &args.questions(&clusters)).await? {
            Ok(answer) => show(args, answer).await,
            Err(error) => Ok(output::refused(&error)),
        },
    )
}

impl GetArgs {
    fn questions<'a>(&'a self, clusters: &'a str) -> Vec<(&'static str, &'a str)> {
        let index = self.index.as_ref();
        let all = [
            ("namespace", self.namespace.as_deref()),
            ("name", self.name.as_deref()),
            ("index", index.map(|(name, _)| name.as_str())),
            ("value", index.map(|(_, value)| value.as_str())),
            ("selector", self.selector.as_deref()),
            ("cluster", (!clusters.is_empty()).then_some(clusters)),
            ("at-least", self.at_least.as_deref()),
            ("envelope", Some("true")),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }

    fn style(&self, fresh: &[Freshness]) -> Style {
        Style {
            format: self.output,
            one_alone: self.name.is_some(),
            with_cluster: freshness::clusters(fresh) == freshness::HowMany::Several,
            with_namespace: self.namespace.is_none(),
            with_kind: freshness::resources(fresh) == freshness::HowMany::Several,
            with_headings: !self.no_headers,
        }
    }
}

/// What to say when the index lacks objects.
fn lacking(index: &str, objects: u64) -> Option<String> {
    let (subject, them) = match objects {
        0 => return None,
        1 => ("1 object is".to_owned(), "it"),
        many => (format!("{many} objects are"), "them"),
    };
    Some(format!(
        "warning: {subject} not in index {index}, whose function failed on {them}: `informant status` says why"
    ))
}

async fn show(args: &GetArgs, mut answer: Answer) -> Result<Exit> {
    let fresh = answer.freshness()?;
    for warning in freshness::warnings(&fresh) {
        output::note(&warning);
    }
    if let Some(warning) = args
        .index
        .as_ref()
        .and_then(|(index, _)| lacking(index, answer.index_failures()))
    {
        output::note(&warning);
    }
    let mut printer = Printer::new(args.style(&fresh));
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
        output::note(&freshness::said(&fresh));
    }
    Ok(Exit::Done)
}
