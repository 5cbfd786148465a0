//! `informant get`: objects out of the cache of a running daemon, as kubectl shows them.

mod print;
mod table;

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::client::{AdminArgs, Answer};
use super::{Exit, output};
use print::Printer;

/// `informant get`.
#[derive(Debug, Args)]
pub(super) struct GetArgs {
    /// An informer's name, or a resource that one informer watches: pods, v1/pods, Pod
    resource: String,
    /// Only objects of this name
    name: Option<String>,
    /// Only objects of this namespace [default: all]
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    namespace: Option<String>,
    /// Objects of all namespaces, which is the default; kubectl's habit
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Only objects that this index finds under this value
    #[arg(long, value_name = "NAME=VALUE", value_parser = index_and_value)]
    index: Option<(String, String)>,
    /// Only objects whose labels match
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
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
    /// One object, or a List of them.
    Json,
    /// kind/name, for other commands.
    Name,
}

fn index_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE, as in image=nginx:1.27".to_owned()),
    }
}

pub(super) fn run(args: &GetArgs) -> Result<Exit> {
    args.admin.ask(
        async |client| match client.get(&args.resource, &questions(args)).await? {
            Ok(answer) => show(args, answer).await,
            Err(error) => Ok(output::refused(&error)),
        },
    )
}

fn questions(args: &GetArgs) -> Vec<(&'static str, &str)> {
    let index = args.index.as_ref();
    let all = [
        ("namespace", args.namespace.as_deref()),
        ("name", args.name.as_deref()),
        ("index", index.map(|(name, _)| name.as_str())),
        ("value", index.map(|(_, value)| value.as_str())),
        ("selector", args.selector.as_deref()),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

async fn show(args: &GetArgs, mut answer: Answer) -> Result<Exit> {
    if let Some(trouble) = answer.states().find(|state| *state != "Live") {
        let version = answer.fresh_as_of();
        output::note(&format!(
            "warning: the watch is {trouble}: this is the state of version {version} and may be old"
        ));
    }
    let mut printer = Printer::new(
        args.output,
        args.name.is_some(),
        args.namespace.is_none(),
        !args.no_headers,
    );
    while let Some(line) = answer.next_line().await? {
        if !printer.object(&line)? {
            return Ok(Exit::Done);
        }
    }
    if printer.finish()? == 0 && args.output == Format::Table {
        let place = args
            .namespace
            .as_ref()
            .map_or(String::new(), |namespace| format!(" in {namespace} namespace"));
        output::note(&format!("No resources found{place}."));
    }
    Ok(Exit::Done)
}
